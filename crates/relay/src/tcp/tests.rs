//! Attempts to reach a target, by a clock that stands still unless everybody waits.

use std::net::SocketAddr;

use tokio::runtime::Builder;

use super::*;
use crate::backends::Targets;
use crate::counts::Counts;
use crate::relay::Config;
use crate::tests::tcp::{echo, hanging, nobody};

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

fn door(targets: &[SocketAddr]) -> Door {
    let backends = Backends::new(Targets { new: targets.to_vec(), ..Targets::default() });
    Door::new(Origin::Any, CLIENT, Arc::new(backends), Arc::new(Shared::new(Config::default())))
}

/// Who is reached, and after how many milliseconds.
fn reach(door: &Door) -> (Option<SocketAddr>, u128) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let begin = tokio::time::Instant::now();
        let timer = pin!(tokio::time::sleep(Duration::ZERO));
        let reached = dial(door, CLIENT, timer).await;
        (reached.map(|stream| stream.peer_addr().unwrap()), begin.elapsed().as_millis())
    })
}

fn counts(door: &Door) -> Counts {
    door.shared.tallies.snapshot()
}

#[test]
fn the_timeouts_are_kube_proxys() {
    assert_eq!(Config::default().dial_timeouts.map(|timeout| timeout.as_millis()), [250, 500, 1000, 2000]);
}

#[test]
fn targets_that_hang_are_given_up_after_four_timeouts() {
    let (targets, _held): (Vec<SocketAddr>, Vec<_>) = (0..6).map(|_| hanging()).unzip();
    let door = door(&targets);
    assert_eq!(reach(&door), (None, 3750));
    assert_eq!((counts(&door).retries, counts(&door).unreachable), (3, 1));
}

#[test]
fn each_attempt_has_the_next_timeout() {
    let (hangs, _held) = hanging();
    // One that refuses takes the first or the second turn, and no time.
    let (reached, after) = reach(&door(&[nobody(), hangs]));
    assert!(reached.is_none() && [500 + 1000 + 2000, 250 + 1000 + 2000].contains(&after), "{after}");
}

#[test]
fn four_targets_are_asked_and_no_more() {
    let good = echo();
    let targets = [nobody(), nobody(), nobody(), nobody(), nobody(), good];
    let door = door(&targets);
    // Two connections go once around.
    let reached: Vec<_> = (0..12).map(|_| reach(&door).0).collect();
    assert!(reached.contains(&None) && reached.contains(&Some(good)), "{reached:?}");
    let failed = u64::try_from(reached.iter().filter(|reached| reached.is_none()).count()).unwrap();
    let counts = counts(&door);
    assert_eq!(counts.unreachable, failed);
    assert!((failed * 3..=12 * 3).contains(&counts.retries), "{counts:?}");
}
