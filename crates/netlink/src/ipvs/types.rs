//! Virtual servers and destinations as values.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

/// What identifies a virtual server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId {
    /// Its address.
    pub address: IpAddr,
    /// Its transport protocol, as numbered in IP headers.
    pub protocol: u8,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = SocketAddr::new(self.address, self.port);
        match self.protocol {
            6 => write!(f, "{at}/tcp"),
            17 => write!(f, "{at}/udp"),
            132 => write!(f, "{at}/sctp"),
            other => write!(f, "{at}/{other}"),
        }
    }
}

/// Options of a virtual server, besides persistence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceFlags(pub u32);

impl ServiceFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The scheduler `mh` takes the source port into account (`IP_VS_SVC_F_SCHED_MH_PORT`).
    pub const MH_PORT: Self = Self(0x10);
}

/// Whether a client stays with its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Persistence {
    /// It does not.
    None,
    /// For this many seconds after its last connection.
    Seconds(NonZeroU32),
}

/// A virtual server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// Which.
    pub id: ServiceId,
    /// The name of its scheduler.
    pub scheduler: String,
    /// Its options.
    pub flags: ServiceFlags,
    /// Whether clients stay.
    pub persistence: Persistence,
}

/// How packets get to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Forwarding {
    /// With a translated destination (`IP_VS_CONN_F_MASQ`).
    Masquerade,
    /// In another way, by the kernel's number.
    Other(u32),
}

/// Where a virtual server sends packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Which; unique within a virtual server.
    pub at: SocketAddr,
    /// Its share of new connections; none with zero.
    pub weight: u32,
    /// How packets get there.
    pub forwarding: Forwarding,
}

/// A destination as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listed {
    /// What it is.
    pub destination: Destination,
    /// Connections that are established.
    pub active: u32,
    /// Connections in any other state.
    pub inactive: u32,
}

/// How long idle connections are kept, in seconds. When set, zero leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP.
    pub tcp: u32,
    /// TCP after a FIN.
    pub tcp_fin: u32,
    /// UDP.
    pub udp: u32,
}

/// What IPVS says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Major, minor and patch number.
    pub version: (u8, u8, u8),
    /// Size of the table of connections.
    pub table_size: u32,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// A virtual server that does not exist.
    AddService(Service),
    /// Scheduler and options of one that does; its destinations stay.
    SetService(Service),
    /// Removes a virtual server with its destinations.
    DeleteService(ServiceId),
    /// A destination that does not exist.
    AddDestination(ServiceId, Destination),
    /// Weight of one that does.
    SetDestination(ServiceId, Destination),
    /// Removes a destination.
    DeleteDestination(ServiceId, SocketAddr),
}

impl Command {
    /// The virtual server that it is about.
    pub fn service(&self) -> ServiceId {
        match self {
            Self::AddService(service) | Self::SetService(service) => service.id,
            Self::DeleteService(id)
            | Self::AddDestination(id, _)
            | Self::SetDestination(id, _)
            | Self::DeleteDestination(id, _) => *id,
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddService(s) => write!(f, "add virtual server {} {}", s.id, s.scheduler),
            Self::SetService(s) => write!(f, "set virtual server {} {}", s.id, s.scheduler),
            Self::DeleteService(id) => write!(f, "delete virtual server {id}"),
            Self::AddDestination(id, d) => write!(f, "add destination {} of {id}", d.at),
            Self::SetDestination(id, d) => write!(f, "set weight {} of {} of {id}", d.weight, d.at),
            Self::DeleteDestination(id, at) => write!(f, "delete destination {at} of {id}"),
        }
    }
}
