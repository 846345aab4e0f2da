//! iptables mode: finds the programs, and makes one mode per family.

use switchyard_apply::iptables::Iptables;
use switchyard_apply::iptables::mode::IptablesMode;
use switchyard_apply::sysctl::Sysctl;
use switchyard_model::Node;
use switchyard_netlink::nfacct::{Accounts, Available};
use switchyard_plan::book::Book;
use switchyard_plan::iptables::base::{INVALID_COUNTER, LOOPBACK_COUNTER};
use switchyard_plan::iptables::{self, Counter, InvalidPackets, Planner};

use super::{Dataplane, leftovers, settle, usable_programs};
use crate::addresses::Addresses;
use crate::flags::Config;
use crate::kernel;
use crate::sync::with_causes;

/// One mode for each family whose programs work.
pub(super) fn dataplane(config: &Config, node: &Node, addresses: &Addresses) -> anyhow::Result<Dataplane> {
    let programs = usable_programs(config.iptables_backend)?;
    kernel::prepare(config)?;
    let wishes = wishes(config)?;
    let mode = |program: &Iptables| -> Box<dyn switchyard_apply::Mode> {
        let book = Book::new(settle(config, node, program.family(), addresses));
        Box::new(IptablesMode::new(program.clone(), Planner::new(wishes, book)))
    };
    let modes = programs.iter().map(mode).collect();
    Ok(Dataplane { modes, programs, tables: None, counts: None, on_first_success: leftovers(config.mode) })
}

fn wishes(config: &Config) -> anyhow::Result<iptables::Config> {
    let sysctl = Sysctl::default();
    // Missing where connection tracking is not loaded yet: then it is not liberal either.
    let liberal = sysctl.read("net/netfilter/nf_conntrack_tcp_be_liberal").unwrap_or_default();
    let is_liberal = liberal.trim().parse::<i64>().is_ok_and(|value| value != 0);
    let mut accounts = Accounts::open()?;
    let mut counter = |name| match accounts.ensure(name) {
        Ok(Available::Yes) => Counter::Present,
        Ok(Available::No) => Counter::Absent,
        Err(error) => {
            tracing::debug!(cause = %with_causes(&error), name, "no packet counter");
            Counter::Absent
        }
    };
    Ok(iptables::Config {
        mark: config.masquerade_mark,
        random_fully: true,
        invalid: if is_liberal { InvalidPackets::Kept } else { InvalidPackets::Dropped },
        invalid_counter: counter(INVALID_COUNTER),
        loopback_counter: counter(LOOPBACK_COUNTER),
    })
}
