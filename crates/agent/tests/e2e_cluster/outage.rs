//! An API server that goes away and comes back.

use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::on_cluster::OnCluster;

both_modes![what_changed_while_the_api_server_was_away_is_in_force_once_it_is_back];

/// Its memory of past events is empty then, so a watch cannot always go on where it was.
fn what_changed_while_the_api_server_was_away_is_in_force_once_it_is_back(variant: Variant) {
    let Some(cluster) = OnCluster::with_web(variant) else { return };
    while_connecting(&cluster.world, || {
        cluster.control_plane.kill();
        cluster.world.wait_for_log("API server");
        cluster.control_plane.start(&[]);
        cluster.write("endpoint web n2.1:8080");
        cluster.expect("cluster.1:80", &["n2.1"]);
        cluster.write("service new cluster.2:80/tcp\nendpoint new n2.1:8080");
        cluster.expect("cluster.2:80", &["n2.1"]);
    });
}

/// The agent is blind while its connections are cut, and nothing of what it missed may be lost.
#[test]
fn what_changed_while_the_agent_could_not_see_is_in_force_later() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    cluster.control_plane.kill();
    // Another agent on another node would have seen these; this one has not, and finds no event about them.
    cluster.control_plane.start(&["--watch-cache=false"]);
    cluster.gateway.cut();
    cluster.write("remove endpoint web n1.1:8080\nendpoint web n2.1:8080");
    cluster.expect("cluster.1:80", &["n2.1"]);
}
