//! A lab with one proxy on node n1: started, stopped, asked, looked at from outside.
//!
//! In: a cluster and a kind of proxy. Out: who answers on a Service, and times, memory and processor time of the process.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use switchyard_lab::scenario::CLUSTER_CIDR;
use switchyard_lab::{Dial, Echo, Host, Lab, Node, Process};
use tempfile::TempDir;

use crate::cluster::{Cluster, PODS, ROLLING};
use crate::common::looking::series;
use crate::common::world::POD_PORT;
use crate::e2e::gateway::Gateway;
use crate::kind::{Kind, Pause};
use crate::machine;

/// When rules were last written, by the proxy's own word.
const WRITTEN: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";

/// An attempt to connect takes no longer: one that began too early would be tried again by the kernel only after a second.
const ANSWER: Duration = Duration::from_millis(30);

/// How often a proxy is asked for its metrics: to write the page is work, too.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The processor of those who answer; who dials and measures has the other.
const ANSWERING: usize = 1;

/// Ticks a second of the times in `/proc`.
const TICKS: f64 = 100.0;

/// Megabytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    pub(crate) peak: f64,
}

/// How long something took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Took {
    /// It is done.
    Seconds(f64),
    /// It was not, when the deadline came.
    NotAfter(f64),
}

/// See the module. The order of the fields is that of their ends.
pub(crate) struct Stage<'c> {
    process: Option<Process>,
    begin: Instant,
    /// The same by the clock on the wall, which metrics have.
    began: SystemTime,
    pub(crate) cluster: &'c Cluster,
    kind: &'static Kind,
    /// Who dials.
    pub(crate) caller: Host,
    /// On n2, which has no rules: who dials, and whom.
    pub(crate) bare: (Host, Host),
    pods: Vec<(Host, Option<Echo>)>,
    _bare_echo: Echo,
    _gateway: Gateway,
    lab: Lab,
    dir: TempDir,
}

impl<'c> Stage<'c> {
    /// Without the proxy yet.
    pub(crate) fn new(cluster: &'c Cluster, kind: &'static Kind) -> anyhow::Result<Self> {
        let lab = Lab::new()?;
        let gateway = Gateway::open(&lab, &cluster.control_plane);
        let echo = |pod: &Host| machine::on_processor(ANSWERING, || pod.echo_tcp(POD_PORT));
        let mut pods = Vec::new();
        for index in PODS.into_iter().chain(ROLLING) {
            let pod = lab.add_pod(Node::N1, index)?;
            let echo = echo(&pod)?;
            pods.push((pod, Some(echo)));
        }
        let caller = lab.add_pod(Node::N1, 9)?;
        let bare = (lab.add_pod(Node::N2, 9)?, lab.add_pod(Node::N2, 1)?);
        let bare_echo = echo(&bare.1)?;
        // Who asks too early is told at once, every time, instead of waiting for an answer.
        let node = lab.node(Node::N1);
        node.exec_ok("ip", &["route", "add", "prohibit", "10.96.0.0/12"])?;
        node.run(|| std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0"))??;
        Ok(Self {
            process: None,
            begin: Instant::now(),
            began: SystemTime::now(),
            cluster,
            kind,
            caller,
            bare,
            pods,
            _bare_echo: bare_echo,
            _gateway: gateway,
            lab,
            dir: tempfile::tempdir()?,
        })
    }

    /// Starts the proxy, or starts it again after it was killed.
    pub(crate) fn start(&mut self, pause: Pause) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
        }
        let mut command = self.kind.command(self.dir.path(), pause);
        command.arg("--kubeconfig").arg(self.cluster.control_plane.kubeconfig());
        // The limit of connections belongs to the machine, not to the lab.
        command.args(["--hostname-override=n1", "--conntrack-max-per-core=0"]);
        command.arg(format!("--cluster-cidr={CLUSTER_CIDR}"));
        (self.begin, self.began) = (Instant::now(), SystemTime::now());
        self.process = Some(self.node().start(&mut command, &self.dir.path().join("log"))?);
        Ok(())
    }

    pub(crate) fn node(&self) -> &Host {
        self.lab.node(Node::N1)
    }

    /// Who answers there, if anybody does.
    pub(crate) fn ask(&self, to: SocketAddr) -> Option<String> {
        self.caller.dial(&Dial::tcp(to).within(ANSWER)).name().map(str::to_owned)
    }

    /// The name that the n-th of [`PODS`] and [`ROLLING`] answers with.
    pub(crate) fn pod_name(&self, n: usize) -> &str {
        self.pods.get(n).map_or("", |(pod, _)| pod.name())
    }

    /// Starts or ends the server of the n-th of [`PODS`] and [`ROLLING`].
    pub(crate) fn serve(&mut self, n: usize, is_up: bool) -> anyhow::Result<()> {
        let (pod, echo) = self.pods.get_mut(n).context("no such pod")?;
        match is_up {
            true if echo.is_none() => {
                *echo = Some(machine::on_processor(ANSWERING, || pod.echo_tcp(POD_PORT))?);
            }
            true => {}
            false => *echo = None,
        }
        Ok(())
    }

    /// Looks again and again, seldom enough not to disturb and often enough to be exact to one percent; the time since `begin`.
    pub(crate) fn wait(
        &mut self,
        begin: Instant,
        deadline: Duration,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> anyhow::Result<Took> {
        loop {
            if is_so(self) {
                return Ok(Took::Seconds(begin.elapsed().as_secs_f64()));
            }
            let elapsed = begin.elapsed();
            if elapsed > deadline {
                return Ok(Took::NotAfter(deadline.as_secs_f64()));
            }
            self.check_alive()?;
            std::thread::sleep((elapsed / 100).clamp(Duration::from_millis(1), Duration::from_millis(100)));
        }
    }

    fn check_alive(&mut self) -> anyhow::Result<()> {
        let process = self.process.as_mut().context("no proxy runs")?;
        if let Some(status) = process.exit_status()? {
            let log = process.log()?;
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            bail!(
                "{} ended with {status}; its log ends with (last line first)\n{}",
                self.kind.name,
                tail.join("\n")
            );
        }
        Ok(())
    }

    /// When the proxy was started.
    pub(crate) fn begin(&self) -> Instant {
        self.begin
    }

    /// Waits until the proxy says that it has written IPv4 rules; the time from its start until then.
    pub(crate) fn wait_until_written(&mut self, deadline: Duration) -> anyhow::Result<Took> {
        let began = self.began.duration_since(UNIX_EPOCH)?.as_secs_f64();
        loop {
            let times = series(self.node(), WRITTEN);
            let written = times.iter().filter(|(labels, _)| !labels.contains("IPv6")).map(|(_, time)| *time);
            if let Some(written) = written.max_by(f64::total_cmp).filter(|time| *time > 0.0) {
                return Ok(Took::Seconds(written - began));
            }
            if self.begin.elapsed() > deadline {
                return Ok(Took::NotAfter(deadline.as_secs_f64()));
            }
            self.check_alive()?;
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// The sum of a metric of IPv4.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let all = series(self.node(), name);
        let own: Vec<f64> =
            all.iter().filter(|(labels, _)| !labels.contains("IPv6")).map(|(_, v)| *v).collect();
        (!own.is_empty()).then(|| own.iter().sum())
    }

    fn of_process(&self, file: &str) -> anyhow::Result<String> {
        let id = self.process.as_ref().context("no proxy runs")?.id();
        Ok(std::fs::read_to_string(format!("/proc/{id}/{file}"))?)
    }

    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        let status = self.of_process("status")?;
        let megabytes = |field: &str| -> anyhow::Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no such field")?;
            Ok(line.split_whitespace().next().unwrap_or_default().parse::<f64>()? / 1024.0)
        };
        Ok(Memory { resident: megabytes("VmRSS:")?, peak: megabytes("VmHWM:")? })
    }

    /// Processor time so far in seconds, that of programs which it ran to their ends included.
    pub(crate) fn processor(&self) -> anyhow::Result<f64> {
        let stat = self.of_process("stat")?;
        // The name of the program, in parentheses, may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("unreadable")?;
        let times = fields.split_whitespace().skip(11).take(4).map(str::parse::<f64>);
        Ok(times.sum::<Result<f64, _>>()? / TICKS)
    }
}
