//! Virtual servers, addresses and the table against what they should be. Nothing is written, not even the link is made.

use std::collections::HashSet;
use std::net::SocketAddr;

use switchyard_netlink::NetlinkError;
use switchyard_netlink::ipvs::Ipvs;
use switchyard_netlink::nftables::Nft;
use switchyard_netlink::route::Routes;
use switchyard_plan::ipvs::Server;
use switchyard_plan::ipvs::planner::{Held, Planner};
use switchyard_plan::ipvs::steps::{Op, Step};
use switchyard_plan::nft::element::Place;
use switchyard_plan::nft::ops::{Change, Op as RuleOp};

use super::LINK;
use super::kernel::Kernel;
use crate::diff::Difference;
use crate::nft::observe::observe;
use crate::nft::{Layout, diff};

/// Reads everything back and compares. `waits` says of a destination that it is kept only for its last connections.
pub(super) fn difference(
    planner: &Planner,
    waits: impl Fn(Server, SocketAddr) -> bool,
) -> Result<Difference, NetlinkError> {
    let family = planner.book().settings().family;
    let (mut nft, layout) = (Nft::open()?, Layout::IPVS);
    let mut difference = Difference::default();
    let observed = observe(&mut nft, family, layout, &planner.chains())?;
    let table = diff::table(observed, family, layout, &mut difference);
    let mut held = Held { table, ..Held::default() };
    match Ipvs::open()? {
        Some(ipvs) => {
            let mut kernel = Kernel::new(ipvs, Routes::open()?, family);
            let wanted = planner.servers();
            held.servers = kernel.servers(|server| wanted.contains_key(server))?;
            match kernel.addresses_as_they_are()? {
                Some(addresses) => held.addresses = addresses.on_link,
                None => difference.missing(None, format!("link {LINK}")),
            }
        }
        None => difference.missing(None, "IPVS, which this kernel does not have any more"),
    }
    let steps = planner.repair(&held);
    if let Some(mut table) = held.table {
        let rules: Vec<RuleOp> = steps.rules.into_iter().chain(steps.forget).collect();
        diff::objects(&mut nft, family, layout, &rules, &mut difference)?;
        let deleted = |op: &RuleOp| match op.change {
            Change::DeleteElement(place) => Some(place),
            _ => None,
        };
        let deleted: HashSet<Place> = rules.iter().filter_map(deleted).collect();
        table.elements.retain(|place, _| deleted.contains(place));
        diff::elements(&rules, &table.elements, &mut difference);
    }
    steps.grow.iter().chain(&steps.shrink).for_each(|op| line(op, &waits, &mut difference));
    Ok(difference)
}

fn line(op: &Op, waits: &impl Fn(Server, SocketAddr) -> bool, difference: &mut Difference) {
    let owner = op.owner.as_ref();
    match &op.step {
        Step::AddServer(server, how) => {
            difference.missing(owner, format!("virtual server {server}, scheduler {}", how.scheduler));
        }
        Step::SetServer(server, how) => {
            let sticky = how.sticky.map(|seconds| format!(", sticky for {seconds} s")).unwrap_or_default();
            let how = format!("scheduler {}{sticky}", how.scheduler);
            difference.missing(owner, format!("options of virtual server {server}: {how}"));
        }
        Step::AddDestination(server, to) => {
            difference.missing(owner, format!("destination {to} of virtual server {server}"));
        }
        Step::Retire(server, to) if waits(*server, *to) => {}
        Step::Retire(server, to) => {
            difference.extra(owner, format!("destination {to} of virtual server {server}"));
        }
        Step::DeleteServer(server) => difference.extra(owner, format!("virtual server {server}")),
        Step::AddAddress(ip) => difference.missing(owner, format!("address {ip} of link {LINK}")),
        Step::RemoveAddress(ip) => difference.extra(owner, format!("address {ip} of link {LINK}")),
    }
}
