//! Very many Services that come and go through the API while the agent runs. `SERVICES=n` in the environment makes it another number.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use switchyard_lab::{Dial, Host};

use crate::common::looking::{METRICS, http, within};
use crate::common::variant::Variant;
use crate::e2e::bulk::Crowd;
use crate::on_cluster::{OnCluster, WEB};

const SERVICES: u32 = 5000;

/// For a debug build, and an API server, on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// What the API server is asked to delete, until there is nothing left: it gives up after a minute of it.
const LISTS: [&str; 2] =
    ["/api/v1/namespaces/crowd/services", "/apis/discovery.k8s.io/v1/namespaces/crowd/endpointslices"];

/// What the agent may hold afterwards, in multiples of before: allocators keep some of what they had.
const GROWTH: f64 = 3.0;

/// What no page of the dashboard exceeds. The longest is the ledger, with its last 256 changes.
const PAGE: usize = 400_000;

/// Two endpoints for each Service.
fn endpoints(n: u32) -> Vec<String> {
    [200, 201].map(|net| format!("10.{net}.{}.{}", n / 250, n % 250 + 1)).to_vec()
}

/// One pod answers for all of them.
fn answer_for_all(cluster: &OnCluster) {
    let pod = cluster.world.pod("n1.1");
    cluster.world.n1().exec_ok("ip", &["route", "add", "10.200.0.0/15", "via", "10.1.1.11"]).unwrap();
    let nat = "table ip answers { chain in { type nat hook prerouting priority -100; \
               ip daddr 10.200.0.0/15 tcp dport 8080 dnat to 10.1.1.11:8080; }; }";
    pod.exec_ok("nft", &[nat]).unwrap();
}

/// Elements of a map whose lines contain a text.
fn count(rules: &str, map: &str, text: &str) -> usize {
    let beginning = format!("ip {map} ");
    rules.lines().filter(|line| line.starts_with(&beginning) && line.contains(text)).count()
}

/// The agent's resident memory, in KiB.
fn resident(cluster: &OnCluster) -> f64 {
    let status = format!("/proc/{}/status", cluster.world.agent(|agent| agent.id()));
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// `kubectl delete services,endpointslices --all`, in two requests.
fn delete_all(cluster: &OnCluster) {
    for list in LISTS {
        let is_empty = || cluster.api().delete(list).is_ok() && cluster.api().items(list).is_empty();
        assert!(within(LONG, is_empty), "{list} does not get empty");
    }
}

fn page(node: &Host, path: &str) -> String {
    let (status, body) = http(node, METRICS, &format!("/ui/{path}")).unwrap();
    assert!(status == 200 && body.len() < PAGE, "{path}: {status}, {} bytes", body.len());
    body
}

/// Looks at the dashboard all the time while `body` runs; every page comes, and none grows.
fn while_looking(node: &Host, body: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let look = || {
        let mut pages = 0;
        while !is_over.load(Ordering::Relaxed) {
            for path in ["", "services", "services?page=40", "services?search=svc-00", "changes", "set-aside"]
            {
                page(node, path);
                pages += 1;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        pages
    };
    std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        is_over.store(true, Ordering::Relaxed);
        let pages = looking.join().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(pages > 20, "only {pages} pages came");
        eprintln!("{pages} pages came meanwhile");
    });
}

#[test]
fn five_thousand_services_come_and_go() {
    let Some(cluster) = OnCluster::running_with(Variant::Nftables, WEB, &["--enable-ui"]) else { return };
    cluster.expect("cluster.1:80", &["n1.1"]);
    answer_for_all(&cluster);
    let (world, before, empty) = (&cluster.world, resident(&cluster), cluster.world.rules());
    let crowd = Crowd::new(&cluster.control_plane, "crowd", 97);
    let caller = world.pod("n1.9");
    let is_served = |n: u32| {
        let to = format!("{}:80", crowd.cluster_ip(n)).parse().unwrap();
        caller.dial(&Dial::tcp(to).within(Duration::from_secs(5))).name() == Some("pod-1-1")
    };

    let services = std::env::var("SERVICES").map_or(SERVICES, |number| number.parse().unwrap());
    let many = usize::try_from(services).unwrap();
    let (began, mut created) = (Instant::now(), Duration::ZERO);
    let is_whole = || {
        let rules = world.rules();
        count(&rules, "frontends", "10.97.") == many && count(&rules, "slots", "has endpoint") >= 2 * many
    };
    while_looking(world.n1(), || {
        crowd.create(0..services, endpoints).unwrap();
        created = began.elapsed();
        assert!(within(LONG, is_whole), "{}", world.log());
    });
    let last = format!("svc-{:05}", services - 1);
    let found = page(world.n1(), &format!("services?search={last}"));
    assert!(found.contains("1 to 1 of 1 Service") && found.contains(&last), "{found}");
    let (served, full) = (began.elapsed(), resident(&cluster));
    assert!([0, services / 2, services - 1].into_iter().all(is_served), "{}", world.log());
    assert_eq!(cluster.api().items(LISTS[0]).len(), many);

    delete_all(&cluster);
    assert!(within(LONG, || world.rules() == empty), "{}", world.log());
    let after = resident(&cluster);
    eprintln!(
        "{services} Services: created in {created:.1?}, served after {served:.1?}; {before} KiB before, {full} with them, {after} after"
    );
    assert!(after <= before * GROWTH, "{before} KiB before, {full} with them, {after} after");
    cluster.write("service new cluster.2:80/tcp\nendpoint new n2.1:8080");
    cluster.expect("cluster.2:80", &["n2.1"]);
}
