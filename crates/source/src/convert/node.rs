//! v1 Node and networking.k8s.io/v1 ServiceCIDR.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::Node;

use super::text::{self, is_dns_subdomain, is_label_value};
use super::{Converted, Findings, Interner, object_name};
use crate::wire::{self, Lax, List, Text};

/// The cluster autoscaler's announcement that the node will go.
const TO_BE_DELETED_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Converts a Node.
pub(crate) fn node(wire: &wire::Node, interner: &mut Interner) -> Converted<Node> {
    let mut findings = Findings::default();
    let value = read(wire, interner, &mut findings);
    findings.with(value, || object_name::<wire::Node>(&wire.metadata))
}

fn read(wire: &wire::Node, interner: &mut Interner, findings: &mut Findings) -> Option<Node> {
    let meta = findings.required(&wire.metadata, "metadata")?;
    let name = findings.required(&meta.name, "metadata.name")?;
    if !is_dns_subdomain(name) {
        findings.set_aside("metadata.name", name, "not a node name");
        return None;
    }
    let spec = findings.field(&wire.spec, "spec");
    Some(Node {
        name: interner.intern(name),
        addresses: addresses(wire, findings),
        zone: zone(meta, interner, findings),
        pod_cidrs: spec.map(|spec| pod_cidrs(spec, findings)).unwrap_or_default(),
        // A time in an unexpected form is still a deletion.
        is_being_deleted: meta.deletion_timestamp != Lax::Absent,
        is_to_be_deleted: spec.is_some_and(|spec| {
            let mut taints = findings.list(&spec.taints, "spec.taints");
            taints.any(|(_, taint)| taint.key.text() == TO_BE_DELETED_TAINT)
        }),
    })
}

fn zone(meta: &wire::Meta, interner: &mut Interner, findings: &mut Findings) -> Option<Arc<str>> {
    let labels = findings.field(&meta.labels, "metadata.labels")?;
    let path = "label topology.kubernetes.io/zone";
    match findings.text(&labels.zone, path) {
        "" => None,
        zone if is_label_value(zone) => Some(interner.intern(zone)),
        zone => {
            findings.bad(path, zone, "not a label value", "the zone counts as unknown");
            None
        }
    }
}

fn addresses(wire: &wire::Node, findings: &mut Findings) -> Vec<IpAddr> {
    let Some(status) = findings.field(&wire.status, "status") else { return Vec::new() };
    let listed = findings.list(&status.addresses, "status.addresses");
    let mut found = Vec::new();
    for kind in ["InternalIP", "ExternalIP"] {
        for (n, address) in listed.clone().filter(|(_, address)| address.kind.text() == kind) {
            let text = findings.text(&address.address, format_args!("status.addresses[{n}].address"));
            match text::address(text) {
                Some(address) => found.push(address),
                None => {
                    let path = format_args!("status.addresses[{n}].address");
                    findings.bad(path, text, "not an IP address", "it is left out");
                }
            }
        }
    }
    found
}

fn pod_cidrs(spec: &wire::NodeSpec, findings: &mut Findings) -> Vec<IpNet> {
    let found = networks(&spec.pod_cidrs, "spec.podCIDRs", findings);
    if !found.is_empty() {
        return found;
    }
    // A hand-written Node may have the older field only.
    text::network(findings.text(&spec.pod_cidr, "spec.podCIDR")).into_iter().collect()
}

fn networks(list: &Lax<List<Text>>, path: &str, findings: &mut Findings) -> Vec<IpNet> {
    let mut found = Vec::new();
    for (n, text) in findings.list(list, path) {
        match text::network(text.trim()) {
            Some(network) => found.push(network),
            None => findings.bad(format_args!("{path}[{n}]"), text, "not a CIDR range", "it is left out"),
        }
    }
    found
}

/// Converts a ServiceCIDR into its ranges.
pub(crate) fn service_cidr(wire: &wire::ServiceCidr) -> Converted<Vec<IpNet>> {
    let mut findings = Findings::default();
    let spec = findings.required(&wire.spec, "spec");
    let value = spec.map(|spec| {
        let mut ranges = networks(&spec.cidrs, "spec.cidrs", &mut findings);
        if ranges.iter().any(|range| range.prefix_len() == 0) {
            ranges.retain(|range| range.prefix_len() > 0);
            findings.say("spec.cidrs holds a range of all addresses, of which no traffic would be left; it is left out".to_owned());
        }
        ranges
    });
    findings.with(value, || object_name::<wire::ServiceCidr>(&wire.metadata))
}
