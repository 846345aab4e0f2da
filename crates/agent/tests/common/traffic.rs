//! Connections that stay open, and such that are made all the time, while something else happens.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use switchyard_lab::{Dial, Held, Host};
use switchyard_model::Family;

use super::looking::at;
use super::world::World;

/// Connects from pod n1.9 to `cluster.1:80` all the time while `body` runs; nothing may fail.
pub(crate) fn while_connecting(world: &World, body: impl FnOnce()) {
    world.refuse_untranslated();
    let (stop, made) = (AtomicBool::new(false), AtomicU32::new(0));
    let caller = world.pod("n1.9");
    std::thread::scope(|scope| {
        let work = scope.spawn(|| connect_until(&caller, &stop, &made));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        stop.store(true, Ordering::Relaxed);
        let failures = work.join().unwrap();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        assert!(failures.is_empty(), "{failures:?}");
    });
    let made = made.into_inner();
    eprintln!("{made} connections");
    assert!(made > 20, "only {made} connections were tried");
}

fn connect_until(caller: &Host, stop: &AtomicBool, made: &AtomicU32) -> Vec<String> {
    let mut failures = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for family in Family::ALL {
            let answer = caller.dial(&Dial::tcp(at("cluster.1:80", family)).within(Duration::from_secs(10)));
            if answer.name().is_none() {
                failures.push(format!("connection {}: {family}: {answer:?}", made.load(Ordering::Relaxed)));
            }
            made.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    failures
}

/// Connections to `cluster.1:80` from a pod and to its node port 30080 from outside, in both families, each with who answers.
pub(crate) fn hold_both(world: &World) -> Vec<(Held, String)> {
    let ways = [("n1.9", "cluster.1:80"), ("client", "n1:30080")];
    let hold = |family: Family, (from, to): (&str, &str)| {
        let mut held = world.host(from).hold(&Dial::tcp(at(to, family))).unwrap();
        let name = held.ask().name().unwrap().to_owned();
        (held, name)
    };
    Family::ALL.into_iter().flat_map(|family| ways.map(|way| hold(family, way))).collect()
}

/// All of them still lead where they led.
pub(crate) fn assert_held(held: &mut [(Held, String)]) {
    for (held, name) in held {
        assert_eq!(held.ask().name(), Some(name.as_str()));
    }
}
