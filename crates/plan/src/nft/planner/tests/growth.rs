//! A set that is too small is replaced by a larger one, in one transaction and with everything else as it was.

use super::counts::others;
use super::*;

const STICKY: &str = "svc a/sticky tcp 10.96.0.1:80 sticky=60\n ep 10.1.0.1:80\n ep 10.1.0.2:80";

/// A kernel that holds what a planner for a sticky service port and ten others wrote first.
fn small() -> (Planner, FakeKernel) {
    let mut book = World::new(Family::V4, STICKY).book();
    book.update(all(&others(10)));
    let planner = Planner::new(Config::default(), book);
    let mut kernel = FakeKernel::default();
    let mut ops = Vec::new();
    planner.everything(&mut |owner, change| ops.push(Op { change, owner: owner.cloned() }));
    assert_eq!(kernel.commit(&ops), Ok(()));
    (planner, kernel)
}

#[test]
fn a_set_that_is_outgrown_is_replaced() {
    let (mut planner, mut kernel) = small();
    let before = kernel.ruleset.clone();
    assert_eq!(before.rooms[&Set::Slots], 4096);
    // 2,100 service ports with two endpoints: more than 4,096 slots, and fewer frontends.
    let partial = planner.partial(all(&others(2101)));
    assert!(partial.needs_room);
    assert!(kernel.clone().commit(&partial.ops).is_err(), "it does not fit");
    planner.adopt(&kernel.ruleset);
    let ops = planner.repair(kernel.ruleset.clone());
    assert_eq!(kernel.commit(&ops), Ok(()));
    assert_eq!(kernel.ruleset, planner.ruleset());
    assert_eq!(kernel.ruleset.rooms[&Set::Slots], 16_384);
    assert_eq!(kernel.ruleset.rooms[&Set::Frontends], 4096);
    // In several transactions, too: nobody looks into the set before it is whole.
    let last = ops.iter().rposition(|op| matches!(&op.change, Change::AddElement(..))).unwrap();
    let is_rule = |op: &Op| matches!(&op.change, Change::ReplaceRules(chain) if !chain.rules.is_empty());
    assert!(ops.iter().position(is_rule).unwrap() > last, "rules come after elements");
    let is_about_clients = |op: &Op| matches!(op.change, Change::AddClients(_) | Change::DeleteClients(_));
    assert!(!ops.iter().any(is_about_clients), "clients are remembered");
    let is_sticky = |(name, chain): (&String, &Chain)| {
        let is_replaced =
            ops.iter().any(|op| matches!(&op.change, Change::ReplaceRules(c) if c.name == *name));
        chain.rules.is_empty() || !(name.starts_with("sticky-") && is_replaced)
    };
    assert!(before.chains.iter().all(is_sticky), "what does not refer to the set stays as it is");
    // From then on changes are written as ever.
    let partial = planner.partial(all(&others(2200)));
    assert!(!partial.needs_room);
    assert_eq!(kernel.commit(&partial.ops), Ok(()));
    assert_eq!(kernel.ruleset, planner.ruleset());
}

/// Rules that somebody added are not known, only that there are others than ours.
#[test]
fn unknown_rules_do_not_keep_a_set() {
    let (mut planner, mut kernel) = small();
    let foreign = kernel.ruleset.chains["services"].clone();
    kernel.ruleset.chains.insert("foreign".to_owned(), Chain { name: "foreign".to_owned(), ..foreign });
    let mut held = kernel.ruleset.clone();
    held.chains.get_mut("foreign").unwrap().rules.clear();
    held.chains.get_mut("services").unwrap().rules.clear();
    assert!(planner.partial(all(&others(4200))).needs_room);
    planner.adopt(&held);
    assert_eq!(kernel.commit(&planner.repair(held)), Ok(()));
    assert_eq!(kernel.ruleset, planner.ruleset());
    assert_eq!(kernel.ruleset.rooms[&Set::Frontends], 16_384);
}

#[test]
fn sizes_of_an_earlier_run_are_kept_while_they_suffice() {
    let (small, kernel) = small();
    for rooms in [Rooms::new(), [(Set::Slots, 1 << 20), (Set::ClusterIps, 11)].into()] {
        let held = Ruleset { rooms, ..kernel.ruleset.clone() };
        let mut fresh = small.clone();
        fresh.adopt(&held);
        assert_eq!(fresh.repair(held.clone()), vec![]);
        assert_eq!(fresh.ruleset(), held);
    }
}
