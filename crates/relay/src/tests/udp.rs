//! UDP.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use super::{ANYWHERE, PATIENCE, Stand, config, eventually, to};
use crate::{Config, Listen, Origin, Targets, Transport};

/// A target that answers with its own port and that of whom it heard.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind(ANYWHERE).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            let answer = [address.port().to_be_bytes(), from.port().to_be_bytes()].concat();
            if socket.send_to(&answer, from).is_err() {
                return;
            }
        }
    });
    address
}

fn client(stand: &Stand) -> UdpSocket {
    let socket = UdpSocket::bind(ANYWHERE).unwrap();
    socket.connect(stand.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

/// Who answers, and by which flow; nothing if nobody does.
fn once(client: &UdpSocket) -> Option<(u16, u16)> {
    client.send(b"question").unwrap();
    let mut answer = [0; 16];
    let count = client.recv(&mut answer).ok()?;
    assert_eq!(count, 4);
    let number = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
    Some((number(0), number(2)))
}

/// Asks until somebody answers: datagrams may be lost.
fn ask(client: &UdpSocket) -> (u16, u16) {
    let mut answer = None;
    eventually("an answer", || {
        answer = once(client);
        answer.is_some()
    });
    answer.unwrap()
}

#[test]
fn each_client_has_one_flow() {
    let targets = [echo(), echo()];
    let stand = Stand::new(Transport::Udp, &targets);
    let (one, other) = (client(&stand), client(&stand));
    let (first, second) = (ask(&one), ask(&other));
    assert_ne!(first.0, second.0, "they take turns");
    assert_eq!((ask(&one), ask(&other)), (first, second), "and stay in their flow");
    assert_eq!(stand.counts().open_flows, 2);
}

#[test]
fn idle_flows_end() {
    let short = Config { udp_idle: Duration::from_millis(50), ..config() };
    let stand = Stand::with(short, Transport::Udp, to(&[echo()]));
    let one = client(&stand);
    ask(&one);
    stand.wait_for("the flow ends", |counts| counts.flows >= 1 && counts.open_flows == 0);
    ask(&one);
}

#[test]
fn a_flow_to_a_target_that_is_gone_ends_at_once() {
    let (old, new, third) = (echo(), echo(), echo());
    let mut stand = Stand::new(Transport::Udp, &[old]);
    let one = client(&stand);
    let before = ask(&one);
    assert_eq!(before.0, old.port());
    // It gets no new clients, but still answers.
    stand.relay.replace(stand.id, Targets { running: vec![old], ..to(&[new]) });
    assert_eq!(ask(&one), before);
    stand.relay.replace(stand.id, to(&[new, third]));
    assert_eq!(stand.counts().open_flows, 0);
    assert_ne!(ask(&one).0, old.port());
    stand.relay.close(stand.id);
    assert_eq!(stand.counts().open_flows, 0);
}

#[test]
fn a_target_that_refuses_is_passed_over_and_holds_nobody() {
    let nobody = UdpSocket::bind(ANYWHERE).unwrap().local_addr().unwrap();
    let good = echo();
    let sticky = Targets { stay: Some(PATIENCE * 10), ..to(&[nobody, good]) };
    let stand = Stand::with(config(), Transport::Udp, sticky);
    for _ in 0..4 {
        assert_eq!(ask(&client(&stand)).0, good.port());
    }
}

#[test]
fn a_flood_of_clients_is_bounded_and_active_ones_stay() {
    let few = Config { max_flows: 64, ..config() };
    let stand = Stand::with(few, Transport::Udp, to(&[echo()]));
    let faithful = client(&stand);
    let flow = ask(&faithful);
    for round in 0..600 {
        let stranger = UdpSocket::bind(ANYWHERE).unwrap();
        stranger.send_to(b"flood", stand.address).unwrap();
        if round % 10 == 0 {
            assert_eq!(ask(&faithful), flow, "after {round} strangers");
        }
        assert!(stand.counts().open_flows <= 64);
    }
    stand.wait_for("strangers had to go", |counts| counts.evicted_flows > 0);
}

#[test]
fn flows_stop_short_of_the_last_descriptor() {
    let few = Config { open_files: 64, udp_rest: Duration::ZERO, ..config() };
    let stand = Stand::with(few, Transport::Udp, to(&[echo()]));
    for _ in 0..200 {
        ask(&client(&stand));
        assert!(stand.counts().open_flows <= 32);
    }
}

#[test]
fn a_target_that_is_the_relay_itself_is_passed_over() {
    let mut stand = Stand::new(Transport::Udp, &[]);
    let listen = Listen { transport: Transport::Udp, address: ANYWHERE, origin: Origin::Any };
    let (_, at) = stand.relay.open(&listen, to(&[stand.address])).unwrap();
    let own = [stand.address, at];
    stand.relay.replace(stand.id, to(&own));
    assert_eq!(once(&client(&stand)), None);
    stand.wait_for("it is lost", |counts| counts.lost_datagrams == 1);
    assert_eq!(stand.counts().flows, 0, "nothing circulates");
    let good = echo();
    stand.relay.replace(stand.id, to(&[own[0], own[1], good]));
    for _ in 0..3 {
        assert_eq!(once(&client(&stand)).map(|(name, _)| name), Some(good.port()), "at once");
    }
}

/// Who holds a flow each, by what it is known.
fn crowd(stand: &Stand, count: usize) -> Vec<(UdpSocket, (u16, u16))> {
    let one = || {
        let client = client(stand);
        let flow = ask(&client);
        (client, flow)
    };
    std::iter::repeat_with(one).take(count).collect()
}

#[test]
fn without_descriptors_active_flows_stay() {
    let few = Config { open_files: 64, udp_rest: PATIENCE * 10, ..config() };
    let stand = Stand::with(few, Transport::Udp, to(&[echo()]));
    let held = crowd(&stand, 31);
    assert_eq!(once(&client(&stand)), None);
    held.iter().for_each(|(client, flow)| assert_eq!(ask(client), *flow, "it is still the same"));
    let counts = stand.counts();
    assert!(counts.evicted_flows == 0 && counts.out_of_descriptors > 0, "{counts:?}");
}

#[test]
fn without_descriptors_an_idle_flow_makes_room() {
    // Twelve flows: few enough for all to be looked at.
    let few = Config { open_files: 26, udp_rest: Duration::from_millis(50), ..config() };
    let stand = Stand::with(few, Transport::Udp, to(&[echo()]));
    let held = crowd(&stand, 12);
    thread::sleep(Duration::from_millis(60));
    let others = || held.iter().skip(1);
    others().for_each(|(client, flow)| assert_eq!(ask(client), *flow));
    ask(&client(&stand));
    assert_eq!(stand.counts().evicted_flows, 1);
    others().for_each(|(client, flow)| assert_eq!(ask(client), *flow, "it was the first that went"));
}

#[test]
fn floods_at_many_listeners_are_bounded_together_and_keep_nobody_out() {
    let few = Config { max_all_flows: 60, udp_rest: PATIENCE * 10, ..config() };
    let mut stand = Stand::with(few, Transport::Udp, to(&[echo()]));
    let _first = crowd(&stand, 40);
    let listen = Listen { transport: Transport::Udp, address: ANYWHERE, origin: Origin::Any };
    (stand.id, stand.address) = stand.relay.open(&listen, to(&[echo()])).unwrap();
    let second = crowd(&stand, 30);
    assert_eq!(stand.counts().open_flows, 60);
    assert_eq!(once(&client(&stand)), None, "both have as many, and all are active");
    second.iter().for_each(|(client, flow)| assert_eq!(ask(client), *flow, "it is still the same"));
    assert_eq!(stand.counts().evicted_flows, 10, "of the first, which had most");
}

#[test]
fn a_closed_listener_leaves_its_address_at_once() {
    let mut stand = Stand::new(Transport::Udp, &[]);
    let flood = UdpSocket::bind(ANYWHERE).unwrap();
    let to = to(&[flood.local_addr().unwrap()]);
    stand.relay.replace(stand.id, to.clone());
    for _ in 0..200 {
        client(&stand).send(b"?").unwrap();
        let (_, relay) = flood.recv_from(&mut [0]).unwrap();
        // The more answers wait, the longer is one passed on.
        (0..100).for_each(|_| drop(flood.send_to(&[0; 9000], relay)));
        stand.relay.close(stand.id);
        let listen = Listen { transport: Transport::Udp, address: stand.address, origin: Origin::Any };
        (stand.id, _) = stand.relay.open(&listen, to.clone()).unwrap();
    }
}

#[test]
fn without_targets_datagrams_are_lost_and_counted() {
    let stand = Stand::new(Transport::Udp, &[]);
    assert_eq!(once(&client(&stand)), None);
    stand.wait_for("it is counted", |counts| counts.lost_datagrams == 1);
    assert_eq!(stand.counts().flows, 0);
}

#[test]
fn long_datagrams_pass_whole() {
    let target = UdpSocket::bind(ANYWHERE).unwrap();
    target.set_read_timeout(Some(PATIENCE)).unwrap();
    let stand = Stand::new(Transport::Udp, &[target.local_addr().unwrap()]);
    let datagram = vec![3; 60_000];
    client(&stand).send(&datagram).unwrap();
    let mut heard = vec![0; 65_536];
    let count = target.recv(&mut heard).unwrap();
    assert!(heard[..count] == datagram[..]);
}

#[test]
fn many_datagrams_at_once_pass_each_by_itself() {
    let target = UdpSocket::bind(ANYWHERE).unwrap();
    target.set_read_timeout(Some(PATIENCE)).unwrap();
    let stand = Stand::new(Transport::Udp, &[target.local_addr().unwrap()]);
    let client = client(&stand);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 2048];
    // More than one call takes, and few enough for any socket to hold.
    let burst: Vec<Vec<u8>> = (1..=40_u8).map(|number| vec![number; usize::from(number)]).collect();
    for datagram in &burst {
        client.send(datagram).unwrap();
    }
    let mut relay = None;
    for datagram in &burst {
        let (count, from) = target.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], datagram.as_slice());
        assert_eq!(*relay.get_or_insert(from), from, "one flow");
    }
    for datagram in &burst {
        target.send_to(datagram, relay.unwrap()).unwrap();
    }
    for datagram in &burst {
        let count = client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], datagram.as_slice());
    }
    assert_eq!(stand.counts().lost_datagrams, 0);
}
