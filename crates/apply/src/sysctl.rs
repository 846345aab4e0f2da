//! Kernel settings as files.
//!
//! In: a name such as `net/ipv4/conf/all/route_localnet` and a value. Out: the value, or a [`SysctlError`] that names
//! the file. The root directory is a value, so that tests and `/sys/module` parameters use the same code.
//!
//! Invariants
//! - A name can never leave the root directory.
//! - A value is one line; what the kernel hands out is read up to [`MAX_VALUE`] bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::printable::bounded;

/// Longest value that is read; longer ones are refused, not cut.
pub const MAX_VALUE: usize = 4096;

/// Why a setting could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// The name is empty, absolute, or has a part that is not a plain file name.
    #[error(
        "sysctl name {name:?} is not a relative path of plain names; use a name like net/ipv4/ip_forward"
    )]
    BadName {
        /// The name as given, escaped.
        name: String,
    },
    /// The value has a line break or a NUL, or is too long.
    #[error("value for {} is not one line of at most {MAX_VALUE} bytes", path.display())]
    BadValue {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// The kernel has no such setting.
    #[error("{} does not exist; load the kernel module that offers it", path.display())]
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The process may not read or write the file, or `/proc/sys` is mounted read-only.
    #[error("no permission for {}; run privileged, or set the value on the host beforehand", path.display())]
    Permission {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Anything else, for example a value that the kernel refuses.
    #[error("cannot {verb} {}; check that the value suits this kernel", path.display())]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Whether a setting had to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The file held another value, or could not be read.
    Changed,
    /// The file held the value already; nothing was written.
    Unchanged,
}

/// A directory of settings.
#[derive(Clone, Debug)]
pub struct Sysctl {
    root: PathBuf,
}

impl Default for Sysctl {
    /// The settings of the running kernel, `/proc/sys`.
    fn default() -> Self {
        Self::in_dir("/proc/sys")
    }
}

impl Sysctl {
    /// Settings below another directory.
    pub fn in_dir(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The value without surrounding white space.
    pub fn read(&self, name: &str) -> Result<String, SysctlError> {
        let path = self.path(name)?;
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(MAX_VALUE as u64 + 1).read_to_end(&mut bytes))
            .map_err(|source| failure("read", &path, source))?;
        if bytes.len() > MAX_VALUE {
            return Err(failure("read", &path, io::Error::from(io::ErrorKind::FileTooLarge)));
        }
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Writes the value without reading first.
    pub fn write(&self, name: &str, value: &str) -> Result<(), SysctlError> {
        let path = self.path(name)?;
        if value.len() > MAX_VALUE || value.contains(['\n', '\0']) {
            return Err(SysctlError::BadValue { path });
        }
        // No create: a missing setting must stay an error when the root is an ordinary directory.
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(value.as_bytes()))
            .map_err(|source| failure("write", &path, source))
    }

    /// Writes the value unless the file holds it. A read that fails counts as different, as in kube-proxy: the
    /// write then reports the reason.
    pub fn set_if_different(&self, name: &str, value: &str) -> Result<Written, SysctlError> {
        if self.read(name).is_ok_and(|current| current == value.trim()) {
            return Ok(Written::Unchanged);
        }
        self.write(name, value)?;
        Ok(Written::Changed)
    }

    fn path(&self, name: &str) -> Result<PathBuf, SysctlError> {
        let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
        if name.split('/').all(plain) {
            Ok(self.root.join(name))
        } else {
            Err(SysctlError::BadName { name: bounded(name.as_bytes(), 200) })
        }
    }
}

fn failure(verb: &'static str, path: &Path, source: io::Error) -> SysctlError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => SysctlError::Missing { path },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            SysctlError::Permission { path, source }
        }
        _ => SysctlError::Io { verb, path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (tempfile::TempDir, Sysctl) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("net/ipv4")).unwrap();
        std::fs::write(dir.path().join("net/ipv4/ip_forward"), "0\n").unwrap();
        let sysctl = Sysctl::in_dir(dir.path());
        (dir, sysctl)
    }

    #[test]
    fn writes_only_what_differs() {
        let (_dir, sysctl) = fixture();
        assert_eq!(sysctl.set_if_different("net/ipv4/ip_forward", "0").unwrap(), Written::Unchanged);
        assert_eq!(sysctl.set_if_different("net/ipv4/ip_forward", "1").unwrap(), Written::Changed);
        assert_eq!(sysctl.read("net/ipv4/ip_forward").unwrap(), "1");
    }

    #[test]
    fn names_cannot_leave_the_root() {
        let (_dir, sysctl) = fixture();
        for name in ["", "/etc/passwd", "../x", "net/../../x", "net//x", "a\0b"] {
            assert!(matches!(sysctl.read(name), Err(SysctlError::BadName { .. })), "{name:?}");
            assert!(matches!(sysctl.write(name, "1"), Err(SysctlError::BadName { .. })), "{name:?}");
        }
    }

    #[test]
    fn errors_name_the_file() {
        let (_dir, sysctl) = fixture();
        let missing = sysctl.set_if_different("net/ipv4/nothing", "1").unwrap_err();
        assert!(matches!(missing, SysctlError::Missing { .. }));
        assert!(missing.to_string().contains("net/ipv4/nothing"), "{missing}");
        assert!(matches!(sysctl.write("net/ipv4/ip_forward", "1\n2"), Err(SysctlError::BadValue { .. })));
        assert!(matches!(sysctl.read("net/ipv4"), Err(SysctlError::Io { verb: "read", .. })));
    }

    #[test]
    fn oversized_values_are_refused() {
        let (dir, sysctl) = fixture();
        std::fs::write(dir.path().join("big"), vec![b'x'; MAX_VALUE + 1]).unwrap();
        assert!(matches!(sysctl.read("big"), Err(SysctlError::Io { .. })));
    }

    #[test]
    fn the_running_kernel_is_readable() {
        assert!(!Sysctl::default().read("kernel/osrelease").unwrap().is_empty());
    }
}
