//! Reading needs no kernel: what is encoded decodes to itself, and any other bytes are survived.

use proptest::prelude::*;

use super::roundtrip::{every_expression, every_set};
use super::ruleset::Ruleset;
use crate::Family;
use crate::message::{Frame, Frames};
use crate::nftables::*;

/// Reads a message as each kind of object.
fn read_all(frame: &Frame<'_>, table: &TableId) -> usize {
    let mut seen = 0;
    seen += usize::from(matches!(objects::read_table(frame), Ok(Some(_))));
    seen += usize::from(matches!(objects::read_chain(frame, table), Ok(Some(_))));
    seen += usize::from(matches!(objects::read_rule(frame, table), Ok(Some(_))));
    seen += usize::from(matches!(objects::read_set(frame, table), Ok(Some(_))));
    let _ = objects::read_elements(frame, &mut |_| seen += 1);
    seen
}

fn all() -> Vec<Ruleset> {
    [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| [every_expression(family), every_set(family)])
        .collect()
}

#[test]
fn what_is_encoded_decodes_to_itself() {
    for ruleset in all() {
        let id = &ruleset.table.id;
        let mut read = Ruleset::empty(id.family, &id.name);
        let batch = ruleset.batch();
        let mut set = None;
        for frame in Frames::new(batch.bytes()) {
            let frame = frame.unwrap();
            match frame.netfilter_kind() {
                (SUBSYSTEM, 0) => read.table = objects::read_table(&frame).unwrap().unwrap(),
                (SUBSYSTEM, 3) => _ = read.chains.insert(objects::read_chain(&frame, id).unwrap().unwrap()),
                (SUBSYSTEM, 6) => {
                    let rule = objects::read_rule(&frame, id).unwrap().unwrap();
                    read.rules.entry(rule.chain.clone()).or_default().push(rule);
                }
                (SUBSYSTEM, 9) => {
                    let new = objects::read_set(&frame, id).unwrap().unwrap();
                    read.sets.insert(new.clone(), std::collections::BTreeSet::new());
                    set = Some(new);
                }
                (SUBSYSTEM, 12) => {
                    let elements = read.sets.get_mut(set.as_ref().unwrap()).unwrap();
                    objects::read_elements(&frame, &mut |element| _ = elements.insert(element)).unwrap();
                }
                (0, 16 | 17) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read, ruleset);
    }
}

proptest! {
    #[test]
    fn random_messages_never_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let frame = Frame { kind: 0, flags: 0, sequence: 0, port: 0, body: &body };
        let _ = read_all(&frame, &TableId::new(Family::V4, "t"));
    }

    #[test]
    fn random_user_data_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = (userdata::read_set(&bytes), userdata::read_comment(&bytes));
    }

    #[test]
    fn mutated_messages_never_panic(which in 0usize..4, changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..20), cut in any::<u16>()) {
        let ruleset = all().swap_remove(which);
        let batch = ruleset.batch();
        let mut bytes = batch.bytes().to_vec();
        for frame in Frames::new(batch.bytes()).flatten() {
            let cut = frame.body.get(..usize::from(cut) % (frame.body.len() + 1)).unwrap();
            let _ = read_all(&Frame { body: cut, ..frame }, &ruleset.table.id);
        }
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[usize::from(at) % length] = byte;
        }
        for frame in Frames::new(&bytes).flatten() {
            let _ = read_all(&frame, &ruleset.table.id);
        }
    }
}
