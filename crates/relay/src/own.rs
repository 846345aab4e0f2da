//! The relay's own addresses: a target that is one of them would be relayed to itself, without end.
//!
//! In: listeners that come and go. Out: whether a target is one of them, and sockets towards those that are not.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{PoisonError, RwLock};

use socket2::SockRef;

use crate::relay::{Shared, Transport};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Own {
    listeners: RwLock<HashSet<(Transport, SocketAddr)>>,
}

impl Own {
    pub(crate) fn add(&self, listener: (Transport, SocketAddr)) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).insert(listener);
    }

    pub(crate) fn remove(&self, listener: (Transport, SocketAddr)) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).remove(&listener);
    }

    fn has(&self, transport: Transport, target: SocketAddr) -> bool {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        listeners.contains(&(transport, arrival(target)))
    }
}

impl Shared {
    /// What is done with each socket before it is connected to a target.
    ///
    /// # Errors
    /// The target is the relay itself, or the kernel does not let this process mark the socket as its own.
    pub(crate) fn prepare(
        &self,
        socket: &impl AsFd,
        transport: Transport,
        target: SocketAddr,
    ) -> io::Result<()> {
        if self.own.has(transport, target) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        match self.config.priority {
            Some(priority) => SockRef::from(socket).set_priority(priority),
            None => Ok(()),
        }
    }
}

/// Where a connection to an address arrives.
fn arrival(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Config;

    #[test]
    fn its_own_addresses_are_known_by_all_their_names() {
        let own = Own::default();
        for at in ["127.0.0.1:80", "[::1]:81"] {
            own.add((Transport::Tcp, at.parse().unwrap()));
        }
        let is_own = |at: &str| own.has(Transport::Tcp, at.parse().unwrap());
        for at in ["127.0.0.1:80", "0.0.0.0:80", "[::ffff:127.0.0.1]:80", "[::ffff:0.0.0.0]:80", "[::]:81"] {
            assert!(is_own(at), "{at}");
        }
        for at in ["127.0.0.1:81", "127.0.0.2:80", "[::1]:80"] {
            assert!(!is_own(at), "{at}");
        }
        assert!(!own.has(Transport::Udp, "127.0.0.1:80".parse().unwrap()));
        own.remove((Transport::Tcp, "127.0.0.1:80".parse().unwrap()));
        assert!(!is_own("127.0.0.1:80"));
    }

    #[test]
    fn the_kernel_can_tell_sockets_towards_targets() {
        // One that takes no privilege.
        let shared = Shared::new(Config { priority: Some(6), ..Config::default() });
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        shared.prepare(&socket, Transport::Udp, "127.0.0.1:9".parse().unwrap()).unwrap();
        assert_eq!(SockRef::from(&socket).priority().unwrap(), 6);
    }
}
