//! `switchyard check` and `switchyard cleanup`: no agent is asked.

use std::collections::BTreeSet;

use serde_json::Value;
use switchyard_lab::Host;

use super::{json, text};
use crate::common::ruleset;
use crate::common::variant::Variant;
use crate::common::world::World;

const OBJECTS: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.2:8080";

fn switchyard(host: &Host, arguments: &[&str]) -> std::process::Output {
    host.exec(env!("CARGO_BIN_EXE_switchyard"), arguments).unwrap()
}

/// Everything that a check could leave behind.
fn traces(host: &Host) -> [String; 3] {
    let legacy = host.exec_ok("sh", &["-c", "cat /proc/self/net/ip_tables_names || true"]).unwrap();
    [host.exec_ok("nft", &["list", "ruleset"]).unwrap(), host.exec_ok("ip", &["-o", "link"]).unwrap(), legacy]
}

#[test]
fn check_says_what_each_mode_has_and_leaves_nothing() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    let before = traces(world.n1());
    let checked = switchyard(world.n1(), &["check", "--proxy-mode", "nftables", "-o", "json"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let answer = json(&checked);
    let rows = answer["items"].as_array().unwrap();
    let of = |mode: &str| -> Vec<&Value> { rows.iter().filter(|row| row["mode"] == mode).collect() };
    assert_eq!((of("nftables").len(), of("iptables").len(), of("userspace").len()), (2, 4, 2), "{answer}");
    assert!(of("nftables").iter().all(|row| row["works"] == true && row["missing"] == ""), "{answer}");
    assert!(of("iptables").iter().any(|row| row["isChosen"] == true && row["works"] == true), "{answer}");
    for row in of("ipvs") {
        // Where this kernel has no IPVS, the module that is missing is named, and what to do.
        let (missing, advice) = (row["missing"].as_str().unwrap(), row["advice"].as_str().unwrap());
        assert!(row["works"] == true || (missing.contains("ip_vs") && advice.contains("modprobe")), "{row}");
    }
    let ipvs = switchyard(world.n1(), &["check", "--proxy-mode", "ipvs"]);
    let works = of("ipvs").iter().any(|row| row["works"] == true);
    assert_eq!(ipvs.status.code(), Some(i32::from(!works)), "{ipvs:?}");
    assert!(text(&ipvs.stdout).starts_with("MODE "), "{ipvs:?}");
    assert_eq!(traces(world.n1()), before);
}

#[test]
fn check_without_privileges_says_so() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    let program = world.path("switchyard");
    std::fs::copy(env!("CARGO_BIN_EXE_switchyard"), &program).unwrap();
    let nobody = [
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--bounding-set",
        "-all",
        "--inh-caps",
        "-all",
    ];
    let run = |more: &[&str]| {
        // The directory of a test is for its owner alone.
        let script = format!(
            "exec 3<{}; exec setpriv {} /proc/self/fd/3 {}",
            program.display(),
            nobody.join(" "),
            more.join(" ")
        );
        world.n1().exec("sh", &["-c", &script]).unwrap()
    };
    let checked = run(&["check", "--proxy-mode", "nftables", "-o", "json"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let answer = json(&checked);
    let row = answer["items"].as_array().unwrap().iter().find(|row| row["mode"] == "nftables").unwrap();
    assert!(row["missing"].as_str().unwrap().contains("CAP_NET_ADMIN"), "{row}");
    assert!(row["advice"].as_str().unwrap().starts_with("run it as root"), "{row}");
    let checked = run(&["check", "--proxy-mode", "userspace"]);
    assert_eq!(checked.status.code(), Some(0), "it needs none: {checked:?}");
}

/// The objects that a dry run lists.
fn listed(world: &World) -> BTreeSet<String> {
    let answer = json(&switchyard(world.n1(), &["cleanup", "--dry-run", "-o", "json"]));
    let items = answer["items"].as_array().unwrap().iter();
    items
        .map(|item| format!("{} {} {}", item["mode"], item["family"], item["object"]).replace('"', ""))
        .collect()
}

fn everything_that_goes_is_listed_before(variant: Variant) {
    let Some(world) = World::running(variant, OBJECTS) else { return };
    world.agent(|agent| agent.terminate().unwrap());
    world.n1().exec_ok("nft", &["add", "table", "ip", "theirs"]).unwrap();
    let before = ruleset::rules(world.n1(), variant);
    let all = listed(&world);
    assert_eq!(ruleset::rules(world.n1(), variant), before, "nothing was removed");
    let has = |text: &str| all.iter().any(|line| line.contains(text));
    match variant {
        Variant::Nft | Variant::Legacy => {
            let mode = format!("iptables-{}", variant.backend().unwrap());
            assert!(has(&format!("{mode} IPv6 jump nat PREROUTING -> KUBE-SERVICES")), "{all:#?}");
            let chains = before.lines().filter(|line| line.contains(" :KUBE-")).count();
            let kubelets = before.lines().filter(|line| line.contains(" :KUBE-FIREWALL")).count();
            assert_eq!(
                all.iter().filter(|line| line.contains(" chain ")).count(),
                chains - kubelets,
                "{before}\n{all:#?}"
            );
        }
        _ => assert!(
            has("nftables IPv4 table switchyard") && has("nftables IPv6 table switchyard"),
            "{all:#?}"
        ),
    }
    assert!(!has("theirs"), "{all:#?}");
    let cleaned = switchyard(world.n1(), &["cleanup"]);
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(listed(&world), BTreeSet::new());
    let nothing = switchyard(world.n1(), &["cleanup", "--dry-run"]);
    assert_eq!((nothing.status.code(), text(&nothing.stdout)), (Some(0), "Nothing to remove.\n"));
}

every_mode!(everything_that_goes_is_listed_before);
