//! Opens, changes and closes listeners.
//!
//! In: calls from one plain thread, which never wait for the network. Out: sockets that a runtime of its own serves.
//!
//! Why a runtime of its own? Relaying is the hot path of a node: it must not wait behind an API server's answers, nor
//! they behind it.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::backends::{Backends, Targets};
use crate::counts::{Counts, Tallies};
use crate::descriptors::{Descriptors, Permit};
use crate::own::Own;
use crate::tcp::{self, Pipes};
use crate::udp;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Whose connections a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Anybody's.
    Any,
    /// Only of those who dialled another address and were sent here by the kernel (TCP only).
    Redirected,
}

/// Where and how to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Protocol.
    pub transport: Transport,
    /// Address; port 0 for any that is free.
    pub address: SocketAddr,
    /// Whose connections are taken.
    pub origin: Origin,
}

/// Why nobody listens there.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The kernel refused the socket.
    #[error("cannot listen on {address}{}", hint(.source))]
    Socket {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Too many files are open.
    #[error("cannot listen on {address}: too many open files; raise the limit of open files of this process")]
    Descriptors {
        /// Where.
        address: SocketAddr,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another program of this host listens there)",
        io::ErrorKind::AddrNotAvailable => " (this host does not have the address)",
        _ => "",
    }
}

/// Limits and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Files that the process may have open.
    pub open_files: u64,
    /// UDP flows without a datagram for so long end.
    pub udp_idle: Duration,
    /// Where there is no room for another UDP flow, one goes that nothing passed for so long.
    pub udp_rest: Duration,
    /// UDP flows of one listener.
    pub max_flows: usize,
    /// UDP flows of all listeners together, see [`affordable_flows`](crate::affordable_flows).
    pub max_all_flows: usize,
    /// How long the first, second… attempt to reach a target may take; there are no more attempts than these.
    pub dial_timeouts: [Duration; 4],
    /// What the kernel knows the sockets towards targets by (`SO_PRIORITY`); it takes a privilege.
    pub priority: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            open_files: 1024,
            udp_idle: Duration::from_secs(30),
            udp_rest: Duration::from_secs(1),
            max_flows: 8192,
            max_all_flows: 14_116,
            dial_timeouts: [250, 500, 1000, 2000].map(Duration::from_millis),
            priority: None,
        }
    }
}

/// What all listeners share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) tallies: Tallies,
    pub(crate) descriptors: Arc<Descriptors>,
    pub(crate) pipes: Pipes,
    pub(crate) room: Arc<udp::Room>,
    pub(crate) own: Own,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        let descriptors = Descriptors::of_limit(config.open_files);
        let (pipes, room) = (Pipes::new(&descriptors), udp::Room::new(config.max_all_flows));
        let (tallies, own) = Default::default();
        Self { config, tallies, descriptors, pipes, room, own }
    }

    /// So many descriptors, if there are. Pipes that nobody uses are no reason for a refusal.
    pub(crate) fn take(&self, count: usize) -> Option<Permit> {
        self.descriptors.take(count).or_else(|| {
            self.pipes.close_spare();
            self.descriptors.take(count)
        })
    }

    /// Somebody was refused for want of descriptors or ports.
    pub(crate) fn tell_shortage(&self) {
        self.tallies.out_of_descriptors.add();
        self.descriptors.tell_shortage();
    }
}

/// True if the kernel has no more descriptors or memory to give.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use nix::libc::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS | ENOMEM))
}

/// Names a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u64);

/// What serves a listener.
#[derive(Debug)]
enum Served {
    Tcp(Arc<Backends>),
    Udp(Arc<udp::Switch>),
}

#[derive(Debug)]
struct Listener {
    served: Served,
    task: JoinHandle<()>,
    own: (Transport, SocketAddr),
    _permit: Permit,
}

/// See the module. Dropping it ends everything.
#[derive(Debug)]
pub struct Relay {
    listeners: HashMap<ListenerId, Listener>,
    next: u64,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

impl Relay {
    /// Starts the threads that serve.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(config: Config) -> io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.thread_name("relay").enable_all().build()?;
        let shared = Arc::new(Shared::new(config));
        Ok(Self { listeners: HashMap::new(), next: 0, shared, runtime: Some(runtime) })
    }

    /// Listens, and says where.
    ///
    /// # Errors
    /// The address cannot be had, or there are too few descriptors.
    pub fn open(
        &mut self,
        listen: &Listen,
        targets: Targets,
    ) -> Result<(ListenerId, SocketAddr), ListenError> {
        let address = listen.address;
        let Some(permit) = self.shared.take(1) else {
            self.shared.descriptors.tell_shortage();
            return Err(ListenError::Descriptors { address });
        };
        let failed = |source| ListenError::Socket { address, source };
        let socket = bind(listen).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
        let Some(runtime) = &self.runtime else { return Err(failed(io::ErrorKind::NotConnected.into())) };
        // Sockets register with the runtime that is entered.
        let _entered = runtime.enter();
        let (served, task) = match listen.transport {
            Transport::Tcp => {
                let listener = tokio::net::TcpListener::from_std(socket.into()).map_err(failed)?;
                let backends = Arc::new(Backends::new(targets));
                let door = tcp::Door::new(listen.origin, bound, backends.clone(), self.shared.clone());
                (Served::Tcp(backends), runtime.spawn(tcp::serve(listener, Arc::new(door))))
            }
            Transport::Udp => {
                let socket = tokio::net::UdpSocket::from_std(socket.into()).map_err(failed)?;
                let switch = udp::Switch::new(socket, targets, self.shared.clone());
                (Served::Udp(switch.clone()), runtime.spawn(udp::serve(switch)))
            }
        };
        let id = ListenerId(self.next);
        self.next += 1;
        let own = (listen.transport, bound);
        self.shared.own.add(own);
        self.listeners.insert(id, Listener { served, task, own, _permit: permit });
        Ok((id, bound))
    }

    /// From now on, new clients of a listener get these targets.
    pub fn replace(&self, id: ListenerId, targets: Targets) {
        match self.listeners.get(&id).map(|listener| &listener.served) {
            Some(Served::Tcp(backends)) => backends.replace(targets),
            Some(Served::Udp(switch)) => switch.replace(targets),
            None => {}
        }
    }

    /// Ends a listener. Its TCP connections go on, its UDP flows end. When this returns, its address is free.
    pub fn close(&mut self, id: ListenerId) {
        let Some(Listener { served, task, own, .. }) = self.listeners.remove(&id) else { return };
        self.shared.own.remove(own);
        if let Served::Udp(switch) = &served {
            switch.replace(Targets::default());
        }
        task.abort();
        if let Some(runtime) = &self.runtime {
            // It ends by being aborted, which is no news.
            let _ = runtime.block_on(task);
        }
        if let Served::Udp(switch) = served {
            switch.close();
        }
    }

    /// Something to ask for numbers, for as long as one likes.
    pub fn counter(&self) -> impl Fn() -> Counts + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || shared.tallies.snapshot()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn bind(listen: &Listen) -> io::Result<Socket> {
    let (kind, protocol) = match listen.transport {
        Transport::Tcp => (Type::STREAM, Protocol::TCP),
        Transport::Udp => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(listen.address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if listen.address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if listen.transport == Transport::Tcp {
        // A restart must not wait for old connections to be forgotten.
        socket.set_reuse_address(true)?;
        tcp::prepare(&socket)?;
    }
    socket.bind(&listen.address.into())?;
    if listen.transport == Transport::Tcp {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}
