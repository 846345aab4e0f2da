//! Looking elements up by key, and counting them.

use std::collections::BTreeMap;

use nix::errno::Errno;

use super::ruleset::{Ruleset, constant_size, frontend};
use crate::message::{Message, NLM_F_ACK};
use crate::nftables::*;
use crate::testing::namespace_or_skip;
use crate::{Family, NetlinkError};

const V4: Family = Family::V4;
/// More than the kernel takes in one datagram of questions, and no multiple of it.
const MANY: u32 = 1000;

fn element(n: u32) -> Element {
    let key = Value::new(&(0x0a60_0000 + n).to_be_bytes()).protocol(6).port(80);
    Element::mapped(key, Value::new(&n.to_be_bytes()).port(8080))
}

/// A map of every second of [`MANY`] elements.
fn half(nft: &mut Nft) -> TableId {
    let id = TableId::new(V4, "t");
    let mut batch = Batch::new();
    batch.add_table(&Table::new(id.clone()));
    let data = SetData::Value(Fields::Typeof(vec![Selector::Ipv4Destination, Selector::DestinationPort]));
    batch.add_set(&id, &Set::new("m", Fields::Typeof(frontend(V4)), data));
    batch.add_elements(&id, "m", &(0..MANY).step_by(2).map(element).collect::<Vec<_>>());
    nft.commit(&batch).unwrap();
    id
}

fn find(nft: &mut Nft, id: &TableId, set: &str, keys: &[Element]) -> Vec<Option<Element>> {
    let mut found = Vec::new();
    nft.find_elements(id, set, keys, &mut |index, element| {
        assert_eq!(index, found.len());
        found.push(element);
    })
    .unwrap();
    found
}

#[test]
fn known_keys_are_found_and_missing_ones_told() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let id = half(&mut nft);
            let keys: Vec<_> = (0..MANY).map(|n| Element::new(element(n).key)).collect();
            let wanted: Vec<_> = (0..MANY).map(|n| (n % 2 == 0).then(|| element(n))).collect();
            assert_eq!(find(&mut nft, &id, "m", &keys), wanted);
            assert_eq!(find(&mut nft, &id, "other", &keys[..3]), [None, None, None]);
            assert_eq!(find(&mut nft, &id, "m", &[]), []);
            // A buffer that holds the answers to few keys only: the others are asked again.
            nft.socket.enlarge(4096);
            assert_eq!(find(&mut nft, &id, "m", &keys), wanted);
            // Neither lookup confuses what comes next.
            assert_eq!(nft.tables(V4).unwrap().len(), 1);
            // A key of another length is no key of this map.
            let wrong = nft.find_elements(&id, "m", [&Element::new(Value::new(&[1; 4]))], &mut |_, _| ());
            assert_eq!(wrong.unwrap_err().errno(), Some(Errno::EINVAL));
        })
        .unwrap();
}

#[test]
fn every_element_of_every_kind_of_set_is_found() {
    for family in [Family::V4, Family::V6] {
        let Some(namespace) = namespace_or_skip() else { return };
        namespace
            .run(|| {
                let mut nft = Nft::open().unwrap();
                for ruleset in [constant_size(family), super::roundtrip::every_set(family)] {
                    nft.commit(&ruleset.batch()).unwrap();
                    let id = &ruleset.table.id;
                    let is_plain = |e: &&Element| matches!(e.extent, Extent::Key | Extent::Through(_));
                    for (set, elements) in &ruleset.sets {
                        let keys: Vec<Element> = elements.iter().filter(is_plain).cloned().collect();
                        let wanted: Vec<_> = keys.iter().cloned().map(Some).collect();
                        assert_eq!(find(&mut nft, id, &set.name, &keys), wanted, "{set:?}");
                    }
                    assert_counted(&mut nft, &ruleset);
                }
            })
            .unwrap();
    }
}

/// The kernel either counts nothing or counts right.
fn assert_counted(nft: &mut Nft, ruleset: &Ruleset) {
    let counts = nft.element_counts(&ruleset.table.id).unwrap();
    if counts.is_empty() {
        return;
    }
    // In a set of intervals without concatenation both ends of one count as one.
    let is_exact = |set: &&Set| !set.flags.contains(SetFlags::INTERVAL);
    for (set, elements) in ruleset.sets.iter().filter(|(set, _)| is_exact(set)) {
        let wanted = elements.iter().filter(|element| element.extent != Extent::Rest).count();
        assert_eq!(counts.get(&set.name), u32::try_from(wanted).ok().as_ref(), "{}", set.name);
    }
}

#[test]
fn counts_follow_additions_and_deletions() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let id = half(&mut nft);
            let mut batch = Batch::new();
            batch.delete_elements(&id, "m", [&element(0), &element(2)]);
            batch.add_elements(&id, "m", [&element(1)]);
            nft.commit(&batch).unwrap();
            let counts = nft.element_counts(&id).unwrap();
            let wanted = BTreeMap::from([("m".into(), MANY / 2 - 1)]);
            assert!(counts.is_empty() || counts == wanted, "{counts:?}");
        })
        .unwrap();
}

/// An answer of the kernel to question `sequence`.
fn answer(sequence: u32, code: i32) -> Vec<u8> {
    let mut body = code.to_ne_bytes().to_vec();
    body.extend_from_slice(&Message::new(0, 0, &[]).finish(sequence, NLM_F_ACK).unwrap());
    Message::new(2, 0, &body).finish(sequence, 0).unwrap()
}

#[test]
fn answers_out_of_order_are_lost_ones() {
    let read = |datagrams: &[Vec<u8>]| {
        let mut answers = find::Answers { next: 7, left: 2 };
        let mut seen = 0;
        let result = datagrams.iter().try_for_each(|one| answers.read(one, &mut |_| seen += 1));
        (seen, result)
    };
    let missing = -(Errno::ENOENT as i32);
    assert!(matches!(read(&[answer(7, missing), answer(8, missing)]), (2, Ok(()))));
    assert!(matches!(read(&[answer(7, missing), answer(9, missing)]), (1, Err(NetlinkError::Overrun))));
    assert!(matches!(read(&[answer(7, -(Errno::ENOBUFS as i32))]), (0, Err(NetlinkError::Overrun))));
    assert!(matches!(read(&[answer(7, missing)[..18].to_vec()]), (0, Err(NetlinkError::Malformed(_)))));
    let three = [answer(7, missing), answer(8, missing), answer(9, missing)].concat();
    assert!(matches!(read(&[three]), (2, Err(NetlinkError::Overrun))));
}
