//! Our messages are byte for byte those of the real tool, in the order of its captures.

use std::time::Duration;

use super::ruleset::{R, base, destination, endpoint, frontend, goto, service, source};
use crate::Family;
use crate::nftables::*;

const V4: Family = Family::V4;
const CAPTURES: &str = include_str!("captures.txt");
const NEW_ELEMENTS: u8 = 12;

/// The only message of a batch with the sequence number of the captures, and without asking for an answer.
fn only_message(batch: &Batch) -> Vec<u8> {
    const BRACKET: usize = 20;
    let mut message = batch.bytes()[BRACKET..batch.bytes().len() - BRACKET].to_vec();
    message[6] &= !4;
    message[8..12].copy_from_slice(&1u32.to_ne_bytes());
    message
}

/// `nft` names the set of elements also by a number that only counts for sets of the same batch; we do not.
fn without_set_number(mut message: Vec<u8>) -> Vec<u8> {
    if message[4] != NEW_ELEMENTS {
        return message;
    }
    let at = (20..).step_by(4).find(|at| message[*at..*at + 4] == [8, 0, 4, 0]).unwrap();
    message.drain(at..at + 8);
    let length = u32::try_from(message.len()).unwrap();
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn add_objects(id: &TableId) -> Vec<Batch> {
    let made = |make: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        make(&mut batch);
        batch
    };
    let set = |name: &str, key: Vec<Selector>, data| Set::new(name, Fields::Typeof(key), data);
    let mut pick =
        Chain { name: "pick-3".into(), attachment: Attachment::Regular, comment: Comment::new("three") };
    let mut sets = vec![set("frontends", frontend(V4), SetData::Verdict)];
    sets[0].comment = Comment::new("who");
    let mut key = frontend(V4);
    key.push(Selector::Random { modulus: 65536 });
    let data = Fields::Typeof(vec![destination(V4), Selector::DestinationPort]);
    sets.push(set("slots", key, SetData::Value(data)));
    let mut sticky = set("sticky", vec![source(V4)], SetData::None);
    sticky.flags = SetFlags::DYNAMIC | SetFlags::TIMEOUT;
    sticky.timeout = Some(Duration::from_secs(3 * 3600));
    sticky.size = Some(65536);
    sets.push(sticky);
    let mut key = frontend(V4);
    key.push(source(V4));
    let mut sources = set("sources", key, SetData::None);
    sources.flags = SetFlags::INTERVAL;
    sets.push(sources);

    let mut batches = vec![made(&|batch| {
        batch.add_table(&Table { comment: Comment::new("rules"), ..Table::new(id.clone()) });
    })];
    batches.push(made(&|batch| {
        batch.add_chain(id, &pick);
    }));
    pick = Chain {
        name: "nat-output".into(),
        attachment: base(ChainType::Nat, Hook::Output, -100),
        comment: None,
    };
    batches.push(made(&|batch| {
        batch.add_chain(id, &pick);
    }));
    for set in &sets {
        batches.push(made(&|batch| {
            batch.add_set(id, set);
        }));
    }
    batches
}

fn add_content(id: &TableId) -> Vec<Batch> {
    let key = Value::EMPTY.address(service(V4, 10)).protocol(6).port(80);
    let frontend = Element { comment: Comment::new("ns1/svc1"), ..Element::verdict(key, goto("pick-3")) };
    let slot = Element::mapped(key.number(2), Value::EMPTY.address(endpoint(V4, 3)).port(8080));
    let last = key.part(&[10, 255, 255, 255]);
    let source = Element { extent: Extent::Through(last), ..Element::new(key.part(&[10, 0, 0, 0])) };
    let mark = Expression::Meta { key: MetaKey::Mark, to: R };
    let zero = Expression::not_equal(R, Value::EMPTY.number(0));
    let set_mark = Expression::SetMeta { key: MetaKey::Mark, from: R };
    let unmark =
        vec![mark.clone(), Expression::and(R, 0x4000), zero, mark, Expression::xor(R, 0x4000), set_mark];
    let reject = vec![
        Expression::AddressType { of: Side::Destination, to: R },
        Expression::equal(R, Value::EMPTY.number(address_type::LOCAL)),
        Expression::Counter,
        Expression::Reject(Reject::port_unreachable(V4)),
    ];
    let mut batches = Vec::new();
    for (set, element) in [("frontends", &frontend), ("slots", &slot), ("sources", &source)] {
        let mut batch = Batch::new();
        batch.add_elements(id, set, [element]);
        batches.push(batch);
    }
    for rule in [unmark, reject] {
        let mut batch = Batch::new();
        batch.add_rule(id, &Rule::new("pick-3", rule));
        batches.push(batch);
    }
    let mut delete = [(); 5].map(|()| Batch::new());
    delete[0].delete_elements(id, "slots", [&slot]);
    delete[1].flush_chain(id, "pick-3");
    delete[2].delete_chain(id, "nat-output");
    delete[3].delete_set(id, "sources");
    delete[4].delete_table(id);
    batches.extend(delete);
    batches
}

#[test]
#[cfg(target_endian = "little")]
fn our_messages_are_those_of_the_real_tool() {
    let id = TableId::new(V4, "sw");
    let ours = [add_objects(&id), add_content(&id)].concat();
    let captures: Vec<_> = CAPTURES.lines().skip(1).collect();
    assert_eq!(captures.len(), 2 * ours.len());
    for (capture, batch) in captures.chunks(2).zip(&ours) {
        let theirs = without_set_number(unhex(capture[1]));
        assert_eq!(only_message(batch), theirs, "{}", capture[0]);
    }
}
