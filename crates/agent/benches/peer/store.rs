//! Figures on disk: one JSON file for each size and kind, a list of rounds. What a report already has, and nobody measured again, stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::figures::Round;
use crate::kind::Kind;
use crate::options::Cell;

/// `target/bench-peer`, and the report that there is.
pub(crate) struct Store {
    directory: PathBuf,
    reported: Reported,
}

/// The figures of a report, by size and name of kind.
#[derive(Default, Deserialize)]
struct Reported {
    services: BTreeMap<u32, BTreeMap<String, Vec<Round>>>,
}

impl Store {
    /// Of the target directory that this program was built in. `report` is what was written before; if it cannot be read, it has nothing.
    pub(crate) fn open(report: &Path) -> anyhow::Result<Self> {
        let target = Path::new(env!("CARGO_BIN_EXE_switchyard")).ancestors().nth(2).unwrap();
        let directory = target.join("bench-peer");
        std::fs::create_dir_all(&directory)?;
        let reported = std::fs::read(report).unwrap_or_default();
        Ok(Self { directory, reported: serde_json::from_slice(&reported).unwrap_or_default() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, services: u32, kind: &Kind) -> PathBuf {
        self.directory.join(format!("{services}-{}.json", kind.name))
    }

    /// Forgets what was measured.
    pub(crate) fn forget(&self, services: u32, kind: &Kind) -> anyhow::Result<()> {
        match std::fs::remove_file(self.path(services, kind)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// What to report: what was measured here, or else what the report has already.
    pub(crate) fn to_report(&self, services: u32, kind: &Kind) -> Vec<Round> {
        let here = self.rounds(services, kind);
        let reported = || self.reported.services.get(&services)?.get(kind.name).cloned();
        if here.is_empty() { reported().unwrap_or_default() } else { here }
    }

    /// The sizes that there is anything of.
    pub(crate) fn sizes(&self) -> BTreeSet<u32> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().map_while(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let here = names.filter_map(|name| name.split_once('-')?.0.parse().ok());
        here.chain(self.reported.services.keys().copied()).collect()
    }

    /// What was measured here. A file that cannot be read counts as none.
    pub(crate) fn rounds(&self, services: u32, kind: &Kind) -> Vec<Round> {
        let text = std::fs::read(self.path(services, kind)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Adds a round, in one step.
    pub(crate) fn add(&self, cell: &Cell, round: &Round) -> anyhow::Result<()> {
        let mut rounds = self.rounds(cell.services, cell.kind);
        rounds.push(round.clone());
        let draft = self.directory.join("draft");
        std::fs::write(&draft, serde_json::to_string_pretty(&rounds)? + "\n")?;
        std::fs::rename(draft, self.path(cell.services, cell.kind))?;
        Ok(())
    }
}
