//! Reasons, case by case, in the manners of every mode and for both families; and each mode's tracer beside the explanation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use expect_test::Expect;
use ipnet::IpNet;
use switchyard_model::Protocol;

use super::*;
use crate::testing::clients::Client as Sender;
use crate::testing::packets::packet;
use crate::testing::{World, address, node_addresses, plain_range, plain_socket, range};
use crate::userspace::{Port, on_loopback};

mod agree;
mod balanced;
mod lenient;
mod relayed;
mod strict;

/// In whose manners.
#[derive(Clone, Copy, Debug)]
enum Ways {
    Lenient,
    Strict,
    /// With this scheduler.
    Balanced(&'static str),
    Relayed,
    Loopback,
}

/// Who sends, and to what: `10.96.0.1:80`, perhaps with `/udp` or `/sctp`.
type Flow = (Sender, &'static str);

/// Some cases about one thing.
struct Table {
    ways: Ways,
    /// As [`World`] reads it.
    world: String,
    flows: Vec<Flow>,
    /// What is said of each flow.
    said: Expect,
}

fn table(ways: Ways, world: impl Into<String>, flows: &[Flow], said: Expect) -> Table {
    Table { ways, world: world.into(), flows: flows.to_vec(), said }
}

/// What manners borrow.
struct Facts {
    service_cidrs: [IpNet; 1],
    scheduler: Arc<str>,
    own: BTreeSet<IpAddr>,
    doors: BTreeMap<Frontend, SocketAddr>,
}

impl Facts {
    fn new(ways: Ways, book: &Book) -> Self {
        let family = book.settings().family;
        Self {
            service_cidrs: [range(family, "10.96.0.0/16")],
            scheduler: if let Ways::Balanced(name) = ways { name.into() } else { "rr".into() },
            own: node_addresses(family).into_iter().filter(|ip| !ip.is_loopback()).collect(),
            doors: doors(book),
        }
    }

    fn manners(&self, ways: Ways) -> Manners<'_> {
        match ways {
            Ways::Lenient => Manners::Lenient,
            Ways::Strict => Manners::Strict { service_cidrs: &self.service_cidrs },
            Ways::Balanced(_) => Manners::Balanced { scheduler: &self.scheduler, own: &self.own },
            Ways::Relayed => Manners::Relayed { service_cidrs: &self.service_cidrs },
            Ways::Loopback => Manners::Loopback { doors: self.doors.clone() },
        }
    }
}

/// A listener for each frontend that has one: node ports at their number, others from 20001 on. Node port 30099 is another program's.
fn doors(book: &Book) -> BTreeMap<Frontend, SocketAddr> {
    let all = book.ports().values().flat_map(|port| on_loopback(book.settings(), &book.routes(port)));
    let ip = address(book.settings().family, "127.0.0.1");
    let mut next = 20_000;
    let mut door = |listener: crate::userspace::Listener| {
        let port = match listener.port {
            Port::Only(30_099) => return None,
            Port::Only(port) => port,
            Port::From(_) | Port::Any => {
                next += 1;
                next
            }
        };
        Some((listener.frontend?, SocketAddr::new(ip, port)))
    };
    all.filter_map(&mut door).collect()
}

/// Goes through a table in one family.
fn walk(table: &Table, family: Family, each: &mut dyn FnMut(&Flow, &Explanation<'_>)) {
    let world = World::new(family, &table.world);
    let book = world.book();
    let node = NodeAddresses::from([address(family, "192.168.0.10"), address(family, "192.168.1.10")]);
    let facts = Facts::new(table.ways, &book);
    let manners = facts.manners(table.ways);
    for flow @ (from, to) in &table.flows {
        let (at, protocol) = to.split_once('/').unwrap_or((to, "tcp"));
        let (ip, port) = at.split_once(':').unwrap();
        let protocol = Protocol::from_api(&protocol.to_uppercase()).unwrap();
        let packet = packet(family, *from, ip, protocol, port.parse().unwrap());
        each(flow, &explain(Place { book: &book, node: &node, manners: &manners }, &packet));
    }
}

/// Every flow and what is said of it, which must be the same in both families.
fn check(tables: Vec<Table>) {
    for table in tables {
        let said = Family::ALL.map(|family| {
            let mut said = String::new();
            walk(&table, family, &mut |((from, _), to), explanation| {
                said += &format!("{from} -> {to}\n{}", show(explanation));
            });
            said
        });
        assert_eq!(said[0], said[1], "{}", table.world);
        table.said.assert_eq(&said[0]);
    }
}

fn show(explanation: &Explanation<'_>) -> String {
    let answer = match &explanation.answer {
        Answer::Endpoints(some) => format!("{} endpoints", some.len()),
        other => format!("{other:?}").to_lowercase(),
    };
    let mut shown = format!("{answer}: {}\n", plain_reason(&explanation.reason));
    let Some(hit) = &explanation.hit else { return shown };
    shown += &format!("{} of {}, sent by {}\n", hit.kind, hit.port.name, hit.client);
    for loser in &hit.losers {
        shown += &format!("not {}\n", loser.name);
    }
    let odds = match &explanation.reason {
        Reason::Picked(pick) => pick.chooser.odds(hit.candidates()),
        _ => String::new(),
    };
    for judged in &hit.endpoints {
        let at = plain_socket(judged.endpoint.address);
        shown += &match judged.standing {
            Standing::Candidate(source) => format!("+ {at} {odds}, source {source}\n"),
            Standing::Excluded(exclusion) => format!("- {at} {exclusion}\n"),
        };
    }
    shown
}

/// With addresses as in IPv4.
fn plain_reason(reason: &Reason) -> Reason {
    match reason {
        Reason::Unallocated(range) => Reason::Unallocated(plain_range(range)),
        Reason::DialInstead(name, at) => Reason::DialInstead(name.clone(), plain_socket(*at)),
        other => other.clone(),
    }
}

/// A name for each variant of an enum, and all of the names: the compiler sees to it that none is forgotten.
macro_rules! variants {
    ($all:ident, $name:ident, $kind:ty { $($variant:pat => $text:literal,)+ }) => {
        const $all: &[&str] = &[$($text),+];
        fn $name(value: &$kind) -> &'static str {
            match value { $($variant => $text),+ }
        }
    };
}

variants!(REASONS, reason_name, Reason {
    Reason::Picked(_) => "picked",
    Reason::NoEndpoints => "no endpoints",
    Reason::NoneUsable => "none usable",
    Reason::NoneHere => "none here",
    Reason::SourceNotAllowed => "source not allowed",
    Reason::NotRelayed(_) => "not relayed",
    Reason::NoSuchPort(_) => "no such port",
    Reason::Unallocated(_) => "unallocated",
    Reason::NotOnThisAddress(..) => "not on this address",
    Reason::DialInstead(..) => "dial instead",
    Reason::NoListener(_) => "no listener",
    Reason::OnlyFromThisNode => "only from this node",
    Reason::HealthCheck(_) => "health check",
    Reason::NotOurs => "not ours",
});

variants!(EXCLUSIONS, exclusion_name, Exclusion {
    Exclusion::NotReady => "not ready",
    Exclusion::Ended => "ended",
    Exclusion::Ending => "ending",
    Exclusion::OtherNode => "other node",
    Exclusion::HintedForOtherNode => "hinted for other node",
    Exclusion::HintedForOtherZone => "hinted for other zone",
    Exclusion::SenderRefused => "sender refused",
    Exclusion::NotRelayed => "protocol not relayed",
});

variants!(SOURCES, source_name, Source {
    Source::KeptForLocalPod => "kept for local pod",
    Source::KeptWithoutDetector => "kept without detector",
    Source::KeptByPolicy => "kept by policy",
    Source::KeptOnNode => "kept on node",
    Source::ReplacedForAll => "replaced for all",
    Source::ReplacedForVirtualAddress => "replaced for virtual address",
    Source::ReplacedForOutsider => "replaced for outsider",
    Source::ReplacedForWayBack => "replaced for way back",
    Source::ReplacedForHairpin => "replaced for hairpin",
    Source::ReplacedByRelay => "replaced by relay",
});

variants!(CHOOSERS, chooser_name, Chooser {
    Chooser::Lot => "lot",
    Chooser::Turns => "turns",
    Chooser::Scheduler(_) => "scheduler",
});

/// The answers that a reason may have; of a refusal, no other reason could be true.
fn fits(reason: &Reason) -> &'static [&'static str] {
    match reason {
        Reason::Picked(_) => &["endpoints"],
        Reason::NoEndpoints | Reason::NoneUsable | Reason::NoneHere | Reason::SourceNotAllowed => {
            &["reject", "drop"]
        }
        Reason::NotRelayed(_) => &["reject"],
        Reason::Unallocated(_) => &["drop"],
        Reason::NoSuchPort(_) => &["reject", "untouched"],
        Reason::NotOnThisAddress(..)
        | Reason::DialInstead(..)
        | Reason::NoListener(_)
        | Reason::OnlyFromThisNode
        | Reason::HealthCheck(_)
        | Reason::NotOurs => &["untouched"],
    }
}

#[test]
fn every_reason_is_somewhere_in_the_tables_and_fits_its_answer() {
    let tables = [lenient::tables(), strict::tables(), balanced::tables(), relayed::tables()];
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut count = |flow: &Flow, explanation: &Explanation<'_>| {
        seen.insert(reason_name(&explanation.reason));
        if let Reason::Picked(pick) = &explanation.reason {
            seen.insert(chooser_name(&pick.chooser));
        }
        for judged in explanation.hit.iter().flat_map(|hit| &hit.endpoints) {
            seen.insert(match &judged.standing {
                Standing::Candidate(source) => source_name(source),
                Standing::Excluded(exclusion) => exclusion_name(exclusion),
            });
        }
        let answer = match &explanation.answer {
            Answer::Endpoints(_) => "endpoints",
            Answer::Reject => "reject",
            Answer::Drop => "drop",
            Answer::Untouched => "untouched",
        };
        assert!(fits(&explanation.reason).contains(&answer), "{flow:?}: {explanation:?}");
    };
    for table in tables.iter().flatten() {
        walk(table, Family::V4, &mut count);
    }
    let all = [REASONS, EXCLUSIONS, SOURCES, CHOOSERS].concat();
    let missing: Vec<&str> = all.into_iter().filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
}
