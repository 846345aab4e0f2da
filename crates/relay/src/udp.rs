//! UDP: one flow per client, each with a socket of its own towards its target.
//!
//! In: datagrams of clients. Out: the same datagrams at a target, and its answers at the client.
//!
//! Invariants
//! - A flow ends when nothing passed for a while, when its target refuses, when its target goes away, or when there are
//!   too many flows: then those go that were not used for longest.
//! - A datagram that cannot be passed on at once is lost, as on any network. Nothing waits in here.

mod batch;
mod flow;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::backends::{Backends, Targets};
use crate::generations::Generations;
use crate::relay::Shared;
use flow::Flow;

/// The longest datagram.
const LONGEST: usize = 65_535;

/// Rest after a failure to receive that is not a client's.
const REST: Duration = Duration::from_millis(100);

thread_local! {
    static SCRATCH: std::cell::RefCell<Box<[u8]>> = std::cell::RefCell::new(vec![0; LONGEST].into());
}

/// A listener and its flows.
#[derive(Debug)]
pub(crate) struct Switch {
    socket: UdpSocket,
    backends: Backends,
    flows: Mutex<Generations<SocketAddr, Flow>>,
    next: AtomicU64,
    shared: Arc<Shared>,
}

impl Switch {
    pub(crate) fn new(socket: UdpSocket, targets: Targets, shared: Arc<Shared>) -> Self {
        let flows = Mutex::new(Generations::new(shared.config.max_flows / 2));
        Self { socket, backends: Backends::new(targets), flows, next: AtomicU64::new(0), shared }
    }

    /// New targets. Flows to those that are gone end at once, so that their clients get another with the next datagram.
    pub(crate) fn replace(&self, targets: Targets) {
        self.backends.replace(targets);
        self.lock().retain(|_, flow| self.backends.may_run(&flow.target()));
    }

    /// Passes one datagram of a client on.
    fn pass(self: &Arc<Self>, from: SocketAddr, datagram: &[u8]) {
        let tallies = &self.shared.tallies;
        let sent = self.known(from, datagram).unwrap_or_else(|| {
            let flow = self.open(from)?;
            let sent = flow.send(datagram);
            let gone = self.lock().insert(from, flow);
            self.evicted(gone);
            sent
        });
        if sent.is_err() {
            tallies.lost_datagrams.add();
        }
    }

    /// Sends by the flow that the client has, if it has one.
    fn known(&self, from: SocketAddr, datagram: &[u8]) -> Option<io::Result<()>> {
        let mut flows = self.lock();
        let (flow, gone) = flows.used(&from);
        let sent = flow.map(|flow| flow.send(datagram));
        if matches!(&sent, Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused) {
            // The target said so of an earlier datagram: this one goes to another.
            flows.remove(&from);
            drop(flows);
            self.backends.missed(from.ip());
            self.evicted(gone);
            return None;
        }
        drop(flows);
        self.evicted(gone);
        sent
    }

    fn open(self: &Arc<Self>, from: SocketAddr) -> io::Result<Flow> {
        let (tallies, now) = (&self.shared.tallies, Instant::now());
        let Some(target) = self.backends.pick(from.ip(), &[], now) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let permit = self.shared.descriptors.take(1).or_else(|| {
            let gone = self.lock().age();
            self.evicted(gone);
            self.shared.descriptors.take(1)
        });
        let Some(permit) = permit else {
            tallies.out_of_descriptors.add();
            self.shared.descriptors.tell_shortage();
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let flow = Flow::open(id, from, target, self, permit)?;
        self.backends.reached(from.ip(), target, now);
        Ok(flow)
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
        let is_this = flows.used(&from).0.is_some_and(|flow| flow.id() == id);
        if is_this {
            flows.remove(&from);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations<SocketAddr, Flow>> {
        // Nothing panics while it is held.
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes datagrams of clients on for ever.
pub(crate) async fn serve(switch: Arc<Switch>) {
    loop {
        if switch.socket.readable().await.is_err() {
            tokio::time::sleep(REST).await;
            continue;
        }
        let received = SCRATCH.with_borrow_mut(|buffer| {
            let (count, from) = switch.socket.try_recv_from(buffer)?;
            switch.pass(from, buffer.get(..count).unwrap_or_default());
            io::Result::Ok(())
        });
        // Where one was, others may wait.
        let received = received.and_then(|()| {
            let all = || batch::receive(&switch.socket, |from, datagram| switch.pass(from, datagram));
            switch.socket.try_io(Interest::READABLE, all)
        });
        match received {
            Ok(_) => {}
            // An answer that did not reach some client is reported here, too.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => {}
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}
