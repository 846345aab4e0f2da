//! Ordered changes of the kernel's ruleset. A list of them is one transaction: all of it happens, or nothing.

use std::fmt::Write;

use switchyard_model::{Family, ServicePortName};

use super::base::Chain;
use super::element::{Data, Place};
use super::names::Set;
use super::sticky::ClientSet;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes the table if it is absent.
    AddTable,
    /// Removes the table and everything in it.
    DeleteTable,
    /// Makes a shared set or map, of this size if it has one.
    AddSet(Set, Option<u32>),
    /// Removes a shared set or map with its elements. No rule may refer to it.
    DeleteSet(Set),
    /// Makes a set of sticky clients.
    AddClients(ClientSet),
    /// Removes a set of sticky clients.
    DeleteClients(String),
    /// Makes a chain and fills it.
    AddChain(Chain),
    /// Empties a chain and fills it anew.
    ReplaceRules(Chain),
    /// Removes a chain with its rules.
    DeleteChain(String),
    /// Adds an element.
    AddElement(Place, Data),
    /// Removes an element.
    DeleteElement(Place),
}

/// A change and whose it is, so that a refusal can be blamed on a service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What.
    pub change: Change,
    /// Whose; `None` if it is everybody's.
    pub owner: Option<ServicePortName>,
}

impl Op {
    /// A change of a service port.
    pub fn of(name: &ServicePortName, change: Change) -> Self {
        Self { change, owner: Some(name.clone()) }
    }

    /// A change of everybody's.
    pub fn everybodys(change: Change) -> Self {
        Self { change, owner: None }
    }
}

/// Text for golden tests and logs, one line per change.
pub fn to_text(ops: &[Op], family: Family) -> String {
    let mut text = String::new();
    for op in ops {
        // Writing to a String cannot fail.
        let _ = match &op.change {
            Change::AddTable => writeln!(text, "add table"),
            Change::DeleteTable => writeln!(text, "delete table"),
            Change::AddSet(set, None) => writeln!(text, "add set {}", set.as_str()),
            Change::AddSet(set, Some(size)) => writeln!(text, "add set {} size {size}", set.as_str()),
            Change::DeleteSet(set) => writeln!(text, "delete set {}", set.as_str()),
            Change::AddClients(set) => writeln!(text, "add set {} timeout {}s", set.name, set.seconds),
            Change::DeleteClients(name) => writeln!(text, "delete set {name}"),
            Change::AddChain(chain) => writeln!(text, "add chain {}", chain_text(chain, family)),
            Change::ReplaceRules(chain) => writeln!(text, "replace chain {}", chain_text(chain, family)),
            Change::DeleteChain(name) => writeln!(text, "delete chain {name}"),
            Change::AddElement(place, data) => {
                writeln!(text, "add element {} {{ {}{data} }}", place.set.as_str(), place.key)
            }
            Change::DeleteElement(place) => {
                writeln!(text, "delete element {} {{ {} }}", place.set.as_str(), place.key)
            }
        };
    }
    text
}

fn chain_text(chain: &Chain, family: Family) -> String {
    let rules: Vec<String> = chain.rules.iter().map(|rule| rule.to_text(family)).collect();
    format!("{} {{ {} }}", chain.name, rules.join("; "))
}
