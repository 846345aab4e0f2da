//! Every flag: what it sets, and which value it refuses with which message.

use super::super::table::{FLAGS, Target};
use super::*;

const BOOL: &str = "must be true or false";
const INT: &str = "must be a whole number from -2147483648 to 2147483647";
const DURATION: &str = "must be a duration such as 30s, 1m30s or 500ms";
const UNIT: &str = "lacks a unit; write for example 30s, 1m30s or 500ms";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const ANY: &str = "";

/// Flag; a value that is taken, possibly with other flags; a line of `--write-config-to` that it makes, if it has one;
/// a value that is refused, and the message. [`ANY`] as message: nothing is refused.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

const ROWS: [Row; 63] = [
    (
        "bind-address",
        "::1",
        "bindAddress: '::1'",
        "node-1",
        "not a valid textual representation of an IP address",
    ),
    ("bind-address-hard-fail", "true", "bindAddressHardFail: true", "2", BOOL),
    ("admin-socket", "/s", ANY, ANY, ANY),
    ("boot-id-file", "/b", ANY, ANY, ANY),
    ("cleanup", "false", ANY, "2", BOOL),
    (
        "cluster-cidr",
        "10.0.0.0/8",
        "clusterCIDR: 10.0.0.0/8",
        "10.0.0.0",
        "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)",
    ),
    (
        "config",
        "",
        ANY,
        "/no/such/file",
        "cannot read the configuration: No such file or directory (os error 2)",
    ),
    ("config-sync-period", "1m", "configSyncPeriod: 1m0s", "0", "must be greater than 0"),
    ("conntrack-max-per-core", "0", "maxPerCore: 0", "-1", NOT_NEGATIVE),
    ("conntrack-min", "7", "min: 7", "2147483648", INT),
    ("conntrack-tcp-be-liberal", "t", "tcpBeLiberal: true", "x", BOOL),
    ("conntrack-tcp-timeout-close-wait", "0", "tcpCloseWaitTimeout: 0s", "5", UNIT),
    ("conntrack-tcp-timeout-established", "0", "tcpEstablishedTimeout: 0s", "-1s", NOT_NEGATIVE),
    ("conntrack-udp-timeout", "9s", "udpTimeout: 9s", "-1s", NOT_NEGATIVE),
    ("conntrack-udp-timeout-stream", "9s", "udpStreamTimeout: 9s", "x", DURATION),
    (
        "detect-local-mode",
        "NodeCIDR",
        "detectLocalMode: NodeCIDR",
        "nodecidr",
        "supported values: \"ClusterCIDR\", \"NodeCIDR\", \"BridgeInterface\", \"InterfaceNamePrefix\", \"\"",
    ),
    ("enable-ui", "true", ANY, "2", BOOL),
    ("feature-gates", "AllAlpha=true", "AllAlpha: true", "Foo=true", "unrecognized feature gate"),
    (
        "healthz-bind-address",
        "1.2.3.4:5",
        "healthzBindAddress: 1.2.3.4:5",
        "1.2.3.4:0",
        "must be a valid port",
    ),
    ("healthz-port", "7", ANY, "x", INT),
    (
        "hostname-override",
        " N1 ",
        "hostnameOverride: n1",
        " ",
        "must not be only blanks; leave it out to use the host name",
    ),
    ("init-only", "false", ANY, "maybe", BOOL),
    ("iptables-backend", "legacy", ANY, "ebtables", "must be auto, nft or legacy"),
    ("iptables-localhost-nodeports", "false", "localhostNodePorts: false", "no", BOOL),
    ("iptables-masquerade-bit", "0", "masqueradeBit: 0", "32", "must be within the range [0, 31]"),
    ("iptables-min-sync-period", "0", "minSyncPeriod: 0s", "-1s", NOT_NEGATIVE),
    (
        "iptables-sync-period",
        "5m",
        "syncPeriod: 5m0s",
        "500ms",
        "must be greater than or equal to iptables.minSyncPeriod, which is 1s",
    ),
    (
        "ipvs-exclude-cidrs",
        "10.0.0.0/8",
        "- 10.0.0.0/8",
        "a\"b",
        "must be a list with commas; quotes only around whole items",
    ),
    ("ipvs-min-sync-period", "5s", ANY, "x", DURATION),
    ("ipvs-scheduler", "lc", "scheduler: lc", ANY, ANY),
    ("ipvs-strict-arp", "true", "strictARP: true", "x", BOOL),
    ("ipvs-sync-period", "5s", ANY, "x", DURATION),
    ("ipvs-tcp-timeout", "5s", "tcpTimeout: 5s", "x", DURATION),
    ("ipvs-tcpfin-timeout", "5s", "tcpFinTimeout: 5s", "x", DURATION),
    ("ipvs-udp-timeout", "5s", "udpTimeout: 5s", "x", DURATION),
    ("kube-api-burst", "7", "burst: 7", "-1", NOT_NEGATIVE),
    ("kube-api-content-type", "application/json", "contentType: application/json", ANY, ANY),
    ("kube-api-qps", "0.5", "qps: 0.5", "NaN", "must be a number such as 5 or 0.5, at most 3.4e38"),
    ("kubeconfig", "/k", "kubeconfig: /k", ANY, ANY),
    ("log-flush-frequency", "1s", "flushFrequency: 1s", "0", "must be greater than zero"),
    (
        "log-json-info-buffer-size",
        "0",
        "infoBufferSize: \"0\"",
        "1Ki",
        "forbidden: feature LoggingAlphaOptions is disabled",
    ),
    (
        "log-json-split-stream",
        "true --feature-gates=AllAlpha=true",
        "splitStream: true",
        "true",
        "forbidden: feature LoggingAlphaOptions is disabled",
    ),
    (
        "log-text-info-buffer-size",
        "1Ki --feature-gates=LoggingAlphaOptions=true",
        "infoBufferSize: 1Ki",
        "1x",
        "must be a size in bytes such as 512, 1K, 2Ki, 3M or 4Mi",
    ),
    (
        "log-text-split-stream",
        "true --feature-gates=AllAlpha=true",
        "splitStream: true",
        "true",
        "forbidden: feature LoggingAlphaOptions is disabled",
    ),
    ("logging-format", "json", "format: json", "yaml", "unsupported log format; must be text or json"),
    ("machine-id-file", "/m", ANY, ANY, ANY),
    (
        "manifests",
        "/m",
        ANY,
        "/m --master=http://x",
        "cannot be used together with --manifests; choose one source",
    ),
    ("masquerade-all", "true", "masqueradeAll: true", "x", BOOL),
    ("master", "http://x", ANY, ANY, ANY),
    ("metrics-bind-address", "::1", "metricsBindAddress: '[::1]:10249'", "localhost:1", "must be a valid IP"),
    ("metrics-port", "7", ANY, "0", "must be IP:port"),
    (
        "nodeport-addresses",
        "10.0.0.0/8",
        "- 10.0.0.0/8",
        "primary,10.0.0.0/8",
        "can't use both 'primary' and CIDRs",
    ),
    ("oom-score-adj", "-1000", "oomScoreAdj: -1000", "1001", "must be within the range [-1000, 1000]"),
    (
        "pod-bridge-interface",
        "cni0",
        "bridgeInterface: cni0",
        "a b --detect-local-mode=BridgeInterface",
        "must be an interface name of at most 15 characters, such as cni0",
    ),
    (
        "pod-interface-name-prefix",
        "veth",
        "interfaceNamePrefix: veth",
        "fifteen-letters --detect-local-mode=InterfaceNamePrefix",
        "must be an interface name of at most 14 characters, such as cni0",
    ),
    ("profiling", "true", "enableProfiling: true", "x", BOOL),
    (
        "proxy-mode",
        "nftables",
        "mode: nftables",
        "IPTables",
        "must be iptables, ipvs, nftables, userspace or blank (blank means iptables)",
    ),
    (
        "service-cluster-ip-range",
        "10.0.0.0/8",
        ANY,
        "10.0.0.0/8,11.0.0.0/8",
        "has more than one IPv4 range; at most one per IP family is allowed",
    ),
    (
        "show-hidden-metrics-for-version",
        "1.35",
        "showHiddenMetricsForVersion: \"1.35\"",
        "1.0",
        "must be omitted or have the value '1.35'; only the previous minor version is allowed",
    ),
    ("v", "7", "verbosity: 7", "-1", "must be a number from 0 to 2147483647"),
    ("version", "false", ANY, "maybe", "must be true, false, raw or a version such as v1.2.3"),
    ("vmodule", "a=1", "- filePattern: a", "a", "must be pattern=N, with commas between"),
    ("write-config-to", "", ANY, ANY, ANY),
];

/// `--name=value`, and the flags that stand behind it.
fn args(name: &str, value: &str) -> Vec<String> {
    let (value, others) =
        value.split_once(" --").map_or((value, None), |(value, others)| (value, Some(others)));
    let others = others.map(|others| format!("--{others}"));
    std::iter::once(format!("--{name}={value}")).chain(others).collect()
}

#[test]
fn every_flag_has_a_row_and_every_row_a_flag() {
    let flags: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
    for name in &flags {
        assert_eq!(ROWS.iter().filter(|row| row.0 == *name).count(), 1, "--{name}");
    }
    assert_eq!(flags.len(), ROWS.len());
}

/// Every field that kube-proxy has a flag for has it here; these have none there either.
#[test]
fn fields_without_a_flag_are_known() {
    let of_file_only = [
        "clientConnection.acceptContentTypes",
        "hostnameOverride",
        "iptables.masqueradeAll",
        "iptables.minSyncPeriod",
        "iptables.syncPeriod",
        "ipvs.minSyncPeriod",
        "ipvs.syncPeriod",
        "nftables.masqueradeAll",
        "nftables.masqueradeBit",
        "nftables.minSyncPeriod",
        "nftables.syncPeriod",
        "portRange",
        "windowsRunAsService",
    ];
    let mut configuration = switchyard_config::Configuration::default();
    for path in configuration.slots().keys().filter(|path| !path.starts_with("winkernel.")) {
        let has_flag = FLAGS.iter().any(|flag| flag.target == Target::Field(path));
        assert_ne!(has_flag, of_file_only.contains(path), "{path}");
    }
}

#[test]
fn every_flag_is_taken_and_checked() {
    for (name, taken, line, refused, message) in &ROWS {
        let good = args(name, taken);
        let good: Vec<&str> = good.iter().map(String::as_str).collect();
        let page = config(&good).configuration.to_yaml();
        let has_line = page.lines().any(|found| found.trim() == *line) || line.is_empty();
        assert!(has_line, "{good:?}: no line {line:?} in\n{page}");
        if message.is_empty() {
            continue;
        }
        let bad = args(name, refused);
        let found = problems(&bad.iter().map(String::as_str).collect::<Vec<_>>());
        let is_named = |line: &String| {
            let names = [
                format!("--{name}: "),
                "--master: ".to_owned(),
                "/no/such".to_owned(),
                "--metrics-bind-address: ".to_owned(),
            ];
            names.iter().any(|name| line.starts_with(name)) && line.ends_with(message)
        };
        assert!(found.len() == 1 && found.iter().all(is_named), "{bad:?}: {found:?}");
    }
}
