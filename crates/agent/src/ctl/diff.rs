//! `switchyard diff`: what differs, one line each, as in a patch that mends the kernel.

use serde_json::Value;

use super::client::CtlError;
use super::explain::plain;
use super::table::printable;
use super::{Finding, client};

/// Whether the kernel holds what it should.
pub(super) fn finding(answer: &Value) -> Result<Finding, CtlError> {
    match answer.get("isEqual").and_then(Value::as_bool) {
        Some(true) => Ok(Finding::Good),
        Some(false) => Ok(Finding::Bad),
        None => Err(client::unknown("no isEqual")),
    }
}

/// The answer for people; nothing if nothing differs.
pub(super) fn text(answer: &Value) -> String {
    let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text: String = items.iter().map(|item| printable(&line(item)) + "\n").collect();
    if let Some(more @ 1..) = answer["leftOut"].as_u64() {
        text.push_str(&format!("... and {more} more\n"));
    }
    text
}

fn line(item: &Value) -> String {
    let owner = match plain(&item["owner"]) {
        owner if owner.is_empty() => owner,
        owner => format!("  # {owner}"),
    };
    format!("{} {}: {}{owner}", plain(&item["sign"]), plain(&item["family"]), plain(&item["object"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_read_like_a_patch_and_nothing_acts_on_a_terminal() {
        let item = |sign: &str, object: &str, owner: Value| json!({ "sign": sign, "family": "IPv4", "object": object, "owner": owner });
        let answer = json!({
            "isEqual": false,
            "items": [item("-", "chain \x1b[31m", Value::Null), item("+", "element x", json!("shop/web"))],
            "count": 9,
            "leftOut": 7,
        });
        assert_eq!(
            text(&answer),
            "- IPv4: chain \\u{1b}[31m\n+ IPv4: element x  # shop/web\n... and 7 more\n"
        );
        assert!(matches!(finding(&answer), Ok(Finding::Bad)));
        let equal = json!({ "isEqual": true, "items": [], "count": 0, "leftOut": 0 });
        assert_eq!(text(&equal), "");
        assert!(matches!(finding(&equal), Ok(Finding::Good)));
        assert!(finding(&json!({})).is_err());
    }
}
