//! The fields of KubeProxyConfiguration v1alpha1.
//!
//! Values are as written: texts stay texts until the checks have seen them, so that whatever can be written can be
//! held, printed and read again. `Default` is Go's zero value; [`Configuration::defaulted`] is what kube-proxy starts
//! from.

use std::collections::BTreeMap;

use crate::duration::GoDuration;
use crate::quantity::Quantity;

/// The configuration of a proxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// `featureGates`
    pub feature_gates: BTreeMap<String, bool>,
    /// `clientConnection`
    pub client_connection: ClientConnection,
    /// `logging`
    pub logging: Logging,
    /// `hostnameOverride`
    pub hostname_override: String,
    /// `bindAddress`
    pub bind_address: String,
    /// `healthzBindAddress`; empty means that health is not served.
    pub healthz_bind_address: String,
    /// `metricsBindAddress`
    pub metrics_bind_address: String,
    /// `bindAddressHardFail`
    pub bind_address_hard_fail: bool,
    /// `enableProfiling`
    pub enable_profiling: bool,
    /// `showHiddenMetricsForVersion`
    pub show_hidden_metrics_for_version: String,
    /// `mode`
    pub mode: String,
    /// `iptables`
    pub iptables: Iptables,
    /// `ipvs`
    pub ipvs: Ipvs,
    /// `nftables`
    pub nftables: Nftables,
    /// `winkernel`
    pub winkernel: Winkernel,
    /// `detectLocalMode`
    pub detect_local_mode: String,
    /// `detectLocal`
    pub detect_local: DetectLocal,
    /// `clusterCIDR`: ranges with commas between them.
    pub cluster_cidr: String,
    /// `nodePortAddresses`; nothing and an empty list mean the same, and are printed differently.
    pub node_port_addresses: Option<Vec<String>>,
    /// `oomScoreAdj`
    pub oom_score_adj: Option<i32>,
    /// `conntrack`
    pub conntrack: Conntrack,
    /// `configSyncPeriod`
    pub config_sync_period: GoDuration,
    /// `portRange`; has no effect.
    pub port_range: String,
    /// `windowsRunAsService`; has no effect on Linux.
    pub windows_run_as_service: bool,
}

/// How to talk to the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConnection {
    /// `kubeconfig`
    pub kubeconfig: String,
    /// `acceptContentTypes`
    pub accept_content_types: String,
    /// `contentType`
    pub content_type: String,
    /// `qps`
    pub qps: f32,
    /// `burst`
    pub burst: i32,
}

/// How to log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logging {
    /// `format`
    pub format: String,
    /// `flushFrequency`
    pub flush_frequency: FlushFrequency,
    /// `verbosity`
    pub verbosity: u32,
    /// `vmodule`
    pub vmodule: Vec<ModuleVerbosity>,
    /// `options.text`
    pub text: LogStream,
    /// `options.json`
    pub json: LogStream,
}

/// A duration that may also be written as a number of nanoseconds, and is printed as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlushFrequency {
    /// The time.
    pub duration: GoDuration,
    /// How it was written.
    pub written: Written,
}

/// How a duration was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// As `5s`.
    #[default]
    AsText,
    /// As `5000000000`.
    AsNanos,
}

/// The verbosity of some source files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModuleVerbosity {
    /// `filePattern`
    pub file_pattern: String,
    /// `verbosity`
    pub verbosity: u32,
}

/// Where the lines of one format go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogStream {
    /// `splitStream`
    pub split_stream: bool,
    /// `infoBufferSize`
    pub info_buffer_size: Quantity,
}

/// Settings of iptables mode; some are those of ipvs mode too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Iptables {
    /// `masqueradeBit`
    pub masquerade_bit: Option<i32>,
    /// `masqueradeAll`
    pub masquerade_all: bool,
    /// `localhostNodePorts`
    pub localhost_node_ports: Option<bool>,
    /// `syncPeriod`
    pub sync_period: GoDuration,
    /// `minSyncPeriod`
    pub min_sync_period: GoDuration,
}

/// Settings of ipvs mode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ipvs {
    /// `syncPeriod`
    pub sync_period: GoDuration,
    /// `minSyncPeriod`
    pub min_sync_period: GoDuration,
    /// `scheduler`
    pub scheduler: String,
    /// `excludeCIDRs`
    pub exclude_cidrs: Option<Vec<String>>,
    /// `strictARP`
    pub strict_arp: bool,
    /// `tcpTimeout`
    pub tcp_timeout: GoDuration,
    /// `tcpFinTimeout`
    pub tcp_fin_timeout: GoDuration,
    /// `udpTimeout`
    pub udp_timeout: GoDuration,
}

/// Settings of nftables mode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nftables {
    /// `masqueradeBit`
    pub masquerade_bit: Option<i32>,
    /// `masqueradeAll`
    pub masquerade_all: bool,
    /// `syncPeriod`
    pub sync_period: GoDuration,
    /// `minSyncPeriod`
    pub min_sync_period: GoDuration,
}

/// Settings of Windows nodes; none has an effect on Linux.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Winkernel {
    /// `networkName`
    pub network_name: String,
    /// `sourceVip`
    pub source_vip: String,
    /// `enableDSR`
    pub enable_dsr: bool,
    /// `rootHnsEndpointName`
    pub root_hns_endpoint_name: String,
    /// `forwardHealthCheckVip`
    pub forward_health_check_vip: bool,
}

/// How local pods are told, where that is by interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectLocal {
    /// `bridgeInterface`
    pub bridge_interface: String,
    /// `interfaceNamePrefix`
    pub interface_name_prefix: String,
}

/// Settings of the kernel's connection tracking. Zero leaves a setting alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conntrack {
    /// `maxPerCore`
    pub max_per_core: Option<i32>,
    /// `min`
    pub min: Option<i32>,
    /// `tcpEstablishedTimeout`
    pub tcp_established_timeout: Option<GoDuration>,
    /// `tcpCloseWaitTimeout`
    pub tcp_close_wait_timeout: Option<GoDuration>,
    /// `tcpBeLiberal`
    pub tcp_be_liberal: bool,
    /// `udpTimeout`
    pub udp_timeout: GoDuration,
    /// `udpStreamTimeout`
    pub udp_stream_timeout: GoDuration,
}
