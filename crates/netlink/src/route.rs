//! Links, addresses and routes of one network namespace.
//!
//! In: typed requests. Out: lists and acknowledgements. Dumps that were interrupted are asked again here, so a list is always whole.
//! Only what a service proxy and its lab need is here: list everything, make veth pairs, add addresses and routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::message::{Message, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, family_of};
use crate::socket::{Protocol, Socket, retry};
use crate::{Family, NetlinkError};

mod bytes;
mod lookup;
mod watch;

pub use watch::AddressMonitor;

/// Bytes in the longest interface name, without the closing NUL.
pub const NAME_MAX: usize = 15;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;

const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const FRA_DST: u16 = 1;
const FRA_IIFNAME: u16 = 3;

/// The kernel's number of a link. Unique in one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub u32);

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: LinkIndex,
    /// Its name.
    pub name: String,
    /// True if the administrator switched it on.
    pub is_up: bool,
    /// True if it also has a carrier and the kernel has taken notice of that.
    pub is_running: bool,
}

/// One address that this namespace answers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalAddress {
    /// The address.
    pub address: IpAddr,
    /// The length of its network prefix.
    pub prefix: u8,
    /// The number of the interface that carries it.
    pub link: LinkIndex,
    /// The name of that interface; empty if it went away while we were asking.
    pub interface: String,
    /// How far the address is known.
    pub scope: Scope,
}

/// How far an address or a route reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere.
    Universe,
    /// Within the site (IPv6, deprecated) or a value with no name.
    Other(u8),
    /// On the attached link only.
    Link,
    /// Inside this host only.
    Host,
}

impl Scope {
    fn number(self) -> u8 {
        match self {
            Self::Universe => 0,
            Self::Other(number) => number,
            Self::Link => 253,
            Self::Host => 254,
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Universe,
            253 => Self::Link,
            254 => Self::Host,
            other => Self::Other(other),
        }
    }
}

/// How packets of a route leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// The destination is on the link itself.
    Direct(LinkIndex),
    /// Through a router that the link's own addresses can reach.
    Via(LinkIndex, IpAddr),
    /// Through a router that is on the link, whatever the addresses say.
    OnLink(LinkIndex, IpAddr),
    /// Nowhere: dropped without an answer.
    Blackhole,
}

/// One route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The network that it leads to; `0.0.0.0` or `::` with prefix 0 for the default route.
    pub destination: IpAddr,
    /// The length of its prefix.
    pub prefix: u8,
    /// Where packets go.
    pub next_hop: NextHop,
}

/// A pair of linked interfaces: one here, its peer in another namespace.
#[derive(Debug, Clone, Copy)]
pub struct Veth<'a> {
    /// The name of this end.
    pub name: &'a str,
    /// The number of this end; any free one if `None`. The kernel reports "carrier on" up to a second late, and drops packets until
    /// then, if both ends happen to have the same number.
    pub index: Option<LinkIndex>,
    /// The name of the other end.
    pub peer_name: &'a str,
    /// The namespace of the other end.
    pub peer: BorrowedFd<'a>,
}

/// Links, addresses and routes in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Routes {
    socket: Socket,
}

impl Routes {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Route)? })
    }

    /// All links, by number.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        retry(|| {
            let mut links = Vec::new();
            let ask = Message::new(RTM_GETLINK, 0, &bytes::link_header(LinkIndex(0), 0));
            self.socket.dump("list links", ask, &mut |frame| {
                if frame.kind == RTM_NEWLINK {
                    links.push(bytes::read_link(frame)?);
                }
                Ok(())
            })?;
            links.sort_by_key(|link: &Link| link.index);
            Ok(links)
        })
    }

    /// The number of the link with this name.
    pub fn link_index(&mut self, name: &str) -> Result<LinkIndex, NetlinkError> {
        check_name(name)?;
        let mut ask = Message::new(RTM_GETLINK, 0, &bytes::link_header(LinkIndex(0), 0));
        ask.put_text(IFLA_IFNAME, name);
        let mut found = None;
        let asked = self.socket.query("find a link by its name", ask, &mut |frame| {
            if frame.kind == RTM_NEWLINK {
                found = Some(bytes::read_link(frame)?.index);
            }
            Ok(())
        });
        let missing = || NetlinkError::Missing { kind: "link", name: name.to_owned() };
        match asked {
            Err(error) if error.errno() == Some(nix::errno::Errno::ENODEV) => Err(missing()),
            Err(error) => Err(error),
            Ok(()) => found.ok_or_else(missing),
        }
    }

    /// All addresses of both families, in order.
    pub fn addresses(&mut self) -> Result<Vec<LocalAddress>, NetlinkError> {
        let names: BTreeMap<LinkIndex, String> =
            self.links()?.into_iter().map(|link| (link.index, link.name)).collect();
        retry(|| {
            let mut addresses = Vec::new();
            for family in [Family::V4, Family::V6] {
                let ask = Message::new(RTM_GETADDR, 0, &[family.number(), 0, 0, 0, 0, 0, 0, 0]);
                self.socket.dump("list addresses", ask, &mut |frame| {
                    if frame.kind == RTM_NEWADDR
                        && let Some(mut address) = bytes::read_address(frame)?
                    {
                        address.interface = names.get(&address.link).cloned().unwrap_or_default();
                        addresses.push(address);
                    }
                    Ok(())
                })?;
            }
            addresses.sort();
            Ok(addresses)
        })
    }

    /// The addresses that the kernel delivers to this host, with their links. IPv6 addresses get here a moment after they were added:
    /// only then does the host answer to them.
    pub fn delivered(&mut self, family: Family) -> Result<BTreeSet<(LinkIndex, IpAddr)>, NetlinkError> {
        retry(|| {
            let mut delivered = BTreeSet::new();
            let ask = Message::new(RTM_GETROUTE, 0, &bytes::route_dump_header(family));
            self.socket.dump("list routes", ask, &mut |frame| {
                if frame.kind == RTM_NEWROUTE {
                    delivered.extend(bytes::read_local_route(frame)?);
                }
                Ok(())
            })?;
            Ok(delivered)
        })
    }

    /// Makes a pair of linked interfaces.
    pub fn create_veth(&mut self, veth: &Veth<'_>) -> Result<(), NetlinkError> {
        check_name(veth.name)?;
        check_name(veth.peer_name)?;
        self.socket.request("make a veth pair", veth_message(veth))
    }

    /// Makes a link that leads nowhere, to give addresses to. It is not switched on.
    pub fn create_dummy(&mut self, name: &str) -> Result<(), NetlinkError> {
        check_name(name)?;
        self.socket.request("make a dummy link", dummy_message(name))
    }

    /// Removes a link, and with it its peer.
    pub fn delete_link(&mut self, link: LinkIndex) -> Result<(), NetlinkError> {
        self.socket.request("remove a link", Message::new(RTM_DELLINK, 0, &bytes::link_header(link, 0)))
    }

    /// Switches a link on.
    pub fn set_up(&mut self, link: LinkIndex) -> Result<(), NetlinkError> {
        let message = Message::new(RTM_NEWLINK, 0, &bytes::link_header(link, bytes::IFF_UP));
        self.socket.request("switch a link on", message)
    }

    /// Gives a link an address, usable at once: IPv6 does not look for duplicates.
    pub fn add_address(&mut self, link: LinkIndex, address: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
        self.socket.request("add an address", address_message(link, address, prefix))
    }

    /// Takes an address from a link.
    pub fn remove_address(
        &mut self,
        link: LinkIndex,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), NetlinkError> {
        let mut message = Message::new(RTM_DELADDR, 0, &address_header(link, address, prefix));
        message.put_ip(IFA_LOCAL, address).put_ip(IFA_ADDRESS, address);
        self.socket.request("remove an address", message)
    }

    /// Adds a route to the main table, or replaces the one to the same network.
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        self.socket.request("add a route", route_message(route))
    }

    /// Drops what comes in through the interface `input` for this network, whatever the routes say.
    pub fn add_blackhole_rule(
        &mut self,
        input: &str,
        destination: IpAddr,
        prefix: u8,
    ) -> Result<(), NetlinkError> {
        const FR_ACT_BLACKHOLE: u8 = 6;
        check_name(input)?;
        let header = [family_of(destination), prefix, 0, 0, 0, 0, 0, FR_ACT_BLACKHOLE, 0, 0, 0, 0];
        let mut message = Message::new(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &header);
        message.put_ip(FRA_DST, destination).put_text(FRA_IIFNAME, input);
        self.socket.request("add a routing rule", message)
    }
}

fn veth_message(veth: &Veth<'_>) -> Message {
    let header = bytes::link_header(veth.index.unwrap_or(LinkIndex(0)), 0);
    let mut message = Message::new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &header);
    message.put_text(IFLA_IFNAME, veth.name).nest(IFLA_LINKINFO, |info| {
        info.put_text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |data| {
            data.nest(VETH_INFO_PEER, |peer| {
                peer.fixed(&bytes::link_header(LinkIndex(0), 0));
                peer.put_text(IFLA_IFNAME, veth.peer_name);
                peer.put_u32(IFLA_NET_NS_FD, veth.peer.as_raw_fd().unsigned_abs());
            });
        });
    });
    message
}

fn dummy_message(name: &str) -> Message {
    let header = bytes::link_header(LinkIndex(0), 0);
    let mut message = Message::new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &header);
    message.put_text(IFLA_IFNAME, name).nest(IFLA_LINKINFO, |info| {
        info.put_text(IFLA_INFO_KIND, "dummy");
    });
    message
}

/// `struct ifaddrmsg`.
fn address_header(link: LinkIndex, address: IpAddr, prefix: u8) -> [u8; 8] {
    let [i0, i1, i2, i3] = link.0.to_ne_bytes();
    [family_of(address), prefix, 0, 0, i0, i1, i2, i3]
}

fn address_message(link: LinkIndex, address: IpAddr, prefix: u8) -> Message {
    let header = address_header(link, address, prefix);
    let mut message = Message::new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &header);
    message.put_ip(IFA_LOCAL, address).put_ip(IFA_ADDRESS, address);
    if address.is_ipv6() {
        message.put_u32(IFA_FLAGS, IFA_F_NODAD);
    }
    message
}

fn route_message(route: &Route) -> Message {
    const RT_TABLE_MAIN: u8 = 254;
    const RTPROT_STATIC: u8 = 4;
    const RTN_UNICAST: u8 = 1;
    const RTN_BLACKHOLE: u8 = 6;
    const RTNH_F_ONLINK: u32 = 4;
    let (link, gateway, kind, flags) = match route.next_hop {
        NextHop::Direct(link) => (Some(link), None, RTN_UNICAST, 0),
        NextHop::Via(link, router) => (Some(link), Some(router), RTN_UNICAST, 0),
        NextHop::OnLink(link, router) => (Some(link), Some(router), RTN_UNICAST, RTNH_F_ONLINK),
        NextHop::Blackhole => (None, None, RTN_BLACKHOLE, 0),
    };
    // IPv6 knows no link scope for routes.
    let scope = match route.next_hop {
        NextHop::Direct(_) if route.destination.is_ipv4() => Scope::Link,
        _ => Scope::Universe,
    };
    let [f0, f1, f2, f3] = flags.to_ne_bytes();
    let family = family_of(route.destination);
    let header =
        [family, route.prefix, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope.number(), kind, f0, f1, f2, f3];
    let mut message = Message::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &header);
    if route.prefix > 0 {
        message.put_ip(RTA_DST, route.destination);
    }
    if let Some(link) = link {
        message.put_u32(RTA_OIF, link.0);
    }
    if let Some(router) = gateway {
        message.put_ip(RTA_GATEWAY, router);
    }
    message
}

fn check_name(name: &str) -> Result<(), NetlinkError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(NetlinkError::Unencodable { reason: "an interface name has 1 to 15 bytes" });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
