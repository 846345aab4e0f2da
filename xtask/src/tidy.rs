//! Rules about files that neither the compiler nor clippy checks.
//!
//! In: a path and its text. Out: findings, in the order of the lines. No file is read here.

mod links;
mod parts;
#[cfg(test)]
mod tests;
mod translation;

use crate::finding::Finding;
pub(crate) use links::document;
pub(crate) use translation::translation;

/// What fits into a reader's head; a longer file has two subjects.
const LINES: usize = 400;
/// Tables of cases may be longer.
const LINES_OF_TESTS: usize = 700;

/// Promises that nobody keeps. An issue is the place for them.
const PROMISES: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Words of code that must not be there, each with the reason.
const BANNED: [(&str, &str); 3] = [
    ("unsafe", "no unsafe code here; find a crate that offers it safely"),
    ("dbg!", "left over from debugging; log it or remove it"),
    ("#[ignore", "a test that cannot run says why and skips; see CONTRIBUTING.md"),
];

/// The one file that may hold what the compiler cannot check, because an allocator cannot be written without; see
/// docs/adr/0010-own-heap-profiles.md.
const MAY_BE_UNSAFE: &str = "crates/heap/src/allocator.rs";

/// All rules for one Rust file.
pub(crate) fn rust_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.ends_with("/mod.rs") {
        findings.push(Finding::of(path, "no mod.rs: a module `foo` is foo.rs, its children are in foo/"));
    }
    if !text.starts_with("//!") {
        findings.push(Finding::of(path, "must begin with `//!`: what goes in, what comes out, invariants"));
    }
    findings.extend(too_long(path, text));
    findings.extend(words(path, text));
    findings
}

/// All rules for one `Cargo.toml` of a crate.
pub(crate) fn manifest(path: &str, text: &str) -> Vec<Finding> {
    let lints: Vec<&str> = text.lines().skip_while(|line| line.trim() != "[lints]").skip(1).collect();
    let shared =
        lints.iter().take_while(|line| !line.starts_with('[')).any(|line| line.trim() == "workspace = true");
    if shared {
        Vec::new()
    } else {
        vec![Finding::of(path, "must have `[lints]` with `workspace = true`, or the lints do not hold here")]
    }
}

fn too_long(path: &str, text: &str) -> Option<Finding> {
    let limit = if is_test(path) { LINES_OF_TESTS } else { LINES };
    let lines = text.lines().count();
    (lines > limit).then(|| Finding::of(path, format!("{lines} lines, at most {limit}: split it by subject")))
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests" || part == "golden")
}

fn words(path: &str, text: &str) -> Vec<Finding> {
    let parts = parts::split(text);
    let promises = parts.comments.lines().enumerate().flat_map(|(index, line)| {
        PROMISES.iter().filter(move |word| has_word(line, word)).map(move |word| {
            Finding::at(path, index + 1, format!("{word} in a comment: do it, or open an issue"))
        })
    });
    let banned = parts.code.lines().enumerate().flat_map(|(index, line)| {
        BANNED
            .iter()
            .filter(move |(word, _)| has_word(line, word) && !(*word == "unsafe" && path == MAY_BE_UNSAFE))
            .map(move |(word, why)| Finding::at(path, index + 1, format!("{word}: {why}")))
    });
    promises.chain(banned).collect()
}

/// Whether the word stands alone in the line, not inside a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(in_name) && !after.is_some_and(in_name)
    })
}
