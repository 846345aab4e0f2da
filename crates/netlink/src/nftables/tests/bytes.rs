//! Our messages are byte for byte those of the real tool, in the order of its captures.

use std::time::Duration;

use super::ruleset::{R, base, destination, endpoint, frontend, goto, pick, service, source};
use crate::Family;
use crate::message::NLA_F_NESTED;
use crate::nftables::*;

const V4: Family = Family::V4;
const CAPTURES: &str = include_str!("captures.txt");
const NEW_RULE: u8 = 6;
const NEW_ELEMENTS: u8 = 12;

/// The only message of a batch with the sequence number of the captures, and without asking for an answer.
fn only_message(batch: &Batch) -> Vec<u8> {
    const BRACKET: usize = 20;
    let mut message = batch.bytes()[BRACKET..batch.bytes().len() - BRACKET].to_vec();
    message[6] &= !4;
    message[8..12].copy_from_slice(&1u32.to_ne_bytes());
    message
}

/// Attributes with the bits of their kinds.
fn attributes(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut list = Vec::new();
    while let Some((&[l0, l1, k0, k1], _)) = bytes.split_first_chunk::<4>() {
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        list.push((u16::from_le_bytes([k0, k1]), bytes[4..length].to_vec()));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    list
}

fn joined(list: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in list {
        bytes.extend(u16::try_from(value.len() + 4).unwrap().to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// `nft` names a set also by a number that only counts for sets of the same batch, and says with a flag that there is a port where
/// it names the port; we do not. That a bitwise step is the usual one it says here and there, and we always.
fn without_repetitions(mut message: Vec<u8>) -> Vec<u8> {
    const LIST: u16 = NLA_F_NESTED | 4;
    let mut list = attributes(&message[20..]);
    match message[4] {
        NEW_ELEMENTS => list.retain(|(kind, _)| *kind != 4),
        NEW_RULE => {
            for (_, expressions) in list.iter_mut().filter(|(kind, _)| *kind == LIST) {
                let steps = attributes(expressions)
                    .into_iter()
                    .map(|(kind, step)| (kind, step_without_repetition(&step)));
                *expressions = joined(&steps.collect::<Vec<_>>());
            }
        }
        _ => return message,
    }
    message.truncate(20);
    message.extend(joined(&list));
    let length = u32::try_from(message.len()).unwrap();
    message[..4].copy_from_slice(&length.to_le_bytes());
    message
}

fn step_without_repetition(step: &[u8]) -> Vec<u8> {
    let mut parts = attributes(step);
    let repeated = match parts[0].1.as_slice() {
        b"lookup\0" => 4,
        b"dynset\0" => 2,
        b"nat\0" => 7,
        b"bitwise\0" => 6,
        _ => return step.to_vec(),
    };
    let mut data = attributes(&parts[1].1);
    data.retain(|(kind, _)| *kind != repeated);
    parts[1].1 = joined(&data);
    joined(&parts)
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

fn is(protocol: u8) -> [Expression; 2] {
    [Selector::Protocol.load(R), Expression::equal(R, Value::EMPTY.protocol(protocol))]
}

fn look_up(set: &str, found: Found) -> Expression {
    Expression::Lookup { set: set.into(), from: R, found }
}

fn any_bit(key: CtKey, bit: u32) -> [Expression; 3] {
    let load = Expression::Ct { key, to: R };
    [load, Expression::and(R, bit), Expression::not_equal(R, Value::EMPTY.number(0))]
}

fn jump(chain: &str) -> Expression {
    Expression::Verdict(Verdict::Jump(chain.into()))
}

/// `dnat to ADDRESS:8080`
fn dnat(family: Family, address: std::net::IpAddr) -> [Expression; 3] {
    let second = Register::word(4);
    let nat = Expression::Nat {
        side: Side::Destination,
        family,
        address: R,
        port: Some(second),
        choice: PortChoice::Keep,
    };
    let port = Expression::Load { value: Value::EMPTY.port(8080), to: second };
    [Expression::Load { value: Value::EMPTY.address(address), to: R }, port, nat]
}

/// `dnat to KEY . numgen random mod 3 offset OFFSET map @slots`
fn dnat_by_slot(family: Family, offset: u32) -> Vec<Expression> {
    let mut steps = pick(family, 3);
    for step in &mut steps {
        if let Expression::Random { offset: at, .. } = step {
            *at = offset;
        }
    }
    steps
}

/// The bits of an address from `prefix` on are zero.
fn in_network(family: Family, network: std::net::IpAddr, prefix: u32) -> [Expression; 3] {
    let bytes = usize::from(family.bits() / 8);
    let mask = (u128::MAX << (128 - prefix)).to_be_bytes();
    let (mask, xor) = (Value::new(&mask[..bytes]), Value::new(&vec![0; bytes]));
    let equal = Expression::equal(R, Value::EMPTY.address(network));
    [source(family).load(R), Expression::Bitwise { from: R, to: R, mask, xor }, equal]
}

/// Rules as this proxy writes them, by chain.
fn rules(family: Family) -> Vec<(&'static str, Vec<Expression>)> {
    let to = |chain: &str| Expression::Verdict(goto(chain));
    let local = [
        Expression::AddressType { of: Side::Destination, to: R },
        Expression::equal(R, Value::EMPTY.number(address_type::LOCAL)),
    ];
    let (set, change) = ("sticky".into(), DynamicChange::Update);
    let update = Expression::Dynamic { set, change, key: R, data: None, timeout: None };
    let load = source(family).load(R);
    let remember = [&is(17)[..], &[load.clone(), update], &dnat(family, endpoint(family, 3))].concat();
    let random = Expression::Random { modulus: 2, offset: 0, to: R };
    let zero = Expression::equal(R, Value::EMPTY.number(0));
    let masquerade = Expression::Masquerade(PortChoice::FullyRandom);
    let translated = any_bit(CtKey::Status, CT_STATUS_DNAT);
    let absent = [destination(family).load(R), look_up("cluster-ips", Found::NotMember)];
    let unknown = [&any_bit(CtKey::State, ct_state::NEW)[..], &absent, &[Expression::Verdict(Verdict::Drop)]];
    let interface = Expression::Meta { key: MetaKey::InputInterface, to: R };
    let mark = Expression::Meta { key: MetaKey::Mark, to: R };
    let set_mark = Expression::SetMeta { key: MetaKey::Mark, from: R };
    let not_cali = Expression::not_equal(R, Value::new(b"cali"));
    let bridge = Expression::equal(R, Value::EMPTY.interface("cbr0"));
    let network = in_network(family, [10, 1, 0, 0].into(), 20);
    let back = Expression::Verdict(Verdict::Return);
    vec![
        (
            "nat-output",
            [&load_key(&frontend(family), R)[..], &[look_up("frontends", Found::Verdict)]].concat(),
        ),
        ("nat-output", [&local[..], &[jump("checks")]].concat()),
        ("pick-3", remember),
        ("pick-3", vec![load, look_up("sticky", Found::Member), to("checks")]),
        ("pick-3", vec![random, zero, to("checks")]),
        ("nat-postrouting", [&translated[..], &[masquerade]].concat()),
        ("checks", unknown.concat()),
        ("checks", vec![interface.clone(), not_cali, mark, Expression::or(R, 0x4000), set_mark]),
        ("checks", [&[interface, bridge][..], &network, &[back]].concat()),
        ("checks", vec![Expression::NoTrack]),
    ]
}

fn add_rules(id: &TableId, rules: Vec<(&'static str, Vec<Expression>)>) -> Vec<Batch> {
    let batch = |(chain, steps): (&str, Vec<Expression>)| {
        let comment =
            if matches!(steps.last(), Some(Expression::Verdict(Verdict::Drop))) { "no" } else { "" };
        let mut batch = Batch::new();
        batch.add_rule(id, &Rule { comment: Comment::new(comment), ..Rule::new(chain, steps) });
        batch
    };
    rules.into_iter().map(batch).collect()
}

/// Rules that look different in the other family, and those that lead to a slot.
fn add_others(id: &TableId) -> Vec<Batch> {
    let v6 = TableId::new(Family::V6, "sw");
    let network = in_network(Family::V6, [0xfd00, 0x10, 4, 0, 0, 0, 0, 0].into(), 46);
    let reject = Expression::Reject(Reject::port_unreachable(Family::V6));
    let sctp = [&is(132)[..], &dnat(Family::V6, [0xfd00, 0, 0, 0, 0, 0, 0, 3].into())].concat();
    let mut batches = add_rules(&v6, vec![("checks", [&network[..], &[reject]].concat()), ("pick-3", sctp)]);
    batches.extend(add_rules(id, vec![("pick-3", dnat_by_slot(V4, 32765))]));
    batches.extend(add_rules(&v6, vec![("pick-3", dnat_by_slot(Family::V6, 0))]));
    batches
}

#[test]
#[cfg(target_endian = "little")]
fn our_messages_are_those_of_the_real_tool() {
    let id = TableId::new(V4, "sw");
    let ours = [add_objects(&id), add_content(&id), add_rules(&id, rules(V4)), add_others(&id)].concat();
    let captures: Vec<_> = CAPTURES.lines().skip(1).collect();
    assert_eq!(captures.len(), 2 * ours.len());
    for (capture, batch) in captures.chunks(2).zip(&ours) {
        let theirs = without_repetitions(unhex(capture[1]));
        assert_eq!(without_repetitions(only_message(batch)), theirs, "{}", capture[0]);
    }
}
