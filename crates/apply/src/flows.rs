//! Removes stale flows from connection tracking, over netlink and without the `conntrack` program.
//!
//! In: what the planner expects. Out: how many flows were looked at and removed.

use switchyard_model::Family;
use switchyard_netlink::conntrack::{Conntrack, Deleted, Filter, Flow};
use switchyard_netlink::{NetlinkError, socket};
use switchyard_plan::stale::{self, Expectations, Question};

/// Flows that are collected before they are deleted. A dump must be read to its end first; this bounds what is kept
/// meanwhile, and the rest is found by another pass.
const MAX_COLLECTED: usize = 100_000;

/// What a reconcile did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Flows that the kernel returned.
    pub seen: u64,
    /// Flows that were stale and are gone.
    pub deleted: u64,
}

/// Deletes every flow of one family that is stale.
///
/// # Errors
/// The kernel did not answer, or refused for another reason than that the flow had gone by itself.
pub fn reconcile(
    conntrack: &mut Conntrack,
    family: Family,
    expected: &Expectations,
) -> Result<Reconciled, NetlinkError> {
    let mut done = Reconciled::default();
    for question in expected.questions() {
        let filter = filter(family, &question);
        loop {
            let stale = socket::retry(|| collect(conntrack, &filter, expected, &mut done.seen))?;
            let is_last = stale.len() < MAX_COLLECTED;
            for flow in &stale {
                // One that had ended by itself counts too: it is gone.
                match conntrack.delete(flow)? {
                    Deleted::Yes | Deleted::AlreadyGone => done.deleted += 1,
                }
            }
            if is_last {
                break;
            }
        }
    }
    Ok(done)
}

fn collect(
    conntrack: &mut Conntrack,
    filter: &Filter,
    expected: &Expectations,
    seen: &mut u64,
) -> Result<Vec<Flow>, NetlinkError> {
    let mut stale = Vec::new();
    conntrack.dump(filter, &mut |flow| {
        *seen += 1;
        if stale.len() < MAX_COLLECTED && expected.is_stale(&planned(&flow)) {
            stale.push(flow);
        }
    })?;
    Ok(stale)
}

/// The flow in the planner's words.
fn planned(flow: &Flow) -> stale::Flow {
    stale::Flow {
        protocol: flow.protocol,
        dialled: (flow.orig.dst, flow.orig.dst_port).into(),
        answers: (flow.reply.src, flow.reply.src_port).into(),
    }
}

fn filter(family: Family, question: &Question) -> Filter {
    let family = match family {
        Family::V4 => switchyard_netlink::Family::V4,
        Family::V6 => switchyard_netlink::Family::V6,
    };
    Filter {
        protocol: Some(question.protocol.number()),
        orig_dst: question.address,
        orig_dst_port: question.port,
        ..Filter::family(family)
    }
}
