//! Where listeners are that rules lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use switchyard_model::Family;
use switchyard_netlink::route::Routes;
use switchyard_plan::settings::Settings;

/// The node's own address if this host has it, else the first that other hosts can reach, else loopback: then only this host
/// is served.
pub fn listen_address(settings: &Settings) -> IpAddr {
    let own = Some(settings.node_ip).filter(|ip| is_reachable(*ip) && is_here(*ip));
    own.or_else(|| first_reachable(settings.family)).unwrap_or(match settings.family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    })
}

fn is_reachable(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !ip.is_unspecified() && !is_link_local
}

fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

fn first_reachable(family: Family) -> Option<IpAddr> {
    let all = Routes::open().and_then(|mut routes| routes.addresses()).ok()?;
    let own = all.into_iter().map(|local| local.address).filter(|ip| Family::of(*ip) == family);
    own.into_iter().find(|ip| is_reachable(*ip) && is_here(*ip))
}
