//! What fits badly together: IP families of the node, of the configuration, and of the kernel.
//!
//! In: the configuration, the own Node, the families that are served. Out: one line per mismatch, with kube-proxy's
//! words. kube-proxy ends the process for two of them; here the node may still change, and then all is well again.

use std::sync::{Mutex, PoisonError};

use ipnet::IpNet;
use switchyard_model::{Family, Node};

use super::primary_family;
use crate::flags::{Config, LocalMode, NodePortRanges};

/// What the operator has been told of it.
#[derive(Debug, Default)]
pub struct Misfits(Mutex<Vec<String>>);

impl Misfits {
    /// Logs what is new.
    pub fn tell(&self, now: Vec<String>) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in now.iter().filter(|line| !told.contains(line)) {
            tracing::warn!("{line}");
        }
        *told = now;
    }
}

/// Everything that fits badly; nothing before the node's address is known.
pub fn complaints(config: &Config, node: &Node, served: &[Family]) -> Vec<String> {
    if config.bind_address.is_none() && node.addresses.is_empty() {
        return Vec::new();
    }
    let primary = primary_family(config, node);
    let other = other(primary);
    let is_dual = served.len() > 1;
    let cluster = if is_dual { format!("{primary}-primary") } else { format!("{primary}-only") };
    let only_other = |ranges: &[IpNet]| !ranges.is_empty() && ranges.iter().all(|range| of(range) == other);
    let mut lines: Vec<String> = of_node_ports(config, node, primary).into_iter().collect();
    let mut bad = |what: &str| lines.push(format!("cluster is {cluster} but {what} {other} addresses"));
    if matches!(&config.local_mode, LocalMode::ClusterCidr(ranges) if only_other(ranges)) {
        bad("clusterCIDR contains only");
    }
    if only_other(&node.pod_cidrs) {
        bad("node.spec.podCIDRs contains only");
    }
    if !is_dual {
        for (name, address) in
            [("healthzBindAddress", config.healthz), ("metricsBindAddress", Some(config.metrics))]
        {
            let is_bad = |ip: std::net::IpAddr| !ip.is_unspecified() && Family::of(ip) == other;
            if address.is_some_and(|address| is_bad(address.ip())) {
                bad(&format!("{name} is one of the"));
            }
        }
    }
    lines
}

/// Node ports that answer where nobody may expect it.
fn of_node_ports(config: &Config, node: &Node, primary: Family) -> Option<String> {
    let other = other(primary);
    let open = |family| format!("NodePort connections will be accepted on all local {family} IPs");
    match &config.node_ports {
        NodePortRanges::All => Some(
            "nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using \
             `--nodeport-addresses primary`"
                .to_owned(),
        ),
        NodePortRanges::Primary => None,
        NodePortRanges::Cidrs(ranges) if !ranges.iter().any(|range| of(range) == primary) => Some(format!(
            "cluster appears to be {primary}-primary but nodePortAddresses contains only {other} addresses; {}",
            open(primary)
        )),
        NodePortRanges::Cidrs(ranges) if looks_dual(config, node) && !ranges.iter().any(|range| of(range) == other) => {
            Some(format!(
                "cluster appears to be dual-stack but nodePortAddresses contains only {primary} addresses; {}",
                open(other)
            ))
        }
        NodePortRanges::Cidrs(_) => None,
    }
}

/// True if any list of ranges has both families.
fn looks_dual(config: &Config, node: &Node) -> bool {
    let has_both =
        |ranges: &[IpNet]| Family::ALL.iter().all(|family| ranges.iter().any(|range| of(range) == *family));
    let in_cluster = matches!(&config.local_mode, LocalMode::ClusterCidr(ranges) if has_both(ranges));
    let in_node_ports = matches!(&config.node_ports, NodePortRanges::Cidrs(ranges) if has_both(ranges));
    in_cluster || in_node_ports || has_both(&node.pod_cidrs)
}

fn of(range: &IpNet) -> Family {
    Family::of(range.addr())
}

fn other(family: Family) -> Family {
    match family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;

    fn said(flags: &str, addresses: &[&str], pod_cidrs: &[&str], served: &[Family]) -> String {
        let args = std::iter::once("switchyard").chain(flags.split_whitespace()).map(Into::into);
        let config = Flags::read(args).expect("flags parse").check().expect("flags are fine");
        let node = Node {
            addresses: addresses.iter().map(|a| a.parse().expect("an address")).collect(),
            pod_cidrs: pod_cidrs.iter().map(|c| c.parse().expect("a range")).collect(),
            ..Node::default()
        };
        complaints(&config, &node, served).join("\n")
    }

    const PRIMARY: &str = "--nodeport-addresses=primary";
    const V4: &[&str] = &["192.0.2.1"];
    const V6: &[&str] = &["2001:db8::1"];

    #[test]
    fn what_fits_is_silent_and_so_is_what_is_not_known() {
        for flags in [PRIMARY, "--nodeport-addresses=primary --cluster-cidr=10.0.0.0/8"] {
            assert_eq!(said(flags, V4, &["10.1.0.0/24"], &[Family::V4]), "");
            assert_eq!(said(flags, V4, &["10.1.0.0/24", "fd00::/64"], &Family::ALL), "");
        }
        assert_eq!(said("--cluster-cidr=fd00::/8", &[], &[], &[Family::V4]), "");
        assert_eq!(said("--proxy-mode=nftables", V6, &[], &Family::ALL), "");
        assert_eq!(
            said(
                &format!("{PRIMARY} --bind-address=::1 --metrics-bind-address=[::]:1"),
                &[],
                &[],
                &[Family::V6]
            ),
            ""
        );
    }

    #[test]
    fn ranges_of_the_wrong_family_are_named() {
        let flags = format!("{PRIMARY} --cluster-cidr=fd00::/8");
        assert_eq!(
            said(&flags, V4, &["fd00:1::/64"], &[Family::V4]),
            "cluster is IPv4-only but clusterCIDR contains only IPv6 addresses\n\
             cluster is IPv4-only but node.spec.podCIDRs contains only IPv6 addresses"
        );
        assert!(said(&flags, V4, &[], &Family::ALL).contains("cluster is IPv4-primary but clusterCIDR"));
        assert_eq!(said(&format!("{flags} --detect-local-mode=NodeCIDR"), V4, &[], &[Family::V4]), "");
        assert!(
            said(PRIMARY, V6, &[], &[Family::V6]).contains("metricsBindAddress is one of the IPv4 addresses")
        );
    }

    #[test]
    fn node_ports_that_are_open_are_named() {
        assert!(said("", V4, &[], &Family::ALL).contains("nodePortAddresses is unset"));
        let v4_only = "--nodeport-addresses=192.0.2.0/24";
        assert_eq!(said(v4_only, V4, &[], &Family::ALL), "");
        assert!(
            said(&format!("{v4_only} --cluster-cidr=10.0.0.0/8,fd00::/8"), V4, &[], &Family::ALL)
                .contains("all local IPv6 IPs")
        );
        assert!(
            said(v4_only, V6, &[], &Family::ALL)
                .contains("appears to be IPv6-primary but nodePortAddresses contains only IPv4")
        );
    }
}
