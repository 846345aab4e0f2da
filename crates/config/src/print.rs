//! From [`Configuration`] to YAML, as kube-proxy's `--write-config-to` would write it: all fields, sorted, with the
//! same quotes.

use serde_json::{Map, Value};

use crate::configuration::{Configuration, Written};
use crate::slot::Slot;
use crate::{API_VERSION, KIND};

/// Left out while they say nothing.
const OMITTED_IF_EMPTY: [&str; 5] = [
    "featureGates",
    "logging.options.json.splitStream",
    "logging.options.text.splitStream",
    "logging.vmodule",
    "windowsRunAsService",
];

impl Configuration {
    /// As YAML. Periods of modes that are not in use should be gone: see [`Configuration::keep_only_the_mode`].
    pub fn to_yaml(&self) -> String {
        let mut page = String::new();
        if let Value::Object(object) = self.to_json() {
            lines(&object, 0, &mut page);
        }
        page
    }

    /// As a tree of values, keys in order.
    pub fn to_json(&self) -> Value {
        let mut copy = self.clone();
        let mut leaves: Vec<(&str, Value)> = vec![("apiVersion", API_VERSION.into()), ("kind", KIND.into())];
        for (path, slot) in copy.slots() {
            let value = slot.value();
            if !(OMITTED_IF_EMPTY.contains(&path) && is_empty(&value)) {
                leaves.push((path, value));
            }
        }
        leaves.sort_by_key(|(path, _)| *path);
        let mut root = Map::new();
        for (path, value) in leaves {
            plant(&mut root, path, value);
        }
        Value::Object(root)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Bool(is_set) => !is_set,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Puts a leaf where its path says.
fn plant(map: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            map.insert(path.to_owned(), value);
        }
        Some((key, rest)) => {
            if let Value::Object(inner) = map.entry(key).or_insert_with(|| Value::Object(Map::new())) {
                plant(inner, rest, value);
            }
        }
    }
}

impl Slot<'_> {
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Switch(value) => (**value).into(),
            Self::MaybeSwitch(value) => (**value).into(),
            Self::Number(value) => (**value).into(),
            Self::MaybeNumber(value) => (**value).into(),
            Self::Float(value) => float(**value),
            Self::Level(value) => (**value).into(),
            Self::Duration(value) => value.to_string().into(),
            Self::MaybeDuration(value) => value.map(|d| d.to_string()).into(),
            Self::Flush(value) => match value.written {
                Written::AsText => value.duration.to_string().into(),
                Written::AsNanos => value.duration.as_nanos().into(),
            },
            Self::Texts(list) => (**list).clone().into(),
            Self::Gates(gates) => {
                Value::Object(gates.iter().map(|(name, value)| (name.clone(), (*value).into())).collect())
            }
            Self::Modules(modules) => modules
                .iter()
                .map(|m| serde_json::json!({"filePattern": m.file_pattern, "verbosity": m.verbosity}))
                .collect(),
            Self::Size(size) => size.to_string().into(),
        }
    }
}

/// The shortest decimal that is this number in 32 bits, whole where it is.
fn float(value: f32) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "the value is whole and inside of 64 bits")]
    if value.fract() == 0.0 && value.abs() < 9e18 {
        return (value as i64).into();
    }
    value.to_string().parse::<f64>().unwrap_or_default().into()
}

/// The lines of an object, each behind `depth` blanks.
fn lines(object: &Map<String, Value>, depth: usize, page: &mut String) {
    let indent = " ".repeat(depth);
    for (key, value) in object {
        page.push_str(&format!("{indent}{}:", scalar(key)));
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                page.push('\n');
                lines(inner, depth + 2, page);
            }
            Value::Array(list) if !list.is_empty() => {
                page.push('\n');
                for item in list {
                    item_lines(item, depth, page);
                }
            }
            leaf => page.push_str(&format!(" {}\n", leaf_text(leaf))),
        }
    }
}

/// One item of a list: its first line behind a dash, the others below.
fn item_lines(item: &Value, depth: usize, page: &mut String) {
    let indent = " ".repeat(depth);
    match item {
        Value::Object(inner) => {
            let mut block = String::new();
            lines(inner, depth + 2, &mut block);
            page.push_str(&format!("{indent}- {}", block.trim_start()));
        }
        leaf => page.push_str(&format!("{indent}- {}\n", leaf_text(leaf))),
    }
}

fn leaf_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => scalar(text),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        Value::Bool(value) => value.to_string(),
    }
}

/// As Go's `%g` prints it: an exponent of at least two digits below 1e-4 and from 1e6 on.
fn go_float(value: f64) -> String {
    let short = format!("{value:e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// A text as a YAML scalar: plain if nobody can take it for something else, in single quotes if it has marks of YAML,
/// in double quotes if it looks like another type or cannot be printed as it is.
fn scalar(text: &str) -> String {
    let is_printable =
        !text.chars().any(|c| c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}'));
    if text.is_empty() || !is_printable || looks_like_another_type(text) {
        return serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\x7f");
    }
    if is_plain(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

fn is_plain(text: &str) -> bool {
    let marks =
        ['-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`'];
    let starts_well = !text.starts_with(marks) || is_marked_word(text);
    starts_well
        && !text.starts_with("...")
        && text.trim() == text
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with(':')
}

/// These three marks may start a word.
fn is_marked_word(text: &str) -> bool {
    text.strip_prefix(['-', '?', ':']).is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric()))
}

/// Numbers, booleans, null, merge keys and dates of YAML 1.1, with some room for doubt.
fn looks_like_another_type(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let words = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"];
    let starts_as_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let plain_number =
        |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | '_' | '+' | '-' | 'x' | 'o' | ':');
    let is_number = starts_as_number
        && (lower.replace('_', "").parse::<f64>().is_ok()
            || ["0x", "0o", "0b", "+0x", "-0x", "-0o", "-0b", "+0o", "+0b"]
                .iter()
                .any(|p| lower.starts_with(p))
            || matches!(lower.as_str(), ".inf" | "+.inf" | "-.inf" | ".nan"));
    let is_date_or_time = starts_as_number
        && lower.chars().all(|c| plain_number(c) || matches!(c, 't' | 'z' | ' '))
        && (is_date(&lower) || is_sexagesimal(&lower));
    words.contains(&lower.as_str()) || is_number || is_date_or_time
}

/// `2024-01-02` and what may follow it.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let is_count = |part: Option<&str>, most: usize| {
        part.is_some_and(|p| (1..=most).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))
    };
    is_count(parts.next(), 4)
        && is_count(parts.next(), 2)
        && parts.next().is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `1:30`: numbers to the base of sixty, which old readers know. Every part but the first is below sixty.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['+', '-']);
    let whole = unsigned.split_once('.').map_or(unsigned, |(whole, _)| whole);
    let mut parts = whole.split(':');
    let is_first = parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()));
    let mut others = parts.peekable();
    is_first
        && others.peek().is_some()
        && others.all(|part| part.len() <= 2 && part.parse::<u8>().is_ok_and(|part| part < 60))
}
