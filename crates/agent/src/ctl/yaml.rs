//! JSON as YAML: blocks instead of brackets. Every text is in double quotes, as JSON writes it, which YAML reads the same way; what must not
//! reach a terminal is escaped as YAML does it.

use serde_json::Value;

use super::safe;
use crate::escaped::push_yaml;

/// A document.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => block(&mut text, value, 0),
        plain => text.push_str(&format!("{plain}\n")),
    }
    safe(&text, push_yaml)
}

fn block(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                text.push_str(&format!("{indent}{}:", key(name)));
                after(text, value, depth);
            }
        }
        Value::Array(items) => {
            for value in items {
                text.push_str(&format!("{indent}-"));
                after(text, value, depth);
            }
        }
        plain => text.push_str(&format!("{indent}{plain}\n")),
    }
}

/// The name of a field: a word of ours stands bare.
fn key(name: &str) -> String {
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic());
    if is_word { name.to_owned() } else { Value::from(name).to_string() }
}

/// What stands behind a colon or a dash.
fn after(text: &mut String, value: &Value, depth: usize) {
    let is_empty = match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if is_empty {
        text.push_str(&format!(" {value}\n"));
    } else {
        text.push('\n');
        block(text, value, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented_and_texts_quoted() {
        let value = json!({ "a": [1, { "b": "x: \"y\"\n" }], "c": [], "d": null });
        assert_eq!(text(&value), "a:\n  - 1\n  -\n    b: \"x: \\\"y\\\"\\n\"\nc: []\nd: null\n");
    }

    /// A reader gets what was there; a terminal does not.
    #[test]
    fn hostile_text_is_escaped_and_read_back() {
        let hostile = "a: \u{1b}[31m\u{9b}31m\u{7f}\u{202e}\u{61c}\u{85}\u{feff}\u{e0041} é日🙂\r\n- b";
        let value = json!({ "items": [hostile], hostile: "x", "": 1 });
        let shown = text(&value);
        assert!(!shown.replace('\n', "").contains(switchyard_model::is_unseen), "{shown}");
        assert_eq!(serde_saphyr::from_str::<Value>(&shown).unwrap(), value, "{shown}");
    }
}
