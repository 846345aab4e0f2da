//! Objects that come, change and go through the API, and tokens that are replaced.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use switchyard_lab::Transport::Tcp;
use switchyard_lab::scenario::CLUSTER_CIDR;

use crate::common::looking::{eventually, within};
use crate::common::variant::Variant;
use crate::events::assert_a_repair_is_told;
use crate::on_cluster::{OnCluster, WEB};

/// How long the agent may go on with credentials that are refused; it reads them again every half minute.
const RENEWAL: Duration = Duration::from_secs(120);

both_modes![what_is_written_through_the_api_is_in_force];

fn what_is_written_through_the_api_is_in_force(variant: Variant) {
    let Some(cluster) = OnCluster::with_web(variant) else { return };
    let world = &cluster.world;
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    cluster.write(
        "service web cluster.1:81/tcp nodeport=30081\nremove endpoint web n1.1:8080\nendpoint web n2.1:8080",
    );
    cluster.expect("cluster.1:81", &["n2.1"]);
    world.wait_for_answer("client", Tcp, "n1:30081", &["n2.1"]);
    world.wait_for_silence("n1.9", Tcp, "cluster.1:80");
    cluster.write("remove service web");
    world.wait_for_silence("n1.9", Tcp, "cluster.1:81");
    // A role that is too small would show here: the agent asks for nothing that it may not have.
    assert!(!world.log().contains("orbidden"), "{}", world.log());
}

/// The address is not the test's choice but the API server's.
#[test]
fn a_cluster_ip_that_the_api_server_chose_answers() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let service = json!({
        "metadata": { "name": "chosen" },
        "spec": { "ipFamilyPolicy": "RequireDualStack", "ports": [{ "port": 80 }], "externalIPs": ["198.51.100.7", "2001:db8:5::7"] },
    });
    let made = cluster.api().create("/api/v1/namespaces/default/services", &service).unwrap();
    for (index, (kind, address)) in
        [("IPv4", "10.1.1.11"), ("IPv6", "fd00:10:1:1::11")].into_iter().enumerate()
    {
        let slice = json!({
            "metadata": { "name": format!("chosen-{index}"), "labels": { "kubernetes.io/service-name": "chosen" } },
            "addressType": kind, "ports": [{ "name": "", "port": 8080 }],
            "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        });
        cluster.api().create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).unwrap();
    }
    cluster.expect("ext.7:80", &["n1.1"]);
    let caller = cluster.world.pod("n1.9");
    for ip in made.pointer("/spec/clusterIPs").unwrap().as_array().unwrap() {
        let at = std::net::SocketAddr::new(ip.as_str().unwrap().parse().unwrap(), 80);
        let answers = || caller.dial(&switchyard_lab::Dial::tcp(at)).name() == Some("pod-1-1");
        eventually(&format!("{at} answers"), answers);
    }
}

/// Tokens of an account that was deleted are worth nothing, also those of a new account with its name.
#[test]
fn a_replaced_token_is_used() {
    let Some(cluster) = OnCluster::with_web(Variant::Nftables) else { return };
    let account = "/api/v1/namespaces/kube-system/serviceaccounts/kube-proxy";
    cluster.api().delete(account).unwrap();
    let (list, _) = account.rsplit_once('/').unwrap();
    cluster.api().create(list, &json!({ "metadata": { "name": "kube-proxy" } })).unwrap();
    // The API server trusts for some seconds what it has found to be true.
    let mut asked = Instant::now();
    eventually("the old token is refused", || {
        if asked.elapsed() > Duration::from_secs(3) {
            cluster.gateway.cut();
            asked = Instant::now();
        }
        cluster.world.log().contains("not authenticated (401)")
    });
    cluster.control_plane.renew_token(Duration::from_secs(3600));
    let is_back = || cluster.world.log().contains(r#"was="not authenticated (401)""#);
    assert!(within(RENEWAL, is_back), "the new token was not read");
    cluster.write("service new cluster.2:80/tcp\nendpoint new n2.1:8080");
    cluster.expect("cluster.2:80", &["n2.1"]);
    assert_a_repair_is_told(&cluster);
}

/// kubeadm's file and the node's name, as its DaemonSet has them: everything else, the way to the API server included, is in the file.
#[test]
fn the_file_of_kubeadm_is_enough() {
    let Some(cluster) = OnCluster::unstarted(Variant::Nftables) else { return };
    let world = &cluster.world;
    let kubeconfig = cluster.control_plane.kubeconfig();
    let text = include_str!("../data/kubeadm-config.conf")
        .replace("/var/lib/kube-proxy/kubeconfig.conf", kubeconfig.to_str().unwrap())
        .replace("10.244.0.0/16", CLUSTER_CIDR)
        .replace("mode: \"\"", "mode: nftables")
        // The limit belongs to the machine, not to the lab.
        .replace("maxPerCore: null", "maxPerCore: 0");
    std::fs::write(world.path("config.conf"), text).unwrap();
    cluster.write(WEB);
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    // The usual place of the socket belongs to the machine, too; kube-proxy's file has no field for it.
    command
        .arg("--config")
        .arg(world.path("config.conf"))
        .args(["--hostname-override=n1", "--admin-socket="]);
    world.launch(world.n1(), &mut command);
    cluster.expect("cluster.1:80", &["n1.1"]);
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    cluster.write("remove endpoint web n1.1:8080\nendpoint web n2.1:8080");
    cluster.expect("cluster.1:80", &["n2.1"]);
    // The API server is the file's: the other addresses and ports in it are kube-proxy's.
    assert_eq!(world.health("/healthz").0, 200);
    assert_a_repair_is_told(&cluster);
}
