//! A small YAML writer, in the style of the API server's libraries: keys in order, lists not indented, quotes only
//! where a reader would otherwise see something else than the text.
//!
//! In: a JSON value. Out: YAML text. Any text survives: what is not plain is quoted.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// The value as a document.
pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter().collect::<BTreeMap<_, _>>() {
                let _ = write!(text, "{indent}{}:", scalar(key));
                nested(value, depth, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                let _ = writeln!(text, "{indent}- {}", inline(item));
            }
        }
        other => {
            let _ = writeln!(text, "{indent}{}", inline(other));
        }
    }
}

/// What follows the colon of a key.
fn nested(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            block(value, depth + 1, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(value, depth, text);
        }
        other => {
            let _ = writeln!(text, " {}", inline(other));
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        // Our objects hold nothing deeper; JSON is YAML all the same.
        other => other.to_string(),
    }
}

fn scalar(text: &str) -> String {
    if is_taken_for_something_else(text) || text.chars().any(char::is_control) {
        return Value::from(text).to_string();
    }
    if is_plain(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

/// Numbers, times and words that a reader does not take for text.
fn is_taken_for_something_else(text: &str) -> bool {
    let words =
        ["", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf", "-.inf"];
    let looks_numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let is_number = text.parse::<f64>().is_ok() || text.starts_with("0x") || text.starts_with("0o");
    let is_time = text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::Date>().is_ok();
    let is_sexagesimal = text.contains(':') && text.chars().all(|c| c.is_ascii_digit() || c == ':');
    words.contains(&text.to_ascii_lowercase().as_str())
        || looks_numeric && (is_number || is_time || is_sexagesimal && !text.contains("::"))
}

fn is_plain(text: &str) -> bool {
    let starts_badly = text.starts_with(|c: char| " ,[]{}#&*!|>'\"%@`".contains(c))
        || matches!(text, "-" | "?" | ":")
        || ["- ", "? ", ": "].iter().any(|start| text.starts_with(start));
    !starts_badly && !text.contains(": ") && !text.contains(" #") && !text.ends_with([':', ' '])
}
