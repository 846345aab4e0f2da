//! What an image holds, by path.
//!
//! In: files of this machine. Out: the same files at their places in the image, with the libraries that they are linked to.
//!
//! `/bin`, `/sbin`, `/lib` and `/lib64` are links into `/usr`, as on Debian: libraries are found under the paths that programs
//! have in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::vm::tool;

const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// One thing in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A directory that everybody can enter.
    Directory,
    /// A program or a library: everybody may read and run it.
    File(Vec<u8>),
    /// A symbolic link.
    Link(String),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// By path, without the first slash. Every directory on the way is there, too.
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// With the links into `/usr`, and nothing else.
    pub(super) fn merged() -> Self {
        let mut tree = Self::default();
        for name in MERGED {
            tree.directory(&format!("/usr/{name}"));
            tree.link(&format!("/{name}"), &format!("usr/{name}"));
        }
        tree
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn directory(&mut self, path: &str) {
        self.insert(path, Entry::Directory);
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.insert(path, Entry::Link(target.to_owned()));
    }

    /// A program at another place than here, and its libraries.
    pub(super) fn program(&mut self, from: &Path, to: &str) -> Result<()> {
        self.file(from, to)?;
        self.libraries(from)
    }

    /// A program of this machine, found by its name, under its real path and this name.
    pub(super) fn installed(&mut self, name: &str) -> Result<()> {
        let found = tool::find(name).with_context(|| format!("no program {name}; install iptables"))?;
        let real = fs::canonicalize(&found)?;
        let place = below_usr(&real);
        self.program(&real, &place)?;
        let name = format!("/usr/sbin/{name}");
        if name != place {
            self.link(&name, &place);
        }
        Ok(())
    }

    /// Libraries under the names that the loader asks for, and extensions of iptables with theirs.
    fn libraries(&mut self, of: &Path) -> Result<()> {
        for library in tool::libraries(of)? {
            let place = below_usr(&library);
            if self.entries.contains_key(place.trim_start_matches('/')) {
                continue;
            }
            self.file(&library, &place)?;
            let extensions = fs::canonicalize(&library)?.with_file_name("xtables");
            if is_xtables(&library) && extensions.is_dir() {
                for entry in fs::read_dir(extensions)? {
                    let extension = entry?.path();
                    self.program(&extension, &below_usr(&extension))?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &str) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.insert(to, Entry::File(bytes));
        Ok(())
    }

    fn insert(&mut self, path: &str, entry: Entry) {
        let path = path.trim_start_matches('/');
        for (at, _) in path.match_indices('/') {
            let above = path.get(..at).unwrap_or_default().to_owned();
            self.entries.entry(above).or_insert(Entry::Directory);
        }
        self.entries.insert(path.to_owned(), entry);
    }
}

fn is_xtables(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libxtables.so"))
}

/// The path in an image of a file of this machine.
fn below_usr(path: &Path) -> String {
    let is_merged = MERGED.iter().any(|name| path.starts_with(PathBuf::from("/").join(name)));
    let path = path.to_string_lossy();
    if is_merged { format!("/usr{path}") } else { path.into_owned() }
}
