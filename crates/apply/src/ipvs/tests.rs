//! Every plan that the scenarios lead to, in a real kernel: what was written is what is read back, a restart writes nothing,
//! harm is repaired, and virtual servers of others stay. Where the kernel has no IPVS: the refusal.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use switchyard_lab::scenario::{Objects, Scenario};
use switchyard_model::{Event, Family, Tracker};
use switchyard_netlink::ipvs::{
    Command, Destination, Forwarding, Ipvs, Persistence, Service, ServiceFlags, ServiceId,
};
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::Nft;
use switchyard_netlink::route::Routes;
use switchyard_plan::book::{Book, PortChanges, of_family};
use switchyard_plan::ipvs::{Config, Planner};
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};

use super::mode::{IpvsMode, Sockets};
use super::probe::{ProbeError, probe};
use super::{LINK, remove_leftovers};
use crate::Mode;
use crate::report::Report;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn settings(family: Family) -> Settings {
    let range = match family {
        Family::V4 => "10.1.0.0/16",
        Family::V6 => "fd00:10:1::/48",
    };
    Settings {
        family,
        node_name: "n1".into(),
        zone: Some("a".into()),
        node_ip: node(family),
        detector: LocalDetector::Cidr(range.parse().unwrap()),
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

fn node(family: Family) -> std::net::IpAddr {
    switchyard_lab::scenario::address::Symbol::Node(1).ip(family).unwrap()
}

fn mode(family: Family) -> IpvsMode {
    let sockets = Sockets {
        ipvs: Ipvs::open().unwrap().unwrap(),
        routes: Routes::open().unwrap(),
        nft: Nft::open().unwrap(),
    };
    IpvsMode::new(sockets, Planner::new(Config::default(), Book::new(settings(family))), DAY)
}

fn take(tracker: &mut Tracker, objects: &Objects, family: Family) -> PortChanges {
    tracker.apply(Event::Services(objects.model_services(&Family::ALL)));
    tracker.apply(Event::Slices(objects.model_slices(&Family::ALL)));
    of_family(&tracker.take().unwrap().ports, family)
}

fn sync(mode: &mut IpvsMode, changes: PortChanges) -> Report {
    let report = mode.sync(Instant::now(), changes, &mut |_| {});
    assert!(report.failure.is_none() && report.refused.is_empty(), "{report:?}");
    report
}

fn all(of: &IpvsMode) -> PortChanges {
    of.book().ports().iter().map(|(name, port)| (name.clone(), Some(port.clone()))).collect()
}

/// A namespace with an address of the node; none, told loudly, where there is no IPVS.
fn namespace_or_skip() -> Option<Namespace> {
    let say = |text: &str| {
        assert!(std::env::var("VM").as_deref() != Ok("require"), "VM=require, but {text}");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {text}; `make vm` boots a kernel that has it");
    };
    let Ok(namespace) = Namespace::new() else {
        say("network namespaces need root");
        return None;
    };
    let has_ipvs = namespace.run(|| Ipvs::open().unwrap().is_some()).unwrap();
    if !has_ipvs {
        say("this kernel has no IPVS");
        return None;
    }
    namespace
        .run(|| {
            probe("rr").unwrap();
            let mut routes = Routes::open().unwrap();
            let lo = routes.link_index("lo").unwrap();
            routes.set_up(lo).unwrap();
            for family in Family::ALL {
                routes.add_address(lo, node(family), family.host_prefix()).unwrap();
            }
        })
        .unwrap();
    Some(namespace)
}

fn scenarios() -> Vec<Scenario> {
    Scenario::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")).unwrap()
}

#[test]
fn a_kernel_without_ipvs_is_refused_with_the_module_that_is_missing() {
    let Ok(namespace) = Namespace::new() else { return };
    let (has_ipvs, probed) = namespace.run(|| (Ipvs::open().unwrap().is_some(), probe("rr"))).unwrap();
    match probed {
        Ok(()) => assert!(has_ipvs),
        Err(error @ ProbeError::NoIpvs) => {
            assert!(!has_ipvs && error.to_string().contains("modprobe ip_vs"), "{error}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_scheduler_that_is_missing_is_refused_with_its_module() {
    let Some(namespace) = namespace_or_skip() else { return };
    let error = namespace.run(|| probe("nonsense").unwrap_err()).unwrap();
    assert!(error.to_string().contains("modprobe ip_vs_nonsense"), "{error}");
    for known in ["lc", "mh", "sh", "wrr"] {
        namespace.run(|| probe(known).unwrap()).unwrap();
    }
    assert!(namespace.run(|| Ipvs::open().unwrap().unwrap().services().unwrap()).unwrap().is_empty());
}

#[test]
fn what_is_written_is_read_back_and_a_restart_writes_nothing() {
    let Some(namespace) = namespace_or_skip() else { return };
    let mut steps = 0;
    for scenario in scenarios() {
        for family in Family::ALL {
            namespace
                .run(|| {
                    let (mut running, mut tracker) = (mode(family), Tracker::new());
                    for step in &scenario.steps {
                        sync(&mut running, take(&mut tracker, &step.objects, family));
                        let found = running.difference().unwrap();
                        assert!(found.is_empty(), "{} {found:?}", scenario.name);
                        let looked = running.sync(Instant::now() + DAY, PortChanges::new(), &mut |_| {});
                        let at = (&scenario.name, &step.title);
                        assert_eq!((looked.lines, looked.failure.is_none()), (0, true), "{at:?} {looked:?}");
                        let mut restarted = mode(family);
                        assert_eq!(sync(&mut restarted, all(&running)).lines, 0, "{at:?}");
                        steps += 1;
                    }
                    let gone = running.book().ports().keys().map(|name| (name.clone(), None)).collect();
                    sync(&mut running, gone);
                    assert!(
                        Ipvs::open().unwrap().unwrap().services().unwrap().is_empty(),
                        "{}",
                        scenario.name
                    );
                })
                .unwrap();
        }
    }
    assert!(steps > 100);
}

/// Everything that is not ours stays, at every moment; harm to ours is found by looking.
#[test]
fn harm_is_repaired_and_virtual_servers_of_others_stay() {
    let Some(namespace) = namespace_or_skip() else { return };
    let scenario = scenarios().into_iter().find(|s| s.name == "node-port").unwrap();
    for family in Family::ALL {
        namespace
            .run(|| {
                let mut ipvs = Ipvs::open().unwrap().unwrap();
                let foreign = Service {
                    id: ServiceId { address: node(family), protocol: 6, port: 8443 },
                    scheduler: "rr".into(),
                    flags: ServiceFlags::NONE,
                    persistence: Persistence::None,
                };
                let at = std::net::SocketAddr::new(node(family), 9);
                let to = Destination { at, weight: 7, forwarding: Forwarding::Masquerade };
                let add = [Command::AddService(foreign.clone()), Command::AddDestination(foreign.id, to)];
                assert_eq!(ipvs.send(&add).unwrap(), [None, None]);
                let (mut running, mut tracker) = (mode(family), Tracker::new());
                sync(&mut running, take(&mut tracker, &scenario.steps[0].objects, family));
                let whole = ipvs.services().unwrap();
                assert!(whole.len() > 2 && whole.contains(&foreign));
                for service in whole.iter().filter(|service| **service != foreign) {
                    ipvs.send(&[Command::DeleteService(service.id)]).unwrap();
                }
                Routes::open()
                    .and_then(|mut r| r.link_index(LINK).and_then(|link| r.delete_link(link)))
                    .unwrap();
                let found: Vec<String> =
                    running.difference().unwrap().lines().iter().map(ToString::to_string).collect();
                let has = |start: &str| found.iter().any(|line| line.starts_with(start));
                assert!(
                    has("+ link kube-ipvs0") && has("+ virtual server ") && has("+ destination "),
                    "{found:?}"
                );
                assert!(has("+ address ") && !found.iter().any(|line| line.starts_with('-')), "{found:?}");
                assert!(Routes::open().unwrap().link_index(LINK).is_err(), "looking makes no link");
                let looked = running.sync(Instant::now() + DAY, PortChanges::new(), &mut |_| {});
                assert!(looked.failure.is_none() && looked.lines > 0, "{looked:?}");
                assert!(running.difference().unwrap().is_empty());
                assert_eq!(ipvs.services().unwrap(), whole);
                assert_eq!(sync(&mut mode(family), all(&running)).lines, 0);
                // A restart that wants nothing any more, and cleaning up, take only ours.
                sync(&mut mode(family), PortChanges::new());
                assert_eq!(ipvs.services().unwrap(), std::slice::from_ref(&foreign));
                sync(&mut mode(family), all(&running));
                let removed = remove_leftovers();
                assert!(removed.was_here && removed.errors.is_empty(), "{:?}", removed.errors);
                assert_eq!(ipvs.services().unwrap(), std::slice::from_ref(&foreign));
                ipvs.flush().unwrap();
                probe("rr").unwrap();
            })
            .unwrap();
    }
}

/// An endpoint that IPVS takes for no host: its Service is set aside, the others are served.
#[test]
fn a_service_that_the_kernel_refuses_is_set_aside() {
    let Some(namespace) = namespace_or_skip() else { return };
    let scenario = scenarios().into_iter().find(|s| s.name == "named-ports").unwrap();
    namespace
        .run(|| {
            let (mut running, mut tracker) = (mode(Family::V4), Tracker::new());
            let mut changes = take(&mut tracker, &scenario.steps[0].objects, Family::V4);
            let (name, port) = changes.iter().next().map(|(n, p)| (n.clone(), p.clone().unwrap())).unwrap();
            let mut bad = (*port).clone();
            bad.endpoints.iter_mut().for_each(|e| e.address = "255.255.255.255:80".parse().unwrap());
            changes.insert(name.clone(), Some(bad.into()));
            let report = running.sync(Instant::now(), changes.clone(), &mut |_| {});
            assert!(report.failure.is_none(), "{report:?}");
            assert_eq!(report.refused.iter().map(|r| &r.name).collect::<Vec<_>>(), [&name]);
            let wanted = changes.len() - 1;
            assert_eq!(running.book().ports().len(), wanted);
            changes.insert(name, Some(port));
            sync(&mut running, changes);
            assert_eq!(running.book().ports().len(), wanted + 1);
        })
        .unwrap();
}
