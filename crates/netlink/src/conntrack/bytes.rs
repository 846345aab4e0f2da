//! Conntrack attributes: the kernel's dump filter, the identity of a flow, and reading flows.
//!
//! Attribute numbers are those of `linux/netfilter/nfnetlink_conntrack.h`; the bits of the dump filter are not in any public header:
//! they are the kernel's own `CTA_FILTER_F_*` (net/netfilter/nf_internals.h, since 5.8).

use std::net::IpAddr;

use crate::attribute::Attributes;
use crate::message::{Frame, Message};
use crate::{Malformed, NetlinkError};

use super::{Filter, Flow, Tuple, Zone, family_of_header};

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;
const CTA_FILTER: u16 = 25;

const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_TUPLE_ZONE: u16 = 3;

const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;

const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;

const CTA_FILTER_F_CTA_IP_DST: u32 = 1 << 1;
const CTA_FILTER_F_CTA_PROTO_NUM: u32 = 1 << 3;
const CTA_FILTER_F_CTA_PROTO_DST_PORT: u32 = 1 << 5;

/// Tells the kernel as much of the filter as it can use: a port only together with its protocol, an address only for IPv4.
pub(super) fn put_filter(message: &mut Message, filter: &Filter) {
    // From 5.8 up to 6.18 at least, the kernel's comparison of IPv6 addresses is the wrong way round: it leaves out exactly the flows
    // that were asked for. Protocol and port are compared rightly.
    let address = filter.orig_dst.filter(|address| address.is_ipv4() && filter.family == crate::Family::V4);
    let port = filter.orig_dst_port.filter(|_| filter.protocol.is_some());
    let flags = address.map_or(0, |_| CTA_FILTER_F_CTA_IP_DST)
        | filter.protocol.map_or(0, |_| CTA_FILTER_F_CTA_PROTO_NUM)
        | port.map_or(0, |_| CTA_FILTER_F_CTA_PROTO_DST_PORT);
    if flags == 0 {
        return;
    }
    message.nest(CTA_TUPLE_ORIG, |tuple| {
        if let Some(address) = address {
            tuple.nest(CTA_TUPLE_IP, |ip| {
                ip.put_ip(dst_kind(address), address);
            });
        }
        if let Some(protocol) = filter.protocol {
            tuple.nest(CTA_TUPLE_PROTO, |proto| {
                proto.put(CTA_PROTO_NUM, &[protocol]);
                if let Some(port) = port {
                    proto.put_be16(CTA_PROTO_DST_PORT, port);
                }
            });
        }
    });
    message.nest(CTA_FILTER, |kernel| {
        kernel.put_u32(CTA_FILTER_ORIG_FLAGS, flags).put_u32(CTA_FILTER_REPLY_FLAGS, 0);
    });
}

/// Everything that tells this flow from any other, later ones included.
pub(super) fn put_identity(message: &mut Message, flow: &Flow) {
    message.nest(CTA_TUPLE_ORIG, |tuple| {
        tuple.nest(CTA_TUPLE_IP, |ip| {
            ip.put_ip(src_kind(flow.orig.src), flow.orig.src).put_ip(dst_kind(flow.orig.dst), flow.orig.dst);
        });
        tuple.nest(CTA_TUPLE_PROTO, |proto| {
            proto
                .put(CTA_PROTO_NUM, &[flow.protocol])
                .put_be16(CTA_PROTO_SRC_PORT, flow.orig.src_port)
                .put_be16(CTA_PROTO_DST_PORT, flow.orig.dst_port);
        });
        if let Zone::Original(zone) = flow.zone {
            tuple.put_be16(CTA_TUPLE_ZONE, zone);
        }
    });
    match flow.zone {
        Zone::Both(zone) if zone != 0 => {
            message.put_be16(CTA_ZONE, zone);
        }
        // A zone of the reply direction does not take part in finding the original tuple.
        Zone::Both(_) | Zone::Original(_) | Zone::Reply(_) => {}
    }
    if let Some(id) = flow.id {
        message.put_be32(CTA_ID, id);
    }
}

/// None for a flow that is neither IPv4 nor IPv6.
pub(super) fn read_flow(frame: &Frame<'_>) -> Result<Option<Flow>, NetlinkError> {
    let (fixed, attributes) = frame.split::<4>()?;
    let Some(family) = family_of_header(fixed) else { return Ok(None) };
    let (mut orig, mut reply, mut zone, mut id) = (None, None, None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            CTA_TUPLE_ORIG => orig = Some(read_tuple(attribute.nested())?),
            CTA_TUPLE_REPLY => reply = Some(read_tuple(attribute.nested())?),
            CTA_ZONE => zone = Some(attribute.be16()?),
            CTA_ID => id = Some(attribute.be32()?),
            _ => {}
        }
    }
    let orig = orig.ok_or(Malformed::Absent { part: "original tuple" })?;
    let reply = reply.ok_or(Malformed::Absent { part: "reply tuple" })?;
    let zone = match (zone, orig.zone, reply.zone) {
        (Some(both), ..) => Zone::Both(both),
        (None, Some(original), _) => Zone::Original(original),
        (None, None, Some(answer)) => Zone::Reply(answer),
        (None, None, None) => Zone::Both(0),
    };
    Ok(Some(Flow { family, protocol: orig.protocol, orig: orig.tuple, reply: reply.tuple, zone, id }))
}

struct Direction {
    tuple: Tuple,
    protocol: u8,
    zone: Option<u16>,
}

fn read_tuple(attributes: Attributes<'_>) -> Result<Direction, Malformed> {
    let (mut src, mut dst, mut protocol, mut zone) = (None, None, None, None);
    let (mut src_port, mut dst_port) = (0, 0);
    for outer in attributes {
        let outer = outer?;
        if outer.kind == CTA_TUPLE_ZONE {
            zone = Some(outer.be16()?);
            continue;
        }
        for inner in outer.nested() {
            let inner = inner?;
            match (outer.kind, inner.kind) {
                (CTA_TUPLE_IP, CTA_IP_V4_SRC | CTA_IP_V6_SRC) => src = Some(inner.ip()?),
                (CTA_TUPLE_IP, CTA_IP_V4_DST | CTA_IP_V6_DST) => dst = Some(inner.ip()?),
                (CTA_TUPLE_PROTO, CTA_PROTO_NUM) => protocol = Some(inner.u8()?),
                (CTA_TUPLE_PROTO, CTA_PROTO_SRC_PORT) => src_port = inner.be16()?,
                (CTA_TUPLE_PROTO, CTA_PROTO_DST_PORT) => dst_port = inner.be16()?,
                _ => {}
            }
        }
    }
    let src = src.ok_or(Malformed::Absent { part: "source address" })?;
    let dst = dst.ok_or(Malformed::Absent { part: "destination address" })?;
    let protocol = protocol.ok_or(Malformed::Absent { part: "transport protocol" })?;
    Ok(Direction { tuple: Tuple { src, dst, src_port, dst_port }, protocol, zone })
}

fn src_kind(address: IpAddr) -> u16 {
    if address.is_ipv4() { CTA_IP_V4_SRC } else { CTA_IP_V6_SRC }
}

fn dst_kind(address: IpAddr) -> u16 {
    if address.is_ipv4() { CTA_IP_V4_DST } else { CTA_IP_V6_DST }
}
