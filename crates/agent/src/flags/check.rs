//! From the texts of all flags to [`Config`], with every problem found on the way.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use switchyard_plan::settings::{LoopbackNodePorts, MasqueradeClusterIp};

use super::boolean::Boolean;
use super::{
    Config, Flags, IptablesBackend, LocalMode, Mode, NodePortRanges, OnBindFailure, Source, Task, value,
};
use crate::logging::{Format, Logging};

/// What is wrong, one line per problem: flag, value, what is allowed.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    /// Notes a problem.
    fn add(&mut self, flag: &str, value: &str, problem: &str) {
        self.0.push(format!("--{flag}=\"{}\": {problem}", value.escape_debug()));
    }

    /// The value, or a note why there is none.
    fn take<T>(&mut self, flag: &str, value: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.add(flag, value, &problem)).ok()
    }

    /// One of two values.
    fn either<T>(&mut self, flag: &str, value: &Boolean, yes: T, no: T) -> Option<T> {
        let read = value.read().ok_or_else(|| "must be true or false".to_owned());
        self.take(flag, value.as_text(), read).map(|is_set| if is_set { yes } else { no })
    }
}

impl Flags {
    /// Types and checks all flags. An error is one line per problem; nothing of the command line is used then.
    pub fn check(self) -> Result<Config, Vec<String>> {
        let mut problems = Problems::default();
        for (flag, value, reason) in self.compat.refused() {
            problems.add(flag, value, reason);
        }
        match self.typed(&mut problems) {
            Some(config) if problems.0.is_empty() => Ok(config),
            _ => Err(problems.0),
        }
    }

    /// Every field is read before the first missing one ends it, so that no problem hides another.
    fn typed(&self, p: &mut Problems) -> Option<Config> {
        use LoopbackNodePorts::{Refused, Served};
        use MasqueradeClusterIp::{All, FromOutside};
        let _version =
            self.version_text().is_some() || p.either("version", &self.version, true, false).is_some();
        let task = p.either("cleanup", &self.cleanup, Task::Cleanup, Task::Proxy);
        let source = self.source(p);
        let service_ranges = self.service_ranges(p);
        let hostname_override = self.hostname_override(p);
        let bind_address =
            p.take("bind-address", &self.bind_address, value::bind_address(&self.bind_address));
        let given = self.nodeport_addresses.join(",");
        let node_ports =
            p.take("nodeport-addresses", &given, value::node_port_ranges(&self.nodeport_addresses));
        let local_mode = self.local_mode(p);
        let mode = p.take("proxy-mode", &self.proxy_mode, mode(&self.proxy_mode));
        let masquerade = p.either("masquerade-all", &self.masquerade_all, All, FromOutside);
        let periods = self.periods(p);
        let iptables_backend =
            p.take("iptables-backend", &self.iptables_backend, backend(&self.iptables_backend));
        let bit = &self.iptables_masquerade_bit;
        let bit = p.take("iptables-masquerade-bit", bit, value::number(bit, 0, 31));
        let loopback =
            p.either("iptables-localhost-nodeports", &self.iptables_localhost_nodeports, Served, Refused);
        let healthz = self.healthz(p);
        let metrics = self.metrics(p);
        let hard_fail = &self.bind_address_hard_fail;
        let on_bind_failure =
            p.either("bind-address-hard-fail", hard_fail, OnBindFailure::Exit, OnBindFailure::Retry);
        let logging = self.logging(p);
        let (sync_period, min_sync_period) = periods?;
        Some(Config {
            task: task?,
            source: source?,
            service_ranges: service_ranges?,
            hostname_override: hostname_override?,
            bind_address: bind_address?,
            node_ports: default_node_ports(node_ports?, mode?),
            local_mode: local_mode?,
            mode: mode?,
            masquerade: masquerade?,
            sync_period,
            min_sync_period,
            iptables_backend: iptables_backend?,
            masquerade_mark: 1_u32.checked_shl(bit?)?,
            loopback_node_ports: loopback?,
            healthz: healthz?,
            metrics: metrics?,
            on_bind_failure: on_bind_failure?,
            logging: logging?,
            ignored: self.ignored(),
        })
    }

    fn source(&self, p: &mut Problems) -> Option<Source> {
        if self.manifests.is_empty() {
            let kubeconfig = some(&self.kubeconfig).map(PathBuf::from);
            return Some(Source::Cluster { kubeconfig, master: some(&self.master) });
        }
        let others = [("kubeconfig", &self.kubeconfig), ("master", &self.master)];
        let others: Vec<_> = others.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        for (flag, value) in &others {
            p.add(flag, value, "cannot be used together with --manifests; choose one source");
        }
        others.is_empty().then(|| Source::Manifests { path: PathBuf::from(&self.manifests) })
    }

    fn service_ranges(&self, p: &mut Problems) -> Option<Vec<IpNet>> {
        let text = &self.service_cluster_ip_range;
        let ranges = value::cidrs(text).and_then(|ranges| {
            if ranges.is_empty() {
                Err("must be one CIDR per IP family in use".to_owned())
            } else {
                Ok(ranges)
            }
        });
        p.take("service-cluster-ip-range", text, ranges)
    }

    fn hostname_override(&self, p: &mut Problems) -> Option<Option<String>> {
        let given = &self.hostname_override;
        let name = given.trim().to_lowercase();
        if name.is_empty() && !given.is_empty() {
            p.add("hostname-override", given, "must not be only blanks; leave it out to use the host name");
            return None;
        }
        Some(some(&name))
    }

    /// Looks only at the flag that the mode uses; kube-proxy accepts anything in the others.
    fn local_mode(&self, p: &mut Problems) -> Option<LocalMode> {
        match self.detect_local_mode.as_str() {
            "" | "ClusterCIDR" => {
                let ranges = value::cidrs(&self.cluster_cidr);
                p.take("cluster-cidr", &self.cluster_cidr, ranges).map(LocalMode::ClusterCidr)
            }
            "NodeCIDR" => Some(LocalMode::NodeCidr),
            "BridgeInterface" => {
                let name = &self.pod_bridge_interface;
                p.take("pod-bridge-interface", name, value::bridge(name))
            }
            "InterfaceNamePrefix" => {
                let prefix = &self.pod_interface_name_prefix;
                p.take("pod-interface-name-prefix", prefix, value::interface_prefix(prefix))
            }
            other => {
                let names = "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix";
                p.add("detect-local-mode", other, &format!("must be {names}"));
                None
            }
        }
    }

    fn periods(&self, p: &mut Problems) -> Option<(Duration, Duration)> {
        let (sync, min) = (&self.iptables_sync_period, &self.iptables_min_sync_period);
        let sync_period = p.take("iptables-sync-period", sync, value::duration(sync));
        let min_period = p.take("iptables-min-sync-period", min, value::duration(min));
        let (sync_period, min_period) = (sync_period?, min_period?);
        p.take("iptables-sync-period", sync, value::periods(sync_period, min_period))?;
        Some((sync_period, min_period))
    }

    /// As kube-proxy: an empty address is the default, and port 0 turns the server off.
    fn healthz(&self, p: &mut Problems) -> Option<Option<SocketAddr>> {
        let port = p.take("healthz-port", &self.healthz_port, port(&self.healthz_port))?;
        if port == 0 {
            return Some(None);
        }
        let text = some(&self.healthz_bind_address).unwrap_or_else(|| "0.0.0.0:10256".to_owned());
        p.take("healthz-bind-address", &text, value::listen_address(&text, port)).map(Some)
    }

    fn metrics(&self, p: &mut Problems) -> Option<SocketAddr> {
        let port = p.take("metrics-port", &self.metrics_port, port(&self.metrics_port))?;
        let text = some(&self.metrics_bind_address).unwrap_or_else(|| "127.0.0.1:10249".to_owned());
        if port == 0 {
            p.add("metrics-port", &self.metrics_port, "metrics cannot be turned off; leave it out");
            return None;
        }
        p.take("metrics-bind-address", &text, value::listen_address(&text, port))
    }

    fn logging(&self, p: &mut Problems) -> Option<Logging> {
        let verbosity =
            p.take("v", &self.verbosity, value::number(&self.verbosity, 0, i32::MAX.unsigned_abs()));
        let format = match self.logging_format.as_str() {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            _ => Err("must be text or json".to_owned()),
        };
        let format = p.take("logging-format", &self.logging_format, format);
        Some(Logging { format: format?, verbosity: verbosity? })
    }
}

/// The text, unless it is empty.
fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "must be a port from 0 to 65535".to_owned())
}

/// In nftables mode kube-proxy serves node ports on the node's own addresses unless told otherwise.
fn default_node_ports(given: NodePortRanges, mode: Mode) -> NodePortRanges {
    match (mode, given) {
        (Mode::Nftables, NodePortRanges::All) => NodePortRanges::Primary,
        (_, given) => given,
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "" | "iptables" => Ok(Mode::Iptables),
        "nftables" => Ok(Mode::Nftables),
        other => {
            let other = other.escape_debug();
            Err(format!("mode {other} is not available in this version; available: iptables, nftables"))
        }
    }
}

fn backend(text: &str) -> Result<IptablesBackend, String> {
    match text {
        "auto" => Ok(IptablesBackend::Auto),
        "nft" => Ok(IptablesBackend::Nft),
        "legacy" => Ok(IptablesBackend::Legacy),
        _ => Err("must be auto, nft or legacy".to_owned()),
    }
}
