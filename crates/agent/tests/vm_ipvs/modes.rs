//! The mode changes while connections run: from ipvs to every other one, and back.
//!
//! A connection through IPVS cannot go on without it. Its virtual server goes, and IPVS takes the connection's tracking with it. What comes next of
//! the connection is new to the kernel, and to the rules: by chance they choose the same endpoint.
//!
//! On 5.10 iptables is left out: a network namespace that had IPVS may never go there, and until it has gone no module is loaded that has
//! something for each namespace, so its programs wait for ever.

use std::io::ErrorKind;
use std::time::Duration;

use switchyard_lab::{Answer, Held, Transport};
use switchyard_model::Family;

use super::common::looking::{eventually, ip, is_idle, within};
use super::common::ruleset;
use super::common::traffic::{assert_held, hold_both, while_connecting};
use super::common::variant::{Variant, say};
use super::common::world::World;
use super::{LINK, WEB, link_addresses, running, services, start, stop};

/// In this time an end that nobody tells of is found by asking again.
const SOON: Duration = Duration::from_secs(60);

/// True if all of a mode is written.
fn stands(world: &World, mode: Variant) -> bool {
    match mode.backend() {
        None => ruleset::has_tables(world.n1(), mode.table()),
        Some(_) => ruleset::rules(world.n1(), mode).contains("KUBE-SVC"),
    }
}

fn is_gone(world: &World, mode: Variant) -> bool {
    match mode.backend() {
        None => ruleset::NFT_FAMILIES.iter().all(|f| ruleset::table(world.n1(), f, mode.table()).is_empty()),
        Some(_) => !ruleset::has_any_of_kube_proxy(world.n1(), mode),
    }
}

/// Of ipvs mode: virtual servers, the link with its addresses, and the table.
fn nothing_is_left(world: &World) -> bool {
    let has_link = world.n1().exec_ok("ip", &["link", "show", "dev", LINK]).is_ok();
    !has_link && services(world).is_empty() && is_gone(world, Variant::Ipvs)
}

/// What a connection says once it says anything.
fn word(held: &mut Held) -> Answer {
    let mut last = Answer::Timeout;
    within(SOON, || {
        last = held.ask();
        last != Answer::Timeout
    });
    last
}

fn new_ones_are_answered_by_both(world: &World) {
    for (from, to) in [("n1.9", "cluster.1:80"), ("client", "n1:30080")] {
        for pod in ["n1.1", "n2.1"] {
            world.wait_for_answer(from, Transport::Tcp, to, &[pod]);
        }
    }
}

/// Connections through IPVS, and new ones all the time; then nothing of ipvs mode is left.
fn away(other: Variant) -> Option<World> {
    let world = running(WEB, &[])?;
    if !other.is_usable(&world.lab) {
        return None;
    }
    let mut held = hold_both(&world);
    while_connecting(&world, || {
        stop(&world);
        assert_held(&mut held);
        world.start_as(other);
        eventually("the other mode has taken over", || stands(&world, other) && nothing_is_left(&world));
        eventually("all is written", || is_idle(world.n1()));
    });
    for (held, name) in &mut held {
        let said = word(held);
        // From outside, a source port is chosen anew as well; and a relay knows nothing of it.
        let from = held.local_addr().unwrap().ip();
        let is_from_outside = Family::ALL.iter().any(|family| ip(world.lab.client(), *family) == from);
        let may_go_on = other != Variant::Userspace && !is_from_outside;
        let goes_on = said.name() == Some(name.as_str()) && may_go_on;
        assert!(goes_on || said == Answer::Other(ErrorKind::ConnectionReset), "{name}: {said:?}");
    }
    new_ones_are_answered_by_both(&world);
    Some(world)
}

/// See the module.
fn iptables_and_back(variant: Variant) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    if release.starts_with("5.10.") {
        say(&format!("{variant} is not tried on {}", release.trim()));
    } else {
        away_and_back(variant);
    }
}

fn away_and_back(other: Variant) {
    let Some(world) = away(other) else { return };
    let mut held = hold_both(&world);
    while_connecting(&world, || {
        stop(&world);
        start(&world, &[]);
        eventually("ipvs mode has taken over", || stands(&world, Variant::Ipvs) && is_gone(&world, other));
        eventually("all is written", || is_idle(world.n1()));
        assert_held(&mut held);
    });
    assert_held(&mut held);
    assert!(!services(&world).is_empty() && !link_addresses(&world).is_empty());
    new_ones_are_answered_by_both(&world);
}

#[test]
fn nftables_and_back() {
    away_and_back(Variant::Nftables);
}

#[test]
fn iptables_nft_and_back() {
    iptables_and_back(Variant::Nft);
}

#[test]
fn iptables_legacy_and_back() {
    iptables_and_back(Variant::Legacy);
}

/// On the way back connections end with the relay.
#[test]
fn userspace() {
    away(Variant::Userspace);
}
