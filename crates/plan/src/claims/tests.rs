//! Who wins, whatever the order.

use proptest::prelude::*;
use switchyard_model::{Family, Protocol};

use super::*;
use crate::route::FrontendAddress;
use crate::testing::{World, address, arbitrary, key};

fn at(family: Family, ip: &str) -> Frontend {
    Frontend { address: FrontendAddress::Ip(address(family, ip)), protocol: Protocol::Tcp, port: 80 }
}

fn winner(claims: &Claims, frontend: &Frontend) -> String {
    claims.winner(frontend).map_or("-".into(), |key| key.name.to_string())
}

/// Runs a test for service ports of both families.
fn each_family(text: &str, test: impl Fn(Family, &[ServicePort], &mut Claims)) {
    for family in Family::ALL {
        let world = World::new(family, text);
        let mut claims = Claims::default();
        world.ports.iter().for_each(|port| claims.add(port));
        test(family, &world.ports, &mut claims);
    }
}

const THREE: &str = "svc z/old tcp 10.96.0.1:80 ext=203.0.113.1 created=1
    svc b/young tcp 10.96.0.2:80 lb=203.0.113.1 created=5
    svc a/young tcp 10.96.0.3:80 ext=203.0.113.1 created=5";

#[test]
fn the_older_wins_then_the_smaller_name() {
    each_family(THREE, |family, ports, claims| {
        let shared = at(family, "203.0.113.1");
        assert_eq!(winner(claims, &shared), "z/old");
        let losers = vec![key(&ports[2]), key(&ports[1])];
        assert_eq!(claims.conflicts(), [Conflict { frontend: shared, winner: key(&ports[0]), losers }]);
        assert_eq!((claims.lost(), claims.conflicts_from(Some(shared)).count()), (2, 1));
        let behind = Frontend { port: shared.port + 1, ..shared };
        assert_eq!(claims.conflicts_from(Some(behind)).count(), 0);
        assert!(claims.is_lost(&ports[1], &shared) && !claims.is_lost(&ports[0], &shared));
        assert!(!claims.is_lost(&ports[1], &at(family, "10.96.0.2")));
        assert_eq!(claims.rivals(&ports[0]), [key(&ports[1]), key(&ports[2])].into());
    });
}

#[test]
fn the_next_in_line_follows() {
    each_family(THREE, |family, ports, claims| {
        let shared = at(family, "203.0.113.1");
        claims.remove(&ports[0]);
        assert_eq!(winner(claims, &shared), "a/young");
        claims.remove(&ports[2]);
        assert_eq!(winner(claims, &shared), "b/young");
        assert_eq!(claims.conflicts(), []);
        claims.remove(&ports[1]);
        assert_eq!(winner(claims, &shared), "-");
        assert!(claims.winners.is_empty() && claims.losers.is_empty(), "nothing is left behind");
    });
}

#[test]
fn a_loser_that_goes_changes_nothing() {
    each_family(THREE, |family, ports, claims| {
        claims.remove(&ports[2]);
        assert_eq!(winner(claims, &at(family, "203.0.113.1")), "z/old");
        assert_eq!(claims.conflicts()[0].losers, [key(&ports[1])]);
    });
}

#[test]
fn one_port_may_name_an_address_twice() {
    let text = "svc a/twice tcp 10.96.0.1:80 ext=203.0.113.1 lb=203.0.113.1 created=2
        svc b/rival tcp 10.96.0.2:80 ext=203.0.113.1 created=3
        svc c/older tcp 10.96.0.3:80 ext=203.0.113.1 created=1";
    each_family(text, |family, ports, claims| {
        let shared = at(family, "203.0.113.1");
        assert_eq!(claims.conflicts()[0].losers, [key(&ports[0]), key(&ports[1])]);
        claims.remove(&ports[2]);
        assert_eq!(winner(claims, &shared), "a/twice");
        assert_eq!(claims.conflicts()[0].losers, [key(&ports[1])]);
        claims.remove(&ports[0]);
        assert_eq!(winner(claims, &shared), "b/rival");
        assert_eq!(claims.conflicts(), []);
    });
}

#[test]
fn protocol_port_and_family_are_part_of_a_frontend() {
    let text = "svc a/tcp tcp 10.96.0.1:80 ext=203.0.113.1 node=30080
        svc a/udp udp 10.96.0.2:80 ext=203.0.113.1 node=30080
        svc a/other tcp 10.96.0.3:81 ext=203.0.113.1 node=30081";
    each_family(text, |_, ports, claims| {
        assert_eq!(claims.conflicts(), []);
        assert!(ports.iter().all(|p| claims.rivals(p).is_empty()));
    });
}

#[test]
fn node_ports_can_collide() {
    each_family(
        "svc a/x tcp 10.96.0.1:80 node=30080 created=9\nsvc b/x tcp 10.96.0.2:80 node=30080",
        |family, ports, claims| {
            let address = FrontendAddress::Node(family);
            let frontend = Frontend { address, protocol: Protocol::Tcp, port: 30080 };
            assert_eq!(claims.winner(&frontend), Some(&key(&ports[1])));
        },
    );
}

#[test]
fn a_cluster_ip_beats_an_older_external_ip() {
    let text = "svc z/old tcp 10.96.0.1:80 ext=10.96.0.2 created=1\nsvc a/young tcp 10.96.0.2:80 created=9";
    each_family(text, |family, ports, claims| {
        let own = at(family, "10.96.0.2");
        assert_eq!(winner(claims, &own), "a/young");
        claims.remove(&ports[1]);
        assert_eq!(winner(claims, &own), "z/old");
        claims.add(&ports[1]);
        assert_eq!(winner(claims, &own), "a/young");
    });
}

proptest! {
    /// Service ports come and go in any order: what is left decides, not how it came to be.
    #[test]
    fn order_does_not_matter(
        changes in arbitrary::family()
            .prop_flat_map(|f| proptest::collection::vec(arbitrary::change(f), 0..20)),
        seed in any::<u64>(),
    ) {
        let mut claims = Claims::default();
        let mut held = BTreeMap::new();
        for (name, value) in changes {
            if let Some(old) = held.remove(&name) {
                claims.remove(&old);
            }
            if let Some(new) = value {
                claims.add(&new);
                held.insert(name, new);
            }
        }
        let mut ports: Vec<&ServicePort> = held.values().collect();
        let len = ports.len().max(1);
        ports.rotate_left(usize::try_from(seed % 7).unwrap() % len);
        if seed % 2 == 0 {
            ports.reverse();
        }
        let mut fresh = Claims::default();
        ports.iter().for_each(|port| fresh.add(port));
        prop_assert_eq!(&claims.winners, &fresh.winners);
        prop_assert_eq!(claims.conflicts(), fresh.conflicts());
        for port in ports {
            for (_, frontend) in frontends(port) {
                let best = held.values().filter(|p| frontends(p).iter().any(|(_, f)| *f == frontend));
                let best = best.min_by_key(|p| (p.created, key(p))).map(key);
                prop_assert_eq!(claims.winner(&frontend), best.as_ref());
            }
        }
    }
}
