//! Which rules carry a packet, or refuse it.

use std::collections::BTreeSet;

use super::Planner;
use crate::explain::Explanation;
use crate::iptables::base::Top;
use crate::iptables::rule::{Match, Rule, Table, Target};
use crate::route::{Frontend, FrontendAddress};

impl Planner {
    /// One line for each rule: those of shared chains, then those of the chains that they lead to. Only for frontends there are any.
    pub fn means(&self, explanation: &Explanation<'_>) -> Vec<String> {
        let Some(hit) = &explanation.hit else { return Vec::new() };
        let Some(port) = self.book.ports().get(&hit.port.name) else { return Vec::new() };
        let fragment = self.fragment(port);
        let (mut lines, mut reached): (Vec<String>, BTreeSet<&str>) = Default::default();
        for (top, rule) in fragment.dispatch.iter().filter(|(top, rule)| is_about(*top, rule, &hit.frontend))
        {
            lines.push(line(top.table(), top.chain(), rule));
            reached.extend(target(rule));
        }
        // Chains may stand before those that lead to them.
        let mut open: Vec<&str> = reached.iter().copied().collect();
        while let Some(name) = open.pop() {
            let own = fragment.chains.iter().find(|chain| chain.name == name);
            let next = own.into_iter().flat_map(|chain| &chain.rules).filter_map(target);
            open.extend(next.filter(|next| reached.insert(next)));
        }
        for chain in fragment.chains.iter().rev().filter(|chain| reached.contains(chain.name.as_str())) {
            lines.extend(chain.rules.iter().map(|rule| line(Table::Nat, &chain.name, rule)));
        }
        lines
    }
}

fn line(table: Table, chain: &str, rule: &Rule) -> String {
    format!("rule -A {chain}{rule} of table {table}")
}

fn target(rule: &Rule) -> Option<&str> {
    match &rule.target {
        Target::Chain(name) => Some(name),
        _ => None,
    }
}

fn is_about(top: Top, rule: &Rule, frontend: &Frontend) -> bool {
    let has = |wanted: &Match| rule.matches.contains(wanted);
    let is_at_address = match frontend.address {
        FrontendAddress::Ip(ip) => has(&Match::Destination(ip)),
        FrontendAddress::Node(_) => {
            top != Top::FilterNodePorts && !rule.matches.iter().any(|m| matches!(m, Match::Destination(_)))
        }
    };
    is_at_address && has(&Match::DestinationPort(frontend.port)) && has(&Match::Protocol(frontend.protocol))
}
