//! The packet tracer over the nftables ruleset: walks a packet through the hooks as the kernel would.
//!
//! Random choices split the walk, so the answer names every endpoint that a packet could reach; if one of the ways leads
//! to no endpoint, the answer is where that one ends. The client is taken for a new one: sticky sets are empty.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::base::{Chain, Hook, Kind};
use super::element::{Data, Key, Place};
use super::names::Set;
use super::planner::Ruleset;
use super::rule::{Field, Is, Rule, SetName, Statement, Verdict};
use crate::trace::{Answer, NodeAddresses, Packet, Seen, is_own};

/// Deeper than any jump of ours; a loop of jumps ends here.
const MAX_DEPTH: usize = 8;

/// What the walk knows of the packet by now.
#[derive(Clone, Debug)]
struct Walk<'a> {
    packet: &'a Packet,
    node: &'a NodeAddresses,
    destination: SocketAddr,
    is_translated: bool,
    is_masqueraded: bool,
    mark: u32,
}

/// How a chain ended for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At its end, or by `return`.
    FellThrough,
    /// The hook goes on with its next chain.
    Accepted,
    Dropped,
    Rejected,
}

/// A hook, and which of its chains are called.
type Called = (Hook, &'static [Kind]);

const ANY: &[Kind] = &[Kind::Filter, Kind::Nat];

/// The ways that a packet can take, and how each ended.
type Ways<'a> = Vec<(End, Walk<'a>)>;

/// What a statement does to a packet.
enum Step<'a> {
    /// The rule goes on.
    Next(Walk<'a>),
    /// The rule ends and the chain goes on.
    NoMatch(Walk<'a>),
    /// The packet goes another way.
    Go(Verdict, Walk<'a>),
    End(End, Walk<'a>),
}

impl Ruleset {
    /// Where a packet goes.
    pub fn trace(&self, node: &NodeAddresses, packet: &Packet) -> Answer {
        let destination = SocketAddr::new(packet.destination, packet.port);
        let walk = Walk { packet, node, destination, is_translated: false, is_masqueraded: false, mark: 0 };
        together(self.deliver(walk))
    }

    /// Where a packet goes if there are virtual servers behind the rules: `servers` has the destinations of each.
    /// They get what comes in after the rules for input, and what the node sends after all but the last rules.
    pub(crate) fn trace_to_servers(
        &self,
        node: &NodeAddresses,
        packet: &Packet,
        servers: &dyn Fn(SocketAddr) -> Vec<SocketAddr>,
    ) -> Answer {
        let destination = SocketAddr::new(packet.destination, packet.port);
        let walk = Walk { packet, node, destination, is_translated: false, is_masqueraded: false, mark: 0 };
        let to = servers(destination);
        if !walk.is_for_this_node() || to.is_empty() {
            return together(self.deliver(walk));
        }
        let before: &[Called] = match packet.interface {
            Some(_) => &[(Hook::Prerouting, ANY), (Hook::Input, ANY)],
            None => &[(Hook::Output, ANY)],
        };
        let mut answers = Vec::new();
        for (end, walk) in self.hooks(before, vec![(End::FellThrough, walk)]) {
            if matches!(end, End::Dropped | End::Rejected) {
                answers.push(answer((end, walk)));
                continue;
            }
            for to in &to {
                let walk = walk.clone().translated(*to);
                let is_at_home = packet.interface.is_some() && walk.is_for_this_node();
                let after: &[Called] = if is_at_home { &[] } else { &[(Hook::Postrouting, ANY)] };
                answers.extend(self.hooks(after, vec![(End::FellThrough, walk)]).into_iter().map(answer));
            }
        }
        together(answers)
    }

    /// Passes the hooks before routing, and then those after it.
    fn deliver(&self, walk: Walk<'_>) -> Vec<Answer> {
        let first = if walk.packet.interface.is_some() { Hook::Prerouting } else { Hook::Output };
        let mut answers = Vec::new();
        for (end, walk) in self.hooks(&[(first, ANY)], vec![(End::FellThrough, walk)]) {
            let hooks = walk.hooks_after_routing();
            answers.extend(self.hooks(hooks, vec![(end, walk)]).into_iter().map(answer));
        }
        answers
    }

    fn hooks<'a>(&self, hooks: &[Called], mut ways: Ways<'a>) -> Ways<'a> {
        for (hook, kinds) in hooks {
            let mut chains: Vec<(i32, &Chain)> = Vec::new();
            for chain in self.chains.values() {
                let base = chain.base.filter(|base| base.hook == *hook && kinds.contains(&base.kind));
                chains.extend(base.map(|base| (base.priority, chain)));
            }
            chains.sort_by_key(|(priority, _)| *priority);
            for (_, chain) in chains {
                let go_on = |(end, walk): (End, Walk<'a>)| match end {
                    End::FellThrough | End::Accepted => self.rules(&chain.rules, walk, 0),
                    refused => vec![(refused, walk)],
                };
                ways = ways.into_iter().flat_map(go_on).collect();
            }
        }
        ways
    }

    fn chain<'a>(&self, name: &str, walk: Walk<'a>, depth: usize) -> Ways<'a> {
        match self.chains.get(name) {
            Some(chain) if depth < MAX_DEPTH => self.rules(&chain.rules, walk, depth),
            _ => vec![(End::FellThrough, walk)],
        }
    }

    fn rules<'a>(&self, rules: &[Rule], walk: Walk<'a>, depth: usize) -> Ways<'a> {
        let Some((rule, rest)) = rules.split_first() else { return vec![(End::FellThrough, walk)] };
        let mut ways = Vec::new();
        for step in self.rule(&rule.statements, walk) {
            match step {
                Step::Next(walk) | Step::NoMatch(walk) => ways.extend(self.rules(rest, walk, depth)),
                Step::End(end, walk) => ways.push((end, walk)),
                Step::Go(Verdict::Drop, walk) => ways.push((End::Dropped, walk)),
                Step::Go(Verdict::Return, walk) => ways.push((End::FellThrough, walk)),
                Step::Go(Verdict::Goto(name), walk) => ways.extend(self.chain(&name, walk, depth + 1)),
                Step::Go(Verdict::Jump(name), walk) => {
                    for (end, walk) in self.chain(&name, walk, depth + 1) {
                        match end {
                            End::FellThrough => ways.extend(self.rules(rest, walk, depth)),
                            end => ways.push((end, walk)),
                        }
                    }
                }
            }
        }
        ways
    }

    /// Runs one rule; only its last statement ever splits the walk.
    fn rule<'a>(&self, statements: &[Statement], mut walk: Walk<'a>) -> Vec<Step<'a>> {
        for statement in statements {
            let mut steps = self.statement(statement, walk);
            match steps.pop() {
                Some(Step::Next(after)) if steps.is_empty() => walk = after,
                Some(last) => {
                    steps.push(last);
                    return steps;
                }
                None => return Vec::new(),
            }
        }
        vec![Step::Next(walk)]
    }

    fn statement<'a>(&self, statement: &Statement, mut walk: Walk<'a>) -> Vec<Step<'a>> {
        match statement {
            Statement::In(is, fields, set) => {
                let is_true = holds(*is, self.has(fields, set, &walk));
                vec![walk.if_true(is_true)]
            }
            Statement::Lookup(fields, set) => match self.find(fields, set, &walk, 0) {
                Some(Data::Verdict(verdict)) => vec![Step::Go(verdict.clone(), walk)],
                _ => vec![Step::NoMatch(walk)],
            },
            Statement::DnatByMap(fields, set) => {
                let modulus = fields.iter().find_map(|field| match field {
                    Field::RandomSlot { modulus, .. } => Some(*modulus),
                    _ => None,
                });
                let one = |index| match self.find(fields, set, &walk, index) {
                    Some(Data::Endpoint(to)) => Step::End(End::Accepted, walk.clone().translated(*to)),
                    _ => Step::NoMatch(walk.clone()),
                };
                (0..modulus.unwrap_or(1)).map(one).collect()
            }
            Statement::RandomVerdict(verdicts) => {
                verdicts.iter().map(|verdict| Step::Go(verdict.clone(), walk.clone())).collect()
            }
            Statement::OrMark(bits) => {
                walk.mark |= bits;
                vec![Step::Next(walk)]
            }
            Statement::XorMark(bits) => {
                walk.mark ^= bits;
                vec![Step::Next(walk)]
            }
            Statement::Masquerade => {
                walk.is_masqueraded = true;
                vec![Step::End(End::Accepted, walk)]
            }
            Statement::Dnat(to) => vec![Step::End(End::Accepted, walk.translated(*to))],
            Statement::Reject => vec![Step::End(End::Rejected, walk)],
            Statement::Verdict(verdict) => vec![Step::Go(verdict.clone(), walk)],
            condition => {
                let is_true = walk.fulfils(condition);
                vec![walk.if_true(is_true)]
            }
        }
    }

    fn has(&self, fields: &[Field], set: &SetName, walk: &Walk<'_>) -> bool {
        let SetName::Shared(set) = set else { return false };
        if *set == Set::AllowedSources {
            return self.allows(walk);
        }
        self.find(fields, &SetName::Shared(*set), walk, 0).is_some()
    }

    /// Looks a packet's fields up; `index` is the random number.
    fn find(&self, fields: &[Field], set: &SetName, walk: &Walk<'_>, index: u32) -> Option<&Data> {
        let SetName::Shared(set) = set else { return None };
        self.elements.get(&Place { set: *set, key: walk.key(fields, index)? })
    }

    /// Whether the source is in a range of the interval set.
    fn allows(&self, walk: &Walk<'_>) -> bool {
        let (to, protocol) = (walk.destination, walk.packet.protocol);
        self.elements.keys().any(|place| match place.key {
            Key::Source(ip, p, port, range) => {
                place.set == Set::AllowedSources
                    && (ip, p, port) == (to.ip(), protocol, to.port())
                    && range.contains(&walk.packet.source)
            }
            _ => false,
        })
    }
}

/// One answer of all ways; the first that leads to no endpoint counts.
fn together(answers: Vec<Answer>) -> Answer {
    let mut endpoints = BTreeMap::new();
    for answer in answers {
        match answer {
            Answer::Endpoints(some) => endpoints.extend(some),
            other => return other,
        }
    }
    Answer::Endpoints(endpoints)
}

fn answer((end, walk): (End, Walk<'_>)) -> Answer {
    match end {
        End::Dropped => Answer::Drop,
        End::Rejected => Answer::Reject,
        _ if !walk.is_translated => Answer::Untouched,
        _ => {
            let seen = if walk.is_masqueraded { Seen::Node } else { Seen::Client };
            Answer::Endpoints(BTreeMap::from([(walk.destination, seen)]))
        }
    }
}

fn holds(is: Is, value: bool) -> bool {
    match is {
        Is::Yes => value,
        Is::Not => !value,
    }
}

impl<'a> Walk<'a> {
    fn is_for_this_node(&self) -> bool {
        is_own(self.node, self.destination.ip())
    }

    fn hooks_after_routing(&self) -> &'static [Called] {
        match (self.packet.interface.is_some(), self.is_for_this_node()) {
            (true, true) => &[(Hook::Input, ANY)],
            (true, false) => &[(Hook::Forward, ANY), (Hook::Postrouting, ANY)],
            // What the node sends to itself comes in again. It is known by then: nothing translates it a second time.
            (false, true) => &[
                (Hook::Postrouting, ANY),
                (Hook::Prerouting, &[Kind::Filter]),
                (Hook::Input, &[Kind::Filter]),
            ],
            (false, false) => &[(Hook::Postrouting, ANY)],
        }
    }

    fn translated(self, to: SocketAddr) -> Self {
        Self { destination: to, is_translated: true, ..self }
    }

    fn if_true(self, is_true: bool) -> Step<'a> {
        if is_true { Step::Next(self) } else { Step::NoMatch(self) }
    }

    fn fulfils(&self, condition: &Statement) -> bool {
        let source = self.packet.source;
        match condition {
            Statement::Translated => self.is_translated,
            Statement::Protocol(protocol) => self.packet.protocol == *protocol,
            Statement::SourceIn(is, range) => holds(*is, range.contains(&source)),
            Statement::DestinationIn(is, range) => holds(*is, range.contains(&self.destination.ip())),
            Statement::Interface(is, name) => holds(*is, self.comes_in_on(name)),
            Statement::SourceLocal => is_own(self.node, source),
            Statement::DestinationLocal => self.is_for_this_node(),
            Statement::Marked(mark) => self.mark & mark != 0,
            // No packet is the relay's own: the walk begins at clients.
            Statement::Priority(_) => false,
            // It is the first packet of a connection; remembering the client changes nothing for this one.
            _ => true,
        }
    }

    fn comes_in_on(&self, pattern: &str) -> bool {
        let Some(interface) = &self.packet.interface else { return false };
        match pattern.strip_suffix('*') {
            Some(prefix) => interface.starts_with(prefix),
            None => interface == pattern,
        }
    }

    fn key(&self, fields: &[Field], index: u32) -> Option<Key> {
        let (ip, protocol, port) = (self.destination.ip(), self.packet.protocol, self.destination.port());
        let slot = |offset: &u32| u16::try_from(index.saturating_add(*offset)).ok();
        let source: IpAddr = self.packet.source;
        match fields {
            [Field::Destination] => Some(Key::Address(ip)),
            [Field::Source] => Some(Key::Address(source)),
            [Field::Destination, Field::Protocol, Field::Port] => Some(Key::Frontend(ip, protocol, port)),
            [Field::Protocol, Field::Port] => Some(Key::NodePort(protocol, port)),
            [Field::Destination, Field::Protocol, Field::Port, Field::RandomSlot { offset, .. }] => {
                Some(Key::Slot(ip, protocol, port, slot(offset)?))
            }
            [Field::Protocol, Field::Port, Field::RandomSlot { offset, .. }] => {
                Some(Key::NodePortSlot(protocol, port, slot(offset)?))
            }
            [Field::Source, Field::Destination, Field::Protocol, Field::Port] if source == ip => {
                Some(Key::Hairpin(ip, protocol, port))
            }
            [Field::Destination, Field::Destination, Field::Protocol, Field::Port] => {
                Some(Key::Hairpin(ip, protocol, port))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
