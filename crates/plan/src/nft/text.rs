//! The whole ruleset as text in nft's syntax, for golden tests and for people. Nothing parses it.

use std::fmt::Write;

use switchyard_model::Family;

use super::base::{Base, Chain, Hook, Kind};
use super::names::{Set, TABLE};
use super::planner::Ruleset;

impl Ruleset {
    /// Sets, then chains, each in the order of their names. Empty sets are left out.
    pub fn to_text(&self, family: Family) -> String {
        let kind = match family {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        };
        let mut text = format!("table {kind} {TABLE} {{\n");
        for set in Set::ALL.into_iter().chain([Set::VirtualIps, Set::HealthPorts]) {
            let elements = self.elements.iter().filter(|(place, _)| place.set == set);
            let lines: Vec<String> =
                elements.map(|(place, data)| format!("\t\t{}{data}\n", place.key)).collect();
            if !lines.is_empty() {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "\tset {} {{\n{}\t}}", set.as_str(), lines.concat());
            }
        }
        for (name, seconds) in &self.clients {
            let _ = writeln!(text, "\tset {name} {{ timeout {seconds}s }}");
        }
        for chain in self.chains.values() {
            write_chain(chain, family, &mut text);
        }
        text.push_str("}\n");
        text
    }
}

fn write_chain(chain: &Chain, family: Family, text: &mut String) {
    let _ = writeln!(text, "\tchain {} {{", chain.name);
    if let Some(base) = chain.base {
        let _ = writeln!(text, "\t\t{}", base_text(base));
    }
    for rule in &chain.rules {
        let _ = writeln!(text, "\t\t{}", rule.to_text(family));
    }
    text.push_str("\t}\n");
}

fn base_text(base: Base) -> String {
    let kind = match base.kind {
        Kind::Filter => "filter",
        Kind::Nat => "nat",
    };
    let hook = match base.hook {
        Hook::Prerouting => "prerouting",
        Hook::Input => "input",
        Hook::Forward => "forward",
        Hook::Output => "output",
        Hook::Postrouting => "postrouting",
    };
    format!("type {kind} hook {hook} priority {};", base.priority)
}
