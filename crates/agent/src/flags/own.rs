//! Flags that no configuration file has a field for, or whose field depends on the mode.

use std::collections::BTreeMap;

use switchyard_config::GoDuration;
use switchyard_config::slot::Slot;

/// Where Services of manifests get cluster IPs from unless the operator says otherwise.
const DEFAULT_SERVICE_RANGES: &str = "10.96.0.0/12,fd00:10:96::/112";

/// The same as values.
pub fn default_service_ranges() -> Vec<ipnet::IpNet> {
    DEFAULT_SERVICE_RANGES.split(',').filter_map(|range| range.parse().ok()).collect()
}

/// The values of these flags.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Own {
    pub(super) admin_socket: String,
    pub(super) boot_id_file: String,
    pub(super) cleanup: bool,
    pub(super) config: String,
    pub(super) enable_ui: bool,
    pub(super) healthz_port: i32,
    pub(super) hostname_override: String,
    pub(super) init_only: bool,
    pub(super) iptables_backend: String,
    pub(super) iptables_min_sync_period: GoDuration,
    pub(super) iptables_sync_period: GoDuration,
    pub(super) ipvs_min_sync_period: GoDuration,
    pub(super) ipvs_sync_period: GoDuration,
    pub(super) machine_id_file: String,
    pub(super) manifests: String,
    pub(super) masquerade_all: bool,
    pub(super) master: String,
    pub(super) metrics_port: i32,
    pub(super) service_cluster_ip_range: String,
    pub(super) version: String,
    pub(super) write_config_to: String,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            admin_socket: super::ADMIN_SOCKET.to_owned(),
            boot_id_file: "/proc/sys/kernel/random/boot_id".to_owned(),
            cleanup: false,
            config: String::new(),
            enable_ui: false,
            healthz_port: 10256,
            hostname_override: String::new(),
            init_only: false,
            iptables_backend: "auto".to_owned(),
            iptables_min_sync_period: GoDuration::from_secs(1),
            iptables_sync_period: GoDuration::from_secs(30),
            ipvs_min_sync_period: GoDuration::from_secs(1),
            ipvs_sync_period: GoDuration::from_secs(30),
            machine_id_file: "/etc/machine-id,/var/lib/dbus/machine-id".to_owned(),
            manifests: String::new(),
            masquerade_all: false,
            master: String::new(),
            metrics_port: 10249,
            service_cluster_ip_range: DEFAULT_SERVICE_RANGES.to_owned(),
            version: "false".to_owned(),
            write_config_to: String::new(),
        }
    }
}

impl Own {
    /// The places of the values, by the names of the flags.
    pub(super) fn slots(&mut self) -> BTreeMap<&'static str, Slot<'_>> {
        BTreeMap::from([
            ("admin-socket", Slot::Text(&mut self.admin_socket)),
            ("boot-id-file", Slot::Text(&mut self.boot_id_file)),
            ("cleanup", Slot::Switch(&mut self.cleanup)),
            ("config", Slot::Text(&mut self.config)),
            ("enable-ui", Slot::Switch(&mut self.enable_ui)),
            ("healthz-port", Slot::Number(&mut self.healthz_port)),
            ("hostname-override", Slot::Text(&mut self.hostname_override)),
            ("init-only", Slot::Switch(&mut self.init_only)),
            ("iptables-backend", Slot::Text(&mut self.iptables_backend)),
            ("iptables-min-sync-period", Slot::Duration(&mut self.iptables_min_sync_period)),
            ("iptables-sync-period", Slot::Duration(&mut self.iptables_sync_period)),
            ("ipvs-min-sync-period", Slot::Duration(&mut self.ipvs_min_sync_period)),
            ("ipvs-sync-period", Slot::Duration(&mut self.ipvs_sync_period)),
            ("machine-id-file", Slot::Text(&mut self.machine_id_file)),
            ("manifests", Slot::Text(&mut self.manifests)),
            ("masquerade-all", Slot::Switch(&mut self.masquerade_all)),
            ("master", Slot::Text(&mut self.master)),
            ("metrics-port", Slot::Number(&mut self.metrics_port)),
            ("service-cluster-ip-range", Slot::Text(&mut self.service_cluster_ip_range)),
            ("version", Slot::Text(&mut self.version)),
            ("write-config-to", Slot::Text(&mut self.write_config_to)),
        ])
    }
}
