//! A live node changes hands as `docs/migrate.md` says: from upstream's kube-proxy to us, and back. Connections go on, and new ones are made
//! all the time, wherever that page says so.

use std::path::Path;
use std::process::Command;

use switchyard_lab::Transport::Tcp;
use switchyard_lab::scenario::CLUSTER_CIDR;
use switchyard_lab::{Held, Process};
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

/// From which mode of kube-proxy to which of ours.
#[derive(Clone, Copy, Debug)]
struct Way {
    theirs: Variant,
    ours: Variant,
}

impl Way {
    /// The variant of iptables that the programs on the node have.
    fn backend(self) -> &'static str {
        self.theirs.backend().or(self.ours.backend()).unwrap_or("nft")
    }

    /// Whether both write the same chains.
    fn shares_chains(self) -> bool {
        self.theirs.backend().is_some() && self.theirs == self.ours
    }

    /// The variants of iptables that either writes.
    fn iptables(self) -> impl Iterator<Item = Variant> {
        [Variant::Nft, Variant::Legacy].into_iter().filter(move |v| [self.theirs, self.ours].contains(v))
    }
}

/// kube-proxy in place of the proxy that ran. It finds only the programs of one variant of iptables; in nftables mode it has them to
/// clean up.
fn start_kube_proxy(cluster: &OnCluster, program: &Path, way: Way) {
    let world = &cluster.world;
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(cluster.control_plane.kubeconfig());
    command.args(["--hostname-override=n1", "--iptables-min-sync-period=0s", "--conntrack-max-per-core=0"]);
    command.arg(format!("--cluster-cidr={CLUSTER_CIDR}"));
    command.arg(format!("--proxy-mode={}", way.theirs.mode_name()));
    command.env("PATH", search_path(&world.path(""), Some(way.backend())));
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

/// Waits until the proxy that runs now has written the rules of both families.
fn await_sync(cluster: &OnCluster) {
    eventually("the proxy has synced both families", || {
        series(cluster.world.n1(), LAST_SYNC).values().filter(|time| **time > 0.0).count() == 2
    });
}

/// Waits as the documentation says, and its rules must stand then.
fn await_kube_proxy(cluster: &OnCluster, variant: Variant) {
    let n1 = cluster.world.n1();
    await_sync(cluster);
    let stand = match variant.backend() {
        Some(_) => has_mark(n1, variant, 7),
        None => ruleset::NFT_FAMILIES
            .iter()
            .all(|family| ruleset::table(n1, family, "kube-proxy").contains("default/web/tcp/")),
    };
    assert!(stand, "its rules do not stand");
}

/// The rules of somebody else, in nf_tables and in the variants of iptables that either proxy uses.
fn rules_of_others(cluster: &OnCluster, way: Way) -> String {
    let mut rules = ruleset::table(cluster.world.n1(), "inet", "other");
    for variant in way.iptables() {
        let all = ruleset::rules(cluster.world.n1(), variant);
        rules.extend(all.lines().filter(|line| line.contains("OTHERS")));
    }
    rules
}

fn write_rules_of_others(cluster: &OnCluster, way: Way) {
    let n1 = cluster.world.n1();
    assert!(n1.feed("nft", &["-f", "-"], OTHERS.as_bytes()).unwrap().status.success());
    let tools = |variant: Variant| {
        let backend = variant.backend().unwrap();
        ["iptables", "ip6tables"].map(|family| format!("{family}-{backend}"))
    };
    for tool in way.iptables().flat_map(tools) {
        for rule in ["-N OTHERS", "-A OTHERS -p tcp --dport 9998 -j RETURN", "-A PREROUTING -j OTHERS"] {
            let arguments: Vec<&str> = ["-w", "-t", "nat"].into_iter().chain(rule.split(' ')).collect();
            n1.exec_ok(&tool, &arguments).unwrap();
        }
    }
}

/// What the documentation tells to run after going back; nothing where it says so.
fn documented_removal(way: Way) -> Option<&'static str> {
    let text = include_str!("../../../../docs/migrate.md");
    assert!(text.contains(LAST_SYNC));
    let row = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin)).unwrap();
    if way.shares_chains() {
        assert_eq!(row("| iptables, to kube-proxy in iptables mode | "), "nothing |");
        return None;
    }
    assert_eq!(way.ours, Variant::Nftables, "no other way is documented");
    row("| nftables | `").split('`').next()
}

/// Waits until a change of endpoints is seen: nobody else answers any more.
fn await_only(cluster: &OnCluster, from: &str, to: &str, pod: &str) {
    let name = cluster.world.pod(pod).name().to_owned();
    for family in Family::ALL {
        let is_it = || cluster.world.ask(from, Tcp, to, family).name() == Some(&name);
        eventually(&format!("only {pod} answers on {to}"), || (0..10).all(|_| is_it()));
    }
}

/// kube-proxy ends, we start; then a change must be seen.
fn take_over(cluster: &OnCluster, way: Way, held: &mut [(Held, String)]) {
    let (world, n1) = (&cluster.world, cluster.world.n1());
    while_connecting(world, || {
        stop(cluster);
        assert!(has_any_of_kube_proxy(n1, way.theirs));
        cluster.start(&[]);
        await_sync(cluster);
        assert!(has_mark(n1, way.ours, 7), "our rules do not stand");
        if !way.shares_chains() {
            eventually("nothing of kube-proxy is left", || !has_any_of_kube_proxy(n1, way.theirs));
        }
        assert_held(held);
    });
    cluster.write("remove endpoint web n1.1:8080");
    await_only(cluster, "client", "n1:30080", "n2.1");
    cluster.write("endpoint web n1.1:8080");
}

/// A restart in nftables mode. In userspace mode the relay ends first, and new connections wait for the rules.
fn change_to_nftables(cluster: &OnCluster, way: Way, held: &mut [(Held, String)]) {
    let world = &cluster.world;
    let change = || {
        stop(cluster);
        cluster.start(&["--proxy-mode=nftables"]);
        await_sync(cluster);
        assert!(has_mark(world.n1(), Variant::Nftables, 7), "our rules do not stand");
        eventually("our chains are gone", || !has_any_of_kube_proxy(world.n1(), way.ours));
    };
    if way.ours == Variant::Userspace {
        change()
    } else {
        while_connecting(world, change)
    }
    assert_held(held);
}

/// We end, kube-proxy starts, and what it does not know of is removed.
fn go_back(cluster: &OnCluster, program: &Path, way: Way) {
    let n1 = cluster.world.n1();
    stop(cluster);
    start_kube_proxy(cluster, program, way);
    await_kube_proxy(cluster, way.theirs);
    if let Some(removal) = documented_removal(way) {
        assert!(has_tables(n1, "switchyard"), "kube-proxy removes our tables: the documentation is wrong");
        n1.exec_ok("sh", &["-c", removal]).unwrap();
        assert!(!has_tables(n1, "switchyard"));
    }
}

fn from_kube_proxy_and_back(theirs: Variant, ours: Variant) {
    let mut way = Way { theirs, ours };
    let Some(program) = find_or_skip(KUBE_PROXY) else { return };
    let Some(cluster) = OnCluster::unstarted(ours) else { return };
    let world = &cluster.world;
    if !theirs.is_usable(&world.lab) {
        return;
    }
    cluster.write(OBJECTS);
    write_rules_of_others(&cluster, way);
    let others = rules_of_others(&cluster, way);
    start_kube_proxy(&cluster, &program, way);
    await_kube_proxy(&cluster, theirs);
    let mut held = hold_both(world);
    take_over(&cluster, way, &mut held);
    assert_eq!(rules_of_others(&cluster, way), others);
    if ours != Variant::Userspace {
        held.extend(hold_both(world));
    }
    if !way.shares_chains() && ours != Variant::Nftables {
        change_to_nftables(&cluster, way, &mut held);
        way.ours = Variant::Nftables;
    }
    held.extend(hold_both(world));
    while_connecting(world, || {
        go_back(&cluster, &program, way);
        assert_held(&mut held);
        cluster.write("remove endpoint web n2.1:8080");
        await_only(&cluster, "n1.9", "cluster.1:80", "n1.1");
    });
    way.ours = ours;
    assert_eq!(rules_of_others(&cluster, way), others);
}

macro_rules! ways {
    ($($name:ident: $theirs:ident to $ours:ident),+ $(,)?) => { $(
        #[test]
        fn $name() {
            from_kube_proxy_and_back(Variant::$theirs, Variant::$ours);
        }
    )+ };
}

ways![
    iptables_nft_to_the_same: Nft to Nft,
    iptables_legacy_to_the_same: Legacy to Legacy,
    iptables_nft_to_nftables: Nft to Nftables,
    iptables_legacy_to_nftables: Legacy to Nftables,
    iptables_nft_to_userspace: Nft to Userspace,
    nftables_to_nftables: Nftables to Nftables,
    nftables_to_iptables_nft: Nftables to Nft,
    nftables_to_iptables_legacy: Nftables to Legacy,
    nftables_to_userspace: Nftables to Userspace,
];
