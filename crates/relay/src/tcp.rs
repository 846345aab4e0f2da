//! TCP: accepts, finds a target that answers, and copies both ways.
//!
//! Invariants
//! - A failure to accept is waited out, never repeated at once: a process without descriptors does not spin.
//! - A client that cannot be served is told by a reset.

mod copy;
mod pipe;

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt};
use socket2::{SockRef, Socket, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Sleep;

use crate::backends::Backends;
use crate::descriptors::Permit;
use crate::relay::{Origin, Shared, Transport, is_shortage};
pub(crate) use pipe::Pipes;

/// Rest after a failure to accept.
const REST: Duration = Duration::from_millis(100);

/// A peer that says nothing for this long is asked whether it is still there…
const KEEPALIVE: Duration = Duration::from_secs(120);
/// …this often…
const KEEPALIVE_TRIES: u32 = 4;
/// …with such pauses.
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(30);

/// What a listener is to its clients.
#[derive(Debug)]
pub(crate) struct Door {
    origin: Origin,
    address: SocketAddr,
    backends: Arc<Backends>,
    shared: Arc<Shared>,
}

impl Door {
    pub(crate) fn new(
        origin: Origin,
        address: SocketAddr,
        backends: Arc<Backends>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { origin, address, backends, shared }
    }

    /// True if connections that came like this one are taken.
    fn takes(&self, stream: &TcpStream) -> bool {
        match self.origin {
            Origin::Any => true,
            Origin::Redirected => {
                dialled(stream, self.address).is_some_and(|dialled| dialled != self.address)
            }
        }
    }
}

/// What the client dialled before the kernel sent it to `here`; nothing if the kernel does not know.
fn dialled(stream: &TcpStream, here: SocketAddr) -> Option<SocketAddr> {
    if here.is_ipv6() {
        let address = getsockopt(stream, sockopt::Ip6tOriginalDst).ok()?;
        let ip = std::net::Ipv6Addr::from(address.sin6_addr.s6_addr);
        return Some(SocketAddr::from((ip, u16::from_be(address.sin6_port))));
    }
    let address = getsockopt(stream, sockopt::OriginalDst).ok()?;
    let ip = std::net::Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    Some(SocketAddr::from((ip, u16::from_be(address.sin_port))))
}

/// Accepts for ever.
pub(crate) async fn serve(listener: TcpListener, door: Arc<Door>) {
    loop {
        match listener.accept().await {
            Ok((client, from)) => admit(client, from, &door),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if is_shortage(&error) {
                    door.shared.tell_shortage();
                }
                tokio::time::sleep(REST).await;
            }
        }
    }
}

fn admit(client: TcpStream, from: SocketAddr, door: &Arc<Door>) {
    let tallies = &door.shared.tallies;
    if !door.takes(&client) {
        tallies.refused.add();
        return reset(&client);
    }
    // One for the client, one for the target.
    let Some(permit) = door.shared.take(2) else {
        door.shared.tell_shortage();
        return reset(&client);
    };
    tallies.connections.begin();
    tokio::spawn(connection(client, from, door.clone(), permit));
}

/// One connection from its begin to its end.
async fn connection(client: TcpStream, from: SocketAddr, door: Arc<Door>, _permit: Permit) {
    // One timer for everything: to make it is dear, to set it is not.
    let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
    match dial(&door, from, timer.as_mut()).await {
        Some(target) => {
            if serve_both(&client, &target, &door.shared, timer).await.is_err() {
                reset(&client);
                reset(&target);
            }
        }
        None => reset(&client),
    }
    door.shared.tallies.connections.end();
}

/// A connection that is still there when the time for its first attempt is over is worth the calls that keepalive costs; most are not.
async fn serve_both(
    client: &TcpStream,
    target: &TcpStream,
    shared: &Shared,
    settled: Pin<&mut Sleep>,
) -> io::Result<()> {
    // What the target's socket is not told it does without.
    let _ = target.set_nodelay(true);
    let mut copying = pin!(copy::both_ways(client, target, &shared.pipes));
    tokio::select! {
        biased;
        done = &mut copying => return done,
        () = settled => {}
    }
    let _ = notice_absence(&SockRef::from(target));
    copying.await
}

/// Sends without delay, and notices a peer that vanished. What a listener accepts inherits it.
pub(crate) fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    notice_absence(socket)
}

fn notice_absence(socket: &Socket) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_PAUSE);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_TRIES))
}

/// Closing it tells the peer of a failure, and forgets what was not sent.
fn reset(stream: &TcpStream) {
    // If it is gone already, the peer knows.
    let _ = stream.set_zero_linger();
}

async fn connect(shared: &Shared, target: SocketAddr) -> io::Result<TcpStream> {
    let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    shared.prepare(&socket, Transport::Tcp, target)?;
    socket.connect(target).await
}

/// Tries targets until one answers, as long as there are timeouts left. A target that refuses is not asked again; one
/// that is slow is, once all others were asked, with more time.
async fn dial(door: &Door, from: SocketAddr, mut timer: Pin<&mut Sleep>) -> Option<TcpStream> {
    let (tallies, client) = (&door.shared.tallies, from.ip());
    let (mut refused, mut slow): (Vec<SocketAddr>, Vec<SocketAddr>) = (Vec::new(), Vec::new());
    for (attempt, patience) in door.shared.config.dial_timeouts.into_iter().enumerate() {
        let pick = |tried: &[SocketAddr]| door.backends.pick(client, tried, Instant::now());
        let tried = [refused.as_slice(), slow.as_slice()].concat();
        let Some(target) = pick(&tried).or_else(|| pick(&refused)) else { break };
        if attempt > 0 {
            tallies.retries.add();
        }
        timer.as_mut().reset(tokio::time::Instant::now() + patience);
        tokio::select! {
            biased;
            reached = connect(&door.shared, target) => match reached {
                Ok(stream) => {
                    door.backends.reached(client, target, Instant::now());
                    return Some(stream);
                }
                Err(_) => refused.push(target),
            },
            () = &mut timer => slow.push(target),
        }
        door.backends.missed(client, target);
    }
    if refused.is_empty() && slow.is_empty() {
        tallies.refused.add();
    } else {
        tallies.unreachable.add();
    }
    None
}

#[cfg(test)]
mod tests;
