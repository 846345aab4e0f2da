//! Everything that the kernel should hold, chain by chain, for a comparison with what it holds.

use switchyard_model::ServicePortName;

use super::Planner;
use crate::iptables::rule::{Rule, Table};

/// A chain that should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedChain<'a> {
    /// Its table.
    pub table: Table,
    /// Its name.
    pub name: String,
    /// Whose it is; absent for a shared chain.
    pub owner: Option<&'a ServicePortName>,
    /// Its rules in order, each with the service port that it is for.
    pub rules: Vec<(Option<&'a ServicePortName>, Rule)>,
}

impl Planner {
    /// Shared chains, then those of each service port.
    pub fn wanted_chains(&self) -> impl Iterator<Item = WantedChain<'_>> {
        let tops = self.tops().map(|top| WantedChain {
            table: top.table(),
            name: top.chain().to_owned(),
            owner: None,
            rules: self.top_rules(top).collect(),
        });
        let own = self.book.ports().iter().flat_map(|(name, port)| {
            self.fragment(port).chains.into_iter().map(move |chain| WantedChain {
                table: Table::Nat,
                name: chain.name,
                owner: Some(name),
                rules: chain.rules.into_iter().map(|rule| (Some(name), rule)).collect(),
            })
        });
        tops.chain(own)
    }
}
