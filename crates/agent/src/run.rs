//! Wires a proxy together and runs it until it is told to stop.

mod iptables;
mod ipvs;
mod sources;
mod userspace;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use switchyard_apply::iptables::{Iptables, IptablesError, Variant, VariantChoice, family_usable};
use switchyard_apply::nft::mode::NftMode;
use switchyard_apply::sysctl::Sysctl;
use switchyard_model::{Family, Node};
use switchyard_netlink::monitor::Monitor;
use switchyard_netlink::nftables::Nft;
use switchyard_plan::book::Book;
use switchyard_plan::nft;
use switchyard_plan::settings::{LoopbackNodePorts, Settings};
use switchyard_serve::admin::AdminSocket;
use switchyard_serve::health::ProxyHealth;
use switchyard_serve::metrics::{CountRelayed, Metrics};
use switchyard_serve::server::{self, Listen, Pages};
use switchyard_serve::service_health::ServiceHealth;
use switchyard_source::Sink;
use tokio::signal::unix::{SignalKind, signal};

use crate::addresses::Addresses;
use crate::admin::{self, Admin, Identity};
use crate::board::Board;
use crate::config_file::Watch;
use crate::flags::{
    ADMIN_SOCKET, Config, IptablesBackend, LocalMode, Mode as ModeName, NodePortRanges, OnBindFailure,
    Source, Task, own_admin_socket,
};
use crate::notices::Notices;
use crate::pace::Pace;
use crate::pages;
use crate::settings::{Misfits, complaints, health_check_addresses, settings};
use crate::sync::{self, FamilySync, Loop, NodeFacts, Waiting, with_causes};
use crate::{external_ips, guard, kernel, ui};
use sources::{host_name, notices, origin, source};
pub(crate) use userspace::has_loopback;

/// Everything is written again after this long; see `apply::iptables::mode`.
const MAX_SYNC_INTERVAL: Duration = Duration::from_secs(3600);

/// How long a sync that is going on may take to end once the process is told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Rest between two attempts to get the xtables lock at the start.
const LOCK_REST: Duration = Duration::from_millis(100);

/// Runs the proxy. Rules stay in place when it ends.
pub fn run(config: &Config) -> anyhow::Result<()> {
    let node_name = node_name(config)?;
    let node = Node { name: node_name.as_str().into(), ..Node::default() };
    let board = Board::new();
    let addresses = addresses(config, &board)?;
    let Dataplane { modes, programs, tables, counts, on_first_success } =
        dataplane(config, &node, &addresses)?;
    let families: Vec<Family> = modes.iter().map(|mode| mode.book().settings().family).collect();
    tell_start(config, &node_name, &programs);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let health = Arc::new(ProxyHealth::new(config.sync_period));
    let metrics = pages::metrics(config, &families);
    counts.into_iter().for_each(|counts| metrics.relay_counted(counts));
    let notices = notices(config, &node_name, &runtime, &metrics)?;
    let syncs = modes.into_iter().map(|mode| {
        let settings = mode.book().settings();
        let (family, addresses) = (settings.family, health_check_addresses(settings));
        let handle = runtime.handle().clone();
        let ports = ServiceHealth::new(family, handle, health.clone(), &node_name, addresses);
        FamilySync::new(family, mode, ports, notices.clone())
    });
    let families_sync: Vec<FamilySync> = syncs.collect();
    allow_loopback_node_ports(&families_sync)?;
    if config.task == Task::Init {
        tracing::info!("what needs privileges is done; exiting, because of --init-only");
        return Ok(());
    }
    let (settings_config, served, misfits) = (config.clone(), families.clone(), Misfits::default());
    let sync_loop = Loop {
        board: board.clone(),
        families: families_sync,
        pace: Pace::new(config.min_sync_period, config.sync_period, max_interval(config)),
        node_facts: node_facts(config),
        settle: Box::new(move |node, family| {
            misfits.tell(complaints(&settings_config, node, &served));
            settle(&settings_config, node, family, &addresses)
        }),
        on_first_success: Some(on_first_success),
        health: health.clone(),
        metrics: metrics.clone(),
        notices: notices.clone(),
        waiting: Waiting::default(),
    };
    let worker = thread::Builder::new().name("sync".into()).spawn(move || sync_loop.run())?;
    match tables {
        None if programs.is_empty() => {}
        None => guard::start(&board, programs, config.sync_period)?,
        Some(Tables { name, monitor, ports }) => guard::start_nftables(&board, name, monitor, ports)?,
    }
    notices.starting(config.mode);
    let sink = external_ips::gated(config, sink(&families, &board, &health, &metrics));
    let identity = Identity { node: node_name.clone(), mode: config.mode };
    let admin = Admin::new(board.clone(), identity, admin::Source::new(origin(config, &node_name, &metrics)));
    let pages = ui::pages(config, &admin, &health);
    let serving = serve(config, &node_name, sink, (&health, &metrics, pages), &notices);
    let outcome = runtime.block_on(beside(answer_operator(config, admin), serving));
    board.stop();
    wait_for(&worker);
    runtime.shutdown_background();
    outcome
}

/// How rules get into the kernel.
struct Dataplane {
    /// One mode for each family that this node has.
    modes: Vec<Box<dyn switchyard_apply::Mode>>,
    /// The programs that iptables mode runs; none in other modes.
    programs: Vec<Iptables>,
    /// How nftables mode hears of other programs; nothing in other modes.
    tables: Option<Tables>,
    /// What the relay of userspace mode counts; nothing in other modes.
    counts: Option<CountRelayed>,
    /// Called once when every family is written for the first time.
    on_first_success: Box<dyn FnOnce() + Send>,
}

/// What guards the tables of nftables mode.
struct Tables {
    /// Their name.
    name: &'static str,
    monitor: Monitor,
    /// The ports of the sockets that we write through.
    ports: Vec<u32>,
}

fn dataplane(config: &Config, node: &Node, addresses: &Addresses) -> anyhow::Result<Dataplane> {
    match config.mode {
        ModeName::Iptables => iptables::dataplane(config, node, addresses),
        ModeName::Nftables => nftables_mode(config, node, addresses),
        ModeName::Ipvs => ipvs::dataplane(config, node, addresses),
        ModeName::Userspace => userspace::dataplane(config, node, addresses),
    }
}

fn nftables_mode(config: &Config, node: &Node, addresses: &Addresses) -> anyhow::Result<Dataplane> {
    let wishes = nft::Config { mark: config.masquerade_mark, ..nft::Config::default() };
    let mut modes: Vec<Box<dyn switchyard_apply::Mode>> = Vec::new();
    // First, because it says what is missing.
    let families = crate::probe::families_for_nftables()?;
    let monitor = Monitor::open().context("cannot listen to nf_tables")?;
    let mut ports = Vec::new();
    kernel::prepare(config)?;
    for family in families {
        let book = Book::new(settle(config, node, family, addresses));
        let kernel = Nft::open().context("cannot talk to nf_tables")?;
        ports.push(kernel.port());
        let mode = NftMode::new(kernel, nft::Planner::new(wishes.clone(), book));
        modes.push(Box::new(mode.heard_by(monitor.membership())));
    }
    Ok(Dataplane {
        modes,
        programs: Vec::new(),
        tables: Some(Tables { name: nft::names::TABLE, monitor, ports }),
        counts: None,
        on_first_success: leftovers(config.mode),
    })
}

/// How long the loop may rest.
fn max_interval(config: &Config) -> Duration {
    match config.mode {
        ModeName::Ipvs => ipvs::look_interval(config),
        ModeName::Iptables | ModeName::Nftables | ModeName::Userspace => MAX_SYNC_INTERVAL,
    }
}

/// What other modes left goes once our rules stand.
fn leftovers(mode: ModeName) -> Box<dyn FnOnce() + Send> {
    Box::new(move || crate::cleanup::remove_leftovers(mode))
}

/// Source and servers, until a signal or an error that cannot be waited out.
async fn serve(
    config: &Config,
    node_name: &str,
    sink: Sink,
    (health, metrics, pages): (&Arc<ProxyHealth>, &Arc<Metrics>, Pages),
    notices: &Notices,
) -> anyhow::Result<()> {
    let listen = |address| match config.on_bind_failure {
        OnBindFailure::Retry => Listen::Retrying(address),
        OnBindFailure::Exit => Listen::OrFail(address),
    };
    let health_server = async {
        match config.healthz {
            Some(address) => server::serve_health(listen(address), health.clone(), metrics.clone()).await,
            None => std::future::pending().await,
        }
    };
    let metrics_server = server::serve_metrics(listen(config.metrics), metrics.clone(), pages);
    let file = config.config_file.as_deref().map(Watch::start).transpose()?;
    let config_changed = async {
        match &file {
            Some(file) => file.changed().await,
            None => std::future::pending().await,
        }
    };
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => tracing::info!("told to stop; the rules stay in place"),
        _ = interrupt.recv() => tracing::info!("interrupted; the rules stay in place"),
        end = source(config, node_name, sink, metrics) => match end? {},
        error = config_changed => return Err(error),
        end = health_server => {
            let Err(error) = end;
            notices.no_health_server(with_causes(&error));
            notices.last_words().await;
            return Err(error.into());
        }
        end = metrics_server => {
            let Err(error) = end;
            notices.no_metrics_server(with_causes(&error));
            notices.last_words().await;
            return Err(error.into());
        }
    }
    Ok(())
}

/// Two things at once, one of which never ends by itself.
async fn beside<T>(endless: impl Future<Output = Infallible>, work: impl Future<Output = T>) -> T {
    tokio::select! {
        never = endless => match never {},
        end = work => end,
    }
}

/// Answers on the admin socket. Without one the proxy does its work all the same.
async fn answer_operator(config: &Config, admin: Arc<Admin>) -> Infallible {
    let Some(path) = &config.admin_socket else { return std::future::pending().await };
    let own = own_admin_socket().filter(|_| *path == Path::new(ADMIN_SOCKET));
    let bound = match (AdminSocket::bind(path), own) {
        (Err(error), Some(own)) if error.is_for_others() => {
            tracing::info!(path = %own.display(), "the admin socket is this user's own");
            AdminSocket::bind(&own)
        }
        (bound, _) => bound,
    };
    match bound {
        Ok(socket) => socket.serve(admin).await,
        Err(error) => {
            tracing::info!(cause = %with_causes(&error), "no admin socket; `switchyard get` and `explain` cannot ask this agent");
            std::future::pending().await
        }
    }
}

fn sink(families: &[Family], board: &Arc<Board>, health: &Arc<ProxyHealth>, metrics: &Arc<Metrics>) -> Sink {
    let (board, health, metrics) = (board.clone(), health.clone(), metrics.clone());
    let families = families.to_vec();
    Arc::new(move |event| {
        board.post(event, |posted| {
            if posted.is_work {
                sync::queued(&families, &health, &metrics, posted.pending);
            }
        });
    })
}

fn node_name(config: &Config) -> anyhow::Result<String> {
    config.node_name(&host_name()?).ok_or_else(|| anyhow!("the host name is empty; pass --hostname-override"))
}

/// The iptables programs of every family that this node has.
pub fn usable_programs(backend: IptablesBackend) -> anyhow::Result<Vec<Iptables>> {
    let choice = match backend {
        IptablesBackend::Auto => VariantChoice::Auto,
        IptablesBackend::Nft => VariantChoice::Nft,
        IptablesBackend::Legacy => VariantChoice::Legacy,
    };
    let variant = choice.resolve()?;
    let (mut usable, mut problems) = (Vec::new(), Vec::new());
    for family in Family::ALL {
        if !family_usable(family) {
            tracing::info!(%family, "this node has no such addresses; the family is left alone");
            continue;
        }
        match probe(family, variant) {
            Ok(program) => usable.push(program),
            Err(error) => problems.push(format!("{family}: {}", with_causes(&error))),
        }
    }
    if usable.is_empty() {
        bail!("iptables is not available on this host: {}", problems.join("; "));
    }
    for problem in problems {
        tracing::warn!(%problem, "one IP family cannot be served");
    }
    Ok(usable)
}

/// Waits for a busy xtables lock as long as it takes: a family that is given up at the start is given up for good.
fn probe(family: Family, variant: Variant) -> Result<Iptables, IptablesError> {
    let mut told = String::new();
    loop {
        match Iptables::probe(family, variant) {
            Err(error @ IptablesError::Locked { .. }) => {
                let cause = error.to_string();
                if told != cause {
                    tracing::warn!(%family, %cause, "waiting for the xtables lock");
                }
                told = cause;
                // The program itself has waited for seconds, unless it is a very odd one.
                thread::sleep(LOCK_REST);
            }
            done => return done,
        }
    }
}

fn tell_start(config: &Config, node_name: &str, programs: &[Iptables]) {
    for program in programs {
        tracing::info!(
            family = %program.family(), variant = program.variant().as_str(), version = %program.version(),
            "using iptables"
        );
    }
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    tracing::info!(
        node = node_name, mode = config.mode.as_str(), metrics = %config.metrics,
        "Switchyard {} starts", env!("CARGO_PKG_VERSION")
    );
}

/// A Node of the API server may get its pod ranges later; one in a file has them or not.
fn node_facts(config: &Config) -> NodeFacts {
    match (&config.local_mode, &config.source) {
        (LocalMode::NodeCidr, Source::Cluster { .. }) => NodeFacts::PodRanges,
        _ => NodeFacts::Usual,
    }
}

/// The node's addresses, followed only if node ports are limited to some of them, or need a virtual server at each.
fn addresses(config: &Config, board: &Arc<Board>) -> anyhow::Result<Arc<Addresses>> {
    match config.node_ports {
        NodePortRanges::All if config.mode == ModeName::Ipvs => Addresses::watch(board),
        NodePortRanges::All => Ok(Addresses::none()),
        NodePortRanges::Primary | NodePortRanges::Cidrs(_) => Addresses::watch(board),
    }
}

/// Settings of one family.
fn settle(config: &Config, node: &Node, family: Family, addresses: &Addresses) -> Settings {
    let mut settings = settings(config, node, family, &addresses.now());
    if config.mode != ModeName::Iptables {
        // The kernel routes packets from loopback addresses nowhere, and these modes do not ask it to.
        settings.loopback_node_ports = LoopbackNodePorts::Refused;
    }
    settings
}

/// Packets to loopback addresses are only routed to other hosts if the kernel is told to.
fn allow_loopback_node_ports(families: &[FamilySync]) -> anyhow::Result<()> {
    let is_served = |f: &FamilySync| f.book().settings().loopback_node_ports == LoopbackNodePorts::Served;
    if families.iter().any(is_served) {
        Sysctl::default().set_if_different("net/ipv4/conf/all/route_localnet", "1").context(
            "node ports on loopback addresses need it; or pass --iptables-localhost-nodeports=false",
        )?;
    }
    Ok(())
}

fn wait_for(worker: &thread::JoinHandle<()>) {
    let end = std::time::Instant::now() + STOP_PATIENCE;
    while !worker.is_finished() && std::time::Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
}
