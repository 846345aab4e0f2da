//! Packages with kernels, from the mirror that this machine's apt uses, which nothing here changes: lists and sources are of our own.
//!
//! In: suites of Debian. Out: the package with the newest kernel of the cloud flavour; apt checks its signature.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::tool;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The package that depends on the newest kernel.
const NEWEST: &str = "linux-image-cloud-amd64";

/// A part of Debian, and which of its archives has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Main(&'static str),
    Security(&'static str),
}

impl Suite {
    /// The label of the archive.
    fn label(self) -> &'static str {
        match self {
            Self::Main(_) => "Debian",
            Self::Security(_) => "Debian-Security",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Main(name) | Self::Security(name) => name,
        }
    }
}

/// Downloads the newest kernel of the suites into a directory.
pub(super) fn download(suites: &[Suite], directory: &Path) -> Result<PathBuf> {
    let directory = fs::canonicalize(directory)?;
    let own = Apt { directory: directory.join("apt") };
    own.set_up(suites)?;
    tool::output(own.command("apt-get").arg("update"))?;
    let shown = tool::output(own.command("apt-cache").args(["show", "--no-all-versions", NEWEST]))?;
    let package = kernel_package(&shown).with_context(|| format!("{NEWEST} depends on no kernel"))?;
    println!("vm: downloading {package}");
    tool::output(own.command("apt-get").args(["download", &package]).current_dir(&directory))?;
    let entries = fs::read_dir(&directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found = entries.filter(|path| path.extension().is_some_and(|ending| ending == "deb"));
    found.next().with_context(|| format!("apt-get downloaded {package}, but there is no file"))
}

/// An apt that knows nothing of this machine but its mirror.
struct Apt {
    directory: PathBuf,
}

impl Apt {
    fn set_up(&self, suites: &[Suite]) -> Result<()> {
        for place in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.directory.join(place))?;
        }
        if !Path::new(KEYRING).is_file() {
            bail!("no {KEYRING}; it is in the package debian-archive-keyring");
        }
        let format = "$(LABEL) $(SITE)";
        let known = tool::output(tool::command("apt-get").args(["indextargets", "--format", format]))?;
        let mut sources = String::new();
        for suite in suites {
            let site = site(&known, *suite).with_context(|| {
                format!("apt has no archive with the label {:?}; run apt-get update", suite.label())
            })?;
            sources.push_str(&format!("deb [signed-by={KEYRING}] {site} {} main\n", suite.name()));
        }
        fs::write(self.directory.join("sources.list"), sources)?;
        fs::write(self.directory.join("status"), "")?;
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = tool::command(program);
        let mut set = |name: &str, value: &str| {
            command.arg("-o").arg(format!("{name}={value}"));
        };
        let own = |name: &str| self.directory.join(name).to_string_lossy().into_owned();
        set("Dir::Etc::SourceList", &own("sources.list"));
        set("Dir::Etc::SourceParts", "/dev/null");
        set("Dir::State::Lists", &own("lists"));
        set("Dir::State::Status", &own("status"));
        set("Dir::Cache", &own("cache"));
        set("Acquire::Languages", "none");
        set("Acquire::Retries", "2");
        set("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false");
        // It would want to give our directories to a user of its own.
        set("APT::Sandbox::User", "root");
        command
    }
}

/// Where the archive of a suite is, from lines of label and address.
fn site(known: &str, suite: Suite) -> Option<&str> {
    known
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(label, _)| *label == suite.label())
        .map(|(_, at)| at)
}

/// The kernel that the package with the newest one depends on.
fn kernel_package(shown: &str) -> Option<String> {
    let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    let mut names = depends.split(',').filter_map(|part| part.split_whitespace().next());
    names.find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_newest_depends_on() {
        let shown = "Package: linux-image-cloud-amd64\nVersion: 7.2.12-1\nDepends: linux-base-cloud-amd64 (= 7.2.12-1), \
                     linux-image-7.2.12+deb13-cloud-amd64 (= 7.2.12-1)\n";
        assert_eq!(kernel_package(shown).as_deref(), Some("linux-image-7.2.12+deb13-cloud-amd64"));
        assert_eq!(kernel_package("Depends: libc6\n"), None);
    }

    #[test]
    fn the_mirror_is_the_one_that_apt_uses() {
        let known = "Other https://mirror.invalid/other\nDebian-Security https://mirror.invalid/security\n\
                     Debian https://mirror.invalid/debian\n";
        assert_eq!(site(known, Suite::Main("bookworm")), Some("https://mirror.invalid/debian"));
        assert_eq!(site(known, Suite::Security("x")), Some("https://mirror.invalid/security"));
        assert_eq!(site("Ubuntu https://mirror.invalid\n", Suite::Main("bookworm")), None);
    }
}
