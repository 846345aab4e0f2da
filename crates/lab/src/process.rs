//! A program that runs inside a namespace of the lab.
//!
//! In: a command and a log file. Out: its process, its log, its end. What it prints goes to the file, so it never blocks on us and a test can
//! read everything afterwards. Dropping a [`Process`] kills it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::LabError;
use crate::host::Host;

const POLL_EVERY: Duration = Duration::from_millis(5);
const LOG_END: usize = 2000;

/// A running program. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    host: String,
    log: PathBuf,
}

impl Host {
    /// Starts a program inside the namespace; what it prints, on both streams, goes to the file `log`, which is made or emptied.
    pub fn start(&self, command: &mut Command, log: &Path) -> Result<Process, LabError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let started = self.run(|| -> std::io::Result<Child> {
            let out = File::create(log)?;
            command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out).spawn()
        })?;
        let failed = |source| LabError::Io {
            action: format!("start {program}"),
            host: self.name().to_owned(),
            source,
        };
        Ok(Process { child: started.map_err(failed)?, host: self.name().to_owned(), log: log.to_owned() })
    }
}

impl Process {
    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file that it prints to.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Everything that it has printed so far.
    pub fn log(&self) -> Result<String, LabError> {
        let bytes = std::fs::read(&self.log).map_err(self.failed("read the log"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until the log contains `text`. Gives up at the deadline, or once the program has ended.
    pub fn wait_for_log(&mut self, text: &str, timeout: Duration) -> Result<(), LabError> {
        let end = Instant::now() + timeout;
        loop {
            // Asked before the log is read, so the last words of a program that ends count.
            let over = self.exit_status()?.is_some() || Instant::now() >= end;
            let log = self.log()?;
            if log.contains(text) {
                return Ok(());
            }
            if over {
                let tail = log.char_indices().rev().nth(LOG_END).and_then(|(at, _)| log.get(at..));
                return Err(LabError::Late {
                    what: format!("{text:?} in the log of the program on {}", self.host),
                    log_end: tail.unwrap_or(&log).to_owned(),
                });
            }
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// How it ended, if it has ended.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.try_wait().map_err(|source| LabError::Io {
            action: "look after a program".to_owned(),
            host: self.host.clone(),
            source,
        })
    }

    /// Waits for its end; `None` if it still runs then.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, LabError> {
        let end = Instant::now() + timeout;
        loop {
            let status = self.exit_status()?;
            if status.is_some() || Instant::now() >= end {
                return Ok(status);
            }
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// Asks it to end (SIGTERM). No error if it has ended.
    pub fn terminate(&mut self) -> Result<(), LabError> {
        self.signal(Signal::SIGTERM)
    }

    /// Sends a signal. No error if the program has ended: a number that may belong to somebody else by now is never signalled.
    pub fn signal(&mut self, signal: Signal) -> Result<(), LabError> {
        if self.exit_status()?.is_some() {
            return Ok(());
        }
        let Ok(pid) = i32::try_from(self.child.id()) else { return Ok(()) };
        kill(Pid::from_raw(pid), signal).map_err(|errno| self.failed("signal a program")(errno.into()))
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub fn kill(&mut self) -> Result<ExitStatus, LabError> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(self.failed("kill a program"))
    }

    fn failed(&self, action: &'static str) -> impl Fn(std::io::Error) -> LabError + use<> {
        let host = self.host.clone();
        move |source| LabError::Io { action: action.to_owned(), host: host.clone(), source }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a program that cannot be killed; it has usually ended before.
        let _ = self.kill();
    }
}
