//! One test per story.

use tokio::net::TcpListener;

use super::*;
use crate::fake_server::status;

/// A list, and a watch that stays open in the returned hand.
fn listed(objects: Vec<Value>, version: u32) -> (mpsc::UnboundedSender<Value>, [Reply; 2]) {
    let (hand, watch) = stream(Vec::new());
    (hand, [list(objects, version), watch])
}

#[tokio::test]
async fn lists_then_changes() {
    let (services, services_reply) = listed(vec![service("a", 1), service("b", 2)], 5);
    let (slices, slices_reply) = listed(vec![slice("a-1", 3)], 5);
    let node = json!({"metadata": {"name": "n1", "resourceVersion": "4"}, "status": {"addresses": [
        {"type": "InternalIP", "address": "10.0.0.9"}]}});
    let (nodes, nodes_reply) = listed(vec![node.clone()], 5);
    let cidr = json!({"metadata": {"name": "kubernetes", "resourceVersion": "4"}, "spec": {"cidrs": ["10.96.0.0/12"]}});
    let (_cidrs, cidrs_reply) = listed(vec![cidr], 5);
    let server = FakeServer::start(script(vec![
        Answers::new(SERVICES, services_reply),
        Answers::new(SLICES, slices_reply),
        Answers::new(NODES, nodes_reply),
        Answers::new(CIDRS, cidrs_reply),
    ]))
    .await;
    let mut running = Running::on(&server.url);
    let want = ["cidrs [10.96.0.0/12]", "node n1 [10.0.0.9]", "services ns/a ns/b", "slices ns/a-1"];
    assert_eq!(running.next(4).await, want);
    services.send(line("MODIFIED", service("a", 6))).expect("open");
    assert_eq!(running.next(1).await, ["service ns/a"]);
    services.send(line("DELETED", service("b", 7))).expect("open");
    assert_eq!(running.next(1).await, ["service gone ns/b"]);
    slices.send(line("ADDED", slice("a-2", 8))).expect("open");
    assert_eq!(running.next(1).await, ["slice ns/a-2"]);
    nodes.send(line("DELETED", node)).expect("open");
    assert_eq!(running.next(1).await, ["node gone"]);
    running.nothing().await;
    assert_eq!(
        *running.answers.lock().expect("whole"),
        BTreeSet::from(["GET Some(200) timed: false".to_owned(), "GET Some(200) timed: true".to_owned()])
    );
    assert_eq!(server.count("resourceVersion=0"), 4, "the first list may be the cache's");
    assert_eq!(server.count("fieldSelector=spec.clusterIP%21%3DNone&labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"), 2);
    assert_eq!(server.count("labelSelector=%21service.kubernetes.io%2Fheadless"), 2);
    assert_eq!(server.count("fieldSelector=metadata.name%3Dn1"), 2);
}

#[tokio::test]
async fn a_bad_object_is_a_complaint_and_nothing_more() {
    let mut bad = service("Bad\"name", 2);
    bad["spec"]["ports"] = json!("none");
    let mut odd = service("odd", 3);
    odd["spec"]["ports"] = json!([{"port": {"x": [1, 2]}}, {"port": 80, "name": "ok"}]);
    let (services, reply) = listed(vec![service("a", 1), bad.clone(), json!(7), odd], 5);
    let server = FakeServer::start(script(vec![Answers::new(SERVICES, reply)])).await;
    let mut running = Running::on(&server.url);
    let want = [
        "complaints Service : 1",
        "complaints Service ns/Bad\"name: 1",
        "complaints Service ns/odd: 2",
        "services ns/a ns/odd",
    ];
    assert_eq!(running.next(4).await, want);
    services.send(line("MODIFIED", service("odd", 6))).expect("open");
    assert_eq!(running.next(2).await, ["complaints Service ns/odd: 0", "service ns/odd"]);
    services.send(line("DELETED", bad)).expect("open");
    assert_eq!(running.next(1).await, ["complaints Service ns/Bad\"name: 0"]);
    // A good Service that turns headless is gone.
    let mut headless = service("a", 7);
    headless["spec"]["clusterIP"] = json!("None");
    services.send(line("MODIFIED", headless)).expect("open");
    assert_eq!(running.next(1).await, ["service gone ns/a"]);
}

#[tokio::test]
async fn a_watch_that_is_too_old_is_listed_anew_and_never_emptied() {
    let gone = line("ERROR", status(410));
    let (first, first_reply) = listed(vec![service("a", 1), service("b", 2), service("Bad", 3)], 5);
    let (second, second_reply) = listed(vec![service("a", 1)], 20);
    // The third list is cut off in the middle: it must not be taken for a complete one.
    let third = Reply::Cut(json!({"kind": "List", "metadata": {"resourceVersion": "25"}, "items": []}));
    let part =
        json!({"kind": "List", "metadata": {"resourceVersion": "26", "continue": "more"}, "items": []});
    let part = Reply::Whole(200, part);
    let (fourth, fourth_reply) = listed(vec![service("a", 1), service("c", 29)], 30);
    // The resumed watch is refused as a whole, not by an event.
    let refusals = [refusal(401), refusal(500), refusal(410)];
    let answers =
        first_reply.into_iter().chain(refusals).chain(second_reply).chain([third, part, refusal(403)]);
    let answers = Answers::new(SERVICES, answers.chain(fourth_reply));
    let server = FakeServer::start(script(vec![answers])).await;
    let mut running = Running::on(&server.url);
    assert_eq!(running.next(2).await, ["complaints Service ns/Bad: 1", "services ns/a ns/b"]);
    first.send(line("MODIFIED", service("a", 7))).expect("open");
    assert_eq!(running.next(1).await, ["service ns/a"]);
    drop(first);
    assert_eq!(running.next(2).await, ["complaints Service ns/Bad: 0", "services ns/a"]);
    assert_eq!(server.count("resourceVersion=7"), 3, "resumed where it was, until that was too old");
    let requests = server.requests.lock().expect("whole").clone();
    let from_cache = requests.iter().filter(|r| r.starts_with(SERVICES) && r.ends_with("resourceVersion=0"));
    assert_eq!(from_cache.count(), 1, "only the first list may be the cache's");
    second.send(gone).expect("open");
    assert_eq!(running.next(1).await, ["services ns/a ns/c"]);
    drop(fourth);
    running.nothing().await;
}

#[tokio::test]
async fn an_older_server_does_not_know_the_field() {
    let answers = [
        refusal(400),
        refusal(500), // Trouble of another kind changes nothing.
        list(vec![service("a", 1)], 5),
        refusal(410),
        list(vec![service("b", 2)], 9),
    ];
    let server = FakeServer::start(script(vec![Answers::new(SERVICES, answers)])).await;
    let mut running = Running::on(&server.url);
    assert_eq!(running.next(2).await, ["services ns/a", "services ns/b"]);
    assert_eq!(server.count("clusterIP%21%3DNone"), 1);
    assert_eq!(server.count("resourceVersion=5"), 1);
    running.nothing().await;
}

#[tokio::test]
async fn a_line_that_nobody_understands_asks_for_a_new_list() {
    let (hand, reply) = listed(vec![], 5);
    let server = FakeServer::start(script(vec![Answers::new(SERVICES, reply)])).await;
    let mut running = Running::on(&server.url);
    assert_eq!(running.next(1).await, ["services "]);
    hand.send(json!({"type": "WEIRD", "object": service("a", 6)})).expect("open");
    let third = tokio::time::timeout(Duration::from_secs(8), async {
        loop {
            let requests = server.requests.lock().expect("whole").clone();
            if let Some(third) = requests.iter().filter(|request| request.starts_with(SERVICES)).nth(2) {
                return third.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(!third.await.expect("asked again").contains("watch=true"), "a list, a watch, and a list again");
    running.nothing().await;
}

#[tokio::test]
async fn refused_connections_and_credentials_only_delay() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut running = Running::on(&format!("http://{address}"));
    running.nothing().await;
    let (_services, services) = listed(vec![service("a", 1)], 5);
    let (_slices, slices) = listed(vec![], 5);
    let answers = vec![
        Answers::new(SERVICES, [refusal(401), Reply::Whole(200, json!("what?"))].into_iter().chain(services)),
        Answers::new(SLICES, [refusal(503)].into_iter().chain(slices)),
    ];
    let server = FakeServer::on(TcpListener::bind(address).await.expect("the port"), script(answers));
    assert_eq!(running.next(2).await, ["services ns/a", "slices "]);
    drop(server);
    running.nothing().await;
}

#[tokio::test]
async fn an_old_cluster_gives_endpoints() {
    let endpoints = |version: u32, ips: &[&str]| {
        let subsets: Vec<_> =
            ips.iter().map(|ip| json!({"addresses": [{"ip": ip}], "ports": [{"port": 80}]})).collect();
        json!({"metadata": {"namespace": "ns", "name": "a", "resourceVersion": version.to_string()}, "subsets": subsets})
    };
    let (hand, reply) = listed(vec![endpoints(1, &["10.1.0.1", "10.1.0.2"])], 5);
    let groups =
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps", "versions": []}]});
    let server = FakeServer::start(script(vec![
        Answers::new("/apis", [refusal(500), Reply::Whole(200, groups)]),
        Answers::new("/api/v1/endpoints", reply),
    ]))
    .await;
    let mut running = Running::on(&server.url);
    assert_eq!(running.next(1).await, ["slices ns/a-0-ipv4 ns/a-1-ipv4"]);
    hand.send(line("MODIFIED", endpoints(6, &["10.1.0.1"]))).expect("open");
    assert_eq!(running.next(2).await, ["slice gone ns/a-1-ipv4", "slice ns/a-0-ipv4"]);
    hand.send(line("DELETED", endpoints(7, &[]))).expect("open");
    assert_eq!(running.next(1).await, ["slice gone ns/a-0-ipv4"]);
    assert_eq!(server.count(CIDRS), 1, "given up");
    assert!(server.count(SERVICES) > 1, "never given up");
}

#[tokio::test]
async fn service_cidrs_that_are_refused_stop_nothing_and_known_ones_stay() {
    let services = || Answers::new(SERVICES, listed(vec![service("a", 1)], 5).1);
    for code in [403, 404] {
        let server = FakeServer::start(script(vec![services(), Answers::new(CIDRS, [refusal(code)])])).await;
        let mut running = Running::hearing(&server.url, ServiceCidrs::Watched, |_| true);
        assert_eq!(running.next(2).await, [NO_CIDRS, "services ns/a"]);
        running.nothing().await;
        assert_eq!(server.count(CIDRS), 1, "not asked again and again");
    }
    let server = FakeServer::start(script(vec![services()])).await;
    let mut running = Running::hearing(&server.url, ServiceCidrs::Ignored, |_| true);
    assert_eq!(running.next(2).await, [NO_CIDRS, "services ns/a"]);
    assert_eq!(server.count(CIDRS), 0, "nobody needs them");

    // The role loses them later: what is known stays in use, and is brought up to date when they come back.
    let cidr = |name: &str, range: &str| json!({"metadata": {"name": name, "resourceVersion": "4"}, "spec": {"cidrs": [range, "0.0.0.0/0"]}});
    let (first, first_reply) = listed(vec![cidr("a", "10.96.0.0/16"), cidr("b", "10.96.0.0/16")], 5);
    let (_second, second_reply) = listed(vec![cidr("b", "10.97.0.0/16")], 20);
    let refusals = [refusal(403), refusal(404)];
    let answers = Answers::new(CIDRS, first_reply.into_iter().chain(refusals).chain(second_reply));
    let server = FakeServer::start(script(vec![answers])).await;
    let mut running =
        Running::hearing(&server.url, ServiceCidrs::Watched, |event| event.starts_with("cidrs"));
    assert_eq!(running.next(1).await, ["cidrs [10.96.0.0/16]"]);
    first.send(line("DELETED", cidr("a", "10.96.0.0/16"))).expect("open");
    assert_eq!(running.next(1).await, ["cidrs [10.96.0.0/16]"], "the other object has it too");
    first.send(line("ERROR", status(410))).expect("open");
    assert_eq!(running.next(1).await, ["cidrs [10.97.0.0/16]"]);
}

#[tokio::test]
async fn credentials_are_read_again_while_they_are_refused() {
    let old = FakeServer::start(Arc::new(|_, _| refusal(401))).await;
    let (_keep, services) = listed(vec![service("web", 1)], 5);
    let new = FakeServer::start(script(vec![Answers::new(SERVICES, services)])).await;
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("kubeconfig");
    old.write_kubeconfig(&kubeconfig);
    let (send, mut events) = mpsc::unbounded_channel();
    let config = Config {
        kubeconfig: Some(kubeconfig.clone()),
        master: None,
        node_name: "n1".to_owned(),
        service_cidrs: ServiceCidrs::Ignored,
        list_format: ListFormat::Json,
        observer: Observer::default(),
    };
    let sink = Arc::new(move |event| _ = send.send(show(&event)));
    let task = tokio::spawn(run(config, sink));
    while old.requests.lock().expect("whole").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    new.write_kubeconfig(&kubeconfig);
    let found = tokio::time::timeout(Duration::from_secs(8), async {
        while let Some(event) = events.recv().await {
            if event.contains("web") {
                return event;
            }
        }
        "nothing".to_owned()
    });
    assert!(found.await.expect("the new server is asked").contains("web"));
    task.abort();
}

/// A connection may be dead and look alive.
#[tokio::test]
async fn a_silent_watch_is_resumed() {
    let (_silent, first_reply) = listed(vec![service("a", 1)], 5);
    let (_second, second_reply) = stream(vec![line("ADDED", service("b", 6))]);
    let answers = Answers::new(SERVICES, first_reply.into_iter().chain([second_reply]));
    let server = FakeServer::start(script(vec![answers])).await;
    let mut running = Running::on(&server.url);
    assert_eq!(running.next(1).await, ["services ns/a"]);
    assert_eq!(running.next(1).await, ["service ns/b"], "no list, and nothing lost");
    assert_eq!(server.count("resourceVersion=5"), 2);
}

/// A list as API servers write it by default, cut off at first.
#[tokio::test]
async fn lists_in_protobuf_count_only_as_a_whole() {
    let whole = include_bytes!("../../../testdata/lists/services.protobuf").to_vec();
    let cut = whole.split_at(whole.len() - 100).0.to_vec();
    let (_hand, watch) = stream(Vec::new());
    let answers =
        [cut, b"k8s".to_vec(), b"{}".to_vec(), whole].map(Reply::Protobuf).into_iter().chain([watch]);
    let server = FakeServer::start(script(vec![Answers::new(SERVICES, answers)])).await;
    let mut running = Running::on(&server.url);
    assert_eq!(running.next(1).await, ["services shop/plain shop/web"]);
    running.nothing().await;
    assert_eq!(server.count("resourceVersion=30623"), 1, "the watch goes on from the list");
}
