//! The packet tracer over iptables rules: walks a packet through nat, filter and masquerading as the kernel would.
//!
//! Random choices split the walk, so the answer names every endpoint that a packet could reach. The client is taken
//! for a new one: sticky lists are empty.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::base::JUMPS;
use super::rule::{Is, Match, Rule, Table, Target};
use crate::trace::{Answer, NodeAddresses, Packet, Seen, is_own};

/// Deeper than any jump of ours; a loop of jumps ends here.
const MAX_DEPTH: usize = 8;

/// Rules by table and chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    chains: BTreeMap<(Table, String), Vec<Rule>>,
}

/// What the walk knows of the packet by now.
#[derive(Clone, Debug)]
struct Walk<'a> {
    packet: &'a Packet,
    node: &'a NodeAddresses,
    destination: SocketAddr,
    is_translated: bool,
    mark: u32,
}

/// How a chain ended for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At its end, or by RETURN.
    FellThrough,
    Accepted,
    Dropped,
    Rejected,
    Translated,
    Masqueraded,
}

/// Rules that a walk still has to look at.
type Pending<'a> = &'a [Rule];

impl Ruleset {
    /// Adds a chain.
    pub fn insert(&mut self, table: Table, chain: &str, rules: Vec<Rule>) {
        self.chains.insert((table, chain.to_owned()), rules);
    }

    /// All chains as restore-like text, for golden tests and for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut last = None;
        for ((table, chain), rules) in &self.chains {
            if last != Some(table) {
                text.push_str(&format!("*{}\n", table.as_str()));
                last = Some(table);
            }
            text.push_str(&format!(":{chain}\n"));
            rules.iter().for_each(|rule| rule.write_line(chain, &mut text));
        }
        text
    }

    /// Where a packet goes.
    pub fn trace(&self, node: &NodeAddresses, packet: &Packet) -> Answer {
        let walk = Walk {
            packet,
            node,
            destination: SocketAddr::new(packet.destination, packet.port),
            is_translated: false,
            mark: 0,
        };
        let entry = if packet.interface.is_some() { "PREROUTING" } else { "OUTPUT" };
        let mut endpoints = BTreeMap::new();
        let mut other = Answer::Untouched;
        for (_, walk) in self.hook(Table::Nat, entry, walk) {
            match self.deliver(walk) {
                Answer::Endpoints(some) => endpoints.extend(some),
                answer => other = answer,
            }
        }
        if endpoints.is_empty() { other } else { Answer::Endpoints(endpoints) }
    }

    /// The filter table and masquerading, for one way through nat.
    fn deliver(&self, walk: Walk<'_>) -> Answer {
        let is_here = is_own(walk.node, walk.destination.ip());
        let hooks: &[&str] = match (walk.packet.interface.is_some(), is_here) {
            (true, true) => &["INPUT"],
            (true, false) => &["FORWARD"],
            (false, true) => &["OUTPUT", "INPUT"],
            (false, false) => &["OUTPUT"],
        };
        for hook in hooks {
            for (end, _) in self.hook(Table::Filter, hook, walk.clone()) {
                match end {
                    End::Dropped => return Answer::Drop,
                    End::Rejected => return Answer::Reject,
                    _ => {}
                }
            }
        }
        if !walk.is_translated {
            return Answer::Untouched;
        }
        let to = walk.destination;
        if walk.packet.interface.is_some() && is_here {
            return Answer::Endpoints(BTreeMap::from([(to, Seen::Client)])); // It never comes to POSTROUTING.
        }
        let ends = self.hook(Table::Nat, "POSTROUTING", walk);
        let is_masqueraded = ends.iter().any(|(end, _)| *end == End::Masqueraded);
        let seen = if is_masqueraded { Seen::Node } else { Seen::Client };
        Answer::Endpoints(BTreeMap::from([(to, seen)]))
    }

    /// Runs the jumps from one of the kernel's chains. Jumps are inserted at the top one by one, so they stand in
    /// reverse order.
    fn hook<'a>(&self, table: Table, from: &str, walk: Walk<'a>) -> Vec<(End, Walk<'a>)> {
        let mut walks = vec![(End::FellThrough, walk)];
        for jump in JUMPS.iter().rev().filter(|j| j.table == table && j.from == from) {
            let go_on = |(end, walk): (End, Walk<'a>)| match end {
                End::FellThrough => self.chain(table, jump.to, walk, 0),
                done => vec![(done, walk)],
            };
            walks = walks.into_iter().flat_map(go_on).collect();
        }
        walks
    }

    fn chain<'a>(&self, table: Table, name: &str, walk: Walk<'a>, depth: usize) -> Vec<(End, Walk<'a>)> {
        match self.chains.get(&(table, name.to_owned())) {
            Some(rules) if depth < MAX_DEPTH => self.rules(table, rules, walk, depth),
            _ => vec![(End::FellThrough, walk)],
        }
    }

    fn rules<'a>(
        &self,
        table: Table,
        mut rules: Pending<'_>,
        mut walk: Walk<'a>,
        depth: usize,
    ) -> Vec<(End, Walk<'a>)> {
        let mut ends = Vec::new();
        while let Some((rule, rest)) = rules.split_first() {
            rules = rest;
            if !rule.matches.iter().all(|m| walk.matches(m)) {
                continue;
            }
            let is_random = rule.matches.iter().any(|m| matches!(m, Match::OneIn(n) if *n > 1));
            if is_random {
                ends.extend(self.rules(table, rest, walk.clone(), depth));
                rules = &[];
            }
            let outcomes = match &rule.target {
                Target::Chain(chain) => self.chain(table, chain, walk.clone(), depth + 1),
                target => match walk.take(target) {
                    Some(end) => vec![(end, walk.clone())],
                    None => continue,
                },
            };
            let mut went_on = None;
            for (end, after) in outcomes {
                match end {
                    End::FellThrough if rule.target != Target::Return => went_on = Some(after),
                    end => ends.push((end, after)),
                }
            }
            match went_on {
                Some(after) => walk = after,
                None => return ends,
            }
        }
        ends.push((End::FellThrough, walk));
        ends
    }
}

impl Walk<'_> {
    /// Does what a target says; `None` if the packet goes on in the same chain.
    fn take(&mut self, target: &Target) -> Option<End> {
        match target {
            Target::Chain(_) | Target::None => None,
            Target::Return => Some(End::FellThrough),
            Target::Accept => Some(End::Accepted),
            Target::Drop => Some(End::Dropped),
            Target::Reject => Some(End::Rejected),
            Target::Masquerade { .. } => Some(End::Masqueraded),
            Target::OrMark(bits) => {
                self.mark |= bits;
                None
            }
            Target::XorMark(bits) => {
                self.mark ^= bits;
                None
            }
            Target::Dnat(to) => {
                self.destination = *to;
                self.is_translated = true;
                Some(End::Translated)
            }
        }
    }

    fn matches(&self, m: &Match) -> bool {
        let source = self.packet.source;
        match m {
            Match::Comment(_) | Match::BareComment(_) | Match::Count(_) | Match::Remember(_) => true,
            Match::OneIn(_) => true,
            Match::SeenLately { .. } => false,
            Match::Protocol(protocol) => self.packet.protocol == *protocol,
            Match::Destination(ip) => self.destination.ip() == *ip,
            Match::DestinationIn(is, range) => holds(*is, range.contains(&self.destination.ip())),
            Match::DestinationPort(port) => self.destination.port() == *port,
            Match::Source(ip) => source == *ip,
            Match::SourceIn(is, range) => holds(*is, range.contains(&source)),
            Match::Interface(is, name) => holds(*is, self.comes_in_on(name)),
            Match::DestinationLocal => is_own(self.node, self.destination.ip()),
            Match::SourceLocal => is_own(self.node, source),
            Match::State(is, states) => holds(*is, self.has_state(states)),
            Match::Marked(is, mark) => holds(*is, self.mark & mark == *mark),
        }
    }

    fn comes_in_on(&self, pattern: &str) -> bool {
        let Some(interface) = &self.packet.interface else { return false };
        match pattern.strip_suffix('+') {
            Some(prefix) => interface.starts_with(prefix),
            None => interface == pattern,
        }
    }

    /// The first packet of a connection is NEW, and DNAT once it was translated.
    fn has_state(&self, states: &str) -> bool {
        states.split(',').any(|s| s == "NEW" || (s == "DNAT" && self.is_translated))
    }
}

fn holds(is: Is, value: bool) -> bool {
    match is {
        Is::Yes => value,
        Is::Not => !value,
    }
}

#[cfg(test)]
mod tests;
