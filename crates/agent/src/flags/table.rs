//! The table of flags: names, what they set, and what help says.

use Target::{Field, Own};

/// What a flag sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A field of the configuration, by its YAML path. Ignored with `--config`, unless it is about logging.
    Field(&'static str),
    /// Something that no configuration file has, or that depends on the mode; see [`super::own`].
    Own,
}

/// One flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    /// Its name, without dashes.
    pub(super) name: &'static str,
    /// What it sets.
    pub(super) target: Target,
    /// Its place in help: a heading, the name of its value, and what it does. Without it, help does not show the flag.
    pub(super) help: Option<(&'static str, &'static str, &'static str)>,
}

const fn shown(
    name: &'static str,
    target: Target,
    heading: &'static str,
    value: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, target, help: Some((heading, value, help)) }
}

const fn hidden(name: &'static str, target: Target) -> Flag {
    Flag { name, target, help: None }
}

const SOURCE: &str = "Source";
const NODE: &str = "Node";
const LOCAL: &str = "Local traffic";
const RULES: &str = "Rules";
const IPTABLES: &str = "iptables mode";
const KERNEL: &str = "Kernel";
const SERVERS: &str = "Health and metrics";
const LOGGING: &str = "Logging";
const TASKS: &str = "Instead of running";

/// Every flag, in the order of help.
pub(super) const FLAGS: [Flag; 63] = [
    shown("config", Own, SOURCE, "FILE", "KubeProxyConfiguration file, instead of most flags"),
    shown(
        "kubeconfig",
        Field("clientConnection.kubeconfig"),
        SOURCE,
        "FILE",
        "File with the address and credentials of the API server; without it and --master, the pod's service account",
    ),
    shown("master", Own, SOURCE, "URL", "URL of the API server, instead of the one in --kubeconfig"),
    shown(
        "manifests",
        Own,
        SOURCE,
        "PATH",
        "File or directory of YAML or JSON with Services, EndpointSlices, Endpoints and Nodes, to use and watch instead of an API server",
    ),
    shown(
        "service-cluster-ip-range",
        Own,
        SOURCE,
        "CIDRS",
        "With --manifests: where Services that name no cluster IP get one from, at most one range per family [default: 10.96.0.0/12,fd00:10:96::/112]",
    ),
    shown(
        "hostname-override",
        Own,
        NODE,
        "NAME",
        "Name of the Node object of this machine, if it is not the host name",
    ),
    shown(
        "bind-address",
        Field("bindAddress"),
        NODE,
        "IP",
        "Address of this node, instead of the one in its Node object; also decides the primary IP family. Nothing listens on it [default: 0.0.0.0]",
    ),
    shown(
        "nodeport-addresses",
        Field("nodePortAddresses"),
        NODE,
        "CIDRS",
        "Where node ports answer: local addresses in these CIDRs, or `primary` for the node's own. Without it, everywhere; in nftables mode, `primary`",
    ),
    shown(
        "detect-local-mode",
        Field("detectLocalMode"),
        LOCAL,
        "MODE",
        "How pods of this node are told from other clients, whose traffic needs masquerading: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix. Empty means ClusterCIDR",
    ),
    shown(
        "cluster-cidr",
        Field("clusterCIDR"),
        LOCAL,
        "CIDRS",
        "For ClusterCIDR: the addresses of pods, at most one range per family. Empty means that pods cannot be told",
    ),
    shown(
        "pod-bridge-interface",
        Field("detectLocal.bridgeInterface"),
        LOCAL,
        "NAME",
        "For BridgeInterface: the bridge that pods are attached to, such as cni0",
    ),
    shown(
        "pod-interface-name-prefix",
        Field("detectLocal.interfaceNamePrefix"),
        LOCAL,
        "PREFIX",
        "For InterfaceNamePrefix: how names of pod interfaces begin, such as veth",
    ),
    shown(
        "proxy-mode",
        Field("mode"),
        RULES,
        "MODE",
        "How Services are put into the kernel: iptables or nftables. Empty means iptables",
    ),
    shown(
        "masquerade-all",
        Own,
        RULES,
        "BOOL",
        "Give all traffic to cluster IPs this node's address as its source, also that of pods",
    ),
    shown(
        "iptables-sync-period",
        Own,
        RULES,
        "DURATION",
        "Time until rules that could not be written are tried again, in every mode but ipvs. Changes do not wait for it [default: 30s]",
    ),
    shown(
        "iptables-min-sync-period",
        Own,
        RULES,
        "DURATION",
        "Least time between two writes of rules, in every mode but ipvs; changes in between are gathered. 0 writes each change at once [default: 1s]",
    ),
    shown(
        "iptables-backend",
        Own,
        IPTABLES,
        "VARIANT",
        "Which iptables to use: nft, legacy, or auto for the one that the node already uses [default: auto]",
    ),
    shown(
        "iptables-masquerade-bit",
        Field("iptables.masqueradeBit"),
        IPTABLES,
        "BIT",
        "Which bit of the packet mark asks for masquerading, 0 to 31. Change it if another program uses the bit [default: 14]",
    ),
    shown(
        "iptables-localhost-nodeports",
        Field("iptables.localhostNodePorts"),
        IPTABLES,
        "BOOL",
        "Node ports also answer on 127.0.0.1 (IPv4 only). It sets the sysctl route_localnet [default: true]",
    ),
    shown(
        "conntrack-max-per-core",
        Field("conntrack.maxPerCore"),
        KERNEL,
        "N",
        "Connections to track per CPU, at most 1048576 in all; 0 leaves the limit alone [default: 32768]",
    ),
    shown(
        "conntrack-min",
        Field("conntrack.min"),
        KERNEL,
        "N",
        "Connections to track at least, whatever --conntrack-max-per-core says [default: 131072]",
    ),
    shown(
        "conntrack-tcp-timeout-established",
        Field("conntrack.tcpEstablishedTimeout"),
        KERNEL,
        "DURATION",
        "How long an idle TCP connection is tracked; 0 leaves it alone [default: 24h]",
    ),
    shown(
        "conntrack-tcp-timeout-close-wait",
        Field("conntrack.tcpCloseWaitTimeout"),
        KERNEL,
        "DURATION",
        "How long a half-closed TCP connection is tracked; 0 leaves it alone [default: 1h]",
    ),
    shown(
        "conntrack-tcp-be-liberal",
        Field("conntrack.tcpBeLiberal"),
        KERNEL,
        "BOOL",
        "Track TCP packets outside of the window too, by the sysctl nf_conntrack_tcp_be_liberal",
    ),
    shown(
        "conntrack-udp-timeout",
        Field("conntrack.udpTimeout"),
        KERNEL,
        "DURATION",
        "How long UDP without an answer is tracked; 0 leaves it alone [default: 0s]",
    ),
    shown(
        "conntrack-udp-timeout-stream",
        Field("conntrack.udpStreamTimeout"),
        KERNEL,
        "DURATION",
        "How long UDP with answers is tracked; 0 leaves it alone [default: 0s]",
    ),
    shown(
        "oom-score-adj",
        Field("oomScoreAdj"),
        KERNEL,
        "N",
        "How readily the kernel ends this process when memory is short, -1000 to 1000 [default: -999]",
    ),
    shown(
        "healthz-bind-address",
        Field("healthzBindAddress"),
        SERVERS,
        "IP[:PORT]",
        "Where /healthz and /livez are served, for load balancers and the kubelet [default: 0.0.0.0:10256]",
    ),
    shown(
        "admin-socket",
        Own,
        SERVERS,
        "PATH",
        "Unix socket on which `switchyard explain` and `switchyard get` ask this agent; empty for none [default: /run/switchyard/admin.sock]",
    ),
    shown(
        "metrics-bind-address",
        Field("metricsBindAddress"),
        SERVERS,
        "IP[:PORT]",
        "Where /metrics is served [default: 127.0.0.1:10249]",
    ),
    shown(
        "enable-ui",
        Own,
        SERVERS,
        "BOOL",
        "Serve a read-only dashboard under /ui/ beside /metrics; whoever reaches that address can read it",
    ),
    shown(
        "bind-address-hard-fail",
        Field("bindAddressHardFail"),
        SERVERS,
        "BOOL",
        "Exit if a server cannot listen, instead of trying again",
    ),
    shown(
        "profiling",
        Field("enableProfiling"),
        SERVERS,
        "BOOL",
        "Serve profiles of this process beside /metrics",
    ),
    shown(
        "v",
        Field("logging.verbosity"),
        LOGGING,
        "LEVEL",
        "How much to log: 0 changes and failures, 4 details, 6 everything of ours, 8 also libraries [default: 0]",
    ),
    shown(
        "logging-format",
        Field("logging.format"),
        LOGGING,
        "FORMAT",
        "text, or json with one object per line [default: text]",
    ),
    shown("cleanup", Own, TASKS, "BOOL", "Remove the rules of all modes and exit; needs no API server"),
    shown(
        "init-only",
        Own,
        TASKS,
        "BOOL",
        "Do what needs full privileges and exit; the proxy then runs with CAP_NET_ADMIN alone",
    ),
    shown(
        "write-config-to",
        Own,
        TASKS,
        "FILE",
        "Write the configuration that file and flags amount to, and exit",
    ),
    shown("version", Own, TASKS, "BOOL", "Print the version and exit"),
    hidden("boot-id-file", Own),
    hidden("config-sync-period", Field("configSyncPeriod")),
    hidden("feature-gates", Field("featureGates")),
    hidden("healthz-port", Own),
    hidden("ipvs-exclude-cidrs", Field("ipvs.excludeCIDRs")),
    hidden("ipvs-min-sync-period", Own),
    hidden("ipvs-scheduler", Field("ipvs.scheduler")),
    hidden("ipvs-strict-arp", Field("ipvs.strictARP")),
    hidden("ipvs-sync-period", Own),
    hidden("ipvs-tcp-timeout", Field("ipvs.tcpTimeout")),
    hidden("ipvs-tcpfin-timeout", Field("ipvs.tcpFinTimeout")),
    hidden("ipvs-udp-timeout", Field("ipvs.udpTimeout")),
    hidden("kube-api-burst", Field("clientConnection.burst")),
    hidden("kube-api-content-type", Field("clientConnection.contentType")),
    hidden("kube-api-qps", Field("clientConnection.qps")),
    hidden("log-flush-frequency", Field("logging.flushFrequency")),
    hidden("log-json-info-buffer-size", Field("logging.options.json.infoBufferSize")),
    hidden("log-json-split-stream", Field("logging.options.json.splitStream")),
    hidden("log-text-info-buffer-size", Field("logging.options.text.infoBufferSize")),
    hidden("log-text-split-stream", Field("logging.options.text.splitStream")),
    hidden("machine-id-file", Own),
    hidden("metrics-port", Own),
    hidden("show-hidden-metrics-for-version", Field("showHiddenMetricsForVersion")),
    hidden("vmodule", Field("logging.vmodule")),
];

/// The flag behind a YAML path, for messages. The periods of every mode but ipvs have the flags of iptables mode.
pub(super) fn flag_of(field: &str) -> Option<&'static str> {
    let of_mode = match field {
        "iptables.syncPeriod" | "nftables.syncPeriod" => Some("iptables-sync-period"),
        "iptables.minSyncPeriod" | "nftables.minSyncPeriod" => Some("iptables-min-sync-period"),
        "ipvs.syncPeriod" => Some("ipvs-sync-period"),
        "ipvs.minSyncPeriod" => Some("ipvs-min-sync-period"),
        _ if field.starts_with("featureGates.") => Some("feature-gates"),
        _ => None,
    };
    let named = || {
        FLAGS.iter().find(|flag| matches!(flag.target, Field(path) if path == field)).map(|flag| flag.name)
    };
    of_mode.or_else(named)
}
