//! Everything that was measured as JSON, Markdown and pictures in `docs/benchmarks`.
//!
//! In: the figures on disk. Out: `peer.json`, `peer.md` and the files of [`PICTURES`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use crate::figures::Round;
use crate::goals;
use crate::kind::{KINDS, Kind};
use crate::measure::{
    CHANGE_P50, CONNECT_LAST, FIRST_SYNC, MEASURES, MEMORY, Measure, RESTART, Value, ratio,
};
use crate::options::Extent;
use crate::plot;
use crate::store::Store;
use crate::text::{amount, thousands, times};

/// File, title and what is drawn.
const PICTURES: [(&str, &str, &Measure); 5] = [
    ("peer-first-sync.svg", "First sync, process start until the last Service answers: seconds", &FIRST_SYNC),
    ("peer-change.svg", "One endpoint replaced, API write to kernel, p50: seconds", &CHANGE_P50),
    ("peer-memory.svg", "Resident memory after the first sync: megabytes", &MEMORY),
    ("peer-restart.svg", "Started again over its own rules, until they are written: seconds", &RESTART),
    ("peer-connect.svg", "Connecting through the last Service, p50: times a bare connection", &CONNECT_LAST),
];

/// Kinds, and what was measured of them.
type Kinds = Vec<(&'static Kind, Vec<Round>)>;

/// Every size and kind that has figures.
#[derive(Default)]
pub(crate) struct Figures {
    sizes: BTreeMap<u32, Kinds>,
    /// Rounds of other builds of Switchyard, which nothing here is of.
    left_out: usize,
}

impl Figures {
    pub(crate) fn read(store: &Store) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for services in store.sizes() {
            let mut kinds = Kinds::new();
            for kind in &KINDS {
                let found = store.to_report(services, kind)?;
                all.left_out += found.left_out;
                if !found.rounds.is_empty() {
                    kinds.push((kind, found.rounds));
                }
            }
            if !kinds.is_empty() {
                all.sizes.insert(services, kinds);
            }
        }
        Ok(all)
    }

    /// Of one size.
    pub(crate) fn of(services: u32, kinds: Kinds) -> Self {
        Self { sizes: BTreeMap::from([(services, kinds)]), left_out: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    fn rounds(&self, services: u32, kind: &str) -> impl Iterator<Item = &Round> {
        let kinds = self.sizes.get(&services).into_iter().flatten();
        kinds.filter(move |(of, _)| of.name == kind).flat_map(|(_, rounds)| rounds)
    }

    /// True if it was to be measured to its end.
    pub(crate) fn is_complete(&self, services: u32, kind: &str) -> bool {
        self.rounds(services, kind).any(|round| round.extent == Extent::All)
    }

    /// True if one machine measured both, with one build of Switchyard: nothing else is compared.
    pub(crate) fn is_together(&self, services: u32, peer: &str, ours: &str) -> bool {
        let with = |kind: &str| -> BTreeSet<_> {
            self.rounds(services, kind).map(|round| (&round.machine, &round.build)).collect()
        };
        with(peer) == with(ours)
    }

    /// What both have, by size and names of kinds, if they were measured together.
    pub(crate) fn ratio(&self, services: u32, peer: &str, ours: &str, measure: &Measure) -> Option<Value> {
        let value = |kind| self.value(services, kind, measure);
        let is_together = self.is_together(services, peer, ours);
        ratio(value(peer)?, value(ours)?).filter(|_| is_together)
    }

    /// None if it was not measured.
    pub(crate) fn value(&self, services: u32, kind: &str, measure: &Measure) -> Option<Value> {
        let (_, rounds) = self.sizes.get(&services)?.iter().find(|(of, _)| of.name == kind)?;
        measure.value(rounds)
    }

    /// Writes everything.
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        std::fs::write(directory.join("peer.json"), serde_json::to_string_pretty(&self.json())? + "\n")?;
        std::fs::write(directory.join("peer.md"), self.markdown())?;
        for (file, title, measure) in PICTURES {
            std::fs::write(directory.join(file), plot::svg(title, measure, self))?;
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let of_size = |kinds: &Kinds| -> BTreeMap<&str, serde_json::Value> {
            kinds.iter().map(|(kind, rounds)| (kind.name, json!(rounds))).collect()
        };
        let sizes: BTreeMap<u32, _> =
            self.sizes.iter().map(|(size, kinds)| (*size, of_size(kinds))).collect();
        json!({ "services": sizes })
    }

    /// Sizes and, for a kind, the value at each.
    pub(crate) fn points(&self, kind: &Kind, measure: &Measure) -> Vec<(u32, Value)> {
        let point = |size: &u32| Some((*size, self.value(*size, kind.name, measure)?));
        self.sizes.keys().filter_map(point).collect()
    }

    fn markdown(&self) -> String {
        let mut out = String::from(ABOUT);
        self.builds(&mut out);
        self.machines(&mut out);
        out.push_str(&goals::markdown(self));
        for (file, title, _) in PICTURES {
            let _ = writeln!(out, "\n![{title}]({file})");
        }
        for (services, kinds) in &self.sizes {
            let _ = writeln!(out, "\n## {} Services\n", thousands(*services));
            table(&mut out, kinds);
            self.ratios(&mut out, *services, kinds);
        }
        out
    }

    /// What is not compared, or not there at all, because it is of another build; nothing if there is one build.
    fn builds(&self, out: &mut String) {
        let rounds = self.sizes.values().flatten().flat_map(|(_, rounds)| rounds);
        let builds: BTreeSet<&str> = rounds.map(|round| round.build.as_str()).collect();
        if builds.len() > 1 {
            let count = builds.len();
            let _ = writeln!(
                out,
                "\n**These figures are of {count} builds of Switchyard. No ratio is of two builds.**"
            );
        }
        if self.left_out > 0 {
            let count = self.left_out;
            let _ = writeln!(out, "\nRounds that are left out, because they are of another build: {count}.");
        }
    }

    /// A table for each machine that figures are of; one, unless it was measured here and there.
    fn machines(&self, out: &mut String) {
        let rounds = || self.sizes.values().flatten().flat_map(|(_, rounds)| rounds);
        let machines: BTreeSet<&BTreeMap<String, String>> = rounds().map(|round| &round.machine).collect();
        for machine in machines {
            let own: Vec<&Round> = rounds().filter(|round| round.machine == *machine).collect();
            let commands: BTreeSet<&str> = own.iter().map(|round| round.command.as_str()).collect();
            let busy = own.iter().map(|round| round.busy).fold(0.0, f64::max);
            out.push_str("\n| | |\n|---|---|\n");
            for (name, value) in machine {
                let _ = writeln!(out, "| {name} | {value} |");
            }
            let _ = writeln!(
                out,
                "| processors' time that others used before a round | at most {:.0} % |",
                busy * 100.0
            );
            for command in commands {
                let _ = writeln!(out, "| command | `{command}` |");
            }
        }
    }

    /// What kube-proxy takes, divided by what Switchyard takes.
    fn ratios(&self, out: &mut String, services: u32, kinds: &[(&'static Kind, Vec<Round>)]) {
        let pairs: Vec<(&Kind, &Kind)> = KINDS
            .iter()
            .flat_map(|ours| ours.peers().into_iter().map(move |peer| (ours, peer)))
            .filter(|(ours, peer)| [ours, peer].iter().all(|one| kinds.iter().any(|(kind, _)| kind == *one)))
            .collect();
        if pairs.is_empty() {
            return;
        }
        out.push_str("\nHow many times as much kube-proxy takes:\n\n|  |");
        for (ours, peer) in &pairs {
            let _ = write!(out, " {} : {} |", peer.label, ours.label);
        }
        let _ = writeln!(out, "\n|---|{}", "---:|".repeat(pairs.len()));
        for measure in MEASURES.iter().filter(|measure| measure.is_compared()) {
            let _ = write!(out, "| {} |", measure.name);
            for (ours, peer) in &pairs {
                let found = self.ratio(services, peer.name, ours.name, measure);
                let _ = write!(out, " {} |", found.map(times).unwrap_or_default());
            }
            out.push('\n');
        }
        let is_apart = |(ours, peer): &&(&Kind, &Kind)| !self.is_together(services, peer.name, ours.name);
        for (ours, peer) in pairs.iter().filter(is_apart) {
            let (ours, peer) = (ours.label, peer.label);
            let _ = writeln!(
                out,
                "\nNo ratio of {peer} and {ours}: measured on two machines, or with two builds."
            );
        }
    }
}

const ABOUT: &str = "# Beside kube-proxy

Written by `make bench-peer`: upstream's kube-proxy and Switchyard with the same API server, the same objects and the same flags, on one
machine, in turn, each alone on the node of a lab of its own. Every Service has one TCP port and five endpoints in one EndpointSlice.
Times move from machine to machine; the ratios are the point. The Services of a size are put straight into the API server's store, because
it takes minutes to accept ten thousand of them; every change that is measured goes through the API. ipvs mode is not here, because the
machine's kernel has no IPVS: [ipvs.md](ipvs.md) has its figures, from a virtual machine.

Before each round the machine is left alone until nobody else uses its processors, and kinds take turns in another order in each.

- *First sync*: from the start of the process until connections through the first, the last and three more Services are answered.
- *API write to kernel*: the only endpoint of a Service is replaced through the API; from the request until a new connection goes to the
  new pod. The next change follows 100 ms after that. kube-proxy pauses for a second between syncs unless it is told not to, and so
  does Switchyard in iptables mode; so there is a second figure with `--iptables-min-sync-period=0s`.
- *Churn*: all endpoints of 50 Services a second are replaced for 20 s; meanwhile pods of one Service replace each other (the new one is
  ready a second before the old one leaves the slice, and the old one serves for two seconds after that) and connections are made.
- *Changes counted* is how many a p50 and a p99 are of, all rounds together: in each round up to 100 within 40 s, and at least ten of a
  slow proxy, unless they take longer than the deadline of a step. A p99 of fewer than a hundred is the slowest of them.
- *First syncs counted* and *complete rounds* are how many rounds there are: of more than one the median counts, and what is of a single
  one says nothing about how far it varies. Connecting is measured 2,000 times in each complete round for each of the addresses.
- *Restart*: the proxy is killed, and started again over its own rules, with `--iptables-min-sync-period=0s` for all, which is not the
  default; until it says that rules are written. The changes with that period are those of the process that was started so.
- *Processor time* includes the programs that a proxy runs.
- *A bare connection* is one between two pods of a node without rules. Who connects has one processor, who answers another.
- *First and last Service*: in iptables mode a packet is compared with one after the other. kube-proxy writes them in another order at every
  sync, so its two figures are chance, and the mean of both says more. So is the end of the churn, which falls anywhere into the second
  between two syncs.
- A step that is not done after its deadline says so, and its ratio is a bound.
";

/// A row of what all rounds of a kind have in common, or else of what there is.
fn origin(out: &mut String, name: &str, kinds: &[(&'static Kind, Vec<Round>)], of: fn(&Round) -> &str) {
    let _ = write!(out, "| {name} |");
    for (_, rounds) in kinds {
        let found: BTreeSet<&str> = rounds.iter().map(of).collect();
        let _ = write!(out, " {} |", found.into_iter().collect::<Vec<_>>().join("; "));
    }
    out.push('\n');
}

fn table(out: &mut String, kinds: &[(&'static Kind, Vec<Round>)]) {
    out.push_str("|  |");
    for (kind, _) in kinds {
        let _ = write!(out, " {} |", kind.label);
    }
    let _ = writeln!(out, "\n|---|{}", "---:|".repeat(kinds.len()));
    origin(out, "commit of Switchyard, day", kinds, |round| &round.measured);
    origin(out, "build of Switchyard: SHA-256 of the program begins with", kinds, |round| &round.build);
    for measure in &MEASURES {
        let _ = write!(out, "| {} |", measure.name);
        for (_, rounds) in kinds {
            let value = measure.value(rounds).map(|value| amount(value, measure.unit));
            let _ = write!(out, " {} |", value.unwrap_or_default());
        }
        out.push('\n');
    }
}
