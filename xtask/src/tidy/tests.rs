//! Each rule about files can fail, and does not fail where it should not.

use std::path::Path;

use super::*;

fn rust(path: &str, text: &str) -> Vec<String> {
    rust_file(path, text).iter().map(ToString::to_string).collect()
}

fn rules(text: &str) -> Vec<String> {
    rust("a.rs", &format!("//! Doc.\n{text}"))
}

#[test]
fn a_tidy_file_passes() {
    assert!(rust("crates/a/src/b.rs", "//! Doc.\n\nfn f() {}\n").is_empty());
}

#[test]
fn a_file_without_a_module_doc_is_found() {
    assert!(rust("a.rs", "fn f() {}\n")[0].starts_with("a.rs: must begin with `//!`"));
}

#[test]
fn long_files_are_found_and_tests_may_be_longer() {
    let of = |lines: usize| format!("//! Doc.\n{}", "\n".repeat(lines - 1));
    assert!(rust("src/a.rs", &of(400)).is_empty());
    assert_eq!(rust("src/a.rs", &of(401)), ["src/a.rs: 401 lines, at most 400: split it by subject"]);
    for path in ["src/a/tests.rs", "src/a/tests/b.rs", "tests/golden/c.rs"] {
        assert!(rust(path, &of(700)).is_empty(), "{path}");
        assert_eq!(rust(path, &of(701)).len(), 1, "{path}");
    }
}

#[test]
fn one_file_may_be_unsafe_and_only_that() {
    let text = "//! Doc.\nunsafe impl A for B {}\n";
    assert!(rust("crates/heap/src/allocator.rs", text).is_empty());
    for path in ["crates/heap/src/recorder.rs", "crates/agent/src/allocator.rs"] {
        assert_eq!(rust(path, text).len(), 1, "{path}");
    }
    assert_eq!(rust("crates/heap/src/allocator.rs", "//! Doc.\ndbg!(1);\n").len(), 1);
}

#[test]
fn mod_rs_is_found() {
    assert!(rust("src/a/mod.rs", "//! Doc.\n")[0].starts_with("src/a/mod.rs: no mod.rs"));
}

#[test]
fn promises_in_comments_are_found() {
    assert_eq!(rules("// TODO: later\n"), ["a.rs:2: TODO in a comment: do it, or open an issue"]);
    assert_eq!(rules("/* a\n FIXME */\n").len(), 1);
    assert_eq!(rules("fn f() {} // XXX\n").len(), 1);
    assert!(rules("// KUBE-SVC-XXXXXXXXXXXXXXXX\n").is_empty());
    assert!(rules("const A: &str = \"TODO\";\n").is_empty());
}

#[test]
fn banned_words_are_found_in_code_only() {
    assert!(rules("unsafe { f() }\n")[0].starts_with("a.rs:2: unsafe: "));
    assert_eq!(rules("fn f() { dbg!(1); }\n").len(), 1);
    assert_eq!(rules("#[ignore]\n").len(), 1);
    assert_eq!(rules("#[ignore = \"slow\"]\n").len(), 1);
    assert!(rules("// unsafe would do\n").is_empty());
    assert!(rules("const A: &str = r#\"unsafe \"dbg!\"\"#;\n").is_empty());
    assert!(rules("#![deny(unsafe_code)]\n").is_empty());
}

#[test]
fn strings_characters_and_lifetimes_do_not_hide_code() {
    assert_eq!(rules("let a = '\"'; unsafe {}\n").len(), 1);
    assert_eq!(rules("let a = '\\''; unsafe {}\n").len(), 1);
    assert_eq!(rules("fn f<'a>(x: &'a str) { unsafe {} }\n").len(), 1);
    assert_eq!(rules("let a = \"\\\\\"; unsafe {}\n").len(), 1);
    assert_eq!(rules("let a = \"// no comment\"; unsafe {}\n").len(), 1);
    assert_eq!(rules("/* a /* b */ c */ unsafe {}\n").len(), 1);
    assert_eq!(rules("let a = br##\"x\"# y\"##; unsafe {}\n").len(), 1);
}

#[test]
fn a_manifest_without_the_shared_lints_is_found() {
    assert!(manifest("a/Cargo.toml", "[package]\n[lints]\nworkspace = true\n").is_empty());
    for text in ["[package]\n", "[lints]\n[dependencies]\nworkspace = true\n", "[lints.rust]\nx = 1\n"] {
        assert_eq!(manifest("a/Cargo.toml", text).len(), 1, "{text}");
    }
}

fn linked(text: &str) -> Vec<String> {
    let read = |path: &Path| (path == Path::new("crates/a.rs")).then(|| "fn that_holds() {}".to_owned());
    document("docs/a.md", text, &read).iter().map(ToString::to_string).collect()
}

#[test]
fn links_that_lead_somewhere_pass() {
    assert!(linked("[a](../crates/a.rs) [b](https://example.com/x) [c](#part)").is_empty());
    assert!(linked("[`tests::that_holds`](../crates/a.rs#L1)").is_empty());
    assert!(linked("```\n[a](nowhere)\n```").is_empty());
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    assert_eq!(linked("x\n[a](crates/a.rs)"), ["docs/a.md:2: the link to crates/a.rs leads nowhere"]);
}

#[test]
fn a_test_that_was_renamed_is_found() {
    assert_eq!(linked("[`that_held`](../crates/a.rs)"), ["docs/a.md:1: ../crates/a.rs has no that_held"]);
}

#[test]
fn a_translation_stays_in_step() {
    let original = "# A\n[z](README.zh.md) `x` [b](b.md) `y`\n```console\n# do it  # now\n```\n| a | b |\n";
    let findings = |text: &str| -> Vec<String> {
        translation("README.zh.md", text, original).iter().map(ToString::to_string).collect()
    };
    let good = "# 甲\n[乙](b.md)，`y`，`x`\n```console\n# do it      # 现在\n```\n| 甲 | 乙 |\n";
    assert!(findings(good).is_empty(), "{:?}", findings(good));
    for (from, to, complaint) in [
        ("# 甲\n", "", "`a row of 3` here, and `#` there"),
        ("| 甲 | 乙 |", "| 甲 |", "`a row of 2` here"),
        ("(b.md)", "(c.md)", "less than the original: link `b.md` is missing"),
        ("`y`，", "", "less than the original: name in code style `y`"),
        ("`y`，", "`y`，`w`", "more than the original: name in code style `w`"),
        ("do it", "do that", "line of commands `# do that` here, and `# do it` there"),
    ] {
        let found = findings(&good.replacen(from, to, 1));
        assert!(found.iter().any(|finding| finding.contains(complaint)), "{from}: {found:?}");
    }
}
