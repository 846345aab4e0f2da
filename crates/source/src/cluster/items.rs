//! The objects of a list in protobuf, one by one, while its bytes come.
//!
//! In: the answer of an API server, in pieces of any size. Out: the bytes of each object, and at the end the list's version,
//! and what the rest is asked for with, if this is a part. So a list of any length is read with the memory of its largest object.

use std::ops::Range;

use crate::wire::ListMeta;
use crate::wire::protobuf::{Broken, Head, MAGIC, Payload, RAW, decode};

/// Largest object. API servers refuse objects of more than about 3 MiB.
const MAX_OBJECT: u64 = 16 << 20;

/// Fields of a list.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

/// Where the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before everything.
    Magic,
    /// In the envelope around the list.
    Envelope,
    /// In the list, of which so many bytes are left.
    List(u64),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Items {
    place: Place,
    pieces: Vec<u8>,
    /// What is before this in `pieces` is done with.
    at: usize,
    end: Option<End>,
}

/// What a list says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    /// Its version.
    pub(super) version: String,
    /// What to ask for the rest with; empty if there is none.
    pub(super) more: String,
}

impl Items {
    /// Before the first byte.
    pub(super) fn new() -> Self {
        Self { place: Place::Magic, pieces: Vec::new(), at: 0, end: None }
    }

    /// Adds bytes; what [`Self::next`] gave before is gone.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.pieces.drain(..self.at);
        self.at = 0;
        self.pieces.extend_from_slice(piece);
    }

    /// The next object; nothing if more bytes are needed, or if it was the last one.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
        while let Some((head, value)) = self.step()? {
            match (head.field, head.payload) {
                (ITEMS, Payload::Bytes(_)) => return Ok(self.pieces.get(value)),
                (METADATA, Payload::Bytes(_)) => {
                    let meta: ListMeta = decode(self.pieces.get(value).unwrap_or_default());
                    let (version, more) = (meta.resource_version.text(), meta.more.text().to_owned());
                    self.end = (!version.is_empty()).then(|| End { version: version.to_owned(), more });
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Goes behind the next field of the list, if it is all there: its head, and where its value is.
    fn step(&mut self) -> Result<Option<(Head, Range<usize>)>, Broken> {
        loop {
            let rest = self.pieces.get(self.at..).unwrap_or_default();
            let left = match self.place {
                Place::List(0) => {
                    self.place = Place::Envelope;
                    continue;
                }
                Place::Magic if rest.len() < MAGIC.len() => return Ok(None),
                Place::Magic if rest.starts_with(MAGIC) => {
                    self.at += MAGIC.len();
                    self.place = Place::Envelope;
                    continue;
                }
                Place::Magic => return Err(Broken),
                Place::Envelope => u64::MAX,
                Place::List(left) => left,
            };
            let Some(head) = Head::read(rest)? else { return Ok(None) };
            if self.enters(head) {
                continue;
            }
            let whole = u64::try_from(head.length).map_err(|_| Broken)?.saturating_add(head.payload.length());
            if whole > left.min(MAX_OBJECT) {
                return Err(Broken);
            }
            let (begin, end) = (self.at + head.length, self.at + usize::try_from(whole).map_err(|_| Broken)?);
            if end > self.pieces.len() {
                return Ok(None);
            }
            self.at = end;
            if let Place::List(left) = &mut self.place {
                *left -= whole;
                return Ok(Some((head, begin..end)));
            }
        }
    }

    /// Goes on inside of the list, if this is its beginning.
    fn enters(&mut self, head: Head) -> bool {
        match (self.place, head.field, head.payload) {
            (Place::Envelope, RAW, Payload::Bytes(length)) => {
                self.at += head.length;
                self.place = Place::List(length);
                true
            }
            _ => false,
        }
    }

    /// What the list says about itself, if all of it has come.
    pub(super) fn finish(self) -> Option<End> {
        let is_whole = self.place == Place::Envelope && self.at == self.pieces.len();
        self.end.filter(|_| is_whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).expect("seven bits"));
        out.extend_from_slice(bytes);
        out
    }

    /// A list as a server writes it.
    fn list(objects: &[Vec<u8>]) -> Vec<u8> {
        part(objects, b"")
    }

    /// The same with a token for the rest of it.
    fn part(objects: &[Vec<u8>], more: &[u8]) -> Vec<u8> {
        let mut raw = field(1, &[field(1, b""), field(2, b"77"), field(3, more), vec![4 << 3, 5]].concat());
        raw.extend(objects.iter().flat_map(|object| field(2, object)));
        let kind = field(1, &[field(1, b"v1"), field(2, b"ServiceList")].concat());
        [MAGIC.to_vec(), kind, field(2, &raw), field(3, b""), field(4, b"")].concat()
    }

    /// Objects and version, if the list comes in pieces of this size.
    fn read(bytes: &[u8], size: usize) -> Result<(Vec<Vec<u8>>, Option<End>), Broken> {
        let (mut items, mut found) = (Items::new(), Vec::new());
        for piece in bytes.chunks(size) {
            items.push(piece);
            while let Some(item) = items.next()? {
                found.push(item.to_vec());
            }
        }
        Ok((found, items.finish()))
    }

    #[test]
    fn every_object_comes_and_only_a_whole_list_has_a_version() {
        let objects = vec![b"one".to_vec(), Vec::new(), vec![7; 300]];
        let bytes = list(&objects);
        let end = End { version: "77".to_owned(), more: String::new() };
        for size in [1, 2, 3, 7, 100, bytes.len()] {
            assert_eq!(read(&bytes, size), Ok((objects.clone(), Some(end.clone()))));
        }
        // The two empty fields of the envelope are after the list, so what misses only them is whole, too.
        for end in (0..bytes.len()).filter(|end| ![bytes.len() - 2, bytes.len() - 4].contains(end)) {
            let (_, said) = read(&bytes[..end], 5).expect("no broken bytes");
            assert_eq!(said, None, "cut after {end} of {}", bytes.len());
        }
    }

    #[test]
    fn a_part_of_a_list_says_so() {
        let objects = vec![b"one".to_vec()];
        let end = End { version: "77".to_owned(), more: "token".to_owned() };
        assert_eq!(read(&part(&objects, b"token"), 9), Ok((objects, Some(end))));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        assert_eq!(read(b"{\"kind\":\"List\"}", 4), Err(Broken));
        // An object that would be longer than its list, and one that is longer than any object.
        let lies = [MAGIC, &[2 << 3 | 2, 3, 2 << 3 | 2, 100][..]].concat();
        assert_eq!(read(&lies, 1), Err(Broken));
        let huge =
            [MAGIC, &[2 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x7f, 2 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x7f]]
                .concat();
        assert_eq!(read(&huge, 1), Err(Broken));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_are_kept(bytes in proptest::collection::vec(any::<u8>(), 0..300), size in 1_usize..20) {
            let _ = read(&bytes, size);
            let _ = read(&[MAGIC, &bytes].concat(), size);
        }
    }
}
