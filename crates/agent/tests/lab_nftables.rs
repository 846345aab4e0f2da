//! nftables mode beyond scenarios and what all modes share: harm by other programs, restarts, taking over from other proxies and modes,
//! many changes, refusals. `nft` only looks on, or plays the other program.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

#[path = "lab_nftables/churn.rs"]
mod churn;
#[path = "lab_nftables/faults.rs"]
mod faults;
#[path = "lab_nftables/growth.rs"]
mod growth;
#[path = "lab_nftables/heal.rs"]
mod heal;
#[path = "lab_nftables/others.rs"]
mod others;
#[path = "lab_nftables/restart.rs"]
mod restart;
#[path = "lab_nftables/takeover.rs"]
mod takeover;

use switchyard_lab::Host;

/// Repairs, by family.
const REPAIRED: &str = "switchyard_rules_repaired_total";

/// Runs a script of nft, which must succeed.
fn nft(host: &Host, script: &str) {
    let output = host.feed("nft", &["-f", "-"], script.as_bytes()).unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
