//! The configuration as JSON, its fields in kube-proxy's order.

use serde_json::Value;

/// Fields in the order in which kube-proxy declares them, of all levels together. Others come last.
const ORDER: [&str; 65] = [
    "kind",
    "apiVersion",
    "featureGates",
    "clientConnection",
    "kubeconfig",
    "acceptContentTypes",
    "contentType",
    "qps",
    "burst",
    "logging",
    "format",
    "flushFrequency",
    "verbosity",
    "vmodule",
    "filePattern",
    "options",
    "text",
    "json",
    "splitStream",
    "infoBufferSize",
    "hostnameOverride",
    "bindAddress",
    "healthzBindAddress",
    "metricsBindAddress",
    "bindAddressHardFail",
    "enableProfiling",
    "showHiddenMetricsForVersion",
    "mode",
    "iptables",
    "ipvs",
    "nftables",
    "masqueradeBit",
    "masqueradeAll",
    "localhostNodePorts",
    "syncPeriod",
    "minSyncPeriod",
    "scheduler",
    "excludeCIDRs",
    "strictARP",
    "tcpTimeout",
    "tcpFinTimeout",
    "winkernel",
    "networkName",
    "sourceVip",
    "enableDSR",
    "rootHnsEndpointName",
    "forwardHealthCheckVip",
    "detectLocalMode",
    "detectLocal",
    "bridgeInterface",
    "interfaceNamePrefix",
    "clusterCIDR",
    "nodePortAddresses",
    "oomScoreAdj",
    "conntrack",
    "maxPerCore",
    "min",
    "tcpEstablishedTimeout",
    "tcpCloseWaitTimeout",
    "tcpBeLiberal",
    "udpTimeout",
    "udpStreamTimeout",
    "configSyncPeriod",
    "portRange",
    "windowsRunAsService",
];

/// The value as compact JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            let place = |name: &str| ORDER.iter().position(|other| *other == name).unwrap_or(ORDER.len());
            fields.sort_by_key(|(name, _)| place(name));
            let fields =
                fields.iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), text(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}
