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

/// Every size and kind that has figures.
pub(crate) struct Figures(BTreeMap<u32, Vec<(&'static Kind, Vec<Round>)>>);

impl Figures {
    pub(crate) fn read(store: &Store) -> Self {
        let mut all = BTreeMap::new();
        for services in store.sizes() {
            let of = |kind: &'static Kind| (kind, store.to_report(services, kind));
            let kinds: Vec<_> = KINDS.iter().map(of).filter(|(_, rounds)| !rounds.is_empty()).collect();
            if !kinds.is_empty() {
                all.insert(services, kinds);
            }
        }
        Self(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What both have, by size and names of kinds, if one machine measured both.
    pub(crate) fn ratio(&self, services: u32, peer: &str, ours: &str, measure: &Measure) -> Option<Value> {
        let machines = |kind: &str| -> BTreeSet<_> {
            let rounds = self.0.get(&services).into_iter().flatten().filter(|(of, _)| of.name == kind);
            rounds.flat_map(|(_, rounds)| rounds).map(|round| &round.machine).collect()
        };
        let is_one = machines(peer) == machines(ours);
        let value = |kind| self.value(services, kind, measure);
        ratio(value(peer)?, value(ours)?).filter(|_| is_one)
    }

    /// None if it was not measured.
    pub(crate) fn value(&self, services: u32, kind: &str, measure: &Measure) -> Option<Value> {
        let (_, rounds) = self.0.get(&services)?.iter().find(|(of, _)| of.name == kind)?;
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
        let of_size = |kinds: &Vec<(&Kind, Vec<Round>)>| -> BTreeMap<&str, serde_json::Value> {
            kinds.iter().map(|(kind, rounds)| (kind.name, json!(rounds))).collect()
        };
        let sizes: BTreeMap<u32, _> = self.0.iter().map(|(size, kinds)| (*size, of_size(kinds))).collect();
        json!({ "services": sizes })
    }

    /// Sizes and, for a kind, the value at each.
    pub(crate) fn points(&self, kind: &Kind, measure: &Measure) -> Vec<(u32, Value)> {
        let point = |size: &u32| Some((*size, self.value(*size, kind.name, measure)?));
        self.0.keys().filter_map(point).collect()
    }

    fn markdown(&self) -> String {
        let mut out = String::from(ABOUT);
        self.machines(&mut out);
        out.push_str(&goals::markdown(self));
        for (file, title, _) in PICTURES {
            let _ = writeln!(out, "\n![{title}]({file})");
        }
        for (services, kinds) in &self.0 {
            let _ = writeln!(out, "\n## {} Services\n", thousands(*services));
            table(&mut out, kinds);
            self.ratios(&mut out, *services, kinds);
        }
        out
    }

    /// A table for each machine that figures are of; one, unless it was measured here and there.
    fn machines(&self, out: &mut String) {
        let rounds = || self.0.values().flatten().flat_map(|(_, rounds)| rounds);
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
- *p99* of fewer than a hundred changes is the slowest of them; of a slow proxy there are fewer than thirty.
- *Processor time* includes the programs that a proxy runs.
- *A bare connection* is one between two pods of a node without rules. Who connects has one processor, who answers another.
- *First and last Service*: in iptables mode a packet is compared with one after the other. kube-proxy writes them in another order at every
  sync, so its two figures are chance; the goal takes the mean of both. It leaves out the end of the churn, too, which falls anywhere into
  the second between two syncs.
- A step that is not done after its deadline says so, and its ratio is a bound.
";

fn table(out: &mut String, kinds: &[(&'static Kind, Vec<Round>)]) {
    out.push_str("|  |");
    for (kind, _) in kinds {
        let _ = write!(out, " {} |", kind.label);
    }
    let _ = writeln!(out, "\n|---|{}", "---:|".repeat(kinds.len()));
    out.push_str("| commit of Switchyard, day |");
    for (_, rounds) in kinds {
        let moments: BTreeSet<&str> = rounds.iter().map(|round| round.measured.as_str()).collect();
        let _ = write!(out, " {} |", moments.into_iter().collect::<Vec<_>>().join("; "));
    }
    out.push('\n');
    for measure in &MEASURES {
        let _ = write!(out, "| {} |", measure.name);
        for (_, rounds) in kinds {
            let value = measure.value(rounds).map(|value| amount(value, measure.unit));
            let _ = write!(out, " {} |", value.unwrap_or_default());
        }
        out.push('\n');
    }
}
