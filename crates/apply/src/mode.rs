//! What every mode offers to the loop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use ipnet::IpNet;
use switchyard_model::ServicePortName;
use switchyard_plan::book::{Book, PortChanges};
use switchyard_plan::explain::{Explanation, Manners};
use switchyard_plan::iptables::RuleCounts;
use switchyard_plan::route::Frontend;
use switchyard_plan::settings::Settings;
use switchyard_plan::trace::Packet;

use crate::diff::Difference;
use crate::report::{Failure, Progress, Report};

/// One way to hold the routes of one family in a kernel. Synchronous, and called by one thread only: a network
/// namespace belongs to a thread, and kernels answer in order.
pub trait Mode: Send {
    /// What should be served.
    fn book(&self) -> &Book;

    /// How much the kernel holds, and how many service ports are silent on this node.
    fn counts(&self) -> RuleCounts;

    /// Service ports with more endpoints than this mode can serve, and how many get no traffic for it.
    fn left_out(&self) -> &BTreeMap<ServicePortName, usize> {
        const { &BTreeMap::new() }
    }

    /// Service ports of which something cannot be served on this node, and why; it is tried again with the next sync.
    fn set_aside(&self) -> &BTreeMap<ServicePortName, String> {
        const { &BTreeMap::new() }
    }

    /// Where clients of this host dial the frontends of a service port instead, if no rule leads from there to anywhere.
    fn stand_ins(&self, _port: &ServicePortName) -> Vec<(Frontend, SocketAddr)> {
        Vec::new()
    }

    /// By which frontends and endpoints the kernel's flows are judged; `None` if the kernel translates nothing for us.
    fn translated(&self) -> Option<&Book> {
        Some(self.book())
    }

    /// Replaces facts and wishes; the next sync is a full one if they differ.
    fn settle(&mut self, settings: Settings);

    /// Replaces the ranges from which cluster IPs are given out, of both families. Only nftables mode has rules for
    /// addresses in them that no Service has; there the next sync is a full one if those of its family differ.
    fn allocate_from(&mut self, _ranges: &[IpNet]) {}

    /// What this mode does with packets beyond routes.
    fn manners(&self) -> Manners<'_> {
        Manners::Lenient
    }

    /// What the kernel holds against what the book asks for. Reads, and changes nothing.
    fn difference(&self) -> Result<Difference, Failure>;

    /// What in the kernel carries a packet that was explained, or refuses it, one line each, as planned.
    fn means(&self, _explanation: &Explanation<'_>, _packet: &Packet) -> Vec<String> {
        Vec::new()
    }

    /// Somebody else changed what we wrote: the next sync is a full one.
    fn distrust(&mut self);

    /// True if the next sync will be a full one even without changes.
    fn needs_full_sync(&self, now: Instant) -> bool;

    /// Brings the kernel to what `changes` ask for. After a failure the next sync assumes nothing about the kernel.
    fn sync(&mut self, now: Instant, changes: PortChanges, progress: &mut dyn FnMut(Progress)) -> Report;
}
