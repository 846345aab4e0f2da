//! What is wrong with a configuration: kube-proxy's checks, all of them, all findings at once.
//!
//! In: a configuration with all defaults filled in. Out: one [`Problem`] per finding, with kube-proxy's words for what
//! is allowed and the YAML path instead of Go's names.

use crate::address;
use crate::configuration::{Configuration, LogStream, Logging};
use crate::duration::GoDuration;
use crate::problem::Problem;
use crate::{MINOR, gates};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const POSITIVE: &str = "must be greater than 0";
const A_CIDR: &str = "must be a valid CIDR";
const BIT: &str = "must be within the range [0, 31]";
const ONE_OR_TWO: &str =
    "must be either a single CIDR or a dual-stack pair of CIDRs (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)";
/// kube-proxy's modes on Linux, and one of our own.
const MODES: [&str; 5] = ["", "iptables", "ipvs", "nftables", "userspace"];
const MAX_LEVEL: u32 = i32::MAX.unsigned_abs();

impl Configuration {
    /// Everything that kube-proxy would refuse.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = gates::check(&self.feature_gates);
        self.check_bits(&mut problems);
        if self.mode == "ipvs" {
            self.check_ipvs(&mut problems);
        }
        self.check_kernel(&mut problems);
        if !MODES.contains(&self.mode.as_str()) {
            let allowed = "must be iptables, ipvs, nftables, userspace or blank (blank means iptables)";
            problems.push(Problem::text("mode", &self.mode, allowed));
        }
        if self.client_connection.burst < 0 {
            problems.push(Problem::new("clientConnection.burst", self.client_connection.burst, NOT_NEGATIVE));
        }
        if !self.client_connection.qps.is_finite() {
            problems.push(Problem::new(
                "clientConnection.qps",
                self.client_connection.qps,
                "must be a finite number",
            ));
        }
        self.check_periods(&mut problems);
        self.check_addresses(&mut problems);
        self.check_hidden_metrics(&mut problems);
        self.check_local_mode(&mut problems);
        let has_alpha = gates::is_on("LoggingAlphaOptions", &self.feature_gates);
        check_logging(&self.logging, &mut problems);
        for (name, stream) in [("text", &self.logging.text), ("json", &self.logging.json)] {
            if !has_alpha {
                check_stream(name, stream, &mut problems);
            }
        }
        problems
    }

    fn check_bits(&self, problems: &mut Vec<Problem>) {
        let nftables = self.nftables.masquerade_bit.filter(|_| self.mode == "nftables");
        let bits =
            [("iptables.masqueradeBit", self.iptables.masquerade_bit), ("nftables.masqueradeBit", nftables)];
        for (path, bit) in bits {
            if let Some(bit) = bit.filter(|bit| !(0..=31).contains(bit)) {
                problems.push(Problem::new(path, bit, BIT));
            }
        }
    }

    fn check_ipvs(&self, problems: &mut Vec<Problem>) {
        for (path, timeout) in [
            ("ipvs.tcpTimeout", self.ipvs.tcp_timeout),
            ("ipvs.tcpFinTimeout", self.ipvs.tcp_fin_timeout),
            ("ipvs.udpTimeout", self.ipvs.udp_timeout),
        ] {
            not_negative(path, timeout, problems);
        }
        for (n, range) in self.ipvs.exclude_cidrs.iter().flatten().enumerate() {
            if address::cidr(range).is_none() {
                problems.push(Problem::text(format!("ipvs.excludeCIDRs[{n}]"), range, A_CIDR));
            }
        }
    }

    fn check_kernel(&self, problems: &mut Vec<Problem>) {
        let conntrack = &self.conntrack;
        for (path, number) in
            [("conntrack.maxPerCore", conntrack.max_per_core), ("conntrack.min", conntrack.min)]
        {
            if let Some(number) = number.filter(|number| *number < 0) {
                problems.push(Problem::new(path, number, NOT_NEGATIVE));
            }
        }
        for (path, timeout) in [
            ("conntrack.tcpEstablishedTimeout", conntrack.tcp_established_timeout.unwrap_or_default()),
            ("conntrack.tcpCloseWaitTimeout", conntrack.tcp_close_wait_timeout.unwrap_or_default()),
            ("conntrack.udpTimeout", conntrack.udp_timeout),
            ("conntrack.udpStreamTimeout", conntrack.udp_stream_timeout),
        ] {
            not_negative(path, timeout, problems);
        }
        if let Some(score) = self.oom_score_adj.filter(|score| !(-1000..=1000).contains(score)) {
            problems.push(Problem::new("oomScoreAdj", score, "must be within the range [-1000, 1000]"));
        }
    }

    fn check_periods(&self, problems: &mut Vec<Problem>) {
        let of_mode = self.of_mode();
        let path = |name: &str| format!("{}.{name}", of_mode.block);
        if self.config_sync_period <= GoDuration::ZERO {
            problems.push(Problem::new("configSyncPeriod", self.config_sync_period, POSITIVE));
        }
        if of_mode.sync_period <= GoDuration::ZERO {
            problems.push(Problem::new(path("syncPeriod"), of_mode.sync_period, POSITIVE));
        }
        not_negative(&path("minSyncPeriod"), of_mode.min_sync_period, problems);
        if of_mode.min_sync_period > of_mode.sync_period {
            let allowed = format!(
                "must be greater than or equal to {}, which is {}",
                path("minSyncPeriod"),
                of_mode.min_sync_period
            );
            problems.push(Problem::new(path("syncPeriod"), of_mode.sync_period, allowed));
        }
    }

    fn check_addresses(&self, problems: &mut Vec<Problem>) {
        if address::ip(&self.bind_address).is_none() {
            let allowed = "not a valid textual representation of an IP address";
            problems.push(Problem::text("bindAddress", &self.bind_address, allowed));
        }
        if !self.healthz_bind_address.is_empty() {
            listens("healthzBindAddress", &self.healthz_bind_address, problems);
        }
        listens("metricsBindAddress", &self.metrics_bind_address, problems);
        let list = self.node_port_addresses.as_deref().unwrap_or_default();
        for (n, range) in list.iter().enumerate() {
            let path = format!("nodePortAddresses[{n}]");
            if range == "primary" {
                if list.len() != 1 {
                    problems.push(Problem::text(path, range, "can't use both 'primary' and CIDRs"));
                }
                break;
            }
            if address::cidr(range).is_none() {
                problems.push(Problem::text(path, range, A_CIDR));
            }
        }
    }

    fn check_hidden_metrics(&self, problems: &mut Vec<Problem>) {
        let (given, previous) = (&self.show_hidden_metrics_for_version, format!("1.{}", MINOR - 1));
        if !given.is_empty() && *given != previous {
            let allowed = format!(
                "must be omitted or have the value '{previous}'; only the previous minor version is allowed"
            );
            problems.push(Problem::text("showHiddenMetricsForVersion", given, allowed));
        }
    }

    /// Looks only at the field that the mode uses.
    fn check_local_mode(&self, problems: &mut Vec<Problem>) {
        let empty = "must not be empty";
        match self.detect_local_mode.as_str() {
            "ClusterCIDR" => self.check_cluster_cidr(problems),
            "" | "NodeCIDR" => {}
            "BridgeInterface" if self.detect_local.bridge_interface.is_empty() => {
                problems.push(Problem::text("detectLocal.bridgeInterface", "", empty));
            }
            "InterfaceNamePrefix" if self.detect_local.interface_name_prefix.is_empty() => {
                problems.push(Problem::text("detectLocal.interfaceNamePrefix", "", empty));
            }
            "BridgeInterface" | "InterfaceNamePrefix" => {}
            other => {
                let allowed = "supported values: \"ClusterCIDR\", \"NodeCIDR\", \"BridgeInterface\", \"InterfaceNamePrefix\", \"\"";
                problems.push(Problem::text("detectLocalMode", other, allowed));
            }
        }
    }

    fn check_cluster_cidr(&self, problems: &mut Vec<Problem>) {
        if self.cluster_cidr.is_empty() {
            return;
        }
        let parts: Vec<&str> = self.cluster_cidr.split(',').collect();
        if parts.len() > 2 {
            return problems.push(Problem::text("clusterCIDR", &self.cluster_cidr, ONE_OR_TWO));
        }
        let ranges: Vec<_> = parts.iter().map(|part| address::cidr(part)).collect();
        for (part, _) in parts.iter().zip(&ranges).filter(|(_, range)| range.is_none()) {
            let allowed = "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)";
            problems.push(Problem::text("clusterCIDR", part, allowed));
        }
        if let [Some(first), Some(second)] = ranges.as_slice()
            && first.addr().is_ipv4() == second.addr().is_ipv4()
        {
            problems.push(Problem::text("clusterCIDR", &self.cluster_cidr, ONE_OR_TWO));
        }
    }
}

fn not_negative(path: &str, duration: GoDuration, problems: &mut Vec<Problem>) {
    if duration < GoDuration::ZERO {
        problems.push(Problem::new(path, duration, NOT_NEGATIVE));
    }
}

/// An address with a port to listen on.
fn listens(path: &str, text: &str, problems: &mut Vec<Problem>) {
    let Some((host, port)) = address::host_port(text) else {
        return problems.push(Problem::text(path, text, "must be IP:port"));
    };
    if address::ip(host).is_none() {
        problems.push(Problem::text(path, host, "must be a valid IP"));
    }
    let is_port = port.strip_prefix('+').unwrap_or(port).parse::<u16>().is_ok_and(|port| port != 0);
    if !is_port {
        problems.push(Problem::text(path, port, "must be a valid port"));
    }
}

fn check_logging(logging: &Logging, problems: &mut Vec<Problem>) {
    if logging.flush_frequency.duration <= GoDuration::ZERO {
        let value = logging.flush_frequency.duration;
        problems.push(Problem::new("logging.flushFrequency", value, "must be greater than zero"));
    }
    if !["text", "json"].contains(&logging.format.as_str()) {
        problems.push(Problem::text(
            "logging.format",
            &logging.format,
            "unsupported log format; must be text or json",
        ));
    }
    let too_verbose = format!("must be <= {MAX_LEVEL}");
    if logging.verbosity > MAX_LEVEL {
        problems.push(Problem::new("logging.verbosity", logging.verbosity, too_verbose.clone()));
    }
    if !logging.vmodule.is_empty() && logging.format != "text" {
        problems.push(Problem::new("logging.vmodule", "", "only supported for text log format"));
    }
    for (n, module) in logging.vmodule.iter().enumerate() {
        let (path, pattern) = (format!("logging.vmodule[{n}]"), &module.file_pattern);
        if pattern.is_empty() {
            problems.push(Problem::new(path.clone(), "", "file pattern must not be empty"));
        }
        if pattern.contains(['=', ',']) {
            let allowed = "file pattern must not contain equal sign or comma";
            problems.push(Problem::text(path.clone(), pattern, allowed));
        }
        if module.verbosity > MAX_LEVEL {
            problems.push(Problem::new(path, module.verbosity, too_verbose.clone()));
        }
    }
}

/// Options that need a gate which is off.
fn check_stream(format: &str, stream: &LogStream, problems: &mut Vec<Problem>) {
    let disabled = "forbidden: feature LoggingAlphaOptions is disabled";
    if stream.split_stream {
        problems.push(Problem::new(format!("logging.options.{format}.splitStream"), true, disabled));
    }
    if stream.info_buffer_size.value() != 0 {
        let path = format!("logging.options.{format}.infoBufferSize");
        problems.push(Problem::new(path, stream.info_buffer_size, disabled));
    }
}
