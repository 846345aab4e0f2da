//! Every scenario of `scenarios/`, on node n1 of the lab's address plan, through the tracers: routes, iptables rules and the
//! nftables ruleset. No packet is sent; the lab sends them, with the same files.
//!
//! Steps go through the planner as changes, so what is traced is what incremental planning made of them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first thing that is not as it should be"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ipnet::IpNet;
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Expected, Flow, Mode, Scenario, Seen, Step};
use switchyard_model::{Event, Family, Tracker};
use switchyard_plan::book::{Book, PortChanges, of_family};
use switchyard_plan::explain::{Manners, Place, explain};
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_plan::trace::{self, Answer, NodeAddresses, Packet, through_routes};
use switchyard_plan::{iptables, ipvs, nft};

/// What was tried, and what went wrong.
#[derive(Default)]
struct Report {
    flows: usize,
    failures: Vec<String>,
}

/// The planner of a mode.
enum Planner {
    Iptables(iptables::Planner),
    Nftables(nft::Planner),
    Ipvs(ipvs::Planner),
}

impl Planner {
    fn new(mode: Mode, settings: Settings) -> Self {
        let book = Book::new(settings);
        match mode {
            Mode::Iptables => Self::Iptables(iptables::Planner::new(iptables::Config::default(), book)),
            Mode::Nftables => Self::Nftables(nft::Planner::new(nft::Config::default(), book)),
            Mode::Ipvs => {
                let own = [Symbol::Node(1), Symbol::Gateway].map(|symbol| ip(symbol, book.settings().family));
                let config = ipvs::Config { own: own.into(), ..ipvs::Config::default() };
                Self::Ipvs(ipvs::Planner::new(config, book))
            }
        }
    }

    fn change(&mut self, settings: Settings, service_cidrs: &[IpNet], changes: PortChanges) {
        match self {
            Self::Iptables(planner) => {
                planner.book_mut().settle(settings);
                planner.partial(changes);
            }
            Self::Ipvs(planner) => {
                planner.reset(|book, _| book.settle(settings));
                planner.partial(changes);
            }
            Self::Nftables(planner) => {
                planner.reset(|book, config| {
                    book.settle(settings);
                    config.service_cidrs = service_cidrs.to_vec();
                });
                planner.partial(changes);
            }
        }
    }

    /// What each tracer says. Routes are as lenient as iptables mode.
    fn answers(&self, node: &NodeAddresses, packet: &Packet) -> Vec<(&'static str, Answer)> {
        match self {
            Self::Iptables(planner) => vec![
                ("routes", through_routes(planner.book(), node, packet)),
                ("iptables", planner.ruleset().trace(node, packet)),
            ],
            Self::Ipvs(planner) => {
                let whole = planner.whole();
                let ipvs::Config { scheduler, own, .. } = planner.config();
                let manners = Manners::Balanced { scheduler, own };
                let place = Place { book: planner.book(), node, manners: &manners };
                vec![
                    ("explanation", explain(place, packet).answer),
                    ("ipvs", whole.trace(node, &from_virtual_address(&whole, packet))),
                ]
            }
            Self::Nftables(planner) => {
                let manners = Manners::Strict { service_cidrs: &planner.config().service_cidrs };
                let place = Place { book: planner.book(), node, manners: &manners };
                vec![
                    ("explanation", explain(place, packet).answer),
                    ("nftables", planner.ruleset().trace(node, packet)),
                ]
            }
        }
    }
}

#[test]
fn iptables_tracers_agree_with_every_scenario() {
    run_all("iptables", Mode::Iptables);
}

#[test]
fn nftables_tracer_agrees_with_every_scenario() {
    run_all("nftables", Mode::Nftables);
}

#[test]
fn ipvs_tracer_agrees_with_every_scenario() {
    run_all("ipvs", Mode::Ipvs);
}

/// What a node sends to a virtual address, which is its own, comes from that address.
fn from_virtual_address(whole: &ipvs::trace::Whole, packet: &Packet) -> Packet {
    let is_virtual = whole.virtual_ips().any(|ip| ip == packet.destination);
    let source = if is_virtual && packet.interface.is_none() { packet.destination } else { packet.source };
    Packet { source, ..packet.clone() }
}

fn run_all(name: &str, mode: Mode) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let scenarios = Scenario::read_all(&directory).unwrap();
    let mut report = Report::default();
    for scenario in &scenarios {
        Family::ALL.iter().for_each(|family| run(scenario, *family, mode, &mut report));
    }
    let Report { flows, failures } = report;
    // Not a print macro: those are held back for tests that pass.
    let line =
        format!("tracer {name}: {} scenarios, {flows} flows, {} failed\n", scenarios.len(), failures.len());
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert!(flows > 0 && failures.is_empty(), "\n{}", failures.join("\n"));
}

fn run(scenario: &Scenario, family: Family, mode: Mode, report: &mut Report) {
    let mut tracker = Tracker::new();
    let mut planner: Option<Planner> = None;
    for step in &scenario.steps {
        tracker.apply(Event::Services(step.objects.model_services(&Family::ALL)));
        tracker.apply(Event::Slices(step.objects.model_slices(&Family::ALL)));
        let changes = of_family(&tracker.take().unwrap().ports, family);
        let settings = settings(scenario, step, family, mode);
        let planner = planner.get_or_insert_with(|| Planner::new(mode, settings.clone()));
        planner.change(settings, &step.objects.service_cidrs, changes);
        for flow in step.flows.iter().filter(|flow| flow.families().contains(&family)) {
            report.flows += 1;
            let expected = expected_text(flow.expected_in(mode));
            for (tracer, answer) in planner.answers(&node_addresses(family), &packet(flow, family)) {
                let got = answer_text(scenario, &answer, family);
                if got != expected {
                    let (name, line, title) = (&scenario.name, flow.line, &step.title);
                    report.failures.push(format!(
                        "{name}.txt:{line} {family} {tracer} ({title}): {flow}: expected {expected}, got {got}"
                    ));
                }
            }
        }
    }
}

fn ip(symbol: Symbol, family: Family) -> IpAddr {
    symbol.ip(family).unwrap()
}

/// The addresses of n1.
fn node_addresses(family: Family) -> NodeAddresses {
    [Symbol::Node(1), Symbol::Gateway, Symbol::Localhost].map(|symbol| ip(symbol, family)).into()
}

/// The first packet, as it arrives on n1.
fn packet(flow: &Flow, family: Family) -> Packet {
    let destination = ip(flow.to, family);
    let is_from_here = flow.from == Symbol::Node(1);
    let is_to_here = node_addresses(family).contains(&destination);
    Packet {
        // What a host sends to itself comes from the address that it is for.
        source: if is_from_here && is_to_here { destination } else { ip(flow.from, family) },
        interface: match flow.from {
            Symbol::Node(1) => None,
            Symbol::Pod(1, index) => Some(format!("pod{index}-0")),
            _ => Some("eth0".into()),
        },
        destination,
        protocol: flow.protocol,
        port: flow.port,
    }
}

fn settings(scenario: &Scenario, step: &Step, family: Family, mode: Mode) -> Settings {
    let node_ip = ip(Symbol::Node(1), family);
    let default = match mode {
        Mode::Iptables | Mode::Ipvs => "",
        Mode::Nftables => "primary",
    };
    let node_ports = match scenario.option("nodeport-addresses", default) {
        "" => NodePortAddresses::All,
        "primary" => NodePortAddresses::Only(vec![node_ip]),
        other => panic!("{}: nodeport-addresses={other} is not known here", scenario.name),
    };
    let is_loopback_served = scenario.option("iptables-localhost-nodeports", "true") == "true"
        && family == Family::V4
        && mode != Mode::Ipvs
        && node_ports == NodePortAddresses::All;
    Settings {
        family,
        node_name: "n1".into(),
        zone: step.objects.zone.as_deref().map(Into::into),
        node_ip,
        detector: detector(scenario, family),
        masquerade: match scenario.option("masquerade-all", "false") {
            "true" => MasqueradeClusterIp::All,
            _ => MasqueradeClusterIp::FromOutside,
        },
        node_ports,
        loopback_node_ports: match is_loopback_served {
            true => LoopbackNodePorts::Served,
            false => LoopbackNodePorts::Refused,
        },
    }
}

fn detector(scenario: &Scenario, family: Family) -> LocalDetector {
    if scenario.option("detect-local-mode", "ClusterCIDR") == "InterfaceNamePrefix" {
        return LocalDetector::InterfacePrefix(scenario.option("pod-interface-name-prefix", "").into());
    }
    let ranges = scenario.cluster_cidr().split(',').filter(|text| !text.is_empty());
    let mut ranges = ranges.map(|text| text.parse::<IpNet>().unwrap());
    let range = ranges.find(|range| Family::of(range.addr()) == family);
    range.map_or(LocalDetector::None, LocalDetector::Cidr)
}

fn expected_text(expected: &Expected) -> String {
    match expected {
        Expected::Pods(pods) | Expected::Sticky(pods) => {
            pods_text(pods.iter().map(|(pod, seen)| (pod.to_string(), *seen)).collect())
        }
        Expected::Reject => "reject".into(),
        Expected::Drop => "drop".into(),
        Expected::Untouched | Expected::Http(_) => "untouched".into(),
    }
}

fn answer_text(scenario: &Scenario, answer: &Answer, family: Family) -> String {
    let name = |at: &SocketAddr| {
        let pods = scenario.pods();
        let pod = pods.iter().find(|pod| pod.ip(family) == Some(at.ip()));
        pod.map_or_else(|| at.to_string(), ToString::to_string)
    };
    let seen = |seen: &trace::Seen| match seen {
        trace::Seen::Client => Seen::Client,
        trace::Seen::Node => Seen::Node,
    };
    match answer {
        Answer::Endpoints(some) => pods_text(some.iter().map(|(at, by)| (name(at), seen(by))).collect()),
        Answer::Reject => "reject".into(),
        Answer::Drop => "drop".into(),
        Answer::Untouched => "untouched".into(),
    }
}

fn pods_text(pods: BTreeMap<String, Seen>) -> String {
    let text = |(pod, seen): (String, Seen)| match seen {
        Seen::Client => format!("{pod}@client"),
        Seen::Node => format!("{pod}@node"),
    };
    pods.into_iter().map(text).collect::<Vec<_>>().join(" ")
}
