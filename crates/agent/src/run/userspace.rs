//! Userspace mode: rules if the kernel takes them, else ports on loopback addresses.
//!
//! In: the checked configuration. Out: a [`Dataplane`], and for people a list of what can be dialled where.
//!
//! Which way it is, is tried and not asked: who may write rules does, and everybody else has a proxy, too.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use switchyard_apply::nft::mode::NftMode;
use switchyard_apply::userspace::mode::UserspaceMode;
use switchyard_apply::userspace::{News, SharedRelay, Way, listen_address};
use switchyard_model::{Family, Node};
use switchyard_netlink::monitor::Monitor;
use switchyard_netlink::nftables::Nft;
use switchyard_plan::book::Book;
use switchyard_plan::nft;
use switchyard_plan::userspace::PRIORITY;
use switchyard_relay::{Config as RelayConfig, Counts, Relay, affordable_flows, raise_limit};
use switchyard_serve::metrics::{CountRelayed, RelayCounts};

use super::{Dataplane, Tables, settle};
use crate::addresses::Addresses;
use crate::flags::{Config, Mode as ModeName};
use crate::kernel;

/// UDP flows without a datagram for so long end, unless `conntrack.udpTimeout` says otherwise.
const UDP_IDLE: Duration = Duration::from_secs(30);

/// A relay, and the way to it.
pub(super) fn dataplane(config: &Config, node: &Node, addresses: &Addresses) -> anyhow::Result<Dataplane> {
    match crate::probe::families_for_nftables() {
        Ok(families) => {
            // Without this, an endpoint that is a frontend would bring the relay's own packets back to it.
            let (relay, counts) = relay(config, Some(PRIORITY))?;
            with_rules(config, node, addresses, &relay, families, counts)
        }
        Err(error) => {
            tracing::info!(
                reason = format!("{error:#}"),
                "userspace mode without rules: every frontend gets a port on a loopback address"
            );
            let (relay, counts) = relay(config, None)?;
            on_loopback(config, node, addresses, &relay, counts)
        }
    }
}

fn relay(config: &Config, priority: Option<u32>) -> anyhow::Result<(SharedRelay, CountRelayed)> {
    let limit = raise_limit().context("the kernel does not tell how many files may be open")?;
    tracing::info!(before = limit.before, now = limit.now, "limit of open files");
    let udp_idle = config.conntrack.udp_seconds.map_or(UDP_IDLE, Duration::from_secs);
    let wishes = RelayConfig {
        open_files: limit.now,
        udp_idle,
        max_all_flows: affordable_flows(),
        priority,
        ..RelayConfig::default()
    };
    let relay = Relay::start(wishes).context("cannot start the relay")?;
    let counter = relay.counter();
    Ok((Arc::new(Mutex::new(relay)), Box::new(move || counts(&counter()))))
}

fn counts(relay: &Counts) -> RelayCounts {
    RelayCounts {
        open_connections: relay.open_connections,
        connections: relay.accepted,
        retries: relay.retries,
        unreachable: relay.unreachable,
        refused: relay.refused,
        out_of_descriptors: relay.out_of_descriptors,
        open_flows: relay.open_flows,
        flows: relay.flows,
        evicted_flows: relay.evicted_flows,
        lost_datagrams: relay.lost_datagrams,
    }
}

fn with_rules(
    config: &Config,
    node: &Node,
    addresses: &Addresses,
    relay: &SharedRelay,
    families: Vec<Family>,
    counts: CountRelayed,
) -> anyhow::Result<Dataplane> {
    let monitor = Monitor::open().context("cannot listen to nf_tables")?;
    let (mut modes, mut ports): (Vec<Box<dyn switchyard_apply::Mode>>, Vec<u32>) = Default::default();
    kernel::prepare(config)?;
    for family in families {
        let settings = settle(config, node, family, addresses);
        tracing::info!(%family, at = %listen_address(&settings), "userspace mode with rules that lead to listeners here");
        let kernel = Nft::open().context("cannot talk to nf_tables")?;
        ports.push(kernel.port());
        // Nothing is masqueraded: packets end here, and the relay's own come from this node anyway.
        let wishes = nft::Config { mark: 0, relay: Some(PRIORITY), ..nft::Config::default() };
        let rules = NftMode::new(kernel, nft::Planner::new(wishes, Book::new(settings)));
        let rules = rules.heard_by(monitor.membership());
        modes.push(Box::new(UserspaceMode::with_rules(relay.clone(), rules)));
    }
    Ok(Dataplane {
        modes,
        programs: Vec::new(),
        tables: Some(Tables { name: nft::names::TABLE, monitor, ports }),
        counts: Some(counts),
        on_first_success: Box::new(|| crate::cleanup::remove_leftovers(ModeName::Userspace)),
    })
}

fn on_loopback(
    config: &Config,
    node: &Node,
    addresses: &Addresses,
    relay: &SharedRelay,
    counts: CountRelayed,
) -> anyhow::Result<Dataplane> {
    let families: Vec<Family> = Family::ALL.into_iter().filter(|family| has_loopback(*family)).collect();
    if families.is_empty() {
        bail!("this host has no loopback address to listen on; bring the interface lo up");
    }
    let board = Arc::new(NoticeBoard::default());
    let mode = |family: Family| -> Box<dyn switchyard_apply::Mode> {
        let settings = settle(config, node, family, addresses);
        let board = board.clone();
        Box::new(UserspaceMode::on_loopback(relay.clone(), settings, Arc::new(move |news| board.note(news))))
    };
    Ok(Dataplane {
        modes: families.into_iter().map(mode).collect(),
        programs: Vec::new(),
        tables: None,
        counts: Some(counts),
        on_first_success: Box::new(move || board.print()),
    })
}

/// Whether this host has a loopback address of the family.
pub(crate) fn has_loopback(family: Family) -> bool {
    let ip: IpAddr = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
}

/// Says where frontends can be dialled: all of them once, and then what changes.
#[derive(Default)]
struct NoticeBoard {
    ways: Mutex<Vec<Way>>,
}

impl NoticeBoard {
    fn note(&self, news: News) {
        match news {
            News::Opened(way) => {
                tracing::info!(service = %way.port, frontend = %way.frontend, dial = %way.at, "a frontend can be dialled");
                self.lock().push(way);
            }
            News::Closed(way) => {
                tracing::info!(service = %way.port, frontend = %way.frontend, dial = %way.at, "a frontend is gone");
                self.lock().retain(|other| *other != way);
            }
        }
    }

    /// Prints what there is, once.
    fn print(&self) {
        let ways = std::mem::take(&mut *self.lock());
        // Whoever closed the output does not want to read it, and the log has the same.
        let _ = std::io::stdout().write_all(table(&ways).as_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Way>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line per frontend, in columns.
fn table(ways: &[Way]) -> String {
    let head = ["SERVICE", "FRONTEND", "DIAL"].map(str::to_owned);
    let mut rows: Vec<[String; 3]> =
        ways.iter().map(|way| [way.port.to_string(), way.frontend.to_string(), way.at.to_string()]).collect();
    rows.sort();
    rows.insert(0, head);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line =
        |[service, frontend, dial]: &[String; 3]| format!("{service:first$}  {frontend:second$}  {dial}\n");
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use switchyard_model::{Protocol, ServiceName, ServicePortName};
    use switchyard_plan::route::{Frontend, FrontendAddress};

    use super::*;

    #[test]
    fn the_table_aligns() {
        let way = |name: &str, address, port, at: &str| Way {
            port: ServicePortName {
                service: ServiceName::new("shop", name),
                port: "http".into(),
                protocol: Protocol::Tcp,
            },
            frontend: Frontend { address, protocol: Protocol::Tcp, port },
            at: at.parse().unwrap(),
        };
        let cluster_ip = FrontendAddress::Ip("10.96.0.1".parse().unwrap());
        let ways = [
            way("web", FrontendAddress::Node(Family::V4), 30_080, "127.0.0.1:30080"),
            way("a", cluster_ip, 80, "127.0.0.1:20001"),
        ];
        assert_eq!(
            table(&ways),
            "SERVICE        FRONTEND                    DIAL\n\
             shop/a:http    10.96.0.1:80/tcp            127.0.0.1:20001\n\
             shop/web:http  node port 30080/tcp (IPv4)  127.0.0.1:30080\n"
        );
        assert_eq!(table(&[]), "SERVICE  FRONTEND  DIAL\n");
    }
}
