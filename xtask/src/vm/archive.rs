//! The archive that the kernel unpacks as its root: cpio in the form "newc".
//!
//! In: files by their paths in the guest. Out: bytes, equal for equal content. Directories on the way to a file are made by themselves,
//! each once and before what lies in it, as the kernel demands.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use anyhow::{Context, Result, bail};

const DIRECTORY: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_000;
const TRAILER: &str = "TRAILER!!!";

/// An archive that grows.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    paths: BTreeSet<String>,
    directories: BTreeSet<String>,
}

impl Archive {
    /// True if something has this path already.
    pub(super) fn holds(&self, path: &Path) -> bool {
        name(path).is_ok_and(|name| self.paths.contains(&name) || self.directories.contains(&name))
    }

    /// An empty directory.
    pub(super) fn directory(&mut self, path: &Path) -> Result<()> {
        let name = name(path)?;
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for directory in ends.filter_map(|end| name.get(..end)).filter(|part| !part.is_empty()) {
            if self.paths.contains(directory) {
                continue;
            }
            if self.directories.insert(directory.to_owned()) {
                self.entry(directory, DIRECTORY, &[])?;
            }
        }
        Ok(())
    }

    /// A file. The first one of a path stays.
    pub(super) fn file(&mut self, path: &Path, permissions: u32, content: &[u8]) -> Result<()> {
        self.add(path, FILE | (permissions & 0o777), content)
    }

    /// A symbolic link. The first entry of a path stays.
    pub(super) fn link(&mut self, path: &Path, target: &Path) -> Result<()> {
        let target = target.to_str().context("a link to a path that is not UTF-8")?;
        self.add(path, LINK, target.as_bytes())
    }

    /// The archive as the kernel wants it.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.entry(TRAILER, 0, &[])?;
        Ok(self.bytes)
    }

    fn add(&mut self, path: &Path, mode: u32, content: &[u8]) -> Result<()> {
        if self.holds(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        let name = name(path)?;
        self.entry(&name, mode, content)?;
        self.paths.insert(name);
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        let size = u32::try_from(content.len()).with_context(|| format!("{name} is too large"))?;
        let number = u32::try_from(self.paths.len() + self.directories.len()).context("too many files")?;
        let name_size = u32::try_from(name.len() + 1).context("a name is too long")?;
        self.bytes.extend_from_slice(b"070701");
        // Number, mode, owner, group, links, time, size, two devices of two parts, length of the name, checksum.
        let fields = [number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
        Ok(())
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The path without its first slash. Anything but plain names in it is refused.
fn name(path: &Path) -> Result<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(part) => {
                parts.push(part.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?);
            }
            _ => bail!("{} is no plain absolute path", path.display()),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[u8]) -> Vec<String> {
        let hex = |at: usize| {
            let text = std::str::from_utf8(bytes.get(at..at + 8).unwrap()).unwrap();
            usize::from_str_radix(text, 16).unwrap()
        };
        let (mut at, mut names) = (0, Vec::new());
        while at < bytes.len() {
            assert_eq!(bytes.get(at..at + 6), Some(&b"070701"[..]));
            let (size, name_size) = (hex(at + 54), hex(at + 94));
            let name = bytes.get(at + 110..at + 110 + name_size - 1).unwrap();
            names.push(String::from_utf8(name.to_vec()).unwrap());
            at = (at + 110 + name_size).next_multiple_of(4);
            at = (at + size).next_multiple_of(4);
        }
        names
    }

    #[test]
    fn directories_come_once_and_before_their_content() {
        let mut archive = Archive::default();
        archive.file(Path::new("/usr/bin/a"), 0o755, b"12345").unwrap();
        archive.file(Path::new("/usr/bin/b"), 0o755, b"").unwrap();
        archive.file(Path::new("/usr/bin/a"), 0o755, b"another").unwrap();
        archive.link(Path::new("/bin"), Path::new("usr/bin")).unwrap();
        archive.directory(Path::new("/usr/lib")).unwrap();
        let expected = ["usr", "usr/bin", "usr/bin/a", "usr/bin/b", "bin", "usr/lib", TRAILER];
        assert_eq!(names(&archive.finish().unwrap()), expected);
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        let mut archive = Archive::default();
        assert!(archive.file(Path::new("/usr/../etc/passwd"), 0o644, b"").is_err());
    }
}
