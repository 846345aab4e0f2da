//! Which elements and chains carry the packets for a frontend.

use std::collections::BTreeSet;

use super::Planner;
use super::repair::callees;
use crate::explain::Hit;
use crate::nft::element::{Data, Key};
use crate::nft::rule::Verdict;

impl Planner {
    /// One line for each element that is about the frontend, then one for each chain that they lead to.
    pub fn means(&self, hit: &Hit<'_>) -> Vec<String> {
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
