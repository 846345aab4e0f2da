//! A live node changes hands as `docs/migrate.md` says: from upstream's kube-proxy to us, and back. All connections go on.

use std::path::Path;
use std::process::Command;

use switchyard_lab::Process;
use switchyard_lab::Transport::Tcp;
use switchyard_lab::scenario::CLUSTER_CIDR;
use switchyard_model::Family;

use crate::common::looking::{PATIENCE, eventually, series};
use crate::common::ruleset::{self, has_any_of_kube_proxy, has_mark, has_tables};
use crate::common::traffic::{assert_held, hold_both, while_connecting};
use crate::common::variant::Variant;
use crate::e2e::programs::{KUBE_PROXY, find_or_skip, search_path};
use crate::on_cluster::OnCluster;

/// The Service whose connections must not fail, and one whose rules show that all are written.
const OBJECTS: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080\n\
                       service mark cluster.250:7/tcp\nendpoint mark n2.1:8080";

/// What somebody else has on the node.
const OTHERS: &str =
    "table inet other { chain input { type filter hook input priority 0; tcp dport 9999 drop; }\n}";

/// kube-proxy in place of the proxy that ran. It finds only the programs of its variant of iptables; in nftables mode it has them to
/// clean up.
fn start_kube_proxy(cluster: &OnCluster, program: &Path, variant: Variant) {
    let world = &cluster.world;
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(cluster.control_plane.kubeconfig());
    command.args(["--hostname-override=n1", "--iptables-min-sync-period=0s", "--conntrack-max-per-core=0"]);
    command.arg(format!("--cluster-cidr={CLUSTER_CIDR}"));
    command.arg(format!("--proxy-mode={}", variant.mode_name()));
    command.env("PATH", search_path(&world.path(""), Some(variant.backend().unwrap_or("nft"))));
    command.env("XTABLES_LOCKFILE", world.lock_file());
    world.launch(world.n1(), &mut command);
}

fn stop(cluster: &OnCluster) {
    cluster.world.agent(|proxy: &mut Process| {
        proxy.terminate().unwrap();
        assert!(proxy.wait(PATIENCE).unwrap().is_some(), "it does not end");
    });
}

/// The metric that shows that a sync is done, see the documentation. The health page is no such sign: it is well before the first sync.
const LAST_SYNC: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";

/// Waits as the documentation says, and its rules must stand then.
fn await_kube_proxy(cluster: &OnCluster, variant: Variant) {
    let n1 = cluster.world.n1();
    eventually("kube-proxy has synced both families", || {
        series(n1, LAST_SYNC).values().filter(|time| **time > 0.0).count() == 2
    });
    let stand = match variant.backend() {
        Some(_) => has_mark(n1, variant, 7),
        None => ruleset::NFT_FAMILIES
            .iter()
            .all(|family| ruleset::table(n1, family, "kube-proxy").contains("default/web/tcp/")),
    };
    assert!(stand, "its rules do not stand");
}

/// The rules of somebody else, in nf_tables and in the variant of iptables that kube-proxy uses.
fn rules_of_others(cluster: &OnCluster, variant: Variant) -> String {
    let mut rules = ruleset::table(cluster.world.n1(), "inet", "other");
    if variant.backend().is_some() {
        let all = ruleset::rules(cluster.world.n1(), variant);
        rules.extend(all.lines().filter(|line| line.contains("OTHERS")));
    }
    rules
}

fn write_rules_of_others(cluster: &OnCluster, variant: Variant) {
    let n1 = cluster.world.n1();
    assert!(n1.feed("nft", &["-f", "-"], OTHERS.as_bytes()).unwrap().status.success());
    let Some(backend) = variant.backend() else { return };
    for family in ["iptables", "ip6tables"] {
        let tool = format!("{family}-{backend}");
        for rule in ["-N OTHERS", "-A OTHERS -p tcp --dport 9998 -j RETURN", "-A PREROUTING -j OTHERS"] {
            let arguments: Vec<&str> = ["-w", "-t", "nat"].into_iter().chain(rule.split(' ')).collect();
            n1.exec_ok(&tool, &arguments).unwrap();
        }
    }
}

/// What the documentation tells to run after going back.
fn documented_removal() -> &'static str {
    let text = include_str!("../../../../docs/migrate.md");
    let row = text.lines().find(|line| line.starts_with("| nftables, userspace | `")).unwrap();
    assert!(text.contains(LAST_SYNC));
    row.split('`').nth(1).unwrap()
}

/// Waits until a change of endpoints is seen: nobody else answers any more.
fn await_only(cluster: &OnCluster, from: &str, to: &str, pod: &str) {
    let name = cluster.world.pod(pod).name().to_owned();
    for family in Family::ALL {
        let is_it = || cluster.world.ask(from, Tcp, to, family).name() == Some(&name);
        eventually(&format!("only {pod} answers on {to}"), || (0..10).all(|_| is_it()));
    }
}

fn from_kube_proxy_and_back(theirs: Variant) {
    let Some(program) = find_or_skip(KUBE_PROXY) else { return };
    let Some(cluster) = OnCluster::unstarted(Variant::Nftables) else { return };
    let (world, n1) = (&cluster.world, cluster.world.n1());
    if !theirs.is_usable(&world.lab) {
        return;
    }
    cluster.write(OBJECTS);
    write_rules_of_others(&cluster, theirs);
    let others = rules_of_others(&cluster, theirs);
    start_kube_proxy(&cluster, &program, theirs);
    await_kube_proxy(&cluster, theirs);
    let mut held = hold_both(world);

    while_connecting(world, || {
        stop(&cluster);
        assert!(has_any_of_kube_proxy(n1, theirs));
        cluster.start(&[]);
        eventually("ours stands", || has_mark(n1, Variant::Nftables, 7));
        eventually("nothing of kube-proxy is left", || !has_any_of_kube_proxy(n1, theirs));
        assert_held(&mut held);
    });
    assert_eq!(rules_of_others(&cluster, theirs), others);
    cluster.write("remove endpoint web n1.1:8080");
    await_only(&cluster, "client", "n1:30080", "n2.1");
    cluster.write("endpoint web n1.1:8080");
    let mut held: Vec<_> = held.into_iter().chain(hold_both(world)).collect();

    while_connecting(world, || {
        stop(&cluster);
        start_kube_proxy(&cluster, &program, theirs);
        await_kube_proxy(&cluster, theirs);
        assert!(has_tables(n1, "switchyard"), "kube-proxy removes our tables: the documentation is wrong");
        n1.exec_ok("sh", &["-c", documented_removal()]).unwrap();
        assert!(!has_tables(n1, "switchyard"));
        assert_held(&mut held);
        cluster.write("remove endpoint web n2.1:8080");
        await_only(&cluster, "n1.9", "cluster.1:80", "n1.1");
    });
    assert_eq!(rules_of_others(&cluster, theirs), others);
}

every_mode![from_kube_proxy_and_back];
