//! Command lines and files in, values or problems out.

mod every;
mod files;
mod recorded;

use std::time::Duration;

use clap::CommandFactory;
use switchyard_plan::settings::{LoopbackNodePorts, MasqueradeClusterIp};

use super::*;
use crate::logging::Format;

fn read(args: &[&str]) -> Result<Flags, clap::Error> {
    Flags::read(std::iter::once("switchyard").chain(args.iter().copied()).map(OsString::from))
}

fn config(args: &[&str]) -> Config {
    read(args).expect("flags parse").check().unwrap_or_else(|problems| panic!("{args:?}: {problems:?}"))
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
        admin_socket: Some(ADMIN_SOCKET.into()),
        dashboard: Dashboard::Off,
        on_bind_failure: OnBindFailure::Retry,
        logging: crate::logging::Logging { format: Format::Text, verbosity: 0 },
        conntrack: Conntrack {
            max_per_core: 32768,
            min: 131_072,
            tcp_established_seconds: Some(24 * 3600),
            tcp_close_wait_seconds: Some(3600),
            udp_seconds: None,
            udp_stream_seconds: None,
            is_liberal: false,
        },
        oom_score_adj: -999,
        config_file: None,
        configuration: got.configuration.clone(),
        flags: got.flags.clone(),
        notes: Vec::new(),
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
    assert_eq!(problems(&["--cleanup=yes"]), ["--cleanup: invalid value \"yes\": must be true or false"]);
    assert_eq!(problems(&["--cleanup="]), ["--cleanup: invalid value \"\": must be true or false"]);
    let stray = problems(&["--masquerade-all", "true"]).concat();
    assert!(stray.contains("a boolean's value follows =") && stray.contains("[\"true\"]"), "{stray}");
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
    assert_eq!(config(&["--proxy-mode=nftables"]).node_ports, NodePortRanges::Primary);
    assert_eq!(config(&["--iptables-min-sync-period=0"]).min_sync_period, Duration::ZERO);
    assert_eq!(config(&["--iptables-masquerade-bit=31"]).masquerade_mark, 1 << 31);
    assert_eq!(config(&["--iptables-masquerade-bit=0x10"]).masquerade_mark, 1 << 16);
    assert_eq!(config(&["--proxy-mode=nftables", "--iptables-masquerade-bit=1"]).masquerade_mark, 1 << 14);
    assert_eq!(config(&["--kubeconfig", "--v=2"]).logging.verbosity, 0, "any other flag takes what follows");
    assert_eq!(config(&["", "--v=2", ""]).logging.verbosity, 2, "templates leave empty arguments behind");
}

#[test]
fn addresses() {
    let healthz = |args: &[&str]| config(args).healthz.map(|a| a.to_string()).unwrap_or_default();
    assert_eq!(healthz(&["--healthz-bind-address=127.0.0.1"]), "127.0.0.1:10256");
    assert_eq!(healthz(&["--healthz-bind-address=::1", "--healthz-port=7"]), "[::1]:7");
    assert_eq!(healthz(&["--healthz-bind-address=[::]:1"]), "[::]:1");
    assert_eq!(healthz(&["--healthz-bind-address="]), "0.0.0.0:10256");
    assert_eq!(healthz(&["--healthz-port=0"]), "");
    assert!(config(&["--healthz-port=0"]).notes[0].contains("deprecated"));
    assert_eq!(healthz(&["--bind-address=::1"]), "0.0.0.0:10256", "defaults are made before flags are read");
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
        "--feature-gates=AllAlpha=false,AtomicFIFO=true",
        "--feature-gates=LoggingAlphaOptions=true",
        "--init-only=false",
        "--kube-api-qps=50",
        "--machine-id-file=/etc/machine-id",
        "--config=",
        "--v=2",
    ]);
    let kubeconfig = Some("/var/lib/kube-proxy/kubeconfig".into());
    assert_eq!(got.source, Source::Cluster { kubeconfig, master: None });
    assert!(got.conntrack.is_liberal && got.oom_score_adj == -998);
    let notes = [
        "accepted without effect: --kube-api-qps, --machine-id-file",
        "feature gates without effect here: AllAlpha, AtomicFIFO",
    ];
    assert_eq!(got.notes, notes);
}

#[test]
fn all_problems_come_at_once() {
    let found = problems(&["--proxy-mode=ipv", "--v=x", "--v=2", "--iptables-masquerade-bit=32", "stray"]);
    let want = [
        "\"switchyard\" takes no arguments but flags and subcommands (a boolean's value follows =); got [\"stray\"]",
        "--v: invalid value \"x\": must be a number from 0 to 2147483647",
        "--iptables-masquerade-bit: invalid value 32: must be within the range [0, 31]",
        "--proxy-mode: invalid value \"ipv\": must be iptables, ipvs, nftables, userspace or blank (blank means iptables)",
    ];
    assert_eq!(found, want);
    let hostile = problems(&["--proxy-mode=a\n\u{1b}[2J", "b\nc"]).concat();
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
    assert_eq!(read(&["--version=v1.2.3"]).expect("flags parse").version_text(), None);
    let help = read(&["--help"]).expect_err("help is not a run");
    assert!(!help.use_stderr());
    let help = help.to_string();
    for word in [
        "Source:",
        "Node:",
        "Local traffic:",
        "iptables mode:",
        "Kernel:",
        "Logging:",
        "switchyard demo",
        "Examples:",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(!help.contains("--machine-id-file") && !help.contains("stray"));
}

#[test]
fn an_unknown_flag_is_refused_with_the_nearest_known_one() {
    for (wrong, near) in [
        ("--proxymode=x", "--proxy-mode"),
        ("--cluster-cidrs=x", "--cluster-cidr"),
        ("--metric-bind-address=x", "--metrics-bind-address"),
        ("--conntrack-max=5", "--conntrack-m"),
    ] {
        let error = read(&[wrong]).expect_err("no such flag");
        assert!(error.use_stderr());
        let text = error.to_string();
        assert!(text.contains("unexpected argument") && text.contains(near), "{wrong}: {text}");
    }
    for wrong in ["-config=x", "--=x", "---v=2", "--v", "-v", "--kubeconfig"] {
        assert!(read(&[wrong]).is_err_and(|error| error.use_stderr()), "{wrong}");
    }
}

#[test]
fn the_demo_has_flags_of_its_own() {
    let demo = |args: &[&str]| match read(args).expect("flags parse").command {
        Some(Command::Demo(flags)) => flags,
        other => panic!("{other:?} in {args:?}"),
    };
    let got = demo(&["demo"]);
    assert_eq!((got.once, got.mode, got.examples, got.no_color), (false, Mode::Iptables, None, false));
    let got = demo(&["demo", "--once", "--iptables_backend=nft", "--examples", "e", "--no-color"]);
    assert!(got.once && got.no_color && got.iptables_backend == IptablesBackend::Nft);
    assert!(problems(&["-v=4", "demo"])[0].contains("[\"demo\"]"), "the proxy's flags are not the demo's");
    assert!(read(&["demo", "--mode=ipvs"]).is_err());
    assert!(read(&[]).expect("flags parse").command.is_none());
}
