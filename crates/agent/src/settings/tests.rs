//! Flags as an operator writes them, a node in a few words, and the settings as text.

use super::*;
use crate::flags::Flags;

fn config(flags: &str) -> Config {
    let args = std::iter::once("switchyard").chain(flags.split_whitespace()).map(Into::into);
    Flags::read(args).expect("flags parse").check().expect("flags are fine")
}

fn node(addresses: &[&str], pod_cidrs: &[&str]) -> Node {
    Node {
        name: "n1".into(),
        addresses: addresses.iter().map(|a| a.parse().expect("an address")).collect(),
        pod_cidrs: pod_cidrs.iter().map(|c| c.parse().expect("a range")).collect(),
        zone: Some("z1".into()),
        ..Node::default()
    }
}

fn local() -> Vec<(String, IpAddr)> {
    let addresses = [
        ("lo", "127.0.0.1"),
        ("lo", "::1"),
        ("eth0", "192.0.2.9"),
        ("eth0", "192.0.2.1"),
        ("eth0", "2001:db8::1"),
        ("eth1", "198.51.100.1"),
        ("eth1", "192.0.2.1"),
    ];
    addresses.iter().map(|(name, a)| ((*name).to_owned(), a.parse().expect("an address"))).collect()
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

const DUAL: [&str; 3] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];

#[test]
fn node_addresses_and_primary_family() {
    use Family::{V4, V6};
    let cases: [(&str, &[&str], Family, &str, &str); 8] = [
        ("", &DUAL, V4, "192.0.2.1", "2001:db8::1"),
        ("", &["2001:db8::1", "192.0.2.1"], V6, "192.0.2.1", "2001:db8::1"),
        ("", &["2001:db8::1"], V6, "127.0.0.1", "2001:db8::1"),
        ("", &[], V4, "127.0.0.1", "::1"),
        ("--bind-address=::", &DUAL, V4, "192.0.2.1", "2001:db8::1"),
        ("--bind-address=203.0.113.7", &DUAL, V4, "203.0.113.7", "2001:db8::1"),
        ("--bind-address=2001:db8::7", &DUAL, V6, "192.0.2.1", "2001:db8::7"),
        ("--bind-address=2001:db8::7", &[], V6, "127.0.0.1", "2001:db8::7"),
    ];
    for (flags, addresses, primary, v4, v6) in cases {
        let (config, node) = (config(flags), node(addresses, &[]));
        assert_eq!(primary_family(&config, &node), primary, "{flags} {addresses:?}");
        let ip = |family| settings(&config, &node, family, &[]).node_ip.to_string();
        assert_eq!((ip(V4).as_str(), ip(V6).as_str()), (v4, v6), "{flags} {addresses:?}");
    }
}

#[test]
fn name_zone_and_masquerade_are_passed_on() {
    use switchyard_plan::settings::MasqueradeClusterIp;
    let got = settings(&config("--masquerade-all"), &node(&DUAL, &[]), Family::V6, &[]);
    assert_eq!((&*got.node_name, got.zone.as_deref(), got.family), ("n1", Some("z1"), Family::V6));
    assert_eq!(got.masquerade, MasqueradeClusterIp::All);
}

#[test]
fn detectors() {
    let cases: [(&str, &[&str], &str, &str); 8] = [
        ("", &[], "None", "None"),
        ("--cluster-cidr=10.244.3.0/16", &[], "Cidr(10.244.0.0/16)", "None"),
        ("--cluster-cidr=fd00::/48,10.0.0.0/8", &[], "Cidr(10.0.0.0/8)", "Cidr(fd00::/48)"),
        ("--cluster-cidr=10.0.0.0/8 --detect-local-mode=NodeCIDR", &[], "None", "None"),
        (
            "--detect-local-mode=NodeCIDR",
            &["10.1.0.0/24", "10.2.0.0/24", "fd01::/64"],
            "Cidr(10.1.0.0/24)",
            "Cidr(fd01::/64)",
        ),
        ("", &["10.1.0.0/24"], "None", "None"),
        (
            "--detect-local-mode=BridgeInterface --pod-bridge-interface=cni0",
            &[],
            "Bridge(\"cni0\")",
            "Bridge(\"cni0\")",
        ),
        (
            "--detect-local-mode=InterfaceNamePrefix --pod-interface-name-prefix=veth",
            &[],
            "InterfacePrefix(\"veth\")",
            "InterfacePrefix(\"veth\")",
        ),
    ];
    for (flags, pod_cidrs, v4, v6) in cases {
        let (config, node) = (config(flags), node(&DUAL, pod_cidrs));
        let told = |family| format!("{:?}", settings(&config, &node, family, &[]).detector);
        assert_eq!((told(Family::V4).as_str(), told(Family::V6).as_str()), (v4, v6), "{flags}");
    }
}

#[test]
fn node_ports_and_health_checks() {
    // Flags, node addresses; for each family the node-port addresses and whether loopback is served.
    let cases: [(&str, &[&str], &str, &str); 13] = [
        ("", &DUAL, "all loopback", "all"),
        ("--iptables-localhost-nodeports=false", &DUAL, "all", "all"),
        ("--nodeport-addresses=192.0.2.0/24", &DUAL, "192.0.2.1 192.0.2.9", "all"),
        ("--nodeport-addresses=2001:db8::/32", &DUAL, "all loopback", "2001:db8::1"),
        (
            "--nodeport-addresses=192.0.2.0/24,127.0.0.0/8",
            &DUAL,
            "127.0.0.1 192.0.2.1 192.0.2.9 loopback",
            "all",
        ),
        ("--nodeport-addresses=127.0.0.1/32", &DUAL, "127.0.0.1 loopback", "all"),
        ("--nodeport-addresses=127.0.0.0/7", &DUAL, "127.0.0.1 loopback", "all"),
        ("--nodeport-addresses=0.0.0.0/0", &DUAL, "all loopback", "all"),
        ("--nodeport-addresses=10.0.0.0/8,::/0", &DUAL, "", "all"),
        ("--nodeport-addresses=::1/128", &DUAL, "all loopback", "::1"),
        ("--nodeport-addresses=primary", &DUAL, "192.0.2.1", "2001:db8::1"),
        ("--nodeport-addresses=primary", &["192.0.2.9"], "192.0.2.9", "all"),
        ("--nodeport-addresses=primary", &[], "all loopback", "all"),
    ];
    for (flags, addresses, v4, v6) in cases {
        let (config, node) = (config(flags), node(addresses, &[]));
        for (family, want) in [(Family::V4, v4), (Family::V6, v6)] {
            let got = settings(&config, &node, family, &local());
            let mut text = match &got.node_ports {
                NodePortAddresses::All => "all".to_owned(),
                NodePortAddresses::Only(addresses) => list(addresses),
            };
            if got.loopback_node_ports == LoopbackNodePorts::Served {
                text.push_str(" loopback");
            }
            assert_eq!(text, want, "{flags} {addresses:?} {family}");
            let listen = list(&health_check_addresses(&got));
            match (&got.node_ports, family) {
                (NodePortAddresses::All, Family::V4) => assert_eq!(listen, "0.0.0.0"),
                (NodePortAddresses::All, Family::V6) => assert_eq!(listen, "::"),
                (NodePortAddresses::Only(only), _) => assert_eq!(listen, list(only)),
            }
        }
    }
}

#[test]
fn the_order_of_local_addresses_does_not_matter() {
    let (config, node) = (config("--nodeport-addresses=192.0.2.0/24"), node(&DUAL, &[]));
    let mut turned = local();
    turned.reverse();
    let [one, other] = [local(), turned].map(|local| settings(&config, &node, Family::V4, &local));
    assert_eq!(one, other);
}
