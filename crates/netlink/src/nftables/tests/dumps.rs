//! Dumps of a real kernel: recorded ones read as what was written and survive any damage, and a change meanwhile is noticed.
//!
//! `recorded.txt` holds the answers of Linux 6.18 about the constant-size ruleset of IPv4: the kind of each message, and its
//! body. `BLESS=1` records it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;

use super::ruleset::{Ruleset, constant_size, frontend};
use crate::message::{Frame, Message};
use crate::nftables::*;
use crate::socket::retry;
use crate::testing::namespace_or_skip;
use crate::{Family, NetlinkError};

const V4: Family = Family::V4;
const RECORDED: &str = include_str!("recorded.txt");
const NEW_TABLE: u8 = 0;
const NEW_CHAIN: u8 = 3;
const NEW_RULE: u8 = 6;
const NEW_SET: u8 = 9;
const NEW_ELEMENTS: u8 = 12;

/// Kinds and bodies.
fn recorded() -> Vec<(u16, Vec<u8>)> {
    let byte = |text: &str, at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let line = |line: &str| {
        let (kind, body) = line.split_once(' ').unwrap();
        (kind.parse().unwrap(), (0..body.len()).step_by(2).map(|at| byte(body, at)).collect())
    };
    RECORDED.lines().map(line).collect()
}

fn frame(kind: u16, body: &[u8]) -> Frame<'_> {
    Frame { kind, flags: 2, sequence: 7, port: 9, body }
}

/// All questions about a table.
fn questions(ruleset: &Ruleset) -> Vec<Message> {
    let id = &ruleset.table.id;
    let mut questions = vec![
        Message::netfilter(SUBSYSTEM, NFT_MSG_GETTABLE, 0, id.family.number()),
        Message::netfilter(SUBSYSTEM, NFT_MSG_GETCHAIN, 0, id.family.number()),
        question(NFT_MSG_GETRULE, id),
        question(NFT_MSG_GETSET, id),
    ];
    for set in ruleset.sets.keys() {
        let mut elements = question(NFT_MSG_GETSETELEM, id);
        elements.put_text(NFTA_SET_ELEM_LIST_SET, &set.name);
        questions.push(elements);
    }
    questions
}

#[test]
fn recordings_can_be_made_again() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let ruleset = constant_size(V4);
            nft.commit(&ruleset.batch()).unwrap();
            let mut text = String::new();
            for question in questions(&ruleset) {
                nft.socket
                    .dump("record", question, &mut |frame| {
                        write!(text, "{} ", frame.kind).unwrap();
                        frame.body.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
                        text.push('\n');
                        Ok(())
                    })
                    .unwrap();
            }
            if std::env::var_os("BLESS").is_some() {
                let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/nftables/tests/recorded.txt");
                std::fs::write(path, &text).unwrap();
            }
            // Another kernel may tell more, but as many objects.
            let kinds =
                |text: &str| text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
            let (now, then): (Vec<String>, Vec<String>) = (kinds(&text), kinds(RECORDED));
            assert_eq!(now, then);
        })
        .unwrap();
}

#[test]
#[cfg(target_endian = "little")]
fn a_recorded_table_reads_as_what_was_written() {
    let wanted = constant_size(V4);
    let id = &wanted.table.id;
    let mut read = Ruleset::empty(V4, &id.name);
    let mut elements: BTreeMap<Arc<str>, BTreeSet<Element>> = BTreeMap::new();
    for (kind, body) in recorded() {
        let frame = frame(kind, &body);
        match frame.netfilter_kind() {
            (SUBSYSTEM, NEW_TABLE) => read.table = objects::read_table(&frame).unwrap().unwrap(),
            (SUBSYSTEM, NEW_CHAIN) => read.chains.extend(objects::read_chain(&frame, id).unwrap()),
            (SUBSYSTEM, NEW_RULE) => {
                let rule = objects::read_rule(&frame, id).unwrap().unwrap().without_handle();
                read.rules.entry(rule.chain.clone()).or_default().push(rule);
            }
            (SUBSYSTEM, NEW_SET) => {
                let set = objects::read_set(&frame, id).unwrap().unwrap();
                read.sets.insert(set, BTreeSet::new());
            }
            (SUBSYSTEM, NEW_ELEMENTS) => {
                let (_, mut attributes) = frame.split::<4>().unwrap();
                let name =
                    attributes.find_map(|a| a.ok().filter(|a| a.kind == NFTA_SET_ELEM_LIST_SET)).unwrap();
                let list = elements.entry(name.text().into()).or_default();
                objects::read_elements(&frame, &mut |element| _ = list.insert(element)).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    for (set, list) in &mut read.sets {
        *list = elements.remove(&set.name).unwrap_or_default();
    }
    assert_eq!(read, wanted);
}

/// Reads a message as every kind of object.
fn read_as_anything(frame: &Frame<'_>, id: &TableId) {
    let _ = (objects::read_table(frame), objects::read_chain(frame, id), objects::read_rule(frame, id));
    let _ = (objects::read_set(frame, id), objects::read_count(frame, id));
    let _ = objects::read_elements(frame, &mut |_| ());
    let _ = find::Answers { next: frame.sequence, left: 1 }.read(&datagram(frame), &mut |_| ());
}

fn datagram(frame: &Frame<'_>) -> Vec<u8> {
    Message::new(frame.kind, 0, frame.body).finish(frame.sequence, 0).unwrap()
}

proptest! {
    #[test]
    fn cut_dumps_never_panic(which in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
        let all = recorded();
        let (kind, body) = which.get(&all);
        let cut = &body[..cut.index(body.len() + 1)];
        read_as_anything(&frame(*kind, cut), &TableId::new(V4, "switchyard"));
    }

    #[test]
    fn dumps_with_turned_bits_never_panic(
        which in any::<prop::sample::Index>(),
        bits in proptest::collection::vec((any::<prop::sample::Index>(), 0..8), 1..12),
    ) {
        let all = recorded();
        let (kind, mut body) = which.get(&all).clone();
        let length = body.len();
        for (at, bit) in bits {
            body[at.index(length)] ^= 1_u8 << bit;
        }
        read_as_anything(&frame(kind, &body), &TableId::new(V4, "switchyard"));
    }
}

/// A map that takes several datagrams to tell.
fn large(nft: &mut Nft) -> (TableId, u32) {
    const ELEMENTS: u32 = 5000;
    let id = TableId::new(V4, "t");
    let mut batch = Batch::new();
    batch.add_table(&Table::new(id.clone()));
    batch.add_set(&id, &Set::new("s", Fields::Typeof(frontend(V4)), SetData::None));
    let key = |n: u32| Element::new(Value::EMPTY.number(n).protocol(6).port(80));
    batch.add_elements(&id, "s", &(0..ELEMENTS).map(key).collect::<Vec<_>>());
    nft.commit(&batch).unwrap();
    (id, ELEMENTS)
}

/// Passes on what `read` sees, and changes the ruleset at the first object of the first try. Out: tries, and objects of the last one.
fn read_and_change(mut read: impl FnMut(&mut dyn FnMut()) -> Result<(), NetlinkError>) -> (u32, u32) {
    let mut writer = Nft::open().unwrap();
    let (mut tries, mut seen) = (0, 0);
    let result = retry(|| {
        tries += 1;
        seen = 0;
        read(&mut || {
            seen += 1;
            if tries == 1 && seen == 1 {
                let mut batch = Batch::new();
                batch.add_table(&Table::new(TableId::new(V4, "other")));
                writer.commit(&batch).unwrap();
            }
        })
    });
    assert!(result.is_ok(), "{result:?}");
    (tries, seen)
}

#[test]
fn a_change_while_the_kernel_tells_is_noticed_and_a_second_try_works() {
    const CHAINS: u32 = 3000;
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let id = TableId::new(V4, "t");
            let mut batch = Batch::new();
            batch.add_table(&Table::new(id.clone()));
            (0..CHAINS).for_each(|n| _ = batch.add_chain(&id, &Chain::regular(format!("chain-{n}"))));
            nft.commit(&batch).unwrap();
            let question = || Message::netfilter(SUBSYSTEM, NFT_MSG_GETCHAIN, 0, V4.number());
            let read = |each: &mut dyn FnMut()| {
                nft.socket.dump("test", question(), &mut |_| {
                    each();
                    Ok(())
                })
            };
            assert_eq!(read_and_change(read), (2, CHAINS));
        })
        .unwrap();
}

/// The kernel does not mark dumps of elements, which [`Nft::elements`] says. Should it begin to, a second try is needed.
#[test]
fn a_change_elsewhere_does_not_stop_a_dump_of_elements() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let (id, count) = large(&mut nft);
            let read = |each: &mut dyn FnMut()| nft.elements(&id, "s", &mut |_| each());
            assert_eq!(read_and_change(read).1, count);
        })
        .unwrap();
}

#[test]
fn an_abandoned_dump_does_not_spoil_the_next_question() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let (id, count) = large(&mut nft);
            let mut question = question(NFT_MSG_GETSETELEM, &id);
            question.put_text(NFTA_SET_ELEM_LIST_SET, "s");
            let refused = nft.socket.dump("test", question, &mut |_| Err(NetlinkError::Overrun));
            assert!(matches!(refused, Err(NetlinkError::Overrun)));
            let mut seen = 0;
            nft.elements(&id, "s", &mut |_| seen += 1).unwrap();
            assert_eq!(seen, count);
        })
        .unwrap();
}
