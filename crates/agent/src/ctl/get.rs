//! `switchyard get`: lists, page by page, as tables that users of kubectl can read.
//!
//! In: flags, an agent, and what time it is. Out: what to print where, and whether somebody asked for what is not there.

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::client::{self, CtlError};
use super::columns::{self, Header, Look, Width};
use super::explain::plain;
use super::table::printable;
use super::{json_text, version, yaml};
use crate::flags::{GetFlags, ListOutput, Resource};

/// What is to be said.
#[derive(Debug)]
pub(super) struct Told {
    /// To standard output.
    pub(super) found: String,
    /// To standard error: why there is nothing.
    pub(super) note: Option<String>,
    /// What was asked for and is not there.
    pub(super) missing: Option<CtlError>,
}

/// Whose items are wanted; empty for anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// Asks, and says what to print.
pub(super) fn run(flags: &GetFlags, now: SystemTime) -> Result<Told, CtlError> {
    let (mut kind, mut items, mut missing) = (Value::Null, Vec::new(), Vec::new());
    for wanted in wanted(flags)? {
        let (kind_of_list, found) = list(flags, flags.resource, wanted)?;
        if found.is_empty() && !is_served(flags, wanted)? {
            missing.push(shown(wanted));
        }
        kind = kind_of_list;
        items.extend(found);
    }
    if flags.resource == Resource::Changes {
        // A change may be about several of those who were asked for.
        items.sort_by_key(|item| item["number"].as_u64());
        items.dedup_by_key(|item| item["number"].clone());
    }
    let missing = (!missing.is_empty()).then_some(CtlError::Missing(missing));
    if items.is_empty() && missing.is_some() {
        return Ok(Told { found: String::new(), note: None, missing });
    }
    let is_for_people = matches!(flags.output, ListOutput::Table | ListOutput::Wide | ListOutput::Name);
    let note = (items.is_empty() && is_for_people).then(|| nothing(flags));
    Ok(Told { found: text(flags, &kind, items, now), note, missing })
}

fn text(flags: &GetFlags, kind: &Value, items: Vec<Value>, now: SystemTime) -> String {
    let width = match flags.output {
        ListOutput::Json => return json_text(&document(kind, items)),
        ListOutput::Yaml => return yaml::text(&document(kind, items)),
        ListOutput::Name => return names(flags.resource, &items),
        ListOutput::Wide => Width::Wide,
        ListOutput::Table => Width::Usual,
    };
    if items.is_empty() {
        return String::new();
    }
    let header = if flags.no_headers { Header::LeftOut } else { Header::Shown };
    columns::table(flags.resource, &items, Look { width, header, now })
}

fn document(kind: &Value, items: Vec<Value>) -> Value {
    let mut document = json!({ "apiVersion": "v1", "kind": kind });
    if let Some(fields) = document.as_object_mut() {
        fields.insert("items".to_owned(), Value::Array(items));
    }
    document
}

/// What every name means. `NAMESPACE/NAME` is taken too.
fn wanted(flags: &GetFlags) -> Result<Vec<Wanted<'_>>, CtlError> {
    let namespace = flags.namespace.as_deref().unwrap_or_default();
    let is_of_services =
        matches!(flags.resource, Resource::Services | Resource::Endpoints | Resource::Routes);
    if selector(flags).is_some() && !is_of_services {
        let advice = "leave --selector out, or list services, endpoints or routes";
        return Err(CtlError::Refused(format!("labels are those of Services; {advice}")));
    }
    if flags.names.is_empty() {
        return Ok(vec![Wanted { namespace, name: "" }]);
    }
    let twice = |name: &str| {
        let twice = format!("{} names another namespace than --namespace does", printable(name));
        CtlError::Refused(format!("{twice}; leave one of them out"))
    };
    let one = |name| match str::split_once(name, '/') {
        None => Ok(Wanted { namespace, name }),
        Some((own, name)) if namespace.is_empty() || namespace == own => Ok(Wanted { namespace: own, name }),
        Some(_) => Err(twice(name)),
    };
    flags.names.iter().map(String::as_str).map(one).collect()
}

/// A selector without anything in it is none.
fn selector(flags: &GetFlags) -> Option<&str> {
    flags.selector.as_deref().filter(|text| !text.trim().is_empty())
}

/// The kind of a list, and everything that is in it.
fn list(flags: &GetFlags, resource: Resource, wanted: Wanted<'_>) -> Result<(Value, Vec<Value>), CtlError> {
    let path = match resource {
        Resource::Services => "/v1/services",
        Resource::Endpoints => "/v1/endpoints",
        Resource::Routes => "/v1/routes",
        Resource::Quarantine => "/v1/quarantine",
        Resource::Changes => "/v1/changes",
    };
    let Wanted { namespace, name } = wanted;
    let (mut items, mut next) = (Vec::new(), String::new());
    loop {
        let mut parameters = vec![("namespace", namespace), ("name", name), ("continue", next.as_str())];
        parameters.extend(selector(flags).map(|selector| ("selector", selector)));
        let mut answer = client::get(&flags.admin_socket, path, &parameters)?;
        if let Some(unheeded) = unheeded(&answer, resource, &parameters) {
            return Err(version::older(&flags.admin_socket, unheeded));
        }
        let page = answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        items.extend(page.ok_or_else(|| CtlError::Unknown("no items".to_owned()))?);
        match answer.get("continue").and_then(Value::as_str) {
            Some(token) if token != next => next = token.to_owned(),
            _ => return Ok((answer.get("kind").cloned().unwrap_or_default(), items)),
        }
    }
}

/// What an older agent did not heed: it would have said that it did. Namespaces and names of Services every agent knows.
fn unheeded(answer: &Value, resource: Resource, parameters: &[(&str, &str)]) -> Option<&'static str> {
    let is_given = |name: &str| parameters.iter().any(|(given, value)| *given == name && !value.is_empty());
    let is_unheeded = |name: &str| is_given(name) && answer.get(name).is_none();
    match resource {
        _ if is_unheeded("selector") => Some("selectors"),
        Resource::Quarantine if is_unheeded("name") || is_unheeded("namespace") => {
            Some("names and namespaces in `get quarantine`")
        }
        Resource::Changes if is_unheeded("name") || is_unheeded("namespace") => {
            Some("names and namespaces in `get changes`")
        }
        _ => None,
    }
}

/// Whether there can be something of what is wanted. A Service may have no endpoints, and nothing may have been set aside of it.
fn is_served(flags: &GetFlags, wanted: Wanted<'_>) -> Result<bool, CtlError> {
    Ok(match flags.resource {
        _ if wanted.name.is_empty() => true,
        Resource::Services => false,
        Resource::Endpoints | Resource::Routes => !list(flags, Resource::Services, wanted)?.1.is_empty(),
        Resource::Quarantine | Resource::Changes => true,
    })
}

fn shown(Wanted { namespace, name }: Wanted<'_>) -> String {
    if namespace.is_empty() { printable(name) } else { printable(&format!("{namespace}/{name}")) }
}

/// Each name once, one per line.
fn names(resource: Resource, items: &[Value]) -> String {
    let name = |item: &Value| match (resource, plain(&item["namespace"]), plain(&item["name"])) {
        (Resource::Changes, ..) => plain(&item["number"]),
        // Of an older agent.
        (_, namespace, name) if namespace.is_empty() && name.is_empty() => plain(&item["object"]),
        (_, namespace, name) if namespace.is_empty() => name,
        (_, namespace, name) => format!("{namespace}/{name}"),
    };
    let mut known = BTreeSet::new();
    let names = items.iter().map(name).filter(|name| known.insert(name.clone()));
    names.map(|name| format!("{}\n", printable(&name))).collect()
}

/// Why a list is empty, as far as it can be said, and what to do.
fn nothing(flags: &GetFlags) -> String {
    let of = match (&flags.names[..], &flags.namespace) {
        ([], None) => String::new(),
        ([], Some(namespace)) => format!(" in namespace {}", printable(namespace)),
        (names, _) => format!(" of {}", printable(&names.join(", "))),
    };
    let why = match flags.resource {
        Resource::Quarantine => "; nothing was set aside",
        Resource::Changes if of.is_empty() => "; nothing was written yet",
        Resource::Changes => "; none of the last changes was about that",
        Resource::Endpoints if !flags.names.is_empty() => "; no EndpointSlice names any",
        Resource::Routes if !flags.names.is_empty() => {
            "; other Services have its addresses, see `switchyard get quarantine`"
        }
        _ if selector(flags).is_some() => {
            "; labels are those of Services, and `switchyard get services` lists all"
        }
        _ if of.is_empty() => "; no Service is served here",
        _ => "; `switchyard get services` lists all",
    };
    format!("No resources found{of}{why}")
}
