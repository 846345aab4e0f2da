//! `switchyard explain`: the question as parameters, the answer as text.

use serde_json::Value;

use super::table::{printable, table};
use crate::flags::ExplainFlags;

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// What the agent is asked.
pub(super) fn parameters(flags: &ExplainFlags) -> Vec<(&'static str, &str)> {
    // A Service may have a slash in front of its name.
    let is_protocol = |text: &str| PROTOCOLS.iter().any(|known| known.eq_ignore_ascii_case(text));
    let mut parameters = match flags.to.rsplit_once('/') {
        Some((to, protocol)) if is_protocol(protocol) => vec![("to", to), ("protocol", protocol)],
        _ => vec![("to", flags.to.as_str())],
    };
    parameters.extend(flags.from.as_deref().map(|from| ("from", from)));
    parameters.extend(flags.interface.as_deref().map(|name| ("interface", name)));
    parameters
}

/// The answer for people.
pub(super) fn text(answer: &Value) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<12}{}\n", printable(&value)));
    let sender = if answer["isFromThisNode"] == true { "this node" } else { "" };
    let pod = match plain(&answer["fromPod"]) {
        name if name.is_empty() => name,
        name => format!(" (pod {name})"),
    };
    line(
        "packet",
        format!("{}{pod} -> {}/{}", plain(&answer["from"]), plain(&answer["to"]), plain(&answer["protocol"])),
    );
    line("verdict", format!("{}: {}", plain(&answer["verdict"]), plain(&answer["reason"])));
    let by = by(answer);
    let Some(hit) = answer.get("hit").filter(|hit| !hit.is_null()) else { return text + &by };
    let port = match plain(&hit["portName"]) {
        name if name.is_empty() => String::new(),
        name => format!(", port {name}"),
    };
    line("service", format!("{}{port}", plain(&hit["service"])));
    line("frontend", format!("{} ({})", plain(&hit["frontend"]), plain(&hit["frontendKind"])));
    let client = plain(&hit["client"]);
    line("client", if client == "anyone" && !sender.is_empty() { sender.to_owned() } else { client });
    if let Some(seconds) = hit["affinitySeconds"].as_u64() {
        line("sticky", format!("a client stays with its endpoint for {seconds} s after its last connection"));
    }
    let ranges = list(&hit["allowedSources"]);
    if !ranges.is_empty() {
        line("allowed", ranges);
    }
    let losers = list(&hit["losers"]);
    if !losers.is_empty() {
        line("not for", format!("{losers}, which asked for this frontend later"));
    }
    let endpoints = hit["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    if endpoints.is_empty() {
        return text + &by;
    }
    let rows: Vec<Vec<String>> = endpoints.iter().map(row).collect();
    format!("{text}\n{}{by}", table(&["ENDPOINT", "NODE", "ODDS", "SEES", "WHY"], &rows))
}

/// What in the kernel does it. An older agent does not say.
fn by(answer: &Value) -> String {
    let lines = answer["by"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text: String = lines.iter().map(|line| format!("by  {}\n", printable(&plain(line)))).collect();
    if let Some(more @ 1..) = answer["byLeftOut"].as_u64() {
        text.push_str(&format!("by  ... and {more} more\n"));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn row(endpoint: &Value) -> Vec<String> {
    let why = match endpoint.get("excluded").and_then(Value::as_str) {
        Some(why) => why.to_owned(),
        None => format!("source {}", plain(&endpoint["sourceReason"])),
    };
    let cell = |name: &str| plain(&endpoint[name]);
    vec![cell("address"), cell("node"), cell("odds"), cell("seenSource"), why]
}

/// A value without quotes; nothing for null.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list, with commas.
pub(super) fn list(value: &Value) -> String {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(plain).collect::<Vec<_>>().join(",")
}
