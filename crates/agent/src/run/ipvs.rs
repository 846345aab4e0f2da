//! ipvs mode: checks the kernel, sets what IPVS needs, and makes one mode per family.
//!
//! In: the checked configuration. Out: a [`Dataplane`], or an error that names the module which the kernel lacks.

use std::time::Duration;

use anyhow::{Context, bail};
use ipnet::IpNet;
use switchyard_apply::ipvs::mode::{IpvsMode, Sockets};
use switchyard_apply::ipvs::{probe, sysctls};
use switchyard_apply::sysctl::Sysctl;
use switchyard_config::{GoDuration, address};
use switchyard_model::Node;
use switchyard_netlink::ipvs::{Ipvs, Timeouts};
use switchyard_netlink::monitor::Monitor;
use switchyard_netlink::nftables::Nft;
use switchyard_netlink::route::Routes;
use switchyard_plan::book::Book;
use switchyard_plan::ipvs;
use switchyard_plan::nft::names::IPVS_TABLE;

use super::{Dataplane, Tables, leftovers, settle};
use crate::addresses::Addresses;
use crate::flags::{Config, Task};
use crate::kernel;
use crate::notices::IPVS_DEPRECATED;
use crate::sync::with_causes;

/// The scheduler if none is named.
const SCHEDULER: &str = "rr";

/// Destinations that wait for their last connection are looked at this often, also if the sync period is longer.
const LOOK: Duration = Duration::from_secs(60);

/// At least this often somebody asks the mode whether it has something to look at.
pub(super) fn look_interval(config: &Config) -> Duration {
    config.sync_period.min(LOOK)
}

/// Virtual servers, and the table beside them.
pub(super) fn dataplane(config: &Config, node: &Node, addresses: &Addresses) -> anyhow::Result<Dataplane> {
    let wishes = wishes(config);
    probe::probe(&wishes.scheduler).context("ipvs mode cannot start")?;
    // The table beside IPVS is one of nf_tables.
    let families = crate::probe::families_for_nftables().context("ipvs mode needs nf_tables as well")?;
    let monitor = Monitor::open().context("cannot listen to nf_tables")?;
    kernel::prepare(config)?;
    set(config)?;
    let mut ports = Vec::new();
    let mut modes: Vec<Box<dyn switchyard_apply::Mode>> = Vec::new();
    for family in families {
        let book = Book::new(settle(config, node, family, addresses));
        let sockets = sockets()?;
        ports.push(sockets.nft.port());
        let mode = IpvsMode::new(sockets, ipvs::Planner::new(wishes.clone(), book), config.sync_period);
        modes.push(Box::new(mode.heard_by(monitor.membership())));
    }
    if config.task == Task::Proxy {
        tracing::error!("{IPVS_DEPRECATED}");
    }
    Ok(Dataplane {
        modes,
        programs: Vec::new(),
        tables: Some(Tables { name: IPVS_TABLE, monitor, ports }),
        counts: None,
        on_first_success: leftovers(config.mode),
    })
}

fn sockets() -> anyhow::Result<Sockets> {
    let Some(ipvs) = Ipvs::open().context("cannot talk to IPVS")? else { bail!("IPVS went away") };
    let nft = Nft::open().context("cannot talk to nf_tables")?;
    Ok(Sockets { ipvs, routes: Routes::open().context("cannot talk to the kernel about addresses")?, nft })
}

fn wishes(config: &Config) -> ipvs::Config {
    let given = &config.configuration.ipvs;
    let scheduler = if given.scheduler.is_empty() { SCHEDULER } else { &given.scheduler };
    let ranges = given.exclude_cidrs.as_deref().unwrap_or_default().iter();
    ipvs::Config {
        mark: config.masquerade_mark,
        scheduler: scheduler.into(),
        // The checks have seen that each is a range.
        excluded: ranges.filter_map(|text| address::cidr(text)).map(|range: IpNet| range.trunc()).collect(),
        ..ipvs::Config::default()
    }
}

/// Sysctls must be set; timeouts are only told if they cannot be, as in kube-proxy.
fn set(config: &Config) -> anyhow::Result<()> {
    let given = &config.configuration.ipvs;
    let arp = if given.strict_arp { sysctls::Arp::Strict } else { sysctls::Arp::Lax };
    let changed = sysctls::apply(&Sysctl::default(), arp).context("ipvs mode cannot start")?;
    for name in changed {
        tracing::info!(name, "set a kernel setting");
    }
    let timeouts = Timeouts {
        tcp: seconds(given.tcp_timeout),
        tcp_fin: seconds(given.tcp_fin_timeout),
        udp: seconds(given.udp_timeout),
    };
    if timeouts != Timeouts::default() {
        let told = Ipvs::open().and_then(|ipvs| ipvs.map_or(Ok(()), |mut ipvs| ipvs.set_timeouts(timeouts)));
        if let Err(error) = told {
            tracing::error!(cause = %with_causes(&error), "cannot set the timeouts of IPVS; it keeps those it has");
        }
    }
    Ok(())
}

fn seconds(duration: GoDuration) -> u32 {
    let whole = duration.to_std().map(|duration| duration.as_secs()).unwrap_or_default();
    u32::try_from(whole).unwrap_or(u32::MAX)
}
