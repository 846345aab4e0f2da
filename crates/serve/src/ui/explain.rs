//! The explain form and its answer.
//!
//! In: what was asked, and the answer if there is one. Out: a form that any browser can send, and below it where the packet goes and why.

use super::html::Html;
use super::layout::{Column, Tone, cell, chip, nothing, table};
use super::services::link;
use super::values::{ExplainedEndpoint, Explanation, Hit};
use super::words::counted;

/// Endpoints that are listed; a Service may have thousands.
const ROWS: usize = 250;

/// Lines about what does it; there are some for each endpoint.
const LINES: usize = 100;

const ADDRESS: Column = ("Endpoint", "name");
const ANSWERS: Column = ("May answer", "chips");
const NODE: Column = ("Node", "name");
const SEES: Column = ("Sees as client", "");

/// What was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) protocol: String,
}

/// The content of the page. `answer` is absent before anything was asked.
pub(super) fn content(html: &mut Html, typed: &Typed, answer: Option<Result<&Explanation, &str>>) {
    html.element("h1", &[], "Explain");
    html.constant("<p class=\"lead\">Where does a packet go, and why? Nothing is sent: this follows the same decisions that the rules are made from.</p>");
    form(html, typed);
    match answer {
        None => {}
        Some(Err(text)) => html.element("p", &[("class", "notice bad"), ("role", "status")], text),
        Some(Ok(explanation)) => show(html, explanation),
    }
}

fn form(html: &mut Html, typed: &Typed) {
    html.within("form", &[("class", "explain"), ("action", "explain")], |html| {
        html.constant("<p><label for=\"from\">From <span class=\"kind\">(this node if empty)</span></label>");
        field(html, "from", &typed.from, "10.244.1.7");
        html.constant("</p><p><label for=\"to\">To</label>");
        field(html, "to", &typed.to, "10.96.0.10:80");
        html.constant(
            "</p><p><label for=\"protocol\">Protocol</label><select id=\"protocol\" name=\"protocol\">",
        );
        // A Service by name has a protocol of its own.
        for (protocol, shown) in [("", "any"), ("tcp", "tcp"), ("udp", "udp"), ("sctp", "sctp")] {
            let chosen: &[_] = &[("value", protocol), ("selected", "")];
            let other: &[_] = &[("value", protocol)];
            let is_chosen = typed.protocol.eq_ignore_ascii_case(protocol);
            html.element("option", if is_chosen { chosen } else { other }, shown);
        }
        html.constant("</select></p><p><button>Explain</button></p>");
    });
}

fn field(html: &mut Html, name: &'static str, value: &str, example: &'static str) {
    let rest =
        [("maxlength", "256"), ("autocomplete", "off"), ("spellcheck", "false"), ("placeholder", example)];
    let mut attributes = vec![("id", name), ("name", name), ("value", value)];
    attributes.extend(rest);
    html.open("input", &attributes);
}

fn show(html: &mut Html, explanation: &Explanation) {
    let (tone, word) = match explanation.verdict.as_str() {
        "endpoints" => (Tone::Good, "Goes to an endpoint"),
        "reject" => (Tone::Bad, "Rejected"),
        "drop" => (Tone::Bad, "Dropped"),
        "untouched" => (Tone::Quiet, "Left alone"),
        _ => (Tone::Warn, "See the reason"),
    };
    html.within("section", &[("class", "card"), ("aria-label", "Answer")], |html| {
        html.within("p", &[("class", "verdict")], |html| {
            chip(html, tone, word);
            html.text(" ");
            html.text(&explanation.reason);
        });
        html.within("p", &[("class", "kind")], |html| html.text(&packet(explanation)));
        match &explanation.hit {
            Some(hit) => show_hit(html, hit),
            None => nothing(html, "It meets no frontend of a Service."),
        }
        by(html, explanation);
    });
}

/// What in the kernel, or of the process, does it.
fn by(html: &mut Html, explanation: &Explanation) {
    if explanation.by.is_empty() {
        return;
    }
    html.element("h2", &[], "What does it");
    html.within("ul", &[("class", "by")], |html| {
        for line in explanation.by.iter().take(LINES) {
            html.within("li", &[], |html| html.element("code", &[], line));
        }
    });
    let more = explanation.by.len().saturating_sub(LINES).saturating_add(explanation.by_left_out);
    if more > 0 {
        nothing(html, &format!("{} not shown here.", counted(more, "line more is", "lines more are")));
    }
}

fn packet(explanation: &Explanation) -> String {
    let Explanation { from, to, protocol, .. } = explanation;
    let way = match (&explanation.interface, explanation.is_from_this_node) {
        (_, true) => " (this node)".to_owned(),
        (Some(interface), false) => format!(" through {interface}"),
        (None, false) => String::new(),
    };
    format!("From {from}{way} to {to}/{protocol}")
}

fn show_hit(html: &mut Html, hit: &Hit) {
    html.within("dl", &[("class", "facts wide")], |html| {
        html.constant("<div><dt>Service</dt><dd>");
        let (namespace, name) = hit.service.split_once('/').unwrap_or(("", &hit.service));
        html.element("a", &[("href", &link(namespace, name))], &hit.service);
        if !hit.port_name.is_empty() {
            html.text(&format!(", port {}", hit.port_name));
        }
        html.constant("</dd></div>");
        fact(html, "Frontend", &format!("{} ({})", hit.frontend, hit.frontend_kind));
        fact(html, "Sender counts as", &hit.client);
        if let Some(seconds) = hit.affinity_seconds {
            fact(html, "Affinity", &format!("a client stays with its endpoint for {seconds} s"));
        }
        if !hit.allowed_sources.is_empty() {
            fact(html, "Allowed sources", &hit.allowed_sources.join(", "));
        }
        if !hit.losers.is_empty() {
            fact(html, "Also asked for by", &hit.losers.join(", "));
        }
    });
    if hit.endpoints.is_empty() {
        return nothing(html, "The Service has no endpoints.");
    }
    let caption = counted(hit.endpoints.len(), "endpoint", "endpoints");
    table(html, &caption, &[ADDRESS, ANSWERS, NODE, SEES], |html| {
        html.within("tbody", &[], |html| hit.endpoints.iter().take(ROWS).for_each(|one| row(html, one)));
    });
    if hit.endpoints.len() > ROWS {
        nothing(html, "More are not shown; `switchyard explain` shows them all.");
    }
}

fn fact(html: &mut Html, name: &'static str, value: &str) {
    html.within("div", &[], |html| {
        html.element("dt", &[], name);
        html.element("dd", &[], value);
    });
}

fn row(html: &mut Html, endpoint: &ExplainedEndpoint) {
    html.within("tr", &[], |html| {
        cell(html, ADDRESS, |html| html.element("code", &[], &endpoint.address));
        cell(html, ANSWERS, |html| match (&endpoint.odds, &endpoint.excluded) {
            (Some(odds), _) => chip(html, Tone::Good, odds),
            (None, Some(why)) => {
                chip(html, Tone::Quiet, "no");
                html.text(" ");
                html.text(why);
            }
            (None, None) => chip(html, Tone::Quiet, "no"),
        });
        cell(html, NODE, |html| html.text(endpoint.node.as_deref().unwrap_or("unknown")));
        cell(html, SEES, |html| {
            html.text(endpoint.seen_source.as_deref().unwrap_or("–"));
            if let Some(reason) = &endpoint.source_reason {
                html.element("span", &[("class", "kind")], &format!(" {reason}"));
            }
        });
    });
    html.constant("\n");
}
