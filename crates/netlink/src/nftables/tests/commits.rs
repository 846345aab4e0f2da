//! Transactions: which operation failed, races, deletions, sizes.

use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;

use super::ruleset::{R, Ruleset, constant_size, endpoint, frontend, goto, pick, service};
use crate::Family;
use crate::nftables::*;
use crate::testing::{exec, namespace_or_skip};

const V4: Family = Family::V4;

fn refused(result: Result<Committed, CommitError>) -> Refusal {
    match result {
        Err(CommitError::Refused { refusals, .. }) => refusals.first().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_names_the_operation_and_the_element() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let ruleset = constant_size(V4);
            let id = &ruleset.table.id;
            nft.commit(&ruleset.batch()).unwrap();
            let before = Ruleset::read(&mut nft, id);

            let key = |n: u8| Value::EMPTY.address(service(V4, n)).protocol(17).port(53);
            let element = |n: u8, chain: &str| Element::verdict(key(n), goto(chain));
            let elements =
                [element(1, "pick-3"), element(2, "pick-3"), element(3, "missing"), element(4, "gone")];
            let mut batch = Batch::new();
            batch.add_chain(id, &Chain::regular("x"));
            let wrong = batch.add_elements(id, "frontends", &elements);
            batch.delete_chain(id, "x");
            let refusal = refused(nft.commit(&batch));
            let operation = refusal.operation.unwrap();
            assert_eq!((operation.index, operation.element, refusal.errno), (wrong, Some(2), Errno::ENOENT));
            assert_eq!(operation.to_string(), "add elements to set \"frontends\" (operation 1, element 2)");
            assert_eq!(Ruleset::read(&mut nft, id), before);

            let mut batch = Batch::new();
            batch.flush_chain(id, "services");
            batch.delete_chain(id, "pick-3");
            batch.delete_set(id, "nothing");
            let Err(CommitError::Refused { refusals, .. }) = nft.commit(&batch) else { panic!() };
            let told: Vec<_> = refusals.iter().map(|one| one.operation.clone().unwrap().index.0).collect();
            assert_eq!(told, [1, 2]);
            assert_eq!(refusals.first().errno, Errno::EBUSY);

            let mut batch = Batch::new();
            batch.delete_table(&TableId::new(V4, "other"));
            let error = nft.commit(&batch).unwrap_err();
            assert_eq!(error.errno(), Some(Errno::ENOENT));
            let text = "the kernel refused the transaction: delete table \"other\" (operation 0)";
            assert_eq!(error.to_string(), text);
        })
        .unwrap();
}

#[test]
fn a_bad_element_is_found_in_the_right_message_of_many() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let (mut batch, _) = services(1000, 1);
            let id = TableId::new(V4, "switchyard");
            let bad = Element::verdict(Value::EMPTY.number(1).protocol(6).port(1), goto("missing"));
            let many: Vec<_> = (0..5000)
                .map(|n| match n {
                    4321 => bad.clone(),
                    _ => Element::verdict(Value::EMPTY.number(n).protocol(17).port(53), Verdict::Drop),
                })
                .collect();
            let wrong = batch.add_elements(&id, "frontends", &many);
            let operation = refused(nft.commit(&batch)).operation.unwrap();
            assert_eq!((operation.index, operation.element), (wrong, Some(4321)));
            assert_eq!(nft.tables(V4).unwrap(), []);
        })
        .unwrap();
}

#[test]
fn a_batch_can_be_judged_without_being_done() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let ruleset = constant_size(V4);
            let id = &ruleset.table.id;
            let before = nft.generation().unwrap();
            nft.check(&ruleset.batch()).unwrap();
            nft.check(&Batch::new()).unwrap();
            assert_eq!(nft.tables(V4).unwrap(), []);

            let mut wrong = ruleset.batch();
            wrong.add_rule(id, &Rule::new("pick-3", vec![Expression::Verdict(goto("missing"))]));
            let Err(CommitError::Refused { refusals, .. }) = nft.check(&wrong) else { panic!() };
            assert_eq!(refusals.first().operation.as_ref().unwrap().index.0, wrong.len() - 1);

            assert_eq!(nft.generation().unwrap(), before);

            nft.commit(&ruleset.batch()).unwrap();
            assert_eq!(Ruleset::read(&mut nft, id), ruleset);
        })
        .unwrap();
}

#[test]
fn a_race_is_told_and_the_own_generation_is_not_one() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let batch_after = |generation| {
                let mut batch = Batch::only_after(generation);
                batch.add_table(&Table::new(TableId::new(V4, "t")));
                batch
            };
            let generation = nft.generation().unwrap();
            nft.commit(&batch_after(generation)).unwrap();
            assert!(matches!(nft.commit(&batch_after(generation)), Err(CommitError::Raced)));
            let now = nft.generation().unwrap();
            assert!(now > generation);
            exec("nft", &["add", "table", "ip", "foreign"]);
            assert!(matches!(nft.commit(&batch_after(now)), Err(CommitError::Raced)));
            let now = nft.generation().unwrap();
            nft.commit(&batch_after(now)).unwrap();
            assert_eq!(nft.commit(&Batch::new()).unwrap().bytes, 0);
        })
        .unwrap();
}

#[test]
fn everything_that_is_added_can_be_deleted_and_replaced() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let mut ruleset = constant_size(V4);
            let id = ruleset.table.id.clone();
            nft.commit(&ruleset.batch()).unwrap();
            let handle_in = |nft: &mut Nft, chain: &str| {
                nft.rules(&id).unwrap().into_iter().find(|rule| *rule.chain == *chain).unwrap().handle
            };
            let picked = Rule { handle: handle_in(&mut nft, "pick-3"), ..Rule::new("pick-3", pick(V4, 2)) };
            let slot = Value::EMPTY.address(service(V4, 10)).protocol(6).port(80).number(0);
            let moved = Element::mapped(slot, Value::EMPTY.address(endpoint(V4, 9)).port(9));
            let mut batch = Batch::new();
            batch.replace_rule(&id, &picked);
            batch.delete_rule(&id, "refuse", handle_in(&mut nft, "refuse").unwrap());
            batch.flush_chain(&id, "checks");
            batch.delete_elements(&id, "slots", [&Element::new(slot)]);
            batch.add_elements(&id, "slots", [&moved]);
            batch.flush_set(&id, "hairpin");
            batch.delete_elements(&id, "nodeports", []);
            nft.commit(&batch).unwrap();

            ruleset.rules.insert("pick-3".into(), vec![picked.without_handle()]);
            ruleset.rules.remove("refuse");
            ruleset.rules.remove("checks");
            for (set, elements) in &mut ruleset.sets {
                match &*set.name {
                    "slots" => {
                        elements.retain(|element| element.key != slot);
                        elements.insert(moved.clone());
                    }
                    "hairpin" => elements.clear(),
                    _ => {}
                }
            }
            assert_eq!(Ruleset::read(&mut nft, &id), ruleset);

            let mut batch = Batch::new();
            for chain in ["nat-postrouting", "masquerading"] {
                batch.flush_chain(&id, chain);
            }
            batch.delete_chain(&id, "masquerading");
            batch.delete_set(&id, "hairpin");
            nft.commit(&batch).unwrap();
            let mut batch = Batch::new();
            batch.delete_table(&id);
            nft.commit(&batch).unwrap();
            assert_eq!(nft.tables(V4).unwrap(), []);
        })
        .unwrap();
}

/// Services with one port and five endpoints each; out: the batch, and the elements in it.
fn services(services: u32, endpoints: u32) -> (Batch, usize) {
    let mut ruleset = Ruleset::empty(V4, "switchyard");
    ruleset.chain("pick-5", Attachment::Regular);
    ruleset.rule("pick-5", pick(V4, 5));
    let mut key = frontend(V4);
    ruleset.set(Set::new("frontends", Fields::Typeof(key.clone()), SetData::Verdict), []);
    key.push(Selector::Random { modulus: 65536 });
    let data = Fields::Typeof(vec![Selector::Ipv4Destination, Selector::DestinationPort]);
    ruleset.set(Set::new("slots", Fields::Typeof(key), SetData::Value(data)), []);
    let mut batch = ruleset.batch();
    let chain: Arc<str> = "pick-5".into();
    let frontend = |n: u32| Value::new(&(0x0a60_0000 + n).to_be_bytes()).protocol(6).port(80);
    let elements: Vec<_> =
        (0..services).map(|n| Element::verdict(frontend(n), Verdict::Goto(Arc::clone(&chain)))).collect();
    batch.add_elements(&ruleset.table.id, "frontends", &elements);
    let slots: Vec<_> = (0..services * endpoints)
        .map(|n| {
            let data = Value::new(&(0x0a80_0000 + n).to_be_bytes()).port(8080);
            Element::mapped(frontend(n / endpoints).number(n % endpoints), data)
        })
        .collect();
    batch.add_elements(&ruleset.table.id, "slots", &slots);
    (batch, elements.len() + slots.len())
}

#[test]
fn ten_thousand_services_are_one_transaction() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let started = Instant::now();
            let (batch, elements) = services(10_000, 5);
            let encoded = started.elapsed();
            let committed = nft.commit(&batch).unwrap();
            eprintln!(
                "{elements} elements, {committed:?}: {encoded:?} to encode, {:?} to commit",
                started.elapsed() - encoded
            );
            let id = TableId::new(V4, "switchyard");
            let started = Instant::now();
            let mut read = 0;
            for set in ["frontends", "slots"] {
                nft.elements(&id, set, &mut |_| read += 1).unwrap();
            }
            eprintln!("{:?} to read them", started.elapsed());
            assert_eq!(read, elements);
            let slot = Value::new(&0x0a60_0007_u32.to_be_bytes()).protocol(6).port(80).number(2);
            let started = Instant::now();
            let mut batch = Batch::new();
            batch.delete_elements(&id, "slots", [&Element::new(slot)]);
            batch.add_elements(&id, "slots", [&Element::mapped(slot, Value::new(&[1, 2, 3, 4]).port(5))]);
            nft.commit(&batch).unwrap();
            eprintln!("{:?} to replace one endpoint", started.elapsed());
        })
        .unwrap();
}

#[test]
fn what_cannot_be_encoded_is_named_and_nothing_is_sent() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let mut batch = Batch::new();
            let id = TableId::new(V4, "t");
            batch.add_table(&Table::new(id.clone()));
            let wrong = batch.add_elements(&id, "s", [&Element::new(Value::new(&[0; 65]))]);
            batch.add_rule(&id, &Rule::new("c", vec![Selector::Protocol.load(R)]));
            match nft.commit(&batch) {
                Err(CommitError::Unencodable { operation, .. }) => assert_eq!(operation, wrong),
                other => panic!("{other:?}"),
            }
            assert_eq!(nft.tables(V4).unwrap(), []);
        })
        .unwrap();
}

#[test]
fn more_refusals_than_fit_the_buffer_still_name_the_first() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let id = TableId::new(V4, "t");
            let mut batch = Batch::new();
            batch.add_table(&Table::new(id.clone()));
            for n in 0..5000 {
                batch.delete_chain(&id, &format!("chain-{n}"));
            }
            let refusal = refused(nft.commit(&batch));
            assert_eq!((refusal.operation.unwrap().index, refusal.errno), (OperationIndex(1), Errno::ENOENT));
            // The next exchange is not confused by what is left.
            assert_eq!(nft.tables(V4).unwrap(), []);
            let mut batch = Batch::new();
            batch.add_table(&Table { is_dormant: true, ..Table::new(id) });
            nft.commit(&batch).unwrap();
            assert!(nft.tables(V4).unwrap()[0].is_dormant);
        })
        .unwrap();
}
