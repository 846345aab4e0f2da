//! Incremental equals full, every prefix is safe, nothing is written twice, others are left alone, and cost follows the change.

use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use switchyard_model::{Family, Protocol};

use super::*;
use crate::ipvs::fake::FakeKernel;
use crate::settings::Settings;
use crate::testing::{World, address, all, arbitrary, node_addresses, range};

type PortChange = (ServicePortName, Option<ServicePort>);

pub(super) fn config(family: Family) -> Config {
    let own = node_addresses(family).into_iter().filter(|ip: &IpAddr| !ip.is_loopback()).collect();
    Config { own, ..Config::default() }
}

fn empty(settings: Settings) -> Planner {
    Planner::new(config(settings.family), Book::new(settings))
}

fn changes(list: &[PortChange]) -> PortChanges {
    list.iter().map(|(name, port)| (name.clone(), port.clone().map(Arc::new))).collect()
}

fn worlds() -> impl Strategy<Value = (Settings, Vec<Vec<PortChange>>)> {
    arbitrary::family().prop_flat_map(|f| {
        let batch = proptest::collection::vec(arbitrary::change(f), 0..4);
        (arbitrary::any_settings(f), proptest::collection::vec(batch, 1..7))
    })
}

/// Service ports whose number is that of a node port, so that named addresses of the node and node ports meet.
fn crossing() -> impl Strategy<Value = (Settings, Vec<Vec<PortChange>>)> {
    worlds().prop_map(|(settings, mut batches)| {
        for (_, port) in batches.iter_mut().flatten() {
            if let Some(port) = port {
                port.port = 30000;
            }
        }
        (settings, batches)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn incremental_is_full((settings, batches) in prop_oneof![worlds(), crossing()]) {
        let mut planner = empty(settings.clone());
        let mut kernel = FakeKernel::holding(&planner);
        for batch in &batches {
            let partial = planner.partial(changes(batch));
            prop_assert_eq!(kernel.obey(&partial.steps, usize::MAX), Ok(()));
            prop_assert_eq!(&kernel, &FakeKernel::holding(&planner));
            let again = planner.partial(changes(batch));
            prop_assert!(again.steps.is_empty() && again.replaced.is_empty() && again.planned == 0);
            prop_assert!(planner.repair(&kernel.held()).is_empty());
        }
        // A planner that only ever saw the end.
        let mut book = Book::new(settings);
        batches.iter().for_each(|batch| { book.update(changes(batch)); });
        let fresh = Planner::new(planner.config().clone(), book);
        prop_assert_eq!(&kernel, &FakeKernel::holding(&fresh));
        prop_assert_eq!((planner.silent(), &planner.shared), (fresh.silent(), &fresh.shared));
        // Everything can go, and nothing is left of it.
        let gone = planner.book().ports().keys().map(|name| (name.clone(), None)).collect();
        prop_assert_eq!(kernel.obey(&planner.partial(gone).steps, usize::MAX), Ok(()));
        prop_assert_eq!(&kernel, &FakeKernel::holding(&empty(planner.book().settings().clone())));
    }

    /// Killed after any step, the next start brings everything in order, and touches nothing of others.
    #[test]
    fn killed_after_any_step_it_converges((settings, batches) in worlds(), stop in 0..12_usize) {
        let mut planner = empty(settings);
        let mut kernel = FakeKernel::holding(&planner);
        for batch in &batches {
            let steps = planner.partial(changes(batch)).steps;
            prop_assert_eq!(kernel.obey(&steps, stop), Ok(()));
            let repair = planner.repair(&kernel.held());
            prop_assert_eq!(kernel.obey(&repair, usize::MAX), Ok(()));
            prop_assert_eq!(&kernel, &FakeKernel::holding(&planner));
        }
    }

    #[test]
    fn order_of_events_does_not_matter(
        ports in arbitrary::family().prop_flat_map(arbitrary::service_ports),
        order in Just((0..arbitrary::SERVICES).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let settings = crate::testing::settings(ports[0].family);
        let mut one_by_one = empty(settings.clone());
        let mut kernel = FakeKernel::holding(&one_by_one);
        for i in order {
            prop_assert_eq!(kernel.obey(&one_by_one.partial(all(&ports[i..=i])).steps, usize::MAX), Ok(()));
        }
        let mut all_at_once = empty(settings);
        all_at_once.partial(all(&ports));
        prop_assert_eq!(kernel, FakeKernel::holding(&all_at_once));
    }
}

fn server(family: Family, ip: &str, port: u16) -> Server {
    Server { address: address(family, ip), protocol: Protocol::Tcp, port }
}

fn text(ops: &[Op]) -> Vec<String> {
    ops.iter().map(|op| op.step.to_string()).collect()
}

const WEB: &str = "svc shop/web tcp 10.96.0.1:80 node=30080\n ep 10.1.0.1:80\n ep 10.1.0.2:80";

#[test]
fn a_change_of_one_endpoint_is_two_steps_per_frontend() {
    let more: String =
        (1..100).map(|i| format!("svc shop/w{i} tcp 10.97.0.{i}:80\n ep 10.1.0.1:80\n")).collect();
    let world = World::new(Family::V4, &format!("{more}{WEB}"));
    let mut planner = empty(world.settings.clone());
    planner.partial(all(&world.ports));
    let port = World::new(Family::V4, &WEB.replace("10.1.0.2", "10.1.0.3"));
    let partial = planner.partial(all(&port.ports));
    assert_eq!((partial.planned, partial.steps.rules.len(), partial.steps.forget.len()), (1, 0, 0));
    let at = ["10.96.0.1:80/TCP", "192.168.0.10:30080/TCP", "192.168.1.10:30080/TCP"].map(str::to_lowercase);
    let lower = |ops: &[Op]| text(ops).iter().map(|line| line.to_lowercase()).collect::<Vec<_>>();
    assert_eq!(lower(&partial.steps.grow), at.clone().map(|s| format!("add destination 10.1.0.3:80 of {s}")));
    assert_eq!(lower(&partial.steps.shrink), at.map(|s| format!("retire destination 10.1.0.2:80 of {s}")));
}

#[test]
fn connections_outlive_the_last_endpoint_and_not_the_service() {
    let world = World::new(Family::V4, WEB);
    let mut planner = empty(world.settings.clone());
    planner.partial(all(&world.ports));
    let mut port = world.ports[0].clone();
    port.endpoints.clear();
    let steps = planner.partial(all(&[port])).steps;
    assert!(steps.shrink.iter().all(|op| matches!(op.step, Step::Retire(..))), "{steps:?}");
    assert!(steps.forget.is_empty() && !steps.rules.is_empty());
    let steps = planner.partial([(world.ports[0].name.clone(), None)].into()).steps;
    let lines = text(&steps.shrink);
    assert_eq!(lines.iter().filter(|line| line.starts_with("delete server")).count(), 3, "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("remove address 10.96.0.1"));
}

#[test]
fn virtual_servers_of_others_are_never_touched() {
    for family in Family::ALL {
        let world = World::new(family, WEB);
        let planner = Planner::new(config(family), world.book());
        let mut kernel = FakeKernel::holding(&planner);
        let content = Content {
            options: crate::ipvs::Options::new(planner.config(), None),
            destinations: [crate::testing::socket(family, "10.9.9.9:80")].into(),
        };
        // At an address of the node, on another port; and anywhere else.
        for other in [server(family, "192.168.0.10", 8443), server(family, "203.0.113.77", 80)] {
            kernel.foreign.insert(other);
            kernel.servers.insert(other, content.clone());
        }
        assert!(planner.repair(&kernel.held()).is_empty());
        // What an earlier run left at our addresses, or as our node port, is ours.
        let gone = planner.clone();
        let mut gone_planner = empty(gone.book().settings().clone());
        let repair = gone_planner.repair(&kernel.held());
        assert_eq!(kernel.obey(&repair, usize::MAX), Ok(()));
        assert_eq!(kernel.servers.len(), 2);
        gone_planner.reset(|_, config| config.excluded = vec![range(family, "10.96.0.0/16")]);
        let steps = gone_planner.repair(&FakeKernel::holding(&planner).held());
        let deleted =
            text(&steps.shrink).into_iter().filter(|line| line.starts_with("delete server")).count();
        assert_eq!(deleted, 2, "the node ports, and not the excluded cluster IP");
    }
}

#[test]
fn what_was_changed_by_others_is_written_again() {
    let world = World::new(Family::V4, &WEB.replace("node=", "sticky=60 node="));
    let planner = Planner::new(config(Family::V4), world.book());
    let whole = FakeKernel::holding(&planner).held();
    let at = server(Family::V4, "10.96.0.1", 80);
    let to = "10.1.0.1:80".parse().unwrap();
    let mut held = whole.clone();
    held.servers.get_mut(&at).unwrap().options.sticky = None;
    held.servers.get_mut(&at).unwrap().destinations.insert(to, HeldDestination::Other);
    held.addresses.clear();
    held.table.as_mut().unwrap().chains.get_mut("external").unwrap().rules.clear();
    let steps = planner.repair(&held);
    let lines = text(&steps.grow).join("\n").to_lowercase();
    assert_eq!(
        lines,
        "set server 10.96.0.1:80/tcp rr sticky 60s\nadd destination 10.1.0.1:80 of 10.96.0.1:80/tcp\nadd address 10.96.0.1"
    );
    assert_eq!((steps.rules.len(), steps.shrink.len(), steps.forget.len()), (1, 0, 0));
    let mut fresh = Vec::new();
    planner.everything(&mut |owner, change| fresh.push(RuleOp { change, owner: owner.cloned() }));
    let mut tables = crate::nft::fake::FakeKernel::default();
    assert_eq!(tables.commit(&fresh), Ok(()));
    assert_eq!(Some(tables.ruleset), whole.table);
}

#[test]
fn the_scheduler_mh_gets_its_flag() {
    let world = World::new(Family::V4, WEB);
    let planner = Planner::new(Config { scheduler: "mh".into(), ..config(Family::V4) }, world.book());
    let servers = planner.servers();
    assert!(servers.values().all(|(_, content)| content.options.flags == 0x10));
}
