//! The relay on loopback: real sockets, and targets that behave badly.

pub(crate) mod tcp;
mod udp;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use crate::{Config, Counts, Listen, ListenerId, Origin, Relay, Targets, Transport};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A relay with one listener.
struct Stand {
    relay: Relay,
    id: ListenerId,
    address: SocketAddr,
}

impl Stand {
    fn new(transport: Transport, targets: &[SocketAddr]) -> Self {
        Self::with(config(), transport, to(targets))
    }

    fn with(config: Config, transport: Transport, targets: Targets) -> Self {
        let mut relay = Relay::start(config).unwrap();
        let listen = Listen { transport, address: ANYWHERE, origin: Origin::Any };
        let (id, address) = relay.open(&listen, targets).unwrap();
        Self { relay, id, address }
    }

    fn counts(&self) -> Counts {
        self.relay.counter()()
    }

    /// Waits until the numbers are so.
    fn wait_for(&self, what: &str, is_so: impl Fn(&Counts) -> bool) {
        eventually(what, || is_so(&self.counts()));
    }
}

fn config() -> Config {
    Config { open_files: 1 << 16, ..Config::default() }
}

fn to(targets: &[SocketAddr]) -> Targets {
    Targets { new: targets.to_vec(), ..Targets::default() }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
