//! One flow: the datagrams of one client, and the answers of its target.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;
use tokio::task::coop::consume_budget;

use super::room::Place;
use super::{Switch, batch};
use crate::descriptors::Permit;
use crate::relay::{Shared, Transport};

/// When something passed last.
#[derive(Debug)]
struct Pulse {
    start: Instant,
    last: AtomicU64,
}

impl Pulse {
    fn beat(&self) {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(passed, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.start + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    fn end(&self, idle: Duration) -> Instant {
        self.last() + idle
    }
}

/// See the module. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Flow {
    id: u64,
    target: SocketAddr,
    socket: Arc<UdpSocket>,
    pulse: Arc<Pulse>,
    task: AbortHandle,
    shared: Arc<Shared>,
    _rights: (Place, Permit),
}

impl Flow {
    /// Opens a socket towards the target and listens for its answers.
    pub(super) fn open(
        id: u64,
        client: SocketAddr,
        target: SocketAddr,
        switch: &Arc<Switch>,
        rights: (Place, Permit),
    ) -> io::Result<Self> {
        let kind = Type::DGRAM.nonblocking();
        let socket = Socket::new(Domain::for_address(target), kind, Some(Protocol::UDP))?;
        switch.shared.prepare(&socket, Transport::Udp, target)?;
        // The kernel picks a port, too.
        socket.connect(&target.into())?;
        let socket = Arc::new(UdpSocket::from_std(socket.into())?);
        let pulse = Arc::new(Pulse { start: Instant::now(), last: AtomicU64::new(0) });
        let answers = Answers {
            id,
            client,
            target,
            socket: socket.clone(),
            pulse: pulse.clone(),
            switch: Arc::downgrade(switch),
            idle: switch.shared.config.udp_idle,
        };
        let task = tokio::spawn(answers.run()).abort_handle();
        switch.shared.tallies.flows.begin();
        Ok(Self { id, target, socket, pulse, task, shared: switch.shared.clone(), _rights: rights })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// When something passed last.
    pub(super) fn last_use(&self) -> Instant {
        self.pulse.last()
    }

    pub(super) fn target(&self) -> SocketAddr {
        self.target
    }

    /// Where the target sees its datagrams come from.
    #[cfg(test)]
    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Passes a datagram of the client on.
    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.pulse.beat();
        // Past the runtime, which does not know yet whether a new socket can be written to.
        SockRef::from(&*self.socket).send(datagram).map(|_| ())
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.tallies.flows.end();
    }
}

/// The way back.
struct Answers {
    id: u64,
    client: SocketAddr,
    target: SocketAddr,
    socket: Arc<UdpSocket>,
    pulse: Arc<Pulse>,
    switch: Weak<Switch>,
    idle: Duration,
}

impl Answers {
    async fn run(self) {
        let sleep = tokio::time::sleep_until(self.pulse.end(self.idle).into());
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                ready = self.socket.readable() => {
                    if ready.is_err() || self.pass().is_err() {
                        break;
                    }
                    // The runtime does not count this as work: without it nobody else would get a turn in a flood.
                    consume_budget().await;
                }
                () = &mut sleep => {
                    let end = self.pulse.end(self.idle);
                    if end <= Instant::now() {
                        break;
                    }
                    sleep.as_mut().reset(end.into());
                }
            }
        }
        if let Some(switch) = self.switch.upgrade() {
            switch.ended(self.client, self.id);
        }
    }

    /// Passes answers on. An error ends the flow.
    fn pass(&self) -> io::Result<()> {
        let Some(switch) = self.switch.upgrade() else { return Err(io::ErrorKind::NotConnected.into()) };
        let passed = self.socket.try_io(Interest::READABLE, || {
            let (count, lost) = batch::pass_on(&self.socket, &switch.socket, self.client)?;
            self.pulse.beat();
            (0..lost).for_each(|_| switch.shared.tallies.lost_datagrams.add());
            batch::is_more(count)
        });
        match passed {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                // Its client need not stay with a target that refuses.
                switch.backends.missed(self.client.ip(), self.target);
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{in_time, others_have_turns, socket, switch, to};
    use super::*;
    use crate::relay::Config;

    #[test]
    fn others_get_their_turn_while_answers_come() {
        in_time(async {
            let (switch, target) = switch(Config::default(), to);
            let (socket, client) = socket();
            socket.connect(target).await.unwrap();
            // The flow's client is itself: each answer that it passes on comes back before it looks for the next.
            let pulse = Arc::new(Pulse { start: Instant::now(), last: AtomicU64::new(0) });
            let (idle, weak) = (Duration::from_secs(30), Arc::downgrade(&switch));
            switch.socket.send_to(b"round", client).await.unwrap();
            let answers =
                Answers { id: 0, client, target, socket: Arc::new(socket), pulse, switch: weak, idle };
            tokio::spawn(answers.run());
            others_have_turns().await;
        });
    }
}
