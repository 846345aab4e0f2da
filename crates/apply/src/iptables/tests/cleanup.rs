//! Cleanup takes what is ours and nothing else.

use std::collections::BTreeMap;

use switchyard_model::Family;

use crate::iptables::fixture::{Fakes, VARIANTS, everywhere, in_namespace, saved};
use crate::iptables::*;

fn jump(table: Table, chain: &str, target: &str) -> Jump {
    let args = ["-m", "comment", "--comment", "kubernetes service portals", "-j", target]
        .map(str::to_owned)
        .to_vec();
    Jump { table, chain: chain.into(), args }
}

fn plan() -> CleanupPlan {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    CleanupPlan {
        jumps: vec![
            jump(Table::Nat, "PREROUTING", "KUBE-SERVICES"),
            jump(Table::Nat, "OUTPUT", "KUBE-SERVICES"),
            jump(Table::Filter, "INPUT", "KUBE-NODEPORTS"),
        ],
        chains: BTreeMap::from([
            (Table::Nat, names(&["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-PROXY-CANARY"])),
            (Table::Filter, names(&["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-PROXY-CANARY"])),
            (Table::Mangle, names(&["KUBE-PROXY-CANARY"])),
        ]),
        prefixes: BTreeMap::from([(Table::Nat, names(&["KUBE-SVC-", "KUBE-SEP-"]))]),
        ignore_errors_in: vec![Table::Mangle],
    }
}

const FOREIGN: &str = "*filter\n:KUBE-FIREWALL - [0:0]\n:KUBE-SVC-IN-FILTER - [0:0]\n-A INPUT -j KUBE-FIREWALL\nCOMMIT\n\
    *nat\n:DOCKER - [0:0]\n:KUBE-SERVICES-OF-OTHERS - [0:0]\n-A PREROUTING -j DOCKER\n-A DOCKER -j RETURN\nCOMMIT\n\
    *mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n";

const OURS: &str = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n:KUBE-SEP-A - [0:0]\n\
    -A KUBE-SERVICES -j KUBE-SVC-A\n-A KUBE-SVC-A -j KUBE-SEP-A\n-A KUBE-SEP-A -j RETURN\nCOMMIT\n\
    *filter\n:KUBE-NODEPORTS - [0:0]\nCOMMIT\n";

fn all(iptables: &Iptables) -> String {
    [Table::Filter, Table::Nat, Table::Mangle].map(|table| saved(iptables, table)).concat()
}

fn install(iptables: &Iptables) {
    iptables.restore(OURS, RestoreOptions::default()).unwrap();
    canary::ensure(iptables).unwrap();
    iptables.ensure_jump(&jump(Table::Nat, "PREROUTING", "KUBE-SERVICES"), Position::First).unwrap();
    iptables.ensure_jump(&jump(Table::Filter, "INPUT", "KUBE-NODEPORTS"), Position::First).unwrap();
}

#[test]
fn everything_of_ours_goes_and_everything_else_stays() {
    everywhere(|iptables| {
        iptables.restore(FOREIGN, RestoreOptions::default()).unwrap();
        let before = all(iptables);
        install(iptables);
        let outcome = cleanup(iptables, &plan());
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        assert_eq!((outcome.jumps, outcome.chains), (2, 7));
        assert_eq!(all(iptables), before);
        let again = cleanup(iptables, &plan());
        assert_eq!((again.jumps, again.chains, again.errors.len()), (0, 0, 0), "{:?}", again.errors);
        assert_eq!(all(iptables), before);
    });
}

#[test]
fn a_chain_that_others_use_is_left_empty_and_the_rest_goes_on() {
    everywhere(|iptables| {
        install(iptables);
        let theirs = "*nat\n:THEIRS - [0:0]\n-A THEIRS -j KUBE-SVC-A\nCOMMIT\n";
        iptables.restore(theirs, RestoreOptions::default()).unwrap();
        let outcome = cleanup(iptables, &plan());
        assert_eq!(outcome.errors.len(), 1, "{:?}", outcome.errors);
        assert_eq!(outcome.errors[0].object, "the chain KUBE-SVC-A of nat");
        let left = saved(iptables, Table::Nat);
        assert!(left.contains(":KUBE-SVC-A") && left.contains("-A THEIRS -j KUBE-SVC-A"), "{left}");
        assert!(!left.contains("-A KUBE-SVC-A") && !left.contains("KUBE-SEP-A"), "{left}");
        assert!(!left.contains("KUBE-SERVICES"), "{left}");
    });
}

#[test]
fn an_empty_prefix_matches_nothing() {
    everywhere(|iptables| {
        iptables.restore(FOREIGN, RestoreOptions::default()).unwrap();
        let before = all(iptables);
        let plan = CleanupPlan {
            prefixes: BTreeMap::from([(Table::Nat, vec![String::new()]), (Table::Filter, vec![])]),
            ..CleanupPlan::default()
        };
        let outcome = cleanup(iptables, &plan);
        assert_eq!((outcome.chains, outcome.errors.len()), (0, 0));
        assert_eq!(all(iptables), before);
    });
}

/// More chains than one batch holds, with jumps from the last batch into the first.
#[test]
fn many_chains_go_in_batches() {
    for variant in VARIANTS {
        in_namespace(move || {
            let iptables = Iptables::probe(Family::V4, variant).unwrap();
            let before = saved(&iptables, Table::Nat);
            let chains: String = (0..1100).map(|n| format!(":KUBE-SVC-{n:04} - [0:0]\n")).collect();
            let jumps: String = (1..1100).map(|n| format!("-A KUBE-SVC-{n:04} -j KUBE-SVC-0000\n")).collect();
            iptables.restore(&format!("*nat\n{chains}{jumps}COMMIT\n"), RestoreOptions::default()).unwrap();
            let outcome = cleanup(&iptables, &plan());
            assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
            assert_eq!(outcome.chains, 1100);
            assert_eq!(saved(&iptables, Table::Nat), before);
        });
    }
}

#[test]
fn failures_are_collected_and_the_rest_goes_on() {
    in_namespace(|| {
        let script = "case \"$*\" in *-D*OUTPUT*|*-D*INPUT*) echo broken >&2; exit 9;; esac\nexec /usr/sbin/iptables-nft \"$@\"";
        let fakes = Fakes::new().script("iptables-nft", script);
        let iptables = Iptables::probe_in(&fakes.dirs(), Family::V4, Variant::Nft).unwrap();
        install(&iptables);
        let rule = format!("add rule ip mangle {} meta mark set numgen random mod 3", canary::CHAIN);
        assert!(std::process::Command::new("nft").arg(rule).status().unwrap().success());
        let outcome = cleanup(&iptables, &plan());
        let objects: Vec<_> = outcome.errors.iter().map(|error| error.object.as_str()).collect();
        // The mangle table is unreadable now, but the plan does not care about it.
        let expected = [
            "the jump nat OUTPUT -> KUBE-SERVICES",
            "the jump filter INPUT -> KUBE-NODEPORTS",
            "the chain KUBE-NODEPORTS of filter",
        ];
        assert_eq!(objects, expected);
        assert_eq!((outcome.jumps, outcome.chains), (1, 5));
        let strict = CleanupPlan { ignore_errors_in: vec![], jumps: vec![], ..plan() };
        let objects: Vec<_> =
            cleanup(&iptables, &strict).errors.into_iter().map(|error| error.object).collect();
        assert_eq!(objects, ["the chain KUBE-NODEPORTS of filter", "the table mangle"]);
    });
}
