//! What was refused is set aside and comes back.

use super::*;

const TEXT: &str = "svc a/x tcp 10.96.0.1:80\n ep 10.1.0.1:80
    svc b/x tcp 10.96.0.2:80\n ep 10.1.0.1:80
    svc c/x tcp 10.96.0.3:80\n ep 10.1.0.1:80";

fn world() -> World {
    World::new(Family::V4, TEXT)
}

fn mentions(kernel: &FakeKernel, text: &str) -> bool {
    kernel.chain("nat", "KUBE-SERVICES").iter().any(|rule| rule.contains(text))
}

#[test]
fn a_port_without_a_good_value_vanishes_and_comes_back() {
    for limit in [1, 2, 100] {
        let mut planner = world().planner();
        let mut kernel = FakeKernel::default();
        sync(&mut planner, &mut kernel, limit);
        let all_there = kernel.clone();
        let name = world().ports[1].name.clone();
        planner.book_mut().quarantine(&name, None, "refused".into());
        assert_eq!(planner.book().quarantined()[&name].cause, "refused");
        sync(&mut planner, &mut kernel, limit);
        assert!(!mentions(&kernel, "b/x") && mentions(&kernel, "a/x") && mentions(&kernel, "c/x"));
        assert_counts(&planner, &kernel);
        planner.book_mut().readmit();
        assert!(planner.book().quarantined().is_empty());
        sync(&mut planner, &mut kernel, limit);
        assert_eq!(kernel, all_there);
        assert_counts(&planner, &kernel);
    }
}

#[test]
fn a_port_falls_back_to_its_good_value() {
    let good = Arc::new(world().ports[1].clone());
    let mut bad = world().ports[1].clone();
    bad.external_ips = vec![address(Family::V4, "203.0.113.1")];
    let mut planner = world().planner();
    let mut kernel = FakeKernel::default();
    sync(&mut planner, &mut kernel, 100);
    let before = kernel.clone();
    planner.partial(all(std::slice::from_ref(&bad)));
    planner.book_mut().quarantine(&bad.name, Some(good), "refused".into());
    sync(&mut planner, &mut kernel, 100);
    assert_eq!(kernel, before);
    // A new value of the object is tried at once.
    let mut newer = bad.clone();
    newer.external_ips = vec![address(Family::V4, "203.0.113.2")];
    let partial = planner.partial(all(&[newer]));
    assert_eq!(kernel.restore(&partial.batch.restore.text()), Ok(()));
    assert!(mentions(&kernel, "203.0.113.2") && planner.book().quarantined().is_empty());
    assert_counts(&planner, &kernel);
}

/// The newest value is what the object says; a fallback that is refused as well must not replace it.
#[test]
fn the_newest_value_comes_back_even_if_the_good_one_was_refused_too() {
    let good = Arc::new(world().ports[1].clone());
    let mut bad = world().ports[1].clone();
    bad.external_ips = vec![address(Family::V4, "203.0.113.1")];
    let mut planner = world().planner();
    planner.partial(all(std::slice::from_ref(&bad)));
    planner.book_mut().quarantine(&bad.name, Some(good.clone()), "refused".into());
    planner.book_mut().quarantine(&bad.name, Some(good), "refused as well".into());
    assert!(!planner.book().ports().contains_key(&bad.name));
    assert_eq!(planner.book().quarantined()[&bad.name].cause, "refused as well");
    planner.book_mut().readmit();
    assert_eq!(*planner.book().ports()[&bad.name], bad);
}

#[test]
fn a_quarantined_port_that_is_deleted_is_forgotten() {
    let mut planner = world().planner();
    let name = world().ports[0].name.clone();
    planner.book_mut().quarantine(&name, None, "refused".into());
    let partial = planner.partial([(name.clone(), None)].into());
    assert!(partial.batch.restore.is_empty() && planner.book().quarantined().is_empty());
    planner.book_mut().readmit();
    assert!(!planner.book().ports().contains_key(&name));
}

#[test]
fn its_frontends_go_to_the_next_in_line() {
    let text = "svc a/x tcp 10.96.0.1:80 ext=203.0.113.1 created=1\n ep 10.1.0.1:80
        svc b/x tcp 10.96.0.2:80 ext=203.0.113.1 created=2\n ep 10.1.0.1:80";
    let mut planner = World::new(Family::V4, text).planner();
    let mut kernel = FakeKernel::default();
    let name = planner.book().ports().keys().next().unwrap().clone();
    planner.book_mut().quarantine(&name, None, "refused".into());
    sync(&mut planner, &mut kernel, 100);
    assert!(mentions(&kernel, "\"b/x external IP\""));
    planner.book_mut().readmit();
    sync(&mut planner, &mut kernel, 100);
    assert!(mentions(&kernel, "\"a/x external IP\"") && !mentions(&kernel, "\"b/x external IP\""));
}

/// A step is refused, one of its ports set aside, and the same step rendered again, as whoever writes steps does.
#[test]
fn a_step_can_be_rendered_again_without_the_refused_port() {
    for refused in 0..3 {
        let mut planner = world().planner();
        let mut kernel = FakeKernel::default();
        let name = world().ports[refused].name.clone();
        for step in planner.full(&BTreeSet::new(), 1) {
            let mut batch = planner.render(&step);
            if step == Step::Leaves(vec![name.clone()]) {
                planner.book_mut().quarantine(&name, None, "refused".into());
                batch = planner.render(&step);
                assert_eq!(batch.planned, 0);
            }
            assert_eq!(kernel.restore(&batch.restore.text()), Ok(()));
        }
        assert_eq!(kernel.chains("nat").iter().filter(|c| is_service_chain(c)).count(), 4);
        assert_counts(&planner, &kernel);
    }
}

/// Whichever step is refused, a port that falls back to what the kernel held keeps all of its chains, with the rules
/// of that value.
#[test]
fn a_fallback_in_the_middle_of_a_full_sync_keeps_its_chains() {
    let good = "svc b/x tcp 10.96.0.2:80 lb=198.51.100.1 from=10.0.0.0/8\n ep 10.1.0.1:80\n ep 10.1.0.2:80\n";
    let bad = "svc b/x tcp 10.96.0.2:80 node=30080\n ep 10.1.0.9:80\n";
    let others = "svc a/x tcp 10.96.0.1:80\n ep 10.1.0.1:80\n svc c/x tcp 10.96.0.3:80\n ep 10.1.0.1:80\n";
    for (limit, refused_step) in [(100, 0), (1, 0), (1, 1), (1, 2), (1, 3)] {
        let before = World::new(Family::V4, &format!("{good}{others}"));
        let mut planner = before.planner();
        let mut kernel = FakeKernel::default();
        sync(&mut planner, &mut kernel, 100);
        let wanted = kernel.clone();
        let bad = World::new(Family::V4, bad).ports;
        let replaced = planner.book_mut().update(all(&bad));
        for (i, step) in planner.full(&kernel.chains("nat"), limit).iter().enumerate() {
            let mut batch = planner.render(step);
            if i == refused_step {
                let old = replaced[0].old.clone();
                planner.book_mut().quarantine(&replaced[0].name, old, "refused".into());
                batch = planner.render(step);
            }
            assert_eq!(kernel.restore(&batch.restore.text()), Ok(()), "limit {limit} step {refused_step}");
        }
        for chain in wanted.chains("nat") {
            let rules = kernel.chain("nat", &chain);
            assert_eq!(rules, wanted.chain("nat", &chain), "limit {limit} step {refused_step}");
        }
        sync(&mut planner, &mut kernel, limit);
        assert_eq!(kernel, wanted);
        assert_counts(&planner, &kernel);
    }
}
