//! From whatever the kernel holds to what is wanted: the first write, adoption of what an earlier run left, repair.
//!
//! In: the table, virtual servers and addresses that were read back. Out: only what differs, in an order that keeps
//! connections.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use switchyard_model::ServicePortName;

use super::{Planner, nobodys, owned, put_rules};
use crate::ipvs::ownership::Ledger;
use crate::ipvs::steps::{Step, Steps};
use crate::ipvs::{Content, Options, Server};
use crate::nft::element::{Key, Place};
use crate::nft::names::Set;
use crate::nft::ops::{Change, Op as RuleOp};
use crate::nft::planner::Ruleset;

/// What the kernel holds of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Our table; `None` if it is not there, or not as we would have made it.
    pub table: Option<Ruleset>,
    /// Every virtual server, ours and others'. Destinations are only asked for if it is wanted.
    pub servers: BTreeMap<Server, HeldServer>,
    /// Addresses of our link.
    pub addresses: BTreeSet<IpAddr>,
}

/// A virtual server of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldServer {
    /// How it works.
    pub options: Options,
    /// Where it sends packets.
    pub destinations: BTreeMap<SocketAddr, HeldDestination>,
}

/// Whether a destination is as we would have made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldDestination {
    /// It gets its share.
    Sound,
    /// It gets nothing, or another share, or in another way.
    Other,
}

impl Planner {
    /// The first write of the table: `each` sees all changes, in order. Chains that packets enter at come last.
    pub fn everything(&self, each: &mut dyn FnMut(Option<&ServicePortName>, Change)) {
        each(None, Change::AddTable);
        Set::IPVS.into_iter().for_each(|set| each(None, Change::AddSet(set, None)));
        let chains = super::base::chains(&self.config, self.book.settings());
        let (entries, others): (Vec<_>, Vec<_>) = chains.into_iter().partition(|chain| chain.base.is_some());
        others.into_iter().for_each(|chain| each(None, Change::AddChain(chain)));
        self.elements(&mut |owner, place, data| each(owner, Change::AddElement(place, data)));
        entries.into_iter().for_each(|chain| each(None, Change::AddChain(chain)));
    }

    /// What turns what the kernel holds into what is wanted. Without a table, [`Self::everything`] comes before it.
    pub fn repair(&self, held: &Held) -> Steps {
        let mut steps = Steps::default();
        self.repair_servers(held, &mut steps);
        if let Some(table) = &held.table {
            put_rules(self.repair_table(table.clone()), &mut steps);
        }
        self.repair_addresses(held, &mut steps);
        steps
    }

    fn repair_servers(&self, held: &Held, steps: &mut Steps) {
        let wanted = self.servers();
        for (server, (name, content)) in &wanted {
            repair_server(*server, name, content, held.servers.get(server), steps);
        }
        let ledger = Ledger { addresses: &held.addresses, table: held.table.as_ref() };
        for server in held.servers.keys().filter(|server| !wanted.contains_key(server)) {
            let is_excluded = self.config.excluded.iter().any(|range| range.contains(&server.address));
            if ledger.owns(*server) && !is_excluded {
                steps.shrink.push(nobodys(Step::DeleteServer(*server)));
            }
        }
    }

    fn repair_table(&self, mut table: Ruleset) -> Vec<RuleOp> {
        let common = |change| RuleOp { change, owner: None };
        let mut rules = Vec::new();
        for (name, chain) in self.chains() {
            match table.chains.get(&name) {
                None => rules.push(common(Change::AddChain(chain))),
                Some(same) if *same == chain => {}
                Some(_) => rules.push(common(Change::ReplaceRules(chain))),
            }
        }
        let mut missing = Vec::new();
        self.elements(&mut |owner, place, data| match table.elements.entry(place) {
            Entry::Occupied(same) if *same.get() == data => _ = same.remove(),
            _ => missing.push(RuleOp { change: Change::AddElement(place, data), owner: owner.cloned() }),
        });
        // What is left is not wanted, or not with this value.
        rules.extend(table.elements.keys().map(|place| common(Change::DeleteElement(*place))));
        rules.extend(missing);
        rules
    }

    /// The link may differ from the table: both are compared with what is wanted.
    fn repair_addresses(&self, held: &Held, steps: &mut Steps) {
        let is_about_address = |step: &Step| matches!(step, Step::AddAddress(_) | Step::RemoveAddress(_));
        steps.grow.retain(|op| !is_about_address(&op.step));
        steps.shrink.retain(|op| !is_about_address(&op.step));
        let mut wanted: BTreeMap<IpAddr, Option<ServicePortName>> = BTreeMap::new();
        self.elements(&mut |owner, place, _| {
            if let Place { set: Set::VirtualIps, key: Key::Address(ip) } = place {
                wanted.insert(ip, owner.cloned());
            }
        });
        for (ip, owner) in &wanted {
            if let (false, Some(owner)) = (held.addresses.contains(ip), owner) {
                steps.grow.push(owned(owner, Step::AddAddress(*ip)));
            }
        }
        let gone = held.addresses.iter().filter(|ip| !wanted.contains_key(ip));
        steps.shrink.extend(gone.map(|ip| nobodys(Step::RemoveAddress(*ip))));
    }
}

fn repair_server(
    server: Server,
    name: &ServicePortName,
    wanted: &Content,
    held: Option<&HeldServer>,
    steps: &mut Steps,
) {
    match held {
        None => steps.grow.push(owned(name, Step::AddServer(server, wanted.options.clone()))),
        Some(held) if held.options != wanted.options => {
            steps.grow.push(owned(name, Step::SetServer(server, wanted.options.clone())));
        }
        Some(_) => {}
    }
    let none = BTreeMap::new();
    let there = held.map_or(&none, |held| &held.destinations);
    for to in &wanted.destinations {
        if there.get(to) != Some(&HeldDestination::Sound) {
            steps.grow.push(owned(name, Step::AddDestination(server, *to)));
        }
    }
    let gone = there.keys().filter(|to| !wanted.destinations.contains(to));
    steps.shrink.extend(gone.map(|to| nobodys(Step::Retire(server, *to))));
}
