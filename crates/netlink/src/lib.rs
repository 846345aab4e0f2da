//! Message bytes and sockets for the parts of the kernel that a service proxy talks to.
//!
//! In: typed requests. Out: typed replies, streamed where the kernel may hold many. Nothing here knows what a service is.
//!
//! | module | talks about |
//! |---|---|
//! | [`socket`] | requests, acknowledgements and dumps over one blocking socket |
//! | [`message`], [`attribute`] | writing and reading message bytes |
//! | [`conntrack`] | flows: list with a filter, delete one |
//! | [`monitor`] | who changed nf_tables, as it happens |
//! | [`nfacct`] | named packet counters |
//! | [`nftables`] | tables, chains, rules, sets and elements: transactions and dumps |
//! | [`ipset`] | what another proxy left there |
//! | [`ipvs`] | virtual servers and their destinations |
//! | [`route`] | links, addresses, routes |
//! | [`netns`] | private network namespaces held by a file descriptor |
//!
//! Invariants
//! - A socket belongs to the network namespace of the thread that opened it, for ever.
//! - Bytes from the kernel are never indexed: a short or malformed reply is a [`NetlinkError`], never a panic.
//! - Only messages sent by the kernel itself are read; a datagram from another process is ignored.

pub mod attribute;
pub mod conntrack;
mod error;
pub mod ipset;
pub mod ipvs;
pub mod message;
pub mod monitor;
pub mod netns;
pub mod nfacct;
pub mod nftables;
pub mod route;
pub mod socket;

#[cfg(test)]
mod testing;

pub use error::{Malformed, NetlinkError};

/// An IP family, as the kernel numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4 (`AF_INET`).
    V4,
    /// IPv6 (`AF_INET6`).
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: std::net::IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The kernel's number: 2 or 10.
    pub fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    /// The family with this number, if it is an IP family.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            2 => Some(Self::V4),
            10 => Some(Self::V6),
            _ => None,
        }
    }

    /// Bits in an address of this family: 32 or 128.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}
