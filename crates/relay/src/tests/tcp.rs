//! TCP.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::{ANYWHERE, PATIENCE, Stand, config, eventually, to};
use crate::{Config, Listen, ListenError, Origin, Targets, Transport};

/// A target that names itself by its port and then repeats what it hears, until it hears the end.
pub(crate) fn echo() -> SocketAddr {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || repeat(stream));
        }
    });
    address
}

fn repeat(mut stream: TcpStream) -> std::io::Result<()> {
    let own = stream.local_addr()?.port();
    stream.write_all(&own.to_be_bytes())?;
    std::io::copy(&mut stream.try_clone()?, &mut stream)?;
    stream.shutdown(Shutdown::Write)
}

/// A port that nobody listens on.
pub(crate) fn nobody() -> SocketAddr {
    TcpListener::bind(ANYWHERE).unwrap().local_addr().unwrap()
}

/// A target that never completes a connection: its queue is full. Held for as long as it should hang.
pub(crate) fn hanging() -> (SocketAddr, Vec<Socket>) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&ANYWHERE.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap();
    let mut held = vec![socket];
    for _ in 0..4 {
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        client.set_nonblocking(true).unwrap();
        let _ = client.connect(&address);
        held.push(client);
    }
    (address.as_socket().unwrap(), held)
}

fn dial(stand: &Stand) -> TcpStream {
    let stream = TcpStream::connect(stand.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Who answers.
fn name(stream: &mut TcpStream) -> std::io::Result<u16> {
    let mut name = [0; 2];
    stream.read_exact(&mut name)?;
    Ok(u16::from_be_bytes(name))
}

fn ask(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

/// True if a new client is turned away.
fn is_refused(stand: &Stand) -> bool {
    let Ok(mut stream) = TcpStream::connect(stand.address) else { return true };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    name(&mut stream).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn clients_take_turns_at_the_targets() {
    let targets = [echo(), echo(), echo()];
    let stand = Stand::new(Transport::Tcp, &targets);
    let mut seen: Vec<u16> = (0..6).map(|_| name(&mut dial(&stand)).unwrap()).collect();
    seen.sort_unstable();
    let mut want: Vec<u16> = targets.iter().chain(&targets).map(SocketAddr::port).collect();
    want.sort_unstable();
    assert_eq!(seen, want);
    stand.wait_for("all have ended", |counts| counts.open_connections == 0 && counts.accepted == 6);
}

#[test]
fn the_end_of_one_direction_leaves_the_other_open() {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let stand = Stand::new(Transport::Tcp, &[listener.local_addr().unwrap()]);
    let mut client = dial(&stand);
    let (mut target, _) = listener.accept().unwrap();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    target.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "question");
    // Long after the client said its last word.
    let answer = vec![7; 1 << 20];
    let writer = thread::spawn({
        let answer = answer.clone();
        move || target.write_all(&answer)
    });
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    writer.join().unwrap().unwrap();
    assert!(heard == answer);
    stand.wait_for("the end", |counts| counts.open_connections == 0);
}

/// The timer that the kernel runs for the connection between two ports of loopback, as proc(5) numbers it: 2 is keepalive.
fn timer(from: u16, to: u16) -> Option<u8> {
    let ends = format!("0100007F:{from:04X} 0100007F:{to:04X} 01 ");
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let line = all.lines().find_map(|line| line.split_once(&ends))?.1;
    line.split_once(' ')?.1.split_once(':')?.0.parse().ok()
}

#[test]
fn peers_of_connections_that_last_are_asked_whether_they_are_still_there() {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let stand = Stand::new(Transport::Tcp, &[listener.local_addr().unwrap()]);
    let client = dial(&stand);
    let (target, relay) = listener.accept().unwrap();
    let to_client = (stand.address.port(), client.local_addr().unwrap().port());
    let to_target = (relay.port(), target.local_addr().unwrap().port());
    for (from, to) in [to_client, to_target] {
        eventually("keepalive", || timer(from, to) == Some(2));
    }
}

#[test]
fn much_data_passes_unchanged_both_ways_at_once() {
    const LENGTH: usize = 32 << 20;
    let stand = Stand::new(Transport::Tcp, &[echo()]);
    let mut client = dial(&stand);
    name(&mut client).unwrap();
    let sent: Vec<u8> = (0..LENGTH).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let mut writer = client.try_clone().unwrap();
    let writing = thread::spawn({
        let sent = sent.clone();
        move || writer.write_all(&sent).and_then(|()| writer.shutdown(Shutdown::Write))
    });
    let mut heard = Vec::with_capacity(LENGTH);
    client.read_to_end(&mut heard).unwrap();
    writing.join().unwrap().unwrap();
    assert!(heard == sent, "{} of {LENGTH} bytes", heard.len());
}

#[test]
fn a_slow_reader_slows_its_writer_down() {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    SockRef::from(&listener).set_recv_buffer_size(64 << 10).unwrap();
    let stand = Stand::new(Transport::Tcp, &[listener.local_addr().unwrap()]);
    let mut client = dial(&stand);
    let (mut target, _) = listener.accept().unwrap();
    client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let chunk = vec![1; 64 << 10];
    let mut sent = 0;
    while let Ok(count) = client.write(&chunk) {
        sent += count;
        assert!(sent < 64 << 20, "somebody holds more than 64 MiB");
    }
    client.shutdown(Shutdown::Write).unwrap();
    let heard = std::io::copy(&mut target, &mut std::io::sink()).unwrap();
    assert_eq!(heard, u64::try_from(sent).unwrap());
}

#[test]
fn targets_that_refuse_or_hang_are_passed_over() {
    let (hangs, _held) = hanging();
    let good = echo();
    let short = Config { dial_timeouts: [Duration::from_millis(100); 4], ..config() };
    let stand = Stand::with(short, Transport::Tcp, to(&[nobody(), hangs, nobody(), good]));
    for _ in 0..4 {
        assert_eq!(name(&mut dial(&stand)).unwrap(), good.port());
    }
    let counts = stand.counts();
    assert!(counts.retries > 0 && counts.unreachable == 0, "{counts:?}");
}

#[test]
fn a_target_that_is_only_slow_is_asked_again() {
    let (hangs, held) = hanging();
    let patient =
        Config { dial_timeouts: [Duration::from_millis(50), PATIENCE, PATIENCE, PATIENCE], ..config() };
    let stand = Stand::with(patient, Transport::Tcp, to(&[hangs]));
    let client = dial(&stand);
    stand.wait_for("the second attempt", |counts| counts.retries == 1);
    // There is room in its queue now.
    let mut held = held.into_iter();
    let listener = TcpListener::from(held.next().unwrap());
    let free = thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            if stream.write_all(b"hi").is_ok() && stream.read(&mut [0]).is_ok_and(|count| count == 1) {
                return;
            }
        }
    });
    drop(held);
    let mut client = client;
    assert_eq!(name(&mut client).unwrap(), u16::from_be_bytes(*b"hi"));
    client.write_all(b"!").unwrap();
    free.join().unwrap();
}

#[test]
fn who_cannot_be_served_is_told_at_once() {
    let stand = Stand::new(Transport::Tcp, &[]);
    assert!(is_refused(&stand));
    assert_eq!(stand.counts().refused, 1);
    stand.relay.replace(stand.id, to(&[nobody(), nobody()]));
    assert!(is_refused(&stand));
    let counts = stand.counts();
    assert_eq!((counts.unreachable, counts.retries), (1, 1), "each was asked once");
}

#[test]
fn a_target_that_is_the_relay_itself_is_passed_over() {
    let mut stand = Stand::new(Transport::Tcp, &[]);
    let listen = Listen { transport: Transport::Tcp, address: ANYWHERE, origin: Origin::Any };
    let (other, at) = stand.relay.open(&listen, to(&[stand.address])).unwrap();
    stand.relay.replace(stand.id, to(&[stand.address, at]));
    assert!(is_refused(&stand));
    let counts = stand.counts();
    assert_eq!((counts.accepted, counts.unreachable, counts.retries), (1, 1, 1), "nobody dialled itself");
    let good = echo();
    stand.relay.replace(stand.id, to(&[stand.address, at, good]));
    for _ in 0..3 {
        assert_eq!(name(&mut dial(&stand)).unwrap(), good.port());
    }
    stand.relay.close(other);
}

#[test]
fn running_connections_outlive_changes_and_the_listener() {
    let (old, new) = (echo(), echo());
    let mut stand = Stand::new(Transport::Tcp, &[old]);
    let mut first = dial(&stand);
    assert_eq!(name(&mut first).unwrap(), old.port());
    stand.relay.replace(stand.id, to(&[new]));
    let mut second = dial(&stand);
    assert_eq!(name(&mut second).unwrap(), new.port());
    assert_eq!(ask(&mut first, "still here"), "still here");
    stand.relay.close(stand.id);
    assert_eq!(TcpStream::connect(stand.address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ask(&mut first, "and now"), "and now");
    assert_eq!(ask(&mut second, "me too"), "me too");
    let again = Listen { transport: Transport::Tcp, address: stand.address, origin: Origin::Any };
    (stand.id, _) = stand.relay.open(&again, to(&[new])).unwrap();
    assert_eq!(name(&mut dial(&stand)).unwrap(), new.port());
}

#[test]
fn a_reset_passes_in_both_directions() {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let stand = Stand::new(Transport::Tcp, &[listener.local_addr().unwrap()]);
    let reset = |stream: TcpStream| SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    for breaks in ["client", "target"] {
        let client = dial(&stand);
        let (target, _) = listener.accept().unwrap();
        target.set_read_timeout(Some(PATIENCE)).unwrap();
        stand.wait_for("it runs", |counts| counts.open_connections == 1);
        let mut left = match breaks {
            "client" => {
                reset(client);
                target
            }
            _ => {
                reset(target);
                client
            }
        };
        let error = left.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{breaks}");
        stand.wait_for("it is gone", |counts| counts.open_connections == 0);
    }
}

#[test]
fn the_last_words_of_a_target_that_closes_early_are_heard() {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let stand = Stand::new(Transport::Tcp, &[listener.local_addr().unwrap()]);
    let mut client = dial(&stand);
    let (mut target, _) = listener.accept().unwrap();
    client.write_all(&[0; 4096]).unwrap();
    target.read_exact(&mut [0; 4096]).unwrap();
    target.write_all(b"too much").unwrap();
    drop(target);
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "too much");
}

#[test]
fn clients_stay_with_their_target_until_it_fails() {
    let targets: Vec<SocketAddr> = (0..4).map(|_| echo()).collect();
    let stay = |new: &[SocketAddr]| Targets { stay: Some(PATIENCE * 10), ..to(new) };
    let stand = Stand::with(config(), Transport::Tcp, stay(&targets));
    let seen: BTreeSet<u16> = (0..8).map(|_| name(&mut dial(&stand)).unwrap()).collect();
    assert_eq!(seen.len(), 1);
    let mut others = targets.clone();
    others.retain(|target| !seen.contains(&target.port()));
    stand.relay.replace(stand.id, stay(&others));
    let then: BTreeSet<u16> = (0..8).map(|_| name(&mut dial(&stand)).unwrap()).collect();
    assert!(then.len() == 1 && then != seen);
}

#[test]
fn too_many_connections_are_refused_and_the_others_go_on() {
    let few = Config { open_files: 64, ..config() };
    let stand = Stand::with(few, Transport::Tcp, to(&[echo()]));
    let mut held = Vec::new();
    let refused = loop {
        let mut client = dial(&stand);
        match name(&mut client) {
            Ok(_) => held.push(client),
            Err(error) => break error,
        }
        assert!(held.len() < 64);
    };
    assert_eq!(refused.kind(), ErrorKind::ConnectionReset);
    assert!(held.len() >= 10, "only {}", held.len());
    assert!(is_refused(&stand) && stand.counts().out_of_descriptors >= 2);
    let mut first = held.swap_remove(0);
    assert_eq!(ask(&mut first, "me"), "me");
    held.clear();
    eventually("there is room again", || !is_refused(&stand));
}

#[test]
fn pipes_that_nobody_uses_keep_nobody_out() {
    let few = Config { open_files: 64, ..config() };
    let stand = Stand::with(few, Transport::Tcp, to(&[echo()]));
    let mut bulk = dial(&stand);
    name(&mut bulk).unwrap();
    let mut writer = bulk.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&vec![1; 8 << 20]));
    bulk.read_exact(&mut vec![0; 8 << 20]).unwrap();
    writing.join().unwrap().unwrap();
    drop(bulk);
    stand.wait_for("it is over", |counts| counts.open_connections == 0);
    // 32 descriptors, one of which the listener has.
    let mut held: Vec<TcpStream> = (0..15).map(|_| dial(&stand)).collect();
    held.iter_mut().for_each(|client| assert!(name(client).is_ok()));
}

#[test]
fn a_port_in_use_is_an_error_that_says_so() {
    let other = TcpListener::bind(ANYWHERE).unwrap();
    let mut stand = Stand::new(Transport::Tcp, &[]);
    let address = other.local_addr().unwrap();
    let listen = Listen { transport: Transport::Tcp, address, origin: Origin::Any };
    let error = stand.relay.open(&listen, Targets::default()).unwrap_err();
    assert!(matches!(error, ListenError::Socket { .. }) && error.to_string().contains("another program"));
}

#[test]
fn who_was_not_redirected_is_refused() {
    let mut stand = Stand::new(Transport::Tcp, &[]);
    let listen = Listen { transport: Transport::Tcp, address: ANYWHERE, origin: Origin::Redirected };
    (stand.id, stand.address) = stand.relay.open(&listen, to(&[echo()])).unwrap();
    assert!(is_refused(&stand));
}

#[test]
fn idle_connections_cost_no_time() {
    let stand = Stand::new(Transport::Tcp, &[echo()]);
    let held: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut client = dial(&stand);
            name(&mut client).unwrap();
            client
        })
        .collect();
    let switches = || -> u64 {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let relays = tasks.filter(|task| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "relay")
        });
        let text = relays.filter_map(|task| std::fs::read_to_string(task.join("status")).ok());
        text.filter_map(|text| {
            let line = text.lines().find(|line| line.starts_with("voluntary_ctxt"))?.to_owned();
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
    };
    // Other tests of this process have relays too: some quiet moment must come.
    let end = Instant::now() + PATIENCE;
    loop {
        let before = switches();
        thread::sleep(Duration::from_millis(200));
        if switches() == before {
            break;
        }
        assert!(Instant::now() < end, "never idle");
    }
    drop(held);
}
