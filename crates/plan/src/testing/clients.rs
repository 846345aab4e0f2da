//! Packets of different clients to one Service with Local policy and source ranges, and where they go in every mode.

use std::net::SocketAddr;

use super::plain_socket;
use crate::trace::{Answer, Seen};

/// A client: its address, and the interface that its packets come in by.
pub(crate) type Client = (&'static str, &'static str);

pub(crate) const POD: Client = ("10.1.0.9", "cali1");
pub(crate) const OUTSIDE: Client = ("8.8.8.8", "eth0");
pub(crate) const NODE: Client = ("192.168.0.10", "-");

pub(crate) const LOCAL: &str = "node detector=prefix:cali
    svc shop/web tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=8.8.0.0/16 etp=local
    ep 10.1.0.1:8080 @here
    ep 10.1.1.1:8080 @there";

/// Who sends to [`LOCAL`], to which address and port, and where it goes, in the words of [`show`].
pub(crate) const FLOWS: [(Client, &str, u16, &str); 10] = [
    (OUTSIDE, "203.0.113.1", 80, "10.1.0.1:8080"),
    (POD, "203.0.113.1", 80, "10.1.0.1:8080 10.1.1.1:8080"),
    (NODE, "203.0.113.1", 80, "10.1.0.1:8080* 10.1.1.1:8080*"),
    (OUTSIDE, "10.96.0.1", 80, "10.1.0.1:8080* 10.1.1.1:8080*"),
    (POD, "10.96.0.1", 80, "10.1.0.1:8080 10.1.1.1:8080"),
    // Itself: the answer must come back through the node.
    (("10.1.0.1", "cali1"), "10.96.0.1", 80, "10.1.0.1:8080* 10.1.1.1:8080"),
    (OUTSIDE, "198.51.100.1", 80, "10.1.0.1:8080"),
    (POD, "198.51.100.1", 80, "drop"),
    (NODE, "198.51.100.1", 80, "drop"),
    (("9.9.9.9", "eth0"), "192.168.0.10", 30080, "10.1.0.1:8080"),
];

/// `endpoint` (source kept), `endpoint*` (masqueraded), reject, drop, untouched.
pub(crate) fn show(answer: Answer) -> String {
    let Answer::Endpoints(endpoints) = answer else { return format!("{answer:?}").to_lowercase() };
    let one = |(at, seen): (SocketAddr, Seen)| {
        format!("{}{}", plain_socket(at), if seen == Seen::Node { "*" } else { "" })
    };
    endpoints.into_iter().map(one).collect::<Vec<_>>().join(" ")
}
