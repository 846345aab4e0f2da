//! Userspace mode for one family: keeps listeners open, and leads clients to them.
//!
//! In: changes of service ports. Out: a [`Report`].
//!
//! Two ways in. With rules, the table of nftables mode is written, with listeners in the place of endpoints
//! ([`stand_in`]): who may dial what, who is rejected or dropped, node ports, source ranges, repair and clean-up are
//! that mode's. Without, every frontend has a listener on a loopback address, which is announced.
//!
//! Invariants
//! - A listener is open before a rule leads to it, and is closed when none does any more.
//! - A change of one service port touches only its listeners, and its elements of the table.
//! - What cannot be opened is set aside and tried again with the next sync; all others go on.
//! - A restart opens the listeners where they were, and until the rules are its own, none where they lead others' clients.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use switchyard_model::{Family, ServicePort, ServicePortName};
use switchyard_plan::book::{Book, PortChanges};
use switchyard_plan::explain::{Explanation, Manners};
use switchyard_plan::iptables::RuleCounts;
use switchyard_plan::route::Frontend;
use switchyard_plan::settings::Settings;
use switchyard_plan::trace::Packet;
use switchyard_plan::userspace::{Heritage, Listener, behind_rules, is_relayed, on_loopback, stand_in};
use switchyard_relay::Origin;

use super::doors::{Changed, Doors};
use super::{Announce, News, SharedRelay, listen_address};
use crate::Mode;
use crate::diff::Difference;
use crate::nft::mode::NftMode;
use crate::report::{Failure, Kind, Progress, Report};
use crate::unconfirmed::Unconfirmed;

/// How clients get to listeners.
enum Way {
    /// By rules that lead to an address of this node.
    Rules { nft: Box<NftMode>, ip: IpAddr, past: Past },
    /// By themselves.
    Loopback { announce: Announce },
}

/// Whether it is known what an earlier run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    Unseen,
    Seen,
}

/// Whether every service port has to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Yes,
    No,
}

/// See the module.
pub struct UserspaceMode {
    book: Book,
    doors: Doors,
    way: Way,
    settled: Settled,
    unconfirmed: Unconfirmed,
    /// What cannot be served, and why.
    set_aside: BTreeMap<ServicePortName, String>,
}

impl UserspaceMode {
    /// Clients are led here by rules, which `nft` writes. It must have no service port yet.
    pub fn with_rules(relay: SharedRelay, nft: NftMode) -> Self {
        let settings = nft.book().settings().clone();
        let ip = listen_address(&settings);
        let doors = Doors::new(relay, Origin::Redirected);
        Self::new(Book::new(settings), doors, Way::Rules { nft: Box::new(nft), ip, past: Past::Unseen })
    }

    /// Clients dial loopback addresses, which `announce` hears of.
    pub fn on_loopback(relay: SharedRelay, settings: Settings, announce: Announce) -> Self {
        Self::new(Book::new(settings), Doors::new(relay, Origin::Any), Way::Loopback { announce })
    }

    fn new(book: Book, doors: Doors, way: Way) -> Self {
        let (unconfirmed, set_aside) = Default::default();
        Self { book, doors, way, settled: Settled::No, unconfirmed, set_aside }
    }

    /// Before the first listener is opened: where do the rules lead that are in force?
    fn look_back(&mut self) -> Result<(), Failure> {
        if let Way::Rules { nft, ip, past: past @ Past::Unseen } = &mut self.way {
            self.doors.inherit(Heritage::at(*ip, &nft.left_behind()?));
            *past = Past::Seen;
        }
        Ok(())
    }

    /// Opens what the service ports want. The answer is what rules have to know.
    fn open(&mut self, names: &BTreeSet<ServicePortName>) -> PortChanges {
        let wished: Vec<_> = names.iter().map(|name| (name, self.wishes(name))).collect();
        for (name, (ip, wishes)) in &wished {
            self.doors.unwant(name, *ip, wishes);
        }
        if matches!(self.way, Way::Loopback { .. }) {
            // Nothing leads there, and somebody else may want the port.
            self.close();
        }
        let opened = wished
            .into_iter()
            .map(|(name, (ip, wishes))| (name.clone(), self.open_port(name, ip, wishes).map(Arc::new)));
        opened.collect()
    }

    /// The listeners that a service port should have, and where.
    fn wishes(&self, name: &ServicePortName) -> (IpAddr, Vec<Listener>) {
        let settings = self.book.settings();
        let routes = self.book.ports().get(name).map(|port| self.book.routes(port));
        match (&self.way, routes) {
            (Way::Rules { ip, .. }, Some(routes)) => (*ip, behind_rules(&routes)),
            (Way::Loopback { .. }, Some(routes)) => {
                (loopback(settings.family), on_loopback(settings, &routes))
            }
            (_, None) => (loopback(settings.family), Vec::new()),
        }
    }

    fn open_port(
        &mut self,
        name: &ServicePortName,
        ip: IpAddr,
        wishes: Vec<Listener>,
    ) -> Option<ServicePort> {
        let Changed { at, opened, closed } = self.doors.want(name, ip, wishes);
        let port = self.book.ports().get(name).cloned();
        self.set_aside.remove(name);
        let cause = self.doors.shut().get(name).cloned();
        let is_strange = port.is_some() && !is_relayed(name.protocol);
        let cause =
            cause.or_else(|| is_strange.then(|| "SCTP cannot be relayed; use another mode".to_owned()));
        self.set_aside.extend(cause.map(|cause| (name.clone(), cause)));
        if let Way::Loopback { announce } = &self.way {
            closed.into_iter().for_each(|way| announce(News::Closed(way)));
            opened.into_iter().for_each(|way| announce(News::Opened(way)));
        }
        let routes = self.book.routes(port.as_deref()?);
        Some(stand_in(self.book.settings(), &routes, |door| at.get(&door).copied()))
    }

    fn close(&mut self) {
        let closed = self.doors.close_unwanted();
        if let Way::Loopback { announce } = &self.way {
            closed.into_iter().for_each(|way| announce(News::Closed(way)));
        }
    }

    /// The service ports to look at, once `changes` are in the book.
    fn affected(&self, changes: &PortChanges) -> BTreeSet<ServicePortName> {
        let mut affected = self.book.affected(changes);
        affected.extend(self.set_aside.keys().cloned());
        if self.settled == Settled::No {
            affected.extend(self.book.ports().keys().cloned());
            affected.extend(self.doors.ports());
            // What went during a sync that failed has rules still, and may have no listener.
            if let Way::Rules { nft, .. } = &self.way {
                affected.extend(nft.book().ports().keys().cloned());
            }
        }
        affected
    }

    /// What the kernel refused is set aside here, too.
    fn blame(&mut self, report: &Report) {
        for refused in &report.refused {
            let good = self.unconfirmed.last_good(&refused.name);
            self.book.quarantine(&refused.name, good, refused.cause.clone());
        }
    }
}

impl Mode for UserspaceMode {
    fn book(&self) -> &Book {
        &self.book
    }

    fn translated(&self) -> Option<&Book> {
        match &self.way {
            Way::Rules { nft, .. } => Some(nft.book()),
            Way::Loopback { .. } => None,
        }
    }

    fn manners(&self) -> Manners<'_> {
        match &self.way {
            Way::Rules { nft, .. } => Manners::Relayed { service_cidrs: nft.service_cidrs() },
            Way::Loopback { .. } => Manners::Loopback { doors: self.doors.all_frontends() },
        }
    }

    fn counts(&self) -> RuleCounts {
        match &self.way {
            Way::Rules { nft, .. } => nft.counts(),
            Way::Loopback { .. } => RuleCounts::default(),
        }
    }

    fn set_aside(&self) -> &BTreeMap<ServicePortName, String> {
        &self.set_aside
    }

    fn stand_ins(&self, port: &ServicePortName) -> Vec<(Frontend, SocketAddr)> {
        match &self.way {
            Way::Rules { .. } => Vec::new(),
            Way::Loopback { .. } => self.doors.frontends(port),
        }
    }

    fn settle(&mut self, settings: Settings) {
        if *self.book.settings() == settings {
            return;
        }
        self.settled = Settled::No;
        if let Way::Rules { nft, ip, past } = &mut self.way {
            *ip = listen_address(&settings);
            *past = Past::Unseen;
            nft.settle(settings.clone());
        }
        self.book.settle(settings);
    }

    fn allocate_from(&mut self, ranges: &[IpNet]) {
        if let Way::Rules { nft, .. } = &mut self.way {
            nft.allocate_from(ranges);
        }
    }

    /// Listeners are our own: nobody else can close one, so only those differ that could not be opened.
    fn difference(&self) -> Result<Difference, Failure> {
        let mut difference = match &self.way {
            Way::Rules { nft, .. } => nft.difference()?,
            Way::Loopback { .. } => Difference::default(),
        };
        for (name, cause) in self.doors.shut() {
            difference.missing(Some(name), format!("listener: {cause}"));
        }
        Ok(difference)
    }

    fn means(&self, explanation: &Explanation<'_>, packet: &Packet) -> Vec<String> {
        let hit = explanation.hit.as_ref();
        let (mut lines, frontend) = match &self.way {
            Way::Rules { nft, .. } => (nft.means(explanation, packet), None),
            Way::Loopback { .. } => (Vec::new(), hit.map(|hit| hit.frontend)),
        };
        lines.extend(hit.into_iter().flat_map(|hit| self.doors.lines(&hit.port.name, frontend)));
        lines
    }

    fn distrust(&mut self) {
        if let Way::Rules { nft, .. } = &mut self.way {
            nft.distrust();
        }
    }

    fn needs_full_sync(&self, now: Instant) -> bool {
        let of_rules = match &self.way {
            Way::Rules { nft, .. } => nft.needs_full_sync(now),
            Way::Loopback { .. } => false,
        };
        // What could not be opened is tried whenever there is a chance.
        of_rules || self.settled == Settled::No || !self.doors.shut().is_empty()
    }

    fn sync(&mut self, now: Instant, changes: PortChanges, progress: &mut dyn FnMut(Progress)) -> Report {
        let mut affected = self.affected(&changes);
        affected.extend(changes.keys().cloned());
        let kind = if self.settled == Settled::Yes { Kind::Partial } else { Kind::Full };
        self.unconfirmed.add(self.book.update(changes));
        if let Err(failure) = self.look_back() {
            self.settled = Settled::No;
            return Report { failure: Some(failure), ..Report::new(kind) };
        }
        let stand_ins = self.open(&affected);
        self.settled = Settled::Yes;
        let mut report = match &mut self.way {
            Way::Rules { nft, .. } => nft.sync(now, stand_ins, progress),
            Way::Loopback { .. } => Report { planned: affected.len(), ..Report::new(kind) },
        };
        self.blame(&report);
        if report.failure.is_none() {
            // From now on the rules are our own.
            self.doors.inherit(Heritage::default());
            self.close();
        }
        self.unconfirmed.confirm(&mut report);
        report
    }
}

fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}
