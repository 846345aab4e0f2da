//! A real API server with etcd, in a network namespace of its own.
//!
//! In: nothing but the program. Out: an API for the test, with all rights, and credentials for a proxy, which has those of the role
//! `system:node-proxier` and no others. Labs reach it through a [`Gateway`](super::gateway::Gateway). It may be stopped and started again;
//! its objects outlive it.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use switchyard_lab::{Family, Host, Lab, Process};
use tempfile::TempDir;

use super::api::Api;
use super::programs::{CONTROL_PLANE, find_or_skip};

/// The port of the API server. Its address is that of a lab's router, so that a gateway on any lab's router has it too.
pub(crate) const PORT: u16 = 6443;

/// Where etcd takes JSON.
const ETCD: &str = "127.0.0.1:2379";

/// Where cluster IPs come from. The first of them is the API server's own; the symbols `cluster.n` of the lab lie further back.
const SERVICE_RANGES: &str = "10.64.0.0/10,fd00:10:96::/112";

/// A first start takes seconds, and many of them on a busy machine.
const START: Duration = Duration::from_secs(120);

/// The account of the proxy, as kubeadm makes it.
const ACCOUNT: &str = "/api/v1/namespaces/kube-system/serviceaccounts";

/// What gives it its role.
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const BINDING: &str = "e2e-proxy";

/// See the module.
pub(crate) struct ControlPlane {
    program: PathBuf,
    lab: Lab,
    dir: TempDir,
    process: RefCell<Option<Process>>,
    runs: Cell<u32>,
}

impl ControlPlane {
    /// Runs one, with credentials for a proxy; prints why there can be none.
    pub(crate) fn start_or_skip() -> Option<Self> {
        let program = find_or_skip(CONTROL_PLANE)?;
        let lab = Lab::new_or_skip()?;
        let dir = tempfile::tempdir().unwrap();
        let (process, runs) = Default::default();
        let control_plane = Self { program, lab, dir, process, runs };
        control_plane.start(&[]);
        control_plane.make_account();
        Some(control_plane)
    }

    /// Starts it and waits until it is ready. `flags` are those of kube-apiserver.
    pub(crate) fn start(&self, flags: &[&str]) {
        self.runs.set(self.runs.get() + 1);
        let log = self.path(&format!("control-plane-{}.log", self.runs.get()));
        let mut command = Command::new(&self.program);
        command.arg("--dir").arg(self.dir.path());
        command.arg(format!("--address={}", self.host().ip(Family::V4)));
        command.arg(format!("--service-cluster-ip-range={SERVICE_RANGES}"));
        command.arg("--").args(flags);
        let mut process = self.host().start(&mut command, &log).unwrap();
        process.wait_for_log("\nready\n", START).unwrap();
        *self.process.borrow_mut() = Some(process);
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&self) {
        self.process.borrow_mut().take().unwrap().kill().unwrap();
    }

    /// Asks it to end, as an upgrade does, and waits for that.
    pub(crate) fn stop(&self, patience: Duration) {
        let mut process = self.process.borrow_mut().take().unwrap();
        process.terminate().unwrap();
        assert!(process.wait(patience).unwrap().is_some(), "the control plane does not end");
    }

    /// Makes etcd forget everything but the present: nobody can watch from an earlier version on.
    pub(crate) fn compact(&self) {
        let list = self.api().read("/api/v1/namespaces").unwrap();
        let revision = list.pointer("/metadata/resourceVersion").unwrap();
        let answer = self.etcd("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }));
        assert!(answer.split(' ').nth(1) == Some("200"), "etcd does not compact: {answer}");
    }

    /// Puts an object into etcd, past the API server and its checks.
    pub(crate) fn store(&self, key: &str, object: &Value) {
        let [key, value] = [key.to_owned(), object.to_string()].map(|text| BASE64_STANDARD.encode(text));
        let answer = self.etcd("/v3/kv/put", &json!({ "key": key, "value": value }));
        assert!(answer.split(' ').nth(1) == Some("200"), "etcd does not take it: {answer}");
    }

    /// Asks etcd; head and body of its answer.
    pub(crate) fn etcd(&self, path: &str, question: &Value) -> String {
        let body = question.to_string();
        let head = format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = self.host().run(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(ETCD)?;
            stream.write_all((head + &body).as_bytes())?;
            std::io::read_to_string(stream)
        });
        answer.unwrap().unwrap()
    }

    /// The namespace that it runs in.
    pub(crate) fn host(&self) -> &Host {
        self.lab.router()
    }

    /// A file of its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// With the rights of an administrator.
    pub(crate) fn api(&self) -> Api {
        Api::new(self.path("api.sock"))
    }

    /// What a proxy is started with: an account's token in a file, and exactly the role that every cluster has for kube-proxy.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path("proxy.kubeconfig")
    }

    fn make_account(&self) {
        let api = self.api();
        api.ensure_namespace("kube-system");
        api.create(ACCOUNT, &json!({ "metadata": { "name": "kube-proxy" } })).unwrap();
        self.allow();
        self.renew_token(Duration::from_secs(3600));
        let config = kubeconfig(self.host(), &self.path("ca.crt"), &self.token_file());
        std::fs::write(self.kubeconfig(), config.to_string()).unwrap();
    }

    /// Gives the proxy its role.
    pub(crate) fn allow(&self) {
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier" });
        let subject = json!({ "kind": "ServiceAccount", "namespace": "kube-system", "name": "kube-proxy" });
        let binding = json!({ "metadata": { "name": BINDING }, "roleRef": role, "subjects": [subject] });
        self.api().create(BINDINGS, &binding).unwrap();
    }

    /// Takes the proxy's role away.
    pub(crate) fn forbid(&self) {
        self.api().delete(&format!("{BINDINGS}/{BINDING}")).unwrap();
    }

    /// Where the proxy reads its token.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.path("token")
    }

    /// Replaces the proxy's token, as a kubelet does.
    pub(crate) fn renew_token(&self, lifetime: Duration) {
        let request = json!({ "spec": { "expirationSeconds": lifetime.as_secs() } });
        let answer = self.api().create(&format!("{ACCOUNT}/kube-proxy/token"), &request).unwrap();
        let token = answer.pointer("/status/token").and_then(Value::as_str).unwrap();
        let draft = self.path("token.draft");
        std::fs::write(&draft, token).unwrap();
        std::fs::rename(draft, self.token_file()).unwrap();
    }
}

/// The file that kubeadm gives to kube-proxy. JSON is YAML too.
fn kubeconfig(server: &Host, authority: &Path, token: &Path) -> Value {
    let server = format!("https://{}:{PORT}", server.ip(Family::V4));
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "default",
        "clusters": [{ "name": "default", "cluster": { "server": server, "certificate-authority": authority } }],
        "contexts": [{ "name": "default", "context": { "cluster": "default", "user": "default" } }],
        "users": [{ "name": "default", "user": { "tokenFile": token } }],
    })
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let Some(process) = self.process.get_mut() else { return };
        if std::thread::panicking() {
            let log = process.log().unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("the control plane's log ends with:");
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        }
    }
}
