//! kube-proxy and switchyard with the same flags and in the same mode, each on node n1 of a lab of its own. Only switchyard's userspace mode
//! has kube-proxy's nftables mode beside it, see [`relay`].
//!
//! In: a control plane with objects. Out: how the rules of the two differ, and how packets fare. kube-proxy never runs outside of its
//! lab's namespace, and finds only the iptables programs of one variant.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use switchyard_lab::scenario::Scenario;
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::{Host, Lab, Node, Process};
use tempfile::TempDir;

use crate::common::looking::{is_idle, series, within};
use crate::common::ruleset::has_mark;
use crate::common::stage::Stage;
use crate::common::variant::Variant;
use crate::e2e::api::Api;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::gateway::Gateway;
use crate::e2e::programs::search_path;
use crate::packets::{self, Effort, Pair, Report};
use crate::probes::Probe;
use crate::relay;
use crate::rules::Rules;
use crate::sources;

/// How long both may take until they agree. Each may still be at work on an earlier change.
const AGREE: Duration = Duration::from_secs(30);

/// What both are started with. No pause between syncs, and no kernel setting is touched that all namespaces share.
const FLAGS: [&str; 4] = [
    "--hostname-override=n1",
    "--iptables-min-sync-period=0s",
    "--conntrack-max-per-core=0",
    "--healthz-bind-address=0.0.0.0:10256",
];

/// The node of both, and where its zone is.
const NODE: &str = "/api/v1/nodes/n1";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Upstream,
    Ours,
}

/// One proxy. The order of the fields is that of their ends: a gateway needs the lab for its own.
pub(crate) struct Proxy {
    kind: Kind,
    process: Process,
    _gateway: Gateway,
    node: Host,
    stage: Stage,
    _dir: TempDir,
}

/// See the module.
pub(crate) struct Peers {
    pub(crate) upstream: Proxy,
    pub(crate) ours: Proxy,
    pub(crate) variant: Variant,
}

/// What a pair is started with.
pub(crate) struct Plan<'a> {
    pub(crate) kube_proxy: &'a Path,
    pub(crate) control_plane: &'a ControlPlane,
    pub(crate) variant: Variant,
    pub(crate) flags: &'a [String],
    /// Its pods are there.
    pub(crate) scenario: &'a Scenario,
}

impl Peers {
    pub(crate) fn start(plan: &Plan<'_>) -> Self {
        let [upstream, ours] = [Kind::Upstream, Kind::Ours].map(|kind| Proxy::start(plan, kind));
        Self { upstream, ours, variant: plan.variant }
    }

    /// Makes sure that kube-proxy knows the zone of its node: it listens for Nodes a moment before it knows who is to be told, and a Node that
    /// comes in between is never told of. A zone that changes is, once it has written rules.
    pub(crate) fn tell_zone(&self, api: &Api) -> Result<(), String> {
        let zone = json!({ "metadata": { "labels": { ZONE: "elsewhere" } } });
        let node = api.read(NODE).map_err(|refused| refused.to_string())?;
        let Some(own) = node.pointer("/metadata/labels").and_then(|labels| labels.get(ZONE)) else {
            return Ok(());
        };
        let own = json!({ "metadata": { "labels": { ZONE: own } } });
        let asked =
            || series(&self.upstream.node, "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds");
        for zone in [zone, own] {
            let before = asked();
            api.patch(NODE, &zone).map_err(|refused| refused.to_string())?;
            if !within(AGREE, || asked() != before && is_idle(&self.upstream.node)) {
                return Err("  kube-proxy does not hear of its zone\n".to_owned());
            }
        }
        Ok(())
    }

    /// Waits until both have rules for a marker.
    pub(crate) fn await_mark(&mut self, number: u16) -> Result<(), String> {
        let mut late = String::new();
        let is_there = within(AGREE, || {
            let proxies = [&self.upstream, &self.ours];
            late =
                proxies.iter().filter(|p| !p.has_mark(self.variant, number)).map(|p| p.is_late()).collect();
            late.is_empty()
        });
        if is_there { Ok(()) } else { Err(late + &self.ends()) }
    }

    /// Waits until both agree. The number of rules, or the last difference.
    pub(crate) fn compare_rules(&mut self) -> Result<usize, String> {
        let (mut difference, mut count) = (String::new(), 0);
        let agreed = within(AGREE, || {
            difference = self.difference(&mut count);
            difference.is_empty()
        });
        if agreed { Ok(count) } else { Err(difference + &self.ends()) }
    }

    /// Tries flows in both labs.
    pub(crate) fn compare_packets(&self, probes: &[Probe], effort: Effort) -> Report {
        let pair = Pair { upstream: &self.upstream.stage, ours: &self.ours.stage, variant: self.variant };
        packets::compare(pair, probes, effort)
    }

    fn difference(&self, count: &mut usize) -> String {
        *count = 0;
        let mut text = String::new();
        for tool in ["iptables", "ip6tables"] {
            let tool = format!("{tool}-{}-save", self.variant.backend().unwrap());
            let [theirs, ours] = [&self.upstream, &self.ours]
                .map(|proxy| Rules::parse(&proxy.node.exec_ok::<&str>(&tool, &[]).unwrap()));
            *count += theirs.count();
            text.push_str(&Rules::difference(&theirs, &ours));
        }
        text
    }

    /// Why one of them may have ended.
    fn ends(&mut self) -> String {
        let mut text = String::new();
        for proxy in [&mut self.upstream, &mut self.ours] {
            if let Some(status) = proxy.process.exit_status().unwrap() {
                text.push_str(&format!("  ended with {status}:\n{}\n", proxy.process.log().unwrap()));
            }
        }
        text
    }
}

impl Proxy {
    fn start(plan: &Plan<'_>, kind: Kind) -> Self {
        let (lab, dir) = (Lab::new().unwrap(), tempfile::tempdir().unwrap());
        let gateway = Gateway::open(&lab, plan.control_plane);
        let (router, nodes) = (lab.router().clone(), Node::ALL.map(|node| lab.node(node).clone()));
        let stage = Stage::new(lab, plan.scenario).unwrap();
        for (symbol, before) in
            [(Symbol::Client, &router), (Symbol::Pod(1, 9), &nodes[0]), (Symbol::Pod(2, 9), &nodes[1])]
        {
            if let Ok(client) = stage.host(symbol) {
                sources::lend(client, before).unwrap();
            }
        }
        [&router, &nodes[0], &nodes[1]].into_iter().for_each(refuse_without_limit);
        let [node, _] = nodes;
        let mut command = match kind {
            Kind::Upstream => Command::new(plan.kube_proxy),
            Kind::Ours => Command::new(env!("CARGO_BIN_EXE_switchyard")),
        };
        command.arg("--kubeconfig").arg(plan.control_plane.kubeconfig()).args(FLAGS).args(plan.flags);
        command.arg(format!("--proxy-mode={}", mode_of(kind, plan.variant).mode_name()));
        if (kind, plan.variant) == (Kind::Upstream, Variant::Userspace) {
            command.args(relay::flag_for_kube_proxy(plan.flags));
        }
        if let (Kind::Ours, Some(_)) = (kind, plan.variant.backend()) {
            command.arg(plan.variant.flag());
        }
        // nftables mode runs iptables only to clean up.
        let backend = plan.variant.backend().unwrap_or("nft");
        command.env("PATH", search_path(dir.path(), Some(backend)));
        command.env("XTABLES_LOCKFILE", dir.path().join("xtables.lock"));
        let process = node.start(&mut command, &dir.path().join("log")).unwrap();
        Self { kind, process, node, stage, _gateway: gateway, _dir: dir }
    }

    /// Who dials.
    pub(crate) fn host(&self, symbol: Symbol) -> &Host {
        self.stage.host(symbol).unwrap()
    }

    fn is_late(&self) -> String {
        format!("  {:?} is not in time\n", self.kind)
    }

    fn has_mark(&self, variant: Variant, number: u16) -> bool {
        match (self.kind, mode_of(self.kind, variant)) {
            (Kind::Upstream, Variant::Nftables) => has_mark_of_kube_proxy(&self.node, number),
            (_, variant) => has_mark(&self.node, variant, number),
        }
    }
}

/// One limit on ICMP errors holds for all that a kernel sends, whatever the lab allows each host: with an empty mask no kind is counted. A
/// kernel that knows no mask holds some refusals back, and those are asked for again.
fn refuse_without_limit(host: &Host) {
    // Type 127 is an error that nobody sends.
    for (file, mask) in [("ipv4/icmp_ratemask", "0"), ("ipv6/icmp/ratemask", "127")] {
        drop(host.run(|| std::fs::write(format!("/proc/sys/net/{file}"), mask)));
    }
}

/// What a relay is compared with: kube-proxy has none since 1.26, and the rules that lead to ours are those of nftables mode.
fn mode_of(kind: Kind, variant: Variant) -> Variant {
    match (kind, variant) {
        (Kind::Upstream, Variant::Userspace) => Variant::Nftables,
        _ => variant,
    }
}

/// As [`has_mark`], for kube-proxy's table of nftables mode.
fn has_mark_of_kube_proxy(node: &Host, port: u16) -> bool {
    [("ip6", "fd00:10:96::250"), ("ip", "10.96.0.250")].iter().all(|(family, address)| {
        let element = format!("{{ {address} . tcp . {port} }}");
        let found = node.exec_ok("nft", &["get", "element", family, "kube-proxy", "service-ips", &element]);
        found.is_ok_and(|found| found.contains(" : goto "))
    })
}
