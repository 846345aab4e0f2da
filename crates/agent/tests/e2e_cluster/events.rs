//! Events as an operator finds them. `kubectl get events`, `kubectl describe` and `kubectl events --for` make the requests of this file.

use serde_json::{Value, json};
use switchyard_lab::Transport::Tcp;

use crate::common::looking::eventually;
use crate::common::variant::Variant;
use crate::e2e::bulk::{Request, send_all};
use crate::on_cluster::{OnCluster, WEB};

/// What `kubectl describe` asks for: Events about one object. For a Node it asks by name in the place of a UID, which is the kubelet's way.
fn about(cluster: &OnCluster, kind: &str, name: &str, further: &str) -> Vec<Value> {
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name}{further}");
    cluster.api().items(&format!("/api/v1/namespaces/default/events?fieldSelector={fields}"))
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Waits for an Event about an object (kind, name, further fields) with this reason and a note with these words.
pub(crate) fn wait_for(cluster: &OnCluster, object: (&str, &str, &str), reason: &str, words: &str) -> Value {
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

pub(crate) const NODE: (&str, &str, &str) = ("Node", "n1", ",involvedObject.uid=n1");
/// Somebody deletes our rules, of one family.
pub(crate) fn delete_table(cluster: &OnCluster) {
    cluster.world.n1().exec_ok("nft", &["delete", "table", "ip", "switchyard"]).unwrap();
}

/// What the agent does is seen by those who ask the API server.
pub(crate) fn assert_a_repair_is_told(cluster: &OnCluster) {
    delete_table(cluster);
    wait_for(cluster, NODE, "RulesRepaired", "IPv4 rules");
}

const YOUNG: (&str, &str, &str) = ("Service", "young", ",involvedObject.namespace=default");

#[test]
fn what_happens_is_an_event_on_its_object() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let world = &cluster.world;
    let start = wait_for(&cluster, NODE, "Starting", "");
    check(&start, "Normal", "StartKubeProxy");
    assert_eq!(text(&start, "/involvedObject/apiVersion"), "v1", "{start:#}");

    delete_table(&cluster);
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

/// An API server takes what an earlier version of it has stored, whatever it would refuse today.
#[test]
fn an_object_that_is_partly_wrong_has_an_event_and_is_served() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let sticky = json!({ "clientIP": { "timeoutSeconds": 100_000 } });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "old", "namespace": "default", "uid": "0d", "creationTimestamp": "2020-01-01T00:00:00Z" },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "ports": [{ "port": 80, "protocol": "TCP", "targetPort": 80 }],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": sticky,
        },
    });
    cluster.control_plane.store("/registry/services/specs/default/old", &service);
    let old = ("Service", "old", ",involvedObject.namespace=default");
    let event = wait_for(&cluster, old, "ObjectSetAside", "100000 is not in 1 to 86400");
    check(&event, "Warning", "Read");
    cluster.expect("cluster.1:80", &["n1.1"]);
}

/// More endpoints than a Service can have in nftables mode, in slices as full as the API server allows.
#[test]
fn endpoints_that_do_not_fit_are_an_event_of_their_service() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let slice = |n: usize| {
        let endpoint =
            |m: usize| json!({ "addresses": [format!("10.{}.{}.{}", 200 + n, m / 250, m % 250 + 1)] });
        let endpoints: Vec<Value> = (0..1000).map(endpoint).collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": { "name": format!("web-crowd-{n}"), "labels": { "kubernetes.io/service-name": "web" } },
            "ports": [{ "name": "", "port": 8080, "protocol": "TCP" }], "endpoints": endpoints,
        });
        Request::create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice)
    };
    send_all(&cluster.control_plane.path("api.sock"), 33, slice).unwrap();
    let web = ("Service", "web", ",involvedObject.namespace=default");
    let event = wait_for(&cluster, web, "EndpointsLeftOut", "233 of its endpoints");
    check(&event, "Warning", "WriteRules");
}

/// What `iptables-restore` refuses: one Service's rules, then everybody's.
#[test]
fn what_cannot_be_written_is_an_event() {
    let Some(cluster) = OnCluster::unstarted(Variant::Nft) else { return };
    let world = &cluster.world;
    world.fake_restore(
        "if grep -q -e '-d 10.96.0.66 ' /proc/self/fd/0; then echo 'too odd for this kernel' >&2; exit 1; fi\n\
         exec \"$REAL\" \"$@\"",
    );
    cluster.write(&format!("{WEB}\nservice bad cluster.66:80/tcp\nendpoint bad n1.1:8080"));
    cluster.start(&["--iptables-sync-period=1s"]);
    let bad = ("Service", "bad", ",involvedObject.namespace=default");
    check(
        &wait_for(&cluster, bad, "ServicePortQuarantined", "too odd for this kernel"),
        "Warning",
        "WriteRules",
    );
    cluster.expect("cluster.1:80", &["n1.1"]);

    world.fake_restore("echo 'the disk is full' >&2; exit 4");
    cluster.write("service new cluster.2:80/tcp\nendpoint new n2.1:8080");
    check(&wait_for(&cluster, NODE, "SyncFailed", "the disk is full"), "Warning", "WriteRules");
    world.fake_restore("exec \"$REAL\" \"$@\"");
    cluster.expect("cluster.2:80", &["n2.1"]);
}
