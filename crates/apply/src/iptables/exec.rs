//! Runs one program of the iptables family and comes back in bounded time and memory.
//!
//! In: a program, arguments, optional input. Out: exit status and what it said, or why there is no status.
//!
//! Invariants
//! - No deadlock: the input is a sealed-off memory file, not a pipe that somebody must keep feeding, and both
//!   outputs are drained by threads of their own.
//! - After the time limit the whole process group is killed, so a script's children cannot outlive it.
//! - Output beyond the limit ends the run; error text beyond its limit is drained and dropped.
//! - The child inherits the network namespace of the calling thread and the environment, `XTABLES_LOCKFILE` included.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::Children;

/// Error text that is kept for classification. Longer than what an error carries, because warnings come first.
const STDERR_KEPT: usize = 64 * 1024;

/// One program to run.
pub(super) struct Invocation<'a> {
    pub(super) program: &'a Path,
    pub(super) args: Vec<String>,
    /// Pieces that are written one after the other.
    pub(super) input: Option<&'a [&'a str]>,
    pub(super) output: Output,
    pub(super) timeout: Duration,
    pub(super) env: Option<(&'static str, OsString)>,
    pub(super) children: Option<&'a Children>,
}

/// What to do with standard output.
#[derive(Clone, Copy)]
pub(super) enum Output {
    Discard,
    Keep { limit: usize },
}

/// A program that ended by itself.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Why there is no exit status to look at.
#[derive(Debug)]
pub(super) enum NotFinished {
    Exec { program: PathBuf, source: io::Error },
    Timeout { after: Duration },
    TooMuchOutput { limit: usize },
}

impl Invocation<'_> {
    /// The command as an operator would type it, for error texts.
    pub(super) fn shown(&self) -> String {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy();
        let text = format!("{name} {}", self.args.join(" "));
        crate::printable::bounded(text.as_bytes(), 300)
    }

    pub(super) fn run(self) -> Result<Finished, NotFinished> {
        let deadline = Instant::now() + self.timeout;
        let started = match self.children {
            Some(children) => children.start(|| self.spawn()),
            None => self.spawn(),
        };
        let mut child =
            started.map_err(|source| NotFinished::Exec { program: self.program.to_owned(), source })?;
        let limit = match self.output {
            Output::Discard => 0,
            Output::Keep { limit } => limit,
        };
        let stdout = child.stdout.take().map(|pipe| drain(pipe, limit, Beyond::Stop));
        let stderr = child.stderr.take().map(|pipe| drain(pipe, STDERR_KEPT, Beyond::Drop));
        let outcome = self.collect(&mut child, stdout.as_ref(), stderr.as_ref(), deadline);
        if outcome.is_err() {
            end(&mut child);
        }
        outcome
    }

    fn spawn(&self) -> io::Result<Child> {
        let stdin = match self.input {
            Some(pieces) => Stdio::from(memory_file(pieces)?),
            None => Stdio::null(),
        };
        let stdout = match self.output {
            Output::Discard => Stdio::null(),
            Output::Keep { .. } => Stdio::piped(),
        };
        let mut command = Command::new(self.program);
        command.args(&self.args).stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        // Its own group, so that it can be killed with its children and so that Ctrl-C at a terminal lets a
        // restore that has begun come to its end.
        command.process_group(0).env("LC_ALL", "C");
        if let Some((name, value)) = &self.env {
            command.env(name, value);
        }
        command.spawn()
    }

    fn collect(
        &self,
        child: &mut Child,
        stdout: Option<&Receiver<io::Result<Drained>>>,
        stderr: Option<&Receiver<io::Result<Drained>>>,
        deadline: Instant,
    ) -> Result<Finished, NotFinished> {
        let stdout = self.receive(stdout, deadline)?;
        if let (Output::Keep { limit }, true) = (self.output, stdout.overflowed) {
            return Err(NotFinished::TooMuchOutput { limit });
        }
        let stderr = self.receive(stderr, deadline)?;
        let status = self.wait(child, deadline)?;
        Ok(Finished { status, stdout: stdout.bytes, stderr: stderr.bytes })
    }

    fn receive(
        &self,
        pipe: Option<&Receiver<io::Result<Drained>>>,
        deadline: Instant,
    ) -> Result<Drained, NotFinished> {
        let Some(pipe) = pipe else { return Ok(Drained::default()) };
        match pipe.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(drained)) => Ok(drained),
            Ok(Err(source)) => Err(NotFinished::Exec { program: self.program.to_owned(), source }),
            Err(RecvTimeoutError::Timeout) => Err(NotFinished::Timeout { after: self.timeout }),
            Err(RecvTimeoutError::Disconnected) => Ok(Drained::default()),
        }
    }

    /// The pipes are closed, so the child is gone or about to go: short naps, growing.
    fn wait(&self, child: &mut Child, deadline: Instant) -> Result<ExitStatus, NotFinished> {
        let mut nap = Duration::from_micros(50);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() >= deadline => {
                    return Err(NotFinished::Timeout { after: self.timeout });
                }
                Ok(None) => thread::sleep(nap),
                Err(source) => return Err(NotFinished::Exec { program: self.program.to_owned(), source }),
            }
            nap = (nap * 2).min(Duration::from_millis(10));
        }
    }
}

/// Kills the group and reaps the child. Errors mean that it is already gone.
fn end(child: &mut Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        let _gone = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let _gone = child.kill();
    let _reaped = child.wait();
}

fn memory_file(pieces: &[&str]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"restore-input", MFdFlags::MFD_CLOEXEC)?);
    pieces.iter().try_for_each(|piece| file.write_all(piece.as_bytes()))?;
    file.rewind()?;
    Ok(file)
}

#[derive(Default)]
struct Drained {
    bytes: Vec<u8>,
    overflowed: bool,
}

/// What happens to output beyond the limit.
#[derive(Clone, Copy)]
enum Beyond {
    /// Close the pipe; the run is over.
    Stop,
    /// Read and forget, so that the program can go on.
    Drop,
}

fn drain(
    mut pipe: impl Read + Send + 'static,
    limit: usize,
    beyond: Beyond,
) -> Receiver<io::Result<Drained>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut drained = Drained::default();
        let kept = pipe.by_ref().take(limit as u64).read_to_end(&mut drained.bytes);
        let result = kept.and_then(|_| {
            drained.overflowed = pipe.read(&mut [0; 1])? > 0;
            if let (true, Beyond::Drop) = (drained.overflowed, beyond) {
                io::copy(&mut pipe, &mut io::sink())?;
            }
            Ok(drained)
        });
        // The receiver is gone after a timeout; nobody is left to tell.
        let _nobody_waits = sender.send(result);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(
        script: &str,
        input: Option<&str>,
        limit: usize,
        timeout: Duration,
    ) -> Result<Finished, NotFinished> {
        let input = input.map(|text| text.split_at(text.len() / 2)).map(|(one, other)| [one, other]);
        Invocation {
            program: Path::new("/bin/sh"),
            args: vec!["-c".into(), script.into()],
            input: input.as_ref().map(|pieces| pieces.as_slice()),
            output: Output::Keep { limit },
            timeout,
            env: None,
            children: None,
        }
        .run()
    }

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn large_input_and_output_do_not_deadlock() {
        let input = "0123456789abcdef\n".repeat(200_000);
        let done = sh("cat; head -c 1000000 /dev/zero >&2", Some(&input), 1 << 24, LONG).unwrap();
        assert_eq!(done.stdout.len(), input.len());
        assert_eq!(done.stderr.len(), STDERR_KEPT);
        assert!(done.status.success());
    }

    #[test]
    fn a_hanging_program_and_its_children_are_killed() {
        let begin = Instant::now();
        let error = sh("sleep 30 & sleep 30", None, 10, Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, NotFinished::Timeout { .. }));
        assert!(begin.elapsed() < Duration::from_secs(5));
        let closed = sh("exec >&- 2>&-; sleep 30", None, 10, Duration::from_millis(200)).unwrap_err();
        assert!(matches!(closed, NotFinished::Timeout { .. }));
    }

    #[test]
    fn endless_output_is_cut_off() {
        let error = sh("yes", None, 1000, LONG).unwrap_err();
        assert!(matches!(error, NotFinished::TooMuchOutput { limit: 1000 }));
        assert!(sh("printf 1234", None, 4, LONG).is_ok());
    }
}
