//! Random Services: the same rules in iptables mode, on both variants, the same fate of packets there and in nftables mode. Then some of the
//! objects change, and both are compared again.
//!
//! `SEED` in the environment repeats a run, `COUNT` says how many Services there are (at most 500). A failure names the seed, the Service
//! with its objects, and the flow.

#[path = "random/changes.rs"]
pub(crate) mod changes;
#[path = "random/dice.rs"]
pub(crate) mod dice;
#[path = "random/objects.rs"]
pub(crate) mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_lab::scenario::{CLUSTER_CIDR, Scenario};

use crate::cases::marked;
use crate::common::variant::{Variant, say};
use crate::e2e::api::Api;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::programs::{KUBE_PROXY, find_or_skip};
use crate::packets::Effort;
use crate::peers::{Peers, Plan};
use crate::probes::{CLIENTS, Probe, of_objects};
use crate::tally::{Compared, Tally};
use changes::Change;
use dice::Dice;
use objects::{PODS, ports};

/// How long flows are tried in each mode, before and after the change; with affinity and drops a flow takes longer than without. However
/// long it takes, one flow of every Service is tried.
const NFTABLES: Duration = Duration::from_secs(25);
const IPTABLES: Duration = Duration::from_secs(10);

/// Requests at one time.
const WRITERS: usize = 4;

#[test]
fn random() {
    let Some(kube_proxy) = find_or_skip(KUBE_PROXY) else { return };
    let Some(control_plane) = ControlPlane::start_or_skip() else { return };
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let count = u32::try_from(number("COUNT").unwrap_or(250)).unwrap();
    say(&format!("parity of random Services: SEED={seed} COUNT={count}"));
    let list = objects::list(seed, count);
    let probes = in_turn(of_objects(&list), &mut Dice::new(seed));
    write(&control_plane.api(), &marked(&list, 1));
    let (flags, scenario) = ([format!("--cluster-cidr={CLUSTER_CIDR}")], stage());
    let mut tallies = [Variant::Nft, Variant::Legacy, Variant::Nftables].map(Tally::new);
    let plan = |variant| Plan {
        kube_proxy: &kube_proxy,
        control_plane: &control_plane,
        variant,
        flags: &flags,
        scenario: &scenario,
    };
    let mut pairs = tallies.each_ref().map(|tally| Peers::start(&plan(tally.variant)));
    for peers in &mut pairs {
        let told = peers.await_mark(1).and_then(|()| peers.tell_zone(&control_plane.api()));
        told.unwrap_or_else(|late| panic!("{}: {late}", peers.variant));
    }
    for (marker, state) in [(1, "as created"), (2, "changed")] {
        if marker == 2 {
            alter(&control_plane.api(), &changes::of(&list, &mut Dice::new(seed)));
        }
        for (peers, tally) in pairs.iter_mut().zip(&mut tallies) {
            let result = look(peers, &probes, marker);
            let result = result.map_err(|text| format!("{text}{}", objects_of(&list, &probes, &text)));
            tally.add(&format!("SEED={seed} COUNT={count}, {state}"), result);
        }
    }
    Tally::finish("random", &tallies);
}

fn look(peers: &mut Peers, probes: &[Probe], marker: u16) -> Result<Compared, String> {
    peers.await_mark(marker)?;
    let (rules, time) = match peers.variant.backend() {
        Some(_) => (peers.compare_rules()?, IPTABLES),
        None => (0, NFTABLES),
    };
    let services: BTreeSet<&str> = probes.iter().map(|probe| probe.service.name.as_str()).collect();
    peers.compare_packets(probes, Effort { least: services.len(), time }).result(rules, probes.len())
}

/// Makes the changes; the second marker takes the place of the first.
fn alter(api: &Api, changes: &[Change]) {
    for change in changes {
        let answer = match change {
            Change::Patch(path, patch) => api.patch(path, patch),
            Change::Delete(path) => api.delete(path),
        };
        if let Err(refused) = answer {
            panic!("{change:?}: {refused}");
        }
    }
    for name in ["v4-1", "v6-1"] {
        api.delete(&format!("/api/v1/namespaces/zz-marker/services/{name}")).unwrap();
    }
    write(api, &marked(&json!({ "items": [] }), 2));
}

/// First one flow of every Service, then the second ones, and so on: however few can be tried, every Service has its share.
fn in_turn(mut probes: Vec<Probe>, dice: &mut Dice) -> Vec<Probe> {
    dice.shuffle(&mut probes);
    let mut turns: BTreeMap<String, u32> = BTreeMap::new();
    let mut turn = |probe: &Probe| {
        let turn = turns.entry(probe.service.name.clone()).or_default();
        *turn += 1;
        *turn
    };
    let mut ordered: Vec<(u32, Probe)> = probes.into_iter().map(|probe| (turn(&probe), probe)).collect();
    ordered.sort_by_key(|(turn, _)| *turn);
    ordered.into_iter().map(|(_, probe)| probe).collect()
}

/// Everything about the Services that a text names.
fn objects_of(list: &Value, probes: &[Probe], text: &str) -> String {
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    let is_named = |item: &&Value| {
        let field = |pointer: &str| item.pointer(pointer).and_then(Value::as_str);
        let service = field("/metadata/labels/kubernetes.io~1service-name").or(field("/metadata/name"));
        let name =
            format!("{}/{}", field("/metadata/namespace").unwrap_or_default(), service.unwrap_or_default());
        probes.iter().any(|probe| probe.service.name == name) && text.contains(&format!(" {name}:"))
    };
    items.filter(is_named).map(|item| format!("  {item}\n")).collect()
}

/// Creates all objects: Services, then slices, each kind with its marker at the end.
fn write(api: &Api, list: &Value) {
    let items: Vec<&Value> = list.get("items").and_then(Value::as_array).into_iter().flatten().collect();
    let namespace =
        |item: &Value| item.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned);
    let namespaces: BTreeSet<String> = items.iter().filter_map(|item| namespace(item)).collect();
    namespaces.iter().for_each(|name| api.ensure_namespace(name));
    for kind in ["Node", "Service", "EndpointSlice"] {
        let of_kind: Vec<&Value> = items
            .iter()
            .copied()
            .filter(|item| item.get("kind").is_some_and(|found| found == kind))
            .collect();
        let (markers, others): (Vec<&Value>, Vec<&Value>) = of_kind
            .into_iter()
            .partition(|item| namespace(item).is_some_and(|name| name.ends_with("marker")));
        std::thread::scope(|scope| {
            for part in others.chunks(others.len().div_ceil(WRITERS).max(1)) {
                scope.spawn(|| part.iter().for_each(|item| create(api, item)));
            }
        });
        markers.iter().for_each(|item| create(api, item));
    }
}

fn create(api: &Api, object: &Value) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    let list = match text("/kind") {
        "Node" => "/api/v1/nodes".to_owned(),
        "Service" => format!("/api/v1/namespaces/{namespace}/services"),
        _ => format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
    };
    if let Err(refused) = api.create(&list, object) {
        panic!("{object}: {refused}");
    }
    if let Some(status) = object.get("status") {
        let path = format!("{list}/{}/status", text("/metadata/name"));
        if let Err(refused) = api.patch(&path, &json!({ "status": status })) {
            panic!("{object}: {refused}");
        }
    }
}

/// The pods that answer, and the clients.
fn stage() -> Scenario {
    let mut lines = CLIENTS.map(|client| format!("flow tcp {client} -> n1:1 : drop\n")).concat();
    for node in 1..=2 {
        for pod in 1..=PODS {
            for (protocol, name) in [("tcp", "TCP"), ("udp", "UDP")] {
                for port in ports(name) {
                    lines.push_str(&format!("endpoint any n{node}.{pod}:{port}/{protocol}\n"));
                }
            }
        }
    }
    Scenario::parse("random", &lines).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_its_share_of_flows() {
        let list = objects::list(3, 40);
        let all = of_objects(&list);
        let probes = in_turn(all.clone(), &mut Dice::new(3));
        assert_eq!(probes.len(), all.len());
        let services: BTreeSet<&str> = all.iter().map(|p| p.service.name.as_str()).collect();
        let first = probes.iter().take(services.len()).map(|p| p.service.name.as_str());
        assert_eq!(first.collect::<BTreeSet<_>>(), services);
    }

    #[test]
    fn a_failure_shows_the_objects() {
        let list = objects::list(3, 40);
        let probes = of_objects(&list);
        let probe = probes.first().unwrap();
        let shown = objects_of(&list, &probes, &format!("  {probe}\n"));
        let name = probe.service.name.split_once('/').unwrap().1;
        assert!(shown.contains(&format!("\"name\":\"{name}\"")), "{shown}");
        assert_eq!(objects_of(&list, &probes, "nothing"), "");
    }
}
