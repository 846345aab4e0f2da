//! Which listeners are open, and for what.
//!
//! In: the listeners that a service port wants. Out: where they are; what could not be opened, and why.
//!
//! Invariants
//! - A listener that is wanted again stays as it is: only its targets are replaced, and only if they differ.
//! - What is no longer wanted is closed by [`Doors::close_unwanted`], when nothing leads there any more.
//! - No listener is opened where rules that an earlier run left lead clients of another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use switchyard_model::{Protocol, ServicePortName};
use switchyard_plan::route::Frontend;
use switchyard_plan::userspace::{Door, Heritage, Listener, Port};
use switchyard_relay::{Listen, ListenError, ListenerId, Origin, Relay, Targets, Transport, local_ports};

use super::{SharedRelay, Way};

/// Ports that are tried before any will do.
const NEIGHBOURS: u16 = 64;

/// How many ports are tried where any will do to which the rules lead nobody else.
const ANY_TRIES: usize = 4096;

/// Names a listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    port: ServicePortName,
    door: Door,
    ip: IpAddr,
}

#[derive(Debug)]
struct Opened {
    id: ListenerId,
    at: SocketAddr,
    wish: Listener,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Doors {
    relay: SharedRelay,
    origin: Origin,
    opened: BTreeMap<Key, Opened>,
    /// Open, but no longer wanted.
    unwanted: BTreeSet<Key>,
    /// What cannot be opened, and why.
    shut: BTreeMap<ServicePortName, String>,
    /// Where the rules lead that are in force.
    heritage: Heritage,
    /// The last port that was found beside them.
    last_port: u16,
}

/// What became of the listeners of one service port.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Where each is.
    pub(super) at: BTreeMap<Door, SocketAddr>,
    /// Frontends that got a listener.
    pub(super) opened: Vec<Way>,
    /// Frontends whose listener serves another one now.
    pub(super) closed: Vec<Way>,
}

impl Doors {
    pub(super) fn new(relay: SharedRelay, origin: Origin) -> Self {
        let (opened, unwanted, shut, heritage, last_port) = Default::default();
        Self { relay, origin, opened, unwanted, shut, heritage, last_port }
    }

    /// Says where the rules lead that are in force and not our own.
    pub(super) fn inherit(&mut self, heritage: Heritage) {
        self.heritage = heritage;
    }

    /// What cannot be opened, and why.
    pub(super) fn shut(&self) -> &BTreeMap<ServicePortName, String> {
        &self.shut
    }

    /// Says what the service port will want: everything else of it may be closed.
    pub(super) fn unwant(&mut self, port: &ServicePortName, ip: IpAddr, wishes: &[Listener]) {
        let wanted: BTreeSet<Door> = wishes.iter().map(|wish| wish.door).collect();
        for key in self.of(port) {
            if key.ip == ip && wanted.contains(&key.door) {
                self.unwanted.remove(&key);
            } else {
                self.unwanted.insert(key);
            }
        }
    }

    /// Opens what the service port wants and does not have.
    pub(super) fn want(&mut self, port: &ServicePortName, ip: IpAddr, wishes: Vec<Listener>) -> Changed {
        let mut changed = Changed::default();
        let mut problems = Vec::new();
        for wish in wishes {
            let key = Key { port: port.clone(), door: wish.door, ip };
            let before = self.opened.get(&key).and_then(|open| open.wish.frontend);
            match self.open(&key, wish.clone()) {
                Ok(at) => {
                    changed.at.insert(wish.door, at);
                    if before != wish.frontend {
                        let way = |frontend| Way { port: port.clone(), frontend, at };
                        changed.closed.extend(before.map(way));
                        changed.opened.extend(wish.frontend.map(way));
                    }
                }
                Err(error) => problems.push(describe(&wish, &error)),
            }
        }
        self.shut.remove(port);
        if !problems.is_empty() {
            self.shut.insert(port.clone(), problems.join("; "));
        }
        changed
    }

    /// Opens it if it is not open yet, and says where it is.
    fn open(&mut self, key: &Key, wish: Listener) -> Result<SocketAddr, ListenError> {
        if let Some(open) = self.opened.get_mut(key) {
            if open.wish.targets != wish.targets
                || open.wish.serving != wish.serving
                || open.wish.affinity != wish.affinity
            {
                lock(&self.relay).replace(open.id, targets(&wish));
            }
            open.wish = wish;
            return Ok(open.at);
        }
        let (id, at) = match wish.port {
            Port::Only(port) => self.listen(key, port, targets(&wish))?,
            Port::Any => self.open_any(key, &wish)?,
            Port::From(first) => {
                let mut tries = (first..first.saturating_add(NEIGHBOURS)).chain([0]);
                loop {
                    let port = tries.next().unwrap_or(0);
                    match self.listen(key, port, targets(&wish)) {
                        Err(error) if port != 0 && is_in_use(&error) => {}
                        done => break done?,
                    }
                }
            }
        };
        self.opened.insert(key.clone(), Opened { id, at, wish });
        Ok(at)
    }

    /// Where it was, else where the rules lead nobody else's clients.
    fn open_any(&mut self, key: &Key, wish: &Listener) -> Result<(ListenerId, SocketAddr), ListenError> {
        if self.heritage.is_empty() {
            return self.listen(key, 0, targets(wish));
        }
        let was = self.heritage.of(wish).filter(|at| at.ip() == key.ip).map(|at| at.port());
        let range = local_ports();
        // Where the last one was found, others are taken.
        let start = self.last_port.clamp(*range.start(), *range.end());
        let turn = (start..=*range.end()).chain(*range.start()..start);
        let is_free =
            |port: &u16| self.heritage.is_free(wish, key.port.protocol, SocketAddr::new(key.ip, *port));
        let mut ports = was.into_iter().chain(turn.filter(is_free)).take(ANY_TRIES);
        let opened = loop {
            // Without any port that is known to be nobody's, one of the kernel's choice is better than none.
            let port = ports.next().unwrap_or(0);
            match self.listen(key, port, targets(wish)) {
                Err(error) if port != 0 && is_in_use(&error) => {}
                done => break done?,
            }
        };
        drop(ports);
        self.last_port = opened.1.port();
        Ok(opened)
    }

    fn listen(
        &self,
        key: &Key,
        port: u16,
        targets: Targets,
    ) -> Result<(ListenerId, SocketAddr), ListenError> {
        let transport = match key.port.protocol {
            Protocol::Udp => Transport::Udp,
            Protocol::Tcp | Protocol::Sctp => Transport::Tcp,
        };
        let listen = Listen { transport, address: SocketAddr::new(key.ip, port), origin: self.origin };
        lock(&self.relay).open(&listen, targets)
    }

    fn of(&self, port: &ServicePortName) -> Vec<Key> {
        // Keys of one service port stand together.
        let ip = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let first = Key { port: port.clone(), door: Door::Cluster, ip };
        let own = self.opened.range(first..).map(|(key, _)| key);
        own.take_while(|key| key.port == *port).cloned().collect()
    }

    /// The frontends of a service port that have a listener of their own, and where it is.
    pub(super) fn frontends(&self, port: &ServicePortName) -> Vec<(Frontend, SocketAddr)> {
        let own = self.of(port).into_iter().filter_map(|key| self.opened.get(&key));
        own.filter_map(|open| Some((open.wish.frontend?, open.at))).collect()
    }

    /// All frontends that have a listener of their own, and where it is.
    pub(super) fn all_frontends(&self) -> BTreeMap<Frontend, SocketAddr> {
        self.opened.values().filter_map(|open| Some((open.wish.frontend?, open.at))).collect()
    }

    /// What listens for a service port, one line each; `frontend` is absent for listeners behind rules.
    pub(super) fn lines(&self, port: &ServicePortName, frontend: Option<Frontend>) -> Vec<String> {
        let keys = self.of(port);
        let own = keys.iter().filter_map(|key| self.opened.get(key)).filter(|o| o.wish.frontend == frontend);
        let line = |open: &Opened| {
            let targets: Vec<String> = open.wish.targets.iter().map(ToString::to_string).collect();
            let targets = if targets.is_empty() { "nobody".to_owned() } else { targets.join(", ") };
            format!("listener {} of this process, which relays to {targets}", open.at)
        };
        own.map(line).collect()
    }

    /// Service ports that have a listener.
    pub(super) fn ports(&self) -> BTreeSet<ServicePortName> {
        self.opened.keys().map(|key| key.port.clone()).collect()
    }

    /// Closes what is no longer wanted; says what that was.
    pub(super) fn close_unwanted(&mut self) -> Vec<Way> {
        let mut closed = Vec::new();
        for key in std::mem::take(&mut self.unwanted) {
            if let Some(open) = self.opened.remove(&key) {
                lock(&self.relay).close(open.id);
                let frontend = open.wish.frontend;
                closed.extend(frontend.map(|frontend| Way { port: key.port, frontend, at: open.at }));
            }
        }
        closed
    }
}

/// The thread that writes rules is the only one that uses it, and it does not outlive a panic.
fn lock(relay: &SharedRelay) -> MutexGuard<'_, Relay> {
    relay.lock().unwrap_or_else(PoisonError::into_inner)
}

fn targets(wish: &Listener) -> Targets {
    Targets {
        new: wish.targets.clone(),
        running: wish.serving.clone(),
        stay: wish.affinity.map(|seconds| Duration::from_secs(seconds.into())),
    }
}

fn is_in_use(error: &ListenError) -> bool {
    matches!(error, ListenError::Socket { source, .. }
        if matches!(source.kind(), std::io::ErrorKind::AddrInUse | std::io::ErrorKind::PermissionDenied))
}

fn describe(wish: &Listener, error: &ListenError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    match wish.frontend {
        Some(frontend) => format!("{frontend}: {error}{cause}"),
        None => format!("{error}{cause}"),
    }
}
