//! Which files there are, whether they changed, and their text.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// More files than this are not read; somebody pointed us at the wrong directory.
const MAX_FILES: usize = 10_000;
/// A file that changed this short a time ago may change again without its time stamp moving.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// The stamp of a file, which links are followed to.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        Ok(Self { inode: inode(&metadata), bytes: metadata.len(), modified: metadata.modified().ok() })
    }

    /// True if an equal stamp later means an equal file.
    pub(super) fn is_settled(&self, now: SystemTime) -> bool {
        self.modified.is_some_and(|at| now.duration_since(at).is_ok_and(|age| age > SETTLED_AFTER))
    }
}

/// The number of a file within its file system; a replaced file has another one.
#[cfg(unix)]
pub(super) fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

/// The number of a file within its file system, which this system does not tell.
#[cfg(not(unix))]
pub(super) fn inode(_: &Metadata) -> u64 {
    0
}

/// All manifest files of a path, in order: the path itself if it is a file, otherwise the files of the directory and of
/// its direct subdirectories. Hidden entries are skipped, and with them the `..data` machinery of ConfigMap volumes.
pub(super) fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let metadata = path.metadata()?;
    if metadata.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !metadata.is_dir() {
        return Err(io::Error::other("neither a file nor a directory"));
    }
    let mut files = Vec::new();
    list_directory(path, &mut files)?;
    for directory in subdirectories(path) {
        match list_directory(&directory, &mut files) {
            // It went away while we looked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    files.sort();
    Ok(files)
}

/// The direct subdirectories that are not hidden.
pub(super) fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| !is_hidden(path) && path.is_dir()).collect()
}

fn list_directory(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        // What cannot be examined is listed, so that reading it tells why; a dangling link is as good as deleted.
        let may_be_file =
            path.metadata().map_or_else(|e| e.kind() != io::ErrorKind::NotFound, |m| m.is_file());
        if is_hidden(&path) || !has_manifest_extension(&path) || !may_be_file {
            continue;
        }
        if files.len() >= MAX_FILES {
            return Err(io::Error::other(format!("there are more than {MAX_FILES} files")));
        }
        files.push(path);
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn has_manifest_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// The text of a file, or what is wrong with it and what to do.
pub(super) fn read(path: &Path, max_bytes: u64) -> Result<String, String> {
    let unreadable =
        |error: io::Error| format!("it cannot be read ({error}); check that it is readable for us");
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max_bytes {
        return Err(format!("it is larger than {max_bytes} bytes; split it into several files"));
    }
    String::from_utf8(bytes).map_err(|error| {
        format!("it is not UTF-8 text (byte {}); save it as UTF-8", error.utf8_error().valid_up_to())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settled_only_if_its_time_is_past() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let stamp = Stamp { inode: 1, bytes: 2, modified: Some(at) };
        let hours = Duration::from_secs(7 * 3600);
        assert!(!stamp.is_settled(at) && !stamp.is_settled(at + SETTLED_AFTER));
        assert!(stamp.is_settled(at + hours));
        // The clock went back: the file is read each time, until its time has come.
        assert!(!stamp.is_settled(at - hours) && !stamp.is_settled(SystemTime::UNIX_EPOCH));
        assert!(!Stamp { modified: None, ..stamp }.is_settled(at + hours));
    }
}
