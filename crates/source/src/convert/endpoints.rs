//! v1 Endpoints, which clusters without EndpointSlices have, as slices.

use std::fmt::Arguments;

use switchyard_model::{Conditions, EndpointSlice, Family, ServiceName, SliceEndpoint, SliceName};

use super::slice::{node_name, numbered_port, trigger};
use super::text::{self, is_dns_label};
use super::{Converted, Findings, Interner, namespaced, object_name};
use crate::wire::{self, Lax, SubsetAddress};

/// Not ready and not on its way out: what a failing readiness probe makes of a pod.
const NOT_READY: Conditions = Conditions { ready: false, serving: false, terminating: false };

/// Converts an Endpoints object into one slice per subset and family, named `<name>-<n>-ipv4` or `…-ipv6`.
pub(crate) fn endpoints(wire: &wire::Endpoints, interner: &mut Interner) -> Converted<Vec<EndpointSlice>> {
    let mut findings = Findings::default();
    let value = read(wire, interner, &mut findings);
    findings.with(value, || object_name::<wire::Endpoints>(&wire.metadata))
}

fn read(
    wire: &wire::Endpoints,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<Vec<EndpointSlice>> {
    let labels = wire.metadata.as_ref().and_then(|m| m.labels.as_ref());
    if labels.is_some_and(|l| l.headless != Lax::Absent || l.proxy_name != Lax::Absent) {
        return None;
    }
    let (namespace, name) = namespaced(&wire.metadata, is_dns_label, interner, findings)?;
    let service = ServiceName { namespace, name };
    let trigger = trigger(&wire.metadata, findings);
    let mut slices = Vec::new();
    for (n, subset) in findings.list(&wire.subsets, "subsets") {
        let path = format_args!("subsets[{n}]");
        let mut ports = Vec::new();
        for (at, port) in findings.list(&subset.ports, format_args!("{path}.ports")) {
            ports.extend(numbered_port(port, format_args!("{path}.ports[{at}]"), interner, findings));
        }
        let mut found = Vec::new();
        let mut add = |list, key, conditions| {
            for (at, address) in findings.list(list, format_args!("{path}.{key}")) {
                let path = format_args!("{path}.{key}[{at}]");
                found.extend(endpoint(address, path, conditions, interner, findings));
            }
        };
        add(&subset.addresses, "addresses", Conditions::default());
        add(&subset.not_ready_addresses, "notReadyAddresses", NOT_READY);
        for (family, suffix) in [(Family::V4, "ipv4"), (Family::V6, "ipv6")] {
            let endpoints: Vec<_> =
                found.iter().filter(|e| Family::of(e.address) == family).cloned().collect();
            if endpoints.is_empty() {
                continue;
            }
            let name = SliceName {
                namespace: service.namespace.clone(),
                name: format!("{}-{n}-{suffix}", service.name).into(),
            };
            let (service, ports) = (service.clone(), ports.clone());
            slices.push(EndpointSlice { name, service, family, ports, endpoints, trigger });
        }
    }
    Some(slices)
}

fn endpoint(
    wire: &SubsetAddress,
    path: Arguments<'_>,
    conditions: Conditions,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<SliceEndpoint> {
    let text = findings.text(&wire.ip, format_args!("{path}.ip"));
    let Some(address) = text::address(text) else {
        findings.bad(format_args!("{path}.ip"), text, "not an IP address", "the endpoint is left out");
        return None;
    };
    let node = node_name(&wire.node_name, format_args!("{path}.nodeName"), interner, findings);
    Some(SliceEndpoint { address, conditions, node, hints: None })
}
