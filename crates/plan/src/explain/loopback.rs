//! A packet where no rule leads from a frontend to anywhere: only who dials the listener of a frontend gets to its endpoints.
//!
//! In: where the listeners are, and the packet. Out: what the frontend behind a listener makes of it; for a frontend itself, what to dial
//! instead.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use switchyard_model::Family;

use super::{Explanation, Place, Reason, follow, near_miss};
use crate::route::{Frontend, FrontendAddress};
use crate::trace::{Answer, Packet, is_own};

pub(super) fn explain<'a>(
    place: Place<'a>,
    doors: &BTreeMap<Frontend, SocketAddr>,
    packet: &Packet,
) -> Explanation<'a> {
    let dialled = SocketAddr::new(packet.destination, packet.port);
    let is_it =
        |(frontend, at): &(&Frontend, &SocketAddr)| **at == dialled && frontend.protocol == packet.protocol;
    match doors.iter().find(is_it) {
        Some((frontend, _)) if packet.interface.is_none() => through(place, frontend, packet),
        Some(_) => untouched(Reason::OnlyFromThisNode),
        None => untouched(beside(place, doors, packet)),
    }
}

/// What a listener does with its client, whoever it is: nobody else than this node can dial it.
fn through<'a>(place: Place<'a>, frontend: &Frontend, packet: &Packet) -> Explanation<'a> {
    let packet = Packet { source: place.book.settings().node_ip, ..packet.clone() };
    let found = place.book.owner(frontend).and_then(|port| {
        let routes = place.book.routes(port);
        let route = routes.routes.iter().find(|route| route.frontend == *frontend)?;
        Some(follow(place, &routes, route, &packet))
    });
    found.unwrap_or_else(|| untouched(Reason::NotOurs))
}

/// What to dial instead.
fn beside(place: Place<'_>, doors: &BTreeMap<Frontend, SocketAddr>, packet: &Packet) -> Reason {
    let at = |address| Frontend { address, protocol: packet.protocol, port: packet.port };
    let node_port = at(FrontendAddress::Node(Family::of(packet.destination)));
    let named = [at(FrontendAddress::Ip(packet.destination))];
    let meant = named.into_iter().chain(is_own(place.node, packet.destination).then_some(node_port));
    let mut owned = meant.filter_map(|frontend| Some((frontend, place.book.owner(&frontend)?)));
    match owned.next() {
        Some((frontend, port)) => match doors.get(&frontend) {
            Some(door) => Reason::DialInstead(port.name.clone(), *door),
            None => Reason::NoListener(port.name.clone()),
        },
        None => near_miss(place, packet),
    }
}

fn untouched<'a>(reason: Reason) -> Explanation<'a> {
    Explanation { answer: Answer::Untouched, reason, hit: None }
}
