//! The whole source with its watches.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;

use super::super::run;
use super::{config, service, show};

/// A running source.
struct Running {
    events: mpsc::UnboundedReceiver<String>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    fn on(path: &Path) -> Self {
        let (send, events) = mpsc::unbounded_channel();
        let config = config(path);
        let task = tokio::spawn(async move {
            let sink = Arc::new(move |event| {
                show(&event).into_iter().for_each(|line| send.send(line).unwrap_or_default())
            });
            let ended = run(config, sink).await;
            panic!("the source ended: {:?}", ended.err());
        });
        Self { events, task }
    }

    /// Waits until the wanted event comes; none of those before it may be a list of nothing.
    async fn until(&mut self, want: &str) {
        loop {
            // Well below the time of a look without notice, so that this proves the watch.
            let event = tokio::time::timeout(Duration::from_secs(3), self.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("no `{want}` came")).expect("an event");
            if event.contains(want) {
                return;
            }
            assert_ne!(event, "services ", "while waiting for `{want}`");
        }
    }
}

#[tokio::test]
async fn changes_renames_and_deletions_are_noticed() {
    let directory = TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("a.yaml"), service("a", "10.96.0.1")).expect("written");
    let mut running = Running::on(directory.path());
    running.until("services default/a[10.96.0.1]").await;
    running.until("slices").await;
    fs::write(at("a.yaml"), service("a", "10.96.0.2")).expect("written");
    running.until("service default/a[10.96.0.2]").await;
    fs::write(at(".a.tmp"), service("a", "10.96.0.3")).expect("written");
    fs::rename(at(".a.tmp"), at("a.yaml")).expect("renamed");
    running.until("service default/a[10.96.0.3]").await;
    fs::create_dir(at("sub")).expect("made");
    fs::write(at("sub/b.yaml"), service("b", "10.96.0.4")).expect("written");
    running.until("service default/b[10.96.0.4]").await;
    fs::write(at("sub/b.yaml"), service("b", "10.96.0.5")).expect("written");
    running.until("service default/b[10.96.0.5]").await;
    fs::remove_file(at("a.yaml")).expect("removed");
    running.until("service gone default/a").await;
    // Our own reading must not wake us.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(running.events.try_recv().is_err());
}

#[tokio::test]
async fn the_link_swap_of_a_config_map_is_one_change() {
    let directory = TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    for (version, ip) in [("..v1", "10.96.0.1"), ("..v2", "10.96.0.2")] {
        fs::create_dir(at(version)).expect("made");
        fs::write(at(version).join("a.yaml"), service("a", ip)).expect("written");
    }
    symlink("..v1", at("..data")).expect("linked");
    symlink("..data/a.yaml", at("a.yaml")).expect("linked");
    let mut running = Running::on(directory.path());
    running.until("services default/a[10.96.0.1]").await;
    symlink("..v2", at("..data_tmp")).expect("linked");
    fs::rename(at("..data_tmp"), at("..data")).expect("renamed");
    fs::remove_dir_all(at("..v1")).expect("removed");
    running.until("service default/a[10.96.0.2]").await;
    // The same for a path that names the linked file itself.
    let mut single = Running::on(&at("a.yaml"));
    single.until("services default/a[10.96.0.2]").await;
    fs::create_dir(at("..v3")).expect("made");
    fs::write(at("..v3/a.yaml"), service("a", "10.96.0.3")).expect("written");
    symlink("..v3", at("..data_tmp")).expect("linked");
    fs::rename(at("..data_tmp"), at("..data")).expect("renamed");
    single.until("service default/a[10.96.0.3]").await;
}

#[tokio::test]
async fn a_directory_may_come_late_and_come_back() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("later");
    let mut running = Running::on(&path);
    running.until("complaints file later: it cannot be read").await;
    fs::create_dir(&path).expect("made");
    fs::write(path.join("a.yaml"), "kind: [").expect("written");
    running.until("complaints file a.yaml: the document").await;
    fs::write(path.join("a.yaml"), service("a", "10.96.0.1")).expect("written");
    running.until("services default/a[10.96.0.1]").await;
    fs::remove_dir_all(&path).expect("removed");
    running.until("what it held before stays in use").await;
    fs::create_dir(&path).expect("made");
    fs::write(path.join("b.yaml"), service("b", "10.96.0.2")).expect("written");
    running.until("service default/b[10.96.0.2]").await;
}
