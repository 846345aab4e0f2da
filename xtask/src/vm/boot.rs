//! One run of the emulator.
//!
//! In: a kernel, its root, a script's word and steps. Out: a verdict. What the guest prints is shown as it comes; in longer silences a
//! line says what is waited for.
//!
//! With one processor the guest's clock counts instructions, a billion to the second, and leaps over idle times. So a guest under test is
//! never slow by its own clock, however busy this machine is, and its waiting costs nothing. Several processors follow this machine's clock.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::guest::Step;
use super::kernel::{Files, Kernel};
use super::options::Options;
use super::outcome::{Account, End, MARK, Verdict};
use super::tool;

/// The emulator's program.
pub(super) const EMULATOR: &str = "qemu-system-x86_64";

const MEMORY: &str = "3072M";

/// Everything that the emulator can do, but for `cmpxchg16b`: qemu 7.2 computes its flags from what is left of an earlier comparison. An interrupt
/// right behind it saves an address as flags, and the kernel, whose allocator uses the instruction, ends in a double fault.
const PROCESSOR: &str = "max,-cx16";

/// What the kernel is told.
///
/// It ends the machine when it panics and tells warnings and what is worse. The rest saves work of the emulator: no protection from its own
/// tests, equal addresses in every process, so that code is translated once, memory that is not cleared without need, and no string
/// instructions (features 112, 297 and 580), whose every repetition is an instruction of its own to the clock.
const COMMAND_LINE: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic rdinit=/init mitigations=off nokaslr norandmaps \
     init_on_alloc=0 audit=0 apparmor=0 nowatchdog clearcpuid=112,297,580";

/// After this time without a word, something is said.
const SILENCE: Duration = Duration::from_secs(20);

/// The longest line that is taken whole.
const LONGEST_LINE: u64 = 64 * 1024;

/// Boots, runs, judges.
pub(super) fn run(
    (kernel, files): (Kernel, &Files),
    (word, steps): (&str, &[Step]),
    directory: &Path,
    options: &Options,
) -> Result<Verdict> {
    let console = directory.join("console.log");
    let mut command = command(files, directory, &console, options.processors);
    let begin = Instant::now();
    println!("vm {kernel}: booting {}", files.release);
    let mut emulator = Emulator(command.spawn().with_context(|| format!("cannot run {EMULATOR}"))?);
    let output = emulator.0.stdout.take().context("the emulator has no output")?;
    let (sender, lines) = sync_channel(1024);
    thread::spawn(move || read(output, &sender));
    let mut account = Account::new(word, &files.release, steps);
    let in_time = follow(&lines, &mut account, kernel, begin, options.deadline);
    let end = if in_time { emulator.end()? } else { End::Deadline };
    let seconds = begin.elapsed().as_secs();
    println!("vm {kernel}: ended after {seconds} s; console: {}", console.display());
    let console = fs::read(&console).unwrap_or_default();
    Ok(account.finish(&String::from_utf8_lossy(&console), end))
}

fn command(files: &Files, directory: &Path, console: &Path, processors: u8) -> Command {
    let mut command = tool::command(EMULATOR);
    match processors {
        1 => command.args(["-accel", "tcg", "-icount", "shift=0,sleep=off"]),
        more => command.args(["-accel", "tcg,thread=multi", "-smp", &more.to_string()]),
    };
    command.args(["-cpu", PROCESSOR, "-m", MEMORY, "-nodefaults", "-no-user-config"]);
    command.args(["-display", "none", "-no-reboot"]);
    command.arg("-kernel").arg(&files.image).arg("-initrd").arg(directory.join("root.cpio"));
    command.args(["-append", COMMAND_LINE]);
    command.arg("-serial").arg(format!("file:{}", console.display())).args(["-serial", "stdio"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// The emulator, killed when dropped.
struct Emulator(Child);

impl Emulator {
    fn end(&mut self) -> Result<End> {
        let status = self.0.wait().context("cannot wait for the emulator")?;
        Ok(if status.success() { End::Normal } else { End::Failed })
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and nothing is left to do about another.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends each line, or as much of it as is taken.
fn read(output: ChildStdout, lines: &SyncSender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        let text = String::from_utf8_lossy(&line);
        // Nobody listens any more after the deadline.
        if lines.send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
            return;
        }
    }
}

/// Takes lines until the emulator has no more; false if the deadline came first.
fn follow(
    lines: &Receiver<String>,
    account: &mut Account<'_>,
    kernel: Kernel,
    begin: Instant,
    deadline: Duration,
) -> bool {
    let mut last_word = Instant::now();
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                account.line(&line);
                show(kernel, &line);
                last_word = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let seconds = begin.elapsed().as_secs();
        if begin.elapsed() > deadline {
            return false;
        }
        if last_word.elapsed() > SILENCE {
            println!("vm {kernel}: {seconds} s, {} ...", account.stage());
            last_word = Instant::now();
        }
    }
}

/// Shows a line of the tests; the account's own lines are for us.
fn show(kernel: Kernel, line: &str) {
    if !line.is_empty() && !line.starts_with(MARK) {
        println!(
            "{kernel}| {}",
            line.replace(|character: char| character.is_control() && character != '\t', "?")
        );
    }
}
