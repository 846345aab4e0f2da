//! An API server that goes away and comes back.

use std::time::Duration;

use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::e2e::gateway::Fault;
use crate::events::{NODE, delete_table, wait_for};
use crate::on_cluster::OnCluster;

/// What the agent says once of an API server that it cannot reach, in any way.
const AWAY: &str = "retrying, rules stay as they are";

/// An API server that is asked to end lets running watches go on for a minute.
const GOOD_END: Duration = Duration::from_secs(180);

both_modes![what_changed_while_the_api_server_was_away_is_in_force_once_it_is_back];

/// Its memory of past events is empty then, so a watch cannot always go on where it was.
fn what_changed_while_the_api_server_was_away_is_in_force_once_it_is_back(variant: Variant) {
    let Some(cluster) = OnCluster::with_web(variant) else { return };
    while_connecting(&cluster.world, || {
        cluster.control_plane.kill();
        cluster.world.wait_for_log(AWAY);
        cluster.control_plane.start(&[]);
        cluster.write("endpoint web n2.1:8080");
        cluster.expect("cluster.1:80", &["n2.1"]);
        cluster.write("service new cluster.2:80/tcp\nendpoint new n2.1:8080");
        cluster.expect("cluster.2:80", &["n2.1"]);
    });
}

/// As an upgrade of the control plane does it. What the node's proxy did meanwhile is told when somebody can be told.
#[test]
fn an_api_server_that_ends_well_is_missed_as_little() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    while_connecting(&cluster.world, || {
        cluster.control_plane.stop(GOOD_END);
        cluster.world.wait_for_log(AWAY);
    });
    delete_table(&cluster);
    cluster.expect("cluster.1:80", &["n1.1"]);
    cluster.control_plane.start(&[]);
    wait_for(&cluster, NODE, "RulesRepaired", "IPv4 rules");
    cluster.write("remove endpoint web n1.1:8080\nendpoint web n2.1:8080");
    cluster.expect("cluster.1:80", &["n2.1"]);
}

/// The agent is blind while it cannot connect, and nothing of what it missed may be lost: nor does it need a new list for that.
#[test]
fn what_changed_while_the_agent_could_not_see_is_in_force_later() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    cluster.gateway.spoil(Fault::Closed);
    cluster.world.wait_for_log(AWAY);
    // Another agent on another node would have seen these.
    cluster.write("remove endpoint web n1.1:8080\nendpoint web n2.1:8080");
    cluster.expect("cluster.1:80", &["n1.1"]);
    cluster.gateway.mend();
    cluster.expect("cluster.1:80", &["n2.1"]);
    assert!(!cluster.world.log().contains("too old (410)"), "{}", cluster.world.log());
}
