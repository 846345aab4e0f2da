//! One Service: per port and family its frontends, what happens to packets, and its endpoints.
//!
//! In: a sheet. Out: a section per port and family.

use switchyard_model::TrafficPolicy;

use super::html::{Html, query_escaped};
use super::layout::{Column, Tone, cell, chip, nothing, table};
use super::services::{dialled, kind};
use super::values::{Endpoint, EndpointState, Frontend, PortSheet, Route, ServiceSheet};
use super::words::{count, counted};

const FRONTEND: Column = ("Frontend", "frontends");
const CLIENT: Column = ("From", "");
const VERDICT: Column = ("Goes to", "");
const SOURCE: Column = ("Source replaced", "");

const ADDRESS: Column = ("Address", "name");
const STATE: Column = ("State", "chips");
const NODE: Column = ("Node", "name");
const HINTS: Column = ("Meant for", "");
const USED: Column = ("Used here", "");

/// The content of the page.
pub(super) fn content(html: &mut Html, sheet: &ServiceSheet) {
    html.constant("<p class=\"crumbs\"><a href=\"services\">Services</a></p>");
    html.within("h1", &[], |html| {
        html.element("span", &[("class", "namespace")], &sheet.name.namespace);
        html.text("/");
        html.text(&sheet.name.name);
    });
    html.constant("\n");
    sheet.ports.iter().for_each(|port| section(html, port));
    let more = sheet.port_count.saturating_sub(sheet.ports.len());
    if more > 0 {
        nothing(html, &format!("And {} that are not shown.", counted(more, "port", "ports")));
    }
}

fn section(html: &mut Html, port: &PortSheet) {
    html.within("section", &[("class", "card")], |html| {
        html.within("h2", &[], |html| {
            if !port.port_name.is_empty() {
                html.text(&port.port_name);
                html.text(" · ");
            }
            html.text(&format!("{} · {}", port.protocol, port.family));
        });
        html.within("p", &[("class", "chips")], |html| properties(html, port));
        if let Some(cause) = &port.set_aside {
            html.within("p", &[("class", "notice bad")], |html| {
                html.constant("<strong>Set aside.</strong> The kernel refused it: ");
                html.text(cause);
            });
        }
        routes(html, port);
        endpoints(html, port);
    });
    html.constant("\n");
}

fn properties(html: &mut Html, port: &PortSheet) {
    if port.internal_policy == TrafficPolicy::Local {
        chip(html, Tone::Quiet, "Internal policy Local");
    }
    if port.external_policy == TrafficPolicy::Local {
        chip(html, Tone::Quiet, "External policy Local");
    }
    if let Some(seconds) = port.affinity_seconds {
        chip(html, Tone::Quiet, &format!("Sticky for {seconds} s"));
    }
    if let Some(number) = port.health_check_node_port {
        chip(html, Tone::Quiet, &format!("Health check on port {number}"));
    }
}

fn routes(html: &mut Html, port: &PortSheet) {
    if port.routes.is_empty() {
        return nothing(html, "No frontend: others have them all, or the kernel refused it.");
    }
    table(html, "What happens to packets", &[FRONTEND, CLIENT, VERDICT, SOURCE], |html| {
        html.within("tbody", &[], |html| port.routes.iter().for_each(|one| route(html, one)));
    });
    left_out(html, port.route_count.saturating_sub(port.routes.len()));
}

fn route(html: &mut Html, route: &Route) {
    html.within("tr", &[], |html| {
        cell(html, FRONTEND, |html| {
            let Frontend { dial, protocol, kind: origin } = &route.frontend;
            let protocol = protocol.to_string().to_lowercase();
            let link = format!("explain?to={}&protocol={protocol}", query_escaped(&dial.to_string()));
            html.within("a", &[("href", &link)], |html| html.element("code", &[], &dialled(&route.frontend)));
            html.element("span", &[("class", "kind")], kind(*origin));
            if !route.allowed_sources.is_empty() {
                let sources = format!(", only from {}", route.allowed_sources.join(", "));
                html.element("span", &[("class", "kind")], &sources);
            }
        });
        cell(html, CLIENT, |html| html.text(&route.client));
        cell(html, VERDICT, |html| html.text(&route.verdict));
        cell(html, SOURCE, |html| html.text(&route.masquerade));
    });
    html.constant("\n");
}

fn endpoints(html: &mut Html, port: &PortSheet) {
    if port.endpoints.is_empty() {
        return nothing(html, "No endpoints.");
    }
    let caption = counted(port.endpoint_count, "endpoint", "endpoints");
    table(html, &caption, &[ADDRESS, STATE, NODE, HINTS, USED], |html| {
        html.within("tbody", &[], |html| port.endpoints.iter().for_each(|one| endpoint(html, one)));
    });
    left_out(html, port.endpoint_count.saturating_sub(port.endpoints.len()));
}

fn endpoint(html: &mut Html, endpoint: &Endpoint) {
    html.within("tr", &[], |html| {
        cell(html, ADDRESS, |html| html.element("code", &[], &endpoint.address.to_string()));
        cell(html, STATE, |html| {
            let (tone, text) = match endpoint.state {
                EndpointState::Ready => (Tone::Good, "Ready"),
                EndpointState::NotReady => (Tone::Bad, "Not ready"),
                EndpointState::ServingWhileEnding => (Tone::Warn, "Ending, still serving"),
                EndpointState::Ending => (Tone::Bad, "Ending"),
            };
            chip(html, tone, text);
        });
        cell(html, NODE, |html| {
            html.text(endpoint.node.as_deref().unwrap_or("unknown"));
            if endpoint.is_here {
                html.element("span", &[("class", "kind")], " this node");
            }
        });
        cell(html, HINTS, |html| match endpoint.hints.as_slice() {
            [] => html.text("anybody"),
            hints => html.text(&hints.join(", ")),
        });
        cell(html, USED, |html| html.text(if endpoint.is_used { "yes" } else { "no" }));
    });
    html.constant("\n");
}

fn left_out(html: &mut Html, more: usize) {
    if more > 0 {
        nothing(html, &format!("And {} more; `switchyard get` shows them all.", count(more)));
    }
}
