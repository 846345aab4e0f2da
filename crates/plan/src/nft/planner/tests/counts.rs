//! How many elements a change of one endpoint costs.

use std::collections::BTreeSet;

use switchyard_model::Endpoint;

use super::*;
use crate::route::frontends;
use crate::testing::{address, socket};

/// Service ports with two endpoints each that stay as they are.
pub(super) fn others(count: usize) -> Vec<ServicePort> {
    let template =
        World::new(Family::V4, "svc shop/web tcp 10.96.0.1:80 node=30000\n ep 10.1.0.1:80\n ep 10.1.0.2:80");
    let one = |i: usize| {
        let mut port = template.ports[0].clone();
        let [a, b] = u16::try_from(i).unwrap().to_be_bytes();
        port.name.service.name = format!("web{i}").into();
        port.cluster_ip = address(Family::V4, &format!("10.97.{a}.{b}"));
        port.node_port = Some(u16::try_from(10_000 + i).unwrap());
        port
    };
    (1..count).map(one).collect()
}

/// The i-th endpoint; each third one is here.
fn endpoint(i: usize) -> Endpoint {
    let [a, b] = u16::try_from(i).unwrap().to_be_bytes();
    let at = format!(
        "svc a/x tcp 10.96.0.1:80\nep 10.1.{a}.{b}:80 @{}",
        if i.is_multiple_of(3) { "here" } else { "there" }
    );
    World::new(Family::V4, &at).ports[0].endpoints[0].clone()
}

/// Element changes per frontend and shared by all of them, and chains that come and go.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    most_per_frontend: usize,
    hairpins: usize,
    chains: usize,
    planned: usize,
}

fn cost(partial: &Partial) -> Cost {
    let mut per_frontend: BTreeMap<String, usize> = BTreeMap::new();
    let mut cost = Cost { most_per_frontend: 0, hairpins: 0, chains: 0, planned: partial.planned };
    for op in &partial.ops {
        let place = match &op.change {
            Change::AddElement(place, _) | Change::DeleteElement(place) => place,
            Change::AddChain(_) | Change::DeleteChain(_) => {
                cost.chains += 1;
                continue;
            }
            other => panic!("{other:?}"),
        };
        let frontend = match place.key {
            Key::Frontend(ip, ..) | Key::Slot(ip, ..) => ip.to_string(),
            Key::NodePort(..) | Key::NodePortSlot(..) => "node".into(),
            Key::Hairpin(..) => {
                cost.hairpins += 1;
                continue;
            }
            _ => panic!("{place:?}"),
        };
        *per_frontend.entry(frontend).or_default() += 1;
    }
    cost.most_per_frontend = per_frontend.into_values().max().unwrap_or_default();
    cost
}

/// The cost of replacing, adding and removing one endpoint of a service port among many.
fn costs(services: usize, endpoints: usize, wishes: &str, changed: usize) -> [Cost; 3] {
    let world =
        World::new(Family::V4, &format!("svc a/x tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 {wishes}"));
    let mut port = world.ports[0].clone();
    port.endpoints = (0..endpoints).map(endpoint).collect();
    assert_eq!(frontends(&port).len(), 3);
    let mut planner = empty(world.settings);
    planner.partial(all(&others(services)));
    planner.partial(all(&[port.clone()]));
    let mut change = |port: &ServicePort| cost(&planner.partial(all(std::slice::from_ref(port))));
    let old = port.endpoints[changed].clone();
    port.endpoints[changed].address = socket(Family::V4, "10.1.99.99:80");
    let replaced = change(&port);
    port.endpoints.push(old);
    let added = change(&port);
    port.endpoints.remove(changed);
    [replaced, added, change(&port)]
}

#[test]
fn one_endpoint_costs_the_same_everywhere() {
    for (services, endpoints) in [(1, 5), (1, 500), (1_000, 5), (1_000, 500), (10_000, 500)] {
        for wishes in ["", "etp=local", "itp=local", "itp=local etp=local"] {
            // The fourth endpoint is here, the second is not. Neither has the last slot.
            for changed in [3, 1] {
                if services == 10_000 && wishes != "etp=local" {
                    continue;
                }
                let costs = costs(services, endpoints, wishes, changed);
                let limit = |cost: &Cost, elements, hairpins| {
                    cost.most_per_frontend <= elements && cost.hairpins <= hairpins && cost.planned == 1
                };
                let [replaced, added, removed] = &costs;
                let text = format!("{services} x {endpoints} {wishes} {changed}: {costs:#?}");
                assert!(limit(replaced, 2, 2) && replaced.chains == 0, "{text}");
                assert!(limit(added, 3, 1) && limit(removed, 5, 1), "{text}");
                // A shape for addresses and one for node ports comes and goes with the number of endpoints; the cluster
                // IP may have a third.
                assert!(added.chains <= 6 && removed.chains <= 6, "{text}");
            }
        }
    }
}

#[test]
fn a_shape_that_others_use_is_not_written_again() {
    let world = World::new(
        Family::V4,
        "svc a/x tcp 10.96.0.1:80\n ep 10.1.0.1:80\n svc b/x tcp 10.96.0.2:80\n ep 10.1.0.1:80\n ep 10.1.0.2:80
         svc c/x tcp 10.96.0.3:80\n ep 10.1.0.1:80",
    );
    let mut planner = Planner::new(Config::default(), world.book());
    let mut port = world.ports[0].clone();
    port.endpoints.push(endpoint(7));
    let partial = planner.partial(all(&[port]));
    assert_eq!(cost(&partial), Cost { most_per_frontend: 3, hairpins: 0, chains: 0, planned: 1 });
}

#[test]
fn ten_thousand_endpoints_and_more_than_there_are_slots() {
    let mut world =
        World::new(Family::V4, "svc a/x tcp 10.96.0.1:80 node=30080 etp=local\nep 10.1.0.1:80 @here");
    let template = world.ports[0].endpoints[0].clone();
    let one = |i: u32| Endpoint {
        address: (std::net::Ipv4Addr::from(0x0a01_0000 + i), 80).into(),
        ..template.clone()
    };
    for (count, left_out) in [(10_000_u32, 0), (40_000, 40_000 - 32_768)] {
        world.ports[0].endpoints = (0..count).map(one).collect();
        let mut planner = empty(world.settings.clone());
        let mut kernel = FakeKernel::holding(planner.ruleset());
        assert!(planner.partial(all(&world.ports)).needs_room);
        planner.adopt(&kernel.ruleset);
        assert_eq!(kernel.commit(&planner.repair(kernel.ruleset.clone())), Ok(()));
        assert_eq!(planner.left_out().get(&world.ports[0].name).copied().unwrap_or_default(), left_out);
        let slots = kernel.ruleset.elements.keys().filter(|place| place.set == Set::NodePortSlots);
        let used: BTreeSet<_> = slots.map(|place| place.key).collect();
        assert_eq!(used.len(), usize::try_from(count).unwrap() - left_out);
    }
}
