//! A cluster in which much changes: slices are replaced at a steady rate, pods of one Service replace each other, and connections are
//! made all the while.
//!
//! A new pod is ready before the old one is taken out of the slice, and the old one goes on serving for [`GRACE`] after that; a proxy that
//! is slower sends connections where nobody is.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use switchyard_lab::{Dial, Host};

use crate::changes;
use crate::cluster::{Objects, PODS, ROLLED, ROLLING, at, pod};
use crate::figures::{Churn, Connections};
use crate::stage::Stage;

/// Slices a second, and for how long.
const RATE: u32 = 50;
const TIME: Duration = Duration::from_secs(20);

/// How long a pod serves after its endpoint is gone from the API.
const GRACE: Duration = Duration::from_secs(2);

/// One pod replaces another this often.
const ROLL_EVERY: Duration = Duration::from_secs(2);

/// Between two connections to one Service.
const CONNECT_EVERY: Duration = Duration::from_millis(5);

/// A connection that takes longer has failed.
const ANSWER: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) fn measure(stage: &mut Stage<'_>, services: u32, deadline: Duration) -> anyhow::Result<Churn> {
    let objects = &stage.cluster.objects;
    let (steady, rolled) = (at(&objects.crowd, 0), at(&objects.special, ROLLED));
    let (caller, stop) = (stage.caller.clone(), AtomicBool::new(false));
    let (begin, processor) = (Instant::now(), stage.processor()?);
    let mut churn = Churn::default();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let connections = [steady, rolled].map(|to| {
            scope.spawn({
                let (caller, stop) = (&caller, &stop);
                move || connect_until(caller, to, stop)
            })
        });
        let writing = scope.spawn(|| write(objects, services));
        let outcome = roll_pods(stage).and_then(|()| {
            let written = writing.join().unwrap()?;
            churn.seconds = begin.elapsed().as_secs_f64();
            churn.rate = f64::from(written) / churn.seconds;
            let (_, settled) = changes::replace(stage, &mut objects.special.line(), deadline)?;
            churn.settled = Some(settled);
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        let [steady, rolled] = connections.map(|thread| thread.join().unwrap());
        (churn.steady, churn.rolled) = (steady, rolled);
        outcome
    })?;
    churn.processor = stage.processor()? - processor;
    Ok(churn)
}

/// Replaces all endpoints of one Service after the other, at a steady rate; how many.
fn write(objects: &Objects, services: u32) -> anyhow::Result<u32> {
    let (begin, mut line) = (Instant::now(), objects.crowd.line());
    let (mut written, mut revision) = (0, 0);
    let numbers = (0..services).filter(|n| !objects.is_alive(*n)).collect::<Vec<_>>();
    for (count, n) in (0_u32..).zip(numbers.iter().cycle()) {
        let due = begin + Duration::from_secs(1) / RATE * count;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if begin.elapsed() >= TIME {
            break;
        }
        let now = objects.crowd.roll(&mut line, *n, &objects.other_endpoints(*n))?;
        ensure!(now > revision, "a slice was written that was there already: no proxy hears of it");
        (written, revision) = (written + 1, now);
    }
    Ok(written)
}

/// Lets pods replace each other. All of them serve again when it returns.
fn roll_pods(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let special = &stage.cluster.objects.special;
    let (begin, mut line) = (Instant::now(), special.line());
    let mut ending: Vec<(Instant, usize)> = Vec::new();
    let ring = |n: usize| n % ROLLING.len();
    let address = |n: usize| ROLLING.get(ring(n)).copied().map(pod).unwrap_or_default();
    let index = |n: usize| PODS.len() + ring(n);
    let mut step = 0;
    // Over before the writes are: what follows the last of them must be the mark of the end.
    while begin.elapsed() + ROLL_EVERY < TIME {
        stage.serve(index(step + 1), true)?;
        special.roll(&mut line, ROLLED, &[address(step), address(step + 1)])?;
        std::thread::sleep(ROLL_EVERY / 2);
        special.roll(&mut line, ROLLED, &[address(step + 1)])?;
        ending.push((Instant::now() + GRACE, index(step)));
        std::thread::sleep(ROLL_EVERY / 2);
        for (_, pod) in ending.extract_if(.., |(end, _)| *end <= Instant::now()) {
            stage.serve(pod, false)?;
        }
        step += 1;
    }
    special.roll(&mut line, ROLLED, &[address(0)])?;
    (0..ROLLING.len()).try_for_each(|n| stage.serve(index(n), true))
}

fn connect_until(caller: &Host, to: SocketAddr, stop: &AtomicBool) -> Connections {
    let mut connections = Connections::default();
    while !stop.load(Ordering::Relaxed) {
        connections.made += 1;
        if caller.dial(&Dial::tcp(to).within(ANSWER)).name().is_none() {
            connections.failed += 1;
        }
        std::thread::sleep(CONNECT_EVERY);
    }
    connections
}
