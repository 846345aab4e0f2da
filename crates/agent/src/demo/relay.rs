//! Makes the proxy's metrics, which listen inside a namespace, reachable on this machine's loopback address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::Context;
use switchyard_lab::Host;

/// Where the proxy listens, inside the namespace and, if it is free, outside.
const METRICS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 10249);

/// Starts relaying; returns the address to connect to.
pub(super) fn start(node: &Host) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(METRICS)
        .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .context("no free port on 127.0.0.1")?;
    let address = listener.local_addr()?;
    let node = node.clone();
    thread::Builder::new().name("metrics-relay".into()).spawn(move || {
        for client in listener.incoming().flatten() {
            let node = node.clone();
            // One request at a time and client; a browser opens a few.
            let _ = thread::Builder::new().spawn(move || relay(&client, &node));
        }
    })?;
    Ok(address)
}

fn relay(client: &TcpStream, node: &Host) {
    let Ok(Ok(inside)) = node.run(|| TcpStream::connect(METRICS)) else { return };
    let (Ok(mut from_client), Ok(mut to_inside)) = (client.try_clone(), inside.try_clone()) else { return };
    let upward = thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_inside);
        let _ = to_inside.shutdown(std::net::Shutdown::Write);
    });
    let _ = io::copy(&mut &inside, &mut &*client);
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = upward.join();
}
