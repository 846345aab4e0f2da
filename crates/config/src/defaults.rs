//! What is not given, and what belongs to which mode.
//!
//! kube-proxy's order: read the file, fill in what is zero, pick the periods of the mode, then fill in what the
//! platform decides. With flags, the flags come after the filling in.

use crate::address;
use crate::configuration::{Configuration, Written};
use crate::duration::GoDuration;

/// Where health is served without a word about it.
pub const HEALTHZ_PORT: i32 = 10256;
/// Where metrics are served without a word about it.
pub const METRICS_PORT: i32 = 10249;

const SYNC_PERIOD: GoDuration = GoDuration::from_secs(30);
const MIN_SYNC_PERIOD: GoDuration = GoDuration::from_secs(1);

/// The two periods of the mode in use, and whether all cluster-IP traffic is masqueraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfMode {
    /// Time until a failed write is tried again.
    pub sync_period: GoDuration,
    /// Least time between two writes.
    pub min_sync_period: GoDuration,
    /// Which block of the file they are in.
    pub block: &'static str,
}

fn if_empty(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}

fn if_zero(duration: &mut GoDuration, default: GoDuration) {
    if *duration == GoDuration::ZERO {
        *duration = default;
    }
}

impl Configuration {
    /// What kube-proxy starts from: an empty file, or no flag at all.
    pub fn defaulted() -> Self {
        let mut configuration = Self::default();
        configuration.fill_in();
        configuration
    }

    /// Gives every field that is zero its default, as kube-proxy does when it reads a file.
    pub fn fill_in(&mut self) {
        self.fill_in_addresses();
        if_zero(&mut self.iptables.sync_period, SYNC_PERIOD);
        if_zero(&mut self.iptables.min_sync_period, MIN_SYNC_PERIOD);
        self.iptables.localhost_node_ports.get_or_insert(true);
        self.iptables.masquerade_bit.get_or_insert(14);
        if_zero(&mut self.ipvs.sync_period, SYNC_PERIOD);
        if_zero(&mut self.nftables.sync_period, SYNC_PERIOD);
        if_zero(&mut self.nftables.min_sync_period, MIN_SYNC_PERIOD);
        self.nftables.masquerade_bit.get_or_insert(14);
        self.oom_score_adj.get_or_insert(-999);
        self.conntrack.max_per_core.get_or_insert(32 * 1024);
        self.conntrack.min.get_or_insert(128 * 1024);
        self.conntrack.tcp_established_timeout.get_or_insert(GoDuration::from_secs(24 * 3600));
        self.conntrack.tcp_close_wait_timeout.get_or_insert(GoDuration::from_secs(3600));
        if_zero(&mut self.config_sync_period, GoDuration::from_secs(15 * 60));
        if_empty(&mut self.client_connection.content_type, "application/vnd.kubernetes.protobuf");
        if self.client_connection.qps == 0.0 {
            self.client_connection.qps = 5.0;
        }
        if self.client_connection.burst == 0 {
            self.client_connection.burst = 10;
        }
        if_empty(&mut self.logging.format, "text");
        if self.logging.flush_frequency.duration == GoDuration::ZERO {
            self.logging.flush_frequency.duration = GoDuration::from_secs(5);
            self.logging.flush_frequency.written = Written::AsText;
        }
    }

    /// An address that cannot be read counts as IPv6 here; the checks will name it.
    fn fill_in_addresses(&mut self) {
        if_empty(&mut self.bind_address, "0.0.0.0");
        let is_v4 = address::ip(&self.bind_address).is_some_and(|address| address.is_ipv4());
        let (healthz, metrics) = if is_v4 { ("0.0.0.0", "127.0.0.1") } else { ("::", "::1") };
        if_empty(&mut self.healthz_bind_address, healthz);
        if_empty(&mut self.metrics_bind_address, metrics);
        self.healthz_bind_address = address::with_port(&self.healthz_bind_address, HEALTHZ_PORT);
        self.metrics_bind_address = address::with_port(&self.metrics_bind_address, METRICS_PORT);
    }

    /// What kube-proxy decides on Linux once file and flags are in.
    pub fn fill_in_for_linux(&mut self) {
        if_empty(&mut self.mode, "iptables");
        let has_addresses = self.node_port_addresses.as_ref().is_some_and(|list| !list.is_empty());
        if self.mode == "nftables" && !has_addresses {
            self.node_port_addresses = Some(vec!["primary".to_owned()]);
        }
        if_empty(&mut self.detect_local_mode, "ClusterCIDR");
    }

    /// The periods of the mode in use.
    pub fn of_mode(&self) -> OfMode {
        let (sync_period, min_sync_period, block) = match self.mode.as_str() {
            "ipvs" => (self.ipvs.sync_period, self.ipvs.min_sync_period, "ipvs"),
            "nftables" => (self.nftables.sync_period, self.nftables.min_sync_period, "nftables"),
            _ => (self.iptables.sync_period, self.iptables.min_sync_period, "iptables"),
        };
        OfMode { sync_period, min_sync_period, block }
    }

    /// True if all cluster-IP traffic is masqueraded. ipvs mode takes the word of the block of iptables mode.
    pub fn masquerades_all(&self) -> bool {
        if self.mode == "nftables" { self.nftables.masquerade_all } else { self.iptables.masquerade_all }
    }

    /// Forgets what the mode in use does not look at, as kube-proxy does when it takes a file over.
    pub fn keep_only_the_mode(&mut self) {
        let (kept, all) = (self.of_mode(), self.masquerades_all());
        self.iptables.masquerade_all = false;
        self.nftables.masquerade_all = false;
        for (sync, min) in [
            (&mut self.iptables.sync_period, &mut self.iptables.min_sync_period),
            (&mut self.ipvs.sync_period, &mut self.ipvs.min_sync_period),
            (&mut self.nftables.sync_period, &mut self.nftables.min_sync_period),
        ] {
            (*sync, *min) = (GoDuration::ZERO, GoDuration::ZERO);
        }
        self.set_of_mode(kept.sync_period, kept.min_sync_period, all);
    }

    /// Sets the periods of the mode in use and whether all cluster-IP traffic is masqueraded.
    fn set_of_mode(&mut self, sync_period: GoDuration, min_sync_period: GoDuration, masquerade_all: bool) {
        let (sync, min) = match self.mode.as_str() {
            "ipvs" => (&mut self.ipvs.sync_period, &mut self.ipvs.min_sync_period),
            "nftables" => (&mut self.nftables.sync_period, &mut self.nftables.min_sync_period),
            _ => (&mut self.iptables.sync_period, &mut self.iptables.min_sync_period),
        };
        (*sync, *min) = (sync_period, min_sync_period);
        let all = match self.mode.as_str() {
            "nftables" => &mut self.nftables.masquerade_all,
            _ => &mut self.iptables.masquerade_all,
        };
        *all = masquerade_all;
    }

    /// Lays periods and masquerading that came as flags, which name no mode, into the block of the mode in use.
    pub fn take_flags_of_mode(&mut self, given: FlagsOfMode) {
        let sync_period = given.sync_period.unwrap_or(SYNC_PERIOD);
        let min_sync_period = given.min_sync_period.unwrap_or(MIN_SYNC_PERIOD);
        self.set_of_mode(sync_period, min_sync_period, given.masquerade_all.unwrap_or_default());
        self.keep_only_the_mode();
    }
}

/// Flags whose field depends on the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagsOfMode {
    /// `--iptables-sync-period`, or `--ipvs-sync-period` in ipvs mode.
    pub sync_period: Option<GoDuration>,
    /// `--iptables-min-sync-period`, or `--ipvs-min-sync-period` in ipvs mode.
    pub min_sync_period: Option<GoDuration>,
    /// `--masquerade-all`.
    pub masquerade_all: Option<bool>,
}
