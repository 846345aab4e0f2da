//! The file that `--config` names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use switchyard_config::decode::{Decoded, decode};
use switchyard_config::document::MAX_BYTES;

/// Reads a configuration file. Every problem is one line that begins with the file's name.
pub(super) fn read(path: &Path) -> Result<Decoded, Vec<String>> {
    let name = path.display();
    let text = text(path).map_err(|error| vec![format!("{name}: cannot read the configuration: {error}")])?;
    decode(&text).map_err(|problems| problems.iter().map(|problem| format!("{name}: {problem}")).collect())
}

/// At most one byte more than a configuration may have, so that a huge file is noticed and not read.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}
