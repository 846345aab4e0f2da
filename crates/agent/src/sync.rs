//! The loop: one plain thread that plans and writes.
//!
//! In: a [`Board`]. Out: kernel rules, and what `serve` publishes about them.
//!
//! Order after a successful commit: stale flows, health-check ports, network-programming latency, status. Nothing is
//! written before Services and EndpointSlices are both complete, and the own Node is waited for a while because a
//! node without a zone and an address would be planned differently.
//!
//! Why a thread and not a task? The programs and netlink sockets block, and a network namespace belongs to a thread.

mod family;
mod quarrel;
mod told;
mod triggers;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use switchyard_model::{Changes, Family, Node, Pending};
use switchyard_plan::book::of_family;
use switchyard_plan::settings::Settings;
use switchyard_serve::Moment;
use switchyard_serve::health::{Eligible, ProxyHealth};
use switchyard_serve::metrics::Metrics;

pub use family::{FamilySync, with_causes};
use quarrel::{Alarm, Quarrel};
use told::Told;
pub use view::View;

use crate::board::{Board, Wake};
use crate::ledger::{Ledger, Seen};
use crate::notices::Notices;
use crate::pace::{Next, Outcome, Pace};

/// How long the own Node is waited for before rules are written without its facts.
const NODE_PATIENCE: Duration = Duration::from_secs(30);

/// How long the Node's pod ranges are waited for where pods are told by them: a new node gets them after a while.
const POD_RANGE_PATIENCE: Duration = Duration::from_secs(300);

/// How long ServiceCIDRs are waited for. Without them a restart would take rules away and write them again.
const CIDR_PATIENCE: Duration = Duration::from_secs(5);

/// Works out the settings of a family from the own Node.
pub type Settle = Box<dyn Fn(&Node, Family) -> Settings + Send>;

/// What the first run needs to know of the own Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFacts {
    /// Its addresses and zone.
    Usual,
    /// Also its ranges for pods.
    PodRanges,
}

/// Whether the first run has to wait for more than its turn.
enum Patience {
    /// No.
    Over,
    /// Until this time, or for the next event.
    Until(Option<Instant>),
}

/// What the loop needs.
pub struct Loop {
    /// Where changes are posted.
    pub board: Arc<Board>,
    /// Each family that this node has.
    pub families: Vec<FamilySync>,
    /// When to run.
    pub pace: Pace,
    /// Settings from Node facts.
    pub settle: Settle,
    /// What is waited for before the first run.
    pub node_facts: NodeFacts,
    /// Called once when every family is written for the first time.
    pub on_first_success: Option<Box<dyn FnOnce() + Send>>,
    /// Health.
    pub health: Arc<ProxyHealth>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Kubernetes Events.
    pub notices: Notices,
    /// What was waiting but not committed.
    pub waiting: Waiting,
}

/// What the loop remembers from one run to the next.
#[derive(Default)]
pub struct Waiting {
    /// The own Node.
    node: Arc<Node>,
    /// Whether the first lists have been taken.
    is_started: bool,
    told: Told,
    quarrel: Quarrel,
    ledger: Ledger,
}

impl Loop {
    /// Runs until the board is stopped. Rules stay in place.
    pub fn run(mut self) {
        let started = Instant::now();
        for family in &self.families {
            self.health.updated(family.family(), Moment::now());
        }
        loop {
            if let Some(complaints) = self.board.complaints() {
                self.waiting.told.complaints(complaints, &self.notices);
            }
            self.answer();
            let now = Instant::now();
            let deadline = match (self.pace.next(now), self.patience(started, now)) {
                (Next::RunNow, Patience::Over) => {
                    self.once(&BTreeMap::new());
                    continue;
                }
                (Next::RunNow, Patience::Until(at)) => at,
                (Next::WaitUntil(at), _) => Some(at),
                (Next::WaitForRequest | Next::WaitForFinish, _) => None,
            };
            match self.board.wait(self.earliest(deadline)) {
                Wake::Work => self.pace.request(),
                Wake::Harm | Wake::Question | Wake::Time => {}
                Wake::Stop => return,
            }
            self.repair();
        }
    }

    /// Answers what was asked meanwhile.
    fn answer(&self) {
        for question in self.board.take_questions() {
            question(&View {
                families: &self.families,
                ledger: &self.waiting.ledger,
                complaints: self.waiting.told.wrong_objects(),
                is_started: self.waiting.is_started,
            });
        }
    }

    /// Before the first run: are the lists complete and the Node known, or was it waited for long enough?
    fn patience(&self, started: Instant, now: Instant) -> Patience {
        if !self.board.is_complete() {
            return Patience::Until(None);
        }
        if self.waiting.is_started {
            return Patience::Over;
        }
        let end =
            |is_known: bool, patience| (!is_known).then_some(started + patience).filter(|end| now < *end);
        let ends = [
            end(self.board.knows_node(), NODE_PATIENCE),
            end(self.knows_enough_of_pods(), POD_RANGE_PATIENCE),
            end(self.board.knows_service_cidrs(), CIDR_PATIENCE),
        ];
        let earliest = ends.into_iter().flatten().min();
        earliest.map_or(Patience::Over, |end| Patience::Until(Some(end)))
    }

    fn knows_enough_of_pods(&self) -> bool {
        self.node_facts == NodeFacts::Usual || self.board.knows_pod_ranges()
    }

    /// A repair that has to rest comes before a later deadline.
    fn earliest(&self, deadline: Option<Instant>) -> Option<Instant> {
        let due = self.waiting.quarrel.due().filter(|_| self.board.has_harm());
        [deadline, due].into_iter().flatten().min()
    }

    /// Repairs do not wait for the pace, only for each other.
    fn repair(&mut self) {
        if !self.waiting.is_started || !self.board.has_harm() {
            return;
        }
        let now = Instant::now();
        if self.waiting.quarrel.due().is_some_and(|due| now < due) {
            return;
        }
        let harmed = self.board.take_harm();
        let alarm = self.waiting.quarrel.repair(now);
        for (family, by) in &harmed {
            match alarm {
                Some(Alarm::Begun) => self.notices.repaired(*family, by),
                Some(Alarm::Stubborn) => self.notices.contested(*family, by),
                None => {}
            }
        }
        self.once(&harmed);
        self.waiting.quarrel.repaired(Instant::now());
    }

    /// One run over all families. The rules of those that were harmed are not trusted.
    fn once(&mut self, harmed: &BTreeMap<Family, String>) {
        self.pace.started();
        let has_new_facts = self.board.take_new_facts();
        let taken = self.board.take_dated();
        for (family, by) in harmed {
            if let Some(sync) = self.families.iter_mut().find(|f| f.family() == *family) {
                tracing::warn!(%family, %by, "our rules were changed by another program; writing them again");
                sync.distrust();
                self.metrics.rules_repaired(*family, 1);
            }
        }
        let mut outcome = Outcome::Done;
        if let Some((changes, seen)) = taken {
            if !self.waiting.is_started && !self.knows_enough_of_pods() {
                tracing::error!(
                    "this node has no podCIDR; until it gets one, packets of its pods are not told from others"
                );
            }
            let is_first = !std::mem::replace(&mut self.waiting.is_started, true);
            self.note(&changes);
            if is_first || has_new_facts || changes.node.is_some() {
                self.settle_families();
            }
            if let Some(ranges) = &changes.service_cidrs {
                self.families.iter_mut().for_each(|sync| sync.allocate_from(ranges));
            }
            outcome = self.sync_families(&changes, seen);
        }
        let set_aside = self.families.iter().map(|sync| (sync.family(), sync.set_aside()));
        self.waiting.told.set_aside(set_aside, &self.notices);
        self.waiting.told.books(self.families.iter().map(FamilySync::book), &self.metrics, &self.notices);
        let left_out = self.families.iter().map(|sync| (sync.family(), sync.left_out()));
        self.waiting.told.left_out(left_out, &self.notices);
        let is_written = outcome == Outcome::Done && self.waiting.is_started;
        if let Some(act) = self.on_first_success.take_if(|_| is_written) {
            act();
        }
        let is_complete = self.families.iter().all(|sync| sync.set_aside().is_empty());
        if outcome == Outcome::Done && !is_complete {
            outcome = Outcome::SetAside;
        }
        self.pace.finished(Instant::now(), outcome);
    }

    fn sync_families(&mut self, changes: &Changes, seen: Option<Seen>) -> Outcome {
        let mut outcome = Outcome::Done;
        for sync in &mut self.families {
            let ports = of_family(&changes.ports, sync.family());
            sync.add_triggers(&changes.triggers);
            match sync.run(ports, seen, &self.health, &self.metrics, &mut self.waiting.ledger) {
                Ok(()) => self.board.wrote(sync.family()),
                Err(family::Failed) => outcome = Outcome::Failed,
            }
        }
        outcome
    }

    /// Settings follow the node, not Services: a change of a Service does not come here.
    fn settle_families(&mut self) {
        for sync in &mut self.families {
            sync.settle((self.settle)(&self.waiting.node, sync.family()));
        }
    }

    fn note(&mut self, changes: &Changes) {
        self.metrics.services_changed(changes.service_events);
        self.metrics.endpoints_changed(changes.slice_events);
        self.metrics.service_changes_pending(0);
        self.metrics.endpoint_changes_pending(0);
        if let Some(node) = &changes.node {
            self.waiting.node = node.clone();
            self.health.node_eligible(Eligible::from(&**node));
        }
    }
}

/// Says that something waits: health counts the time from here.
pub fn queued(families: &[Family], health: &ProxyHealth, metrics: &Metrics, pending: Pending) {
    for family in families {
        health.queued(*family, Moment::now());
        metrics.sync_queued(*family, SystemTime::now());
    }
    metrics.service_changes_pending(pending.services);
    metrics.endpoint_changes_pending(pending.slices);
}
