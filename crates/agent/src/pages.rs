//! What the agent tells about itself on the metrics server, besides metrics.

use switchyard_netlink::nfacct::Accounts;
use switchyard_plan::iptables::base::{INVALID_COUNTER, LOOPBACK_COUNTER};
use switchyard_serve::metrics::{Feature, PacketCounts, Stage};
use switchyard_serve::server::{Pages, Statusz};

use crate::sync::with_causes;

/// The Kubernetes minor version whose kube-proxy this program stands for.
const STANDS_FOR: &str = "1.36";

/// The pages of an agent in this mode.
pub fn pages(mode: &str) -> Pages {
    Pages {
        mode: mode.to_owned(),
        config: String::new(),
        flags: None,
        status: Some(Statusz { toolchain: toolchain(), version: STANDS_FOR.to_owned() }),
        profiling: None,
    }
}

/// The compiler's oldest version that builds this program, which is all that the program knows of it.
fn toolchain() -> String {
    format!("rustc {}", env!("CARGO_PKG_RUST_VERSION"))
}

/// The feature gates whose features this program has, for good or by default.
pub fn features() -> Vec<Feature> {
    let gates = [
        ("ComponentStatusz", Stage::Beta),
        ("MultiCIDRServiceAllocator", Stage::Stable),
        ("NFTablesProxyMode", Stage::Stable),
        ("PreferSameTrafficDistribution", Stage::Stable),
    ];
    gates.map(|(name, stage)| Feature { name: name.to_owned(), stage, is_enabled: true }).into()
}

/// What the kernel counted for rules of iptables mode; nothing where it cannot count or be asked.
pub fn packet_counts() -> PacketCounts {
    let mut accounts = match Accounts::open() {
        Ok(accounts) => accounts,
        Err(error) => {
            tracing::debug!(cause = %with_causes(&error), "no packet counters");
            return PacketCounts::default();
        }
    };
    let mut packets = |name| match accounts.packets(name) {
        Ok(packets) => packets,
        Err(error) => {
            tracing::debug!(cause = %with_causes(&error), name, "a packet counter cannot be read");
            None
        }
    };
    PacketCounts { invalid_dropped: packets(INVALID_COUNTER), loopback_accepted: packets(LOOPBACK_COUNTER) }
}
