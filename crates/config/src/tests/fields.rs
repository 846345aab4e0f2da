//! Every field: its default, a value that is taken, and values that are refused with which message.

use super::*;

const BOOL: &str = "must be true or false";
const TEXT: &str = "must be a text; put it in quotes";
const INT: &str = "must be a whole number from -2147483648 to 2147483647";
const UNIT: &str = "lacks a unit; write for example 30s, 1m30s or 500ms";
const DURATION: &str = "must be a duration such as 30s, 1m30s or 500ms";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const POSITIVE: &str = "must be greater than 0";
const BIT: &str = "must be within the range [0, 31]";
const DISABLED: &str = "forbidden: feature LoggingAlphaOptions is disabled";

/// Path; default as printed, or nothing if it is left out; a value that is taken; a value that is refused; the message.
/// A value may need others, which stand behind a `|`.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

const ROWS: [Row; 62] = [
    ("bindAddress", "0.0.0.0", "'::'", "x", "not a valid textual representation of an IP address"),
    ("bindAddressHardFail", "false", "true", "1", BOOL),
    ("clientConnection.acceptContentTypes", "\"\"", "a/b", "5", TEXT),
    ("clientConnection.burst", "10", "2147483647", "-1", NOT_NEGATIVE),
    ("clientConnection.contentType", "application/vnd.kubernetes.protobuf", "application/json", "[]", TEXT),
    ("clientConnection.kubeconfig", "\"\"", "/k", "true", TEXT),
    ("clientConnection.qps", "5", "0.5", "'5'", "must be a number such as 5 or 0.5, at most 3.4e38"),
    (
        "clusterCIDR",
        "\"\"",
        "10.0.0.0/8,fd00::/8",
        "10.0.0.0/8,",
        "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)",
    ),
    (
        "clusterCIDR",
        "\"\"",
        "10.0.0.0/8",
        "10.0.0.0/8,11.0.0.0/8",
        "must be either a single CIDR or a dual-stack pair of CIDRs (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)",
    ),
    ("configSyncPeriod", "15m0s", "1h", "-1s", POSITIVE),
    ("conntrack.maxPerCore", "32768", "0", "-1", NOT_NEGATIVE),
    ("conntrack.min", "131072", "2147483647", "2147483648", INT),
    ("conntrack.tcpBeLiberal", "false", "yes", "2", BOOL),
    ("conntrack.tcpCloseWaitTimeout", "1h0m0s", "0s", "-1ns", NOT_NEGATIVE),
    ("conntrack.tcpEstablishedTimeout", "24h0m0s", "0s", "-1s", NOT_NEGATIVE),
    ("conntrack.udpStreamTimeout", "0s", "5s", "-1s", NOT_NEGATIVE),
    (
        "conntrack.udpTimeout",
        "0s",
        "5s",
        "null",
        "must be a duration such as 30s; leave the field out for its default",
    ),
    (
        "detectLocal.bridgeInterface",
        "\"\"",
        "cni0 | detectLocalMode: BridgeInterface",
        "'' | detectLocalMode: BridgeInterface",
        "must not be empty",
    ),
    (
        "detectLocal.interfaceNamePrefix",
        "\"\"",
        "veth",
        "'' | detectLocalMode: InterfaceNamePrefix",
        "must not be empty",
    ),
    (
        "detectLocalMode",
        "ClusterCIDR",
        "NodeCIDR",
        "clustercidr",
        "supported values: \"ClusterCIDR\", \"NodeCIDR\", \"BridgeInterface\", \"InterfaceNamePrefix\", \"\"",
    ),
    ("enableProfiling", "false", "true", "'true'", BOOL),
    ("featureGates", "", "{AllAlpha: true}", "[]", "must be an object of names with true or false"),
    ("healthzBindAddress", "0.0.0.0:10256", "'[::]:1'", "1.2.3.4:0", "must be a valid port"),
    ("hostnameOverride", "\"\"", "n1", "7", TEXT),
    ("iptables.localhostNodePorts", "true", "false", "0", BOOL),
    ("iptables.masqueradeAll", "false", "true", "x", BOOL),
    ("iptables.masqueradeBit", "14", "31", "32", BIT),
    ("iptables.minSyncPeriod", "1s", "5s", "-5s", NOT_NEGATIVE),
    ("iptables.syncPeriod", "30s", "1s", "-5s", POSITIVE),
    ("ipvs.excludeCIDRs", "null", "[10.0.0.0/8]", "[10.0.0.0] | mode: ipvs", "must be a valid CIDR"),
    ("ipvs.minSyncPeriod", "0s", "5s | mode: ipvs", "-1s | mode: ipvs", NOT_NEGATIVE),
    ("ipvs.scheduler", "\"\"", "lc", "{}", TEXT),
    ("ipvs.strictARP", "false", "true", "5", BOOL),
    ("ipvs.syncPeriod", "0s", "5s | mode: ipvs", "-1s | mode: ipvs", POSITIVE),
    ("ipvs.tcpFinTimeout", "0s", "5s", "-1s | mode: ipvs", NOT_NEGATIVE),
    ("ipvs.tcpTimeout", "0s", "5s", "-1s | mode: ipvs", NOT_NEGATIVE),
    ("ipvs.udpTimeout", "0s", "5s", "-1s | mode: ipvs", NOT_NEGATIVE),
    ("logging.flushFrequency", "5s", "1000", "-1", "must be greater than zero"),
    ("logging.format", "text", "json", "yaml", "unsupported log format; must be text or json"),
    (
        "logging.options.json.infoBufferSize",
        "\"0\"",
        "1Ki | featureGates: {LoggingAlphaOptions: true}",
        "1Ki",
        DISABLED,
    ),
    (
        "logging.options.json.splitStream",
        "",
        "true | featureGates: {LoggingAlphaOptions: true}",
        "true",
        DISABLED,
    ),
    (
        "logging.options.text.infoBufferSize",
        "\"0\"",
        "1Ki | featureGates: {AllAlpha: true}",
        "1x",
        "must be a size such as 512, 1Ki or 2M",
    ),
    ("logging.options.text.splitStream", "", "true | featureGates: {AllAlpha: true}", "true", DISABLED),
    ("logging.verbosity", "0", "2147483647", "2147483648", "must be <= 2147483647"),
    (
        "logging.vmodule",
        "",
        "[{filePattern: a, verbosity: 1}]",
        "[{filePattern: '', verbosity: 1}]",
        "file pattern must not be empty",
    ),
    ("metricsBindAddress", "127.0.0.1:10249", "0.0.0.0:1", "localhost:1", "must be a valid IP"),
    (
        "mode",
        "iptables",
        "nftables",
        "kernelspace",
        "must be iptables, ipvs, nftables, userspace or blank (blank means iptables)",
    ),
    ("nftables.masqueradeAll", "false", "true | mode: nftables", "[]", BOOL),
    ("nftables.masqueradeBit", "14", "0", "-1 | mode: nftables", BIT),
    ("nftables.minSyncPeriod", "0s", "5s | mode: nftables", "-5s | mode: nftables", NOT_NEGATIVE),
    ("nftables.syncPeriod", "0s", "5s | mode: nftables", "5y", DURATION),
    ("nodePortAddresses", "null", "[primary]", "[10.0.0.1]", "must be a valid CIDR"),
    ("oomScoreAdj", "-999", "-1000", "-1001", "must be within the range [-1000, 1000]"),
    ("portRange", "\"\"", "1-2", "1", TEXT),
    (
        "showHiddenMetricsForVersion",
        "\"\"",
        "'1.35'",
        "'1.36'",
        "must be omitted or have the value '1.35'; only the previous minor version is allowed",
    ),
    ("windowsRunAsService", "", "true", "{}", BOOL),
    ("winkernel.enableDSR", "false", "true", "9", BOOL),
    ("winkernel.forwardHealthCheckVip", "false", "true", "9", BOOL),
    ("winkernel.networkName", "\"\"", "n1", "9", TEXT),
    ("winkernel.rootHnsEndpointName", "\"\"", "e", "9", TEXT),
    ("winkernel.sourceVip", "\"\"", "1.2.3.4", "9", TEXT),
    ("configSyncPeriod", "15m0s", "1.5h", "'30'", UNIT),
];

/// A file with one field, and what it needs beside it.
fn file(path: &str, value: &str) -> String {
    let (value, beside) = value.split_once(" | ").unwrap_or((value, ""));
    let opened: String = path.split('.').map(|key| format!("{{{key}: ")).collect();
    let closed = "}".repeat(path.split('.').count());
    let nested = format!("{opened}{value}{closed}");
    // The outermost braces would end the document.
    let inner = nested.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    format!("{inner}\n{beside}\n")
}

/// A field of a printed configuration, as it stands there; empty if it is left out.
fn printed(configuration: &Configuration, path: &str) -> String {
    let mut value = &configuration.to_json();
    for key in path.split('.') {
        match value.get(key) {
            Some(inner) => value = inner,
            None => return String::new(),
        }
    }
    match value {
        serde_json::Value::String(text) if !text.is_empty() && text.parse::<f64>().is_err() => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn every_field_has_a_row() {
    let mut configuration = Configuration::default();
    for path in configuration.slots().keys() {
        assert!(ROWS.iter().any(|row| row.0 == *path), "{path} has no row");
    }
    for row in &ROWS {
        assert!(configuration.slots().contains_key(row.0), "{} is no field", row.0);
    }
}

#[test]
fn every_field_has_its_default() {
    let configuration = complete("");
    for (path, default, ..) in &ROWS {
        assert_eq!(printed(&configuration, path), *default, "{path}");
    }
}

#[test]
fn every_field_is_taken_and_checked() {
    for (path, default, taken, refused, message) in &ROWS {
        let good = file(path, taken);
        assert_eq!(problems(&good), [""; 0], "{good}");
        let configuration = complete(&good);
        assert_ne!(printed(&configuration, path), *default, "{good}");
        let found = problems(&file(path, refused));
        let (value, _) = refused.split_once(" | ").unwrap_or((refused, ""));
        let expected = |line: &String| {
            line.starts_with(path)
                && line.ends_with(message)
                && (line.contains("invalid value") || value.contains("''"))
        };
        assert!(found.iter().any(expected), "{path} {refused}: {found:?}");
    }
}
