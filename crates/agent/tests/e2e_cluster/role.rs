//! A role that is taken away and given back.

use serde_json::{Value, json};

use crate::common::looking::eventually;
use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::on_cluster::OnCluster;

/// `kubectl auth can-i list services --as=system:serviceaccount:kube-system:kube-proxy`.
fn may_list(cluster: &OnCluster) -> bool {
    let spec = json!({
        "user": "system:serviceaccount:kube-system:kube-proxy",
        "resourceAttributes": { "verb": "list", "resource": "services" },
    });
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = cluster.api().create(reviews, &json!({ "spec": spec })).unwrap();
    answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap()
}

#[test]
fn without_its_role_the_agent_serves_says_so_once_and_recovers() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let world = &cluster.world;
    let told = |resource: &str| {
        let log = world.log();
        let is_one = |line: &&str| {
            line.contains("WARN")
                && line.contains("forbidden (403)")
                && line.contains(&format!("\"{resource}\""))
        };
        log.lines().filter(is_one).count()
    };
    while_connecting(world, || {
        cluster.control_plane.forbid();
        eventually("the role is gone", || !may_list(&cluster));
        // Watches that run were allowed; the next ones are not.
        cluster.gateway.cut();
        eventually("it is told", || told("services") > 0 && told("endpointslices") > 0 && told("nodes") > 0);
        cluster.write("remove endpoint web n1.1:8080\nendpoint web n2.1:8080");
        let refused = || world.metric("rest_client_requests_total", "code=\"403\"");
        let before = refused();
        eventually("it is tried again and again", || refused() >= before + 4.0);
        cluster.control_plane.allow();
        eventually("the role is back", || may_list(&cluster));
        cluster.expect("cluster.1:80", &["n2.1"]);
        world.wait_for_log("the API server answers again");
    });
    for resource in ["services", "endpointslices", "nodes"] {
        assert_eq!(told(resource), 1, "{resource}: {}", world.log());
    }
    cluster.write("service new cluster.2:80/tcp\nendpoint new n2.1:8080");
    cluster.expect("cluster.2:80", &["n2.1"]);
}
