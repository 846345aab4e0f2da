//! The agent under test: the real program in the network namespace of a lab node, fed from a directory of its own.
//!
//! In: a node of the lab, an iptables variant, flags. Out: its metrics, its log, its end, and what it left in the kernel. Everything it
//! shares with the machine otherwise, such as the lock file of iptables, lies in the directory of the test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use switchyard_lab::scenario::Scenario;
use switchyard_lab::{Host, Lab, Node, Process};
use tempfile::TempDir;

use super::looking::{PATIENCE, series};
use super::ruleset;
use super::variant::Variant;

/// Directory, node and variant of an agent; the agent itself may be started, stopped and started again.
pub(crate) struct Bench {
    node: Host,
    variant: Variant,
    directory: TempDir,
}

impl Bench {
    /// A bench on node n1, with no objects.
    pub(crate) fn new(lab: &Lab, variant: Variant) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::create_dir(directory.path().join("manifests"))?;
        Ok(Self { node: lab.node(Node::N1).clone(), variant, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces all objects at once, by renaming a complete file.
    pub(crate) fn write_objects(&self, text: &str) -> anyhow::Result<()> {
        std::fs::write(self.path("next.json"), text)?;
        std::fs::rename(self.path("next.json"), self.path("manifests/objects.json"))?;
        Ok(())
    }

    /// Starts an agent as node n1, without pauses between syncs.
    pub(crate) fn start<F: AsRef<str>>(&self, flags: &[F]) -> anyhow::Result<Agent> {
        let mut command = self.command();
        command.arg("--manifests").arg(self.path("manifests"));
        self.start_reading(command, flags)
    }

    /// As [`Self::start`], with the objects of an API server.
    pub(crate) fn start_on_cluster<F: AsRef<str>>(
        &self,
        kubeconfig: &Path,
        flags: &[F],
    ) -> anyhow::Result<Agent> {
        let mut command = self.command();
        command.arg("--kubeconfig").arg(kubeconfig);
        self.start_reading(command, flags)
    }

    fn start_reading<F: AsRef<str>>(&self, mut command: Command, flags: &[F]) -> anyhow::Result<Agent> {
        command.args(["--hostname-override=n1", "--iptables-min-sync-period=0s", "-v=4"]);
        if self.variant == Variant::Ipvs {
            command.arg("--ipvs-min-sync-period=0s");
        }
        // The limit belongs to the machine, not to the lab.
        command.arg("--conntrack-max-per-core=0");
        command.args(["--healthz-bind-address=0.0.0.0:10256", "--metrics-bind-address=127.0.0.1:10249"]);
        command.args(flags.iter().map(AsRef::as_ref));
        self.launch(command)
    }

    fn launch(&self, mut command: Command) -> anyhow::Result<Agent> {
        let admin_socket = self.path("admin.sock");
        command.arg("--admin-socket").arg(&admin_socket);
        let process = self.node.start(&mut command, &self.path("agent.log"))?;
        Ok(Agent { process, node: self.node.clone(), admin_socket })
    }

    /// Starts an agent as kubeadm's DaemonSet does: a file with its stock content, the node's name as the only flag, and the options of
    /// a scenario in the file.
    pub(crate) fn start_from_file(&self, scenario: &Scenario) -> anyhow::Result<Agent> {
        let file = self.path("config.conf");
        std::fs::write(&file, config_file(self.variant, scenario)?)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.env("XTABLES_LOCKFILE", self.path("xtables.lock"));
        command.arg("--config").arg(&file).arg("--hostname-override=n1");
        command.arg("--manifests").arg(self.path("manifests"));
        if let Some(backend) = self.variant.backend() {
            command.arg(format!("--iptables-backend={backend}"));
        }
        self.launch(command)
    }

    /// Runs `--cleanup`, which must succeed.
    pub(crate) fn clean_up(&self) -> anyhow::Result<()> {
        let mut process = self.node.start(self.command().arg("--cleanup"), &self.path("cleanup.log"))?;
        let status = process.wait(PATIENCE)?;
        ensure!(status.is_some_and(|s| s.success()), "--cleanup: {status:?}: {}", process.log()?);
        Ok(())
    }

    /// The chains of the proxy that the kernel holds, of both families; the kubelet's own is left out.
    pub(crate) fn chains(&self) -> anyhow::Result<Vec<String>> {
        let Some(backend) = self.variant.backend() else { return self.tables() };
        let mut chains = Vec::new();
        for family in ["iptables", "ip6tables"] {
            let program = format!("{family}-{backend}-save");
            let saved = self.node.exec_ok::<&str>(&program, &[])?;
            let names = saved.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
            let ours = names.filter(|name| name.starts_with("KUBE-") && *name != "KUBE-FIREWALL");
            chains.extend(ours.map(|name| format!("{family} {name}")));
        }
        Ok(chains)
    }

    /// In nftables mode, stock `nft` must be able to list everything.
    pub(crate) fn check_listable(&self) -> anyhow::Result<()> {
        match self.variant {
            Variant::Nftables | Variant::Ipvs | Variant::Userspace => ruleset::check_listable(&self.node),
            Variant::Nft | Variant::Legacy => Ok(()),
        }
    }

    /// The tables of nftables mode.
    fn tables(&self) -> anyhow::Result<Vec<String>> {
        let tables = self.node.exec_ok("nft", &["list", "tables"])?;
        let name = format!(" {}", self.variant.table());
        Ok(tables.lines().filter(|line| line.ends_with(&name)).map(String::from).collect())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.env("XTABLES_LOCKFILE", self.path("xtables.lock"));
        command.arg(self.variant.flag());
        command
    }
}

/// A running agent. Killed when dropped.
pub(crate) struct Agent {
    process: Process,
    node: Host,
    admin_socket: PathBuf,
}

impl Agent {
    /// What a subcommand that asks this agent prints, as JSON.
    pub(crate) fn ask(&self, arguments: &[&str]) -> anyhow::Result<serde_json::Value> {
        let socket = self.admin_socket.to_str().context("the path of the test is no text")?;
        let more = ["--admin-socket", socket, "--output", "json"];
        let arguments: Vec<&str> = arguments.iter().copied().chain(more).collect();
        Ok(serde_json::from_str(&self.node.exec_ok(env!("CARGO_BIN_EXE_switchyard"), &arguments)?)?)
    }

    /// The end of its log, for messages.
    pub(crate) fn log_end(&self) -> String {
        let log = self.process.log().unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
    }

    /// Waits until both families were written once.
    pub(crate) fn wait_until_synced(&mut self) -> anyhow::Result<()> {
        const WRITTEN: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.process.exit_status()?;
            let times = series(&self.node, WRITTEN);
            if times.values().filter(|time| **time > 0.0).count() == 2 {
                return Ok(());
            }
            if status.is_some() || Instant::now() >= end {
                bail!(
                    "no first sync; exit {status:?}, times {times:?}; the log ends with\n{}",
                    self.log_end()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The sum over all series of a metric, which must be there.
    pub(crate) fn total(&self, name: &str) -> anyhow::Result<f64> {
        let all = series(&self.node, name);
        ensure!(!all.is_empty(), "no metric {name}");
        Ok(all.values().sum())
    }

    /// Asks it to end (SIGTERM), which it must do in time and without an error.
    pub(crate) fn terminate(mut self) -> anyhow::Result<()> {
        self.process.terminate()?;
        let status = self.process.wait(PATIENCE)?;
        ensure!(status.is_some_and(|s| s.success()), "after SIGTERM: {status:?}; log:\n{}", self.log_end());
        Ok(())
    }
}

/// kubeadm's file with some fields set.
fn config_file(variant: Variant, scenario: &Scenario) -> anyhow::Result<String> {
    // The limit of connections belongs to the machine, not to the lab.
    let mut text = include_str!("../data/kubeadm-config.conf").replace("maxPerCore: null", "maxPerCore: 0");
    let mut set = |stock: &str, line: &str| {
        ensure!(text.matches(stock).count() == 1, "{stock:?} is not in the file, or twice");
        text = text.replacen(stock, line, 1);
        Ok(())
    };
    set("\nmode: \"\"\n", &format!("\nmode: {}\n", variant.mode_name()))?;
    set("\nclusterCIDR: 10.244.0.0/16\n", &format!("\nclusterCIDR: \"{}\"\n", scenario.cluster_cidr()))?;
    for (name, value) in &scenario.options {
        match name.as_str() {
            "cluster-cidr" => {}
            "detect-local-mode" => set("detectLocalMode: \"\"", &format!("detectLocalMode: {value}"))?,
            "pod-interface-name-prefix" => {
                set("interfaceNamePrefix: \"\"", &format!("interfaceNamePrefix: {value}"))?
            }
            "iptables-localhost-nodeports" => {
                set("localhostNodePorts: null", &format!("localhostNodePorts: {value}"))?
            }
            "masquerade-all" => {
                let section =
                    if variant == Variant::Nftables { "nftables:\n" } else { "localhostNodePorts: null\n" };
                let stock = format!("{section}  masqueradeAll: false");
                set(&stock, &format!("{section}  masqueradeAll: {value}"))?;
            }
            "nodeport-addresses" => set("nodePortAddresses: null", &format!("nodePortAddresses: [{value}]"))?,
            other => bail!("the test does not know which field is --{other}"),
        }
    }
    Ok(text)
}

/// The directory of the scenarios.
pub(crate) fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}
