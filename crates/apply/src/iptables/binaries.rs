//! Finds the programs and asks for their version.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchyard_model::Family;

use super::exec::{Invocation, Output};
use super::version::{self, Version};
use super::{IptablesError, Variant};
use crate::printable::bounded;

const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The three programs of one family and variant.
#[derive(Clone, Debug)]
pub(super) struct Binaries {
    pub(super) iptables: PathBuf,
    pub(super) save: PathBuf,
    pub(super) restore: PathBuf,
}

/// `PATH` and then the usual directories, which an unprivileged `PATH` lacks.
pub fn default_dirs() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = env::split_paths(&path).collect();
    dirs.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    // A relative entry would run whatever lies in the current directory.
    dirs.retain(|dir| dir.is_absolute());
    dirs
}

/// `iptables` or `ip6tables`.
pub(super) fn base_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// The first executable file of that name.
pub(super) fn find(dirs: &[PathBuf], name: &str) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    dirs.iter().map(|dir| dir.join(name)).find(executable)
}

impl Binaries {
    /// The programs named after the variant, or else the plain ones if their version says that they are of it.
    pub(super) fn find(
        dirs: &[PathBuf],
        family: Family,
        variant: Variant,
    ) -> Result<(Self, Version), IptablesError> {
        let base = base_name(family);
        let named = format!("{base}-{}", variant.as_str());
        let (prefix, main) = match (find(dirs, &named), find(dirs, base)) {
            (Some(main), _) => (named, main),
            (None, Some(main)) => (base.to_owned(), main),
            (None, None) => return Err(missing(dirs, &named)),
        };
        let (version, found) = ask_version(&main)?;
        if found != variant {
            return Err(missing(dirs, &format!("{base}-{}", variant.as_str())));
        }
        if version < Version::OLDEST {
            return Err(IptablesError::TooOld { program: shown(&main), version });
        }
        let companion = |kind: &str| {
            let name = format!("{prefix}-{kind}");
            find(dirs, &name).ok_or_else(|| missing(dirs, &name))
        };
        Ok((Self { iptables: main, save: companion("save")?, restore: companion("restore")? }, version))
    }
}

/// Runs `PROGRAM --version`.
pub(super) fn ask_version(program: &Path) -> Result<(Version, Variant), IptablesError> {
    let invocation = Invocation {
        program,
        args: vec!["--version".to_owned()],
        input: None,
        output: Output::Keep { limit: 64 * 1024 },
        timeout: VERSION_TIMEOUT,
        env: None,
        children: None,
    };
    let command = invocation.shown();
    let finished = invocation.run().map_err(|reason| IptablesError::not_finished(command, reason))?;
    version::parse(&String::from_utf8_lossy(&finished.stdout)).ok_or_else(|| {
        IptablesError::VersionUnreadable { program: shown(program), text: bounded(&finished.stdout, 200) }
    })
}

pub(super) fn missing(dirs: &[PathBuf], name: &str) -> IptablesError {
    let searched: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    IptablesError::BinaryMissing {
        name: name.to_owned(),
        searched: bounded(searched.join(":").as_bytes(), 500),
    }
}

fn shown(program: &Path) -> String {
    bounded(program.to_string_lossy().as_bytes(), 300)
}
