//! From the text of one flag to its value. An error says what is allowed; the caller names flag and text.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use switchyard_model::Family;

use super::{LocalMode, NodePortRanges};
use crate::duration;

/// Longest name of an interface in Linux.
const LONGEST_INTERFACE: usize = 15;

/// Ranges split at commas, with at most one per family. Empty text is no range.
pub(super) fn cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    let mut ranges = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        ranges.push(cidr(part)?);
    }
    for family in Family::ALL {
        if ranges.iter().filter(|range| is_of(family, range)).count() > 1 {
            return Err(format!("has more than one {family} range; at most one per IP family is allowed"));
        }
    }
    Ok(ranges)
}

/// One range, without its host bits.
fn cidr(text: &str) -> Result<IpNet, String> {
    match text.trim().parse::<IpNet>() {
        Ok(range) => Ok(range.trunc()),
        Err(_) => Err(format!("\"{}\" must be a CIDR such as 10.0.0.0/8 or fd00::/8", text.escape_debug())),
    }
}

/// True if a range is of a family.
fn is_of(family: Family, range: &IpNet) -> bool {
    Family::of(range.addr()) == family
}

/// CIDRs, or the one word `primary`.
pub(super) fn node_port_ranges(parts: &[String]) -> Result<NodePortRanges, String> {
    let parts: Vec<&str> = match parts {
        [one] if one.is_empty() => Vec::new(),
        _ => parts.iter().map(|part| part.trim()).collect(),
    };
    if parts.is_empty() {
        return Ok(NodePortRanges::All);
    }
    if parts.contains(&"primary") {
        return match parts.as_slice() {
            [_] => Ok(NodePortRanges::Primary),
            _ => Err("must be either `primary` alone or CIDRs, not both".to_owned()),
        };
    }
    let ranges: Result<Vec<_>, _> = parts.into_iter().map(cidr).collect();
    ranges.map(NodePortRanges::Cidrs).map_err(|error| format!("{error}, or the one word primary"))
}

/// An address of the node; empty and unspecified ones mean none.
pub(super) fn bind_address(text: &str) -> Result<Option<IpAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: IpAddr =
        text.parse().map_err(|_| "must be an IP address such as 192.0.2.1 or ::".to_owned())?;
    Ok(Some(address.to_canonical()).filter(|address| !address.is_unspecified()))
}

/// An address with a port; the port may come from elsewhere.
pub(super) fn listen_address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = match bare.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, port)),
        Err(_) => text.parse::<SocketAddr>(),
    };
    address
        .ok()
        .filter(|address| address.port() != 0)
        .ok_or_else(|| "must be ip or ip:port with a port from 1 to 65535, such as 0.0.0.0:10256".to_owned())
}

/// A number in a range.
pub(super) fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("must be a number from {least} to {most}"))
}

/// A duration of at least zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// The two intervals between writes, against each other.
pub(super) fn periods(sync: Duration, min: Duration) -> Result<(), String> {
    if sync.is_zero() {
        return Err("must be greater than 0".to_owned());
    }
    if min > sync {
        let min = duration::print(min);
        return Err(format!("must not be less than --iptables-min-sync-period, which is {min}"));
    }
    Ok(())
}

/// The bridge that pods are attached to.
pub(super) fn bridge(name: &str) -> Result<LocalMode, String> {
    interface(name, LONGEST_INTERFACE)
        .map(LocalMode::Bridge)
        .map_err(|e| format!("{e}; --detect-local-mode=BridgeInterface needs it"))
}

/// How pod interfaces begin. iptables writes `+` behind it, which takes one byte of the name.
pub(super) fn interface_prefix(name: &str) -> Result<LocalMode, String> {
    interface(name, LONGEST_INTERFACE - 1)
        .map(LocalMode::InterfacePrefix)
        .map_err(|e| format!("{e}; --detect-local-mode=InterfaceNamePrefix needs it"))
}

/// A name that the kernel would accept and that is one plain word in a rule: no quotes, no negation, no option.
fn interface(name: &str, longest: usize) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '"' | '\'' | '\\' | '+');
    if name.is_empty() {
        return Err("must not be empty".to_owned());
    }
    if name.len() > longest || !name.chars().all(is_plain) || name.starts_with(['-', '!', '#']) {
        return Err(format!("must be an interface name of at most {longest} characters, such as cni0"));
    }
    Ok(name.to_owned())
}
