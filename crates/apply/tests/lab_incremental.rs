//! Whatever happens in whatever order, the kernel holds what a proxy would write that sees only the end.
//!
//! Random events reach nftables mode in pieces, with restarts, other settings and harm by other programs between them. Then the
//! kernel's own dump is compared with the one of a namespace in which a fresh proxy wrote everything at once. The mode's own
//! reading of the kernel takes no part in it. Slots depend on history: of each frontend, the endpoints are compared that the
//! kernel's rules can pick for it; everything else must be equal.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::Write;
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use switchyard_apply::Mode;
use switchyard_apply::nft::mode::NftMode;
use switchyard_apply::report::Report;
use switchyard_model::{Event, Family, Snapshot, Tracker};
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::{Batch, Nft};
use switchyard_plan::book::{Book, PortChanges, of_family};
use switchyard_plan::nft::{Config, Planner};
use switchyard_plan::settings::Settings;

#[path = "lab_incremental/dump.rs"]
mod dump;
#[path = "lab_incremental/harm.rs"]
mod harm;
#[path = "lab_incremental/objects.rs"]
mod objects;

use dump::{Dump, table};
use objects::{Piece, Step, Wishes};

const CASES: u32 = 16;

/// A proxy for one family over a real kernel.
struct Proxy {
    mode: NftMode,
    settings: Settings,
    /// Reads and harms; never the mode's own socket.
    other: Nft,
}

fn open(namespace: &Namespace) -> Nft {
    namespace.run(|| Nft::open().unwrap()).unwrap()
}

impl Proxy {
    fn start(namespace: &Namespace, settings: Settings, limit: Option<usize>) -> Self {
        let planner = Planner::new(Config::default(), Book::new(settings.clone()));
        let mode = NftMode::new(open(namespace), planner);
        let mode = match limit {
            Some(bytes) => mode.limited_to(bytes),
            None => mode,
        };
        Self { mode, settings, other: open(namespace) }
    }

    fn sync(&mut self, changes: PortChanges) -> Result<Report, TestCaseError> {
        let report = self.mode.sync(Instant::now(), changes, &mut |_| {});
        prop_assert!(report.failure.is_none() && report.refused.is_empty(), "{report:?}");
        Ok(report)
    }

    fn dump(&mut self) -> Dump {
        Dump::read(&mut self.other, self.settings.family)
    }
}

fn everything(snapshot: &Snapshot, family: Family) -> PortChanges {
    let all = snapshot.ports.iter().map(|(key, port)| (key.clone(), Some(port.clone()))).collect();
    of_family(&all, family)
}

fn remove_table(namespace: &Namespace, family: Family) {
    let mut nft = open(namespace);
    let id = table(family);
    if nft.tables(id.family).unwrap().iter().any(|table| table.id == id) {
        let mut batch = Batch::new();
        batch.delete_table(&id);
        nft.commit(&batch).unwrap();
    }
}

/// The namespaces of one family: one that lives through everything, one that only sees the end.
struct Kernels {
    lived: Namespace,
    fresh: Namespace,
}

impl Kernels {
    /// Plays one story in one family.
    fn play(&self, family: Family, limit: Option<usize>, pieces: &[Piece]) -> TestCaseResult {
        remove_table(&self.lived, family);
        let mut tracker = Tracker::new();
        tracker.apply(Event::Services(Vec::new()));
        tracker.apply(Event::Slices(Vec::new()));
        let mut wishes = Wishes::default();
        let mut proxy = Proxy::start(&self.lived, wishes.settings(family), limit);
        for (number, piece) in pieces.iter().enumerate() {
            for step in piece {
                match step {
                    Step::Tell(event) => tracker.apply(event.clone()),
                    Step::Settle(new) => {
                        wishes = new.clone();
                        proxy.settings = wishes.settings(family);
                        proxy.mode.settle(proxy.settings.clone());
                    }
                    Step::Restart => {
                        // What was not written yet is told to the next proxy with everything else.
                        tracker.take();
                        proxy = Proxy::start(&self.lived, wishes.settings(family), limit);
                        proxy.sync(everything(&tracker.snapshot(), family))?;
                    }
                    Step::Harm(harm) => {
                        harm.do_to(&mut proxy.other, family);
                        proxy.mode.distrust();
                    }
                }
            }
            proxy.sync(of_family(&tracker.take().unwrap().ports, family))?;
            if number % 2 == 0 || number + 1 == pieces.len() {
                self.compare(&mut proxy, &tracker.snapshot())?;
            }
        }
        Ok(())
    }

    fn compare(&self, proxy: &mut Proxy, snapshot: &Snapshot) -> TestCaseResult {
        let family = proxy.settings.family;
        remove_table(&self.fresh, family);
        let mut fresh = Proxy::start(&self.fresh, proxy.settings.clone(), None);
        fresh.sync(everything(snapshot, family))?;
        let (lived, fresh) = (proxy.dump(), fresh.dump());
        let only =
            |one: &Dump, other: &Dump| one.facts().difference(&other.facts()).cloned().collect::<Vec<_>>();
        prop_assert_eq!((only(&lived, &fresh), only(&fresh, &lived)), (vec![], vec![]), "{}", family);
        prop_assert!(lived == fresh);
        prop_assert!(lived.gaps().is_empty(), "{}: {:?}", family, lived.gaps());
        // A proxy that starts over what is there finds nothing to do.
        let before = proxy.other.generation().unwrap();
        let mut next = Proxy::start(&self.lived, proxy.settings.clone(), None);
        let report = next.sync(everything(snapshot, family))?;
        let after = proxy.other.generation().unwrap();
        prop_assert_eq!((report.lines, after), (0, before), "{}: {:?}", family, report);
        Ok(())
    }
}

fn namespace_or_skip() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) => {
            assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but: {error}");
            let _ = writeln!(std::io::stderr(), "SKIPPED: {error} (network namespaces need root)");
            None
        }
    }
}

#[test]
fn the_kernel_holds_what_a_fresh_proxy_would_write() {
    let (Some(lived), Some(fresh)) = (namespace_or_skip(), namespace_or_skip()) else { return };
    let kernels = Kernels { lived, fresh };
    // No file of old failures: a failure is shrunk and printed, and becomes a test with a name.
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
    // Small enough that a start takes several transactions, and large enough for the longest chain, which is never split.
    let limit = prop_oneof![2 => Just(None), 1 => (10_000_usize..24_000).prop_map(Some)];
    let played = TestRunner::new(config).run(&(limit, objects::story()), |(limit, pieces)| {
        Family::ALL.into_iter().try_for_each(|family| kernels.play(family, limit, &pieces))
    });
    if let Err(failure) = played {
        panic!("{failure}");
    }
}
