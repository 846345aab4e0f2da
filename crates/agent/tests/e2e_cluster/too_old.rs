//! Watches that cannot go on where they were: the API server answers 410 Gone.

use serde_json::Value;
use switchyard_lab::Transport::Tcp;

use crate::common::looking::eventually;
use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::e2e::gateway::Fault;
use crate::on_cluster::{OnCluster, WEB};

/// The version of all Services, as `kubectl get services` has it.
fn version(cluster: &OnCluster) -> String {
    let list = cluster.api().read("/api/v1/services").unwrap();
    list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap().to_owned()
}

/// True if the API server knows nothing of what came after a version: its answer, as `kubectl get --watch` would hear it, is one event.
fn is_gone(cluster: &OnCluster, version: &str) -> bool {
    let path = format!("/api/v1/services?watch=true&timeoutSeconds=1&resourceVersion={version}");
    let event = cluster.api().read(&path).unwrap();
    event.pointer("/object/code").and_then(Value::as_u64) == Some(410)
}

/// How many watches of a resource the agent was told to begin anew.
fn told(cluster: &OnCluster, resource: &str) -> usize {
    let log = cluster.world.log();
    let is_one =
        |line: &&str| line.contains("too old (410)") && line.contains(&format!("resource=\"{resource}\""));
    log.lines().filter(is_one).count()
}

/// Objects come, change and go while the agent is cut off and the API server loses its memory of it.
fn changes_unseen(cluster: &OnCluster, statements: &str, forget: impl FnOnce()) {
    let before = ["services", "endpointslices"].map(|resource| told(cluster, resource));
    cluster.gateway.spoil(Fault::Closed);
    let last = version(cluster);
    cluster.write(statements);
    forget();
    assert!(is_gone(cluster, &last), "the API server still knows version {last}");
    cluster.gateway.mend();
    eventually("the agent is told that its version is gone", || {
        ["services", "endpointslices"].map(|resource| told(cluster, resource)) > before
    });
}

#[test]
fn a_version_that_is_gone_is_no_loss() {
    let objects = format!("{WEB}\nservice doomed cluster.2:80/tcp\nendpoint doomed n1.1:8080");
    let Some(cluster) = OnCluster::running_with(Variant::Nftables, &objects, &["-v=4"]) else { return };
    let world = &cluster.world;
    for to in ["cluster.1:80", "cluster.2:80"] {
        cluster.expect(to, &["n1.1"]);
    }
    while_connecting(world, || {
        // A restarted API server has an empty memory of what was before its start.
        let unseen = "remove service doomed\nservice new cluster.3:80/tcp\nendpoint new n2.1:8080\n\
                      service web cluster.1:80/tcp nodeport=30081";
        changes_unseen(&cluster, unseen, || {
            cluster.control_plane.kill();
            cluster.control_plane.start(&[]);
        });
        cluster.expect("cluster.3:80", &["n2.1"]);
        world.wait_for_answer("client", Tcp, "n1:30081", &["n1.1"]);
        world.wait_for_silence("n1.9", Tcp, "cluster.2:80");
        world.wait_for_silence("client", Tcp, "n1:30080");

        // An etcd that was compacted forgets also while everything runs. It shows with an API server that asks etcd for everything.
        cluster.control_plane.kill();
        cluster.control_plane.start(&["--watch-cache=false"]);
        let unseen = "remove service new\nservice last cluster.4:80/tcp\nendpoint last n2.1:8080";
        changes_unseen(&cluster, unseen, || cluster.control_plane.compact());
        cluster.expect("cluster.4:80", &["n2.1"]);
        world.wait_for_silence("n1.9", Tcp, "cluster.3:80");
    });
    // Watches go on as before.
    cluster.write("remove endpoint web n1.1:8080\nendpoint web n2.1:8080");
    cluster.expect("cluster.1:80", &["n2.1"]);
}
