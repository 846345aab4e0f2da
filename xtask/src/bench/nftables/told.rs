//! What was seen of the real agent, as values of the report.

use std::collections::BTreeMap;

use super::super::{Goal, Measured, duration, median};
use super::Agent;
use super::node::Seen;

/// What a program does that looks at rules.
const SOCKET_CALLS: [&str; 7] =
    ["sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "socket"];

pub(super) fn of_agent(seen: &Seen, agent: &Agent) -> Vec<Measured> {
    let mut lines = memory(seen, agent);
    lines.extend(idle(seen, agent));
    lines.extend(restart(seen, agent));
    lines
}

fn info(seen: &Seen, what: &str, value: String) -> Measured {
    Measured::info(seen.services, format!("agent, {what}"), value)
}

fn memory(seen: &Seen, agent: &Agent) -> Vec<Measured> {
    let (first, later) = (seen.memory, seen.after_changes);
    let resident =
        info(seen, "resident memory (peak)", format!("{:.1} MB ({:.1})", first.resident, first.peak));
    vec![
        info(seen, "start to first sync done", duration(seen.start)),
        info(seen, "first sync by its own metric", duration(seen.first_sync)),
        match agent.memory {
            Some((megabytes, wanted)) => resident.wanting(wanted, Goal::met(first.resident < megabytes)),
            None => resident,
        },
        info(
            seen,
            "resident memory after changes (peak)",
            format!("{:.1} MB ({:.1})", later.resident, later.peak),
        ),
    ]
}

fn idle(seen: &Seen, agent: &Agent) -> Vec<Measured> {
    let idle = &seen.idle;
    let while_idle =
        |what: &str, value: String| info(seen, &format!("{} s idle, {what}", idle.time.as_secs()), value);
    let busy = while_idle("processor time", duration(idle.busy));
    let busy = match agent.idle {
        Some(limit) => busy.wanting("less than a tick, 10 ms", Goal::met(idle.busy < limit)),
        None => busy,
    };
    let mut lines = vec![busy, while_idle("context switches", idle.switches.to_string())];
    if let Some(calls) = &idle.calls {
        let on_sockets: usize = SOCKET_CALLS.iter().filter_map(|name| calls.get(*name)).sum();
        lines.push(while_idle("system calls", counted(calls)));
        lines.push(
            while_idle("of them on sockets", on_sockets.to_string()).wanting("0", Goal::met(on_sockets == 0)),
        );
    }
    lines
}

/// How many, and which the most.
fn counted(calls: &BTreeMap<String, usize>) -> String {
    let all: usize = calls.values().sum();
    match calls.iter().max_by_key(|(_, count)| **count) {
        Some((name, count)) => format!("{all} ({name} {count})"),
        None => "none".to_owned(),
    }
}

fn restart(seen: &Seen, agent: &Agent) -> [Measured; 4] {
    let restart = &seen.restart;
    let again =
        |what: &str, value: String| info(seen, &format!("restart with nothing changed, {what}"), value);
    let written = match restart.is_untouched {
        true => format!("{}", restart.ops),
        false => format!("{}, generation changed", restart.ops),
    };
    let sync = again("sync by its own metric", duration(restart.sync));
    let repaired = Measured::times(seen.services, "agent, table deleted to table back", &seen.repairs);
    [
        again("operations written", written)
            .wanting("0", Goal::met(restart.is_untouched && restart.ops == 0.0)),
        match agent.restart {
            Some(limit) => sync.wanting("under 1 s", Goal::met(restart.sync < limit)),
            None => sync,
        },
        again("start to done", duration(restart.start)),
        match agent.repair {
            Some(limit) => repaired.wanting("under 100 ms", Goal::met(median(seen.repairs.clone()) < limit)),
            None => repaired,
        },
    ]
}
