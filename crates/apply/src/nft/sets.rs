//! The shared sets and maps: their types, their elements as bytes and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use switchyard_model::{Family, Protocol};
use switchyard_netlink::nftables::{
    Comment, Element, ElementData, Extent, Fields, Selector, Set as KernelSet, SetData, SetFlags, Value,
    Verdict as KernelVerdict,
};
use switchyard_plan::nft::element::{Data, Key, Place};
use switchyard_plan::nft::names::Set;
use switchyard_plan::nft::rule::Verdict;
use switchyard_plan::nft::sticky::ClientSet;

/// Slots are numbered below this.
const SLOTS: u32 = 1 << 16;
/// Sticky clients of one endpoint; beyond this the kernel stops remembering new ones.
const MAX_CLIENTS: u32 = 1 << 16;

pub(super) fn source(family: Family) -> Selector {
    match family {
        Family::V4 => Selector::Ipv4Source,
        Family::V6 => Selector::Ipv6Source,
    }
}

pub(super) fn destination(family: Family) -> Selector {
    match family {
        Family::V4 => Selector::Ipv4Destination,
        Family::V6 => Selector::Ipv6Destination,
    }
}

/// How a shared set is declared.
pub(super) fn declare(set: Set, family: Family, size: Option<u32>) -> KernelSet {
    let (proto, port, slot) =
        (Selector::Protocol, Selector::DestinationPort, Selector::Random { modulus: SLOTS });
    let (from, to) = (source(family), destination(family));
    let endpoint = SetData::Value(Fields::Typeof(vec![to, port]));
    let (key, data) = match set {
        Set::ClusterIps | Set::NodePortIps | Set::VirtualIps => (vec![to], SetData::None),
        Set::Frontends | Set::Refusals => (vec![to, proto, port], SetData::Verdict),
        Set::NodePorts | Set::NodePortRefusals => (vec![proto, port], SetData::Verdict),
        Set::HealthPorts => (vec![proto, port], SetData::None),
        Set::Slots => (vec![to, proto, port, slot], endpoint),
        Set::NodePortSlots => (vec![proto, port, slot], endpoint),
        Set::Restricted => (vec![to, proto, port], SetData::None),
        Set::AllowedSources => (vec![to, proto, port, from], SetData::None),
        Set::Hairpins => (vec![from, to, proto, port], SetData::None),
    };
    let flags = if set == Set::AllowedSources { SetFlags::INTERVAL } else { SetFlags::NONE };
    KernelSet {
        flags,
        size,
        comment: Comment::new(describe(set)),
        ..KernelSet::new(set.as_str(), Fields::Typeof(key), data)
    }
}

/// A line for people who list the table.
fn describe(set: Set) -> &'static str {
    match set {
        Set::ClusterIps => "active cluster IPs",
        Set::Frontends => "cluster, external and load-balancer IPs",
        Set::NodePorts => "node ports",
        Set::Slots => "endpoints of each frontend",
        Set::NodePortSlots => "endpoints of each node port",
        Set::Refusals => "frontends that nobody here can answer",
        Set::NodePortRefusals => "node ports that nobody here can answer",
        Set::Restricted => "load-balancer IPs with source ranges",
        Set::AllowedSources => "who may use them",
        Set::Hairpins => "local endpoints that may be their own client",
        Set::NodePortIps => "addresses on which node ports answer",
        Set::VirtualIps => "addresses of the link kube-ipvs0",
        Set::HealthPorts => "health-check node ports",
    }
}

/// How a set of sticky clients is declared.
pub(super) fn declare_clients(set: &ClientSet, family: Family) -> KernelSet {
    KernelSet {
        flags: SetFlags::DYNAMIC | SetFlags::TIMEOUT,
        timeout: Some(Duration::from_secs(u64::from(set.seconds))),
        size: Some(MAX_CLIENTS),
        ..KernelSet::new(&set.name, Fields::Typeof(vec![source(family)]), SetData::None)
    }
}

/// An element for the kernel.
pub(super) fn encode(place: &Place, data: &Data) -> Element {
    let (key, extent) = encode_key(&place.key);
    let data = match data {
        Data::None => ElementData::None,
        Data::Verdict(verdict) => ElementData::Verdict(encode_verdict(verdict)),
        Data::Endpoint(to) => ElementData::Value(Value::EMPTY.address(to.ip()).port(to.port())),
    };
    Element { key, extent, data, comment: None, timeout: None }
}

pub(super) fn encode_verdict(verdict: &Verdict) -> KernelVerdict {
    match verdict {
        Verdict::Goto(chain) => KernelVerdict::Goto(chain.as_str().into()),
        Verdict::Jump(chain) => KernelVerdict::Jump(chain.as_str().into()),
        Verdict::Drop => KernelVerdict::Drop,
        Verdict::Return => KernelVerdict::Return,
    }
}

fn encode_key(key: &Key) -> (Value, Extent) {
    let start = Value::EMPTY;
    let frontend = |ip: &IpAddr, protocol: &Protocol, port: &u16| {
        start.address(*ip).protocol(protocol.number()).port(*port)
    };
    let value = match key {
        Key::Address(ip) => start.address(*ip),
        Key::Frontend(ip, protocol, port) => frontend(ip, protocol, port),
        Key::NodePort(protocol, port) => start.protocol(protocol.number()).port(*port),
        Key::Slot(ip, protocol, port, slot) => frontend(ip, protocol, port).number(u32::from(*slot)),
        Key::NodePortSlot(protocol, port, slot) => {
            start.protocol(protocol.number()).port(*port).number(u32::from(*slot))
        }
        Key::Hairpin(ip, protocol, port) => {
            start.address(*ip).address(*ip).protocol(protocol.number()).port(*port)
        }
        Key::Source(ip, protocol, port, range) => {
            let first = frontend(ip, protocol, port).address(range.network());
            let last = frontend(ip, protocol, port).address(range.broadcast());
            return (first, Extent::Through(last));
        }
    };
    (value, Extent::Key)
}

/// An element in the planner's words; `None` if we would never have written it.
pub(super) fn decode(set: Set, family: Family, element: &Element) -> Option<(Place, Data)> {
    let mut bytes = Reader { family, rest: element.key.as_bytes() };
    let key = match set {
        Set::ClusterIps | Set::NodePortIps | Set::VirtualIps => Key::Address(bytes.address()?),
        Set::Frontends | Set::Refusals | Set::Restricted => {
            Key::Frontend(bytes.address()?, bytes.protocol()?, bytes.port()?)
        }
        Set::NodePorts | Set::NodePortRefusals | Set::HealthPorts => {
            Key::NodePort(bytes.protocol()?, bytes.port()?)
        }
        Set::Slots => Key::Slot(bytes.address()?, bytes.protocol()?, bytes.port()?, bytes.slot()?),
        Set::NodePortSlots => Key::NodePortSlot(bytes.protocol()?, bytes.port()?, bytes.slot()?),
        Set::Hairpins => {
            let (first, second) = (bytes.address()?, bytes.address()?);
            if first != second {
                return None;
            }
            Key::Hairpin(first, bytes.protocol()?, bytes.port()?)
        }
        Set::AllowedSources => {
            let (ip, protocol, port, first) =
                (bytes.address()?, bytes.protocol()?, bytes.port()?, bytes.address()?);
            Key::Source(ip, protocol, port, range(family, first, element)?)
        }
    };
    let place = Place { set, key };
    let data = decode_data(family, element)?;
    // Whatever does not come out the same again was not written by us.
    let again = encode(&place, &data);
    (again.key == element.key && again.extent == element.extent).then_some((place, data))
}

fn decode_data(family: Family, element: &Element) -> Option<Data> {
    match &element.data {
        ElementData::None => Some(Data::None),
        ElementData::Verdict(KernelVerdict::Goto(chain)) => {
            Some(Data::Verdict(Verdict::Goto(chain.to_string())))
        }
        ElementData::Verdict(KernelVerdict::Drop) => Some(Data::Verdict(Verdict::Drop)),
        ElementData::Verdict(KernelVerdict::Return) => Some(Data::Verdict(Verdict::Return)),
        ElementData::Value(value) => {
            let mut bytes = Reader { family, rest: value.as_bytes() };
            Some(Data::Endpoint(SocketAddr::new(bytes.address()?, bytes.port()?)))
        }
        _ => None,
    }
}

/// The range from an address through the last one of the element's extent, if it is one with a prefix.
fn range(family: Family, first: IpAddr, element: &Element) -> Option<IpNet> {
    let Extent::Through(end) = element.extent else { return None };
    let mut bytes = Reader { family, rest: end.as_bytes() };
    bytes.address()?;
    bytes.protocol()?;
    bytes.port()?;
    let last = bytes.address()?;
    (0..=family.host_prefix())
        .filter_map(|prefix| IpNet::new(first, prefix).ok())
        .find(|net| net.network() == first && net.broadcast() == last)
}

/// Takes the parts of a key off, each padded to four bytes unless it is the only one.
struct Reader<'a> {
    family: Family,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn part<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, _) = self.rest.split_first_chunk::<N>()?;
        let part = *part;
        self.rest = self.rest.get(N.next_multiple_of(4)..).unwrap_or_default();
        Some(part)
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.family {
            Family::V4 => self.part::<4>().map(|octets| Ipv4Addr::from(octets).into()),
            Family::V6 => self.part::<16>().map(|octets| Ipv6Addr::from(octets).into()),
        }
    }

    fn protocol(&mut self) -> Option<Protocol> {
        let [number] = self.part::<1>()?;
        [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|p| p.number() == number)
    }

    fn port(&mut self) -> Option<u16> {
        self.part::<2>().map(u16::from_be_bytes)
    }

    fn slot(&mut self) -> Option<u16> {
        self.part::<4>().and_then(|bytes| u16::try_from(u32::from_ne_bytes(bytes)).ok())
    }
}
