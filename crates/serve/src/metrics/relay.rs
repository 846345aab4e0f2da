//! What the relay of userspace mode did, asked for when a page is made.

use super::Metrics;
use super::text::{Exposition, Labels};

/// What passed through this process, and what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// TCP connections that run.
    pub open_connections: u64,
    /// TCP connections that were accepted.
    pub connections: u64,
    /// Attempts to reach another endpoint after one failed.
    pub retries: u64,
    /// TCP connections for which no endpoint could be reached.
    pub unreachable: u64,
    /// TCP connections that were turned away: nobody may answer, or nobody led them here.
    pub refused: u64,
    /// TCP connections and UDP flows that were refused because too many files are open.
    pub out_of_descriptors: u64,
    /// UDP flows that run.
    pub open_flows: u64,
    /// UDP flows that were opened.
    pub flows: u64,
    /// UDP flows that ended because others needed the room.
    pub evicted_flows: u64,
    /// UDP datagrams that were lost here.
    pub lost_datagrams: u64,
}

/// Asks the relay for [`RelayCounts`], each time a page is made.
pub type CountRelayed = Box<dyn Fn() -> RelayCounts + Send + Sync>;

impl Metrics {
    /// Where relayed connections are counted. Only the first call counts.
    pub fn relay_counted(&self, count: CountRelayed) {
        // A second caller would be a mistake without harm.
        let _ = self.relay.set(count);
    }
}

/// Adds the samples of a process that relays; nothing for one that does not.
pub(super) fn write(page: &mut Exposition, count: Option<&CountRelayed>) {
    let Some(count) = count else { return };
    let counts = count();
    let one = |page: &mut Exposition, name: &'static str, kind: &str, help: &str, value: u64| {
        page.block(name, kind, help, |samples| samples.integer("", &Labels::default(), value));
    };
    let open = "TCP connections that are relayed now.";
    one(page, "switchyard_relay_open_connections", "gauge", open, counts.open_connections);
    let flows = "UDP flows that are relayed now.";
    one(page, "switchyard_relay_open_flows", "gauge", flows, counts.open_flows);
    for (name, help, value) in [
        ("switchyard_relay_connections_total", "TCP connections accepted.", counts.connections),
        ("switchyard_relay_retries_total", "Attempts to reach another endpoint.", counts.retries),
        ("switchyard_relay_flows_total", "UDP flows opened.", counts.flows),
        ("switchyard_relay_evicted_flows_total", "UDP flows ended early.", counts.evicted_flows),
        ("switchyard_relay_lost_datagrams_total", "UDP datagrams lost in the relay.", counts.lost_datagrams),
    ] {
        one(page, name, "counter", help, value);
    }
    let help = "TCP connections and UDP flows that were refused.";
    page.block("switchyard_relay_refused_total", "counter", help, |samples| {
        for (reason, value) in [
            ("no_endpoint", counts.refused),
            ("out_of_descriptors", counts.out_of_descriptors),
            ("unreachable", counts.unreachable),
        ] {
            samples.integer("", &Labels::new("reason", reason), value);
        }
    });
}
