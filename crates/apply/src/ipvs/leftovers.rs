//! What ipvs mode leaves, ours or kube-proxy's: virtual servers, an interface, a table of ours, ipsets of kube-proxy's.
//!
//! The interface `kube-ipvs0` is the proof that the mode ran here. Without it nothing is asked or removed but our own table:
//! IPVS and sets may be somebody else's. Of the virtual servers, those go that our table or the interface says are ours. Where
//! kube-proxy was, nothing says which node ports it had: there, those at an address of the node go whose port is in the range
//! that the API server gives node ports from unless it is told otherwise.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use switchyard_model::Family;
use switchyard_netlink::ipvs::{Command, Ipvs, ServiceId};
use switchyard_netlink::nftables::{self, Nft};
use switchyard_netlink::route::Routes;
use switchyard_netlink::{NetlinkError, ipset};
use switchyard_plan::ipvs::ownership::Ledger;
use switchyard_plan::nft::names::IPVS_TABLE;

use super::LINK;
use super::kernel::{Addresses, server, sort};
use crate::nft::observe::{Observed, observe};
use crate::nft::{Layout, wire};

/// Where node ports usually are.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

/// The longest name of a set.
const MAX_SET_NAME: usize = 31;

/// Sets of IPv4; those of IPv6 have `KUBE-6-` in front.
const SETS: [&str; 17] = [
    "LOOP-BACK",
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "LOAD-BALANCER",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-SOURCE-CIDR",
    "LOAD-BALANCER-SOURCE-IP",
    "NODE-PORT-TCP",
    "NODE-PORT-UDP",
    "NODE-PORT-LOCAL-TCP",
    "NODE-PORT-LOCAL-UDP",
    "NODE-PORT-SCTP-HASH",
    "NODE-PORT-LOCAL-SCTP-HASH",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
];

/// Something that is left.
#[derive(Debug, thiserror::Error)]
#[error("cleanup of ipvs mode left {object} behind; remove it by hand or run the cleanup again")]
pub struct LeftoverError {
    /// What.
    pub object: String,
    /// Why.
    #[source]
    pub cause: NetlinkError,
}

/// What was removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// Whether the mode had been here at all.
    pub was_here: bool,
    /// What is left, and why.
    pub errors: Vec<LeftoverError>,
}

/// Removes everything, our table last, so that a run that is cut off is taken up again, and no address is open meanwhile.
/// Rules that use the sets must be gone before.
pub fn remove_leftovers() -> Removed {
    let mut removed = Removed::default();
    let mut left =
        |object: &str, cause| removed.errors.push(LeftoverError { object: object.to_owned(), cause });
    let link = match Routes::open().and_then(|mut routes| routes.links()) {
        Ok(links) => links.into_iter().find(|link| link.name == LINK),
        Err(cause) => {
            left("the list of interfaces", cause);
            None
        }
    };
    if let Some(link) = &link {
        if let Err(cause) = remove_servers() {
            left("virtual servers", cause);
        }
        if let Err(cause) = Routes::open().and_then(|mut routes| routes.delete_link(link.index)) {
            left(LINK, cause);
        }
    }
    let mut had_table = false;
    for family in Family::ALL {
        match nftables::delete_table(wire(family), IPVS_TABLE) {
            Ok(done) => had_table |= done == nftables::Removed::Yes,
            Err(cause) => left(&format!("the table {IPVS_TABLE}"), cause),
        }
    }
    removed.was_here = link.is_some() || had_table;
    if link.is_some() {
        removed.errors.extend(remove_sets());
    }
    removed
}

/// Removes the ipsets of kube-proxy. Rules that use them must be gone before. Says what is left.
pub fn remove_sets() -> Vec<LeftoverError> {
    let left = |name: String, cause| LeftoverError { object: format!("the set {name}"), cause };
    set_names().into_iter().filter_map(|name| ipset::destroy(&name).err().map(|e| left(name, e))).collect()
}

/// What [`remove_leftovers`] would remove.
#[derive(Debug, Default)]
pub struct Found {
    /// One line each.
    pub objects: Vec<String>,
    /// What could not be looked at, and why.
    pub errors: Vec<LeftoverError>,
}

/// Looks for everything that [`remove_leftovers`] removes, and removes nothing.
pub fn find_leftovers() -> Found {
    let mut found = Found::default();
    let mut unread = |object: &str, cause| {
        found.errors.push(LeftoverError { object: object.to_owned(), cause });
    };
    let mut objects = Vec::new();
    let has_link = match Routes::open().and_then(|mut routes| routes.links()) {
        Ok(links) => links.iter().any(|link| link.name == LINK),
        Err(cause) => {
            unread("the list of interfaces", cause);
            false
        }
    };
    if has_link {
        match our_servers() {
            Ok(Some((_, ids))) => objects.extend(ids.iter().map(|id| format!("virtual server {id}"))),
            Ok(None) => {}
            Err(cause) => unread("virtual servers", cause),
        }
        objects.push(format!("interface {LINK}"));
    }
    for family in Family::ALL {
        match nftables::has_table(wire(family), IPVS_TABLE) {
            Ok(true) => objects.push(format!("table {IPVS_TABLE} of {family}")),
            Ok(false) => {}
            Err(cause) => unread(&format!("the table {IPVS_TABLE}"), cause),
        }
    }
    for name in set_names().into_iter().filter(|_| has_link) {
        match ipset::exists(&name) {
            Ok(true) => objects.push(format!("set {name}")),
            Ok(false) => {}
            Err(cause) => unread(&format!("the set {name}"), cause),
        }
    }
    found.objects = objects;
    found
}

/// Removes the virtual servers that are ours.
fn remove_servers() -> Result<(), NetlinkError> {
    let Some((mut ipvs, ids)) = our_servers()? else { return Ok(()) };
    let commands: Vec<Command> = ids.into_iter().map(Command::DeleteService).collect();
    // Each answer is success, or that it is gone.
    ipvs.send(&commands).map(|_| ())
}

/// The virtual servers that are ours; nothing where there is no IPVS.
fn our_servers() -> Result<Option<(Ipvs, Vec<ServiceId>)>, NetlinkError> {
    let Some(mut ipvs) = Ipvs::open()? else { return Ok(None) };
    let mut routes = Routes::open()?;
    let link = routes.link_index(LINK)?;
    let all = routes.addresses()?;
    let mut ids = Vec::new();
    for family in Family::ALL {
        let Addresses { on_link, own } = sort(&all, link, family);
        // A kernel without nf_tables has no table of ours.
        let observed =
            Nft::open().and_then(|mut nft| observe(&mut nft, family, Layout::IPVS, &BTreeMap::new()));
        let table = match observed {
            Ok(Observed::Table(table)) => Some(table),
            Ok(Observed::Nothing | Observed::Foreign) | Err(_) => None,
        };
        let ledger = Ledger { addresses: &on_link, table: table.as_ref() };
        for id in ipvs.services()?.into_iter().map(|service| service.id) {
            let Some(server) = server(id).filter(|server| Family::of(server.address) == family) else {
                continue;
            };
            let may_be_kube_proxys =
                table.is_none() && own.contains(&server.address) && NODE_PORTS.contains(&server.port);
            if ledger.owns(server) || may_be_kube_proxys {
                ids.push(id);
            }
        }
    }
    Ok(Some((ipvs, ids)))
}

/// The names of all sets, of both families.
fn set_names() -> Vec<String> {
    let named = |prefix: &str, set: &str| format!("{prefix}{set}").chars().take(MAX_SET_NAME).collect();
    ["KUBE-", "KUBE-6-"].iter().flat_map(|prefix| SETS.map(|set| named(prefix, set))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use switchyard_netlink::netns::Namespace;
    use switchyard_netlink::route::Veth;

    #[test]
    fn names_are_kube_proxys() {
        let names = set_names();
        assert_eq!(names.len(), 34);
        for known in ["KUBE-LOOP-BACK", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS"]
        {
            assert!(names.iter().any(|name| name == known), "{known}");
        }
    }

    #[test]
    fn only_with_the_interface_is_anything_removed() {
        let Ok(namespace) = Namespace::new() else {
            assert!(
                std::env::var("LAB").as_deref() != Ok("require"),
                "LAB=require, but no namespace can be made"
            );
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), b"SKIPPED: network namespaces need root\n");
            return;
        };
        let (before, after) = namespace
            .run(|| {
                let before = remove_leftovers();
                let peer = Namespace::new().unwrap();
                let veth = Veth { name: LINK, index: None, peer_name: "peer", peer: peer.as_fd() };
                Routes::open().unwrap().create_veth(&veth).unwrap();
                (before, (remove_leftovers(), Routes::open().unwrap().links().unwrap()))
            })
            .unwrap();
        assert!(!before.was_here && before.errors.is_empty());
        let (removed, links) = after;
        assert!(removed.was_here && removed.errors.is_empty(), "{:?}", removed.errors);
        assert!(!links.iter().any(|link| link.name == LINK));
    }
}
