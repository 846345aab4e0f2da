//! `/healthz` and `/livez` over time: when they turn unhealthy, and what they say.

use std::time::{Instant, SystemTime};

use expect_test::{Expect, expect};
use switchyard_model::Family::{V4, V6};

use super::*;

const PERIOD: Duration = Duration::from_secs(30);

/// A clock that starts at a round wall time.
struct Clock(Moment);

impl Clock {
    fn new() -> Self {
        Self(Moment::new(Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)))
    }

    fn at(&self, millis: u64) -> Moment {
        let step = Duration::from_millis(millis);
        Moment::new(self.0.steady() + step, self.0.wall() + step)
    }
}

fn check(health: &ProxyHealth, probe: Probe, now: Moment, want: &Expect) {
    let answer = health.answer(probe, now);
    want.assert_eq(&format!("{} {}", answer.verdict.code(), answer.body));
}

#[test]
fn starting_without_node_is_live_but_takes_no_traffic() {
    let (health, clock) = (ProxyHealth::new(PERIOD), Clock::new());
    check(
        &health,
        Probe::Healthz,
        clock.at(0),
        &expect![[
            r#"503 {"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"2023-11-14T22:13:20Z","nodeEligible":false,"healthy":true}"#
        ]],
    );
    check(
        &health,
        Probe::Livez,
        clock.at(0),
        &expect![[
            r#"200 {"lastUpdated":"2023-11-14T22:13:20Z","currentTime":"2023-11-14T22:13:20Z","healthy":true}"#
        ]],
    );
}

#[test]
fn family_that_never_reported_is_healthy_however_long_a_change_waits() {
    let (health, clock) = (ProxyHealth::new(PERIOD), Clock::new());
    health.queued(V4, clock.at(0));
    assert!(health.is_healthy(clock.at(3_600_000)));
    assert!(!health.answer(Probe::Livez, clock.at(3_600_000)).body.contains("status"));
}

#[test]
fn healthy_answers_say_now() {
    let (health, clock) = (ProxyHealth::new(PERIOD), Clock::new());
    health.node_eligible(Eligible::Yes);
    health.updated(V4, clock.at(500));
    health.updated(V6, clock.at(1_000));
    check(
        &health,
        Probe::Healthz,
        clock.at(90_250),
        &expect![[
            r#"200 {"lastUpdated":"2023-11-14T22:14:50.25Z","currentTime":"2023-11-14T22:14:50.25Z","nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":"2023-11-14T22:13:20.5Z","healthy":true},"IPv6":{"lastUpdated":"2023-11-14T22:13:21Z","healthy":true}}}"#
        ]],
    );
}

#[test]
fn node_on_its_way_out_fails_healthz_only() {
    let (health, clock) = (ProxyHealth::new(PERIOD), Clock::new());
    health.updated(V4, clock.at(0));
    let node = Node { is_to_be_deleted: true, ..Node::default() };
    health.node_eligible(Eligible::from(&node));
    check(
        &health,
        Probe::Healthz,
        clock.at(7_000),
        &expect![[
            r#"503 {"lastUpdated":"2023-11-14T22:13:20Z","currentTime":"2023-11-14T22:13:27Z","nodeEligible":false,"healthy":true,"status":{"IPv4":{"lastUpdated":"2023-11-14T22:13:20Z","healthy":true}}}"#
        ]],
    );
    assert_eq!(health.answer(Probe::Livez, clock.at(7_000)).verdict, Verdict::Ok);
    assert!(health.is_healthy(clock.at(7_000)));
}

#[test]
fn unhealthy_exactly_when_the_oldest_change_waits_for_two_periods() {
    let (health, clock) = (ProxyHealth::new(PERIOD), Clock::new());
    health.node_eligible(Eligible::Yes);
    health.updated(V4, clock.at(0));
    health.updated(V6, clock.at(0));
    health.queued(V6, clock.at(1_000));
    health.queued(V6, clock.at(50_000));
    assert!(health.is_healthy(clock.at(60_999)));
    health.failed(V6, "Service a/b: \"kernel\"\nsays <no>", clock.at(60_000));
    check(
        &health,
        Probe::Healthz,
        clock.at(61_000),
        &expect![[
            r#"503 {"lastUpdated":"2023-11-14T22:13:20Z","currentTime":"2023-11-14T22:14:21Z","nodeEligible":true,"healthy":false,"status":{"IPv4":{"lastUpdated":"2023-11-14T22:13:20Z","healthy":true},"IPv6":{"lastUpdated":"2023-11-14T22:13:20Z","healthy":false}},"lastError":"2023-11-14T22:14:20Z IPv6: Service a/b: \"kernel\"\nsays <no>"}"#
        ]],
    );
    assert_eq!(health.answer(Probe::Livez, clock.at(61_000)).verdict, Verdict::Unavailable);
    health.updated(V6, clock.at(62_000));
    let answer = health.answer(Probe::Healthz, clock.at(600_000));
    assert_eq!(answer.verdict, Verdict::Ok);
    assert!(!answer.body.contains("lastError"), "{}", answer.body);
}

#[test]
fn last_error_is_bounded_and_stays_json() {
    let (health, clock) = (ProxyHealth::new(PERIOD), Clock::new());
    for family in Family::ALL {
        health.failed(family, &"\u{7}\"ü".repeat(100_000), clock.at(0));
    }
    let body = health.answer(Probe::Livez, clock.at(1)).body;
    let value: serde_json::Value = serde_json::from_str(&body).unwrap();
    let text = value["lastError"].as_str().unwrap();
    assert!(text.chars().count() <= ERROR_CHARS, "{}", text.chars().count());
    assert!(text.contains("IPv4: ") && text.contains("IPv6: "), "{text}");
    assert_eq!(value["healthy"], true);
}

/// So far does the wall clock jump in these tests, and to before 1970.
const JUMPS: [i64; 5] = [7 * 3600, -7 * 3600, 1_000_000_000, -1_000_000_000, -2_000_000_000];

impl Clock {
    /// A moment at which the wall clock has jumped.
    fn jumped(&self, millis: u64, jump: i64) -> Moment {
        let moment = self.at(millis);
        let by = Duration::from_secs(jump.unsigned_abs());
        let wall = if jump < 0 { moment.wall() - by } else { moment.wall() + by };
        Moment::new(moment.steady(), wall)
    }
}

#[test]
fn a_jump_of_the_wall_clock_makes_nobody_unhealthy_and_hides_nobody_who_is() {
    for jump in JUMPS {
        let (health, clock) = (ProxyHealth::new(PERIOD), Clock::new());
        health.node_eligible(Eligible::Yes);
        health.updated(V4, clock.at(0));
        health.queued(V4, clock.at(1_000));
        assert_eq!(health.answer(Probe::Healthz, clock.jumped(2_000, jump)).verdict, Verdict::Ok, "{jump}");
        // Two periods after the change came, by the steady clock, and back to normal with the next success.
        let late = clock.jumped(61_000, jump);
        assert_eq!(health.answer(Probe::Healthz, late).verdict, Verdict::Unavailable, "{jump}");
        health.updated(V4, clock.jumped(62_000, jump));
        let answer = health.answer(Probe::Livez, clock.at(63_000));
        assert_eq!(answer.verdict, Verdict::Ok, "the clock is back: {jump}");
        assert!(serde_json::from_str::<serde_json::Value>(&answer.body).is_ok(), "{}", answer.body);
    }
}
