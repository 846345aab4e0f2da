//! From the text of a configuration file to a tree of values.
//!
//! In: YAML or JSON. Out: the first document, with what a strict reader would have complained about; or why it cannot
//! be read. Scalars are YAML 1.1's, as in kube-proxy: `yes` is a boolean and `010` is eight.
//!
//! Invariants
//! - At most [`MAX_BYTES`] are looked at, aliases are bounded, and so is depth.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::problem::{Problem, clip};

/// The largest text that is read. A ConfigMap holds a quarter of it.
pub const MAX_BYTES: usize = 4 << 20;

/// Parser events of one document, and what aliases may add.
const MAX_EVENTS: usize = 50_000;
const MAX_ALIASES: usize = 1_000;

/// A document.
#[derive(Debug)]
pub struct Document {
    /// Its content.
    pub value: Value,
    /// Why strict decoding fails, if it does: a key that is there twice.
    pub complaint: Option<String>,
}

/// Reads the first document. Later ones are ignored, as in kube-proxy.
pub fn read(text: &str) -> Result<Document, Problem> {
    let whole = |allowed: String| Problem::new("", "", allowed);
    if text.len() > MAX_BYTES {
        return Err(whole(format!("the file is larger than {MAX_BYTES} bytes; that is no configuration")));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = first_document(text);
    match yaml(first, DuplicateKeyPolicy::Error) {
        Ok(value) => Ok(Document { value, complaint: None }),
        // Only a key that is there twice makes the difference between the two ways of reading.
        Err(strict) => match yaml(first, DuplicateKeyPolicy::LastWins) {
            Ok(value) => Ok(Document { value, complaint: Some(strict) }),
            Err(error) => Err(whole(format!("is neither YAML nor JSON: {error}"))),
        },
    }
}

fn yaml(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: MAX_EVENTS,
            max_nodes: MAX_EVENTS,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_EVENTS },
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        strict_booleans: false,
    };
    let result = serde_saphyr::from_str_with_options::<Value>(text, options);
    result.map_err(|error| clip(&error.without_snippet().to_string()))
}

/// The text up to the second document. Neither a `---` nor a `...` line ever stands inside of one.
fn first_document(text: &str) -> &str {
    let (mut at, mut has_content) = (0, false);
    for line in text.split_inclusive('\n') {
        let is_marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        let ends = line.trim_end() == "...";
        if (is_marker || ends) && has_content {
            return text.get(..at).unwrap_or(text);
        }
        let trimmed = line.trim();
        has_content |= is_marker || !(trimmed.is_empty() || trimmed.starts_with(['#', '%']));
        at += line.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        read(text).unwrap_or_else(|problem| panic!("{problem}: {text:?}")).value
    }

    #[test]
    fn only_the_first_document_counts() {
        let want = serde_json::json!({"a": "x"});
        for text in [
            "a: x",
            "---\na: x",
            "a: x\n...\nb: [",
            "# c\n---\na: x\n---\nb: [",
            "{\"a\":\"x\"}",
            "\u{feff}a: x\n--- \nb: 1\n",
        ] {
            assert_eq!(value(text), want, "{text:?}");
        }
        assert_eq!(value("---\n---\na: x"), Value::Null);
        assert_eq!(value(""), Value::Null);
    }

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        let got = value(
            "a: yes\nb: 010\nc: 0x10\nd: 1_0\ne: off\nf: \"yes\"\ng: 1e2\nh:\ni: 10.0.0.0/8\nj: fd00::/8",
        );
        let want = serde_json::json!({
            "a": true, "b": 8, "c": 16, "d": 10, "e": false, "f": "yes", "g": 100.0, "h": null,
            "i": "10.0.0.0/8", "j": "fd00::/8",
        });
        assert_eq!(got, want);
    }

    #[test]
    fn the_last_of_two_keys_wins_with_a_complaint() {
        let document = read("a: 1\na: 2\n").unwrap();
        assert_eq!(document.value, serde_json::json!({"a": 2}));
        assert!(document.complaint.is_some_and(|text| text.contains("duplicate")));
        assert!(read("a: 1\n").unwrap().complaint.is_none());
    }

    #[test]
    fn hostile_documents_are_refused() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for n in 1..10 {
            bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(",")));
        }
        let huge = " ".repeat(MAX_BYTES + 1);
        let many = "- a\n".repeat(MAX_EVENTS);
        let deep = "[".repeat(100_000);
        for text in [&bomb, &huge, &many, &deep, "a: [", "a: b: c", "\0"] {
            let problem = read(text).unwrap_err().to_string();
            assert!(problem.len() < 1000 && !problem.contains('\n'), "{problem}");
        }
    }
}
