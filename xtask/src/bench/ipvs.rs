//! ipvs mode beside the programs that do the same: `ipvsadm`, `ip` and `nft`.
//!
//! Two halves, because this machine's kernel may have no IPVS: [`measure`] runs in the guest of `vm --bench ipvs`, in private namespaces, and
//! prints a line of [`Figures`] for each size of cluster; [`report`] takes those lines on the host and writes them down.
//!
//! The mode's first sync comes first. What it left is read with `ipvsadm`, `ip` and `nft`, and the same programs restore it elsewhere, so
//! both sides have the same content, and that is checked.

mod programs;
mod told;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use switchyard_apply::Mode;
use switchyard_apply::ipvs::mode::{IpvsMode, Sockets};
use switchyard_apply::report::Report;
use switchyard_model::Tracker;
use switchyard_netlink::ipvs::{Command, Ipvs};
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::Nft;
use switchyard_netlink::route::Routes;
use switchyard_plan::book::PortChanges;

use super::cluster;
use programs::Restored;
pub(crate) use told::report;

/// What a line of figures begins with.
pub(crate) const MARK: &str = "@figures ";

/// Numbers of Services, and how often everything is done with them, each time in namespaces of its own. A clock that counts instructions
/// says nearly the same each time.
const CLUSTERS: [(u32, usize); 2] = [(1_000, 2), (10_000, 1)];

/// Endpoints replaced one by one in each run.
const CHANGES: u32 = 10;

/// Nothing is looked at again during a run.
const PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Operations, and the seconds that they took in each run.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cost {
    operations: usize,
    seconds: Vec<f64>,
}

impl Cost {
    fn add(&mut self, operations: usize, time: Duration) -> Result<()> {
        ensure!(self.seconds.is_empty() || self.operations == operations, "runs differ in their operations");
        self.operations = operations;
        self.seconds.push(time.as_secs_f64());
        Ok(())
    }

    fn median(&self) -> Duration {
        super::median(self.seconds.iter().map(|seconds| Duration::from_secs_f64(*seconds)).collect())
    }
}

/// What one size of cluster cost.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    services: u32,
    /// Ours: last object received to all written: rules, virtual servers, addresses.
    first: Cost,
    /// The virtual servers of it alone, from memory.
    servers: Cost,
    /// The same virtual servers by `ipvsadm -R`.
    ipvsadm: Cost,
    /// The same addresses by `ip -batch`.
    ip: Cost,
    /// The same table by `nft -f`.
    nft: Cost,
    /// A start with nothing to write.
    restart: Cost,
    /// One endpoint replaced, by us.
    change: Cost,
    /// The same by `ipvsadm -R`.
    change_ipvsadm: Cost,
}

/// Measures, in a kernel with IPVS.
pub(crate) fn measure() -> Result<()> {
    let begin = Instant::now();
    for (services, runs) in CLUSTERS {
        let mut figures = Figures { services, ..Figures::default() };
        for _ in 0..runs {
            run(&mut figures, begin).with_context(|| format!("{services} Services"))?;
        }
        println!("{MARK}{}", serde_json::to_string(&figures)?);
    }
    Ok(())
}

/// Each step is told when it ends: the emulator takes minutes for some of them, and what was told stays if a later one does not end.
fn run(figures: &mut Figures, since: Instant) -> Result<()> {
    let services = figures.services;
    let tell = |what: &str, time: Duration| {
        let told = super::duration(time);
        println!("[{:>6.1} s] {services} Services: {what}: {told}", since.elapsed().as_secs_f64());
    };
    let (ours, theirs) = (private()?, private()?);
    let (mut mode, mut tracker, report, time) = start(&ours, services)?;
    tell(&format!("first sync, {} operations", report.lines), time);
    figures.first.add(report.lines, time)?;
    let begin = Instant::now();
    let restored = ours.run(Restored::read)??;
    tell("read by the programs", begin.elapsed());
    theirs.run(|| restored.restore(figures, &tell))??;
    let time = copy(&ours)?;
    tell("virtual servers once more", time);
    figures.servers.add(restored.servers(), time)?;
    for n in 0..CHANGES {
        let index = cluster::remote(n * (services / CHANGES));
        cluster::replace_endpoint(&mut tracker, index);
        let begin = Instant::now();
        let report = sync(&mut mode, cluster::taken(&mut tracker))?;
        figures.change.add(report.lines, begin.elapsed())?;
        theirs.run(|| programs::replace_endpoint(index, figures))??;
    }
    tell("one endpoint replaced", figures.change.median());
    tell("the same by ipvsadm", figures.change_ipvsadm.median());
    let (ours_now, theirs_now) = (ours.run(programs::saved)??, theirs.run(programs::saved)??);
    ensure!(programs::are_same(&ours_now, &theirs_now), "the two sides differ after the changes");
    drop(mode);
    // The first start takes the changes back.
    let (_, _, _, time) = start(&ours, services)?;
    tell("start that takes the changes back", time);
    let (_, _, report, time) = start(&ours, services)?;
    tell("start with nothing to write", time);
    ensure!(report.lines == 0, "a restart with nothing changed wrote {} operations", report.lines);
    figures.restart.add(report.lines, time)
}

fn private() -> Result<Namespace> {
    Namespace::new().context("cannot make a network namespace; run as root")
}

/// Starts a mode: the time is that from the complete list of slices to the end of the sync.
fn start(namespace: &Namespace, services: u32) -> Result<(IpvsMode, Tracker, Report, Duration)> {
    let (mut tracker, slices) = cluster::without_slices(services);
    let mut mode = IpvsMode::new(namespace.run(sockets)??, cluster::ipvs_planner(), PERIOD);
    let begin = Instant::now();
    tracker.apply(slices);
    let changes = cluster::taken(&mut tracker);
    let report = sync(&mut mode, changes)?;
    Ok((mode, tracker, report, begin.elapsed()))
}

fn sockets() -> Result<Sockets> {
    let ipvs = Ipvs::open()?.context("this kernel has no IPVS; `vm --bench ipvs` boots one that has")?;
    Ok(Sockets { ipvs, routes: Routes::open()?, nft: Nft::open()? })
}

fn sync(mode: &mut IpvsMode, changes: PortChanges) -> Result<Report> {
    let mut report = mode.sync(Instant::now(), changes, &mut |_| {});
    if let Some(refused) = report.refused.first() {
        bail!("{} was set aside: {}", refused.name, refused.cause);
    }
    match report.failure.take() {
        Some(failure) => Err(failure).context("a sync failed"),
        None => Ok(report),
    }
}

/// The virtual servers of a namespace, sent once more in another one.
fn copy(from: &Namespace) -> Result<Duration> {
    let commands = from.run(|| -> Result<Vec<Command>> {
        let mut ipvs = sockets()?.ipvs;
        let mut commands = Vec::new();
        for service in ipvs.services()? {
            let id = service.id;
            commands.push(Command::AddService(service));
            let listed = ipvs.destinations(id)?.into_iter();
            commands.extend(listed.map(|listed| Command::AddDestination(id, listed.destination)));
        }
        Ok(commands)
    })??;
    let mut ipvs = private()?.run(sockets)??.ipvs;
    let begin = Instant::now();
    let answers = ipvs.send(&commands)?;
    let time = begin.elapsed();
    ensure!(answers.iter().all(Option::is_none), "the kernel refused what it told us itself");
    Ok(time)
}
