//! Watches the file of `--config`, as kube-proxy does: who writes to it, or moves it away, ends the process, and
//! whoever starts it again gets the new content.
//!
//! The watch is on the file itself, not on its name. A ConfigMap volume swaps a link and deletes the old file, which
//! ends nothing: otherwise one edit of a ConfigMap would restart the proxies of all nodes in the same minute.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// A watch on a configuration file.
pub struct Watch {
    changed: Arc<Notify>,
    /// Events come as long as it lives.
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Starts watching.
    pub fn start(path: &Path) -> anyhow::Result<Self> {
        let changed = Arc::new(Notify::new());
        let told = changed.clone();
        let hear = move |event: notify::Result<Event>| match event {
            Ok(event) if is_change(&event.kind) => told.notify_one(),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(cause = %error, "the watch on the configuration file failed");
                told.notify_one();
            }
        };
        let watched = notify::recommended_watcher(hear).and_then(|mut watcher| {
            watcher.watch(path, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        let _watcher = watched.with_context(|| format!("cannot watch {}", path.display()))?;
        Ok(Self { changed, _watcher })
    }

    /// Waits for a change, which is an error: the process is to end.
    pub async fn changed(&self) -> anyhow::Error {
        self.changed.notified().await;
        anyhow::anyhow!("content of the proxy server's configuration file was updated")
    }
}

/// Written to, or moved away.
fn is_change(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Name(_)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    /// Long enough for an event that was caused already.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn only_writing_and_moving_count() {
        use notify::event::{AccessKind, CreateKind, DataChange, MetadataKind, RemoveKind, RenameMode};
        for (kind, want) in [
            (EventKind::Modify(ModifyKind::Data(DataChange::Any)), true),
            (EventKind::Modify(ModifyKind::Name(RenameMode::From)), true),
            (EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), false),
            (EventKind::Access(AccessKind::Any), false),
            (EventKind::Create(CreateKind::File), false),
            (EventKind::Remove(RemoveKind::File), false),
        ] {
            assert_eq!(is_change(&kind), want, "{kind:?}");
        }
    }

    #[tokio::test]
    async fn half_a_write_and_a_move_end_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.conf");
        fs::write(&path, "a: 1\n").expect("a file");
        let watch = Watch::start(&path).expect("a watch");
        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("the file");
        file.write_all(b"b:").expect("half a line");
        let said = tokio::time::timeout(PATIENCE, watch.changed()).await.expect("it was written to");
        assert!(said.to_string().contains("configuration file was updated"));

        let watch = Watch::start(&path).expect("a watch");
        fs::rename(&path, dir.path().join("away")).expect("a move");
        tokio::time::timeout(PATIENCE, watch.changed()).await.expect("it was moved");
    }

    /// What the kubelet does: a new directory, a link that is swapped, the old directory removed.
    #[tokio::test]
    async fn the_swap_of_a_config_map_and_a_deletion_end_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for version in ["v1", "v2"] {
            fs::create_dir(at(version)).expect("a directory");
            fs::write(at(version).join("config.conf"), version).expect("a file");
        }
        symlink("v1", at("..data")).expect("a link");
        symlink("..data/config.conf", at("config.conf")).expect("a link");
        let watch = Watch::start(&at("config.conf")).expect("a watch");
        symlink("v2", at("..next")).expect("a link");
        fs::rename(at("..next"), at("..data")).expect("a swap");
        fs::remove_dir_all(at("v1")).expect("a removal");
        assert_eq!(fs::read_to_string(at("config.conf")).expect("the file"), "v2");
        // Events come in order, so the write to a second file under the same ear is heard after all the others would be.
        let other = at("v2").join("config.conf");
        let second = Watch::start(&other).expect("a watch");
        fs::write(&other, "v3").expect("a write");
        tokio::time::timeout(PATIENCE, second.changed()).await.expect("it was written to");
        let heard = tokio::time::timeout(Duration::from_millis(200), watch.changed()).await;
        assert!(heard.is_err(), "the swap ended the process");
    }
}
