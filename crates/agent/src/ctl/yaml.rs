//! JSON as YAML: blocks instead of brackets. Every text is in double quotes, as JSON writes it, which YAML reads the same way.

use serde_json::Value;

/// A document.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => block(&mut text, value, 0),
        plain => text.push_str(&format!("{plain}\n")),
    }
    text
}

fn block(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                text.push_str(&format!("{indent}{name}:"));
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
}
