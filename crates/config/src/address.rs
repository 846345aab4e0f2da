//! Addresses, ranges and `host:port` as Go's libraries read them.
//!
//! In: text. Out: values of the standard library, or nothing. Parts of an IPv4 address may have leading zeros, which
//! count as decimal: Kubernetes has accepted them for ever, and so must we.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// An address. IPv4 in IPv6's clothes is IPv4, as in Go.
pub fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical());
    }
    ipv4(text).map(IpAddr::V4)
}

/// A range with its host bits cleared.
pub fn cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let address = match address.contains(':') {
        true => IpAddr::V6(address.parse().ok()?),
        false => IpAddr::V4(ipv4(address)?),
    };
    let length = decimal(length).and_then(|length| u8::try_from(length).ok())?;
    IpNet::new(address, length).ok().map(|range| range.trunc())
}

/// Splits `host:port` or `[host]:port`. The parts are not looked at.
pub fn host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let is_clean = |part: &str| !part.contains(['[', ']']);
    (is_clean(host) && is_clean(port)).then_some((host, port))
}

/// The text, with the port behind it if it is a bare address. What is neither is left as it is, for the checks.
pub fn with_port(text: &str, port: i32) -> String {
    match (host_port(text), ip(text)) {
        (None, Some(_)) if text.contains(':') => format!("[{text}]:{port}"),
        (None, Some(_)) => format!("{text}:{port}"),
        _ => text.to_owned(),
    }
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(decimal(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// Digits only: no sign, no blank.
fn decimal(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_plain.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_does() {
        for (text, want) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.0.0.1", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("fd00::1", Some("fd00::1")),
            ("::", Some("::")),
            ("", None),
            ("10.0.0", None),
            ("10.0.0.256", None),
            ("10.0.0.1.", None),
            ("+1.0.0.1", None),
            (" 10.0.0.1", None),
            ("fe80::1%eth0", None),
            ("[::1]", None),
            ("node-1", None),
        ] {
            assert_eq!(ip(text), want.map(|w| w.parse().unwrap()), "{text:?}");
        }
    }

    #[test]
    fn ranges_are_read_as_go_does() {
        for (text, want) in [
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("010.0.0.0/08", Some("10.0.0.0/8")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("fd00::1/8", Some("fd00::/8")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0", None),
            ("fd00::/129", None),
            (" fd00::/8", None),
            ("10.0.0.0/8/8", None),
            ("10.0.0.0/4294967304", None),
        ] {
            assert_eq!(cidr(text), want.map(|w| w.parse().unwrap()), "{text:?}");
        }
    }

    #[test]
    fn hosts_and_ports_are_split_as_go_does() {
        for (text, want) in [
            ("a:1", Some(("a", "1"))),
            (":1", Some(("", "1"))),
            ("[::1]:1", Some(("::1", "1"))),
            ("[::1]", None),
            ("::1", None),
            ("a", None),
            ("", None),
            ("a[:1", None),
            ("[a]b:1", None),
        ] {
            assert_eq!(host_port(text), want, "{text:?}");
        }
        assert_eq!(with_port("1.2.3.4", 7), "1.2.3.4:7");
        assert_eq!(with_port("::", 7), "[::]:7");
        assert_eq!(with_port("1.2.3.4:5", 7), "1.2.3.4:5");
        assert_eq!(with_port("node", 7), "node");
    }
}
