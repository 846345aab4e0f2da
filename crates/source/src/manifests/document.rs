//! The documents of one file.
//!
//! In: text. Out: one JSON value per document, and what is wrong with the documents that cannot be read.
//!
//! Documents are cut apart at `---` lines before any is parsed, so that a broken one does not take the rest of the file
//! along. YAML forbids such a line inside of a document, so the cut is always right.

use serde_json::Value;

use crate::convert::clip;

/// Parser events of one document. The size of the file is limited already; this only keeps the limit for small configs
/// from hitting large lists.
const MAX_EVENTS: usize = 50_000_000;
/// Aliases that a document may use, and what they may expand to in total.
const MAX_ALIASES: usize = 10_000;
const MAX_REPLAYED_EVENTS: usize = 200_000;

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Documents {
    /// The documents that could be read, with the line on which each starts.
    pub(super) values: Vec<(usize, Value)>,
    /// What is wrong with the others.
    pub(super) broken: Vec<String>,
}

/// Reads all documents of a text.
pub(super) fn read(text: &str) -> Documents {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{')
        && let Some(values) = json(text)
    {
        return Documents { values, broken: Vec::new() };
    }
    let mut documents = Documents::default();
    for (line, text) in split(text) {
        match yaml(text) {
            Ok(Value::Null) => {}
            Ok(value) => documents.values.push((line, value)),
            Err(problem) => {
                documents.broken.push(format!("the document at line {line} is not valid YAML: {problem}"));
            }
        }
    }
    documents
}

/// JSON documents, one after another; nothing if the text is not JSON (it may still be YAML in JSON's clothes).
fn json(text: &str) -> Option<Vec<(usize, Value)>> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    Some(values.ok()?.into_iter().map(|value| (1, value)).collect())
}

fn yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: MAX_EVENTS,
            max_nodes: MAX_EVENTS,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED_EVENTS },
        strict_booleans: true,
    };
    let result = serde_saphyr::from_str_with_options::<Value>(text, options);
    result.map_err(|error| clip(&error.without_snippet().to_string().replace('\n', " ")))
}

/// Cuts a text at its `---` lines. Pieces without content are left out.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let (mut start, mut first_line, mut at) = (0, 1, 0);
    for (n, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = line.strip_prefix("---").is_some_and(|rest| rest.trim_start().len() < rest.len());
        if (is_marker || line.trim_end() == "---") && at > start {
            pieces.push((first_line, text.get(start..at).unwrap_or_default()));
            (start, first_line) = (at, n + 1);
        }
        at += line.len();
    }
    pieces.push((first_line, text.get(start..).unwrap_or_default()));
    pieces.retain(|(_, piece)| has_content(piece));
    pieces
}

/// True if there is more than comments, blank lines, directives and markers.
fn has_content(piece: &str) -> bool {
    piece.lines().any(|line| {
        let line = line.strip_prefix("---").unwrap_or(line).trim();
        !(line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "...")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<(usize, String)>, usize) {
        let documents = read(text);
        let kind = |v: &Value| v.get("kind").and_then(Value::as_str).unwrap_or("?").to_owned();
        (documents.values.iter().map(|(line, v)| (*line, kind(v))).collect(), documents.broken.len())
    }

    #[test]
    fn documents_are_cut_at_markers() {
        let want =
            |list: &[(usize, &str)]| list.iter().map(|(n, k)| (*n, (*k).to_owned())).collect::<Vec<_>>();
        assert_eq!(kinds("kind: A\n---\nkind: B\n"), (want(&[(1, "A"), (2, "B")]), 0));
        assert_eq!(
            kinds("---\r\nkind: A\r\n---\r\n# nothing\r\n---   \r\nkind: B"),
            (want(&[(1, "A"), (5, "B")]), 0)
        );
        assert_eq!(kinds("%YAML 1.2\n---\nkind: A\n...\n"), (want(&[(2, "A")]), 0));
        assert_eq!(kinds("--- {kind: A}\n--- {kind: B}"), (want(&[(1, "A"), (2, "B")]), 0));
        assert_eq!(kinds("\u{feff}{\"kind\":\"A\"}\n{\"kind\":\"B\"}"), (want(&[(1, "A"), (1, "B")]), 0));
        assert_eq!(kinds("kind: A\ntext: |\n  ---\n  ---\n"), (want(&[(1, "A")]), 0));
        assert_eq!(kinds("# only a comment\n---\n---\n"), (want(&[]), 0));
        assert_eq!(kinds(""), (want(&[]), 0));
    }

    #[test]
    fn a_broken_document_leaves_the_others_alone() {
        let (values, broken) = kinds("kind: A\n---\nkind: [\n---\nkind: C\n---\nkind: D: E\n");
        assert_eq!(values.iter().map(|(_, k)| k.as_str()).collect::<Vec<_>>(), ["A", "C"]);
        assert_eq!(broken, 2);
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for n in 1..10 {
            let list = vec![format!("*a{}", n - 1); 10].join(",");
            bomb.push_str(&format!("a{n}: &a{n} [{list}]\n"));
        }
        assert_eq!(kinds(&bomb).1, 1);
        let deep = "[".repeat(100_000);
        assert_eq!(kinds(&deep).1, 1);
    }

    #[test]
    fn scalars_keep_their_kubernetes_types() {
        let documents =
            read("a: 10.0.0.1\nb: 80\nc: true\nd: \"80\"\ne: yes\nf: fd00::1\ng: 2024-01-01T00:00:00Z\nh:\n");
        let want = serde_json::json!({
            "a": "10.0.0.1", "b": 80, "c": true, "d": "80", "e": "yes", "f": "fd00::1",
            "g": "2024-01-01T00:00:00Z", "h": null,
        });
        assert_eq!(documents.values, [(1, want)]);
    }
}
