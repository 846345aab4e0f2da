//! Sends changes to the kernel, in one transaction if it takes them.
//!
//! In: changes, and the generation of the ruleset that they were planned for. Out: what was sent, or who is to blame.
//!
//! Invariants
//! - With a generation, nothing is written if another program wrote since; several transactions follow each other
//!   without a gap. Without one, changes are written whatever happened since they were planned.
//! - What goes, goes in a transaction of its own after everything else: kernels before 6.2 refuse to delete a chain
//!   together with the last element that leads to it.
//! - A large write is not listened to: the kernel would tell us each of its elements. Whether another program wrote
//!   meanwhile, the generation tells ([`Writer::take_doubt`]).

use switchyard_model::{Family, ServicePortName};
use switchyard_netlink::NetlinkError;
use switchyard_netlink::nftables::{Batch, CommitError, Generation, Nft};
use switchyard_netlink::socket::Membership;
use switchyard_plan::nft::ops::{Change, Op};

use super::Layout;
use super::encode::{self, Stream};
use crate::report::{Failure, Report};

/// A transaction with more changes than this is not listened to.
const LOUD: usize = 500;

/// Takes a change, and whose it is. Of very many changes nobody keeps that.
type Each<'a> = dyn FnMut(Option<&ServicePortName>, Change) + 'a;

/// See the module.
#[derive(Debug)]
pub(crate) struct Writer {
    nft: Nft,
    family: Family,
    layout: Layout,
    listener: Option<Membership>,
    /// Bytes that a transaction may have.
    limit: usize,
    is_doubtful: bool,
}

/// A transaction that does not hold.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) cause: Failure,
    /// Whose change was refused, if it was somebody's.
    pub(crate) culprit: Option<Box<ServicePortName>>,
}

impl Failed {
    /// True if the same changes may still hold if they are sent with their owners, or in smaller transactions.
    pub(crate) fn may_be_sent_otherwise(&self) -> bool {
        matches!(
            self.cause,
            Failure::Commit(
                CommitError::Refused { .. } | CommitError::TooLarge { .. } | CommitError::Unencodable { .. }
            )
        )
    }
}

impl From<NetlinkError> for Failed {
    fn from(error: NetlinkError) -> Self {
        Self { cause: Failure::Netlink(error), culprit: None }
    }
}

impl From<CommitError> for Failed {
    fn from(error: CommitError) -> Self {
        Self { cause: Failure::Commit(error), culprit: None }
    }
}

impl Writer {
    pub(crate) fn new(nft: Nft, family: Family, layout: Layout) -> Self {
        Self { nft, family, layout, listener: None, limit: usize::MAX, is_doubtful: false }
    }

    /// Who listens to what is written.
    pub(crate) fn heard_by(&mut self, listener: Membership) {
        self.listener = Some(listener);
    }

    /// Makes transactions no larger than this.
    pub(crate) fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    pub(crate) fn nft(&mut self) -> &mut Nft {
        &mut self.nft
    }

    /// The port of the socket, which notifications carry.
    pub(crate) fn port(&self) -> u32 {
        self.nft.port()
    }

    /// True, once, if another program may have changed something unheard.
    pub(crate) fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.is_doubtful)
    }

    /// The first write: `before`, then everything that `everything` hands over; in parts if it does not go in one.
    pub(crate) fn load(
        &mut self,
        before: &[Change],
        everything: impl Fn(&mut Each<'_>),
        after: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let all = |each: &mut Each<'_>| {
            before.iter().for_each(|change| each(None, change.clone()));
            everything(each);
        };
        match self.stream(all, after, report) {
            Err(failed) if failed.may_be_sent_otherwise() => {
                let mut ops = Vec::new();
                all(&mut |owner, change| ops.push(Op { change, owner: owner.cloned() }));
                self.write(&ops, after, report)
            }
            done => done,
        }
    }

    /// Everything that `fill` hands over, in one transaction.
    pub(crate) fn stream(
        &mut self,
        fill: impl FnOnce(&mut Each<'_>),
        after: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let mut stream = Stream::new(batch(after), self.family, self.layout.id(self.family));
        fill(&mut |_, change| stream.put(&change));
        let (batch, changes) = stream.finish();
        self.send(&batch, changes, after, report).map_err(Failed::from)
    }

    /// The generation to give to [`Self::write`] for changes of what the kernel is known to hold: only those need one that
    /// nobody listens to.
    pub(crate) fn generation_for(&mut self, ops: &[Op]) -> Result<Option<Generation>, NetlinkError> {
        if self.is_loud(ops.len()) { self.nft.generation().map(Some) } else { Ok(None) }
    }

    /// Changes in order; in several transactions if one is too large.
    pub(crate) fn write(
        &mut self,
        ops: &[Op],
        mut after: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let removals = ops.iter().rposition(|op| !is_removal(op)).map_or(0, |last| last + 1);
        let (first, then) = ops.split_at(removals);
        self.write_pieces(first, &mut after, report)?;
        self.write_pieces(then, &mut after, report)
    }

    fn write_pieces(
        &mut self,
        ops: &[Op],
        after: &mut Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failed> {
        if ops.is_empty() {
            return Ok(());
        }
        let mut batch = batch(*after);
        let sources = encode::with_sources(ops, self.family, &self.layout.id(self.family), &mut batch);
        match self.send(&batch, ops.len(), *after, report) {
            Ok(()) => {
                *after = after.map(Generation::next);
                Ok(())
            }
            Err(CommitError::TooLarge { .. }) if ops.len() > 1 => {
                let (first, then) = ops.split_at(ops.len() / 2);
                self.write_pieces(first, after, report)?;
                self.write_pieces(then, after, report)
            }
            Err(error) => Err(Failed {
                culprit: culprit(&error, ops, &sources).map(Box::new),
                cause: Failure::Commit(error),
            }),
        }
    }

    fn is_loud(&self, changes: usize) -> bool {
        self.listener.is_some() && changes > LOUD
    }

    fn send(
        &mut self,
        batch: &Batch,
        changes: usize,
        after: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), CommitError> {
        if batch.byte_length() > self.limit {
            return Err(CommitError::TooLarge {
                bytes: batch.byte_length(),
                errno: nix::errno::Errno::EMSGSIZE,
            });
        }
        let listener = self.listener.clone().filter(|_| self.is_loud(changes));
        if let Some(listener) = &listener {
            listener.leave()?;
        }
        let outcome = self.nft.commit(batch);
        if let Some(listener) = &listener {
            listener.join()?;
            let expected = after.map(|after| if outcome.is_ok() { after.next() } else { after });
            self.is_doubtful |= Some(self.nft.generation()?) != expected;
        }
        match outcome {
            Ok(_) => {
                report.lines += changes;
                report.restores += 1;
                Ok(())
            }
            Err(error) => {
                report.failed_restores += 1;
                Err(error)
            }
        }
    }
}

fn batch(after: Option<Generation>) -> Batch {
    after.map_or_else(Batch::new, Batch::only_after)
}

/// True if nothing else in a transaction can depend on it.
fn is_removal(op: &Op) -> bool {
    matches!(op.change, Change::DeleteChain(_) | Change::DeleteClients(_))
}

/// Whose operation the kernel refused first.
fn culprit(error: &CommitError, ops: &[Op], sources: &[usize]) -> Option<ServicePortName> {
    let operation = match error {
        CommitError::Refused { refusals, .. } => refusals.first().operation.as_ref()?,
        CommitError::Unencodable { operation, .. } => {
            return ops.get(*sources.get(operation.0)?)?.owner.clone();
        }
        _ => return None,
    };
    let op = sources.get(operation.index.0)?;
    ops.get(op + operation.element.unwrap_or_default())?.owner.clone()
}
