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
