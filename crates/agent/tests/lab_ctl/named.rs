//! Pods by name and Services by labels, which the agent does not keep: it reads its manifests again.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use switchyard_model::Family;

use super::{ask, json, socket, text};
use crate::common::looking::ip;
use crate::common::variant::Variant;
use crate::common::world::World;

const OBJECTS: &str = "service web cluster.1:80/tcp\nendpoint web n2.2:8080";

/// A slice of `web` in a namespace: pods by name and address.
fn slice(namespace: &str, name: &str, kind: &str, pods: &[(&str, String)]) -> Value {
    let endpoint = |(pod, address): &(&str, String)| json!({ "addresses": [address], "targetRef": { "kind": "Pod", "namespace": namespace, "name": pod } });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind,
        "metadata": { "namespace": namespace, "name": name, "labels": { "kubernetes.io/service-name": name } },
        "ports": [{ "name": "", "port": 8080 }], "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

fn service(name: &str, address: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "shop", "name": name, "labels": labels },
        "spec": { "clusterIP": address, "clusterIPs": [address], "ports": [{ "port": 80 }] },
    })
}

/// With pods of two namespaces and Services with labels, beside those of [`OBJECTS`].
fn named() -> Option<World> {
    let world = World::new_or_skip(Variant::Nftables)?;
    world.write(OBJECTS);
    let of = |symbol: &str, family| ip(&world.pod(symbol), family).to_string();
    let node = ip(world.n1(), Family::V4).to_string();
    let items = [
        service("front", "10.96.7.1", &json!({ "app": "web", "tier": "front" })),
        service("back", "10.96.7.2", &json!({ "app": "web", "tier": "back" })),
        service("bare", "10.96.7.3", &Value::Null),
        slice("shop", "front", "IPv4", &[("web-0", of("n1.9", Family::V4)), ("agent-n1", node)]),
        slice("shop", "front-6", "IPv6", &[("web-0", of("n1.9", Family::V6))]),
        slice(
            "shop",
            "back",
            "IPv4",
            &[("web-0", of("n1.9", Family::V4)), ("twin-0", of("n2.2", Family::V4))],
        ),
        slice("test", "twin", "IPv4", &[("twin-0", of("n2.3", Family::V4))]),
    ];
    world.put_manifest("named.json", json!({ "kind": "List", "items": items }).to_string().as_bytes());
    world.start(&["--admin-socket", socket(&world).to_str().unwrap()]);
    world.settle();
    Some(world)
}

#[test]
fn a_pod_is_a_sender_by_its_name() {
    let Some(world) = named() else { return };
    let (pod, v6) = (world.pod("n1.9"), format!("[{}]:80", cluster_ip(&world)));
    for (from, to, family) in [
        ("web-0", "default/web", Family::V4),
        ("shop/web-0", "shop/front", Family::V4),
        ("shop/web-0", v6.as_str(), Family::V6),
    ] {
        let output = ask(&world, &["explain", "--from", from, "--to", to, "-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{from} {to}: {output:?}");
        let answer = json(&output);
        assert_eq!((&answer["from"], &answer["fromPod"]), (&json!(ip(&pod, family)), &json!("shop/web-0")));
        // The same as by its address.
        let by_address =
            ask(&world, &["explain", "--from", &ip(&pod, family).to_string(), "--to", to, "-o", "json"]);
        assert_eq!(json(&by_address)["hit"], answer["hit"], "{from} {to}");
        assert_eq!(answer["isFromThisNode"], false, "{answer}");
    }
    let said = ask(&world, &["explain", "--from", "web-0", "--to", "default/web"]);
    let packet = format!("packet      {} (pod shop/web-0) -> ", ip(&pod, Family::V4));
    assert!(text(&said.stdout).starts_with(&packet), "{said:?}");
    // A pod of the host's network sends as the node does, also a real packet.
    let probed =
        ask(&world, &["explain", "--from", "agent-n1", "--to", "default/web", "--probe", "-o", "json"]);
    let answer = json(&probed);
    assert_eq!(probed.status.code(), Some(0), "{answer}");
    assert_eq!(
        (&answer["isFromThisNode"], &answer["probe"]["agrees"]),
        (&json!(true), &json!(true)),
        "{answer}"
    );
}

/// The IPv6 cluster IP of `default/web`.
fn cluster_ip(world: &World) -> String {
    let listed = json(&ask(world, &["get", "services", "default/web", "-o", "json"]));
    let all = listed["items"].as_array().unwrap().iter();
    let mut of_v6 = all.filter(|item| item["family"] == "IPv6");
    of_v6.next().unwrap()["clusterIP"].as_str().unwrap().to_owned()
}

#[test]
fn a_pod_that_is_not_meant_is_said_in_one_line() {
    let Some(world) = named() else { return };
    let refused = |from: &str, to: &str, said: &str| {
        let output = ask(&world, &["explain", "--from", from, "--to", to]);
        assert_eq!(output.status.code(), Some(1), "{from}: {output:?}");
        let error = text(&output.stderr);
        assert!(error.contains(said) && error.lines().count() == 1, "{from}: {error}");
    };
    let known = "only pods that are endpoints of a Service are known by name; give its IP address";
    refused("nobody-0", "default/web", &format!("no pod nobody-0 is known: {known}"));
    refused("test/web-0", "default/web", &format!("no pod test/web-0 is known: {known}"));
    refused(
        "twin-0",
        "default/web",
        "several pods have the name twin-0: shop/twin-0, test/twin-0; write NAMESPACE/NAME",
    );
    refused("shop/twin-0", "[fd00::1]:80", "different IP families: pod shop/twin-0 has only ");
    refused("web-0", "shop/missing", "no Service shop/missing is served here");
    refused("10.1.0", "default/web", "from must be an IP address or a pod");
    // What cannot be read is not taken for what is not there.
    world.put_manifest("broken.yaml", b"kind: [");
    refused("web-0", "default/web", "broken.yaml cannot be looked into: the document at line 1");
}

/// Names of the Services that are listed.
fn selected(world: &World, arguments: &[&str]) -> Vec<String> {
    let output = ask(world, &[arguments, &["-o", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    let answer = json(&output);
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    let names: BTreeSet<String> = answer["items"].as_array().unwrap().iter().map(name).collect();
    // The Service that shows that everything else was written.
    names.into_iter().filter(|name| name != "marker").collect()
}

#[test]
fn services_are_listed_by_labels() {
    let Some(world) = named() else { return };
    for (selector, names) in [
        ("app=web", &["back", "front"] as &[&str]),
        ("app==web,tier!=back", &["front"]),
        ("tier in (back, other)", &["back"]),
        ("tier notin (back),app", &["front"]),
        ("!app", &["bare", "web"]),
        ("app=nobody", &[]),
        (" ", &["back", "bare", "front", "web"]),
    ] {
        let with = |more: &[&str]| selected(&world, &[&["get", "services", "-l", selector], more].concat());
        assert_eq!(with(&[]), names, "{selector}");
        assert_eq!(with(&["-A"]), names, "{selector}");
        let of_shop: Vec<&str> = names.iter().copied().filter(|name| *name != "web").collect();
        assert_eq!(with(&["-n", "shop"]), of_shop, "{selector}");
    }
    assert_eq!(selected(&world, &["get", "endpoints", "--selector", "tier=front"]), ["front"]);
    assert_eq!(selected(&world, &["get", "routes", "-l", "tier"]), ["back", "front"]);
    let none = ask(&world, &["get", "services", "-l", "app=nobody"]);
    assert_eq!((none.status.code(), text(&none.stdout)), (Some(0), ""));
    assert!(text(&none.stderr).starts_with("No resources found; labels are those of Services"), "{none:?}");
    // Labels are as of now, without any restart.
    let newer = service("bare", "10.96.7.3", &json!({ "app": "bare" }));
    world.put_manifest("newer.json", newer.to_string().as_bytes());
    assert_eq!(selected(&world, &["get", "services", "-l", "app=bare"]), ["bare"]);
    for (arguments, said) in [
        (["get", "services", "-l", "app=web,"], "the selector is wrong at character 9: the name of a label"),
        (
            ["get", "services", "-l", "a=b&limit=1"],
            "the selector is wrong at character 3: no label has the value",
        ),
        (["get", "services", "-l", "a=b\r\nX: \u{1b}[31m"], "the selector is wrong at character "),
        (["get", "changes", "-l", "app=web"], "labels are those of Services; leave --selector out"),
    ] {
        let output = ask(&world, &arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        let error = text(&output.stderr);
        assert!(error.contains(said) && error.lines().count() == 1 && !error.contains('\u{1b}'), "{error}");
    }
}
