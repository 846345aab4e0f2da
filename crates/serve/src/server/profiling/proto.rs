//! As much of the protocol buffers' wire format as a profile needs: numbers, packed numbers, text, nested messages; and
//! what all profiles have in common.

use std::time::Duration;

/// A message in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// How a field's value is laid out.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Length = 2,
}

impl Message {
    pub(super) fn number(&mut self, field: u8, value: u64) {
        self.key(field, Wire::Varint);
        varint(&mut self.0, value);
    }

    pub(super) fn numbers(&mut self, field: u8, values: &[u64]) {
        let mut packed = Vec::new();
        for value in values {
            varint(&mut packed, *value);
        }
        self.delimited(field, &packed);
    }

    pub(super) fn text(&mut self, field: u8, text: &str) {
        self.delimited(field, text.as_bytes());
    }

    pub(super) fn message(&mut self, field: u8, message: &Self) {
        self.delimited(field, &message.0);
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.0
    }

    fn delimited(&mut self, field: u8, bytes: &[u8]) {
        self.key(field, Wire::Length);
        varint(&mut self.0, u64::try_from(bytes.len()).unwrap_or_default());
        self.0.extend_from_slice(bytes);
    }

    fn key(&mut self, field: u8, wire: Wire) {
        varint(&mut self.0, u64::from(field) << 3 | wire as u64);
    }
}

/// Seven bits at a time, the lowest first; the highest bit says that more follow.
fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// pprof's `ValueType`: the numbers of two texts.
pub(super) fn value_type(kind: u64, unit: u64) -> Message {
    let mut message = Message::default();
    message.number(1, kind);
    message.number(2, unit);
    message
}

/// A time as profiles have it.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_specification() {
        let mut inner = Message::default();
        inner.number(1, 150);
        let mut message = Message::default();
        message.message(3, &inner);
        message.text(2, "testing");
        message.numbers(6, &[3, 270, 86942]);
        let want = [
            0x1a, 0x03, 0x08, 0x96, 0x01, 0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g', 0x32, 0x06,
            0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05,
        ];
        assert_eq!(message.bytes(), want);
    }
}
