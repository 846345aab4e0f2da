//! What a proxy leaves in iptables: our own chains (kube-proxy's iptables mode has the same) and those of ipvs mode.
//!
//! KUBE-FIREWALL and the jumps to it belong to kubelet as well and always stay.

use std::collections::BTreeMap;

use switchyard_plan::iptables::base::{JUMPS, Top};
use switchyard_plan::iptables::names;

use super::{CleanupPlan, Jump, Table};

/// Everything that iptables mode writes.
pub fn of_iptables_mode() -> CleanupPlan {
    let mut chains: BTreeMap<Table, Vec<String>> = BTreeMap::new();
    for top in Top::ALL.into_iter().filter(|top| *top != Top::FilterFirewall) {
        chains.entry(top.table()).or_default().push(top.chain().to_owned());
    }
    for table in super::canary::TABLES {
        chains.entry(table).or_default().push(names::CANARY.to_owned());
    }
    let prefixes = names::SERVICE_PREFIXES.map(String::from).to_vec();
    CleanupPlan {
        jumps: JUMPS.iter().filter(|jump| jump.to != names::FIREWALL).map(Jump::from).collect(),
        chains,
        // The filter table holds one of ours for a moment while a refused rule is looked for.
        prefixes: BTreeMap::from([(Table::Nat, prefixes.clone()), (Table::Filter, prefixes)]),
        ignore_errors_in: vec![Table::Mangle],
    }
}

/// What kube-proxy's ipvs mode writes besides chains that iptables mode has too.
pub fn of_ipvs_mode() -> CleanupPlan {
    let jump = |table: Table, from: &str, to: &str, comment: &str| Jump {
        table,
        chain: from.to_owned(),
        args: ["-m", "comment", "--comment", comment, "-j", to].map(String::from).to_vec(),
    };
    let access = "kubernetes ipvs access filter";
    let firewall = "kube-proxy firewall rules";
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    CleanupPlan {
        jumps: vec![
            jump(Table::Filter, "INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"),
            jump(Table::Filter, "INPUT", names::PROXY_FIREWALL, firewall),
            jump(Table::Filter, "FORWARD", names::PROXY_FIREWALL, firewall),
            jump(Table::Filter, "INPUT", "KUBE-IPVS-FILTER", access),
            jump(Table::Filter, "OUTPUT", "KUBE-IPVS-OUT-FILTER", access),
        ],
        chains: BTreeMap::from([
            (Table::Nat, names(&["KUBE-NODE-PORT", "KUBE-LOAD-BALANCER"])),
            (
                Table::Filter,
                names(&[
                    "KUBE-NODE-PORT",
                    "KUBE-SOURCE-RANGES-FIREWALL",
                    "KUBE-IPVS-FILTER",
                    "KUBE-IPVS-OUT-FILTER",
                ]),
            ),
        ]),
        ..CleanupPlan::default()
    }
}

/// Both: what `--cleanup` removes.
pub fn of_every_mode() -> CleanupPlan {
    let (mut all, ipvs) = (of_iptables_mode(), of_ipvs_mode());
    all.jumps.extend(ipvs.jumps);
    for (table, chains) in ipvs.chains {
        all.chains.entry(table).or_default().extend(chains);
    }
    all
}
