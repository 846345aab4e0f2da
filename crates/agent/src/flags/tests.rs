//! Command lines in, values or problems out.

use std::time::Duration;

use clap::CommandFactory;
use switchyard_plan::settings::{LoopbackNodePorts, MasqueradeClusterIp};

use super::*;
use crate::logging::Format;

fn read(args: &[&str]) -> Result<Flags, clap::Error> {
    Flags::read(std::iter::once("switchyard").chain(args.iter().copied()).map(OsString::from))
}

fn config(args: &[&str]) -> Config {
    read(args).expect("flags parse").check().expect("flags are fine")
}

fn problems(args: &[&str]) -> Vec<String> {
    read(args).expect("flags parse").check().expect_err("flags are wrong")
}

#[test]
fn the_definition_is_sound() {
    Flags::command().debug_assert();
}

#[test]
fn defaults_are_kube_proxys() {
    let got = config(&[]);
    let want = Config {
        task: Task::Proxy,
        source: Source::Cluster { kubeconfig: None, master: None },
        service_ranges: vec!["10.96.0.0/12".parse().unwrap(), "fd00:10:96::/112".parse().unwrap()],
        hostname_override: None,
        bind_address: None,
        node_ports: NodePortRanges::All,
        local_mode: LocalMode::ClusterCidr(Vec::new()),
        mode: Mode::Iptables,
        masquerade: MasqueradeClusterIp::FromOutside,
        sync_period: Duration::from_secs(30),
        min_sync_period: Duration::from_secs(1),
        iptables_backend: IptablesBackend::Auto,
        masquerade_mark: 0x4000,
        loopback_node_ports: LoopbackNodePorts::Served,
        healthz: Some("0.0.0.0:10256".parse().unwrap()),
        metrics: "127.0.0.1:10249".parse().unwrap(),
        on_bind_failure: OnBindFailure::Retry,
        logging: crate::logging::Logging { format: Format::Text, verbosity: 0 },
        ignored: Vec::new(),
    };
    assert_eq!(got, want);
}

#[test]
fn names_are_normalised_and_values_are_not() {
    let args = ["switchyard", "--hostname_override=a_b", "-v", "a_b", "--", "--c_d"];
    let got = normalise(args.iter().map(OsString::from));
    assert_eq!(got, ["switchyard", "--hostname-override=a_b", "-v", "a_b", "--", "--c_d"]);
    let broken = OsString::from_vec(b"--a_b=\xff_".to_vec());
    assert_eq!(normalise([broken].into_iter()), [OsString::from_vec(b"--a-b=\xff_".to_vec())]);
}

#[test]
fn booleans_are_gos() {
    for (arg, want) in [
        ("--masquerade-all", MasqueradeClusterIp::All),
        ("--masquerade_all=true", MasqueradeClusterIp::All),
        ("--masquerade-all=1", MasqueradeClusterIp::All),
        ("--masquerade-all=t", MasqueradeClusterIp::All),
        ("--masquerade-all=T", MasqueradeClusterIp::All),
        ("--masquerade-all=TRUE", MasqueradeClusterIp::All),
        ("--masquerade-all=false", MasqueradeClusterIp::FromOutside),
        ("--masquerade-all=0", MasqueradeClusterIp::FromOutside),
    ] {
        assert_eq!(config(&[arg]).masquerade, want, "{arg}");
    }
    assert_eq!(config(&["--iptables-localhost-nodeports=F"]).loopback_node_ports, LoopbackNodePorts::Refused);
    assert_eq!(problems(&["--cleanup=yes"]), ["--cleanup=\"yes\": must be true or false"]);
    assert!(read(&["--masquerade-all", "true"]).is_err(), "a value must follow =, as in Go");
}

#[test]
fn values_as_in_go() {
    assert_eq!(config(&["-v=4"]).logging.verbosity, 4);
    assert_eq!(config(&["-v4"]).logging.verbosity, 4);
    assert_eq!(config(&["-v", "4"]).logging.verbosity, 4);
    assert_eq!(config(&["--v=2", "--v=5"]).logging.verbosity, 5, "the last one wins");
    let got = config(&["--nodeport-addresses=10.1.2.3/8", "--nodeport-addresses", "fd00::/8,11.0.0.0/8"]);
    let want = ["10.0.0.0/8", "fd00::/8", "11.0.0.0/8"].map(|c| c.parse().unwrap());
    assert_eq!(got.node_ports, NodePortRanges::Cidrs(want.to_vec()), "lists go on");
    assert_eq!(config(&["--nodeport-addresses="]).node_ports, NodePortRanges::All);
    assert_eq!(config(&["--nodeport-addresses=primary"]).node_ports, NodePortRanges::Primary);
    assert_eq!(config(&["--iptables-min-sync-period=0"]).min_sync_period, Duration::ZERO);
    assert_eq!(config(&["--iptables-masquerade-bit=31"]).masquerade_mark, 1 << 31);
}

#[test]
fn addresses() {
    let healthz = |args: &[&str]| config(args).healthz.map(|a| a.to_string()).unwrap_or_default();
    assert_eq!(healthz(&["--healthz-bind-address=127.0.0.1"]), "127.0.0.1:10256");
    assert_eq!(healthz(&["--healthz-bind-address=::1", "--healthz-port=7"]), "[::1]:7");
    assert_eq!(healthz(&["--healthz-bind-address=[::]:1"]), "[::]:1");
    assert_eq!(healthz(&["--healthz-bind-address="]), "0.0.0.0:10256");
    assert_eq!(healthz(&["--healthz-port=0"]), "");
    assert_eq!(config(&["--metrics-bind-address=0.0.0.0"]).metrics.to_string(), "0.0.0.0:10249");
    for (args, want) in [
        (&["--bind-address="][..], None),
        (&["--bind-address=::"], None),
        (&["--bind-address=::ffff:192.0.2.1"], Some("192.0.2.1".parse().unwrap())),
    ] {
        assert_eq!(config(args).bind_address, want, "{args:?}");
    }
}

#[test]
fn node_names() {
    assert_eq!(config(&[]).node_name(" Host.A\n"), Some("host.a".to_owned()));
    assert_eq!(config(&[]).node_name(" "), None);
    assert_eq!(config(&["--hostname-override= N1 "]).node_name("host"), Some("n1".to_owned()));
    assert_eq!(problems(&["--hostname-override=  "]).len(), 1);
}

#[test]
fn a_usual_daemon_set_starts() {
    let got = config(&[
        "--kubeconfig=/var/lib/kube-proxy/kubeconfig",
        "--cluster-cidr=10.244.0.0/16",
        "--oom-score-adj",
        "-998",
        "--conntrack_tcp_be_liberal",
        "--profiling=false",
        "--feature-gates=A=true,B=false",
        "--feature-gates=C=true",
        "--init-only=false",
        "--config=",
        "--v=2",
    ]);
    let kubeconfig = Some("/var/lib/kube-proxy/kubeconfig".into());
    assert_eq!(got.source, Source::Cluster { kubeconfig, master: None });
    let ignored = ["--conntrack-tcp-be-liberal", "--feature-gates", "--oom-score-adj", "--profiling"];
    assert_eq!(got.ignored, ignored);
}

#[test]
fn every_wrong_value_is_named() {
    let cases: [(&[&str], &str); 33] = [
        (&["--config=/etc/x"], "config"),
        (&["--config=f"], "config"),
        (&["--init-only"], "init-only"),
        (&["--write-config-to=/x"], "write-config-to"),
        (&["--proxy-mode=ipvs"], "proxy-mode"),
        (&["--proxy-mode=IPTables"], "proxy-mode"),
        (&["--iptables-backend=ebtables"], "iptables-backend"),
        (&["--iptables-masquerade-bit=32"], "iptables-masquerade-bit"),
        (&["--iptables-masquerade-bit=-1"], "iptables-masquerade-bit"),
        (&["--iptables-sync-period=0"], "iptables-sync-period"),
        (&["--iptables-sync-period=30"], "iptables-sync-period"),
        (&["--iptables-sync-period=500ms"], "iptables-sync-period"),
        (&["--iptables-min-sync-period=-1s"], "iptables-min-sync-period"),
        (&["--cluster-cidr=10.0.0.0"], "cluster-cidr"),
        (&["--cluster-cidr= "], "cluster-cidr"),
        (&["--nodeport-addresses= "], "nodeport-addresses"),
        (&["--cluster-cidr=10.0.0.0/8,11.0.0.0/8"], "cluster-cidr"),
        (&["--cluster-cidr=10.0.0.0/8,"], "cluster-cidr"),
        (&["--detect-local-mode=clustercidr"], "detect-local-mode"),
        (&["--detect-local-mode=BridgeInterface"], "pod-bridge-interface"),
        (
            &["--detect-local-mode=BridgeInterface", "--pod-bridge-interface=a -j ACCEPT"],
            "pod-bridge-interface",
        ),
        (&["--detect-local-mode=InterfaceNamePrefix"], "pod-interface-name-prefix"),
        (&["--nodeport-addresses=primary,10.0.0.0/8"], "nodeport-addresses"),
        (&["--nodeport-addresses=10.0.0.1"], "nodeport-addresses"),
        (&["--bind-address=node-1"], "bind-address"),
        (&["--healthz-bind-address=0.0.0.0:0"], "healthz-bind-address"),
        (&["--metrics-bind-address=localhost:1"], "metrics-bind-address"),
        (&["--metrics-port=0"], "metrics-port"),
        (&["--logging-format=yaml"], "logging-format"),
        (&["--v=-1"], "v"),
        (&["--manifests=/m", "--master=http://x"], "master"),
        (&["--service-cluster-ip-range="], "service-cluster-ip-range"),
        (&["--version=maybe"], "version"),
    ];
    for (args, flag) in cases {
        let found = problems(args);
        assert_eq!(found.len(), 1, "{args:?}: {found:?}");
        assert!(found[0].starts_with(&format!("--{flag}=\"")), "{args:?}: {found:?}");
    }
}

#[test]
fn all_problems_come_at_once() {
    let found = problems(&["--config=c", "--proxy-mode=ipvs", "--v=x"]);
    let want = [
        "--config=\"c\": configuration files are not yet supported; pass flags instead",
        "--proxy-mode=\"ipvs\": mode ipvs is not available in this version; available: iptables, nftables",
        "--v=\"x\": must be a number from 0 to 2147483647",
    ];
    assert_eq!(found, want);
    let hostile = problems(&["--proxy-mode=a\n\u{1b}[2J"]).concat();
    assert!(!hostile.chars().any(char::is_control), "{hostile:?}");
}

#[test]
fn flags_that_the_mode_does_not_use_are_not_looked_at() {
    let got = config(&["--detect-local-mode=NodeCIDR", "--cluster-cidr=garbage"]);
    assert_eq!(got.local_mode, LocalMode::NodeCidr);
}

#[test]
fn version_and_help() {
    for arg in ["--version", "--version=true", "--version=raw"] {
        let text = read(&[arg]).expect("flags parse").version_text();
        assert!(text.is_some_and(|text| text.starts_with("Switchyard v")), "{arg}");
    }
    assert_eq!(read(&["--version=false"]).expect("flags parse").version_text(), None);
    let help = read(&["--help"]).expect_err("help is not a run");
    assert!(!help.use_stderr());
    let help = help.to_string();
    for word in
        ["Source:", "Node:", "Local traffic:", "iptables mode:", "Logging:", "switchyard demo", "Examples:"]
    {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(!help.contains("--oom-score-adj"));
    assert!(read(&["--no-such-flag"]).is_err());
    assert!(read(&["stray"]).is_err());
}

#[test]
fn the_demo_has_flags_of_its_own() {
    let demo = |args: &[&str]| match read(args).expect("flags parse").command {
        Some(Command::Demo(flags)) => flags,
        None => panic!("no demo in {args:?}"),
    };
    let got = demo(&["demo"]);
    assert_eq!((got.once, got.mode, got.examples, got.no_color), (false, Mode::Iptables, None, false));
    let got = demo(&["demo", "--once", "--iptables_backend=nft", "--examples", "e", "--no-color"]);
    assert!(got.once && got.no_color && got.iptables_backend == IptablesBackend::Nft);
    assert!(read(&["-v=4", "demo"]).is_err(), "the proxy's flags are not the demo's");
    assert!(read(&["demo", "--mode=ipvs"]).is_err());
    assert!(read(&[]).expect("flags parse").command.is_none());
}
