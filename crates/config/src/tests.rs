//! Configurations in, configurations and texts out.

mod fields;
mod round;

use super::*;
use crate::decode::{Decoded, decode};

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn decoded(body: &str) -> Decoded {
    decode(&format!("{HEAD}{body}")).unwrap_or_else(|problems| panic!("{body}: {problems:?}"))
}

/// What the file says, as a proxy on Linux would use it.
fn complete(body: &str) -> Configuration {
    let mut configuration = decoded(body).configuration;
    configuration.fill_in_for_linux();
    configuration
}

/// Everything that is wrong with a file, at decoding or, if that works, at the checks.
fn problems(body: &str) -> Vec<String> {
    let found = match decode(&format!("{HEAD}{body}")) {
        Err(problems) => problems,
        Ok(mut decoded) => {
            decoded.configuration.fill_in_for_linux();
            decoded.configuration.check()
        }
    };
    found.iter().map(ToString::to_string).collect()
}

/// The file is what kube-proxy 1.36.4 wrote, without a flag.
#[test]
fn an_empty_file_is_kube_proxys_defaults_byte_by_byte() {
    assert_eq!(complete("").to_yaml(), include_str!("tests/defaults.yaml"));
    let mut flags = Configuration::defaulted();
    flags.take_flags_of_mode(Default::default());
    flags.fill_in_for_linux();
    assert_eq!(flags, complete(""));
}

#[test]
fn periods_and_masquerading_belong_to_the_mode() {
    let all = "iptables: {syncPeriod: 3s, minSyncPeriod: 2s, masqueradeAll: true}\n\
               ipvs: {syncPeriod: 5s, minSyncPeriod: 4s}\n\
               nftables: {syncPeriod: 7s, minSyncPeriod: 6s}\n";
    for (mode, sync, min, masquerades) in
        [("iptables", 3, 2, true), ("ipvs", 5, 4, true), ("nftables", 7, 6, false), ("", 3, 2, true)]
    {
        let got = complete(&format!("{all}mode: '{mode}'\n"));
        let of_mode = got.of_mode();
        let want = (GoDuration::from_secs(sync), GoDuration::from_secs(min), masquerades);
        assert_eq!((of_mode.sync_period, of_mode.min_sync_period, got.masquerades_all()), want, "{mode}");
        let zeros = got.to_yaml().matches("yncPeriod: 0s").count();
        assert_eq!(zeros, 4, "{mode}: the periods of the other two modes are gone");
    }
    assert_eq!(complete("mode: ipvs").of_mode().min_sync_period, GoDuration::ZERO);
    let nodes = complete("mode: nftables\nnodePortAddresses: []").node_port_addresses;
    assert_eq!(nodes, Some(vec!["primary".to_owned()]));
    assert_eq!(complete("nodePortAddresses: []").node_port_addresses, Some(Vec::new()));
}

#[test]
fn addresses_follow_the_family_of_the_bind_address() {
    let got = complete("bindAddress: '::'");
    assert_eq!(
        (got.healthz_bind_address.as_str(), got.metrics_bind_address.as_str()),
        ("[::]:10256", "[::1]:10249")
    );
    let got = complete("healthzBindAddress: 1.2.3.4\nmetricsBindAddress: '::1'");
    assert_eq!(
        (got.healthz_bind_address.as_str(), got.metrics_bind_address.as_str()),
        ("1.2.3.4:10256", "[::1]:10249")
    );
}

#[test]
fn what_strict_decoding_refuses_is_read_with_a_complaint() {
    let got = decoded(
        "foo: 1\niptables:\n  bar: 2\n  masqueradeBit: 3\n  masqueradeBit: 4\niptables.masqueradeBit: 5\nMode: ipvs\n",
    );
    assert_eq!(got.configuration.iptables.masquerade_bit, Some(4));
    assert_eq!(got.configuration.mode, "");
    let complaints = got.complaints.join("; ");
    for word in ["duplicate", "\"foo\"", "\"iptables.bar\"", "\"iptables.masqueradeBit\"", "\"Mode\""] {
        assert!(complaints.contains(word), "{word} in {complaints}");
    }
    assert_eq!(decoded("mode: nftables").complaints, [""; 0]);
    assert_eq!(decoded("mode: nftables\n---\nmode: [").configuration.mode, "nftables");
}

#[test]
fn all_problems_come_at_once() {
    let wrong_types = problems(
        "mode: 5\niptables: {masqueradeBit: x}\nconntrack: {udpTimeout: null, min: 1.5}\nipvs: []\n",
    );
    assert_eq!(wrong_types.len(), 5, "{wrong_types:?}");
    let wrong_values = problems(
        "mode: foo\nbindAddress: x\noomScoreAdj: 1001\nconntrack: {min: -1}\nnodePortAddresses: [x, primary, z]\n\
         iptables: {masqueradeBit: 32, syncPeriod: 1s, minSyncPeriod: 2s}\nfeatureGates: {Foo: true}\n",
    );
    let want = [
        "featureGates.Foo: invalid value true: unrecognized feature gate",
        "iptables.masqueradeBit: invalid value 32: must be within the range [0, 31]",
        "conntrack.min: invalid value -1: must be greater than or equal to 0",
        "oomScoreAdj: invalid value 1001: must be within the range [-1000, 1000]",
        "mode: invalid value \"foo\": must be iptables, ipvs, nftables, userspace or blank (blank means iptables)",
        "iptables.syncPeriod: invalid value 1s: must be greater than or equal to iptables.minSyncPeriod, which is 2s",
        "bindAddress: invalid value \"x\": not a valid textual representation of an IP address",
        "nodePortAddresses[0]: invalid value \"x\": must be a valid CIDR",
        "nodePortAddresses[1]: invalid value \"primary\": can't use both 'primary' and CIDRs",
    ];
    assert_eq!(wrong_values, want);
}

#[test]
fn documents_that_are_no_configuration_are_refused() {
    let refused = |text: &str| decode(text).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(refused("mode: nftables").len(), 2);
    assert_eq!(
        refused("apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration"),
        [
            "apiVersion: invalid value \"kubeproxy.config.k8s.io/v1\": must be kubeproxy.config.k8s.io/v1alpha1"
        ]
    );
    assert_eq!(refused("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeletConfiguration").len(), 1);
    for text in ["", "foo", "[]", "5", "a: [", "---\n---\n"] {
        assert_eq!(refused(text).len(), 1, "{text:?}");
    }
}
