//! The happy paths and the refusals of real programs.

use std::collections::BTreeSet;

use crate::NextStep;
use crate::iptables::fixture::{everywhere, saved};
use crate::iptables::save::{self, Detail};
use crate::iptables::*;

fn jump(target: &str) -> Jump {
    let args = ["-m", "comment", "--comment", "a long comment", "-j", target].map(str::to_owned).to_vec();
    Jump { table: Table::Nat, chain: "PREROUTING".into(), args }
}

#[test]
fn chains_and_jumps_are_ensured_once() {
    everywhere(|iptables| {
        assert_eq!(iptables.ensure_chain(Table::Nat, "OURS").unwrap(), Ensured::Created);
        assert_eq!(iptables.ensure_chain(Table::Nat, "OURS").unwrap(), Ensured::Existed);
        assert_eq!(iptables.ensure_chain(Table::Nat, "OTHER").unwrap(), Ensured::Created);
        assert_eq!(iptables.ensure_jump(&jump("OTHER"), Position::First).unwrap(), Ensured::Created);
        assert_eq!(iptables.ensure_jump(&jump("OURS"), Position::First).unwrap(), Ensured::Created);
        let before = saved(iptables, Table::Nat);
        assert_eq!(iptables.ensure_jump(&jump("OTHER"), Position::First).unwrap(), Ensured::Existed);
        assert_eq!(saved(iptables, Table::Nat), before);
        let text = iptables.save(Table::Nat).unwrap();
        let nat = save::parse(&text, Table::Nat, Detail::Rules).unwrap();
        let rules = &nat.chains["PREROUTING"];
        assert!(rules[0].ends_with("-j OURS") && rules[1].ends_with("-j OTHER"), "{rules:?}");
    });
}

#[test]
fn removing_is_exact_and_repeatable() {
    everywhere(|iptables| {
        iptables.ensure_chain(Table::Nat, "OURS").unwrap();
        iptables.ensure_jump(&jump("OURS"), Position::Last).unwrap();
        let twice = "*nat\n-A PREROUTING -m comment --comment \"a long comment\" -j OURS\nCOMMIT\n";
        iptables.restore(twice, RestoreOptions::default()).unwrap();
        let in_use = iptables.delete_chain(Table::Nat, "OURS").unwrap_err();
        assert!(matches!(in_use, IptablesError::Refused { .. }), "{in_use:?}");
        assert_eq!(iptables.delete_jump(&jump("OURS")).unwrap(), Removed::Removed);
        assert_eq!(iptables.delete_jump(&jump("OURS")).unwrap(), Removed::Absent);
        assert_eq!(iptables.delete_jump(&jump("NEVER-WAS")).unwrap(), Removed::Absent);
        assert_eq!(iptables.flush_chain(Table::Nat, "OURS").unwrap(), Removed::Removed);
        assert_eq!(iptables.delete_chain(Table::Nat, "OURS").unwrap(), Removed::Removed);
        assert_eq!(iptables.delete_chain(Table::Nat, "OURS").unwrap(), Removed::Absent);
        assert_eq!(iptables.flush_chain(Table::Nat, "OURS").unwrap(), Removed::Absent);
        assert!(!iptables.chain_exists(Table::Nat, "OURS").unwrap());
        assert!(iptables.chain_exists(Table::Nat, "POSTROUTING").unwrap());
    });
}

#[test]
fn names_that_would_be_options_are_refused() {
    everywhere(|iptables| {
        for name in ["-F", "a b", ""] {
            let error = iptables.ensure_chain(Table::Nat, name).unwrap_err();
            assert!(matches!(error, IptablesError::BadName { .. }), "{error:?}");
        }
    });
}

#[test]
fn restore_keeps_what_it_does_not_name() {
    everywhere(|iptables| {
        iptables.ensure_chain(Table::Nat, "FOREIGN").unwrap();
        let input =
            "*filter\n:A - [0:0]\n-A A -j ACCEPT\nCOMMIT\n*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\nCOMMIT\n";
        iptables.restore(input, RestoreOptions::default()).unwrap();
        let first = saved(iptables, Table::Nat);
        iptables.restore(input, RestoreOptions::default()).unwrap();
        assert_eq!(saved(iptables, Table::Nat), first);
        let text = iptables.save(Table::Nat).unwrap();
        let nat = save::parse(&text, Table::Nat, Detail::Chains).unwrap();
        let ours: BTreeSet<_> = nat.chains.keys().copied().filter(|name| !name.ends_with("ING")).collect();
        assert_eq!(ours, BTreeSet::from(["A", "B", "FOREIGN", "INPUT", "OUTPUT"]));
        let only_filter = "*filter\n:C - [0:0]\nCOMMIT\n*nat\n:C - [0:0]\nCOMMIT\n";
        iptables.restore(only_filter, RestoreOptions { table: Some(Table::Filter) }).unwrap();
        assert!(iptables.chain_exists(Table::Filter, "C").unwrap());
        assert!(!iptables.chain_exists(Table::Nat, "C").unwrap());
    });
}

#[test]
fn refused_lines_are_found() {
    everywhere(|iptables| {
        for (bad, step) in [
            ("-A A --bogus", NextStep::Quarantine { line: 4 }),
            ("-A A -j DNAT --to-destination 999", NextStep::Quarantine { line: 4 }),
            ("-A A -m nosuchmatch", NextStep::Quarantine { line: 4 }),
            ("-X USED", NextStep::Quarantine { line: 4 }),
            ("-A A -j NOSUCH", NextStep::FullSync),
        ] {
            let input = format!("*nat\n:A - [0:0]\n:USED - [0:0]\n{bad}\n-A A -j ACCEPT\nCOMMIT\n");
            iptables.ensure_chain(Table::Nat, "USED").unwrap();
            iptables.ensure_jump(&jump("USED"), Position::First).unwrap();
            let error = iptables.restore(&input, RestoreOptions::default()).unwrap_err();
            assert_eq!(error.line(), Some(4), "{bad}: {error:?}");
            assert_eq!(error.next_step(), step, "{bad}: {error:?}");
            assert!(!iptables.chain_exists(Table::Nat, "A").unwrap(), "a refused table must stay untouched");
        }
    });
}

#[test]
fn canary_notices_a_flush() {
    everywhere(|iptables| {
        assert!(canary::is_gone(iptables, Table::Mangle).unwrap());
        canary::ensure(iptables).unwrap();
        canary::ensure(iptables).unwrap();
        for table in canary::TABLES {
            assert!(!canary::is_gone(iptables, table).unwrap(), "{table}");
        }
        iptables.delete_chain(Table::Mangle, canary::CHAIN).unwrap();
        assert!(canary::is_gone(iptables, Table::Mangle).unwrap());
        assert!(!canary::is_gone(iptables, Table::Nat).unwrap());
    });
}

#[test]
fn a_table_that_iptables_cannot_read_is_an_error_and_not_a_lost_canary() {
    use crate::iptables::fixture::in_namespace;
    use switchyard_model::Family;
    in_namespace(|| {
        let iptables = Iptables::probe(Family::V4, Variant::Nft).unwrap();
        canary::ensure(&iptables).unwrap();
        let script = format!("add rule ip mangle {} meta mark set numgen random mod 3", canary::CHAIN);
        assert!(std::process::Command::new("nft").arg(script).status().unwrap().success());
        assert!(canary::is_gone(&iptables, Table::Mangle).is_err());
        assert!(std::process::Command::new("nft").arg("flush ruleset").status().unwrap().success());
        assert!(canary::is_gone(&iptables, Table::Mangle).unwrap());
    });
}
