//! What to run, from the command line.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::USAGE;
use super::kernel::Kernel;

/// A run under TCG is slow, and slower beside other work. This only ends what hangs.
const DEADLINE_MINUTES: u64 = 40;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// In the order in which they are tried.
    pub(super) kernels: Vec<Kernel>,
    /// What was asked for with `--test`; all of `selection` if empty.
    pub(super) tests: Vec<String>,
    /// What runs if no tests are named.
    pub(super) selection: Selection,
    /// How the tests are built.
    pub(super) scope: Scope,
    /// Given to every test program.
    pub(super) harness: Vec<String>,
    /// One processor has a clock that counts instructions, see [`super::boot`].
    pub(super) processors: u8,
    /// For one kernel.
    pub(super) deadline: Duration,
}

/// Tests that belong into a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// All of them.
    Everything,
    /// Those that need IPVS.
    Ipvs,
    /// None: the benchmark of ipvs mode.
    Benchmark,
}

impl Selection {
    fn parse(flag: &str, text: &str) -> Result<Self> {
        match (flag, text) {
            ("--only", "ipvs") => Ok(Self::Ipvs),
            ("--bench", "ipvs") => Ok(Self::Benchmark),
            _ => bail!("{flag} {text:?}: there is only ipvs"),
        }
    }
}

/// What cargo is told to look at. Features of dependencies depend on it, and with them what must be built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The packages of the tests, as in `cargo test -p NAME --test NAME`.
    Packages,
    /// Everything, as in `make test`.
    Workspace,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self {
            kernels: Vec::new(),
            tests: Vec::new(),
            selection: Selection::Everything,
            scope: Scope::Packages,
            harness: Vec::new(),
            processors: 1,
            deadline: Duration::from_secs(DEADLINE_MINUTES * 60),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value =
                || rest.next().with_context(|| format!("{argument} needs a value; usage: {USAGE}"));
            match *argument {
                "--kernel" => options.kernels.push(Kernel::parse(value()?)?),
                "--test" => options.tests.push((*value()?).to_owned()),
                "--only" | "--bench" => options.selection = Selection::parse(argument, value()?)?,
                "--workspace" => options.scope = Scope::Workspace,
                "--cpus" => options.processors = value()?.parse().context("--cpus is no number")?,
                "--deadline" => {
                    let minutes: u64 = value()?.parse().context("--deadline is no number of minutes")?;
                    options.deadline = Duration::from_secs(minutes * 60);
                }
                "--" => options.harness = rest.by_ref().map(|argument| (*argument).to_owned()).collect(),
                other => bail!("unknown argument {other}; usage: {USAGE}"),
            }
        }
        if options.kernels.is_empty() {
            options.kernels = match options.selection {
                Selection::Benchmark => vec![Kernel::Bookworm],
                Selection::Everything | Selection::Ipvs => Kernel::ALL.to_vec(),
            };
        }
        if options.tests.is_empty() {
            options.scope = Scope::Workspace;
        } else if options.selection != Selection::Everything {
            bail!("--test names the tests a second time; usage: {USAGE}");
        }
        if options.processors == 0 {
            bail!("--cpus 0: a machine has a processor");
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_arguments_everything_runs_on_every_kernel() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!((options.kernels.as_slice(), options.tests.len()), (&Kernel::ALL[..], 0));
        assert_eq!(options.scope, Scope::Workspace);
    }

    #[test]
    fn what_follows_two_dashes_is_the_harnesss() {
        let options =
            Options::parse(&["--kernel", "bookworm", "--test", "lab_scenarios", "--", "--exact", "ipvs"])
                .unwrap();
        assert_eq!(options.kernels, [Kernel::Bookworm]);
        assert_eq!(
            (options.tests.as_slice(), options.scope),
            (&["lab_scenarios".to_owned()][..], Scope::Packages)
        );
        assert_eq!(options.harness, ["--exact", "ipvs"]);
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            &["--kernel"][..],
            &["--kernel", "buster"],
            &["--cpus", "0"],
            &["lab_scenarios"],
            &["--only", "iptables"],
            &["--only", "ipvs", "--test", "lab_scenarios"],
        ] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
