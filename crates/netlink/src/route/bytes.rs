//! The fixed headers of link and address messages, and reading them.

use crate::attribute::Attributes;
use crate::message::Frame;
use crate::{Family, Malformed};

use super::{IFA_ADDRESS, IFA_LOCAL, IFLA_IFNAME, Link, LinkIndex, LocalAddress, RTA_DST, RTA_OIF, Scope};

/// The flag of a link that is switched on.
pub(super) const IFF_UP: u32 = 1;

const IFF_RUNNING: u32 = 0x40;

/// `struct ifinfomsg`: number of the link, and flags to switch on.
pub(super) fn link_header(link: LinkIndex, flags: u32) -> [u8; 16] {
    let [i0, i1, i2, i3] = link.0.to_ne_bytes();
    let [f0, f1, f2, f3] = flags.to_ne_bytes();
    [0, 0, 0, 0, i0, i1, i2, i3, f0, f1, f2, f3, f0, f1, f2, f3]
}

pub(super) fn read_link(frame: &Frame<'_>) -> Result<Link, Malformed> {
    let (header, attributes) = frame.split::<16>()?;
    let [_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = header;
    let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
    let mut name = None;
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == IFLA_IFNAME {
            name = Some(attribute.text());
        }
    }
    Ok(Link {
        index: LinkIndex(u32::from_ne_bytes([i0, i1, i2, i3])),
        name: name.ok_or(Malformed::Absent { part: "link name" })?,
        is_up: flags & IFF_UP != 0,
        is_running: flags & IFF_RUNNING != 0,
    })
}

/// None for an address that is not an IP address.
pub(super) fn read_address(frame: &Frame<'_>) -> Result<Option<LocalAddress>, Malformed> {
    let (header, attributes) = frame.split::<8>()?;
    let [family, prefix, _, scope, i0, i1, i2, i3] = header;
    if Family::from_number(family).is_none() {
        return Ok(None);
    }
    // On a point-to-point link IFA_ADDRESS is the far end and IFA_LOCAL is ours; IPv6 often has IFA_ADDRESS alone.
    let address = match value_of(attributes.clone(), IFA_LOCAL)? {
        Some(local) => Some(local),
        None => value_of(attributes, IFA_ADDRESS)?,
    };
    Ok(Some(LocalAddress {
        address: address.ok_or(Malformed::Absent { part: "address" })?,
        prefix,
        link: LinkIndex(u32::from_ne_bytes([i0, i1, i2, i3])),
        interface: String::new(),
        scope: Scope::from_number(scope),
    }))
}

/// `struct rtmsg` that asks for every route of a family.
pub(super) fn route_dump_header(family: Family) -> [u8; 12] {
    [family.number(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// None for a route that does not lead to one address of this host.
pub(super) fn read_local_route(
    frame: &Frame<'_>,
) -> Result<Option<(LinkIndex, std::net::IpAddr)>, Malformed> {
    const RTN_LOCAL: u8 = 2;
    let (header, attributes) = frame.split::<12>()?;
    let [family, prefix, _, _, _, _, _, kind, ..] = header;
    if kind != RTN_LOCAL || Family::from_number(family).is_none_or(|family| family.bits() != prefix) {
        return Ok(None);
    }
    let (mut link, mut address) = (None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            RTA_DST => address = Some(attribute.ip()?),
            RTA_OIF => link = Some(LinkIndex(attribute.u32()?)),
            _ => {}
        }
    }
    Ok(link.zip(address))
}

fn value_of(attributes: Attributes<'_>, kind: u16) -> Result<Option<std::net::IpAddr>, Malformed> {
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == kind {
            return attribute.ip().map(Some);
        }
    }
    Ok(None)
}
