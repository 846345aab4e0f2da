//! Switchyard beside upstream's kube-proxy: the same objects of one real API server, each in its own lab on a node of the same name and
//! addresses. `make parity` runs this.
//!
//! - [`scenarios`]: iptables mode writes the same rules, rule by rule; in nftables mode packets fare the same, and in userspace mode, but for
//!   what a relay cannot do.
//! - [`random`]: the same for random Services, without userspace mode.
//! - [`pages`]: health, health-check node ports, metrics and the other pages are the same.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends at the first surprise"
)]

#[macro_use]
#[path = "common/all.rs"]
mod common;
#[path = "e2e/all.rs"]
mod e2e;

#[path = "e2e_parity/cases.rs"]
mod cases;
#[path = "e2e_parity/http.rs"]
mod http;
#[path = "e2e_parity/metrics.rs"]
mod metrics;
#[path = "e2e_parity/packets.rs"]
mod packets;
#[path = "e2e_parity/pages.rs"]
mod pages;
#[path = "e2e_parity/peers.rs"]
mod peers;
#[path = "e2e_parity/probes.rs"]
mod probes;
#[path = "e2e_parity/random.rs"]
mod random;
#[path = "e2e_parity/relay.rs"]
mod relay;
#[path = "e2e_parity/rules.rs"]
mod rules;
#[path = "e2e_parity/scenarios.rs"]
mod scenarios;
#[path = "e2e_parity/sources.rs"]
mod sources;
#[path = "e2e_parity/sticky.rs"]
mod sticky;
#[path = "e2e_parity/tally.rs"]
mod tally;
