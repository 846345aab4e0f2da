//! What happens to traffic while things change: endpoints and Services come and go, other programs flush tables, the proxy is killed,
//! restores fail. Real packets, every mode.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

#[path = "lab_changes/addresses.rs"]
mod addresses;
#[path = "lab_changes/endpoints.rs"]
mod endpoints;
#[path = "lab_changes/flows.rs"]
mod flows;
#[path = "lab_changes/flush.rs"]
mod flush;
#[path = "lab_changes/restart.rs"]
mod restart;
#[path = "lab_changes/restore.rs"]
mod restore;
#[path = "lab_changes/services.rs"]
mod services;
