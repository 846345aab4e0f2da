//! Who has which memory, as a pprof profile.
//!
//! In: call stacks with amounts. Out: pprof's `Profile`, compressed, with the four values of Go's heap profile: objects and
//! bytes that were allocated, and that are in use. What is in use is shown first, or for `allocs` what was allocated.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::mappings::{Mapping, mappings};
use super::proto::{Message, nanoseconds, value_type};

/// Objects and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub objects: u64,
    /// How large they are together.
    pub bytes: u64,
}

/// Who allocated, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Where each call returns to, the innermost first.
    pub addresses: Vec<u64>,
    /// All since the start.
    pub allocated: Amount,
    /// What was not freed.
    pub in_use: Amount,
}

/// A function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The file it is written in; empty if that is not known.
    pub file: String,
    /// The line of that file; 0 if that is not known.
    pub line: u32,
}

/// Who has which memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Who.
    pub stacks: Vec<Stack>,
    /// The functions at each address, the innermost first if calls were inlined.
    pub functions: BTreeMap<u64, Vec<Function>>,
    /// Mean distance of two samples, in bytes.
    pub interval: u64,
    /// Samples that are missing.
    pub lost: u64,
}

/// Which value is shown unless one is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Memory in use.
    InUse,
    /// All memory since the start.
    Allocated,
}

/// Texts of a profile by their numbers.
#[derive(Default)]
struct Texts<'a> {
    numbers: BTreeMap<&'a str, u64>,
    list: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> u64 {
        let next = u64::try_from(self.list.len()).unwrap_or_default();
        *self.numbers.entry(text).or_insert_with(|| {
            self.list.push(text);
            next
        })
    }
}

/// The profile, compressed.
pub(super) fn profile(heap: &Heap, view: View, now: SystemTime) -> Vec<u8> {
    let bytes = encode(heap, &mappings(), view, now);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail; if it did, tools read what is not compressed too.
    match encoder.write_all(&bytes).and_then(|()| encoder.finish()) {
        Ok(compressed) => compressed,
        Err(_) => bytes,
    }
}

fn encode(heap: &Heap, mappings: &[Mapping], view: View, now: SystemTime) -> Vec<u8> {
    let mut texts = Texts::default();
    // The first text of a profile is the empty one.
    texts.number("");
    let mut profile = Message::default();
    for (kind, unit) in [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ] {
        profile.message(1, &value_type(texts.number(kind), texts.number(unit)));
    }
    let mut places = BTreeMap::new();
    for Stack { addresses, allocated, in_use } in &heap.stacks {
        let mut sample = Message::default();
        let mut place = |address: &u64| {
            let next = u64::try_from(places.len()).unwrap_or_default() + 1;
            *places.entry(*address).or_insert(next)
        };
        sample.numbers(1, &addresses.iter().map(&mut place).collect::<Vec<_>>());
        sample.numbers(2, &[allocated.objects, allocated.bytes, in_use.objects, in_use.bytes]);
        profile.message(2, &sample);
    }
    for (mapping, id) in mappings.iter().zip(1..) {
        profile.message(3, &mapped(mapping, id, &mut texts));
    }
    let mut functions = BTreeMap::new();
    for (address, id) in &places {
        let here = heap.functions.get(address).map_or(&[][..], Vec::as_slice);
        profile.message(4, &location(*id, *address, mappings, here, &mut functions));
    }
    for ((name, file), id) in &functions {
        let mut function = Message::default();
        function.number(1, *id);
        // Without a name for the linker: pprof would take this one for it, and cut it as if it were C++.
        function.number(2, texts.number(name));
        function.number(4, texts.number(file));
        profile.message(5, &function);
    }
    let lost = format!("{} samples are missing, because there were too many", heap.lost);
    let comment = (heap.lost > 0).then(|| texts.number(&lost));
    let space = value_type(texts.number("space"), texts.number("bytes"));
    let shown = match view {
        View::InUse => texts.number("inuse_space"),
        View::Allocated => texts.number("alloc_space"),
    };
    for text in &texts.list {
        profile.text(6, text);
    }
    profile.number(9, nanoseconds(now.duration_since(UNIX_EPOCH).unwrap_or_default()));
    profile.message(11, &space);
    profile.number(12, heap.interval);
    comment.into_iter().for_each(|comment| profile.numbers(13, &[comment]));
    profile.number(14, shown);
    profile.bytes()
}

fn mapped<'a>(mapping: &'a Mapping, id: u64, texts: &mut Texts<'a>) -> Message {
    let mut message = Message::default();
    message.number(1, id);
    message.number(2, mapping.start);
    message.number(3, mapping.end);
    message.number(4, mapping.offset);
    message.number(5, texts.number(&mapping.file));
    // Names are in the profile: nobody has to look for the binary.
    message.number(7, 1);
    message
}

/// The message `Location`; its functions get numbers if they have none yet.
fn location<'a>(
    id: u64,
    address: u64,
    mappings: &[Mapping],
    here: &'a [Function],
    functions: &mut BTreeMap<(&'a str, &'a str), u64>,
) -> Message {
    // The instruction of the call is before the one that it returns to.
    let call = address.saturating_sub(1);
    let mut message = Message::default();
    message.number(1, id);
    let is_here = |mapping: &Mapping| (mapping.start..mapping.end).contains(&call);
    if let Some((_, mapping)) = mappings.iter().zip(1..).find(|(mapping, _)| is_here(mapping)) {
        message.number(2, mapping);
    }
    message.number(3, call);
    for function in here {
        let next = u64::try_from(functions.len()).unwrap_or_default() + 1;
        let mut line = Message::default();
        line.number(1, *functions.entry((&function.name, &function.file)).or_insert(next));
        line.number(2, u64::from(function.line));
        message.message(4, &line);
    }
    message
}
