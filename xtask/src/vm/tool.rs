//! Other programs of this machine: finding them, and running them to their end.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Debian keeps some programs where the PATH of an ordinary user does not look.
const MORE_PATHS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = MORE_PATHS.iter().map(PathBuf::from);
    env::split_paths(&path).chain(more).map(|place| place.join(program)).find(|file| file.is_file())
}

/// A command for a program, wherever it is.
pub(crate) fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| PathBuf::from(program)))
}

/// Runs a command that must succeed; what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The files that a program or library is linked to, the loader among them. None for one that is linked statically.
pub(crate) fn libraries(file: &Path) -> Result<Vec<PathBuf>> {
    let mut ldd = command("ldd");
    let output = ldd.arg(file).output().context("cannot run ldd")?;
    Ok(parse_ldd(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_ldd(text: &str) -> Vec<PathBuf> {
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f11)\n\t\
                    /lib64/ld-linux-x86-64.so.2 (0x00007f12)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(parse_ldd(text), expected.map(PathBuf::from));
        assert!(parse_ldd("\tstatically linked\n").is_empty());
    }
}
