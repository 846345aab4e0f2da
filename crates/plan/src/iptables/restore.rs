//! Restore input, and who owns which line of it.
//!
//! Chain lines come before rules, as kube-proxy writes them: a rule may then jump to any chain of the input. A chain
//! line creates the chain or, because of `--noflush`, empties it.

use std::fmt::Write;

use switchyard_model::ServicePortName;

use super::rule::{Rule, Table};

/// Lines of one kind, with the service port that each belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lines {
    text: String,
    count: usize,
    /// From this line on, the owner is this one.
    owners: Vec<(usize, Option<ServicePortName>)>,
}

impl Lines {
    fn owned_by(&mut self, owner: Option<&ServicePortName>) {
        if self.owners.last().and_then(|(_, last)| last.as_ref()) != owner {
            self.owners.push((self.count, owner.cloned()));
        }
    }

    fn owner(&self, line: usize) -> Option<&ServicePortName> {
        let after = self.owners.partition_point(|(first, _)| *first <= line);
        self.owners.get(after.checked_sub(1)?)?.1.as_ref()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    chains: Lines,
    rules: Lines,
    /// Those of `rules` that delete a chain.
    deletions: usize,
}

impl Part {
    /// Lines including the table line and COMMIT.
    fn lines(&self) -> usize {
        if self.chains.count + self.rules.count == 0 { 0 } else { self.chains.count + self.rules.count + 2 }
    }

    /// `line` counts from the table's own line as 0.
    fn owner(&self, line: usize) -> Option<&ServicePortName> {
        let line = line.checked_sub(1)?;
        match line.checked_sub(self.chains.count) {
            None => self.chains.owner(line),
            Some(rule) if rule < self.rules.count => self.rules.owner(rule),
            Some(_) => None,
        }
    }
}

/// Input for one run of `iptables-restore --noflush`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    filter: Part,
    nat: Part,
}

impl Restore {
    /// Nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.lines() == 0
    }

    /// Number of lines.
    pub fn lines(&self) -> usize {
        self.filter.lines() + self.nat.lines()
    }

    /// Rules that are written into a table.
    pub fn rules(&self, table: Table) -> usize {
        let part = match table {
            Table::Nat => &self.nat,
            Table::Filter | Table::Mangle => &self.filter,
        };
        part.rules.count - part.deletions
    }

    /// Creates or empties a chain and fills it.
    pub fn chain(&mut self, table: Table, name: &str, owner: Option<&ServicePortName>) {
        let lines = &mut self.part(table).chains;
        lines.owned_by(owner);
        // Writing to a String cannot fail.
        let _ = writeln!(lines.text, ":{name} - [0:0]");
        lines.count += 1;
    }

    /// Appends a rule to a chain that was named before.
    pub fn rule(&mut self, table: Table, chain: &str, rule: &Rule, owner: Option<&ServicePortName>) {
        let lines = &mut self.part(table).rules;
        lines.owned_by(owner);
        rule.write_line(chain, &mut lines.text);
        lines.count += 1;
    }

    /// Empties and deletes a chain to which nothing jumps any more.
    pub fn delete(&mut self, table: Table, chain: &str) {
        self.chain(table, chain, None);
        let lines = &mut self.part(table).rules;
        lines.owned_by(None);
        let _ = writeln!(lines.text, "-X {chain}");
        lines.count += 1;
        self.part(table).deletions += 1;
    }

    /// The input in pieces, in order. For a large cluster it is tens of megabytes, which nobody should copy.
    pub fn pieces(&self) -> Vec<&str> {
        let mut pieces = Vec::new();
        for (opening, part) in [("*filter\n", &self.filter), ("*nat\n", &self.nat)] {
            if part.lines() > 0 {
                pieces.extend([opening, &part.chains.text, &part.rules.text, "COMMIT\n"]);
            }
        }
        pieces
    }

    /// The input.
    pub fn text(&self) -> String {
        self.pieces().concat()
    }

    /// The service port that a line (counted from 1, as iptables does) belongs to; `None` for shared lines.
    pub fn owner_of_line(&self, line: usize) -> Option<&ServicePortName> {
        let line = line.checked_sub(1)?;
        match line.checked_sub(self.filter.lines()) {
            None => self.filter.owner(line),
            Some(line) => self.nat.owner(line),
        }
    }

    fn part(&mut self, table: Table) -> &mut Part {
        match table {
            Table::Nat => &mut self.nat,
            Table::Filter | Table::Mangle => &mut self.filter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iptables::rule::Target;
    use switchyard_model::{Protocol, ServiceName};

    #[test]
    fn every_line_knows_its_owner() {
        let name = |n: &str| ServicePortName {
            service: ServiceName::new("ns", n),
            port: "".into(),
            protocol: Protocol::Tcp,
        };
        let (a, b) = (name("a"), name("b"));
        let mut restore = Restore::new();
        restore.chain(Table::Filter, "TOP", None);
        restore.rule(Table::Filter, "TOP", &Rule::new([], Target::Drop), Some(&a));
        restore.chain(Table::Nat, "A", Some(&a));
        restore.chain(Table::Nat, "B", Some(&b));
        restore.rule(Table::Nat, "A", &Rule::new([], Target::Accept), Some(&a));
        restore.rule(Table::Nat, "B", &Rule::new([], Target::Accept), Some(&b));
        restore.delete(Table::Nat, "OLD");
        let shown: String = restore
            .text()
            .lines()
            .enumerate()
            .map(|(i, line)| {
                let owner = restore.owner_of_line(i + 1).map_or("-".into(), ToString::to_string);
                format!("{owner:5} {line}\n")
            })
            .collect();
        expect_test::expect![[r"
            -     *filter
            -     :TOP - [0:0]
            ns/a  -A TOP -j DROP
            -     COMMIT
            -     *nat
            ns/a  :A - [0:0]
            ns/b  :B - [0:0]
            -     :OLD - [0:0]
            ns/a  -A A -j ACCEPT
            ns/b  -A B -j ACCEPT
            -     -X OLD
            -     COMMIT
        "]]
        .assert_eq(&shown);
        assert_eq!(restore.lines(), 12);
        assert!(restore.owner_of_line(0).is_none() && restore.owner_of_line(99).is_none());
    }
}
