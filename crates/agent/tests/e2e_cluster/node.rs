//! What happens to the node itself, and what load balancers are told of it.

use serde_json::{Value, json};

use crate::common::looking::eventually;
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

/// As `kubectl get events` shows it.
#[test]
fn the_start_is_an_event_on_the_node() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let is_start = |event: &Value| {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
        (text("/reason"), text("/regarding/kind"), text("/regarding/name"))
            == (Some("Starting"), Some("Node"), Some("n1"))
    };
    eventually("the Event is there", || {
        cluster.api().items("/apis/events.k8s.io/v1/events").iter().any(is_start)
    });
}
