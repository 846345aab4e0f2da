//! Somebody changes our rules, we repair them, and so on: how long to rest in between, and when to raise the alarm. Pure: time
//! comes in as a value.

use std::time::{Duration, Instant};

/// Shortest and longest rest between two repairs, so that a fight with another program stays bounded.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// A quarrel is over when nothing happened for so long.
const PEACE: Duration = Duration::from_secs(60);

/// What an operator should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// Somebody changed our rules, for the first time in a while.
    Begun,
    /// They do not stop: the rest has become as long as it gets.
    Stubborn,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Quarrel {
    /// Rest before the next repair, and when the last one was.
    last: Option<(Duration, Instant)>,
}

impl Quarrel {
    /// When the next repair may be; at once if there was none.
    pub(super) fn due(&self) -> Option<Instant> {
        self.last.map(|(rest, last)| last + rest)
    }

    /// A repair is being made. Says which alarm to raise: one when a quarrel begins and one when it does not end,
    /// however many repairs there are.
    pub(super) fn repair(&mut self, now: Instant) -> Option<Alarm> {
        let (rest, alarm) = match self.last {
            Some((rest, last)) if now.saturating_duration_since(last) <= PEACE => {
                let longer = (rest * 2).min(REST.1);
                (longer, (rest < REST.1 && longer == REST.1).then_some(Alarm::Stubborn))
            }
            _ => (REST.0, Some(Alarm::Begun)),
        };
        self.last = Some((rest, now));
        alarm
    }

    /// The repair is made: the rest begins.
    pub(super) fn repaired(&mut self, now: Instant) {
        self.last = self.last.map(|(rest, _)| (rest, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fight_is_two_alarms_and_a_growing_rest() {
        let (mut quarrel, start) = (Quarrel::default(), Instant::now());
        assert_eq!(quarrel.due(), None);
        let mut now = start;
        let mut alarms = Vec::new();
        for _ in 0..100 {
            alarms.extend(quarrel.repair(now));
            now += Duration::from_secs(1);
            quarrel.repaired(now);
            let due = quarrel.due().unwrap();
            assert!(due - now <= REST.1, "bounded");
            now = due;
        }
        assert_eq!(alarms, [Alarm::Begun, Alarm::Stubborn]);
        assert!(now - start > REST.1 * 80, "nearly all rests are long: {:?}", now - start);
        now += PEACE + Duration::from_secs(1);
        assert_eq!(quarrel.repair(now), Some(Alarm::Begun), "after peace, a new quarrel");
        assert_eq!(quarrel.due(), Some(now + REST.0));
    }
}
