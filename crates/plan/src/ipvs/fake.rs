//! Just enough of a kernel with IPVS to obey steps one by one, and to notice an order that would do harm. For tests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::ownership::Ledger;
use super::planner::{Held, HeldDestination, HeldServer};
use super::steps::{Op, Step, Steps};
use super::{Content, Planner, Server};
use crate::nft::element::{Key, Place};
use crate::nft::fake::FakeKernel as FakeTables;
use crate::nft::names::Set;
use crate::nft::ops::Op as RuleOp;

/// A table, virtual servers, and the addresses of our link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FakeKernel {
    pub(crate) tables: FakeTables,
    pub(crate) servers: BTreeMap<Server, Content>,
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Virtual servers of others: never touched, never ours.
    pub(crate) foreign: BTreeSet<Server>,
}

impl FakeKernel {
    /// A kernel that holds what the planner wants.
    pub(crate) fn holding(planner: &Planner) -> Self {
        let servers = planner.servers().into_iter().map(|(at, (_, content))| (at, content)).collect();
        let tables = FakeTables::holding_sets(planner.ruleset(), &Set::IPVS);
        let addresses = virtual_ips(&tables);
        Self { tables, servers, addresses, foreign: BTreeSet::new() }
    }

    /// What a start would read.
    pub(crate) fn held(&self) -> Held {
        let sound = |content: &Content| HeldServer {
            options: content.options.clone(),
            destinations: content.destinations.iter().map(|to| (*to, HeldDestination::Sound)).collect(),
        };
        Held {
            table: Some(self.tables.ruleset.clone()),
            servers: self.servers.iter().map(|(at, content)| (*at, sound(content))).collect(),
            addresses: self.addresses.clone(),
        }
    }

    /// All steps in order, each checked. `stop` of them are done.
    pub(crate) fn obey(&mut self, steps: &Steps, stop: usize) -> Result<(), String> {
        let mut left = stop;
        let mut turn = || {
            left = left.saturating_sub(1);
            left > 0
        };
        self.rules(&steps.rules)?;
        for op in steps.grow.iter().chain(&steps.shrink) {
            if !turn() {
                return Ok(());
            }
            self.step(op)?;
        }
        if turn() { self.rules(&steps.forget) } else { Ok(()) }
    }

    fn rules(&mut self, ops: &[RuleOp]) -> Result<(), String> {
        self.tables.commit(ops)?;
        self.check()
    }

    fn step(&mut self, op: &Op) -> Result<(), String> {
        let is_fine = match &op.step {
            Step::AddServer(at, options) => {
                let content = Content { options: options.clone(), destinations: BTreeSet::new() };
                self.servers.insert(*at, content).is_none()
            }
            Step::SetServer(at, options) => {
                self.servers.get_mut(at).map(|held| held.options = options.clone()).is_some()
            }
            Step::DeleteServer(at) => !self.foreign.contains(at) && self.servers.remove(at).is_some(),
            Step::AddDestination(at, to) => {
                self.servers.get_mut(at).is_some_and(|held| held.destinations.insert(*to))
            }
            Step::Retire(at, to) => self.servers.get_mut(at).is_some_and(|held| held.destinations.remove(to)),
            Step::AddAddress(ip) => self.addresses.insert(*ip),
            Step::RemoveAddress(ip) => self.addresses.remove(ip),
        };
        if !is_fine {
            return Err(format!("cannot {}", op.step));
        }
        self.check()
    }

    /// At every moment: no address without the rules that protect it, and no virtual server that nobody would know.
    fn check(&self) -> Result<(), String> {
        let protected = virtual_ips(&self.tables);
        if let Some(bare) = self.addresses.iter().find(|ip| !protected.contains(ip)) {
            return Err(format!("{bare} is open"));
        }
        let ledger = Ledger { addresses: &self.addresses, table: Some(&self.tables.ruleset) };
        match self.servers.keys().find(|at| !self.foreign.contains(at) && !ledger.owns(**at)) {
            Some(orphan) => Err(format!("{orphan} is nobody's")),
            None => Ok(()),
        }
    }
}

fn virtual_ips(tables: &FakeTables) -> BTreeSet<IpAddr> {
    let ip = |place: &Place| match place {
        Place { set: Set::VirtualIps, key: Key::Address(ip) } => Some(*ip),
        _ => None,
    };
    tables.ruleset.elements.keys().filter_map(ip).collect()
}
