//! Userspace mode beside a direct connection and beside other programs that relay TCP.
//!
//! In: the real agent without any privilege, and `socat` and `haproxy` of the distribution, all on the loopback interface of one
//! private namespace with the same target behind them. Out: throughput, connections and answers per second as shares of a
//! direct connection's, and memory per idle connection. They take turns, so that a busy machine is busy for all.

mod load;
mod rivals;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use switchyard_lab::{Lab, Node};

use super::progress::Progress;
use super::report::Section;
use super::{Goal, Measured, Sizes, median};
use load::{Target, Work};
use rivals::{Rival, Running};

const ABOUT: &str = "The agent without privileges, socat and HAProxy (TCP mode, `option splice-auto`), each between clients and one target on \
the loopback interface of a private namespace. Clients, relay and target share the machine's cores, so a relay that uses one for itself \
takes it from them. Shares are medians over rounds in which all take turns.";

/// Rounds in which all take their turn.
const ROUNDS: usize = 5;

const WORKS: [(Work, &str); 4] = [
    (Work::Stream(1), "throughput of one connection, share of direct"),
    (Work::Stream(8), "throughput of eight connections, share of direct"),
    (Work::Connections, "connections per second, share of direct"),
    (Work::Answers, "answers per second on one connection, share of direct"),
];

/// What [`measure`] tells the progress.
pub(super) const STEPS: usize = ROUNDS + 1;

/// What one contestant reached, by work and round.
struct Score {
    rival: Rival,
    reached: [Vec<f64>; WORKS.len()],
    memory: Option<(usize, f64)>,
}

pub(super) fn measure(sizes: Sizes, program: &Path, progress: &mut Progress) -> Result<Section> {
    let lab = Lab::new().context("cannot make the lab; run as root")?;
    let node = lab.node(Node::N1);
    let target = Target::start(node)?;
    let running = Rival::ALL.map(|rival| Running::start(rival, node, program, &target));
    let running: Vec<Running> = running.into_iter().collect::<Result<_>>()?;
    let mut scores: Vec<Score> = Rival::ALL
        .into_iter()
        .map(|rival| Score { rival, reached: Default::default(), memory: None })
        .collect();
    let time = if sizes.has_goals { Duration::from_secs(2) } else { Duration::from_millis(200) };
    for round in 1..=ROUNDS {
        progress.step(&format!("relays: round {round} of {ROUNDS}"));
        for (number, (work, _)) in WORKS.iter().enumerate() {
            for (score, relay) in scores.iter_mut().zip(&running) {
                let reached = target.load(node, *work, relay, time)?;
                score.reached.get_mut(number).map(|all| all.push(reached)).unwrap_or_default();
            }
        }
    }
    progress.step("relays: memory of idle connections");
    for (score, relay) in scores.iter_mut().zip(&running) {
        score.memory = relay.memory_per_connection(node, &target, sizes.has_goals)?;
    }
    let lines = lines(&scores, sizes);
    Ok(Section { title: "userspace mode: the relay", about: ABOUT, lines, pictures: Vec::new() })
}

fn lines(scores: &[Score], sizes: Sizes) -> Vec<Measured> {
    let mut lines = Vec::new();
    for (number, (work, what)) in WORKS.iter().enumerate() {
        let shares = |score: &Score| share(scores, score, number);
        for score in scores {
            let (share, reached) = (shares(score), middle(&score.reached, number));
            let value = format!("{:.2} ({})", share, work.describe(reached));
            let line = loose(format!("{what}: {}", score.rival.name()), value);
            lines.push(if score.rival == Rival::Switchyard {
                let of = |rival| scores.iter().find(|score| score.rival == rival).map_or(0.0, shares);
                let best = of(Rival::Socat).max(of(Rival::Haproxy));
                line.wanting("at least that of socat and of HAProxy", Goal::met(share >= best).at(sizes))
            } else {
                line
            });
        }
    }
    for score in scores {
        if let Some((count, bytes)) = score.memory {
            let what = format!("memory of an idle connection ({count} of them): {}", score.rival.name());
            lines.push(loose(what, format!("{:.1} KiB", bytes / 1024.0)));
        }
    }
    lines
}

fn loose(what: String, value: String) -> Measured {
    Measured { services: None, ..Measured::info(0, what, value) }
}

/// The median over rounds of what was reached, as a share of what was reached directly in the same round.
fn share(scores: &[Score], score: &Score, work: usize) -> f64 {
    let of = |score: &Score| score.reached.get(work).cloned().unwrap_or_default();
    let direct = scores.iter().find(|score| score.rival == Rival::Direct).map(of).unwrap_or_default();
    let shares = of(score).into_iter().zip(direct).map(|(reached, direct)| reached / direct.max(1e-9));
    median(shares.map(Duration::from_secs_f64).collect()).as_secs_f64()
}

fn middle(reached: &[Vec<f64>; WORKS.len()], work: usize) -> f64 {
    let all = reached.get(work).cloned().unwrap_or_default();
    median(all.into_iter().map(Duration::from_secs_f64).collect()).as_secs_f64()
}
