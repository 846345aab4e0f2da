//! Connections that are made all the time while something else happens.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use switchyard_lab::{Dial, Host};
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
