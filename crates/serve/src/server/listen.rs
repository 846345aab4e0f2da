//! Listening sockets: how they are opened and what happens when they cannot be.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// How long to wait before an address is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 128;

/// Where a server listens, and what to do if it cannot.
#[derive(Debug)]
pub enum Listen {
    /// Try for ever, every five seconds.
    Retrying(SocketAddr),
    /// Give up at the first failure (`bindAddressHardFail`).
    OrFail(SocketAddr),
    /// Use a socket that listens already; tests learn its port from it.
    Bound(StdListener),
}

/// A server's address could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the {server}; free the address or give another with {flag}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// Which server wanted it.
    pub server: &'static str,
    /// The flag that moves the server.
    pub flag: &'static str,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

impl Listen {
    pub(super) async fn listener(
        self,
        server: &'static str,
        flag: &'static str,
    ) -> Result<TcpListener, ListenError> {
        match self {
            Self::Bound(listener) => {
                let address = listener.local_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
                let ready = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
                ready.map_err(|source| ListenError { address, server, flag, source })
            }
            Self::OrFail(address) => {
                bind(address).map_err(|source| ListenError { address, server, flag, source })
            }
            Self::Retrying(address) => Ok(bind_at_last(address, server, flag).await),
        }
    }
}

async fn bind_at_last(address: SocketAddr, server: &str, flag: &str) -> TcpListener {
    let mut is_reported = false;
    loop {
        match bind(address) {
            Ok(listener) => return listener,
            Err(cause) if !is_reported => {
                is_reported = true;
                tracing::warn!(
                    %address, %cause,
                    "cannot listen for the {server}, trying again every {RETRY:?}; free the address or give another with {flag}"
                );
            }
            Err(cause) => tracing::debug!(%address, %cause, "still cannot listen for the {server}"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::from_std(open_both(address)?.into())
}

/// Opens an address. `0.0.0.0` means every address of the node, of both families, as it does for kube-proxy: its
/// default address must answer probes on an IPv6 node.
fn open_both(address: SocketAddr) -> io::Result<Socket> {
    if address.ip() != IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        return open(address, V6::WithV4);
    }
    match open(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port()), V6::WithV4) {
        Err(cause) if !matches!(cause.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied) => {
            tracing::debug!(%address, %cause, "no IPv6 here, listening on IPv4 only");
            open(address, V6::WithV4)
        }
        opened => opened,
    }
}

/// What an IPv6 wildcard socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum V6 {
    /// IPv4 connections too.
    WithV4,
    /// IPv6 only, so that an IPv4 socket may have the same port.
    Only,
}

/// A listening, non-blocking socket. Needs no runtime.
pub(crate) fn open(address: SocketAddr, v6: V6) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(v6 == V6::Only)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}
