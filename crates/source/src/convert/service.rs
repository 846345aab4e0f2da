//! v1 Service.

use std::collections::BTreeSet;
use std::fmt::{Arguments, Display};
use std::net::IpAddr;

use ipnet::IpNet;
use switchyard_model::{Family, Port, Protocol, Service, ServiceName, ServiceType, TrafficPolicy};

use super::text::{self, is_dns_label};
use super::{Converted, Findings, Interner, namespaced, object_name};
use crate::wire::{self, Lax, ServiceSpec, Text};

/// What the API server puts where ClientIP affinity has no timeout.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;
/// The longest affinity that the API server accepts.
const MAX_AFFINITY_SECONDS: u32 = 86_400;

/// Which families a Service without cluster IPs asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FamilyWish {
    /// `spec.ipFamilies`, without duplicates; empty means that the cluster chooses.
    pub(crate) families: Vec<Family>,
    /// `spec.ipFamilyPolicy` prefers or requires both families.
    pub(crate) is_dual_stack: bool,
}

/// Converts a Service. Headless Services and those of another proxy give nothing, without a complaint.
pub(crate) fn service(wire: &wire::Service, interner: &mut Interner) -> Converted<Service> {
    let mut findings = Findings::default();
    let value = read(wire, interner, &mut findings);
    findings.with(value, || object_name::<wire::Service>(&wire.metadata))
}

/// The families for which a Service of a manifest needs cluster IPs of our own choice, if it needs any.
pub(crate) fn cluster_ip_wish(wire: &wire::Service) -> Option<FamilyWish> {
    let spec = wire.spec.as_ref()?;
    if !is_empty_or_blank(&spec.cluster_ip) || spec.cluster_ips.as_ref().is_some_and(|l| !l.is_empty()) {
        return None;
    }
    let mut families = Vec::new();
    for family in spec.ip_families.as_ref().into_iter().flatten().filter_map(Lax::as_ref) {
        if let Some(family) = family_named(family)
            && !families.contains(&family)
        {
            families.push(family);
        }
    }
    let is_dual_stack = matches!(spec.ip_family_policy.text(), "PreferDualStack" | "RequireDualStack");
    (spec.kind.text() != "ExternalName").then_some(FamilyWish { families, is_dual_stack })
}

fn is_empty_or_blank(field: &Lax<Text>) -> bool {
    !matches!(field, Lax::Wrong(_)) && field.text().trim().is_empty()
}

pub(super) fn family_named(text: &str) -> Option<Family> {
    Family::ALL.into_iter().find(|family| family.as_str() == text)
}

fn read(wire: &wire::Service, interner: &mut Interner, findings: &mut Findings) -> Option<Service> {
    let labels = wire.metadata.as_ref().and_then(|m| m.labels.as_ref());
    if labels.is_some_and(|l| l.proxy_name != Lax::Absent) {
        return None;
    }
    if wire.spec.as_ref().is_some_and(is_headless) {
        return None;
    }
    let (namespace, name) = namespaced(&wire.metadata, is_dns_label, interner, findings)?;
    let spec = findings.required(&wire.spec, "spec")?;
    let load_balancer_ips = match spec.load_balancer_source_ranges {
        // An unreadable list of allowed sources must not open the load balancer to everybody.
        Lax::Wrong(_) => Vec::new(),
        Lax::Is(_) | Lax::Absent => load_balancer_ips(wire, findings),
    };
    Some(Service {
        name: ServiceName { namespace, name },
        created: created(wire, findings),
        kind: kind(spec, findings),
        cluster_ips: cluster_ips(spec, findings),
        external_ips: external_ips(spec, findings),
        load_balancer_ips,
        source_ranges: source_ranges(spec, findings),
        affinity: affinity(spec, findings),
        internal_policy: policy(&spec.internal_traffic_policy, "spec.internalTrafficPolicy", findings),
        external_policy: policy(&spec.external_traffic_policy, "spec.externalTrafficPolicy", findings),
        health_check_node_port: optional_port(
            &spec.health_check_node_port,
            "spec.healthCheckNodePort",
            findings,
        ),
        ports: ports(spec, interner, findings),
    })
}

fn is_headless(spec: &ServiceSpec) -> bool {
    let first = spec.cluster_ips.as_ref().and_then(|list| list.first());
    spec.cluster_ip.text() == "None" || first.is_some_and(|first| first.text() == "None")
}

fn created(wire: &wire::Service, findings: &mut Findings) -> i64 {
    let Some(meta) = wire.metadata.as_ref() else { return 0 };
    let time = findings.field(&meta.creation_timestamp, "metadata.creationTimestamp");
    let text = match time {
        Some(wire::Moment::Text(text)) if !text.is_empty() => text,
        Some(wire::Moment::At(time)) => return time.as_second(),
        _ => return 0,
    };
    text::time(text).map_or_else(
        || {
            findings.bad("metadata.creationTimestamp", text, "not a time", "the age counts as unknown");
            0
        },
        jiff::Timestamp::as_second,
    )
}

fn kind(spec: &ServiceSpec, findings: &mut Findings) -> ServiceType {
    match findings.text(&spec.kind, "spec.type") {
        "" | "ClusterIP" => ServiceType::ClusterIp,
        "NodePort" => ServiceType::NodePort,
        "LoadBalancer" => ServiceType::LoadBalancer,
        "ExternalName" => ServiceType::ExternalName,
        other => {
            findings.bad("spec.type", other, "not a known type", "ClusterIP is assumed");
            ServiceType::ClusterIp
        }
    }
}

/// One cluster IP per family, in the order of the families. A manifest has not gone through the API server, which fills
/// in clusterIP, clusterIPs and ipFamilies from each other; so each may be missing here.
fn cluster_ips(spec: &ServiceSpec, findings: &mut Findings) -> Vec<IpAddr> {
    let families = findings.list(&spec.ip_families, "spec.ipFamilies");
    let texts = findings.list(&spec.cluster_ips, "spec.clusterIPs");
    let first = findings.field(&spec.cluster_ip, "spec.clusterIP");
    let only = first.filter(|_| texts.clone().next().is_none()).map(|first| (0, first));
    let mut found: Vec<IpAddr> = Vec::with_capacity(Family::ALL.len());
    for (n, text) in texts.chain(only) {
        if text.trim().is_empty() {
            continue;
        }
        let path = format_args!("spec.clusterIPs[{n}]");
        let Some(address) = text::address(text) else {
            findings.bad(path, text, "not an IP address", "it is left out");
            continue;
        };
        let wanted = families.clone().find(|(at, _)| *at == n).map(|(_, family)| family.as_str());
        let family = Family::of(address);
        if wanted.is_some_and(|wanted| wanted != family.as_str())
            || (wanted.is_none() && families.clone().next().is_some())
        {
            findings.bad(path, text, "not of the family that spec.ipFamilies names", "it is left out");
        } else if found.iter().any(|&known| Family::of(known) == family) {
            findings.bad(path, text, "a second address of its family", "it is left out");
        } else {
            found.push(address);
        }
    }
    found.sort_by_key(|&address| Family::of(address));
    found.shrink_to_fit(); // It is kept for as long as its object.
    found
}

fn external_ips(spec: &ServiceSpec, findings: &mut Findings) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for (n, text) in findings.list(&spec.external_ips, "spec.externalIPs") {
        match text::address(text.trim()) {
            Some(address) => found.push(address),
            None if text.trim().is_empty() => {}
            None => {
                findings.bad(
                    format_args!("spec.externalIPs[{n}]"),
                    text,
                    "not an IP address",
                    "it is left out",
                );
            }
        }
    }
    found.shrink_to_fit(); // It is kept for as long as its object.
    found
}

fn load_balancer_ips(wire: &wire::Service, findings: &mut Findings) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let status = findings.field(&wire.status, "status");
    let status = status.and_then(|s| findings.field(&s.load_balancer, "status.loadBalancer"));
    let Some(status) = status else { return found };
    for (n, ingress) in findings.list(&status.ingress, "status.loadBalancer.ingress") {
        let path = format_args!("status.loadBalancer.ingress[{n}]");
        let text = findings.text(&ingress.ip, path);
        match (findings.text(&ingress.ip_mode, format_args!("{path}.ipMode")), text) {
            // Only a host name, or the load balancer itself speaks to node ports.
            ("" | "VIP" | "Proxy", "") | ("Proxy", _) => {}
            ("" | "VIP", text) => match text::address(text) {
                Some(address) => found.push(address),
                None => findings.bad(format_args!("{path}.ip"), text, "not an IP address", "it is left out"),
            },
            (mode, _) => {
                findings.bad(
                    format_args!("{path}.ipMode"),
                    mode,
                    "not a known mode",
                    "its address is left out",
                );
            }
        }
    }
    found.shrink_to_fit(); // It is kept for as long as its object.
    found
}

fn source_ranges(spec: &ServiceSpec, findings: &mut Findings) -> Vec<IpNet> {
    let mut found = Vec::new();
    let path = "spec.loadBalancerSourceRanges";
    for (n, text) in findings.list(&spec.load_balancer_source_ranges, path) {
        match text::network(text.trim()) {
            Some(range) => found.push(range),
            None if text.trim().is_empty() => {}
            None => {
                let done = "it is left out (without any valid range, everybody is allowed)";
                findings.bad(format_args!("{path}[{n}]"), text, "not a CIDR range", done);
            }
        }
    }
    found.shrink_to_fit(); // It is kept for as long as its object.
    found
}

fn affinity(spec: &ServiceSpec, findings: &mut Findings) -> Option<u32> {
    match findings.text(&spec.session_affinity, "spec.sessionAffinity") {
        "" | "None" => return None,
        "ClientIP" => {}
        other => {
            findings.bad("spec.sessionAffinity", other, "not a known affinity", "None is assumed");
            return None;
        }
    }
    let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    let config = findings.field(&spec.session_affinity_config, "spec.sessionAffinityConfig");
    let client = config.and_then(|c| findings.field(&c.client_ip, "spec.sessionAffinityConfig.clientIP"));
    let Some(&seconds) = client.and_then(|c| findings.field(&c.timeout_seconds, path)) else {
        return Some(DEFAULT_AFFINITY_SECONDS);
    };
    match u32::try_from(seconds) {
        Ok(seconds @ 1..=MAX_AFFINITY_SECONDS) => Some(seconds),
        Ok(_) | Err(_) => {
            findings.say(format!("{path} {seconds} is not in 1 to 86400; 10800 is assumed"));
            Some(DEFAULT_AFFINITY_SECONDS)
        }
    }
}

fn policy(field: &Lax<Text>, path: &str, findings: &mut Findings) -> TrafficPolicy {
    match findings.text(field, path) {
        "" | "Cluster" => TrafficPolicy::Cluster,
        "Local" => TrafficPolicy::Local,
        other => {
            findings.bad(path, other, "not a known policy", "Cluster is assumed");
            TrafficPolicy::Cluster
        }
    }
}

fn optional_port(field: &Lax<i64>, path: impl Display, findings: &mut Findings) -> Option<u16> {
    match findings.field(field, &path) {
        None | Some(0) => None,
        Some(&number) => port_number(number, path, "it is ignored", findings),
    }
}

/// A port number, or a finding.
pub(super) fn port_number(
    number: i64,
    path: impl Display,
    done: &str,
    findings: &mut Findings,
) -> Option<u16> {
    let port = u16::try_from(number).ok().filter(|&port| port != 0);
    if port.is_none() {
        findings.say(format!("{path} {number} is not in 1 to 65535; {done}"));
    }
    port
}

fn ports(spec: &ServiceSpec, interner: &mut Interner, findings: &mut Findings) -> Vec<Port> {
    let mut found: Vec<Port> = Vec::new();
    let mut seen = BTreeSet::new();
    for (n, wire) in findings.list(&spec.ports, "spec.ports") {
        let path = format_args!("spec.ports[{n}]");
        let Some(port) = service_port(wire, path, interner, findings) else { continue };
        if seen.insert((port.name.clone(), port.protocol)) {
            found.push(port);
        } else {
            findings.say(format!("{path} has the name and protocol of an earlier port; it is left out"));
        }
    }
    found.shrink_to_fit(); // It is kept for as long as its object.
    found
}

fn service_port(
    wire: &wire::ServicePort,
    path: Arguments<'_>,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<Port> {
    let (name, protocol) = port_name(&wire.name, &wire.protocol, path, interner, findings)?;
    let Some(&number) = findings.field(&wire.port, format_args!("{path}.port")) else {
        findings.say(format!("{path} has no port number; it is left out"));
        return None;
    };
    let port = port_number(number, format_args!("{path}.port"), "the port is left out", findings)?;
    let node_port = optional_port(&wire.node_port, format_args!("{path}.nodePort"), findings);
    Some(Port { name, protocol, port, node_port })
}

/// Name and protocol of a Service's or a slice's port, or a finding.
pub(super) fn port_name(
    name: &Lax<Text>,
    protocol: &Lax<Text>,
    path: Arguments<'_>,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<(std::sync::Arc<str>, Protocol)> {
    let done = "the port is left out";
    if let Lax::Wrong(found) = name {
        findings.say(format!("{path}.name is {found} where text is expected; {done}"));
        return None;
    }
    if let Lax::Wrong(found) = protocol {
        findings.say(format!("{path}.protocol is {found} where text is expected; {done}"));
        return None;
    }
    if !name.text().is_empty() && !is_dns_label(name.text()) {
        findings.bad(format_args!("{path}.name"), name.text(), "not a DNS label", done);
        return None;
    }
    let Some(protocol) = Protocol::from_api(protocol.text()) else {
        findings.bad(format_args!("{path}.protocol"), protocol.text(), "not TCP, UDP or SCTP", done);
        return None;
    };
    Some((interner.intern(name.text()), protocol))
}
