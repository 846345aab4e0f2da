//! Switchyard: a Kubernetes Service proxy. See `switchyard --help`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use switchyard_agent::ctl::Finding;
use switchyard_agent::flags::{Command, Config, Flags, Mode, Task};
use switchyard_agent::logging::Logging;
use switchyard_agent::{check, cleanup, ctl, demo, logging, offer, run};
use switchyard_heap::Sampling;
use switchyard_model::Printable;

/// The system's allocator, which is watched only with `--profiling`.
#[global_allocator]
static ALLOCATOR: Sampling = Sampling;

fn main() -> ExitCode {
    let flags = match Flags::read(std::env::args_os()) {
        Ok(flags) => flags,
        Err(error) => {
            // Printing can only fail if nobody reads.
            let _ = error.print();
            return if error.use_stderr() { misread() } else { ExitCode::SUCCESS };
        }
    };
    if let Some(text) = flags.version_text() {
        println!("{text}");
        return ExitCode::SUCCESS;
    }
    if let Some(command) = &flags.command {
        return match instead(command) {
            Ok(Finding::Good) => ExitCode::SUCCESS,
            Ok(Finding::Bad) => ExitCode::FAILURE,
            Ok(Finding::Unknown) => ExitCode::from(2),
            Err(error) => {
                tell(&error);
                trouble(command)
            }
        };
    }
    match flags.check() {
        Ok(config) => {
            if config.configuration.enable_profiling {
                switchyard_heap::start();
            }
            // The relay's threads allocate for every connection; those of other modes take turns.
            if config.mode != Mode::Userspace {
                switchyard_heap::grow_in_steps();
            }
            end(start(&config))
        }
        Err(problems) => {
            for problem in problems {
                eprintln!("Error: {problem}");
            }
            eprintln!("See `switchyard --help`.");
            ExitCode::FAILURE
        }
    }
}

/// What was asked for instead of a proxy.
fn instead(command: &Command) -> anyhow::Result<Finding> {
    match command {
        Command::Demo(flags) => demo::run(flags)?,
        Command::Explain(flags) => return Ok(ctl::explain(flags)?),
        Command::Get(flags) => ctl::get(flags)?,
        Command::Diff(flags) => return Ok(ctl::diff(&flags.asking)?),
        Command::Check(flags) => return Ok(check::run(flags)?),
        Command::Completion(flags) => show(&offer::completion(flags.shell))?,
        Command::Man => show(&offer::manual())?,
        Command::Cleanup(flags) if flags.dry_run => cleanup::list(flags)?,
        Command::Cleanup(flags) => {
            logging::start(Logging::default())?;
            cleanup::run(flags.iptables_backend)?;
        }
    }
    Ok(Finding::Good)
}

/// An error for people. It may hold text of other programs.
fn tell(error: &anyhow::Error) {
    let text = format!("Error: {error:#}");
    text.lines().for_each(|line| eprintln!("{}", Printable(line)));
}

/// A command line that cannot be understood is no answer either; of what it was meant to be, the first word is enough.
fn misread() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next().as_ref().and_then(|word| word.to_str()) {
        Some("diff" | "check") => ExitCode::from(2),
        Some("explain") if words.any(|word| word == "--probe") => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

/// Where 1 is an answer, trouble is 2, as with `diff` and `grep`.
fn trouble(command: &Command) -> ExitCode {
    match command {
        Command::Diff(_) | Command::Check(_) => ExitCode::from(2),
        Command::Explain(flags) if flags.probe => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

/// Prints a text. Whoever reads no further has what it wanted.
fn show(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}

fn start(config: &Config) -> anyhow::Result<()> {
    logging::start(config.logging)?;
    for (name, value) in &config.flags {
        tracing::debug!("FLAG: --{name}={value:?}");
    }
    match &config.task {
        Task::Proxy | Task::Init => run::run(config),
        Task::WriteConfig(path) => write_config(config, path),
        Task::Cleanup => cleanup::run(config.iptables_backend),
    }
}

/// `--write-config-to`: what flags and file amount to, as kube-proxy would write it.
fn write_config(config: &Config, path: &Path) -> anyhow::Result<()> {
    let mut configuration = config.configuration.clone();
    configuration.keep_only_the_mode();
    std::fs::write(path, configuration.to_yaml())
        .with_context(|| format!("cannot write the configuration to {}", path.display()))?;
    tracing::info!(file = %path.display(), "wrote the configuration");
    Ok(())
}

fn end(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
