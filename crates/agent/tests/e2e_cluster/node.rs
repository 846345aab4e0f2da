//! What happens to the node itself, and what load balancers are told of it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::json;
use switchyard_lab::Transport::Tcp;
use switchyard_lab::{Dial, Host};
use switchyard_model::Family;

use crate::common::looking::{eventually, ip};
use crate::common::variant::Variant;
use crate::on_cluster::OnCluster;

const NODE: &str = "/api/v1/nodes/n1";

/// The status of both pages of the health server.
fn pages(cluster: &OnCluster) -> (u16, u16) {
    (cluster.world.health("/healthz").0, cluster.world.health("/livez").0)
}

/// A node that goes gets no new connections from outside, but keeps those that come.
#[test]
fn a_node_that_is_to_be_deleted_is_not_eligible() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    eventually("the node is eligible", || pages(&cluster) == (200, 200));
    let taint = json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }]);
    cluster.api().patch(NODE, &json!({ "spec": { "taints": taint } })).unwrap();
    eventually("a taint makes it ineligible", || pages(&cluster) == (503, 200));
    cluster.expect("cluster.1:80", &["n1.1"]);
    cluster.api().patch(NODE, &json!({ "spec": { "taints": null } })).unwrap();
    eventually("without the taint it is eligible again", || pages(&cluster) == (200, 200));

    // With a finalizer, a deletion begins and does not end.
    cluster.api().patch(NODE, &json!({ "metadata": { "finalizers": ["switchyard.test/held"] } })).unwrap();
    cluster.api().delete(NODE).unwrap();
    eventually("being deleted makes it ineligible", || pages(&cluster) == (503, 200));
    cluster.api().patch(NODE, &json!({ "metadata": { "finalizers": null } })).unwrap();
    eventually("the Node is gone", || cluster.api().read(NODE).is_err());
    cluster.expect("cluster.1:80", &["n1.1"]);
    cluster.write("");
    eventually("a new Node is eligible", || pages(&cluster) == (200, 200));
}

/// With node ports on the primary address only, and pods told by the Node's own range.
#[test]
fn addresses_and_pod_ranges_of_the_node_are_followed() {
    let Some(cluster) = OnCluster::unstarted(Variant::Nftables) else { return };
    cluster.write("service web cluster.1:80/tcp nodeport=30080\nendpoint web n2.1:8080");
    let ranges = |v4: &str, v6: &str| {
        let change = json!({ "spec": { "podCIDR": v4, "podCIDRs": [v4, v6] } });
        cluster.api().patch(NODE, &change).unwrap();
    };
    ranges("10.1.1.0/24", "fd00:10:1:1::/64");
    cluster.start(&["--detect-local-mode=NodeCIDR", "--nodeport-addresses=primary"]);
    let world = &cluster.world;
    let caller = world.pod("n1.9");
    let seen = |who: &Host| Family::ALL.map(|family| Some(ip(who, family)));
    let source = || Family::ALL.map(|f| world.ask("n1.9", Tcp, "cluster.1:80", f).seen_ip());
    eventually("a pod is seen as itself", || source() == seen(&caller));

    let first = Family::ALL.map(|family| ip(world.n1(), family));
    let later: [IpAddr; 2] = ["192.168.77.1".parse().unwrap(), "fd00:77::1".parse().unwrap()];
    for ip in later {
        world.n1().exec_ok("ip", &["address", "add", &ip.to_string(), "dev", "lo"]).unwrap();
    }
    let answers = |ip: IpAddr| {
        let dial = Dial::tcp(SocketAddr::new(ip, 30080)).within(Duration::from_millis(500));
        caller.dial(&dial).name() == Some(world.pod("n2.1").name())
    };
    assert!(first.into_iter().all(answers) && !later.into_iter().any(answers));
    let list = later.map(|ip| json!({ "type": "InternalIP", "address": ip }));
    let status = json!({ "status": { "addresses": list } });
    cluster.api().patch(&format!("{NODE}/status"), &status).unwrap();
    eventually("node ports moved to the new addresses", || later.into_iter().all(answers));
    assert!(!first.into_iter().any(answers));

    // A Node keeps its ranges for life: it must be another one.
    cluster.api().delete(NODE).unwrap();
    cluster.write("");
    ranges("10.99.1.0/24", "fd00:10:99:1::/64");
    eventually("a pod outside of the ranges is seen as the node", || source() == seen(world.n1()));
    eventually("node ports are back on the old addresses", || first.into_iter().all(answers));
}
