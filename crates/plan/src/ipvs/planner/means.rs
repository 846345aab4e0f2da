//! Which virtual server, destinations and elements carry a packet, or refuse it.

use std::net::IpAddr;

use super::Planner;
use crate::explain::{Explanation, Hit, Reason};
use crate::ipvs::Server;
use crate::ipvs::base::{ENDPOINTS_CHECK, reject_other_ports};
use crate::nft::element::{Data, Key, Place};
use crate::nft::names::Set;
use crate::trace::{Answer, Packet};

impl Planner {
    /// One line each. Nothing for packets that are left alone.
    pub fn means(&self, explanation: &Explanation<'_>, packet: &Packet) -> Vec<String> {
        match (&explanation.hit, &explanation.reason) {
            (Some(hit), _) => self.means_of(hit, packet.destination),
            (None, Reason::NoSuchPort(_)) if explanation.answer == Answer::Reject => {
                let known = Place { set: Set::VirtualIps, key: Key::Address(packet.destination) };
                let family = self.book.settings().family;
                vec![known.to_text(&Data::None), reject_other_ports().to_line(family, ENDPOINTS_CHECK)]
            }
            _ => Vec::new(),
        }
    }

    /// `address` is the one that was dialled: a node port has a virtual server at each of the node's.
    fn means_of(&self, hit: &Hit<'_>, address: IpAddr) -> Vec<String> {
        let Some(port) = self.book.ports().get(&hit.port.name) else { return Vec::new() };
        let needs = self.needs(port);
        let server = Server { address, protocol: hit.frontend.protocol, port: hit.frontend.port };
        let mut lines = Vec::new();
        if let Some(content) = needs.servers.get(&server) {
            lines.push(format!("virtual server {server}, scheduler {}", content.options.scheduler));
            let to = content.destinations.iter();
            lines.extend(to.map(|to| format!("destination {to} of virtual server {server}")));
        }
        let elements = needs.elements.iter().filter(|(place, _)| match place.key {
            Key::Hairpin(ip, ..) => hit.is_hairpin_of(ip),
            Key::Address(ip) => place.set == Set::VirtualIps && ip == address,
            _ => place.is_about(&hit.frontend),
        });
        lines.extend(elements.map(|(place, data)| place.to_text(data)));
        lines
    }
}
