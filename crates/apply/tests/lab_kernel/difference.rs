//! `difference` over a real kernel: empty after every step of every scenario, and after harm exactly what was harmed. Looking changes nothing.
//!
//! No agent runs here, so nobody repairs what the tests break.

use switchyard_apply::Mode;
use switchyard_apply::diff::{Difference, LINES};
use switchyard_apply::iptables::Variant;
use switchyard_model::{Family, Tracker};
use switchyard_netlink::nftables::Nft;
use switchyard_plan::book::PortChanges;
use switchyard_plan::settings::{LoopbackNodePorts, NodePortAddresses, Settings};

use super::scene::{in_a_namespace, nftables, run, scenario, scenarios, settings, sync, take, with_programs};

fn shown(difference: &Difference) -> Vec<String> {
    difference.lines().iter().map(ToString::to_string).collect()
}

/// What the mode says, having changed nothing.
fn look(mode: &dyn Mode) -> Vec<String> {
    let before = Nft::open().unwrap().generation().unwrap();
    let difference = mode.difference().unwrap();
    assert_eq!(Nft::open().unwrap().generation().unwrap(), before, "looking wrote something");
    shown(&difference)
}

/// Every step of every scenario; after that the next one begins with what this one left.
fn play_all(make: fn(Settings) -> Box<dyn Mode>) {
    in_a_namespace(|| {
        let mut steps = 0;
        for (number, scenario) in scenarios().iter().enumerate() {
            for family in Family::ALL {
                let mut wishes = settings(family);
                if number % 3 == 0 {
                    wishes.loopback_node_ports = LoopbackNodePorts::Served;
                    wishes.node_ports = NodePortAddresses::Only([wishes.node_ip].into_iter().collect());
                }
                let (mut mode, mut tracker) = (make(wishes), Tracker::new());
                for step in &scenario.steps {
                    sync(&mut *mode, take(&mut tracker, &step.objects, family));
                    let found = look(&*mode);
                    assert!(found.is_empty(), "{} {family} ({}): {found:#?}", scenario.name, step.title);
                    steps += 1;
                }
            }
        }
        assert!(steps > 100);
    });
}

#[test]
fn nftables_mode_finds_nothing_where_nothing_differs() {
    play_all(nftables);
}

#[test]
fn iptables_mode_finds_nothing_where_nothing_differs() {
    play_all(|settings| with_programs(Variant::Nft, settings));
}

#[test]
fn iptables_mode_finds_nothing_where_nothing_differs_legacy() {
    play_all(|settings| with_programs(Variant::Legacy, settings));
}

/// What harm makes of a mode that wrote a scenario; repaired, nothing is left of it.
fn after_harm(mut mode: Box<dyn Mode>, objects: &str, harm: impl FnOnce()) -> Vec<String> {
    let family = mode.book().settings().family;
    let scenario = scenario(objects);
    sync(&mut *mode, take(&mut Tracker::new(), &scenario.steps[0].objects, family));
    assert_eq!(look(&*mode), Vec::<String>::new());
    harm();
    let found = look(&*mode);
    mode.distrust();
    sync(&mut *mode, PortChanges::new());
    assert_eq!(look(&*mode), Vec::<String>::new(), "after the repair");
    found
}

#[test]
fn an_element_that_is_gone_or_another_is_named_with_its_service() {
    in_a_namespace(|| {
        let found = after_harm(nftables(settings(Family::V4)), "cluster-ip-several-endpoints", || {
            let listed = run("nft", &["list", "map", "ip", "switchyard", "slots"]);
            let element = listed.lines().find(|line| line.contains(" . tcp . ")).unwrap();
            let element =
                element.trim().trim_start_matches("elements = {").trim().trim_end_matches([',', '}', ' ']);
            let (key, _) = element.split_once(" : ").unwrap();
            run("nft", &["delete", "element", "ip", "switchyard", "slots", &format!("{{ {key} }}")]);
            let wrong = format!("{{ {key} : 192.0.2.1 . 9 }}");
            run("nft", &["add", "element", "ip", "switchyard", "slots", &wrong]);
            run("nft", &["add", "element", "ip", "switchyard", "cluster-ips", "{ 192.0.2.7 }"]);
        });
        assert_eq!(found.len(), 3, "{found:#?}");
        assert_eq!(found[0], "- element cluster-ips { 192.0.2.7 }");
        assert!(
            found[1].starts_with("- element slots {") && found[1].contains(" : 192.0.2.1 . 9 }  # "),
            "{found:#?}"
        );
        assert!(found[2].starts_with("+ element slots {") && found[2].contains("  # default/"), "{found:#?}");
    });
}

#[test]
fn rules_and_chains_that_differ_are_named() {
    in_a_namespace(|| {
        let found = after_harm(nftables(settings(Family::V4)), "cluster-ip-several-endpoints", || {
            run("nft", &["flush", "chain", "ip", "switchyard", "masquerading"]);
            run("nft", &["add", "rule", "ip", "switchyard", "masquerading", "counter"]);
            run("nft", &["add", "chain", "ip", "switchyard", "theirs"]);
        });
        let is =
            |start: &str, end: &str| found.iter().any(|line| line.starts_with(start) && line.ends_with(end));
        assert!(is("+ rule ", " of chain masquerading"), "{found:#?}");
        assert!(is("- 1 rules of chain masquerading", "none of ours"), "{found:#?}");
        assert!(is("- chain theirs", ""), "{found:#?}");
    });
}

#[test]
fn a_table_that_is_gone_or_dormant_is_one_line_or_two() {
    in_a_namespace(|| {
        let gone = after_harm(nftables(settings(Family::V6)), "node-port", || {
            run("nft", &["delete", "table", "ip6", "switchyard"]);
        });
        assert_eq!(gone, ["+ table ip6 switchyard, with everything in it"]);
        let dormant = after_harm(nftables(settings(Family::V4)), "node-port", || {
            run("nft", &["add", "table", "ip", "switchyard", "{ flags dormant; }"]);
        });
        assert_eq!(dormant.len(), 2, "{dormant:#?}");
    });
}

#[test]
fn iptables_rules_that_differ_are_named_with_their_service() {
    for variant in [Variant::Nft, Variant::Legacy] {
        in_a_namespace(|| {
            let tool = format!("iptables-{}", variant.as_str());
            let nat = |arguments: &[&str]| {
                let mut all = vec!["-w", "5", "-t", "nat"];
                all.extend(arguments);
                run(&tool, &all)
            };
            let mode = with_programs(variant, settings(Family::V4));
            let mut chains = (String::new(), String::new());
            let found = after_harm(mode, "cluster-ip-several-endpoints", || {
                let saved = nat(&["-S"]);
                let chain = |prefix: &str| {
                    let line = saved.lines().find(|line| line.starts_with(&format!("-N {prefix}"))).unwrap();
                    line.trim_start_matches("-N ").to_owned()
                };
                chains = (chain("KUBE-SVC-"), chain("KUBE-SEP-"));
                nat(&["-D", &chains.0, "1"]);
                nat(&["-A", &chains.1, "-s", "192.0.2.1/32", "-j", "RETURN"]);
                nat(&["-D", "POSTROUTING", "1"]);
                nat(&["-N", "KUBE-SVC-NOBODYS"]);
                nat(&["-N", "THEIRS"]);
            });
            let has = |text: &str| found.iter().any(|line| line.contains(text));
            let (svc, sep) = &chains;
            assert!(has(&format!("+ rule -A {svc} ")) && has("  # default/"), "{found:#?}");
            assert!(has(&format!("- rule -A {sep} -s 192.0.2.1/32 -j RETURN of table nat")), "{found:#?}");
            assert!(has("+ jump nat POSTROUTING -> KUBE-POSTROUTING"), "{found:#?}");
            assert!(has("- chain KUBE-SVC-NOBODYS of table nat") && !has("THEIRS"), "{found:#?}");
            assert_eq!(found.len(), 4, "{found:#?}");
        });
    }
}

#[test]
fn the_order_of_rules_counts() {
    in_a_namespace(|| {
        let mode = with_programs(Variant::Nft, settings(Family::V4));
        let found = after_harm(mode, "cluster-ip", || {
            let saved = run("iptables-nft", &["-t", "nat", "-S", "KUBE-POSTROUTING"]);
            let first = saved.lines().find(|line| line.starts_with("-A ")).unwrap().to_owned();
            run("iptables-nft", &["-t", "nat", "-D", "KUBE-POSTROUTING", "1"]);
            let mut again = vec!["-t", "nat"];
            again.extend(first.split(' '));
            run("iptables-nft", &again);
        });
        assert_eq!(found, ["- the order of the rules of chain KUBE-POSTROUTING of table nat"]);
    });
}

#[test]
fn a_great_difference_is_cut_and_counted() {
    in_a_namespace(|| {
        let mut mode = nftables(settings(Family::V4));
        sync(&mut *mode, take(&mut Tracker::new(), &scenario("cluster-ip").steps[0].objects, Family::V4));
        let all: Vec<String> = (0..1500).map(|n| format!("198.18.{}.{}", n / 250, n % 250)).collect();
        let all = format!("{{ {} }}", all.join(", "));
        run("nft", &["add", "element", "ip", "switchyard", "cluster-ips", &all]);
        let difference = mode.difference().unwrap();
        assert_eq!((difference.lines().len(), difference.count()), (LINES, 1500));
    });
}
