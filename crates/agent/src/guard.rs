//! Notices when another program harms our rules, and says so on the board.
//!
//! Two ways: kube-proxy's canary chains, looked at once per sync period, and on the nft variant the kernel's own
//! notifications, which arrive within milliseconds. What our own programs write is told apart by their process ids.
//!
//! Which changes count: a table or one of our chains was deleted, or a rule in one of our chains. A deleted rule in a
//! chain of the kernel may be anybody's, so the jumps that stand there are looked at before anything is rewritten.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use switchyard_apply::iptables::{Children, Iptables, Table, Variant, canary};
use switchyard_model::Family;
use switchyard_netlink::NetlinkError;
use switchyard_netlink::monitor::{Change, ChangeKind, Monitor, Wake};
use switchyard_plan::iptables::base::JUMPS;
use switchyard_plan::iptables::names;

use crate::board::Board;
use crate::sync::with_causes;

/// A firewall that reloads flushes its tables one after the other: this long for the last one to go.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);
/// And this long between two looks.
const FLUSH_LOOK: Duration = Duration::from_millis(100);
/// How long a listener waits where nothing is wrong.
const IDLE: Duration = Duration::from_secs(3600);
/// Changes of our own tables within this time are answered once.
const TABLE_LOOK: Duration = Duration::from_millis(20);
/// A listener that fails is tried again after this.
const REOPEN: Duration = Duration::from_secs(5);

/// Starts guarding. The threads end with the process.
pub fn start(board: &Arc<Board>, programs: Vec<Iptables>, sync_period: Duration) -> std::io::Result<()> {
    let nft: Vec<Iptables> = programs.iter().filter(|p| p.variant() == Variant::Nft).cloned().collect();
    if !nft.is_empty() {
        let board = board.clone();
        thread::Builder::new().name("rule-monitor".into()).spawn(move || listen(&board, &nft))?;
    }
    let board = board.clone();
    thread::Builder::new().name("canary".into()).spawn(move || poll(&board, &programs, sync_period))?;
    Ok(())
}

/// Starts guarding our tables with this name. `ports` are those of the sockets that write them.
pub fn start_nftables(
    board: &Arc<Board>,
    table: &'static str,
    mut monitor: Monitor,
    ports: Vec<u32>,
) -> std::io::Result<()> {
    let board = board.clone();
    let watch = move || loop {
        let Err(error) = watch_tables(&board, table, &mut monitor, &ports);
        tracing::warn!(cause = %with_causes(&error), "cannot listen to rule changes; a flush would not be noticed");
        thread::sleep(REOPEN);
        // Whatever was missed is found by looking.
        board.harm(Family::ALL.into_iter().filter(|family| board.has_written(*family)), "an unknown program");
    };
    thread::Builder::new().name("rule-monitor".into()).spawn(watch)?;
    Ok(())
}

/// Any change of our tables that we did not make is harm: nobody else has business there.
fn watch_tables(
    board: &Board,
    table: &str,
    monitor: &mut Monitor,
    ports: &[u32],
) -> Result<Infallible, NetlinkError> {
    let mut harm = Harm::default();
    loop {
        // Counted from the first change, not from the last: on a busy node it is never quiet.
        let left = harm.since.map_or(IDLE, |since| TABLE_LOOK.saturating_sub(since.elapsed()));
        if left.is_zero() || monitor.wait(left)? == Wake::TimedOut {
            std::mem::take(&mut harm).tell(board);
            continue;
        }
        for change in monitor.read()? {
            harm.note(&change, table, ports);
        }
    }
}

/// What other programs did to our tables since it was last told.
#[derive(Debug, Default)]
struct Harm {
    since: Option<Instant>,
    families: BTreeSet<Family>,
    by: Option<String>,
}

impl Harm {
    fn note(&mut self, change: &Change, table: &str, ports: &[u32]) {
        if let Some(family) = foreign(change, table, ports) {
            self.families.insert(family);
        } else if change.kind == ChangeKind::Overrun {
            self.families.extend(Family::ALL);
        } else if change.kind == ChangeKind::NewGeneration
            && !self.families.is_empty()
            && !ports.contains(&change.port)
        {
            // It closes the transaction whose changes came before it.
            self.by = self.by.take().or_else(|| writer(change));
        }
        if !self.families.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    fn tell(mut self, board: &Board) {
        self.families.retain(|family| board.has_written(*family));
        if !self.families.is_empty() {
            board.harm(self.families, self.by.as_deref().unwrap_or("an unknown program"));
        }
    }
}

/// The family whose table somebody else changed. The kernel itself (port 0) forgets sticky clients; that is no harm.
fn foreign(change: &Change, table: &str, ports: &[u32]) -> Option<Family> {
    let is_ours = change.port == 0 || ports.contains(&change.port);
    let family = match change.family {
        2 => Family::V4,
        10 => Family::V6,
        _ => return None,
    };
    (change.table.as_deref() == Some(table) && !is_ours).then_some(family)
}

/// Looks at the canaries for ever.
fn poll(board: &Board, programs: &[Iptables], sync_period: Duration) {
    loop {
        thread::sleep(sync_period);
        for program in programs.iter().filter(|p| board.has_written(p.family())) {
            match canary::is_gone(program, Table::Mangle) {
                Ok(true) => {
                    wait_for_flush(program);
                    board.harm([program.family()], "an unknown program (a canary chain is gone)");
                }
                Ok(false) => {}
                // A busy lock says nothing about the rules.
                Err(error) => {
                    tracing::debug!(cause = %with_causes(&error), "cannot look at the canary chain")
                }
            }
        }
    }
}

fn wait_for_flush(program: &Iptables) {
    let end = Instant::now() + FLUSH_PATIENCE;
    let is_there = |table| !matches!(canary::is_gone(program, table), Ok(true));
    while Instant::now() < end && (is_there(Table::Nat) || is_there(Table::Filter)) {
        thread::sleep(FLUSH_LOOK);
    }
}

/// Listens for ever.
fn listen(board: &Board, programs: &[Iptables]) {
    loop {
        if let Err(error) = listen_once(board, programs) {
            tracing::warn!(cause = %with_causes(&error), "cannot listen to rule changes; the canary chains still tell of a flush");
        }
        thread::sleep(REOPEN);
    }
}

fn listen_once(board: &Board, programs: &[Iptables]) -> Result<(), NetlinkError> {
    let mut monitor = Monitor::open()?;
    let mut seen = Seen::default();
    loop {
        // While something was seen, a little quiet is waited for, so that a whole reload is answered once.
        let patience = if seen.is_empty() { IDLE } else { FLUSH_LOOK };
        match monitor.wait(patience)? {
            Wake::Ready => {
                for change in monitor.read()? {
                    seen.note(&change, programs);
                }
            }
            Wake::TimedOut => std::mem::take(&mut seen).answer(board, programs),
        }
    }
}

/// What was seen since the last quiet moment.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Families whose rules were harmed.
    harmed: BTreeSet<Family>,
    /// Families whose jumps may be gone.
    doubtful: BTreeSet<Family>,
    /// Who did it.
    by: Option<String>,
}

/// What one change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Harm(Family),
    Doubt(Family),
    Nothing,
}

impl Seen {
    fn is_empty(&self) -> bool {
        self.harmed.is_empty() && self.doubtful.is_empty()
    }

    fn note(&mut self, change: &Change, programs: &[Iptables]) {
        if change.kind == ChangeKind::Overrun {
            self.doubtful.extend(programs.iter().map(Iptables::family));
            return;
        }
        if programs.iter().any(|p| is_ours(p.children(), change)) {
            return;
        }
        match meaning(change) {
            Meaning::Harm(family) => _ = self.harmed.insert(family),
            Meaning::Doubt(family) => _ = self.doubtful.insert(family),
            Meaning::Nothing if change.kind == ChangeKind::NewGeneration && !self.is_empty() => {
                self.by = self.by.take().or_else(|| writer(change));
            }
            Meaning::Nothing => {}
        }
    }

    fn answer(mut self, board: &Board, programs: &[Iptables]) {
        for program in programs.iter().filter(|p| self.doubtful.contains(&p.family())) {
            if !self.harmed.contains(&program.family()) && has_lost_something(program) {
                self.harmed.insert(program.family());
            }
        }
        if !self.harmed.is_empty() {
            board.harm(self.harmed, self.by.as_deref().unwrap_or("an unknown program"));
        }
    }
}

fn is_ours(children: &Children, change: &Change) -> bool {
    children.include(change.port) || change.pid.is_some_and(|pid| children.include(pid))
}

fn writer(change: &Change) -> Option<String> {
    Some(format!("{} (process {})", change.program.as_deref()?.escape_debug(), change.pid?))
}

fn meaning(change: &Change) -> Meaning {
    let family = match change.family {
        2 => Family::V4,
        10 => Family::V6,
        _ => return Meaning::Nothing,
    };
    if !matches!(change.table.as_deref(), Some("nat" | "filter" | "mangle")) {
        return Meaning::Nothing;
    }
    let chain = change.chain.as_deref().unwrap_or_default();
    match change.kind {
        ChangeKind::DeleteTable => Meaning::Harm(family),
        ChangeKind::DeleteChain | ChangeKind::DeleteRule if is_our_chain(chain) => Meaning::Harm(family),
        ChangeKind::DeleteRule if JUMPS.iter().any(|jump| jump.from == chain) => Meaning::Doubt(family),
        _ => Meaning::Nothing,
    }
}

/// KUBE-FIREWALL is not in the list: kubelet writes it as well.
fn is_our_chain(chain: &str) -> bool {
    const TOPS: [&str; 8] = [
        names::SERVICES,
        names::EXTERNAL_SERVICES,
        names::NODEPORTS,
        names::POSTROUTING,
        names::MARK_MASQ,
        names::FORWARD,
        names::PROXY_FIREWALL,
        names::CANARY,
    ];
    TOPS.contains(&chain) || names::is_service_chain(chain)
}

/// True if a jump of ours or a canary is definitely absent.
fn has_lost_something(program: &Iptables) -> bool {
    let is_jump_gone = JUMPS.iter().any(|jump| matches!(program.has_jump(&jump.into()), Ok(false)));
    is_jump_gone
        || canary::TABLES.into_iter().any(|table| matches!(canary::is_gone(program, table), Ok(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchyard_plan::nft::names::TABLE;

    fn change(kind: ChangeKind, family: u8, table: &str, chain: &str) -> Change {
        Change {
            kind,
            family,
            table: Some(table.into()),
            chain: Some(chain.into()),
            port: 0,
            pid: None,
            program: None,
        }
    }

    #[test]
    fn our_own_writes_are_no_harm_and_the_writer_of_others_is_known() {
        let (ours, theirs) = (7, 9);
        let table = |port, kind| Change { port, ..change(kind, 2, TABLE, "") };
        let generation = |port, name: &str| Change {
            pid: Some(port),
            program: Some(name.into()),
            port,
            table: None,
            ..change(ChangeKind::NewGeneration, 0, "", "")
        };
        let mut harm = Harm::default();
        // The kernel itself forgets a sticky client; we write; somebody writes to another table.
        harm.note(&table(0, ChangeKind::DeleteElements), TABLE, &[ours]);
        harm.note(&table(ours, ChangeKind::NewElements), TABLE, &[ours]);
        harm.note(&generation(ours, "switchyard"), TABLE, &[ours]);
        harm.note(&Change { port: theirs, ..change(ChangeKind::DeleteTable, 2, "nat", "") }, TABLE, &[ours]);
        harm.note(&generation(theirs, "iptables"), TABLE, &[ours]);
        assert!(harm.families.is_empty() && harm.since.is_none() && harm.by.is_none());
        harm.note(&table(theirs, ChangeKind::DeleteTable), TABLE, &[ours]);
        harm.note(&generation(theirs, "nft"), TABLE, &[ours]);
        harm.note(&generation(theirs, "later"), TABLE, &[ours]);
        assert_eq!(harm.families, BTreeSet::from([Family::V4]));
        assert_eq!(harm.by.as_deref(), Some("nft (process 9)"));
        // Nobody can say who it was when notifications were lost.
        let mut lost = Harm::default();
        lost.note(&change(ChangeKind::Overrun, 0, "", ""), TABLE, &[ours]);
        lost.note(&generation(ours, "switchyard"), TABLE, &[ours]);
        assert_eq!((lost.families.len(), lost.by), (2, None));
    }

    #[test]
    fn only_what_touches_our_rules_means_something() {
        use ChangeKind::*;
        let cases = [
            (change(DeleteTable, 2, "nat", ""), Meaning::Harm(Family::V4)),
            (change(DeleteRule, 10, "filter", "KUBE-SERVICES"), Meaning::Harm(Family::V6)),
            (change(DeleteChain, 2, "nat", "KUBE-SEP-SXIVWICOYRO3J4NJ"), Meaning::Harm(Family::V4)),
            (change(DeleteRule, 2, "nat", "PREROUTING"), Meaning::Doubt(Family::V4)),
            (change(DeleteRule, 2, "filter", "KUBE-FIREWALL"), Meaning::Nothing),
            (change(DeleteRule, 2, "nat", "CNI-HOSTPORT-DNAT"), Meaning::Nothing),
            (change(NewRule, 2, "nat", "KUBE-SERVICES"), Meaning::Nothing),
            (change(DeleteTable, 1, "firewalld", ""), Meaning::Nothing),
        ];
        for (change, expected) in cases {
            assert_eq!(meaning(&change), expected, "{change:?}");
        }
    }
}
