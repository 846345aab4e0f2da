//! A plain HTTP client for the tests of this crate, on std sockets, so that it shows exactly what is on the wire.

use std::io::{Read, Write, stderr};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A port that nobody has, below those that the kernel hands out by itself, and never the same twice.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + u16::try_from(std::process::id() % 150).unwrap() * 100;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// False, with a word about it, if this machine has no IPv6.
pub(crate) fn has_ipv6() -> bool {
    let answer = TcpListener::bind("[::1]:0");
    if let Err(cause) = &answer {
        // Not `eprintln!`: the harness hides what a passing test prints with it.
        writeln!(stderr(), "SKIPPED: no IPv6 loopback here ({cause})").unwrap();
    }
    answer.is_ok()
}

/// Status line, headers without `Date`, an empty line, the body.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str) -> String {
    let text = raw(address, &format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let lines = text.split("\r\n").filter(|line| !line.starts_with("Date: "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Sends a text and reads until the server closes; what came before a reset counts.
pub(crate) fn raw(address: SocketAddr, text: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).unwrap();
    until_closed(&mut stream)
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Everything until the end. Panics if the server keeps the connection for ten seconds.
pub(crate) fn until_closed(stream: &mut TcpStream) -> String {
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&chunk[..n]),
            Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(cause) => panic!("server kept the connection: {cause}"),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}
