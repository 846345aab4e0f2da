//! What real clients meet too seldom: changes between two steps, and sockets in which there is always something to read.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;

use tokio::runtime::Builder;

use super::*;
use crate::relay::Config;

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Fails if the test does not come to its end.
pub(super) fn in_time(test: impl Future<Output = ()> + Send + 'static) {
    let (done, end) = mpsc::channel();
    thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
        done.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(20)).expect("it comes to its end");
}

pub(super) fn socket() -> (UdpSocket, SocketAddr) {
    let socket = std::net::UdpSocket::bind(ANYWHERE).unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_nonblocking(true).unwrap();
    (UdpSocket::from_std(socket).unwrap(), address)
}

pub(super) fn to(target: SocketAddr) -> Targets {
    Targets { new: vec![target], ..Targets::default() }
}

pub(super) fn switch(
    config: Config,
    targets: impl FnOnce(SocketAddr) -> Targets,
) -> (Arc<Switch>, SocketAddr) {
    let (socket, address) = socket();
    (Switch::new(socket, targets(address), Arc::new(Shared::new(config))), address)
}

/// Listeners that share.
fn switches<const N: usize>(config: Config, targets: &Targets) -> [Arc<Switch>; N] {
    let shared = Arc::new(Shared::new(config));
    std::array::from_fn(|_| Switch::new(socket().0, targets.clone(), shared.clone()))
}

fn client(number: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, number).into()
}

/// New clients, each with a flow.
fn fill(switch: &Arc<Switch>, clients: std::ops::RangeInclusive<u16>) {
    clients.map(client).for_each(|client| switch.keep(client, switch.open(client).unwrap()));
}

pub(super) async fn others_have_turns() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[test]
fn others_get_their_turn_while_datagrams_come() {
    in_time(async {
        // A flow from itself to itself: each datagram that is passed on comes back before the next is looked for.
        let (switch, address) = switch(Config::default(), to);
        let flow = switch.try_open(ANYWHERE, address).unwrap();
        let own = flow.address();
        flow.send(b"round").unwrap();
        switch.keep(own, flow);
        tokio::spawn(serve(switch.clone()));
        others_have_turns().await;
        let counts = switch.shared.tallies.snapshot();
        assert_eq!((counts.flows, counts.lost_datagrams), (1, 0));
    });
}

#[test]
fn others_get_their_turn_while_new_clients_come() {
    in_time(async {
        // Each new flow is a new client.
        let (switch, address) = switch(Config { max_flows: 2, ..Config::default() }, to);
        socket().0.send_to(b"round", address).await.unwrap();
        tokio::spawn(serve(switch.clone()));
        others_have_turns().await;
        let counts = switch.shared.tallies.snapshot();
        assert!((2..1000).contains(&counts.flows) && counts.lost_datagrams == 0, "{counts:?}");
    });
}

#[test]
fn a_flow_to_a_target_that_went_meanwhile_is_not_kept() {
    in_time(async {
        let ((_target, at), client) = (socket(), SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
        let (switch, _) = switch(Config::default(), |_| to(at));
        let flow = switch.open(client).unwrap();
        switch.replace(Targets::default());
        switch.keep(client, flow);
        assert_eq!((switch.count(), switch.shared.tallies.snapshot().open_flows), (0, 0));
    });
}

#[test]
fn the_end_of_a_flow_ends_no_other() {
    in_time(async {
        let (_target, at) = socket();
        let (switch, _) = switch(Config { max_flows: 4, ..Config::default() }, |_| to(at));
        let clients: Vec<SocketAddr> = (1..=4).map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
        for client in &clients {
            switch.keep(*client, switch.open(*client).unwrap());
        }
        let first = switch.lock().peek(&clients[0]).unwrap().id();
        switch.ended(clients[0], first);
        assert_eq!((switch.count(), switch.shared.tallies.snapshot().evicted_flows), (3, 0));
        switch.ended(clients[1], first);
        assert_eq!(switch.count(), 3, "another flow of that client");
    });
}

#[test]
fn who_looks_for_room_keeps_no_other_listener_open() {
    in_time(async {
        let (_target, at) = socket();
        let [asking, full, closing] = switches(Config::default(), &to(at));
        fill(&full, 1..=1);
        let waits = full.lock();
        thread::scope(|scope| {
            scope.spawn(|| asking.shared.room.make(&asking, Scarce::Flows, Instant::now()));
            while Arc::strong_count(&full) < 2 {
                thread::yield_now();
            }
            closing.close();
            drop(waits);
        });
        assert_eq!(full.count(), 0);
    });
}

#[test]
fn nobody_gets_hold_of_a_listener_that_closes() {
    in_time(async {
        let (_target, at) = socket();
        let few = Config { max_all_flows: 1, ..Config::default() };
        let [asking, full] = switches(few, &to(at));
        fill(&full, 1..=1);
        let held = full.clone();
        thread::scope(|scope| {
            scope.spawn(|| full.close());
            // Its flow's way back knows it, too.
            while Arc::weak_count(&held) > 1 {
                thread::yield_now();
            }
            assert!(asking.open(client(2)).is_err() && held.count() == 1, "it is not looked at");
            drop(held);
        });
        assert!(asking.open(client(2)).is_ok(), "its place is free");
    });
}

#[test]
fn after_a_search_in_vain_others_are_refused_without_one() {
    in_time(async {
        let (_target, at) = socket();
        let rest = Duration::from_secs(1);
        let few = Config { max_all_flows: 1, udp_rest: rest, ..Config::default() };
        let [full, _] = switches(few, &to(at));
        fill(&full, 1..=1);
        let last = full.lock().peek(&client(1)).unwrap().last_use();
        let make = |scarce, now| full.shared.room.make(&full, scarce, now);
        let early = last + rest - Duration::from_millis(1);
        let too_early = early + room::IN_VAIN - Duration::from_millis(1);
        for scarce in [Scarce::Flows, Scarce::Descriptors] {
            assert!(!make(scarce, early), "it did not rest");
            assert!(!make(scarce, too_early), "it rested, but nobody looks");
        }
        assert!(make(Scarce::Flows, early + room::IN_VAIN));
        assert_eq!((full.count(), full.shared.tallies.snapshot().evicted_flows), (0, 1));
    });
}

#[test]
fn a_search_in_vain_keeps_nobody_out_who_has_less() {
    in_time(async {
        let (_target, at) = socket();
        let few = Config { max_all_flows: 6, udp_rest: Duration::from_secs(60), ..Config::default() };
        let [flooded, other] = switches(few, &to(at));
        fill(&flooded, 1..=6);
        for number in 1..=3 {
            assert!(flooded.open(client(9)).is_err(), "in vain");
            fill(&other, number..=number);
            assert_eq!((flooded.count(), other.count()), (6 - usize::from(number), number.into()));
        }
        assert!(other.open(client(9)).is_err(), "both have as many");
    });
}

#[test]
fn who_is_refused_is_not_remembered() {
    in_time(async {
        let stay = Some(Duration::from_secs(60));
        let (one, other) = (socket(), socket());
        let targets = Targets { new: vec![one.1, other.1], stay, ..Targets::default() };
        let few = Config { max_all_flows: 1, udp_rest: Duration::from_secs(60), ..Config::default() };
        let (switch, _) = switch(few, |_| targets);
        let [served, refused] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 1)));
        let flow = switch.open(served).unwrap();
        assert!(switch.open(refused).is_err());
        let next = |client: SocketAddr| switch.backends.propose(client.ip(), &[], Instant::now()).unwrap();
        assert_eq!([next(served), next(served)], [flow.target(); 2]);
        assert_ne!(next(refused), next(refused), "in turn");
    });
}
