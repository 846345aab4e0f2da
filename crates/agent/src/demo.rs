//! `switchyard demo`: a private two-node cluster on this machine, real requests, and who answered them.
//!
//! Everything lives in network namespaces without names, held by this process: when it ends, the kernel removes all of
//! it. Whether a request went where it should is judged by the packet tracer, from the same YAML files that the
//! proxies read.

mod relay;
mod rows;
mod show;
mod stage;
mod traffic;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{SigSet, Signal};

use crate::flags::DemoFlags;
use show::{Look, Notes};
use stage::Stage;

/// Time between two rounds of requests.
const ROUND: Duration = Duration::from_secs(1);
/// Without a terminal to redraw, a table is printed this often.
const PLAIN_ROUND: Duration = Duration::from_secs(5);
/// How long `--once` waits for the first round that is right: proxies on a busy machine need a moment.
const PATIENCE: Duration = Duration::from_secs(15);

/// The examples, for a binary that is not run from the repository.
const EXAMPLES: [(&str, &str); 3] = [
    ("cart.yaml", include_str!("../../../examples/cart.yaml")),
    ("shop.yaml", include_str!("../../../examples/shop.yaml")),
    ("web.yaml", include_str!("../../../examples/web.yaml")),
];

/// Runs the demo until Ctrl-C, or for one round.
pub fn run(flags: &DemoFlags) -> anyhow::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("the demo makes network namespaces and iptables rules in them: run it as root (sudo)");
    }
    let stopping = stop_on_signals()?;
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let files = files(flags, scratch.path())?;
    println!("Making two nodes, pods, a router and an outside client as network namespaces...");
    let mut stage = Stage::build(&files, flags, scratch.path())?;
    println!("Proxies of both nodes have written their rules ({} mode).", flags.mode.as_str());
    let relay = relay::start(stage.node())?;
    let is_terminal = std::io::stdout().is_terminal();
    let look = Look::new(is_terminal && !flags.no_color);
    // As it was called: it need not be where a shell looks.
    let program = std::env::args().next().unwrap_or_else(|| "switchyard".to_owned());
    let notes = Notes {
        files: files.display().to_string(),
        metrics: format!("http://{relay}/metrics"),
        logs: scratch.path().display().to_string(),
        ask: format!("{program} get services --admin-socket {}/n1.sock", scratch.path().display()),
    };
    let outcome = if flags.once {
        once(&mut stage, &look, &notes)
    } else {
        watch(&mut stage, &look, &notes, is_terminal, &stopping)
    };
    drop(stage);
    println!("All of it is removed.");
    outcome
}

/// One round that is right, or the reason why there is none.
fn once(stage: &mut Stage, look: &Look, notes: &Notes) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let round = stage.round()?;
        let results = &round.outcomes;
        let wrong = results.iter().filter(|r| !r.is_right()).count();
        if wrong == 0 || Instant::now() >= end {
            print!("{}{}", show::table(&round, look), show::notes(notes, look));
            if results.is_empty() {
                bail!("no Service in {}; nothing was requested", notes.files);
            }
            if wrong > 0 {
                bail!("{wrong} of {} rows did not go where they should; see the table", results.len());
            }
            return Ok(());
        }
    }
}

fn watch(
    stage: &mut Stage,
    look: &Look,
    notes: &Notes,
    is_terminal: bool,
    stopping: &AtomicBool,
) -> anyhow::Result<()> {
    while !stopping.load(Ordering::Relaxed) {
        let began = Instant::now();
        let round = stage.round()?;
        let clear = if is_terminal { "\x1b[H\x1b[J" } else { "" };
        let hint = "Edit the files and watch; Ctrl-C ends it and removes everything.\n";
        print!("{clear}{}{}{hint}", show::table(&round, look), show::notes(notes, look));
        let rest = if is_terminal { ROUND } else { PLAIN_ROUND };
        while began.elapsed() < rest && !stopping.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
    }
    println!();
    Ok(())
}

/// The operator's files, those of the repository if it is the current directory, or copies of the built-in ones.
fn files(flags: &DemoFlags, scratch: &std::path::Path) -> anyhow::Result<PathBuf> {
    if let Some(path) = &flags.examples {
        if !path.exists() {
            bail!("{} does not exist; --examples takes a directory of YAML files", path.display());
        }
        return path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
    }
    let here = PathBuf::from("examples");
    if EXAMPLES.iter().all(|(name, _)| here.join(name).is_file()) {
        return here.canonicalize().context("cannot read examples");
    }
    let copies = scratch.join("examples");
    std::fs::create_dir(&copies)?;
    for (name, text) in EXAMPLES {
        std::fs::write(copies.join(name), text)?;
    }
    Ok(copies)
}

/// Ctrl-C and SIGTERM are waited for on a thread, so that the lab is taken down in order.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block().context("cannot block signals")?;
    let stopping = Arc::new(AtomicBool::new(false));
    let flag = stopping.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        // The first signal asks for an orderly end; a second one ends at once, and the kernel cleans up.
        let _ = signals.wait();
        flag.store(true, Ordering::Relaxed);
        let _ = signals.wait();
        std::process::abort();
    })?;
    Ok(stopping)
}
