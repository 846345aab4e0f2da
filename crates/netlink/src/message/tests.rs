//! Messages are framed and padded as the kernel wants them, read back as written, and survive any bytes.

use proptest::prelude::*;

use super::*;
use crate::attribute::Attributes;

#[test]
fn nested_attributes_have_closed_lengths_and_padding() {
    let mut message = Message::netfilter(1, 2, NLM_F_ACK, 2);
    message.nest(1, |m| {
        m.put(1, &[7]).put_be16(2, 0x1234);
    });
    let bytes = message.finish(9, 0).unwrap();
    #[rustfmt::skip]
    let wanted: Vec<u8> = [
        &40u32.to_ne_bytes()[..], &0x0102u16.to_ne_bytes(), &5u16.to_ne_bytes(), &9u32.to_ne_bytes(), &[0; 4],
        &[2, 0, 0, 0],
        &20u16.to_ne_bytes(), &(NLA_F_NESTED | 1).to_ne_bytes(),
        &5u16.to_ne_bytes(), &1u16.to_ne_bytes(), &[7, 0, 0, 0],
        &6u16.to_ne_bytes(), &2u16.to_ne_bytes(), &[0x12, 0x34, 0, 0],
    ].concat();
    assert_eq!(bytes, wanted);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut long = Message::new(1, 0, &[]);
    long.put(1, &vec![0; 70_000]);
    assert!(long.finish(1, 0).is_err());
    let mut nul = Message::new(1, 0, &[]);
    nul.put_text(1, "a\0b");
    assert!(nul.finish(1, 0).is_err());
}

/// Reads everything that can be read, three levels deep.
fn walk(attributes: Attributes<'_>, depth: u8) {
    for attribute in attributes.flatten() {
        let _ = (attribute.u8(), attribute.be16(), attribute.be32(), attribute.u32(), attribute.be64());
        let _ = (attribute.text(), attribute.ip());
        if depth > 0 {
            walk(attribute.nested(), depth - 1);
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_always_end(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        for frame in Frames::new(&bytes).flatten() {
            if let Ok((_, attributes)) = frame.split::<4>() {
                walk(attributes, 3);
            }
        }
        walk(Attributes::new(&bytes), 3);
    }

    #[test]
    fn what_is_written_is_read_back(values in proptest::collection::vec((1u16..100, proptest::collection::vec(any::<u8>(), 0..40)), 0..20)) {
        let mut message = Message::new(77, 0, &[1, 2, 3, 4]);
        for (kind, value) in &values {
            message.put(*kind, value);
        }
        let bytes = message.finish(5, 0).unwrap();
        let frame = Frames::new(&bytes).next().unwrap().unwrap();
        let (fixed, attributes) = frame.split::<4>().unwrap();
        let read: Vec<_> = attributes.map(|a| a.unwrap()).map(|a| (a.kind, a.value.to_vec())).collect();
        prop_assert_eq!(fixed, [1, 2, 3, 4]);
        prop_assert_eq!(read, values);
    }

    #[test]
    fn every_truncation_is_an_error_or_shorter(cut in 0usize..60) {
        let mut message = Message::new(77, 0, &[1, 2, 3, 4]);
        message.put(1, &[1; 8]).put(2, &[2; 20]);
        let bytes = message.finish(5, 0).unwrap();
        let frame = Frames::new(&bytes[..cut.min(bytes.len() - 1)]).next();
        prop_assert!(!matches!(frame, Some(Ok(_))));
    }
}
