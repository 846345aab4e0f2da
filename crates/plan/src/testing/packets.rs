//! Packets from and to everywhere, for the tests of tracers.

use switchyard_model::{Family, Protocol};

use super::address;
use crate::trace::Packet;

/// Who sends: source address and the interface it comes in on (`-` for the node itself).
const SOURCES: [(&str, &str); 10] = [
    ("10.1.0.1", "cali1"),
    ("10.1.0.2", "cbr0"),
    ("10.1.0.9", "cali2"),
    ("10.1.1.1", "eth0"),
    ("10.1.1.9", "eth0"),
    ("172.16.5.5", "eth0"),
    ("8.8.8.8", "eth0"),
    ("198.51.100.1", "eth0"),
    ("192.168.0.10", "-"),
    ("127.0.0.1", "-"),
];

const DESTINATIONS: [&str; 16] = [
    "10.96.0.1",
    "10.96.0.2",
    "10.96.0.3",
    "10.96.0.4",
    "10.96.0.5",
    "10.96.0.6",
    "10.96.0.99",
    "203.0.113.1",
    "203.0.113.2",
    "198.51.100.1",
    "198.51.100.2",
    "192.168.0.10",
    "192.168.1.10",
    "127.0.0.1",
    "8.8.4.4",
    "10.1.0.1",
];

pub(crate) fn packet(family: Family, from: (&str, &str), to: &str, protocol: Protocol, port: u16) -> Packet {
    let interface = (from.1 != "-").then(|| from.1.to_owned());
    let (source, destination) = (address(family, from.0), address(family, to));
    Packet { source, interface, destination, protocol, port }
}

/// All of them.
pub(crate) fn packets(family: Family) -> Vec<Packet> {
    let mut packets = Vec::new();
    for from in SOURCES {
        for to in DESTINATIONS {
            // Only loopback talks to loopback: anything else is dropped by the kernel or by KUBE-FIREWALL.
            if to == "127.0.0.1" && from.0 != "127.0.0.1" {
                continue;
            }
            for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
                for port in [80, 81, 30000, 30001, 30002] {
                    packets.push(packet(family, from, to, protocol, port));
                }
            }
        }
    }
    packets
}
