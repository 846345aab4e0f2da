//! What `iptables-save` prints, made comparable.
//!
//! In: two texts. Out: how they differ, chain by chain. The order of rules counts, except in chains where each rule stands for another
//! Service and both proxies are free to choose it.

use std::collections::{BTreeMap, BTreeSet};

/// Chains in which no two rules match the same packet, or all that do have the same effect.
const UNORDERED: [&str; 4] =
    ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];

/// Rules by table and chain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(BTreeMap<(String, String), Vec<String>>);

impl Rules {
    /// Reads what iptables-save printed; counters are left out.
    pub(crate) fn parse(save: &str) -> Self {
        let mut chains = BTreeMap::<_, Vec<String>>::new();
        let mut table = String::new();
        for line in save.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name.to_owned();
            } else if let Some(chain) = line.strip_prefix(':') {
                chains.entry((table.clone(), first_word(chain))).or_default();
            } else if let Some(rule) = line.strip_prefix("-A ") {
                chains.entry((table.clone(), first_word(rule))).or_default().push(line.to_owned());
            }
        }
        for ((_, chain), rules) in &mut chains {
            if UNORDERED.contains(&chain.as_str()) {
                rules.sort();
            }
        }
        Self(chains)
    }

    /// How many rules there are.
    pub(crate) fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// What differs; empty if nothing does.
    pub(crate) fn difference(upstream: &Self, ours: &Self) -> String {
        let mut text = String::new();
        let chains: BTreeSet<_> = upstream.0.keys().chain(ours.0.keys()).collect();
        for key @ (table, chain) in chains {
            match (upstream.0.get(key), ours.0.get(key)) {
                (Some(theirs), Some(ours)) if theirs == ours => {}
                (Some(theirs), Some(ours)) => {
                    text.push_str(&format!("  {table} {chain} differs\n"));
                    text.push_str(&side("kube-proxy", theirs));
                    text.push_str(&side("switchyard", ours));
                }
                (Some(_), None) => text.push_str(&format!("  {table} {chain} only with kube-proxy\n")),
                (None, _) => text.push_str(&format!("  {table} {chain} only with switchyard\n")),
            }
        }
        text
    }
}

fn first_word(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

fn side(name: &str, rules: &[String]) -> String {
    rules.iter().map(|rule| format!("    {name}: {rule}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(a: &str, b: &str) -> String {
        Rules::difference(&Rules::parse(a), &Rules::parse(b))
    }

    #[test]
    fn only_what_differs_is_told() {
        let one = "*nat\n:KUBE-SVC-A - [1:2]\n-A KUBE-SVC-A -j X\n-A KUBE-SVC-A -j Y\nCOMMIT\n";
        let other = "# c\n*nat\n:KUBE-SVC-A - [0:0]\n-A KUBE-SVC-A -j Y\n-A KUBE-SVC-A -j X\nCOMMIT\n";
        assert_eq!(difference(one, one), "");
        assert!(difference(one, other).contains("nat KUBE-SVC-A differs"), "the order counts");
        assert!(difference(one, "*nat\n").contains("only with kube-proxy"));
        assert!(difference("", one).contains("only with switchyard"));
        assert_eq!(difference(&one.replace("SVC-A", "SERVICES"), &other.replace("SVC-A", "SERVICES")), "");
        assert_eq!(Rules::parse(one).count(), 2);
    }
}
