//! Figures on disk: one JSON file for each size and kind, a list of rounds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::figures::Round;
use crate::kind::Kind;
use crate::options::Cell;

/// `target/bench-peer`.
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Of the target directory that this program was built in.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let target = Path::new(env!("CARGO_BIN_EXE_switchyard")).ancestors().nth(2).unwrap();
        let directory = target.join("bench-peer");
        std::fs::create_dir_all(&directory)?;
        Ok(Self { directory })
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

    /// The sizes that anything was measured at.
    pub(crate) fn sizes(&self) -> BTreeSet<u32> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().map_while(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.split_once('-')?.0.parse().ok()).collect()
    }

    /// What was measured. A file that cannot be read counts as none.
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
