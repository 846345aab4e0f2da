//! Which virtual server, destinations and elements carry the packets for a frontend.

use std::net::IpAddr;

use super::Planner;
use crate::explain::Hit;
use crate::ipvs::Server;
use crate::nft::element::Key;
use crate::nft::names::Set;

impl Planner {
    /// One line each. `address` is the one that was dialled: a node port has a virtual server at each of the node's.
    pub fn means(&self, hit: &Hit<'_>, address: IpAddr) -> Vec<String> {
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
