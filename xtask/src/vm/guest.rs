//! The first program of the guest: a script that runs the steps one by one and gives an account of them on the second serial line. The
//! first one is the kernel's console.

use std::path::PathBuf;

use super::outcome::MARK;

/// One program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// For people.
    pub(super) name: String,
    /// Where it runs: the package's directory, as with cargo.
    pub(super) directory: PathBuf,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) judged: Judged,
}

/// What makes a step a success, besides its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// The harness of its tests says that all passed, and that there were some.
    Tests,
    /// The same, but the arguments may leave no test of this program.
    TestsIfAny,
    /// It printed figures.
    Figures,
}

#[cfg(test)]
impl Step {
    pub(super) fn named(name: &str) -> Self {
        let (directory, program) = (PathBuf::from("/crates/agent"), PathBuf::from("/target/test"));
        Self { name: name.to_owned(), directory, program, arguments: Vec::new(), judged: Judged::Tests }
    }
}

/// Where busybox puts its programs, behind all others.
const APPLETS: &str = "/usr/lib/applets";

/// The script.
pub(super) fn script(word: &str, environment: &[(String, String)], steps: &[Step]) -> String {
    let mut text = format!(
        "#!/usr/bin/busybox sh
/usr/bin/busybox mkdir -p {APPLETS} /dev /proc /sys /run /tmp /etc /root
/usr/bin/busybox --install -s {APPLETS}
export PATH=/usr/sbin:/usr/bin:{APPLETS} HOME=/root LAB=require VM=require
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
stty -F /dev/ttyS1 raw
exec </dev/null >/dev/ttyS1 2>&1
say() {{ printf '\\n{MARK} {word} %s\\n' \"$*\"; }}
say boot \"$(uname -r)\"
"
    );
    for (name, value) in environment {
        text.push_str(&format!("export {name}={}\n", quoted(value)));
    }
    for (number, step) in steps.iter().enumerate() {
        let directory = quoted(&step.directory.to_string_lossy());
        let program = quoted(&step.program.to_string_lossy());
        let arguments: String =
            step.arguments.iter().map(|argument| format!(" {}", quoted(argument))).collect();
        text.push_str(&format!("say begin {number}\n(cd {directory} && exec {program}{arguments})\n"));
        text.push_str(&format!("say end {number} $?\n"));
    }
    // Setting the line again waits until all is sent.
    text.push_str("say done\nstty -F /dev/ttyS1 raw\npoweroff -f\n");
    text
}

/// A word for the shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_framed() {
        let mut step = Step::named("lab_probe");
        step.arguments = vec!["it's".to_owned(), "$HOME".to_owned()];
        let script = script("w0rd", &[("SCENARIO".to_owned(), "udp".to_owned())], &[step]);
        let expected = "export SCENARIO='udp'\nsay begin 0\n(cd '/crates/agent' && exec '/target/test' 'it'\\''s' '$HOME')\n\
                        say end 0 $?\nsay done\n";
        assert!(script.contains(expected), "{script}");
    }
}
