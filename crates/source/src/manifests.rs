//! Objects from YAML and JSON files: the source of a standalone node, without an API server.
//!
//! In: a file or a directory (with its direct subdirectories). Out: complete lists first, then what
//! differs, everything that was found at once in one event.
//!
//! Invariants
//! - Nothing is sent before the path could be read once, nor while all that was found is broken files; after that, a
//!   path that vanishes keeps its last content.
//! - A file that was good and became broken keeps its last good content. A file that is gone takes its objects along.
//! - Equal files give equal lists, cluster IPs that were assigned here included, whatever the order of changes.
//!
//! Why one event for several changes? A rename is a deletion and an addition; nobody should see the one without the other.

mod allocate;
mod assembly;
mod content;
mod document;
mod files;
mod library;
mod look;
#[cfg(test)]
mod tests;
mod watch;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use switchyard_model::Event;
use tokio::sync::mpsc;

use crate::{Sink, SourceError};
use library::Library;
pub(crate) use look::{Matching, look};
use watch::Watches;

/// The largest file that is read, unless the configuration says otherwise.
pub const MAX_FILE_BYTES: u64 = 50_000_000;
/// Changes within this time are read together: editors and `kubectl` write in several steps.
const DEBOUNCE: Duration = Duration::from_millis(75);
/// How often files are looked at without any notice, for file systems that give none. Seldom, because an idle node should
/// cost nothing.
const POLL: Duration = Duration::from_secs(60);
/// The same while the path is missing or cannot be watched.
const POLL_BLIND: Duration = Duration::from_secs(1);

/// Where manifests are and how they are completed.
#[derive(Clone, Debug)]
pub struct Config {
    /// A file, or a directory whose `.yaml`, `.yml` and `.json` files are read.
    pub path: PathBuf,
    /// The own node's name; the Node object of this name is used, if there is one.
    pub node_name: String,
    /// Ranges out of which Services without a cluster IP get one; the first range's family is the primary one.
    pub service_ranges: Vec<IpNet>,
    /// The largest file that is read, see [`MAX_FILE_BYTES`].
    pub max_file_bytes: u64,
}

/// Reads manifests, watches them and sends what they hold, for ever.
///
/// # Errors
///
/// Only if no thread can be started; whatever is wrong with the files becomes complaints.
pub async fn run(config: Config, sink: Sink) -> Result<Infallible, SourceError> {
    let (notice, mut noticed) = mpsc::channel(1);
    let (ask, mut read) = reader(config, sink, notice)?;
    loop {
        ask.send(()).map_err(|_| SourceError::Ended)?;
        let poll = read.recv().await.ok_or(SourceError::Ended)?;
        if tokio::time::timeout(poll, noticed.recv()).await.is_ok() {
            tokio::time::sleep(DEBOUNCE).await;
            while noticed.try_recv().is_ok() {}
        }
    }
}

/// Reads on request, on one thread of its own, and says how long to wait for a notice afterwards. Always the same
/// thread, because the allocator keeps what each thread has freed: a pool would keep a copy of everything per thread.
fn reader(
    config: Config,
    sink: Sink,
    notice: mpsc::Sender<()>,
) -> Result<(std::sync::mpsc::Sender<()>, mpsc::Receiver<Duration>), SourceError> {
    let (ask, asked) = std::sync::mpsc::channel();
    let (done, read) = mpsc::channel(1);
    let work = move || {
        let mut watches = Watches::new(notice);
        let path = config.path.clone();
        let mut library = Library::new(config, sink);
        while asked.recv().is_ok() {
            // First watch, then read: a change in between is noticed, not lost.
            watches.arm(&path);
            library.refresh();
            let poll = if watches.is_blind() { POLL_BLIND } else { POLL };
            if done.blocking_send(poll).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("manifests".into()).spawn(work).map_err(SourceError::Thread)?;
    Ok((ask, read))
}

/// Reads manifests once and returns what [`run`] would have sent first.
///
/// # Errors
///
/// If the path cannot be read. What is wrong inside of files is among the events, as complaints.
pub fn read_once(config: Config) -> Result<Vec<Event>, SourceError> {
    let path = config.path.clone();
    files::list(&path).map_err(|source| SourceError::Manifests { path, source })?;
    let events = Arc::new(Mutex::new(Vec::new()));
    let collected = events.clone();
    let sink: Sink = Arc::new(move |event| {
        collected.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    });
    Library::new(config, sink).refresh();
    Ok(std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner)))
}
