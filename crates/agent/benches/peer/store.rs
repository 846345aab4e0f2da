//! Figures on disk: one JSON file for each size and kind, a list of rounds. What a report already has, and nobody measured again, stays.
//!
//! Rounds of another build of Switchyard stay in their files, and are neither gone on with nor mixed with those of this build. A file
//! that does not hold figures is an error: to go on without it would write over what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::figures::Round;
use crate::kind::Kind;
use crate::machine;
use crate::options::Cell;

/// `target/bench-peer`, and the report that there is.
pub(crate) struct Store {
    directory: PathBuf,
    reported: Reported,
    /// Of Switchyard, as it is now.
    build: String,
}

/// The figures of a report, by size and name of kind.
#[derive(Default, Deserialize)]
struct Reported {
    services: BTreeMap<u32, BTreeMap<String, Vec<Round>>>,
}

/// What to report of one kind at one size.
pub(crate) struct Found {
    pub(crate) rounds: Vec<Round>,
    /// Rounds of other builds that are in no report.
    pub(crate) left_out: usize,
}

impl Store {
    /// Of the target directory that this program was built in. `report` is what was written before, if anything was.
    pub(crate) fn open(report: &Path) -> anyhow::Result<Self> {
        let target = Path::new(env!("CARGO_BIN_EXE_switchyard")).ancestors().nth(2).unwrap();
        let directory = target.join("bench-peer");
        std::fs::create_dir_all(&directory)?;
        Ok(Self { directory, reported: read(report)?, build: machine::build()? })
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
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// What was measured here with this build, or else what the report has already.
    pub(crate) fn to_report(&self, services: u32, kind: &Kind) -> anyhow::Result<Found> {
        let all: Vec<Round> = read(&self.path(services, kind))?;
        let (here, others): (Vec<Round>, Vec<Round>) = all.into_iter().partition(|round| self.is_own(round));
        let reported = self.reported.services.get(&services).and_then(|kinds| kinds.get(kind.name));
        let rounds = if here.is_empty() { reported.cloned().unwrap_or_default() } else { here };
        let is_used = |other: &Round| rounds.iter().any(|round| round.build == other.build);
        let left_out = others.iter().filter(|other| !is_used(other)).count();
        Ok(Found { rounds, left_out })
    }

    /// The sizes that there is anything of.
    pub(crate) fn sizes(&self) -> BTreeSet<u32> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().map_while(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let here = names.filter_map(|name| name.split_once('-')?.0.parse().ok());
        here.chain(self.reported.services.keys().copied()).collect()
    }

    /// What was measured here with this build.
    pub(crate) fn rounds(&self, services: u32, kind: &Kind) -> anyhow::Result<Vec<Round>> {
        let mut rounds: Vec<Round> = read(&self.path(services, kind))?;
        rounds.retain(|round| self.is_own(round));
        Ok(rounds)
    }

    fn is_own(&self, round: &Round) -> bool {
        round.build == self.build
    }

    /// Adds a round, in one step.
    pub(crate) fn add(&self, cell: &Cell, round: &Round) -> anyhow::Result<()> {
        let path = self.path(cell.services, cell.kind);
        let mut rounds: Vec<Round> = read(&path)?;
        rounds.push(round.clone());
        let draft = self.directory.join("draft");
        std::fs::write(&draft, serde_json::to_string_pretty(&rounds)? + "\n")?;
        std::fs::rename(draft, path)?;
        Ok(())
    }
}

/// What a file holds; nothing if there is no file.
fn read<T: Default + DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(T::default()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    serde_json::from_slice(&text).with_context(|| {
        let name = path.display();
        format!("{name} does not hold figures of this benchmark and would be written over; delete it or move it away")
    })
}
