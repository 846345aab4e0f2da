//! The figures of a size and kind as rows of a table: names, units, and one value out of several rounds.
//!
//! In: rounds. Out: a [`Value`] for each [`Measure`], or none if nothing was measured. Times of single changes are pooled over rounds; of
//! everything else the median counts.

use crate::figures::{Changes, Connect, Round, quantile};
use crate::options::Extent;
use crate::stage::Took;

/// A number, or a bound of it: what was not done before its deadline takes longer than that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) number: f64,
    pub(crate) is_at_least: bool,
}

impl Value {
    pub(crate) fn exact(number: f64) -> Self {
        Self { number, is_at_least: false }
    }
}

impl From<Took> for Value {
    fn from(took: Took) -> Self {
        match took {
            Took::Seconds(number) => Self::exact(number),
            Took::NotAfter(number) => Self { number, is_at_least: true },
        }
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Megabytes,
    Microseconds,
    /// A ratio to a bare connection, or of two Services.
    Times,
    /// Parts of a thousand.
    PerMille,
    /// How many values a figure is of.
    Count,
}

/// A row.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    of: fn(&[Round]) -> Option<Value>,
}

impl Measure {
    /// Of all rounds of one size and kind.
    pub(crate) fn value(&self, rounds: &[Round]) -> Option<Value> {
        (self.of)(rounds)
    }

    /// True if a proxy has a part in it and a ratio says something.
    pub(crate) fn is_compared(&self) -> bool {
        let is_said_alone = [Unit::PerMille, Unit::Count].contains(&self.unit);
        !is_said_alone && ![API_ANSWER.name, BARE.name].contains(&self.name)
    }
}

pub(crate) const FIRST_SYNC: Measure = Measure {
    name: "first sync: process start until the last Service answers",
    unit: Unit::Seconds,
    of: |rounds| median(rounds, |round| round.first_sync.map(Value::from)),
};
pub(crate) const FIRST_SYNC_METRIC: Measure = Measure {
    name: "first sync, by the proxy's own metric",
    unit: Unit::Seconds,
    of: |rounds| median(rounds, |round| round.first_sync_metric.map(Value::exact)),
};
pub(crate) const CHANGE_P50: Measure =
    Measure { name: "API write to kernel, p50", unit: Unit::Seconds, of: |rounds| change(rounds, 0.5) };
pub(crate) const CHANGE_P99: Measure =
    Measure { name: "API write to kernel, p99", unit: Unit::Seconds, of: |rounds| change(rounds, 0.99) };
pub(crate) const CHANGE_P50_NO_PAUSE: Measure = Measure {
    name: "API write to kernel, minimum sync period 0, p50",
    unit: Unit::Seconds,
    of: |rounds| change_without_pause(rounds, 0.5),
};
pub(crate) const CHANGE_P99_NO_PAUSE: Measure = Measure {
    name: "API write to kernel, minimum sync period 0, p99",
    unit: Unit::Seconds,
    of: |rounds| change_without_pause(rounds, 0.99),
};
/// No proxy has a part in it: a sign of what the machine did meanwhile.
pub(crate) const API_ANSWER: Measure = Measure {
    name: "of it the API server's answer, p50",
    unit: Unit::Seconds,
    of: |rounds| pooled(rounds, |round| round.changes.as_ref(), |changes| &changes.api_seconds, 0.5),
};
pub(crate) const RESTART: Measure = Measure {
    name: "restart: process start until rules are written, by its own metric",
    unit: Unit::Seconds,
    of: |rounds| median(rounds, |round| round.restart.map(Value::from)),
};
pub(crate) const MEMORY: Measure = Measure {
    name: "resident memory after the first sync",
    unit: Unit::Megabytes,
    of: |rounds| median(rounds, |round| round.memory.map(|memory| Value::exact(memory.resident))),
};
pub(crate) const MEMORY_AFTER: Measure = Measure {
    name: "resident memory after changes and churn",
    unit: Unit::Megabytes,
    of: |rounds| median(rounds, |round| round.memory_after_churn.map(|memory| Value::exact(memory.resident))),
};
/// No proxy has a part in it, either.
const BARE: Measure = Measure {
    name: "a bare connection, p50",
    unit: Unit::Microseconds,
    of: |rounds| connect(rounds, |connect| connect.bare.p50),
};
pub(crate) const CONNECT_LAST: Measure = Measure {
    name: "connect through the last Service, times a bare connection, p50",
    unit: Unit::Times,
    of: |rounds| connect(rounds, |connect| connect.last.p50 / connect.bare.p50),
};
pub(crate) const LAST_TO_FIRST: Measure = Measure {
    name: "connect through the last Service, times the first, p50",
    unit: Unit::Times,
    of: |rounds| connect(rounds, |connect| connect.last.p50 / connect.first.p50),
};
pub(crate) const CONNECT_FIRST_P99: Measure = Measure {
    name: "connect through the first Service, times a bare connection, p99",
    unit: Unit::Times,
    of: |rounds| connect(rounds, |connect| connect.first.p99 / connect.bare.p99),
};
pub(crate) const CONNECT_LAST_P99: Measure = Measure {
    name: "connect through the last Service, times a bare connection, p99",
    unit: Unit::Times,
    of: |rounds| connect(rounds, |connect| connect.last.p99 / connect.bare.p99),
};
pub(crate) const CONNECT_MEAN: Measure = Measure {
    name: "connect through these two, mean, times a bare connection, p50",
    unit: Unit::Times,
    of: |rounds| {
        connect(rounds, |connect| f64::midpoint(connect.first.p50, connect.last.p50) / connect.bare.p50)
    },
};
pub(crate) const SETTLED: Measure = Measure {
    name: "churn: last change until it is in the kernel",
    unit: Unit::Seconds,
    of: |rounds| median(rounds, |round| round.churn.as_ref()?.settled.map(Value::from)),
};

/// All rows, in the order of the table.
pub(crate) const MEASURES: [Measure; 32] = [
    Measure {
        name: "first syncs counted",
        unit: Unit::Count,
        of: |rounds| count(rounds, |r| r.first_sync.is_some()),
    },
    Measure {
        name: "complete rounds",
        unit: Unit::Count,
        of: |rounds| count(rounds, |r| r.extent == Extent::All),
    },
    FIRST_SYNC,
    FIRST_SYNC_METRIC,
    Measure {
        name: "first sync, processor time",
        unit: Unit::Seconds,
        of: |rounds| median(rounds, |round| round.first_sync_processor.map(Value::exact)),
    },
    CHANGE_P50,
    CHANGE_P99,
    Measure {
        name: "changes counted",
        unit: Unit::Count,
        of: |rounds| samples(rounds, |round| round.changes.as_ref()),
    },
    CHANGE_P50_NO_PAUSE,
    CHANGE_P99_NO_PAUSE,
    Measure {
        name: "changes counted, minimum sync period 0",
        unit: Unit::Count,
        of: |rounds| samples(rounds, |round| round.changes_without_pause.as_ref()),
    },
    API_ANSWER,
    Measure { name: "processor time for one change", unit: Unit::Seconds, of: processor_of_a_change },
    RESTART,
    Measure {
        name: "restart, processor time",
        unit: Unit::Seconds,
        of: |rounds| median(rounds, |round| round.restart_processor.map(Value::exact)),
    },
    MEMORY,
    Measure {
        name: "peak memory after the first sync",
        unit: Unit::Megabytes,
        of: |rounds| median(rounds, |round| round.memory.map(|memory| Value::exact(memory.peak))),
    },
    MEMORY_AFTER,
    Measure {
        name: "peak memory after changes and churn",
        unit: Unit::Megabytes,
        of: |rounds| median(rounds, |round| round.memory_after_churn.map(|memory| Value::exact(memory.peak))),
    },
    SETTLED,
    Measure {
        name: "churn, processor time",
        unit: Unit::Seconds,
        of: |rounds| median(rounds, |round| Some(Value::exact(round.churn.as_ref()?.processor))),
    },
    Measure {
        name: "churn, failed connections to a Service whose pods stay",
        unit: Unit::PerMille,
        of: |rounds| median(rounds, |round| Some(round.churn.as_ref()?.steady.failed_part())),
    },
    Measure {
        name: "churn, failed connections to a Service whose pods roll",
        unit: Unit::PerMille,
        of: |rounds| median(rounds, |round| Some(round.churn.as_ref()?.rolled.failed_part())),
    },
    BARE,
    Measure {
        name: "connect through the last Service, p50",
        unit: Unit::Microseconds,
        of: |rounds| connect(rounds, |connect| connect.last.p50),
    },
    Measure {
        name: "connect to a pod on the node, times a bare connection, p50",
        unit: Unit::Times,
        of: |rounds| connect(rounds, |connect| connect.direct.p50 / connect.bare.p50),
    },
    Measure {
        name: "connect through the first Service, times a bare connection, p50",
        unit: Unit::Times,
        of: |rounds| connect(rounds, |connect| connect.first.p50 / connect.bare.p50),
    },
    CONNECT_LAST,
    CONNECT_MEAN,
    CONNECT_FIRST_P99,
    CONNECT_LAST_P99,
    LAST_TO_FIRST,
];

impl crate::figures::Connections {
    fn failed_part(&self) -> Value {
        Value::exact(f64::from(self.failed) * 1000.0 / f64::from(self.made.max(1)))
    }
}

fn count(rounds: &[Round], is_one: impl Fn(&Round) -> bool) -> Option<Value> {
    let count = rounds.iter().filter(|round| is_one(round)).count();
    (count > 0).then_some(Value::exact(count as f64))
}

/// Changes that quantiles are of, with those that were not seen in time.
fn samples(rounds: &[Round], changes: impl Fn(&Round) -> Option<&Changes>) -> Option<Value> {
    let of = |changes: &Changes| changes.seconds.len() + usize::from(changes.not_after.is_some());
    let count: usize = rounds.iter().filter_map(changes).map(of).sum();
    (count > 0).then_some(Value::exact(count as f64))
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> Option<Value>) -> Option<Value> {
    let mut values: Vec<Value> = rounds.iter().filter_map(of).collect();
    // What was not done in time took longest.
    values.sort_by(|a, b| a.is_at_least.cmp(&b.is_at_least).then(a.number.total_cmp(&b.number)));
    values.get(values.len() / 2).copied()
}

fn connect(rounds: &[Round], of: impl Fn(&Connect) -> f64) -> Option<Value> {
    median(rounds, |round| round.connect.as_ref().map(|connect| Value::exact(of(connect))))
}

fn change(rounds: &[Round], part: f64) -> Option<Value> {
    pooled(rounds, |round| round.changes.as_ref(), |changes| &changes.seconds, part)
}

fn change_without_pause(rounds: &[Round], part: f64) -> Option<Value> {
    pooled(rounds, |round| round.changes_without_pause.as_ref(), |changes| &changes.seconds, part)
}

fn pooled(
    rounds: &[Round],
    changes: impl Fn(&Round) -> Option<&Changes>,
    of: impl Fn(&Changes) -> &Vec<f64>,
    part: f64,
) -> Option<Value> {
    let series: Vec<&Changes> = rounds.iter().filter_map(&changes).collect();
    let not_after = series.iter().filter_map(|changes| changes.not_after);
    let mut all: Vec<f64> = series.iter().flat_map(|changes| of(changes).clone()).collect();
    all.extend(not_after.clone().map(|_| f64::INFINITY));
    let found = quantile(&all, part);
    match not_after.max_by(f64::total_cmp) {
        Some(number) if found.is_infinite() => Some(Value { number, is_at_least: true }),
        _ => (!all.is_empty()).then_some(Value::exact(found)),
    }
}

fn processor_of_a_change(rounds: &[Round]) -> Option<Value> {
    median(rounds, |round| {
        let changes = round.changes.as_ref().filter(|changes| !changes.seconds.is_empty())?;
        // The first change of a series is made, and not counted.
        Some(Value::exact(changes.processor / (changes.seconds.len() as f64 + 1.0)))
    })
}

/// How many times as much the peer has. Above a bound of the peer's the ratio is a bound too; a bound of ours says nothing.
pub(crate) fn ratio(peer: Value, ours: Value) -> Option<Value> {
    let is_possible = !ours.is_at_least && ours.number > 0.0;
    is_possible.then(|| Value { number: peer.number / ours.number, is_at_least: peer.is_at_least })
}
