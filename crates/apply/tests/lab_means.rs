//! What a mode says that carries a packet is in the kernel: every element, chain and rule, for every frontend of every scenario.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use switchyard_apply::Mode;
use switchyard_apply::iptables::mode::IptablesMode;
use switchyard_apply::iptables::{Iptables, Variant};
use switchyard_apply::nft::mode::NftMode;
use switchyard_lab::scenario::Scenario;
use switchyard_lab::scenario::address::Symbol;
use switchyard_model::{Event, Family, Tracker};
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::Nft;
use switchyard_plan::book::{Book, of_family};
use switchyard_plan::explain::{Place, explain};
use switchyard_plan::route::FrontendAddress;
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_plan::trace::{NodeAddresses, Packet};
use switchyard_plan::{iptables, nft};

fn settings(family: Family) -> Settings {
    let range = match family {
        Family::V4 => "10.1.0.0/16",
        Family::V6 => "fd00:10:1::/48",
    };
    Settings {
        family,
        node_name: "n1".into(),
        zone: Some("a".into()),
        node_ip: Symbol::Node(1).ip(family).unwrap(),
        detector: LocalDetector::Cidr(range.parse().unwrap()),
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

/// Runs in a fresh network namespace, if we may make one.
fn in_a_namespace(test: impl FnOnce() + Send) {
    match Namespace::new() {
        Ok(namespace) => namespace.run(test).unwrap(),
        Err(error) => {
            assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but: {error}");
            // Not `eprintln!`: the harness hides what a passing test prints with it.
            let _ = std::io::stderr().write_all(b"SKIPPED: network namespaces need root\n");
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// What the mode says of a client outside, for each frontend in the book.
fn means(mode: &dyn Mode) -> Vec<(String, Vec<String>)> {
    let (book, family) = (mode.book(), mode.book().settings().family);
    let node: NodeAddresses = [book.settings().node_ip].into_iter().collect();
    let mut all = Vec::new();
    for port in book.ports().values() {
        for frontend in book.routes(port).routes.iter().map(|route| route.frontend) {
            let destination = match frontend.address {
                FrontendAddress::Ip(ip) => ip,
                FrontendAddress::Node(_) => book.settings().node_ip,
            };
            let packet = Packet {
                source: Symbol::Client.ip(family).unwrap(),
                interface: Some("outside".into()),
                destination,
                protocol: frontend.protocol,
                port: frontend.port,
            };
            let explanation = explain(Place { book, node: &node, manners: mode.manners() }, &packet);
            let hit = explanation.hit.unwrap();
            let lines = mode.means(&hit, destination);
            assert!(!lines.is_empty(), "nothing carries {frontend}");
            all.push((frontend.to_string(), lines));
        }
    }
    all
}

/// Plays every n-th scenario; `missing` says which of these lines of a family the kernel does not have.
fn play(every: usize, make: fn(Settings) -> Box<dyn Mode>, missing: fn(Family, &[String]) -> Vec<String>) {
    in_a_namespace(|| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut looked = 0;
        for scenario in Scenario::read_all(&dir).unwrap().into_iter().step_by(every) {
            for family in Family::ALL {
                let (mut mode, mut tracker) = (make(settings(family)), Tracker::new());
                for step in &scenario.steps {
                    tracker.apply(Event::Services(step.objects.model_services(&Family::ALL)));
                    tracker.apply(Event::Slices(step.objects.model_slices(&Family::ALL)));
                    let changes = of_family(&tracker.take().unwrap().ports, family);
                    let report = mode.sync(Instant::now(), changes, &mut |_| {});
                    assert!(report.failure.is_none(), "{report:?}");
                    for (frontend, lines) in means(&*mode) {
                        let missing = missing(family, &lines);
                        assert!(missing.is_empty(), "{} {frontend}: {missing:#?}", scenario.name);
                        looked += lines.len();
                    }
                }
            }
        }
        assert!(looked > 400, "{looked}");
    });
}

/// By what `nft` lists.
fn missing_elements(family: Family, lines: &[String]) -> Vec<String> {
    let word = if family == Family::V4 { "ip" } else { "ip6" };
    let listed = run("nft", &["list", "table", word, "switchyard"]);
    let mut pieces: Vec<&str> = Vec::new();
    for line in listed.lines() {
        let body = line.trim().trim_start_matches("elements = {").trim_end_matches('}');
        pieces.extend(body.split(", ").map(|piece| piece.trim().trim_end_matches(',').trim()));
    }
    let is_there = |line: &str| match line.strip_prefix("element ") {
        Some(element) => {
            let body = element.split_once("{ ").unwrap().1.trim_end_matches(" }");
            // `nft` lists a range of one address as the address.
            let body = body.trim_end_matches("/32").trim_end_matches("/128");
            pieces.contains(&body)
        }
        None => listed.contains(&format!("\t{line} {{\n")),
    };
    lines.iter().filter(|line| !is_there(line)).cloned().collect()
}

/// By what `iptables` finds.
fn missing_rules(family: Family, lines: &[String]) -> Vec<String> {
    let tool = if family == Family::V4 { "iptables-nft" } else { "ip6tables-nft" };
    let is_there = |line: &str| {
        let (rule, table) = line.strip_prefix("rule -A ").unwrap().rsplit_once(" of table ").unwrap();
        // Quotes are the shell's, too.
        let script = format!("{tool} -t {table} -C {rule}");
        Command::new("sh").args(["-c", &script]).output().unwrap().status.success()
    };
    lines.iter().filter(|line| !is_there(line)).cloned().collect()
}

#[test]
fn nftables_mode() {
    let make = |settings| -> Box<dyn Mode> {
        let planner = nft::Planner::new(nft::Config::default(), Book::new(settings));
        Box::new(NftMode::new(Nft::open().unwrap(), planner))
    };
    play(1, make, missing_elements);
}

#[test]
fn iptables_mode() {
    let make = |settings: Settings| -> Box<dyn Mode> {
        let programs = Iptables::probe(settings.family, Variant::Nft).unwrap();
        let planner = iptables::Planner::new(iptables::Config::default(), Book::new(settings));
        Box::new(IptablesMode::new(programs, planner))
    };
    // One run of a program for each rule.
    play(3, make, missing_rules);
}
