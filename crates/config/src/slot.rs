//! The table of fields: where each YAML path lives, and what kind of value it takes.
//!
//! Reading, printing, flags and tests all go through this one table, so a field cannot be known to one and unknown to
//! another.

use std::collections::BTreeMap;

use crate::configuration::{
    ClientConnection, Configuration, Conntrack, FlushFrequency, Iptables, Ipvs, Logging, ModuleVerbosity,
    Nftables, Winkernel,
};
use crate::duration::GoDuration;
use crate::quantity::Quantity;

/// The place of one field.
#[derive(Debug)]
pub enum Slot<'a> {
    /// A text.
    Text(&'a mut String),
    /// A boolean.
    Switch(&'a mut bool),
    /// A boolean that may be absent.
    MaybeSwitch(&'a mut Option<bool>),
    /// A whole number of 32 bits.
    Number(&'a mut i32),
    /// The same, possibly absent.
    MaybeNumber(&'a mut Option<i32>),
    /// A number with a fraction.
    Float(&'a mut f32),
    /// A verbosity.
    Level(&'a mut u32),
    /// A duration.
    Duration(&'a mut GoDuration),
    /// The same, possibly absent.
    MaybeDuration(&'a mut Option<GoDuration>),
    /// A duration that may also be a number.
    Flush(&'a mut FlushFrequency),
    /// A list of texts, possibly absent.
    Texts(&'a mut Option<Vec<String>>),
    /// Names with booleans.
    Gates(&'a mut BTreeMap<String, bool>),
    /// Verbosities of files.
    Modules(&'a mut Vec<ModuleVerbosity>),
    /// A size in bytes.
    Size(&'a mut Quantity),
}

use Slot::{
    Duration, Float, Flush, Gates, Level, MaybeDuration, MaybeNumber, MaybeSwitch, Modules, Number, Size,
    Switch, Text, Texts,
};

/// Paths and places of some fields.
type Rows<'a, const N: usize> = [(&'static str, Slot<'a>); N];

impl Configuration {
    /// Every field with its YAML path, in the order of the paths.
    pub fn slots(&mut self) -> BTreeMap<&'static str, Slot<'_>> {
        let mut slots = BTreeMap::from([
            ("bindAddress", Text(&mut self.bind_address)),
            ("bindAddressHardFail", Switch(&mut self.bind_address_hard_fail)),
            ("clusterCIDR", Text(&mut self.cluster_cidr)),
            ("configSyncPeriod", Duration(&mut self.config_sync_period)),
            ("detectLocal.bridgeInterface", Text(&mut self.detect_local.bridge_interface)),
            ("detectLocal.interfaceNamePrefix", Text(&mut self.detect_local.interface_name_prefix)),
            ("detectLocalMode", Text(&mut self.detect_local_mode)),
            ("enableProfiling", Switch(&mut self.enable_profiling)),
            ("featureGates", Gates(&mut self.feature_gates)),
            ("healthzBindAddress", Text(&mut self.healthz_bind_address)),
            ("hostnameOverride", Text(&mut self.hostname_override)),
            ("metricsBindAddress", Text(&mut self.metrics_bind_address)),
            ("mode", Text(&mut self.mode)),
            ("nodePortAddresses", Texts(&mut self.node_port_addresses)),
            ("oomScoreAdj", MaybeNumber(&mut self.oom_score_adj)),
            ("portRange", Text(&mut self.port_range)),
            ("showHiddenMetricsForVersion", Text(&mut self.show_hidden_metrics_for_version)),
            ("windowsRunAsService", Switch(&mut self.windows_run_as_service)),
        ]);
        slots.extend(self.client_connection.slots());
        slots.extend(self.conntrack.slots());
        slots.extend(self.iptables.slots());
        slots.extend(self.ipvs.slots());
        slots.extend(self.logging.slots());
        slots.extend(self.nftables.slots());
        slots.extend(self.winkernel.slots());
        slots
    }
}

impl ClientConnection {
    fn slots(&mut self) -> Rows<'_, 5> {
        [
            ("clientConnection.acceptContentTypes", Text(&mut self.accept_content_types)),
            ("clientConnection.burst", Number(&mut self.burst)),
            ("clientConnection.contentType", Text(&mut self.content_type)),
            ("clientConnection.kubeconfig", Text(&mut self.kubeconfig)),
            ("clientConnection.qps", Float(&mut self.qps)),
        ]
    }
}

impl Conntrack {
    fn slots(&mut self) -> Rows<'_, 7> {
        [
            ("conntrack.maxPerCore", MaybeNumber(&mut self.max_per_core)),
            ("conntrack.min", MaybeNumber(&mut self.min)),
            ("conntrack.tcpBeLiberal", Switch(&mut self.tcp_be_liberal)),
            ("conntrack.tcpCloseWaitTimeout", MaybeDuration(&mut self.tcp_close_wait_timeout)),
            ("conntrack.tcpEstablishedTimeout", MaybeDuration(&mut self.tcp_established_timeout)),
            ("conntrack.udpStreamTimeout", Duration(&mut self.udp_stream_timeout)),
            ("conntrack.udpTimeout", Duration(&mut self.udp_timeout)),
        ]
    }
}

impl Iptables {
    fn slots(&mut self) -> Rows<'_, 5> {
        [
            ("iptables.localhostNodePorts", MaybeSwitch(&mut self.localhost_node_ports)),
            ("iptables.masqueradeAll", Switch(&mut self.masquerade_all)),
            ("iptables.masqueradeBit", MaybeNumber(&mut self.masquerade_bit)),
            ("iptables.minSyncPeriod", Duration(&mut self.min_sync_period)),
            ("iptables.syncPeriod", Duration(&mut self.sync_period)),
        ]
    }
}

impl Ipvs {
    fn slots(&mut self) -> Rows<'_, 8> {
        [
            ("ipvs.excludeCIDRs", Texts(&mut self.exclude_cidrs)),
            ("ipvs.minSyncPeriod", Duration(&mut self.min_sync_period)),
            ("ipvs.scheduler", Text(&mut self.scheduler)),
            ("ipvs.strictARP", Switch(&mut self.strict_arp)),
            ("ipvs.syncPeriod", Duration(&mut self.sync_period)),
            ("ipvs.tcpFinTimeout", Duration(&mut self.tcp_fin_timeout)),
            ("ipvs.tcpTimeout", Duration(&mut self.tcp_timeout)),
            ("ipvs.udpTimeout", Duration(&mut self.udp_timeout)),
        ]
    }
}

impl Logging {
    fn slots(&mut self) -> Rows<'_, 8> {
        [
            ("logging.flushFrequency", Flush(&mut self.flush_frequency)),
            ("logging.format", Text(&mut self.format)),
            ("logging.options.json.infoBufferSize", Size(&mut self.json.info_buffer_size)),
            ("logging.options.json.splitStream", Switch(&mut self.json.split_stream)),
            ("logging.options.text.infoBufferSize", Size(&mut self.text.info_buffer_size)),
            ("logging.options.text.splitStream", Switch(&mut self.text.split_stream)),
            ("logging.verbosity", Level(&mut self.verbosity)),
            ("logging.vmodule", Modules(&mut self.vmodule)),
        ]
    }
}

impl Nftables {
    fn slots(&mut self) -> Rows<'_, 4> {
        [
            ("nftables.masqueradeAll", Switch(&mut self.masquerade_all)),
            ("nftables.masqueradeBit", MaybeNumber(&mut self.masquerade_bit)),
            ("nftables.minSyncPeriod", Duration(&mut self.min_sync_period)),
            ("nftables.syncPeriod", Duration(&mut self.sync_period)),
        ]
    }
}

impl Winkernel {
    fn slots(&mut self) -> Rows<'_, 5> {
        [
            ("winkernel.enableDSR", Switch(&mut self.enable_dsr)),
            ("winkernel.forwardHealthCheckVip", Switch(&mut self.forward_health_check_vip)),
            ("winkernel.networkName", Text(&mut self.network_name)),
            ("winkernel.rootHnsEndpointName", Text(&mut self.root_hns_endpoint_name)),
            ("winkernel.sourceVip", Text(&mut self.source_vip)),
        ]
    }
}
