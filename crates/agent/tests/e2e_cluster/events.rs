//! Events as an operator finds them. `kubectl get events`, `kubectl describe` and `kubectl events --for` make the requests of this file.

use serde_json::Value;
use switchyard_lab::Transport::Tcp;

use crate::common::looking::eventually;
use crate::common::variant::Variant;
use crate::on_cluster::OnCluster;

/// What `kubectl describe` asks for: Events about one object. For a Node it asks by name in the place of a UID, which is the kubelet's way.
fn about(cluster: &OnCluster, kind: &str, name: &str, further: &str) -> Vec<Value> {
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name}{further}");
    cluster.api().items(&format!("/api/v1/namespaces/default/events?fieldSelector={fields}"))
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Waits for an Event about an object with this reason and a note with these words.
fn wait_for(cluster: &OnCluster, object: (&str, &str, &str), reason: &str, words: &str) -> Value {
    let mut found = None;
    eventually(&format!("{reason} about {object:?}"), || {
        let is_it =
            |event: &Value| text(event, "/reason") == reason && text(event, "/message").contains(words);
        found = about(cluster, object.0, object.1, object.2).into_iter().find(is_it);
        found.is_some()
    });
    found.unwrap()
}

/// Who, what and how bad: the columns of `kubectl get events -o wide`.
fn check(event: &Value, kind: &str, action: &str) {
    // An older `kubectl` shows the component of a source, which only the older API has.
    assert_eq!(text(event, "/reportingComponent"), "kube-proxy", "{event:#}");
    assert!(text(event, "/reportingInstance").starts_with("kube-proxy-"), "{event:#}");
    assert_eq!((text(event, "/type"), text(event, "/action")), (kind, action), "{event:#}");
    assert!(!text(event, "/eventTime").is_empty(), "{event:#}");
}

const NODE: (&str, &str, &str) = ("Node", "n1", ",involvedObject.uid=n1");
const YOUNG: (&str, &str, &str) = ("Service", "young", ",involvedObject.namespace=default");

#[test]
fn what_happens_is_an_event_on_its_object() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let world = &cluster.world;
    let start = wait_for(&cluster, NODE, "Starting", "");
    check(&start, "Normal", "StartKubeProxy");
    assert_eq!(text(&start, "/involvedObject/apiVersion"), "v1", "{start:#}");

    // Somebody deletes our rules.
    world.n1().exec_ok("nft", &["delete", "table", "ip", "switchyard"]).unwrap();
    let repaired = wait_for(&cluster, NODE, "RulesRepaired", "IPv4 rules");
    check(&repaired, "Warning", "Repair");
    assert!(text(&repaired, "/message").contains("nft (process "), "{repaired:#}");
    cluster.expect("cluster.1:80", &["n1.1"]);

    // Two Services want one address; the API server lets them.
    let young = "service young cluster.3:80/tcp ext=ext.1\nendpoint young n2.1:8080";
    cluster.write("service elder cluster.2:80/tcp ext=ext.1\nendpoint elder n1.1:8080");
    cluster.expect("ext.1:80", &["n1.1"]);
    cluster.write(young);
    let conflict = wait_for(&cluster, YOUNG, "FrontendConflict", "198.51.100.1");
    check(&conflict, "Warning", "ClaimFrontend");
    assert_eq!(conflict.pointer("/series"), None, "it happened once: {conflict:#}");
    cluster.expect("cluster.3:80", &["n2.1"]);

    // The same again is counted in the Event that is there, not another one.
    cluster.write("remove service young");
    world.wait_for_silence("n1.9", Tcp, "cluster.3:80");
    cluster.write(young);
    let count = || {
        let event = wait_for(&cluster, YOUNG, "FrontendConflict", "198.51.100.1");
        event.pointer("/series/count").and_then(Value::as_u64)
    };
    eventually("it is counted", || count() == Some(2));
    let all = about(&cluster, YOUNG.0, YOUNG.1, "");
    let same = all.iter().filter(|event| text(event, "/message") == text(&conflict, "/message"));
    assert_eq!(same.count(), 1, "{all:#?}");
    cluster.expect("ext.1:80", &["n1.1"]);
    // The new API has the same Event under its own names.
    let listed = cluster.api().items("/apis/events.k8s.io/v1/namespaces/default/events");
    let same = |event: &&Value| text(event, "/metadata/name") == text(&conflict, "/metadata/name");
    let event = listed.iter().find(same).unwrap();
    assert_eq!(text(event, "/reportingController"), "kube-proxy", "{event:#}");
    assert_eq!(
        (text(event, "/regarding/kind"), text(event, "/regarding/name")),
        ("Service", "young"),
        "{event:#}"
    );
}
