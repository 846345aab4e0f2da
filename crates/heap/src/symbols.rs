//! Names of functions for addresses of this program.
//!
//! In: addresses of a stack. Out: the functions there, as far as the binary's symbols tell. Slow at the first address, as the
//! binary is read then; what was read is dropped before the end.

use std::collections::{BTreeMap, BTreeSet};

/// Longest name; those of closures in generic functions have no limit of their own.
const MAX_NAME: usize = 400;

/// A function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its full name.
    pub name: String,
    /// The file it is written in; empty if the binary does not know.
    pub file: String,
    /// The line of that file; 0 if the binary does not know.
    pub line: u32,
}

/// The functions at each address: more than one where calls were inlined, then the innermost is the first.
pub fn functions(addresses: &BTreeSet<usize>) -> BTreeMap<usize, Vec<Function>> {
    let found = addresses.iter().map(|address| (*address, at(*address))).collect();
    backtrace::clear_symbol_cache();
    found
}

fn at(address: usize) -> Vec<Function> {
    let mut functions = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        let Some(name) = symbol.name() else { return };
        let file = symbol.filename().map(|file| file.display().to_string()).unwrap_or_default();
        // Without the hash at its end, which says nothing to people.
        let name = format!("{name:#}").chars().take(MAX_NAME).collect();
        functions.push(Function { name, file, line: symbol.lineno().unwrap_or_default() });
    });
    functions
}
