//! What a loop would know, without a loop and without a kernel: for tests of those who ask it.
//!
//! In: service ports, and what is wrong. Out: a [`World`] whose view questions can be asked of.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use switchyard_apply::Mode;
use switchyard_apply::diff::Difference;
use switchyard_apply::report::{Failure, Progress, Report};
use switchyard_model::{
    Complaint, Endpoint, Family, ObjectName, Protocol, ServiceName, ServicePort, ServicePortName,
    TrafficPolicy,
};
use switchyard_plan::book::{Book, PortChanges};
use switchyard_plan::iptables::RuleCounts;
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_serve::admin::{AdminSocket, Responder};
use switchyard_serve::health::ProxyHealth;
use switchyard_serve::service_health::ServiceHealth;
use switchyard_source::events::Recorder;

use crate::admin::{Admin, Identity, Source};
use crate::board::Board;
use crate::ledger::Ledger;
use crate::notices::Notices;
use crate::sync::{FamilySync, View};

/// A book that nobody writes to the kernel.
struct Shelf {
    book: Book,
    /// How often it was looked into.
    opened: Arc<AtomicUsize>,
    left_out: BTreeMap<ServicePortName, usize>,
    set_aside: BTreeMap<ServicePortName, String>,
}

impl Mode for Shelf {
    fn book(&self) -> &Book {
        self.opened.fetch_add(1, Ordering::Relaxed);
        &self.book
    }

    fn counts(&self) -> RuleCounts {
        RuleCounts::default()
    }

    fn left_out(&self) -> &BTreeMap<ServicePortName, usize> {
        &self.left_out
    }

    fn set_aside(&self) -> &BTreeMap<ServicePortName, String> {
        &self.set_aside
    }

    fn settle(&mut self, _: Settings) {}

    fn distrust(&mut self) {}

    fn needs_full_sync(&self, _: Instant) -> bool {
        false
    }

    fn sync(&mut self, _: Instant, _: PortChanges, _: &mut dyn FnMut(Progress)) -> Report {
        unreachable!("nobody syncs a shelf")
    }

    fn difference(&self) -> Result<Difference, Failure> {
        unreachable!("there is no kernel")
    }
}

/// Names of Services with which something is wrong, in every family.
#[derive(Clone, Copy, Default)]
pub(crate) struct Troubles<'a> {
    /// The kernel refused them.
    pub(crate) refused: &'a [&'a str],
    /// The mode cannot serve something of them.
    pub(crate) unserved: &'a [&'a str],
    /// They have more endpoints than the mode can hold.
    pub(crate) left_out: &'a [&'a str],
}

/// See the module.
pub(crate) struct World {
    _runtime: tokio::runtime::Runtime,
    opened: Arc<AtomicUsize>,
    pub(crate) families: Vec<FamilySync>,
    pub(crate) complaints: BTreeMap<ObjectName, Vec<Complaint>>,
    pub(crate) ledger: Ledger,
}

impl World {
    pub(crate) fn new(ports: &[ServicePort]) -> Self {
        Self::troubled(ports, Troubles::default())
    }

    pub(crate) fn troubled(ports: &[ServicePort], troubles: Troubles<'_>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let opened = Arc::<AtomicUsize>::default();
        let family = |family: Family| {
            let mut book = Book::new(settings(family));
            let mine = ports.iter().filter(|port| port.family == family);
            book.update(mine.map(|port| (port.name.clone(), Some(Arc::new(port.clone())))).collect());
            let names: Vec<_> = book.ports().keys().cloned().collect();
            let named = |among: &[&str]| -> Vec<ServicePortName> {
                names.iter().filter(|name| among.contains(&&*name.service.name)).cloned().collect()
            };
            for name in named(troubles.refused) {
                book.quarantine(&name, None, "no room".to_owned());
            }
            let left_out = named(troubles.left_out).into_iter().map(|name| (name, 3)).collect();
            let set_aside = named(troubles.unserved).into_iter();
            let set_aside = set_aside.map(|name| (name, "its port is taken".to_owned())).collect();
            let health = Arc::new(ProxyHealth::new(Duration::from_secs(30)));
            let ports = ServiceHealth::new(family, runtime.handle().clone(), health, "here", Vec::new());
            let mode = Box::new(Shelf { book, opened: opened.clone(), left_out, set_aside });
            FamilySync::new(family, mode, ports, Notices::new(Recorder::silent(), "here"))
        };
        let families = Family::ALL.map(family).into();
        let (complaints, ledger) = Default::default();
        Self { _runtime: runtime, opened, families, complaints, ledger }
    }

    /// How often a book was looked into: whoever works something out for a service port does so once.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            families: &self.families,
            ledger: &self.ledger,
            complaints: &self.complaints,
            is_started: true,
        }
    }

    /// Does something that asks a board, and answers as its loop would. Says also how many questions there were.
    pub(crate) fn answering<T>(&self, board: &Board, work: impl Future<Output = T>) -> (T, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut questions = 0;
        runtime.block_on(async {
            let answer = async {
                loop {
                    for question in board.take_questions() {
                        questions += 1;
                        question(&self.view());
                    }
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                done = work => (done, questions),
                () = answer => unreachable!("it answers for ever"),
            }
        })
    }

    /// Asks as a subcommand does: on the socket of an agent that knows this world and looks things up there.
    pub(crate) fn asked<T: Send + 'static>(
        &self,
        source: Source,
        ask: impl FnOnce(PathBuf) -> T + Send + 'static,
    ) -> (T, usize) {
        let board = Board::new();
        let admin = Admin::new(board.clone(), identity(), source);
        self.serving(&board, admin, ask)
    }

    /// The same of somebody else who answers by this board.
    pub(crate) fn serving<T: Send + 'static>(
        &self,
        board: &Board,
        responder: Arc<dyn Responder>,
        ask: impl FnOnce(PathBuf) -> T + Send + 'static,
    ) -> (T, usize) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("admin.sock");
        self.answering(board, async {
            let bound = AdminSocket::bind(&socket).unwrap();
            let asking = tokio::task::spawn_blocking(move || ask(socket));
            tokio::select! {
                never = bound.serve(responder) => match never {},
                asked = asking => asked.unwrap(),
            }
        })
    }

    /// Something is wrong with an object: as often as there are problems.
    pub(crate) fn complain(&mut self, object: &ObjectName, problems: &[&str]) {
        let complaint = |problem: &&str| Complaint { object: object.clone(), problem: (*problem).to_owned() };
        self.complaints.insert(object.clone(), problems.iter().map(complaint).collect());
    }
}

pub(crate) fn settings(family: Family) -> Settings {
    Settings {
        family,
        node_name: "here".into(),
        zone: None,
        node_ip: if family == Family::V4 { "192.0.2.1" } else { "2001:db8::1" }.parse().unwrap(),
        detector: LocalDetector::None,
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

/// One port of `namespace/name:port`.
pub(crate) fn port(service: &str, cluster_ip: &str, endpoints: &[&str]) -> ServicePort {
    let (namespace, rest) = service.split_once('/').unwrap();
    let (name, port) = rest.split_once(':').unwrap_or((rest, ""));
    let cluster_ip = cluster_ip.parse().unwrap();
    ServicePort {
        name: ServicePortName {
            service: ServiceName::new(namespace, name),
            port: port.into(),
            protocol: Protocol::Tcp,
        },
        family: Family::of(cluster_ip),
        created: 0,
        cluster_ip,
        port: 80,
        node_port: None,
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: endpoints.iter().map(|text| endpoint(text)).collect(),
    }
}

/// An address, and after a space what is wrong with it.
fn endpoint(text: &str) -> Endpoint {
    let (address, state) = text.split_once(' ').unwrap_or((text, ""));
    let mut endpoint = Endpoint {
        address: address.parse().unwrap(),
        conditions: Default::default(),
        node: Some(if state == "elsewhere" { "there" } else { "here" }.into()),
        hints: None,
    };
    endpoint.conditions.ready = matches!(state, "" | "elsewhere");
    endpoint.conditions.serving = state != "ended";
    endpoint.conditions.terminating = matches!(state, "ending" | "ended");
    endpoint
}

/// Who answers.
pub(crate) fn identity() -> Identity {
    Identity { node: "here".to_owned(), mode: crate::flags::Mode::Nftables }
}

/// Where nothing can be looked up.
pub(crate) fn no_source() -> Source {
    manifests("/nonexistent".into())
}

/// Files in which things are looked up.
pub(crate) fn manifests(path: PathBuf) -> Source {
    let files = switchyard_source::manifests::Config {
        path,
        node_name: "here".to_owned(),
        service_ranges: Vec::new(),
        max_file_bytes: 16 << 20,
    };
    Source::new(switchyard_source::lookup::Origin::Manifests(files))
}
