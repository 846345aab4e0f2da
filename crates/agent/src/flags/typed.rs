//! From a checked configuration to [`Config`]: every field gets a type of its own.
//!
//! What kube-proxy accepts and we cannot do, or must not put into a rule, is refused here.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use switchyard_config::{Configuration, GoDuration, Problem, address};
use switchyard_plan::settings::{LoopbackNodePorts, MasqueradeClusterIp};

use super::check::{Origin, Problems};
use super::own::Own;
use super::{
    Config, Conntrack, Dashboard, IptablesBackend, LocalMode, Mode, NodePortRanges, OnBindFailure, Source,
    Task, value,
};
use crate::logging::{Format, Logging};

/// Types everything. Nothing if a problem was added, or if the configuration did not pass its checks before.
pub(super) fn config(
    own: &Own,
    configuration: Configuration,
    origin: &Origin,
    problems: &mut Problems,
) -> Option<Config> {
    let of_mode = configuration.of_mode();
    let source = source(own, &configuration, problems);
    let service_ranges = service_ranges(own, problems);
    let iptables_backend = backend(own, problems);
    let task = task(own);
    let mode = mode(&configuration.mode);
    let local_mode = local_mode(&configuration);
    let local_mode = local_mode.map_err(|problem| problems.0.push(origin.line(&problem))).ok()?;
    let bit = match mode {
        Mode::Nftables => configuration.nftables.masquerade_bit,
        Mode::Iptables | Mode::Ipvs | Mode::Userspace => configuration.iptables.masquerade_bit,
    };
    Some(Config {
        task,
        source: source?,
        service_ranges: service_ranges?,
        hostname_override: some(configuration.hostname_override.trim()),
        bind_address: bind_address(&configuration.bind_address),
        node_ports: node_ports(&configuration)?,
        local_mode,
        mode,
        masquerade: match configuration.masquerades_all() {
            true => MasqueradeClusterIp::All,
            false => MasqueradeClusterIp::FromOutside,
        },
        sync_period: of_mode.sync_period.to_std()?,
        min_sync_period: of_mode.min_sync_period.to_std()?,
        iptables_backend: iptables_backend?,
        masquerade_mark: 1_u32.checked_shl(u32::try_from(bit?).ok()?)?,
        loopback_node_ports: match configuration.iptables.localhost_node_ports {
            Some(false) => LoopbackNodePorts::Refused,
            _ => LoopbackNodePorts::Served,
        },
        healthz: match configuration.healthz_bind_address.as_str() {
            "" => None,
            text => Some(listen_address(text)?),
        },
        metrics: listen_address(&configuration.metrics_bind_address)?,
        admin_socket: some(&own.admin_socket).map(PathBuf::from),
        dashboard: if own.enable_ui { Dashboard::On } else { Dashboard::Off },
        on_bind_failure: match configuration.bind_address_hard_fail {
            true => OnBindFailure::Exit,
            false => OnBindFailure::Retry,
        },
        logging: logging(&configuration),
        conntrack: conntrack(&configuration)?,
        oom_score_adj: configuration.oom_score_adj.unwrap_or_default(),
        config_file: some(&own.config).map(PathBuf::from),
        flags: BTreeMap::new(),
        configuration,
        notes: Vec::new(),
    })
}

/// The text, unless it is empty.
fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// kube-proxy's order: writing comes first, then cleaning up.
fn task(own: &Own) -> Task {
    match own {
        Own { write_config_to: path, .. } if !path.is_empty() => Task::WriteConfig(PathBuf::from(path)),
        Own { cleanup: true, .. } => Task::Cleanup,
        Own { init_only: true, .. } => Task::Init,
        _ => Task::Proxy,
    }
}

fn source(own: &Own, configuration: &Configuration, problems: &mut Problems) -> Option<Source> {
    let kubeconfig = &configuration.client_connection.kubeconfig;
    if own.manifests.is_empty() {
        let kubeconfig = some(kubeconfig).map(PathBuf::from);
        return Some(Source::Cluster { kubeconfig, master: some(&own.master) });
    }
    // A file that names a kubeconfig is not asked: whoever adds --manifests to its use wants the manifests.
    let kubeconfig = kubeconfig.as_str();
    let kubeconfig = if own.config.is_empty() { kubeconfig } else { "" };
    let others = [("kubeconfig", kubeconfig), ("master", own.master.as_str())];
    let others: Vec<_> = others.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    for (flag, value) in &others {
        let allowed = "cannot be used together with --manifests; choose one source";
        problems.flag(flag, &Problem::text("", value, allowed));
    }
    others.is_empty().then(|| Source::Manifests { path: PathBuf::from(&own.manifests) })
}

fn service_ranges(own: &Own, problems: &mut Problems) -> Option<Vec<IpNet>> {
    let text = &own.service_cluster_ip_range;
    let report =
        |allowed: String| problems.flag("service-cluster-ip-range", &Problem::text("", text, allowed));
    value::cidrs(text).map_err(report).ok()
}

fn backend(own: &Own, problems: &mut Problems) -> Option<IptablesBackend> {
    match own.iptables_backend.as_str() {
        "auto" => Some(IptablesBackend::Auto),
        "nft" => Some(IptablesBackend::Nft),
        "legacy" => Some(IptablesBackend::Legacy),
        other => {
            problems.flag("iptables-backend", &Problem::text("", other, "must be auto, nft or legacy"));
            None
        }
    }
}

/// A mode that nobody has was refused by the checks.
fn mode(text: &str) -> Mode {
    match text {
        "nftables" => Mode::Nftables,
        "ipvs" => Mode::Ipvs,
        "userspace" => Mode::Userspace,
        _ => Mode::Iptables,
    }
}

fn local_mode(configuration: &Configuration) -> Result<LocalMode, Problem> {
    let by = &configuration.detect_local;
    match configuration.detect_local_mode.as_str() {
        "NodeCIDR" => Ok(LocalMode::NodeCidr),
        "BridgeInterface" => value::bridge(&by.bridge_interface),
        "InterfaceNamePrefix" => value::interface_prefix(&by.interface_name_prefix),
        _ => Ok(LocalMode::ClusterCidr(
            configuration.cluster_cidr.split(',').filter_map(address::cidr).collect(),
        )),
    }
}

/// Unspecified addresses mean that none was given.
fn bind_address(text: &str) -> Option<IpAddr> {
    address::ip(text).filter(|address| !address.is_unspecified())
}

fn listen_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = address::host_port(text)?;
    Some(SocketAddr::new(address::ip(host)?, port.parse().ok()?))
}

fn node_ports(configuration: &Configuration) -> Option<NodePortRanges> {
    let list = configuration.node_port_addresses.as_deref().unwrap_or_default();
    match list {
        [] => Some(NodePortRanges::All),
        [one] if one == "primary" => Some(NodePortRanges::Primary),
        list => {
            let ranges: Option<Vec<_>> = list.iter().map(|range| address::cidr(range)).collect();
            ranges.map(NodePortRanges::Cidrs)
        }
    }
}

fn logging(configuration: &Configuration) -> Logging {
    let format = match configuration.logging.format.as_str() {
        "json" => Format::Json,
        _ => Format::Text,
    };
    Logging { format, verbosity: configuration.logging.verbosity }
}

fn conntrack(configuration: &Configuration) -> Option<Conntrack> {
    let given = &configuration.conntrack;
    let seconds = |duration: GoDuration| {
        duration.to_std().map(|duration| duration.as_secs()).filter(|_| duration > GoDuration::ZERO)
    };
    Some(Conntrack {
        max_per_core: u32::try_from(given.max_per_core.unwrap_or_default()).ok()?,
        min: u32::try_from(given.min.unwrap_or_default()).ok()?,
        tcp_established_seconds: given.tcp_established_timeout.and_then(seconds),
        tcp_close_wait_seconds: given.tcp_close_wait_timeout.and_then(seconds),
        udp_seconds: seconds(given.udp_timeout),
        udp_stream_seconds: seconds(given.udp_stream_timeout),
        is_liberal: given.tcp_be_liberal,
    })
}
