//! discovery.k8s.io/v1 EndpointSlice.

use std::fmt::{Arguments, Display};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use switchyard_model::{
    Conditions, EndpointSlice, Family, Hints, ServiceName, SliceEndpoint, SliceName, SlicePort,
};

use super::service::{family_named, port_name, port_number};
use super::text::{self, is_dns_label, is_dns_subdomain, is_label_value};
use super::{Converted, Findings, Interner, namespaced, object_name};
use crate::wire::{self, Lax, List, Meta, Named, Text};

/// Converts a slice. Slices of headless Services and slices that name no Service give nothing, without a complaint.
pub(crate) fn slice(wire: &wire::EndpointSlice, interner: &mut Interner) -> Converted<EndpointSlice> {
    let mut findings = Findings::default();
    let value = read(wire, interner, &mut findings);
    findings.with(value, || object_name::<wire::EndpointSlice>(&wire.metadata))
}

fn read(
    wire: &wire::EndpointSlice,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<EndpointSlice> {
    let meta = findings.required(&wire.metadata, "metadata")?;
    let labels = findings.field(&meta.labels, "metadata.labels")?;
    if labels.headless != Lax::Absent || matches!(&labels.service_name, Lax::Absent) {
        return None;
    }
    let service = findings.text(&labels.service_name, "label kubernetes.io/service-name");
    if service.is_empty() {
        return None;
    }
    if !is_dns_label(service) {
        findings.set_aside("label kubernetes.io/service-name", service, "not a Service name");
        return None;
    }
    let (namespace, name) = namespaced(&wire.metadata, is_dns_subdomain, interner, findings)?;
    let family = family(findings.required(&wire.address_type, "addressType")?, findings)?;
    let service = ServiceName { namespace: namespace.clone(), name: interner.intern(service) };
    let ports = ports(&wire.ports, interner, findings);
    let endpoints = endpoints(wire, family, interner, findings);
    let trigger = trigger(&wire.metadata, findings);
    Some(EndpointSlice { name: SliceName { namespace, name }, service, family, ports, endpoints, trigger })
}

fn family(text: &str, findings: &mut Findings) -> Option<Family> {
    let family = family_named(text);
    if family.is_none() {
        findings.set_aside("addressType", text, "not IPv4 or IPv6, and a proxy cannot use it");
    }
    family
}

/// The ports of a slice. A port without a name or number is no port; an empty name is one.
pub(super) fn ports(
    wire: &Lax<List<wire::SlicePort>>,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Vec<SlicePort> {
    let mut found = Vec::with_capacity(length(wire));
    for (n, port) in findings.list(wire, "ports") {
        let path = format_args!("ports[{n}]");
        if port.name == Lax::Absent {
            findings.say(format!("{path} has no name; it is left out (an unnamed port has an empty name)"));
            continue;
        }
        found.extend(numbered_port(port, path, interner, findings));
    }
    found.shrink_to_fit(); // It is kept for as long as its object.
    found
}

/// A port that may lack a name.
pub(super) fn numbered_port(
    port: &wire::SlicePort,
    path: Arguments<'_>,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<SlicePort> {
    let (name, protocol) = port_name(&port.name, &port.protocol, path, interner, findings)?;
    let Some(&number) = findings.field(&port.port, format_args!("{path}.port")) else {
        findings.say(format!("{path} has no port number; it is left out"));
        return None;
    };
    let port = port_number(number, format_args!("{path}.port"), "the port is left out", findings)?;
    Some(SlicePort { name, protocol, port })
}

/// How many elements there are, good or bad.
fn length<T>(list: &Lax<List<T>>) -> usize {
    list.as_ref().map_or(0, Vec::len)
}

fn endpoints(
    wire: &wire::EndpointSlice,
    family: Family,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Vec<SliceEndpoint> {
    let mut found: Vec<SliceEndpoint> = Vec::with_capacity(length(&wire.endpoints));
    for (n, endpoint) in findings.list(&wire.endpoints, "endpoints") {
        let Some(address) = first_address(endpoint, n, family, findings) else { continue };
        let node =
            node_name(&endpoint.node_name, format_args!("endpoints[{n}].nodeName"), interner, findings);
        let mut hints = hints(endpoint, n, interner, findings);
        // Neighbours mostly carry the same hints: share them.
        if let (Some(own), Some(before)) = (&mut hints, found.last().and_then(|e| e.hints.as_ref()))
            && own == before
        {
            *own = before.clone();
        }
        found.push(SliceEndpoint { address, conditions: conditions(endpoint, n, findings), node, hints });
    }
    found.shrink_to_fit(); // It is kept for as long as its object.
    found
}

/// The only address that counts.
fn first_address(
    endpoint: &wire::Endpoint,
    n: usize,
    family: Family,
    findings: &mut Findings,
) -> Option<IpAddr> {
    let addresses = findings.field(&endpoint.addresses, format_args!("endpoints[{n}].addresses"));
    let Some(Lax::Is(text)) = addresses.and_then(|list| list.first()) else {
        findings.say(format!("endpoints[{n}] has no address; it is left out"));
        return None;
    };
    let path = format_args!("endpoints[{n}].addresses[0]");
    let Some(address) = text::address(text) else {
        findings.bad(path, text, "not an IP address", "the endpoint is left out");
        return None;
    };
    if Family::of(address) != family {
        findings.bad(path, text, "not of the slice's addressType", "the endpoint is left out");
        return None;
    }
    Some(address)
}

fn conditions(endpoint: &wire::Endpoint, n: usize, findings: &mut Findings) -> Conditions {
    let path = format_args!("endpoints[{n}].conditions");
    let default = Conditions::default();
    let Some(wire) = findings.field(&endpoint.conditions, path) else { return default };
    let mut flag = |field: &Lax<bool>, name: &str, default: bool| {
        findings.field(field, format_args!("{path}.{name}")).copied().unwrap_or(default)
    };
    Conditions {
        ready: flag(&wire.ready, "ready", default.ready),
        serving: flag(&wire.serving, "serving", default.serving),
        terminating: flag(&wire.terminating, "terminating", default.terminating),
    }
}

/// The name of the endpoint's node, if it is one.
pub(super) fn node_name(
    field: &Lax<Text>,
    path: impl Display,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<Arc<str>> {
    match findings.text(field, &path) {
        "" => None,
        name if is_dns_subdomain(name) => Some(interner.intern(name)),
        name => {
            findings.bad(path, name, "not a node name", "the endpoint's node counts as unknown");
            None
        }
    }
}

fn hints(
    endpoint: &wire::Endpoint,
    n: usize,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<Arc<Hints>> {
    let path = format_args!("endpoints[{n}].hints");
    let wire = findings.field(&endpoint.hints, path)?;
    let (zone_path, node_path) = (format_args!("{path}.forZones"), format_args!("{path}.forNodes"));
    let zones = hinted(&wire.for_zones, zone_path, is_label_value, interner, findings);
    let nodes = hinted(&wire.for_nodes, node_path, is_dns_subdomain, interner, findings);
    let is_empty = zones.is_empty() && nodes.is_empty();
    (!is_empty).then(|| Arc::new(Hints { zones, nodes }))
}

fn hinted(
    wire: &Lax<List<Named>>,
    path: Arguments<'_>,
    is_valid: fn(&str) -> bool,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Vec<Arc<str>> {
    let mut names = Vec::new();
    for (n, named) in findings.list(wire, path) {
        match findings.text(&named.name, format_args!("{path}[{n}].name")) {
            name if is_valid(name) => names.push(interner.intern(name)),
            name => findings.bad(
                format_args!("{path}[{n}].name"),
                name,
                "not a valid name",
                "the hint is ignored",
            ),
        }
    }
    names
}

/// When the change happened that made the endpoint controller write the object.
pub(super) fn trigger(metadata: &Lax<Meta>, findings: &mut Findings) -> Option<SystemTime> {
    let annotations = metadata.as_ref().and_then(|m| m.annotations.as_ref())?;
    let path = "annotation endpoints.kubernetes.io/last-change-trigger-time";
    let text = findings.text(&annotations.trigger_time, path);
    if text.is_empty() {
        return None;
    }
    let time = text::time(text);
    if time.is_none() {
        findings.bad(path, text, "not a time", "it is ignored");
    }
    time.map(SystemTime::from)
}
