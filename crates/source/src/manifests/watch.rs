//! Notices from the file system that something may have changed.
//!
//! Directories are watched, never files: an atomic rename or the swap of a ConfigMap volume's `..data` link replaces the
//! file, and a watch on the old one would stay silent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::Sender;
use tracing::{debug, warn};

use super::files;

/// What tells a directory from another one that later got the same path.
type Identity = (u64, Option<SystemTime>);

/// The watched directories.
pub(super) struct Watches {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, Identity>,
    is_blind: bool,
}

impl Watches {
    /// Watches nothing yet. Every change puts a notice into the channel, unless one is waiting there already.
    pub(super) fn new(notice: Sender<()>) -> Self {
        let tell = move |event: notify::Result<notify::Event>| {
            if event.as_ref().map_or(true, |event| is_change(event.kind)) {
                let _ = notice.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(tell)
            .inspect_err(|error| warn!(%error, "files cannot be watched; they are looked at every second"))
            .ok();
        Self { is_blind: watcher.is_none(), watcher, watched: BTreeMap::new() }
    }

    /// True if changes may go unnoticed.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Watches every directory that matters for a path, as they are now.
    pub(super) fn arm(&mut self, path: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = directories(path);
        self.watched.retain(|directory, identity| {
            let is_current = wanted.get(directory) == Some(identity);
            if !is_current {
                // The kernel has dropped the watch of a removed directory already; then this fails, and may.
                let _ = watcher.unwatch(directory);
            }
            is_current
        });
        let was_blind = std::mem::replace(&mut self.is_blind, !path.exists());
        for (directory, identity) in wanted {
            if self.watched.contains_key(&directory) {
                continue;
            }
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(directory, identity);
                }
                Err(error) => {
                    self.is_blind = true;
                    let directory = directory.display();
                    if was_blind {
                        debug!(%error, %directory, "still cannot be watched");
                    } else {
                        warn!(%error, %directory, "cannot be watched; it is looked at every second");
                    }
                }
            }
        }
    }
}

/// Reading is no change; without this test, our own reading would wake us for ever.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

/// The path's parent, where it may be created or replaced; the path itself and its subdirectories; and the same for the
/// place that a link leads to.
fn directories(path: &Path) -> BTreeMap<PathBuf, Identity> {
    let mut wanted = BTreeMap::new();
    let mut want = |directory: &Path| {
        if let Ok(metadata) = directory.metadata()
            && metadata.is_dir()
        {
            wanted.insert(directory.to_owned(), (files::inode(&metadata), metadata.created().ok()));
        }
    };
    let real = path.canonicalize().ok();
    for path in [Some(path), real.as_deref()].into_iter().flatten() {
        match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => want(Path::new(".")),
            Some(parent) => want(parent),
            None => {}
        }
    }
    want(path);
    for directory in files::subdirectories(path) {
        want(&directory);
    }
    wanted
}
