//! Copying, with streams that bring back what is written to them: there is always something to read.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::descriptors::Descriptors;

/// Two ends of a connection; the first is the runtime's.
fn pair() -> (TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    (TcpStream::from_std(near).unwrap(), far)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Fails if the test does not come to its end.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, end) = mpsc::channel();
    thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(20)).expect("it comes to its end");
}

/// A stream that is connected to itself, with so much in it. To be made within the runtime.
fn circle(bytes: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.connect(&socket.local_addr().unwrap()).unwrap();
    socket.set_send_buffer_size(4 * bytes).unwrap();
    (&socket).write_all(&vec![1; bytes]).unwrap();
    socket.set_nonblocking(true).unwrap();
    TcpStream::from_std(socket.into()).unwrap()
}

/// Copies for ever, and says whether others get their turn.
fn check_turns(descriptors: u64) {
    in_time(move || {
        runtime().block_on(async {
            let pipes = Pipes::new(&Descriptors::of_limit(descriptors));
            tokio::spawn(async move {
                let stream = circle(2 * BUFFER);
                one_way(&stream, &stream, &Ends::default(), &pipes).await
            });
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
    });
}

#[test]
fn others_get_their_turn_while_data_is_copied() {
    check_turns(0);
}

#[test]
fn others_get_their_turn_while_data_flows_through_a_pipe() {
    check_turns(1024);
}

#[test]
fn much_data_goes_through_a_pipe() {
    runtime().block_on(async {
        let pipes = Pipes::new(&Descriptors::of_limit(1024));
        let ((one, mut client), (other, mut target)) = (pair(), pair());
        let writer = thread::spawn(move || client.write_all(&vec![1; 8 << 20]));
        let reader = thread::spawn(move || io::copy(&mut target, &mut io::sink()));
        both_ways(&one, &other, &pipes).await.unwrap();
        drop((one, other));
        writer.join().unwrap().unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 8 << 20);
        assert!(pipes.spare() > 0, "none was used");
    });
}

#[test]
fn a_reset_that_the_writer_is_told_of_is_a_reset() {
    runtime().block_on(async {
        let pipes = Pipes::new(&Descriptors::of_limit(1024));
        // Which direction has its turn first is the runtime's business: in one of both rounds it is the one that writes.
        for is_turned in [true, false] {
            let ((one, mut client), (other, target)) = (pair(), pair());
            client.write_all(b"for nobody").unwrap();
            SockRef::from(&target).set_linger(Some(Duration::ZERO)).unwrap();
            drop(target);
            let (first, second) = if is_turned { (&other, &one) } else { (&one, &other) };
            assert!(both_ways(first, second, &pipes).await.is_err());
            client.set_nonblocking(true).unwrap();
            assert_eq!(
                client.read(&mut [0]).unwrap_err().kind(),
                io::ErrorKind::WouldBlock,
                "no regular end"
            );
        }
    });
}

#[test]
fn who_is_deaf_after_its_last_word_broke_nothing() {
    runtime().block_on(async {
        let pipes = Pipes::new(&Descriptors::of_limit(1024));
        let ((one, mut client), (other, mut target)) = (pair(), pair());
        target.write_all(b"bye").unwrap();
        drop(target);
        let ends = both_ways(&one, &other, &pipes);
        let client = thread::spawn(move || {
            let mut heard = String::new();
            client.read_to_string(&mut heard).unwrap();
            // The first is answered by a reset, the second is told of it.
            for _ in 0..2 {
                client.write_all(b"too late").unwrap();
                thread::sleep(Duration::from_millis(50));
            }
            heard
        });
        ends.await.unwrap();
        assert_eq!(client.join().unwrap(), "bye");
    });
}
