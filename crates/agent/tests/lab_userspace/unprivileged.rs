//! An ordinary user's proxy beyond scenarios: with an API server, with a port that becomes free, with nobody who reads what it prints.

use std::fs::{File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use switchyard_lab::scenario::{Scenario, to_manifests};
use switchyard_lab::{Dial, Lab, Node};
use switchyard_model::Family;

use crate::common::api_server::ApiServer;
use crate::common::looking::{PATIENCE, eventually, within};
use crate::is_turned_away;
use crate::loopback::{WEB, ask, doors, manifests, place, proxy, start, write};

const BUSY: &str = "service busy cluster.2:80/tcp nodeport=30081\nendpoint busy n1.1:8080\n";

#[test]
fn a_port_that_becomes_free_is_taken_without_any_change() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let (dir, n1) = (place(), lab.node(Node::N1).clone());
    let pod = lab.add_pod(Node::N1, 1).unwrap();
    let _echo = pod.echo_tcp(8080).unwrap();
    let taken = n1.run(|| TcpListener::bind("127.0.0.1:30081")).unwrap().unwrap();
    write(dir.path(), &manifests(BUSY));
    let mut agent = start(&lab, dir.path(), &["--iptables-sync-period=1s".to_owned()]);
    agent.wait_for_log("127.0.0.1:30081 (another program of this host listens there)", PATIENCE).unwrap();
    agent.wait_for_log("SERVICE", PATIENCE).unwrap();
    drop(taken);
    let at = "127.0.0.1:30081".parse().unwrap();
    eventually("the node port answers", || n1.dial(&Dial::tcp(at)).name() == Some("pod-1-1"));
}

#[test]
fn nobody_has_to_read_what_is_printed() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let (dir, n1) = (place(), lab.node(Node::N1).clone());
    let pod = lab.add_pod(Node::N1, 1).unwrap();
    let _echo = pod.echo_tcp(8080).unwrap();
    write(dir.path(), &manifests(WEB));
    let log = dir.path().join("log");
    let mut command = proxy(dir.path());
    command.arg("--manifests").arg(dir.path().join("manifests"));
    command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
    let mut agent = n1.run(|| command.spawn()).unwrap().unwrap();
    // As `| head -0` does.
    drop(agent.stdout.take());
    let log = || std::fs::read_to_string(&log).unwrap();
    let is_served = within(PATIENCE, || log().contains("full sync done family=IPv6"));
    write(dir.path(), &manifests(&format!("{WEB}{BUSY}")));
    let at = "127.0.0.1:30081".parse().unwrap();
    let is_changed = within(PATIENCE, || n1.dial(&Dial::tcp(at)).name() == Some("pod-1-1"));
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(is_served && is_changed && !log().contains("panicked"), "{}", log());
}

#[test]
fn services_of_an_api_server_are_dialled_on_loopback() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let (dir, n1) = (place(), lab.node(Node::N1).clone());
    let pod = lab.add_pod(Node::N1, 1).unwrap();
    let _echo = pod.echo_tcp(8080).unwrap();
    let server = ApiServer::start(&n1);
    let put = |text: &str| {
        let scenario = Scenario::parse("api", text).unwrap();
        let list = to_manifests(&scenario.steps.last().unwrap().objects, &[Family::V4]);
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        list["items"].as_array().unwrap().iter().for_each(|object| server.put(object.clone()));
        list["items"].as_array().unwrap().clone()
    };
    put(WEB);
    server.put(serde_json::json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
        "status": { "addresses": [{ "type": "InternalIP", "address": "192.168.1.1" }] },
    }));
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, ApiServer::kubeconfig()).unwrap();
    std::fs::set_permissions(&kubeconfig, Permissions::from_mode(0o644)).unwrap();
    let mut command = proxy(dir.path());
    command.arg("--kubeconfig").arg(&kubeconfig);
    // As in an image without any certificates: plain HTTP needs none.
    command.env("SSL_CERT_FILE", "/none").env("SSL_CERT_DIR", "/none");
    let mut agent = n1.start(&mut command, &dir.path().join("log")).unwrap();
    agent.wait_for_log("SERVICE", PATIENCE).unwrap();
    let at = doors(&agent.log().unwrap())["10.96.0.1:80/tcp"];
    assert_eq!(n1.dial(&Dial::tcp(at)).name(), Some("pod-1-1"));
    let listed = ask(&lab, dir.path(), &["get", "services"]).unwrap();
    let web = listed.lines().find(|line| line.contains(" web ")).unwrap();
    assert!(web.ends_with(&format!(" {at},127.0.0.1:30080")), "{listed}");
    // What changes there changes here.
    let busy = put(BUSY);
    let node_port = "127.0.0.1:30081".parse().unwrap();
    eventually("the new Service answers", || n1.dial(&Dial::tcp(node_port)).name() == Some("pod-1-1"));
    assert!(ask(&lab, dir.path(), &["get", "services"]).unwrap().contains("127.0.0.1:30081"));
    busy.iter().for_each(|object| server.delete(object));
    eventually("it is gone", || is_turned_away(&n1.dial(&Dial::tcp(node_port))));
    assert!(!agent.log().unwrap().contains("panicked"));
}
