//! Tar archives in the POSIX form (ustar), of nothing but content: no times, everything root's.

use anyhow::{Context, Result, bail};

use super::tree::{Entry, Tree};

const BLOCK: usize = 512;

/// The archive of a tree.
pub(super) fn pack(tree: &Tree) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for (path, entry) in tree.entries() {
        match entry {
            Entry::Directory => archive.add(&format!("{path}/"), b'5', 0o755, "", &[])?,
            Entry::File(bytes) => archive.add(path, b'0', 0o755, "", bytes)?,
            Entry::Link(target) => archive.add(path, b'2', 0o777, target, &[])?,
        }
    }
    Ok(archive.finish())
}

/// An archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Archive(Vec<u8>);

impl Archive {
    /// A plain file that everybody can read.
    pub(super) fn file(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.add(path, b'0', 0o644, "", bytes)
    }

    fn add(&mut self, path: &str, kind: u8, mode: u32, target: &str, bytes: &[u8]) -> Result<()> {
        let mut header = Header::default();
        let (prefix, name) = split(path)?;
        header.text(0, 100, name)?;
        header.octal(100, 8, u64::from(mode));
        header.octal(108, 8, 0);
        header.octal(116, 8, 0);
        header.octal(124, 12, u64::try_from(bytes.len())?);
        header.octal(136, 12, 0);
        header.text(156, 1, char::from(kind).encode_utf8(&mut [0; 4]))?;
        header.text(157, 100, target)?;
        header.text(257, 8, "ustar\u{0}00")?;
        header.octal(329, 8, 0);
        header.octal(337, 8, 0);
        header.text(345, 155, prefix)?;
        self.0.extend(header.finish());
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

/// A long path is kept in two parts, which a slash divides.
fn split(path: &str) -> Result<(&str, &str)> {
    if path.len() <= 100 {
        return Ok(("", path));
    }
    let slashes = path.match_indices('/').map(|(at, _)| at);
    let parts = slashes.filter_map(|at| Some((path.get(..at)?, path.get(at + 1..)?)));
    parts
        .into_iter()
        .find(|(prefix, name)| prefix.len() <= 155 && (1..=100).contains(&name.len()))
        .with_context(|| format!("{path} is too long for the archive"))
}

#[derive(Debug)]
struct Header([u8; BLOCK]);

impl Default for Header {
    fn default() -> Self {
        Self([0; BLOCK])
    }
}

impl Header {
    fn text(&mut self, at: usize, length: usize, text: &str) -> Result<()> {
        let field = self.0.get_mut(at..at + length).and_then(|field| field.get_mut(..text.len()));
        match field {
            Some(field) => field.copy_from_slice(text.as_bytes()),
            None => bail!("{text} is too long for the archive"),
        }
        Ok(())
    }

    /// Digits, and a zero byte behind them.
    fn octal(&mut self, at: usize, length: usize, number: u64) {
        let digits = format!("{number:0width$o}", width = length - 1);
        for (byte, digit) in self.0.iter_mut().skip(at).zip(digits.bytes()) {
            *byte = digit;
        }
    }

    /// With the sum of all bytes, where the sum itself counts as blanks.
    fn finish(mut self) -> [u8; BLOCK] {
        let blanks = 8 * u64::from(b' ');
        let sum: u64 = self.0.iter().map(|byte| u64::from(*byte)).sum::<u64>() + blanks;
        self.octal(148, 7, sum);
        for byte in self.0.iter_mut().skip(155).take(1) {
            *byte = b' ';
        }
        self.0
    }
}
