//! Whether a goal is met.
//!
//! In: what kube-proxy and Switchyard take. Out: met, missed, or why nobody can say. What Switchyard did not reach and kube-proxy did is
//! missed, not left out.

use crate::measure::{Measure, SETTLED, Value};

/// What Switchyard may take at most.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// This part of what kube-proxy takes: one divided by the number.
    Times(f64),
    /// What kube-proxy takes, times this, and so many seconds more.
    NoWorse { factor: f64, seconds: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// Why it is not known.
    Open(&'static str),
}

/// How far apart two measurements of one thing may be. A p99 is one of the slowest values, of few.
const NOISE: f64 = 1.1;
const NOISE_P99: f64 = 1.25;

/// Where both proxies pause between syncs, churn ends anywhere in a pause.
const PAUSE: f64 = 1.0;

impl Goal {
    /// No worse than kube-proxy, but for noise. `pauses` are those of the mode that is compared.
    pub(crate) fn no_worse(measure: &Measure, pauses: Pauses) -> Self {
        let factor = if measure.name.ends_with("p99") { NOISE_P99 } else { NOISE };
        let is_in_pause = pauses == Pauses::Both && measure.name == SETTLED.name;
        Self::NoWorse { factor, seconds: if is_in_pause { PAUSE } else { 0.0 } }
    }

    fn most(self, peer: f64) -> f64 {
        match self {
            Self::Times(times) => peer / times,
            Self::NoWorse { factor, seconds } => peer * factor + seconds,
        }
    }

    /// For the table.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Times(times) => format!("at least {times:.0}"),
            Self::NoWorse { factor, seconds } => {
                let more = if seconds > 0.0 { format!(" and {seconds:.0} s") } else { String::new() };
                format!("no worse, within {:.0} %{more}", (factor - 1.0) * 100.0)
            }
        }
    }
}

/// Who pauses between syncs when nobody says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pauses {
    Both,
    KubeProxy,
}

/// Of values measured together; none is what the proxy did not reach.
pub(crate) fn judge(goal: Goal, peer: Option<Value>, ours: Option<Value>) -> Verdict {
    match (peer, ours) {
        (Some(peer), Some(ours)) => {
            let most = goal.most(peer.number);
            match ours.number <= most {
                true if !ours.is_at_least => Verdict::Met,
                false if !peer.is_at_least => Verdict::Missed,
                _ => Verdict::Open("the deadline hides it"),
            }
        }
        (Some(_), None) => Verdict::Missed,
        (None, Some(_)) => Verdict::Open("kube-proxy did not get so far"),
        (None, None) => Verdict::Open("neither got so far"),
    }
}
