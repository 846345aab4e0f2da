//! Health-check node ports: a load balancer asks whether this node has endpoints of a service.
//!
//! In: per sync, the services that want a health check, with port and number of local ready endpoints. Out: one
//! HTTP server per service and address, which answers any path and method.
//!
//! Invariants
//! - A service is served on all addresses or on none; what could not be opened is not remembered and therefore
//!   tried again by the next sync.
//! - Ports are closed before any is opened, and are free when `sync` opens, so a port can pass from one service to
//!   another within one sync.
//! - The instances of the two families never stand in each other's way: IPv6 sockets take IPv6 only.
//! - Callable from a plain thread: `sync` never waits for the runtime.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::header::HeaderName;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use socket2::Socket;
use switchyard_model::{Family, ServiceName};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::Moment;
use crate::health::{ProxyHealth, Verdict};
use crate::server::{Ask, Connections, JSON, NOSNIFF, Reply, Site, V6, open, serve_listener, status};

#[cfg(test)]
mod tests;

/// Connections that all health checks of one family keep at a time.
const CONNECTIONS: usize = 512;

const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// What one service wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// `spec.healthCheckNodePort`.
    pub port: u16,
    /// Distinct addresses of ready endpoints on this node.
    pub local_endpoints: usize,
}

/// A health check could not be opened. It is tried again by the next sync.
#[derive(Debug, thiserror::Error)]
#[error(
    "node {node} failed to start healthcheck \"{service}\" on port {port} ({address}); the next sync tries again, \
     free the port or give the Service another healthCheckNodePort"
)]
pub struct OpenError {
    /// The node's name.
    pub node: Arc<str>,
    /// The service.
    pub service: ServiceName,
    /// Its health-check node port.
    pub port: u16,
    /// The address that could not be had.
    pub address: IpAddr,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

impl OpenError {
    /// The text of kube-proxy's Event `FailedToStartServiceHealthcheck`.
    pub fn event_message(&self) -> String {
        let Self { node, service, port, source, .. } = self;
        format!("node {node} failed to start healthcheck \"{service}\" on port {port}: {source}")
    }
}

/// The health checks of one family.
#[derive(Debug)]
pub struct ServiceHealth {
    family: Family,
    runtime: Handle,
    health: Arc<ProxyHealth>,
    node: Arc<str>,
    addresses: Vec<IpAddr>,
    connections: Connections,
    open: BTreeMap<ServiceName, OpenCheck>,
}

impl ServiceHealth {
    /// No health checks yet; where they listen, see [`Self::listen_on`].
    pub fn new(
        family: Family,
        runtime: Handle,
        health: Arc<ProxyHealth>,
        node: &str,
        addresses: Vec<IpAddr>,
    ) -> Self {
        let connections = Connections::new(CONNECTIONS);
        let addresses = of_family(family, addresses);
        Self { family, runtime, health, node: node.into(), addresses, connections, open: BTreeMap::new() }
    }

    /// Listens on these addresses from the next sync on. Addresses of the other family are ignored; without any of this
    /// family, every address of the node answers. Closes everything if they are others than before, and says so.
    pub fn listen_on(&mut self, addresses: Vec<IpAddr>) -> Moved {
        let addresses = of_family(self.family, addresses);
        if addresses == self.addresses {
            return Moved::No;
        }
        self.addresses = addresses;
        self.open.clear();
        Moved::Yes
    }

    /// Closes what vanished or moved, opens what is new, and sets every count.
    pub fn sync(&mut self, wanted: &BTreeMap<ServiceName, HealthCheck>) -> Vec<OpenError> {
        self.open.retain(|service, check| wanted.get(service).is_some_and(|want| want.port == check.port));
        let mut errors = Vec::new();
        for (service, want) in wanted {
            if let Some(check) = self.open.get(service) {
                check.local_endpoints.store(want.local_endpoints, Ordering::Relaxed);
                continue;
            }
            match self.open(service, *want) {
                Ok(check) => {
                    self.open.insert(service.clone(), check);
                }
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    fn open(&self, service: &ServiceName, want: HealthCheck) -> Result<OpenCheck, OpenError> {
        let local_endpoints = Arc::new(AtomicUsize::new(want.local_endpoints));
        let page = Page {
            service: service.clone(),
            health: self.health.clone(),
            local_endpoints: local_endpoints.clone(),
        };
        let page = Arc::new(page);
        let mut check = OpenCheck { port: want.port, local_endpoints, listeners: Vec::new() };
        for &address in &self.addresses {
            let listener = self.listen(SocketAddr::new(address, want.port), page.clone());
            check.listeners.push(listener.map_err(|source| OpenError {
                node: self.node.clone(),
                service: service.clone(),
                port: want.port,
                address,
                source,
            })?);
        }
        Ok(check)
    }

    fn listen(&self, address: SocketAddr, page: Arc<Page>) -> io::Result<OpenListener> {
        if address.port() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "0 is not a port"));
        }
        let socket = open(address, V6::Only)?;
        // Registering a socket needs the runtime's context, which a plain thread does not have.
        let _context = self.runtime.enter();
        let listener = TcpListener::from_std(socket.try_clone()?.into())?;
        let task = self.runtime.spawn(serve_listener(listener, self.connections.clone(), page));
        Ok(OpenListener { socket, task: task.abort_handle() })
    }
}

/// Whether health checks listen somewhere else now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// They do, and nothing is open before the next sync.
    Yes,
    /// They do not.
    No,
}

fn of_family(family: Family, mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.retain(|address| Family::of(*address) == family);
    if addresses.is_empty() || addresses.iter().any(IpAddr::is_unspecified) {
        addresses = vec![match family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }];
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[derive(Debug)]
struct OpenCheck {
    port: u16,
    local_endpoints: Arc<AtomicUsize>,
    listeners: Vec<OpenListener>,
}

/// A listening socket and the task that answers on it. Both end when this is dropped.
#[derive(Debug)]
struct OpenListener {
    socket: Socket,
    task: AbortHandle,
}

impl Drop for OpenListener {
    fn drop(&mut self) {
        self.task.abort();
        // The task ends when the runtime gets to it, but the port must be free now: a socket that no longer listens
        // does not keep others from its port, thanks to SO_REUSEADDR.
        if let Err(cause) = self.socket.shutdown(Shutdown::Both) {
            tracing::debug!(%cause, "a health check's socket was closed already");
        }
    }
}

/// What a health check answers, whatever the path and the method.
struct Page {
    service: ServiceName,
    health: Arc<ProxyHealth>,
    local_endpoints: Arc<AtomicUsize>,
}

impl Page {
    fn state(&self, now: Moment) -> Reply {
        let count = self.local_endpoints.load(Ordering::Relaxed);
        let healthy = self.health.is_healthy(now);
        // The weight is sent with a 503 too: some load balancers read nothing else.
        let weight = count.to_string();
        let headers = [JSON, NOSNIFF, (WEIGHT, weight.as_str())];
        Reply::new(status(Verdict::when(count != 0 && healthy)), headers, body(&self.service, count, healthy))
    }
}

impl Site for Page {
    async fn answer(&self, _: Ask) -> Reply {
        self.state(Moment::now())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    service: Name<'a>,
    local_endpoints: usize,
    service_proxy_healthy: bool,
}

#[derive(Serialize)]
struct Name<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// JSON, indented with tabs, without a newline at the end.
fn body(service: &ServiceName, local_endpoints: usize, service_proxy_healthy: bool) -> Vec<u8> {
    let name = Name { namespace: &service.namespace, name: &service.name };
    let body = Body { service: name, local_endpoints, service_proxy_healthy };
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"\t"));
    // Writing to memory and plain fields cannot fail; if it ever did, the status would still be right.
    if body.serialize(&mut serializer).is_err() {
        text.clear();
    }
    text
}
