//! Whatever the kernel holds becomes what is wanted, and nothing is written where nothing differs.

use super::*;
use crate::testing::range;

/// The service ports of one life of the agent.
fn lives() -> impl Strategy<Value = [(Settings, Vec<PortChange>); 2]> {
    arbitrary::family().prop_flat_map(|f| {
        let life = || (arbitrary::any_settings(f), proptest::collection::vec(change(f), 0..8));
        [life(), life()]
    })
}

fn planner((settings, ports): &(Settings, Vec<PortChange>), config: &Config) -> Planner {
    let mut book = Book::new(settings.clone());
    for change in ports {
        book.update(changes(std::slice::from_ref(change)));
    }
    Planner::new(config.clone(), book)
}

fn everything(planner: &Planner) -> Vec<Op> {
    let mut ops = Vec::new();
    planner.everything(&mut |owner, change| ops.push(Op { change, owner: owner.cloned() }));
    ops
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_earlier_run_is_adopted([before, after] in lives(), mark in select(vec![1_u32, 1 << 14])) {
        let old = planner(&before, &Config::default());
        let mut kernel = FakeKernel::default();
        prop_assert_eq!(kernel.commit(&everything(&old)), Ok(()));
        prop_assert_eq!(&kernel, &FakeKernel::holding(old.ruleset()));
        // Nothing changed: nothing is written, also by a planner that has lived through something else.
        let mut same = planner(&before, &Config::default());
        same.partial(changes(&after.1));
        let mut back: PortChanges = same.book().ports().keys().map(|name| (name.clone(), None)).collect();
        back.extend(old.book().ports().iter().map(|(name, port)| (name.clone(), Some(port.clone()))));
        same.partial(back);
        same.adopt(&kernel.ruleset);
        prop_assert_eq!(same.repair(kernel.ruleset.clone()), vec![]);
        prop_assert_eq!(same.ruleset(), old.ruleset());
        // Another life, with other wishes.
        let service_cidrs = vec![range(after.0.family, "10.96.0.0/16")];
        let mut new = planner(&after, &Config { mark, service_cidrs, ..Config::default() });
        new.adopt(&kernel.ruleset);
        prop_assert_eq!(kernel.commit(&new.repair(kernel.ruleset.clone())), Ok(()));
        prop_assert_eq!(&kernel.ruleset, &new.ruleset());
        prop_assert_eq!(new.repair(kernel.ruleset.clone()), vec![]);
    }

    /// The first write in pieces, and an end after some of them: the next run finishes it.
    #[test]
    fn a_first_write_that_was_cut_short_is_adopted([life, _] in lives(), cut in any::<prop::sample::Index>()) {
        let mut planner = planner(&life, &Config::default());
        let ops = everything(&planner);
        // Table and sets are there: without them the next run starts from nothing.
        let start = Set::ALL.len() + 1;
        let (done, left) = ops.split_at(start + cut.index(ops.len() - start));
        let mut kernel = FakeKernel::default();
        prop_assert_eq!(kernel.commit(done), Ok(()));
        let serves = kernel.ruleset.chains.values().any(|chain| chain.base.is_some());
        let is_element = |op: &Op| matches!(op.change, Change::AddElement(..));
        prop_assert!(!serves || !left.iter().any(is_element), "packets come in before everything is there");
        planner.adopt(&kernel.ruleset);
        prop_assert_eq!(kernel.commit(&planner.repair(kernel.ruleset.clone())), Ok(()));
        prop_assert_eq!(&kernel.ruleset, &planner.ruleset());
    }

    /// Somebody deletes elements and chains, and empties others.
    #[test]
    fn foreign_changes_are_repaired(
        [life, _] in lives(),
        gone in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let planner = planner(&life, &Config::default());
        let mut kernel = FakeKernel::holding(planner.ruleset());
        for (n, index) in gone.iter().enumerate() {
            let places: Vec<Place> = kernel.ruleset.elements.keys().copied().collect();
            let names: Vec<String> = kernel.ruleset.chains.keys().cloned().collect();
            if n % 2 == 0 && !places.is_empty() {
                kernel.ruleset.elements.remove(index.get(&places));
            } else {
                kernel.ruleset.chains.get_mut(index.get(&names)).unwrap().rules.clear();
            }
        }
        prop_assert_eq!(kernel.commit(&planner.repair(kernel.ruleset.clone())), Ok(()));
        prop_assert_eq!(&kernel.ruleset, &planner.ruleset());
    }
}

#[test]
fn a_restart_moves_no_endpoint() {
    let world = World::new(
        Family::V4,
        "svc a/x tcp 10.96.0.1:80 node=30080 etp=local\n ep 10.1.0.1:80 @here\n ep 10.1.0.2:80 @here\n ep 10.1.1.1:80",
    );
    let mut planner = Planner::new(Config::default(), world.book());
    let mut port = world.ports[0].clone();
    port.endpoints.remove(0);
    planner.partial(all(&[port.clone()]));
    let held = planner.ruleset();
    // The first endpoint comes back: a fresh planner would put it into the first slot.
    let mut fresh = Planner::new(Config::default(), world.book());
    assert_ne!(fresh.repair(held.clone()).len(), 0);
    fresh.adopt(&held);
    planner.partial(all(&world.ports));
    assert_eq!(fresh.ruleset(), planner.ruleset());
}

/// The cluster IP has only the local slots, the node port only those of the cluster.
#[test]
fn slots_are_put_together_from_all_frontends() {
    let text = "svc a/x tcp 10.96.0.1:80 node=30080 itp=local";
    let endpoints = [
        "10.1.0.1:80 @here zones=b",
        "10.1.0.2:80 @here zones=b",
        "10.1.1.1:80 zones=a",
        "10.1.1.2:80 zones=a",
    ];
    let world = |list: &[&str]| {
        let lines: String = list.iter().map(|e| format!("\nep {e}")).collect();
        World::new(Family::V4, &format!("{text}{lines}"))
    };
    // Out of order: the first ones come last.
    let mut planner = Planner::new(Config::default(), world(&[endpoints[1], endpoints[3]]).book());
    planner.partial(all(&world(&endpoints).ports));
    let mut fresh = Planner::new(Config::default(), world(&endpoints).book());
    assert_ne!(fresh.ruleset(), planner.ruleset());
    fresh.adopt(&planner.ruleset());
    assert_eq!(fresh.repair(planner.ruleset()), vec![]);
}

/// Ops say whose they are, so that a refusal can be blamed on a service port.
#[test]
fn additions_name_their_owner() {
    let world = World::new(
        Family::V4,
        "svc a/x tcp 10.96.0.1:80 sticky=60\n ep 10.1.0.1:80\n svc b/x tcp 10.96.0.2:80\n ep 10.1.0.1:80",
    );
    for op in everything(&Planner::new(Config::default(), world.book())) {
        let is_owned = match &op.change {
            Change::AddElement(..) | Change::AddClients(_) => true,
            Change::AddChain(chain) => {
                chain.name.starts_with("sticky") || chain.name.starts_with("endpoint-")
            }
            _ => false,
        };
        assert_eq!(op.owner.is_some(), is_owned, "{op:?}");
    }
}
