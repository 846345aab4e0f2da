//! What `iptables-save` prints, made comparable.
//!
//! In: two texts. Out: how they differ, chain by chain: policies of built-in chains, and rules. The order of rules counts, except that in
//! some chains both proxies are free to choose whose Service comes first.

use std::collections::{BTreeMap, BTreeSet};

/// Chains with a rule or two for each frontend, whose order is free. Rules of one service port for the same frontend keep theirs.
const UNORDERED: [&str; 4] =
    ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];

/// One chain.
#[derive(Debug, Default, PartialEq, Eq)]
struct Chain {
    /// What becomes of a packet that no rule decides; `-` for chains that somebody made.
    policy: String,
    rules: Vec<String>,
}

/// Chains by table and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(BTreeMap<(String, String), Chain>);

impl Rules {
    /// Reads what iptables-save printed; counters are left out.
    pub(crate) fn parse(save: &str) -> Self {
        let mut chains = BTreeMap::<_, Chain>::new();
        let mut table = String::new();
        for line in save.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name.to_owned();
            } else if let Some(chain) = line.strip_prefix(':') {
                let policy = chain.split(' ').nth(1).unwrap_or_default();
                chains.entry((table.clone(), first_word(chain))).or_default().policy = policy.to_owned();
            } else if let Some(rule) = line.strip_prefix("-A ") {
                chains.entry((table.clone(), first_word(rule))).or_default().rules.push(line.to_owned());
            }
        }
        for ((_, name), chain) in &mut chains {
            if UNORDERED.contains(&name.as_str()) {
                // What is for no frontend, such as the jump to the node ports, which must be the last one, stays where it is.
                chain
                    .rules
                    .chunk_by_mut(|a, b| frontend(a).is_some() && frontend(b).is_some())
                    .for_each(|frontends| frontends.sort_by_key(|rule| frontend(rule)));
            }
        }
        Self(chains)
    }

    /// How many rules there are.
    pub(crate) fn count(&self) -> usize {
        self.0.values().map(|chain| chain.rules.len()).sum()
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
                    text.push_str(&theirs.as_of("kube-proxy"));
                    text.push_str(&ours.as_of("switchyard"));
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

/// Which packets a rule is for, and whose it is; none if they are not those of one frontend. The ports of a Service share its health check
/// node port: each has a rule for that. A rule that only counts what goes to loopback addresses
/// stands before the one for all addresses of the same node port: which addresses it means is no part of this.
fn frontend(rule: &str) -> Option<[String; 4]> {
    let word = |flag: &str| Some(first_word(rule.split_once(flag)?.1));
    let address = word(" -d ").filter(|address| address != "127.0.0.0/8");
    let port_of = rule.split('"').nth(1).map(first_word);
    let known = |part: Option<String>| part.unwrap_or_default();
    Some([word(" --dport ")?, known(word(" -p ")), known(address), known(port_of)])
}

impl Chain {
    fn as_of(&self, proxy: &str) -> String {
        let policy = format!("    {proxy}: policy {}\n", self.policy);
        let rules = self.rules.iter().map(|rule| format!("    {proxy}: {rule}\n"));
        [policy].into_iter().chain(rules).collect()
    }
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
        assert_eq!(Rules::parse(one).count(), 2);
    }

    const SERVICES: &str = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n\
        -A KUBE-SERVICES -d 10.96.0.2/32 -p tcp -m tcp --dport 80 -j A\n\
        -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j B\n\
        -A KUBE-SERVICES ! -d ::1/128 -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n";

    /// With the lines of these numbers exchanged.
    fn swapped(a: usize, b: usize) -> String {
        let mut lines: Vec<&str> = SERVICES.lines().collect();
        lines.swap(a, b);
        lines.join("\n")
    }

    #[test]
    fn services_have_no_order_but_the_node_ports_come_last() {
        assert_eq!(difference(SERVICES, &swapped(3, 4)), "");
        assert!(difference(SERVICES, &swapped(4, 5)).contains("nat KUBE-SERVICES differs"));
        assert!(difference(SERVICES, &swapped(3, 5)).contains("nat KUBE-SERVICES differs"));
        let changed = SERVICES.replace("10.96.0.1/32", "10.96.0.3/32");
        assert!(difference(SERVICES, &changed).contains("nat KUBE-SERVICES differs"));
    }

    #[test]
    fn rules_of_one_frontend_keep_their_order() {
        let one = "*nat\n-A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m tcp --dport 30080 -m nfacct -j X\n\
            -A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j X\n-A KUBE-NODEPORTS -p udp -m udp --dport 30053 -j Y\n";
        let mut lines: Vec<&str> = one.lines().collect();
        lines.swap(2, 3);
        assert_eq!(difference(one, &lines.join("\n")), "", "another Service");
        lines.swap(1, 3);
        assert!(difference(one, &lines.join("\n")).contains("nat KUBE-NODEPORTS differs"));
    }

    #[test]
    fn ports_of_a_service_have_no_order() {
        let rule = |port| {
            format!(
                "-A KUBE-NODEPORTS -p tcp -m comment --comment \"a/b:{port} health check node port\" --dport 32000 -j ACCEPT\n"
            )
        };
        let [one, other] =
            [["p0", "p1"], ["p1", "p0"]].map(|ports| "*filter\n".to_owned() + &ports.map(rule).concat());
        assert_eq!(difference(&one, &other), "");
    }

    #[test]
    fn a_policy_counts() {
        let text = difference(SERVICES, &SERVICES.replace("ACCEPT", "DROP"));
        assert!(
            text.contains("nat PREROUTING differs") && text.contains("switchyard: policy DROP"),
            "{text}"
        );
    }
}
