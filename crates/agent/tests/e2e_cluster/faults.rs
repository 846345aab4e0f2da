//! A way to the API server that is slow, busy, broken or dead. The agent goes on serving, asks seldom, and catches up.

use std::time::{Duration, Instant};

use switchyard_lab::Transport::Tcp;
use switchyard_model::Family;

use crate::common::looking::{eventually, within};
use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::e2e::gateway::Fault;
use crate::events::assert_a_repair_is_told;
use crate::on_cluster::{OnCluster, WEB};

/// Services, EndpointSlices, the Node and ServiceCIDRs.
const WATCHES: f64 = 4.0;

/// What follows a fault: a Service that nobody saw being made, and then one that everybody sees.
fn is_caught_up(cluster: &OnCluster, number: u16) {
    let (unseen, seen) = (10 + 2 * number, 11 + 2 * number);
    cluster.write(&format!("service s{unseen} cluster.{unseen}:80/tcp\nendpoint s{unseen} n2.1:8080"));
    cluster.gateway.mend();
    cluster.expect(&format!("cluster.{unseen}:80"), &["n2.1"]);
    cluster.write(&format!("service s{seen} cluster.{seen}:80/tcp\nendpoint s{seen} n1.1:8080"));
    cluster.expect(&format!("cluster.{seen}:80"), &["n1.1"]);
}

/// How often watches fail on average. Those that still rest after an earlier fault fail more seldom than others.
const ROUNDS: f64 = 3.0;

/// Lets watches fail several times. They must come back, but not more often than with at least this rest, or one that doubles from
/// 50 ms on.
fn is_asked_seldom(cluster: &OnCluster, words: &str, fault: Fault, least: Option<Duration>) {
    cluster.gateway.spoil(fault);
    let began = Instant::now();
    eventually(&format!("{words}: it is tried again"), || {
        f64::from(cluster.gateway.came()) >= WATCHES * ROUNDS
    });
    let (came, took) = (f64::from(cluster.gateway.came()), began.elapsed());
    let tries = match least {
        Some(least) => (took.as_secs_f64() / least.as_secs_f64()).floor() + 1.0,
        None => (took.as_secs_f64() / 0.05 + 1.0).log2() + 1.0,
    };
    // An Event may be written meanwhile.
    let bound = WATCHES * tries + 2.0;
    eprintln!("{words}: {came} requests in {took:?}, at most {bound:.0} expected");
    assert!(came <= bound, "{words}: {came} requests in {took:?}");
}

#[test]
fn a_busy_or_broken_server_is_asked_seldom() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let faults = [
        ("server busy", Fault::status(429, "Retry-After: 2\r\n"), Some(Duration::from_secs(2))),
        ("unexpected status", Fault::status(500, ""), None),
        ("answer not understood", Fault::page(), None),
        ("unreachable", Fault::garbage(), None),
    ];
    while_connecting(&cluster.world, || {
        for (number, (words, fault, least)) in (0..).zip(faults) {
            is_asked_seldom(&cluster, words, fault, least);
            cluster.world.wait_for_log(&format!("API server: {words}"));
            is_caught_up(&cluster, number);
        }
    });
    assert_a_repair_is_told(&cluster);
}

/// Each answer begins late and comes in small pieces, the beginning of the agent's life included.
#[test]
fn slow_answers_are_waited_for() {
    let Some(cluster) = OnCluster::unstarted(Variant::Nftables) else { return };
    cluster.write(WEB);
    cluster.gateway.spoil(Fault::Slow);
    cluster.start(&[]);
    cluster.expect("cluster.1:80", &["n1.1"]);
    while_connecting(&cluster.world, || {
        cluster.write("endpoint web n2.1:8080");
        cluster.expect("cluster.1:80", &["n2.1"]);
        is_caught_up(&cluster, 0);
    });
    assert!(!cluster.world.log().contains("API server: no answer"), "{}", cluster.world.log());
    assert_a_repair_is_told(&cluster);
}

/// How long a dead watch may look alive, and some more.
const DEAD: Duration = Duration::from_secs(90 + 30);

/// Nothing comes, and no connection ends: a firewall in between forgot them, or a machine vanished.
#[test]
fn dead_connections_are_noticed() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    while_connecting(&cluster.world, || {
        // Those that are new say nothing from the beginning.
        cluster.gateway.spoil(Fault::Mute);
        cluster.world.wait_for_log("API server: no answer in time");
        is_caught_up(&cluster, 0);
        // Those that worked stop.
        let before = cluster.gateway.came();
        cluster.gateway.freeze();
        cluster.write("remove endpoint web n1.1:8080\nendpoint web n2.1:8080");
        let answers = || cluster.world.ask("n1.9", Tcp, "cluster.1:80", Family::V4).name() == Some("pod-2-1");
        assert!(within(DEAD, answers), "the watch is dead and nobody noticed");
        assert!(cluster.gateway.came() > before, "no connection was dead");
    });
    cluster.write("service new cluster.2:80/tcp\nendpoint new n2.1:8080");
    cluster.expect("cluster.2:80", &["n2.1"]);
    assert_a_repair_is_told(&cluster);
}
