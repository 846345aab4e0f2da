//! From options to verdicts: what must be there, what is built, one run per kernel.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::built::{self, Built};
use super::kernel::{Files, Kernel};
use super::options::{Options, Selection};
use super::outcome::Verdict;
use super::{boot, guest, root, tool};

/// Programs that prepare a run, besides those that go into the guest.
const TOOLS: [&str; 7] = [boot::EMULATOR, "apt-get", "dpkg-deb", "depmod", "xz", "strip", "ldd"];

/// Variables that tests know and that reach them in the guest, too.
const VARIABLES: [&str; 3] = ["SCENARIO", "PROPTEST_CASES", "RUST_BACKTRACE"];

/// The kernels with their files, or why there can be no VM here.
pub(super) fn kernels(options: &Options) -> Result<Vec<(Kernel, Files)>> {
    if env::consts::ARCH != "x86_64" {
        bail!(
            "this machine is {}; the guest is x86_64 and runs the tests of this machine",
            env::consts::ARCH
        );
    }
    let programs = TOOLS.iter().map(|name| (*name).to_owned()).chain(root::programs());
    let missing: Vec<String> = programs.filter(|name| tool::find(name).is_none()).collect();
    if !missing.is_empty() {
        bail!("not found: {}; scripts/install-packages vm names the packages", missing.join(", "));
    }
    let directory = target()?.join("vm");
    let fetch = |kernel: &Kernel| {
        let files = Files::fetch(*kernel, &directory);
        Ok((*kernel, files.with_context(|| format!("cannot get the kernel {kernel}"))?))
    };
    options.kernels.iter().map(fetch).collect()
}

/// Builds once, then runs on every kernel, on as many at a time as this machine has processors: a guest uses one.
pub(super) fn run(kernels: &[(Kernel, Files)], options: &Options) -> Result<Vec<(Kernel, Verdict)>> {
    let tree = crate::repository::root()?;
    let built = match options.selection {
        Selection::Benchmark => built::benchmark(&tree)?,
        Selection::Everything | Selection::Ipvs => built::build(&tree, options)?,
    };
    let at_once =
        thread::available_parallelism().map_or(1, usize::from).div_ceil(usize::from(options.processors));
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((kernel, files)) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = run_one(*kernel, files, &tree, &built, options);
                    verdicts.lock().unwrap_or_else(PoisonError::into_inner).push((*kernel, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    verdicts.sort_by_key(|(kernel, _)| *kernel);
    verdicts.into_iter().map(|(kernel, verdict)| Ok((kernel, verdict?))).collect()
}

fn run_one(kernel: Kernel, files: &Files, tree: &Path, built: &Built, options: &Options) -> Result<Verdict> {
    let begin = Instant::now();
    let directory = target()?.join("vm/runs").join(kernel.name());
    fs::create_dir_all(&directory)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let word = format!("{:x}-{:x}", process::id(), since.as_nanos());
    let known = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)));
    let script = guest::script(&word, &known.collect::<Vec<_>>(), &built.steps);
    let archive = root::make(tree, files, &built.programs, &script)?;
    let path = directory.join("root.cpio");
    fs::write(&path, &archive).with_context(|| format!("cannot write {}", path.display()))?;
    let (megabytes, seconds) = (archive.len() / 1_000_000, begin.elapsed().as_secs());
    println!("vm {kernel}: a root of {megabytes} MB, made in {seconds} s");
    boot::run((kernel, files), (&word, &built.steps), &directory, options)
}

/// Where cargo builds: this program lies there.
fn target() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program")?;
    let target = own.parent().and_then(Path::parent).context("this program is not in a target directory")?;
    Ok(target.to_path_buf())
}
