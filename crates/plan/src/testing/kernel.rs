//! Just enough of a kernel's tables to obey restore input, and to refuse what the real one refuses.

use std::collections::{BTreeMap, BTreeSet};

type Chains = BTreeMap<String, Vec<String>>;

const TARGETS: [&str; 7] = ["ACCEPT", "DROP", "RETURN", "REJECT", "MASQUERADE", "MARK", "DNAT"];

/// Chains and rules by table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FakeKernel {
    tables: BTreeMap<String, Chains>,
}

impl FakeKernel {
    /// Does what `iptables-restore --noflush` would do: a chain line creates or empties, `-A` needs its chain and its
    /// target, `-X` needs an empty chain to which nothing jumps. A table changes as a whole or not at all.
    pub(crate) fn restore(&mut self, text: &str) -> Result<(), String> {
        let mut open: Option<(String, Chains)> = None;
        for line in text.lines() {
            if let Some(table) = line.strip_prefix('*') {
                let chains = self.tables.get(table).cloned().unwrap_or_default();
                open = Some((table.into(), chains));
                continue;
            }
            if line == "COMMIT" {
                let (table, chains) = open.take().ok_or("COMMIT without a table")?;
                self.tables.insert(table, chains);
                continue;
            }
            let (_, chains) = open.as_mut().ok_or_else(|| format!("no table: {line}"))?;
            obey(chains, line).map_err(|why| format!("{why}: {line}"))?;
        }
        if open.is_some() { Err("no COMMIT".into()) } else { Ok(()) }
    }

    /// Names of the chains of a table.
    pub(crate) fn chains(&self, table: &str) -> BTreeSet<String> {
        self.tables.get(table).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Number of rules in a table.
    pub(crate) fn rules(&self, table: &str) -> usize {
        self.tables.get(table).into_iter().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    /// All rules of a chain.
    pub(crate) fn chain(&self, table: &str, chain: &str) -> &[String] {
        &self.tables[table][chain]
    }

    /// The same rules without comments.
    pub(crate) fn without_comments(&self) -> Self {
        let strip = |rule: &String| {
            let mut words = words(rule);
            while let Some(at) = words.iter().position(|w| w == "comment") {
                words.drain(at - 1..at + 3);
            }
            words.join(" ")
        };
        let of_table = |chains: &Chains| {
            chains.iter().map(|(name, rules)| (name.clone(), rules.iter().map(strip).collect())).collect()
        };
        Self { tables: self.tables.iter().map(|(name, chains)| (name.clone(), of_table(chains))).collect() }
    }
}

fn obey(chains: &mut Chains, line: &str) -> Result<(), String> {
    if let Some(chain) = line.strip_prefix(':') {
        let name = chain.strip_suffix(" - [0:0]").ok_or("chain line")?;
        chains.insert(name.into(), Vec::new());
        return Ok(());
    }
    if let Some(name) = line.strip_prefix("-X ") {
        let is_used = chains.values().flatten().any(|rule| target(rule).as_deref() == Some(name));
        return match chains.get(name) {
            Some(rules) if rules.is_empty() && !is_used => {
                chains.remove(name).map(|_| ()).ok_or_else(String::new)
            }
            Some(rules) if rules.is_empty() => Err("chain is in use".into()),
            Some(_) => Err("chain is not empty".into()),
            None => Err("no such chain".into()),
        };
    }
    let rest = line.strip_prefix("-A ").ok_or("unknown command")?;
    let (name, rule) = rest.split_once(' ').ok_or("rule without anything")?;
    if let Some(target) = target(rule)
        && !TARGETS.contains(&target.as_str())
        && !chains.contains_key(&target)
    {
        return Err("no such target".into());
    }
    chains.get_mut(name).ok_or("no such chain")?.push(rule.into());
    Ok(())
}

fn target(rule: &str) -> Option<String> {
    let words = words(rule);
    let at = words.iter().position(|w| w == "-j")?;
    words.get(at + 1).cloned()
}

/// Splits as iptables-restore does: at spaces, except between double quotes.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('"').enumerate() {
        if i % 2 == 1 {
            words.push(part.into());
        } else {
            words.extend(part.split_whitespace().map(String::from));
        }
    }
    words
}

#[test]
fn refuses_what_a_kernel_refuses() {
    let mut kernel = FakeKernel::default();
    let mut run = |body: &str| kernel.restore(&format!("*nat\n{body}\nCOMMIT\n"));
    assert_eq!(run(":A - [0:0]\n:B - [0:0]\n-A A -m comment --comment \"x -j C\" -j B"), Ok(()));
    assert!(run("-A A -j C").is_err() && run("-A C -j DROP").is_err());
    assert!(run(":B - [0:0]\n-X B").unwrap_err().starts_with("chain is in use"));
    assert!(run("-X A").unwrap_err().starts_with("chain is not empty"));
    assert_eq!(run(":A - [0:0]\n:B - [0:0]\n-X B\n-X A"), Ok(()));
    assert_eq!(kernel.chains("nat").len(), 0);
}
