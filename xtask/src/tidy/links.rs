//! Links in Markdown files lead to files that exist, and to the names that they promise.
//!
//! In: a document, and a way to read other files. Out: findings. A link whose text is a name in code style and whose
//! target is a Rust file, like [`committing_twice`](…/tests.rs), must find that name in the file: documents name the
//! tests that prove their claims, and tests get renamed. Links to the web are not followed.

use std::path::{Component, Path, PathBuf};

use crate::finding::Finding;

/// All rules for one document. `read` gives a file's text, or nothing if there is no such file.
pub(crate) fn document(path: &str, text: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let mut in_code = false;
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let broken = links(line).filter_map(|(text, target)| broken(path, text, target, read));
            findings.extend(broken.map(|rule| Finding::at(path, index + 1, rule)));
        }
    }
    findings
}

/// The links of a line: `[text](target)`.
pub(super) fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices("](").filter_map(|(at, _)| {
        let (before, after) = (line.get(..at)?, line.get(at + 2..)?);
        let text = before.rsplit_once('[')?.1;
        let (target, _) = after.split_once(')')?;
        Some((text, target))
    })
}

fn broken(
    document: &str,
    text: &str,
    target: &str,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Option<String> {
    let (file, _) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return None;
    }
    let Some(content) = read(&resolve(document, file)) else {
        return Some(format!("the link to {target} leads nowhere"));
    };
    let name = text.strip_prefix('`')?.strip_suffix('`')?.rsplit("::").next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let promised = file.ends_with(".rs") && is_name;
    (promised && !content.contains(name)).then(|| format!("{file} has no {name}"))
}

/// A target relative to the directory of its document, without `.` and `..`.
fn resolve(document: &str, target: &str) -> PathBuf {
    let joined = Path::new(document).parent().unwrap_or(Path::new("")).join(target);
    let mut path = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(part) => path.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}
