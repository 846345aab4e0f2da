//! The agent against a real API server: objects go in through the API, real packets come out. `make e2e` runs this.
//!
//! The agent has the rights of `system:node-proxier` and no others. What an operator should see is asked for with the requests that `kubectl`
//! makes for it, in plain HTTP: `kubectl` itself would be another program to build, and would show the same.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;
#[path = "e2e/all.rs"]
mod e2e;

#[path = "e2e_cluster/alerts.rs"]
mod alerts;
#[path = "e2e_cluster/changes.rs"]
mod changes;
#[path = "e2e_cluster/chart.rs"]
mod chart;
#[path = "e2e_cluster/crowd.rs"]
mod crowd;
#[path = "e2e_cluster/events.rs"]
mod events;
#[path = "e2e_cluster/faults.rs"]
mod faults;
#[path = "e2e_cluster/migration.rs"]
mod migration;
#[path = "e2e_cluster/named.rs"]
mod named;
#[path = "e2e_cluster/node.rs"]
mod node;
#[path = "e2e_cluster/on_cluster.rs"]
mod on_cluster;
#[path = "e2e_cluster/outage.rs"]
mod outage;
#[path = "e2e_cluster/role.rs"]
mod role;
#[path = "e2e_cluster/scenarios.rs"]
mod scenarios;
#[path = "e2e_cluster/too_old.rs"]
mod too_old;
