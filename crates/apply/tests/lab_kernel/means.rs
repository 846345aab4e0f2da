//! What a mode says that carries a packet, or refuses it, is in the kernel: every element, chain and rule, for every frontend of every
//! scenario, and beside it for a port and an address that no Service has.

use std::process::Command;

use switchyard_apply::Mode;
use switchyard_apply::iptables::Variant;
use switchyard_lab::scenario::address::Symbol;
use switchyard_model::{Family, Protocol, Tracker};
use switchyard_plan::explain::{Explanation, Manners, Place, explain};
use switchyard_plan::route::FrontendAddress;
use switchyard_plan::settings::Settings;
use switchyard_plan::trace::{Answer, NodeAddresses, Packet};

use super::scene::{in_a_namespace, nftables, run, scenarios, settings, sync, take, with_programs};

/// Where the lab's cluster IPs are from.
const SERVICE_CIDRS: [&str; 2] = ["10.96.0.0/16", "fd00:10:96::/112"];

/// A port that no Service of the scenarios has.
const UNKNOWN_PORT: u16 = 9999;

/// What the mode says of a client outside, for each frontend in the book, and for what no Service has.
fn means(mode: &dyn Mode) -> Vec<(String, Vec<String>)> {
    let (book, family) = (mode.book(), mode.book().settings().family);
    let node: NodeAddresses = [book.settings().node_ip].into_iter().collect();
    let manners = mode.manners();
    let mut all = Vec::new();
    let mut look = |destination, protocol, port, wanted: Answered| {
        let source = Symbol::Client.ip(family).unwrap();
        let packet = Packet { source, interface: Some("outside".into()), destination, protocol, port };
        let explanation = explain(Place { book, node: &node, manners: &manners }, &packet);
        assert_eq!(Answered::of(&explanation), wanted, "{packet:?}");
        let lines = mode.means(&explanation, &packet);
        assert_eq!(lines.is_empty(), wanted == Answered::LeftAlone, "{packet:?}: {lines:?}");
        all.push((format!("{packet:?}"), lines));
    };
    let is_strict = matches!(manners, Manners::Strict { .. });
    let refused = if is_strict { Answered::Refused } else { Answered::LeftAlone };
    for port in book.ports().values() {
        for frontend in book.routes(port).routes.iter().map(|route| route.frontend) {
            let destination = match frontend.address {
                FrontendAddress::Ip(ip) => ip,
                FrontendAddress::Node(_) => book.settings().node_ip,
            };
            look(destination, frontend.protocol, frontend.port, Answered::ByFrontend);
        }
        look(port.cluster_ip, port.name.protocol, UNKNOWN_PORT, refused);
    }
    look(Symbol::Cluster(200).ip(family).unwrap(), Protocol::Sctp, 80, refused);
    all
}

/// Who decides about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    ByFrontend,
    Refused,
    LeftAlone,
}

impl Answered {
    fn of(explanation: &Explanation<'_>) -> Self {
        match (&explanation.hit, &explanation.answer) {
            (Some(_), _) => Self::ByFrontend,
            (None, Answer::Untouched) => Self::LeftAlone,
            (None, _) => Self::Refused,
        }
    }
}

/// Plays every n-th scenario; `missing` says which of these lines of a family the kernel does not have.
fn play(every: usize, make: fn(Settings) -> Box<dyn Mode>, missing: fn(Family, &[String]) -> Vec<String>) {
    in_a_namespace(|| {
        let mut looked = 0;
        for scenario in scenarios().into_iter().step_by(every) {
            for family in Family::ALL {
                let (mut mode, mut tracker) = (make(settings(family)), Tracker::new());
                mode.allocate_from(&SERVICE_CIDRS.map(|range| range.parse().unwrap()));
                for step in &scenario.steps {
                    sync(&mut *mode, take(&mut tracker, &step.objects, family));
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
        None => match line.strip_prefix("rule ").and_then(|rule| rule.rsplit_once(" of chain ")) {
            Some((rule, chain)) => rules_of(&listed, chain).contains(&rule),
            None => listed.contains(&format!("\t{line} {{\n")),
        },
    };
    lines.iter().filter(|line| !is_there(line)).cloned().collect()
}

/// The rules of a chain in a listing.
fn rules_of<'a>(listed: &'a str, chain: &str) -> Vec<&'a str> {
    let start = format!("\tchain {chain} {{\n");
    let rest = listed.split_once(&start).map(|(_, rest)| rest).unwrap_or_default();
    rest.lines().map(str::trim).take_while(|line| *line != "}").collect()
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
    play(1, nftables, missing_elements);
}

#[test]
fn iptables_mode() {
    // One run of a program for each rule.
    play(3, |settings| with_programs(Variant::Nft, settings), missing_rules);
}
