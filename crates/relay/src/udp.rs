//! UDP: one flow per client, each with a socket of its own towards its target.
//!
//! In: datagrams of clients. Out: the same datagrams at a target, and its answers at the client.
//!
//! Invariants
//! - A flow ends when nothing passed for a while, when its target refuses, when its target goes away, or when there are
//!   too many flows: then those go that were not used for longest ([`room`] has the bound of all listeners together).
//! - A datagram that cannot be passed on at once is lost, as on any network. Nothing waits in here.

mod batch;
mod flow;
mod room;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;

use crate::backends::{Backends, Targets};
use crate::generations::Generations;
use crate::relay::{Shared, is_shortage};
use flow::Flow;
pub(crate) use room::Room;
use room::Scarce;
pub use room::{affordable_flows, local_ports};

/// The longest datagram.
const LONGEST: usize = 65_535;

/// Rest after a failure to receive that is not a client's.
const REST: Duration = Duration::from_millis(100);

/// Flows that are looked at when one has to go.
const CANDIDATES: usize = 16;

/// A listener and its flows.
#[derive(Debug)]
pub(crate) struct Switch {
    socket: UdpSocket,
    backends: Backends,
    flows: Mutex<Generations<SocketAddr, Flow>>,
    next: AtomicU64,
    /// Places in the room that the flows have.
    taken: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

impl Switch {
    pub(crate) fn new(socket: UdpSocket, targets: Targets, shared: Arc<Shared>) -> Arc<Self> {
        let flows = Mutex::new(Generations::new(shared.config.max_flows / 2));
        let backends = Backends::new(targets);
        let (next, taken) = Default::default();
        let switch = Arc::new(Self { socket, backends, flows, next, taken, shared });
        switch.shared.room.add(&switch);
        switch
    }

    /// New targets. Flows to those that are gone end at once, so that their clients get another with the next datagram.
    pub(crate) fn replace(&self, targets: Targets) {
        self.backends.replace(targets);
        self.lock().retain(|_, flow| self.backends.may_run(&flow.target()));
    }

    /// Closes the socket, after the task that serves it ended.
    pub(crate) fn close(self: Arc<Self>) {
        self.shared.room.forget(&self);
        let mut switch = self;
        // Whoever passes an answer right now, or ends a flow for another, has it for a moment; nobody new gets hold of it.
        while let Err(shared) = Arc::try_unwrap(switch) {
            switch = shared;
            thread::yield_now();
        }
    }

    /// Passes one datagram of a client on.
    fn pass(self: &Arc<Self>, from: SocketAddr, datagram: &[u8]) {
        let sent = self.known(from, datagram).unwrap_or_else(|| {
            let flow = self.open(from)?;
            let sent = flow.send(datagram);
            self.keep(from, flow);
            sent
        });
        if sent.is_err() {
            self.shared.tallies.lost_datagrams.add();
        }
    }

    /// Sends by the flow that the client has, if it has one.
    fn known(&self, from: SocketAddr, datagram: &[u8]) -> Option<io::Result<()>> {
        let mut flows = self.lock();
        let (flow, gone) = flows.used(&from);
        let sent = flow.map(|flow| (flow.target(), flow.send(datagram)));
        let sent = match sent {
            Some((target, Err(error))) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // The target said so of an earlier datagram: this one goes to another.
                let refused = flows.remove(&from);
                drop(flows);
                drop(refused);
                self.backends.missed(from.ip(), target);
                None
            }
            sent => {
                drop(flows);
                sent.map(|(_, sent)| sent)
            }
        };
        self.evicted(gone);
        sent
    }

    /// A flow to the first target that takes one, of as many as a TCP connection would try.
    fn open(self: &Arc<Self>, from: SocketAddr) -> io::Result<Flow> {
        let (now, mut tried) = (Instant::now(), Vec::new());
        let mut problem = io::ErrorKind::ConnectionRefused.into();
        while tried.len() < self.shared.config.dial_timeouts.len() {
            let Some(target) = self.backends.propose(from.ip(), &tried, now) else { break };
            match self.open_to(from, target, now) {
                Ok(flow) => {
                    self.backends.reached(from.ip(), target, now);
                    return Ok(flow);
                }
                Err(error) => problem = error,
            }
            if scarce(&problem).is_some() {
                break;
            }
            self.backends.missed(from.ip(), target);
            tried.push(target);
        }
        Err(problem)
    }

    /// A flow to this target; another one goes for it if it must.
    fn open_to(self: &Arc<Self>, from: SocketAddr, target: SocketAddr, now: Instant) -> io::Result<Flow> {
        let flow = self.try_open(from, target).or_else(|error| match scarce(&error) {
            Some(scarce) if self.shared.room.make(self, scarce, now) => self.try_open(from, target),
            _ => Err(error),
        });
        flow.inspect_err(|error| match scarce(error) {
            Some(Scarce::Descriptors) => self.shared.tell_shortage(),
            Some(Scarce::Flows) => self.shared.room.tell_shortage(),
            None => {}
        })
    }

    /// An error tells what there is too little of, see [`scarce`].
    fn try_open(self: &Arc<Self>, from: SocketAddr, target: SocketAddr) -> io::Result<Flow> {
        let place = self.shared.room.take(&self.taken).ok_or(io::ErrorKind::AddrInUse)?;
        let permit = self.shared.take(1).ok_or(io::ErrorKind::OutOfMemory)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Flow::open(id, from, target, self, (place, permit))
    }

    /// Adds a flow, unless its target went away since it was picked.
    fn keep(&self, from: SocketAddr, flow: Flow) {
        let target = flow.target();
        let mut flows = self.lock();
        let gone = flows.insert(from, flow);
        let astray = if self.backends.may_run(&target) { None } else { flows.remove(&from) };
        drop(flows);
        drop(astray);
        self.evicted(gone);
    }

    /// After this, a flow is idle enough to go.
    fn rest(&self) -> Duration {
        self.shared.config.udp_rest
    }

    /// Flows that there are.
    fn count(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Ends a flow that is not used, or of those that were not used lately one that rested for so long. Whether there was one.
    fn evict(&self, rest: Duration, now: Instant) -> bool {
        let mut flows = self.lock();
        let some = flows.unused().take(CANDIDATES).map(|(from, flow)| (flow.last_use(), *from));
        let idlest = some.min().filter(|(last, _)| now.saturating_duration_since(*last) >= rest);
        let gone: HashMap<SocketAddr, Flow> =
            idlest.and_then(|(_, from)| Some((from, flows.remove(&from)?))).into_iter().collect();
        drop(flows);
        let is_one = !gone.is_empty();
        self.evicted(gone);
        is_one
    }

    fn evicted(&self, gone: HashMap<SocketAddr, Flow>) {
        for flow in gone.into_values() {
            drop(flow);
            self.shared.tallies.evicted_flows.add();
        }
    }

    /// A flow ended by itself.
    fn ended(&self, from: SocketAddr, id: u64) {
        let mut flows = self.lock();
        if flows.peek(&from).is_some_and(|flow| flow.id() == id) {
            let flow = flows.remove(&from);
            drop(flows);
            drop(flow);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations<SocketAddr, Flow>> {
        // Nothing panics while it is held.
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an error says that there is too little of.
fn scarce(error: &io::Error) -> Option<Scarce> {
    match error.kind() {
        // Without a free port, `bind` says the first and `connect` the second.
        io::ErrorKind::AddrInUse | io::ErrorKind::WouldBlock => Some(Scarce::Flows),
        io::ErrorKind::OutOfMemory => Some(Scarce::Descriptors),
        _ => is_shortage(error).then_some(Scarce::Descriptors),
    }
}

/// Passes datagrams of clients on for ever.
pub(crate) async fn serve(switch: Arc<Switch>) {
    let mut opened = 0;
    loop {
        // The runtime does not count this as work: without it nobody else would get a turn in a flood. What had to go for new flows
        // is closed at such a turn, too.
        match std::mem::replace(&mut opened, switch.next.load(Ordering::Relaxed)) {
            before if before == opened => consume_budget().await,
            _ => yield_now().await,
        }
        if switch.socket.readable().await.is_err() {
            tokio::time::sleep(REST).await;
            continue;
        }
        let received = switch.socket.try_io(Interest::READABLE, || {
            batch::receive(&switch.socket, |from, datagram| switch.pass(from, datagram))
                .and_then(batch::is_more)
        });
        match received {
            Ok(()) => {}
            // An answer that did not reach some client is reported here, too.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => {}
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

#[cfg(test)]
mod tests;
