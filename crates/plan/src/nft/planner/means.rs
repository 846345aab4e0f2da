//! Which elements and chains carry a packet, or refuse it.

use std::collections::BTreeSet;

use super::Planner;
use super::repair::callees;
use crate::explain::{Explanation, Hit, Reason};
use crate::nft::base::{CLUSTER_IPS_CHECK, drop_unallocated, reject_unknown_ports};
use crate::nft::element::{Data, Key, Place};
use crate::nft::names::Set;
use crate::nft::rule::Verdict;
use crate::trace::{Answer, Packet};

impl Planner {
    /// One line each. Nothing for packets that are left alone.
    pub fn means(&self, explanation: &Explanation<'_>, packet: &Packet) -> Vec<String> {
        let family = self.book.settings().family;
        match (&explanation.hit, &explanation.reason) {
            (Some(hit), _) => self.means_of(hit),
            (None, Reason::NoSuchPort(_)) if explanation.answer == Answer::Reject => {
                let known = Place { set: Set::ClusterIps, key: Key::Address(packet.destination) };
                vec![known.to_text(&Data::None), reject_unknown_ports().to_line(family, CLUSTER_IPS_CHECK)]
            }
            (None, Reason::Unallocated(range)) => {
                vec![drop_unallocated(*range).to_line(family, CLUSTER_IPS_CHECK)]
            }
            _ => Vec::new(),
        }
    }

    /// One line for each element that is about the frontend, then one for each chain that they lead to.
    fn means_of(&self, hit: &Hit<'_>) -> Vec<String> {
        let Some(port) = self.book.ports().get(&hit.port.name) else { return Vec::new() };
        let needs = self.needs(port);
        let (mut lines, mut chains): (Vec<String>, BTreeSet<String>) = Default::default();
        for (place, data) in &needs.elements {
            let is_hairpin = matches!(place.key, Key::Hairpin(ip, ..) if hit.is_hairpin_of(ip));
            if !place.is_about(&hit.frontend) && !is_hairpin {
                continue;
            }
            lines.push(place.to_text(data));
            if let Data::Verdict(Verdict::Goto(chain) | Verdict::Jump(chain)) = data {
                chains.insert(chain.clone());
            }
        }
        // A chain of a sticky Service comes before those that lead to it.
        for chain in needs.sticky.chains.iter().rev() {
            if chains.contains(&chain.name) {
                chains.extend(callees(chain).cloned());
            }
        }
        lines.extend(chains.into_iter().map(|chain| format!("chain {chain}")));
        lines
    }
}
