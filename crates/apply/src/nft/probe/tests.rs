//! Refusals as the kernel would give them, and the real kernel.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use switchyard_lab::scenario::Scenario;
use switchyard_model::{Event, Tracker};
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::{
    Attachment, DataType, Expression, Fields, Set, SetData, SetFlags, Table, TableId,
};
use switchyard_plan::book::of_family;

use super::*;
use crate::Mode;
use crate::nft::wire;

/// What a kernel says that refuses what is listed.
fn kernel_without(lacking: &[(Feature, Errno)]) -> Result<(), ProbeError> {
    look(Family::V4, "Linux 5.4.0".into(), &mut |features| {
        let refused = lacking.iter().find(|(feature, _)| features.contains(feature));
        Ok(refused.map_or(Attempt::Works, |(_, errno)| Attempt::Refused(*errno)))
    })
}

#[test]
fn one_message_names_all_that_is_missing() {
    assert!(kernel_without(&[]).is_ok());
    let one = kernel_without(&[(Feature::SourceRanges, Errno::EINVAL)]).unwrap_err();
    assert_eq!(
        one.to_string(),
        "this kernel (Linux 5.4.0) lacks what nftables mode needs for IPv4: ranges in keys of several parts \
         (in Linux since 5.6; EINVAL: Invalid argument); `modprobe -a nf_tables` may bring it, else use a newer \
         kernel or iptables mode"
    );
    let missing =
        [Feature::Nat, Feature::Masquerade, Feature::LocalAddresses].map(|feature| (feature, Errno::ENOENT));
    let three = kernel_without(&missing).unwrap_err().to_string();
    assert_eq!(
        three,
        "this kernel (Linux 5.4.0) lacks what nftables mode needs for IPv4: \
         destination NAT (in Linux since 3.13; ENOENT: No such file or directory); \
         masquerading (in Linux since 3.18; ENOENT: No such file or directory); \
         types of addresses (fib) (in Linux since 4.10; ENOENT: No such file or directory); \
         `modprobe -a nft_chain_nat nft_fib_ipv4 nft_masq nft_nat` may bring it, else use a newer kernel or iptables mode"
    );
}

#[test]
fn every_feature_can_be_the_one_that_is_missing() {
    for feature in Feature::ALL {
        match kernel_without(&[(feature, Errno::ENOENT)]) {
            Err(ProbeError::Lacks(lacks)) => assert_eq!(lacks.features, [(feature, Errno::ENOENT)]),
            other => panic!("{feature}: {other:?}"),
        }
    }
}

#[test]
fn a_kernel_without_tables_is_asked_nothing_else() {
    let everything = Feature::ALL.map(|feature| (feature, Errno::EAFNOSUPPORT));
    let Err(ProbeError::Lacks(lacks)) = kernel_without(&everything) else { panic!() };
    assert_eq!(lacks.features, [(Feature::Tables, Errno::EAFNOSUPPORT)]);
}

#[test]
fn what_is_refused_only_together_is_still_an_error() {
    let refused = look(Family::V6, String::new(), &mut |features| {
        Ok(if features.len() > 1 { Attempt::Refused(Errno::ENOMEM) } else { Attempt::Works })
    });
    let Err(ProbeError::Lacks(lacks)) = refused else { panic!() };
    assert_eq!(lacks.features, [(Feature::Tables, Errno::ENOMEM)]);
}

#[test]
fn missing_rights_and_a_missing_subsystem_have_words_of_their_own() {
    let all_refused = |errno| look(Family::V4, "Linux 3.12".into(), &mut |_| Ok(Attempt::RefusedAll(errno)));
    let text = all_refused(Errno::EPERM).unwrap_err().to_string();
    assert!(text.contains("CAP_NET_ADMIN") && !text.contains("modprobe"), "{text}");
    let text = all_refused(Errno::EOPNOTSUPP).unwrap_err().to_string();
    assert!(text.contains("Linux 3.12") && text.contains("modprobe nf_tables"), "{text}");
}

fn namespace_or_skip() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) => {
            assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but: {error}");
            let words = b"SKIPPED: network namespaces need root\n";
            let _ = std::io::Write::write_all(&mut std::io::stderr(), words);
            None
        }
    }
}

#[test]
fn what_a_real_kernel_refuses_is_named() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            // A table that is in the way: its map has other keys.
            let mut batch = switchyard_netlink::nftables::Batch::new();
            let id = TableId::new(wire(Family::V4), feature::TABLE);
            batch.add_table(&Table { is_dormant: true, ..Table::new(id.clone()) });
            batch.add_set(&id, &Set::new("slots", Fields::Type(vec![DataType::Port]), SetData::None));
            nft.commit(&batch).unwrap();
            let before = nft.generation().unwrap();
            let Err(ProbeError::Lacks(lacks)) = probe(Family::V4) else { panic!() };
            assert_eq!(lacks.features, [(Feature::Random, Errno::EEXIST)]);
            probe(Family::V6).unwrap();
            assert_eq!(nft.generation().unwrap(), before);
        })
        .unwrap();
}

/// What a table uses, in words.
fn uses(nft: &mut Nft, id: &TableId) -> BTreeSet<String> {
    let mut uses = BTreeSet::new();
    for chain in nft.chains(id).unwrap() {
        if let Attachment::Base(base) = chain.attachment {
            uses.insert(format!("{:?} chain at {:?}", base.chain_type, base.hook));
        }
    }
    for set in nft.sets(id).unwrap() {
        let data = match set.data {
            SetData::None => "set",
            SetData::Verdict => "verdict map",
            SetData::Value(_) => "map",
        };
        let has = |flag, word: &'static str| if set.flags.contains(flag) { word } else { "" };
        let (dynamic, interval) = (has(SetFlags::DYNAMIC, " dynamic"), has(SetFlags::INTERVAL, " interval"));
        uses.insert(format!("{data}{dynamic}{interval}"));
    }
    let words = |step: &Expression| match step {
        Expression::Lookup { found, .. } => format!("Lookup {found:?}"),
        Expression::Meta { key, .. } => format!("Meta {key:?}"),
        Expression::Ct { key, .. } => format!("Ct {key:?}"),
        other => {
            let text = format!("{other:?}");
            text.split([' ', '(']).next().unwrap_or_default().to_owned()
        }
    };
    let rules = nft.rules(id).unwrap();
    uses.extend(rules.iter().flat_map(|rule| &rule.expressions).map(words));
    uses
}

/// What all rulesets use that the scenarios lead to.
fn used_by_scenarios(family: Family) -> BTreeSet<String> {
    let id = TableId::new(wire(family), switchyard_plan::nft::names::TABLE);
    let mut used = BTreeSet::new();
    for scenario in
        Scenario::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")).unwrap()
    {
        let (mut mode, mut tracker) = (crate::nft::tests::mode(family), Tracker::new());
        for step in &scenario.steps {
            tracker.apply(Event::Services(step.objects.model_services(&Family::ALL)));
            tracker.apply(Event::Slices(step.objects.model_slices(&Family::ALL)));
            let changes = of_family(&tracker.take().unwrap().ports, family);
            assert!(mode.sync(Instant::now(), changes, &mut |_| {}).failure.is_none());
            used.extend(uses(&mut Nft::open().unwrap(), &id));
        }
    }
    used
}

#[test]
fn whatever_is_written_was_tried() {
    let Some(namespace) = namespace_or_skip() else { return };
    for family in Family::ALL {
        namespace
            .run(|| {
                let mut nft = Nft::open().unwrap();
                nft.commit(&feature::batch(&[family], &Feature::ALL)).unwrap();
                let tried = uses(&mut nft, &TableId::new(wire(family), feature::TABLE));
                let used = used_by_scenarios(family);
                assert!(used.len() > 20, "{used:?}");
                assert_eq!(used.difference(&tried).collect::<Vec<_>>(), [""; 0], "tried: {tried:?}");
            })
            .unwrap();
    }
}
