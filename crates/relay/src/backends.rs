//! Which target a client gets: the one it had, if clients stay with theirs, else the next in turn.
//!
//! In: clients and the outcome of attempts to reach targets. Out: targets to try.
//!
//! Invariants
//! - A target that was tried for a connection is not given out for it again.
//! - No more than [`MAX_CLIENTS`] clients are remembered, and none longer than asked for. Time is passed in.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::generations::Generations;

/// Clients that a listener remembers.
const MAX_CLIENTS: usize = 1 << 16;

/// Who may answer at a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// New clients go to these, in turn.
    pub new: Vec<SocketAddr>,
    /// Running UDP flows may also go on with these.
    pub running: Vec<SocketAddr>,
    /// How long a client stays with its target after its last connection; `None` if every connection stands alone.
    pub stay: Option<Duration>,
}

#[derive(Debug)]
struct Inner {
    targets: Arc<[SocketAddr]>,
    running: HashSet<SocketAddr>,
    stay: Option<Duration>,
    /// The next in turn.
    next: usize,
    clients: Generations<IpAddr, (SocketAddr, Instant)>,
}

impl Inner {
    /// The target that the client is to stay with.
    fn known(&mut self, client: IpAddr, now: Instant) -> Option<SocketAddr> {
        let stay = self.stay?;
        let (target, since) = self.clients.used(&client).0?;
        (now.saturating_duration_since(*since) < stay).then_some(*target)
    }

    /// The next in turn that was not `tried`.
    fn in_turn(&mut self, tried: &[SocketAddr]) -> Option<SocketAddr> {
        let count = self.targets.len();
        let start = self.next.checked_rem(count)?;
        let turn = (start..count).chain(0..start);
        let found = turn
            .filter_map(|index| Some((index, *self.targets.get(index)?)))
            .find(|(_, target)| !tried.contains(target));
        let (index, target) = found?;
        self.next = index.wrapping_add(1);
        Some(target)
    }

    fn remember(&mut self, client: IpAddr, target: SocketAddr, now: Instant) {
        if self.stay.is_some() {
            self.clients.insert(client, (target, now));
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Backends {
    inner: Mutex<Inner>,
}

impl Backends {
    pub(crate) fn new(targets: Targets) -> Self {
        // Relays of many nodes should not all begin with the same target.
        let start = usize::try_from(RandomState::new().hash_one(0) >> 33).unwrap_or_default();
        let inner = Inner {
            targets: Arc::default(),
            running: HashSet::new(),
            stay: None,
            next: start,
            clients: Generations::new(MAX_CLIENTS / 2),
        };
        let backends = Self { inner: Mutex::new(inner) };
        backends.replace(targets);
        backends
    }

    /// From now on these.
    pub(crate) fn replace(&self, targets: Targets) {
        let mut inner = self.lock();
        inner.running = targets.running.iter().chain(&targets.new).copied().collect();
        inner.targets = targets.new.into();
        inner.stay = targets.stay;
        let known: HashSet<SocketAddr> = inner.targets.iter().copied().collect();
        if inner.stay.is_none() {
            inner.clients = Generations::new(MAX_CLIENTS / 2);
        } else {
            inner.clients.retain(|_, (target, _)| known.contains(target));
        }
    }

    /// True if a flow may go on with this target.
    pub(crate) fn may_run(&self, target: &SocketAddr) -> bool {
        self.lock().running.contains(target)
    }

    /// The target to try for a client; `None` if there is none that was not `tried`. Where clients stay, the client stays with
    /// this one from now on: connections that it makes at the same time go there, too.
    pub(crate) fn pick(&self, client: IpAddr, tried: &[SocketAddr], now: Instant) -> Option<SocketAddr> {
        let mut inner = self.lock();
        if let Some(target) = inner.known(client, now).filter(|target| !tried.contains(target)) {
            return Some(target);
        }
        let target = inner.in_turn(tried)?;
        inner.remember(client, target, now);
        Some(target)
    }

    /// As [`Self::pick`], but nobody is remembered before a target is [reached](Self::reached): anybody can write any address on a
    /// datagram, and those that are refused must not make clients forgotten.
    pub(crate) fn propose(&self, client: IpAddr, tried: &[SocketAddr], now: Instant) -> Option<SocketAddr> {
        let mut inner = self.lock();
        let known = inner.known(client, now).filter(|target| !tried.contains(target));
        known.or_else(|| inner.in_turn(tried))
    }

    /// The client reached this target, and stays with it if it has found no other meanwhile.
    pub(crate) fn reached(&self, client: IpAddr, target: SocketAddr, now: Instant) {
        let mut inner = self.lock();
        if inner.known(client, now).is_none_or(|known| known == target) && inner.targets.contains(&target) {
            inner.remember(client, target, now);
        }
    }

    /// The client did not reach this target and need not stay with it. Another connection may have brought it elsewhere since.
    pub(crate) fn missed(&self, client: IpAddr, target: SocketAddr) {
        let mut inner = self.lock();
        if inner.clients.peek(&client).is_some_and(|(known, _)| *known == target) {
            inner.clients.remove(&client);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn target(number: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], number))
    }

    fn backends(numbers: std::ops::RangeInclusive<u16>, stay: Option<Duration>) -> Backends {
        Backends::new(targets(numbers, stay))
    }

    fn targets(numbers: std::ops::RangeInclusive<u16>, stay: Option<Duration>) -> Targets {
        Targets { new: numbers.map(target).collect(), running: Vec::new(), stay }
    }

    #[test]
    fn targets_take_turns() {
        let all = backends(1..=3, None);
        let now = Instant::now();
        let picked: Vec<_> = (0..6).map(|_| all.pick(CLIENT, &[], now).unwrap()).collect();
        assert_eq!(picked[..3], picked[3..]);
        assert_eq!(picked[..3].iter().collect::<HashSet<_>>().len(), 3);
    }

    #[test]
    fn a_connection_tries_each_target_once() {
        let all = backends(1..=3, None);
        let mut tried = Vec::new();
        while let Some(next) = all.pick(CLIENT, &tried, Instant::now()) {
            tried.push(next);
        }
        tried.sort();
        assert_eq!(tried, [target(1), target(2), target(3)]);
        assert_eq!(Backends::new(Targets::default()).pick(CLIENT, &[], Instant::now()), None);
    }

    #[test]
    fn clients_stay_until_their_time_is_over_or_their_target_is_gone() {
        let stay = Duration::from_secs(10);
        let all = backends(1..=3, Some(stay));
        let begin = Instant::now();
        let clients = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        clients.iter().for_each(|client| all.reached(*client, target(2), begin));
        for seconds in [0, 5, 9] {
            assert_eq!(all.pick(clients[0], &[], begin + Duration::from_secs(seconds)), Some(target(2)));
        }
        let later = begin + stay;
        let picked: HashSet<_> =
            clients.iter().map(|client| all.pick(*client, &[], later).unwrap()).collect();
        assert_eq!(picked.len(), 3, "forgotten");
        all.reached(CLIENT, target(2), later);
        all.replace(targets(3..=4, Some(stay)));
        assert_ne!(all.pick(CLIENT, &[], later), Some(target(2)), "gone");
    }

    #[test]
    fn connections_that_a_client_makes_at_once_go_to_one_target() {
        let all = backends(1..=3, Some(Duration::from_secs(10)));
        let now = Instant::now();
        let first = all.pick(CLIENT, &[], now).unwrap();
        assert_eq!((0..3).map(|_| all.pick(CLIENT, &[], now).unwrap()).collect::<Vec<_>>(), [first; 3]);
        // One of them fails and finds another; that others fail too changes nothing any more.
        all.missed(CLIENT, first);
        let second = all.pick(CLIENT, &[first], now).unwrap();
        all.missed(CLIENT, first);
        assert_eq!(all.pick(CLIENT, &[first], now), Some(second));
        all.reached(CLIENT, second, now);
        assert_eq!(all.pick(CLIENT, &[], now), Some(second), "a target that fails holds nobody");
        all.reached(CLIENT, first, now);
        assert_eq!(all.pick(CLIENT, &[], now), Some(second), "one that is late moves nobody");
    }

    #[test]
    fn remembered_clients_are_bounded() {
        let all = backends(1..=1, Some(Duration::from_secs(10)));
        let now = Instant::now();
        for number in 0..200_000_u32 {
            all.reached(IpAddr::V4(number.into()), target(1), now);
        }
        assert!(all.lock().clients.len() <= MAX_CLIENTS);
    }

    #[test]
    fn flows_run_on_with_targets_that_still_answer() {
        let mut targets = targets(1..=1, None);
        targets.running = vec![target(2)];
        let all = Backends::new(targets);
        assert!(all.may_run(&target(1)) && all.may_run(&target(2)) && !all.may_run(&target(3)));
        assert_eq!(all.pick(CLIENT, &[target(1)], Instant::now()), None);
    }
}
