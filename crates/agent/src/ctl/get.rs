//! `switchyard get`: lists, page by page, as tables that users of kubectl can read.

use serde_json::{Value, json};

use super::client;
use super::client::CtlError;
use super::explain::{list, plain};
use super::table::table;
use crate::flags::{GetFlags, Output, Resource};

/// All pages of a list as one answer.
pub(super) fn all(flags: &GetFlags) -> Result<Value, CtlError> {
    let path = match flags.resource {
        Resource::Services => "/v1/services",
        Resource::Endpoints => "/v1/endpoints",
        Resource::Routes => "/v1/routes",
        Resource::Quarantine => "/v1/quarantine",
        Resource::Changes => "/v1/changes",
    };
    let (namespace, name) = names(flags);
    let selector = flags.selector.as_deref().filter(|text| !text.trim().is_empty());
    if selector.is_some() && matches!(flags.resource, Resource::Quarantine | Resource::Changes) {
        let advice = "leave --selector out, or list services, endpoints or routes";
        return Err(CtlError::Refused(format!("labels are those of Services; {advice}")));
    }
    let (mut items, mut next) = (Vec::new(), String::new());
    loop {
        let mut parameters = vec![("namespace", namespace), ("name", name), ("continue", next.as_str())];
        parameters.extend(selector.map(|selector| ("selector", selector)));
        let mut answer = client::get(&flags.asking.admin_socket, path, &parameters)?;
        if selector.is_some() && answer.get("selector").is_none() {
            return Err(client::older(&flags.asking.admin_socket, "selectors"));
        }
        let page = answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        items.extend(page.ok_or_else(|| CtlError::Unknown("no items".to_owned()))?);
        match answer.get("continue").and_then(Value::as_str) {
            Some(token) if token != next => next = token.to_owned(),
            _ => {
                let kind = answer.get("kind").cloned();
                return Ok(json!({ "apiVersion": "v1", "kind": kind, "items": items }));
            }
        }
    }
}

/// `namespace/name` is taken too.
fn names(flags: &GetFlags) -> (&str, &str) {
    let namespace = flags.namespace.as_deref().unwrap_or_default();
    match flags.name.as_deref().unwrap_or_default() {
        name if flags.namespace.is_none() => name.split_once('/').unwrap_or((namespace, name)),
        name => (namespace, name),
    }
}

/// Makes the cells of a row of an item.
type Row = fn(&Value) -> Vec<String>;

/// The answer for people.
pub(super) fn text(flags: &GetFlags, answer: &Value) -> String {
    let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return match flags.resource {
            Resource::Quarantine => "Nothing was set aside.\n".to_owned(),
            _ if flags.selector.is_some() => {
                "No resources found. Labels are those of Services; `switchyard get services` lists all.\n"
                    .to_owned()
            }
            _ if flags.name.is_some() || flags.namespace.is_some() => {
                "No resources found. Names are exact; `switchyard get services` lists all.\n".to_owned()
            }
            _ => "No resources found.\n".to_owned(),
        };
    }
    let (mut header, row): (Vec<&str>, Row) = match flags.resource {
        Resource::Services => (SERVICES.to_vec(), service),
        Resource::Endpoints => (ENDPOINTS.to_vec(), endpoint),
        Resource::Routes => (ROUTES.to_vec(), route),
        Resource::Quarantine => (QUARANTINE.to_vec(), set_aside),
        Resource::Changes => (CHANGES.to_vec(), change),
    };
    let narrow = match flags.resource {
        Resource::Services => 7,
        Resource::Endpoints => 6,
        _ => header.len(),
    };
    let is_dialled = |item: &Value| item["loopback"].as_array().is_some_and(|ways| !ways.is_empty());
    let columns = if flags.asking.output == Output::Wide { header.len() } else { narrow };
    header.truncate(columns);
    let mut rows: Vec<Vec<String>> = items.iter().map(row).collect();
    rows.iter_mut().for_each(|row| row.truncate(columns));
    if items.iter().any(is_dialled) {
        header.push("DIAL");
        rows.iter_mut().zip(items).for_each(|(row, item)| row.push(dial(item)));
    }
    table(&header, &rows)
}

const SERVICES: [&str; 11] = [
    "NAMESPACE",
    "NAME",
    "PORT",
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "NODE-PORT",
    "ENDPOINTS",
    "INTERNAL",
    "EXTERNAL",
    "STICKY",
    "SOURCE-RANGES",
];

fn service(item: &Value) -> Vec<String> {
    let cell = |name: &str| plain(&item[name]);
    let external = [list(&item["externalIPs"]), list(&item["loadBalancerIPs"])];
    let external: Vec<String> = external.into_iter().filter(|text| !text.is_empty()).collect();
    let sticky = item["affinitySeconds"].as_u64().map(|seconds| format!("{seconds}s")).unwrap_or_default();
    vec![
        cell("namespace"),
        cell("name"),
        port(item, &cell("port")),
        cell("clusterIP"),
        external.join(","),
        cell("nodePort"),
        format!("{}/{}", cell("usable"), cell("endpoints")),
        cell("internalTrafficPolicy"),
        cell("externalTrafficPolicy"),
        sticky,
        list(&item["sourceRanges"]),
    ]
}

/// Where the frontends can be dialled on this host, without privileges in userspace mode.
fn dial(item: &Value) -> String {
    let ways = item["loopback"].as_array().map(Vec::as_slice).unwrap_or_default();
    ways.iter().map(|way| plain(&way["dial"])).collect::<Vec<_>>().join(",")
}

/// `http:80/tcp`.
fn port(item: &Value, number: &str) -> String {
    let name = plain(&item["portName"]);
    let name = if name.is_empty() { name } else { format!("{name}:") };
    format!("{name}{number}/{}", plain(&item["protocol"]))
}

const ENDPOINTS: [&str; 8] = ["NAMESPACE", "NAME", "PORT", "ENDPOINT", "STATE", "NODE", "USED-FOR", "HINTS"];

fn endpoint(item: &Value) -> Vec<String> {
    let cell = |name: &str| plain(&item[name]);
    let is = |name: &str| item[name] == true;
    let state = match (is("ready"), is("serving"), is("terminating")) {
        (true, _, true) => "Ready,Terminating",
        (true, _, false) => "Ready",
        (false, true, true) => "Terminating",
        (false, false, true) => "Ended",
        (false, ..) => "NotReady",
    };
    let used = [("Cluster", is("usedForCluster")), ("Local", is("usedForLocal"))];
    let used: Vec<&str> = used.into_iter().filter(|(_, is_used)| *is_used).map(|(name, _)| name).collect();
    let hints = [list(&item["hintedZones"]), list(&item["hintedNodes"])].join(" ");
    vec![
        cell("namespace"),
        cell("name"),
        cell("portName"),
        cell("address"),
        state.to_owned(),
        cell("node"),
        used.join(","),
        hints.trim().to_owned(),
    ]
}

const ROUTES: [&str; 7] = ["NAMESPACE", "NAME", "FRONTEND", "KIND", "FROM", "VERDICT", "MASQUERADE"];

fn route(item: &Value) -> Vec<String> {
    let cell = |name: &str| plain(&item[name]);
    let branches = item["branches"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |name: &str| branches.iter().map(|branch| plain(&branch[name])).collect::<Vec<_>>().join("; ");
    let verdict = |branch: &Value| match plain(&branch["verdict"]) {
        verdict if verdict == "pick" => list(&branch["endpoints"]),
        verdict => verdict,
    };
    let verdicts = branches.iter().map(verdict).collect::<Vec<_>>().join("; ");
    vec![
        cell("namespace"),
        cell("name"),
        cell("frontend"),
        cell("frontendKind"),
        of("from"),
        verdicts,
        of("masquerade"),
    ]
}

const QUARANTINE: [&str; 4] = ["KIND", "OBJECT", "FAMILY", "CAUSE"];

fn set_aside(item: &Value) -> Vec<String> {
    ["kind", "object", "family", "cause"].map(|name| plain(&item[name])).to_vec()
}

const CHANGES: [&str; 8] =
    ["NUMBER", "FAMILY", "KIND", "SERVICES", "LATENCY", "TOOK", "OPERATIONS", "OUTCOME"];

fn change(item: &Value) -> Vec<String> {
    let cell = |name: &str| plain(&item[name]);
    let names = item["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    let total = item["serviceCount"].as_u64().unwrap_or_default();
    let services = match names {
        [] => String::new(),
        [only] if total <= 1 => plain(only),
        [first, ..] => format!("{} and {} more", plain(first), total.saturating_sub(1)),
    };
    let seconds =
        |name: &str| item[name].as_f64().map(|s| format!("{:.3}ms", s * 1000.0)).unwrap_or_default();
    let outcome = match cell("cause") {
        cause if cause.is_empty() => cell("outcome"),
        cause => format!("{}: {cause}", cell("outcome")),
    };
    vec![
        cell("number"),
        cell("family"),
        cell("kind"),
        services,
        seconds("latencySeconds"),
        seconds("tookSeconds"),
        cell("operations"),
        outcome,
    ]
}
