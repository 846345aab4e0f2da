//! The messages of IPVS as bytes and back. Numbers and names are those of `linux/ip_vs.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;

use super::types::{
    Command, Destination, Forwarding, Info, Listed, Persistence, Service, ServiceFlags, ServiceId, Timeouts,
};
use crate::attribute::{Attribute, Attributes};
use crate::message::{Frame, Message, family_of};
use crate::{Family, Malformed};

const NEW_SERVICE: u8 = 1;
const SET_SERVICE: u8 = 2;
const DEL_SERVICE: u8 = 3;
pub(super) const GET_SERVICE: u8 = 4;
const NEW_DEST: u8 = 5;
const SET_DEST: u8 = 6;
const DEL_DEST: u8 = 7;
pub(super) const GET_DEST: u8 = 8;
pub(super) const SET_CONFIG: u8 = 12;
pub(super) const GET_CONFIG: u8 = 13;
pub(super) const GET_INFO: u8 = 15;
pub(super) const FLUSH: u8 = 17;

const CMD_SERVICE: u16 = 1;
const CMD_DEST: u16 = 2;
const CMD_TIMEOUT_TCP: u16 = 4;
const CMD_TIMEOUT_TCP_FIN: u16 = 5;
const CMD_TIMEOUT_UDP: u16 = 6;

const SVC_AF: u16 = 1;
const SVC_PROTOCOL: u16 = 2;
const SVC_ADDR: u16 = 3;
const SVC_PORT: u16 = 4;
const SVC_FWMARK: u16 = 5;
const SVC_SCHED_NAME: u16 = 6;
const SVC_FLAGS: u16 = 7;
const SVC_TIMEOUT: u16 = 8;
const SVC_NETMASK: u16 = 9;

const DEST_ADDR: u16 = 1;
const DEST_PORT: u16 = 2;
const DEST_FWD_METHOD: u16 = 3;
const DEST_WEIGHT: u16 = 4;
const DEST_U_THRESH: u16 = 5;
const DEST_L_THRESH: u16 = 6;
const DEST_ACTIVE_CONNS: u16 = 7;
const DEST_INACT_CONNS: u16 = 8;
const DEST_ADDR_FAMILY: u16 = 11;

const INFO_VERSION: u16 = 1;
const INFO_CONN_TAB_SIZE: u16 = 2;

const FLAG_PERSISTENT: u32 = 1;
/// The kernel's own note; it comes back in lists.
const FLAG_HASHED: u32 = 2;
/// The part of a destination's flags that says how packets get there.
const FWD_MASK: u32 = 7;
const FWD_MASQUERADE: u32 = 0;

/// One change as a message.
pub(super) fn command(family: u16, command: &Command) -> Message {
    let start = |number| super::message(family, number);
    match command {
        Command::AddService(service) => with_service(start(NEW_SERVICE), service),
        Command::SetService(service) => with_service(start(SET_SERVICE), service),
        Command::DeleteService(id) => with_id(start(DEL_SERVICE), *id),
        Command::AddDestination(id, to) => with_destination(with_id(start(NEW_DEST), *id), to),
        Command::SetDestination(id, to) => with_destination(with_id(start(SET_DEST), *id), to),
        Command::DeleteDestination(id, at) => {
            let mut message = with_id(start(DEL_DEST), *id);
            message.nest(CMD_DEST, |dest| place(dest, *at));
            message
        }
    }
}

/// Says which virtual server is meant.
pub(super) fn put_id(message: &mut Message, id: ServiceId) {
    message.nest(CMD_SERVICE, |service| identity(service, id));
}

fn with_id(mut message: Message, id: ServiceId) -> Message {
    put_id(&mut message, id);
    message
}

fn identity(message: &mut Message, id: ServiceId) {
    message.put(SVC_AF, &u16::from(family_of(id.address)).to_ne_bytes());
    message.put(SVC_PROTOCOL, &u16::from(id.protocol).to_ne_bytes());
    message.put(SVC_ADDR, &sixteen(id.address)).put_be16(SVC_PORT, id.port);
}

fn with_service(mut message: Message, service: &Service) -> Message {
    let (persistent, seconds) = match service.persistence {
        Persistence::None => (0, 0),
        Persistence::Seconds(seconds) => (FLAG_PERSISTENT, seconds.get()),
    };
    let [f0, f1, f2, f3] = (service.flags.0 | persistent).to_ne_bytes();
    // All flags are set or cleared, whatever they were.
    let [m0, m1, m2, m3] = u32::MAX.to_ne_bytes();
    let mask = match service.id.address {
        IpAddr::V4(_) => u32::MAX,
        IpAddr::V6(_) => u32::from(Family::V6.bits()),
    };
    message.nest(CMD_SERVICE, |body| {
        identity(body, service.id);
        body.put_text(SVC_SCHED_NAME, &service.scheduler);
        body.put(SVC_FLAGS, &[f0, f1, f2, f3, m0, m1, m2, m3]);
        body.put_u32(SVC_TIMEOUT, seconds).put_u32(SVC_NETMASK, mask);
    });
    message
}

fn place(message: &mut Message, at: SocketAddr) {
    message.put(DEST_ADDR, &sixteen(at.ip())).put_be16(DEST_PORT, at.port());
    message.put(DEST_ADDR_FAMILY, &u16::from(family_of(at.ip())).to_ne_bytes());
}

fn with_destination(mut message: Message, to: &Destination) -> Message {
    let forwarding = match to.forwarding {
        Forwarding::Masquerade => FWD_MASQUERADE,
        Forwarding::Other(number) => number,
    };
    message.nest(CMD_DEST, |body| {
        place(body, to.at);
        body.put_u32(DEST_FWD_METHOD, forwarding).put_u32(DEST_WEIGHT, to.weight);
        body.put_u32(DEST_U_THRESH, 0).put_u32(DEST_L_THRESH, 0);
    });
    message
}

pub(super) fn put_timeouts(message: &mut Message, timeouts: Timeouts) {
    message.put_u32(CMD_TIMEOUT_TCP, timeouts.tcp);
    message.put_u32(CMD_TIMEOUT_TCP_FIN, timeouts.tcp_fin);
    message.put_u32(CMD_TIMEOUT_UDP, timeouts.udp);
}

/// `union nf_inet_addr`.
fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

pub(super) fn read_info(frame: &Frame<'_>) -> Result<Info, Malformed> {
    let (mut version, mut table_size) = (None, 0);
    for attribute in frame.split::<4>()?.1 {
        let attribute = attribute?;
        match attribute.kind {
            INFO_VERSION => version = Some(attribute.u32()?),
            INFO_CONN_TAB_SIZE => table_size = attribute.u32()?,
            _ => {}
        }
    }
    let [_, major, minor, patch] =
        version.ok_or(Malformed::Absent { part: "version of IPVS" })?.to_be_bytes();
    Ok(Info { version: (major, minor, patch), table_size })
}

pub(super) fn read_timeouts(frame: &Frame<'_>) -> Result<Timeouts, Malformed> {
    let mut timeouts = Timeouts::default();
    for attribute in frame.split::<4>()?.1 {
        let attribute = attribute?;
        match attribute.kind {
            CMD_TIMEOUT_TCP => timeouts.tcp = attribute.u32()?,
            CMD_TIMEOUT_TCP_FIN => timeouts.tcp_fin = attribute.u32()?,
            CMD_TIMEOUT_UDP => timeouts.udp = attribute.u32()?,
            _ => {}
        }
    }
    Ok(timeouts)
}

/// None for a virtual server that has a mark instead of an address.
pub(super) fn read_service(frame: &Frame<'_>) -> Result<Option<Service>, Malformed> {
    let Some(body) = nested(frame, CMD_SERVICE)? else { return Ok(None) };
    let (mut family, mut protocol, mut address, mut port) = (None, None, None, None);
    let (mut scheduler, mut flags, mut seconds) = (String::new(), 0, 0);
    for attribute in body {
        let attribute = attribute?;
        match attribute.kind {
            SVC_AF => family = Some(number(&attribute)?),
            SVC_PROTOCOL => protocol = u8::try_from(number(&attribute)?).ok(),
            SVC_ADDR => address = Some(attribute),
            SVC_PORT => port = Some(attribute.be16()?),
            SVC_FWMARK => return Ok(None),
            SVC_SCHED_NAME => scheduler = attribute.text(),
            SVC_FLAGS => flags = first_u32(&attribute)?,
            SVC_TIMEOUT => seconds = attribute.u32()?,
            _ => {}
        }
    }
    let identity = (|| {
        let address = ip(family?, address?.value)?;
        Some(ServiceId { address, protocol: protocol?, port: port? })
    })();
    let persistence = match NonZeroU32::new(seconds) {
        Some(seconds) if flags & FLAG_PERSISTENT != 0 => Persistence::Seconds(seconds),
        _ => Persistence::None,
    };
    let id = identity.ok_or(Malformed::Absent { part: "identity of a virtual server" })?;
    let flags = ServiceFlags(flags & !(FLAG_PERSISTENT | FLAG_HASHED));
    Ok(Some(Service { id, scheduler, flags, persistence }))
}

/// None for a message that has no destination.
pub(super) fn read_destination(frame: &Frame<'_>, of: ServiceId) -> Result<Option<Listed>, Malformed> {
    let Some(body) = nested(frame, CMD_DEST)? else { return Ok(None) };
    // Kernels before 3.18 do not say: there it is that of the virtual server.
    let mut family = u16::from(family_of(of.address));
    let (mut address, mut port, mut method, mut weight) = (None, None, FWD_MASQUERADE, 0);
    let (mut active, mut inactive) = (0, 0);
    for attribute in body {
        let attribute = attribute?;
        match attribute.kind {
            DEST_ADDR => address = Some(attribute),
            DEST_PORT => port = Some(attribute.be16()?),
            DEST_FWD_METHOD => method = attribute.u32()? & FWD_MASK,
            DEST_WEIGHT => weight = attribute.u32()?,
            DEST_ACTIVE_CONNS => active = attribute.u32()?,
            DEST_INACT_CONNS => inactive = attribute.u32()?,
            DEST_ADDR_FAMILY => family = number(&attribute)?,
            _ => {}
        }
    }
    let at = address.and_then(|address| ip(family, address.value)).zip(port);
    let (ip, port) = at.ok_or(Malformed::Absent { part: "address of a destination" })?;
    let forwarding = match method {
        FWD_MASQUERADE => Forwarding::Masquerade,
        other => Forwarding::Other(other),
    };
    let destination = Destination { at: SocketAddr::new(ip, port), weight, forwarding };
    Ok(Some(Listed { destination, active, inactive }))
}

fn nested<'a>(frame: &Frame<'a>, kind: u16) -> Result<Option<Attributes<'a>>, Malformed> {
    for attribute in frame.split::<4>()?.1 {
        let attribute = attribute?;
        if attribute.kind == kind {
            return Ok(Some(attribute.nested()));
        }
    }
    Ok(None)
}

fn number(attribute: &Attribute<'_>) -> Result<u16, Malformed> {
    let found = attribute.value.len();
    let bytes = attribute.value.try_into();
    bytes.map(u16::from_ne_bytes).map_err(|_| Malformed::ValueLength {
        kind: attribute.kind,
        found,
        wanted: 2,
    })
}

/// The first half of `struct ip_vs_flags`.
fn first_u32(attribute: &Attribute<'_>) -> Result<u32, Malformed> {
    let found = attribute.value.len();
    let first = attribute.value.first_chunk::<4>().copied();
    first.map(u32::from_ne_bytes).ok_or(Malformed::ValueLength { kind: attribute.kind, found, wanted: 8 })
}

/// An address of `union nf_inet_addr`, which is always sixteen bytes long.
fn ip(family: u16, bytes: &[u8]) -> Option<IpAddr> {
    match u8::try_from(family).ok().and_then(Family::from_number)? {
        Family::V4 => bytes.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into()),
        Family::V6 => bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into()),
    }
}
