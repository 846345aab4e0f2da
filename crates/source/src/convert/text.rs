//! Names, addresses and times as text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use jiff::Timestamp;

/// Longest piece of foreign text that a complaint quotes, in characters.
const MAX_QUOTED: usize = 200;

/// The text, cut to a length that is safe to log and to keep.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// RFC 1123 label: namespaces, Services (whose RFC 1035 names are a subset) and port names.
pub(crate) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

/// RFC 1123 subdomain: EndpointSlices and nodes.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|&b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A non-empty label value, or the name of a label without its prefix.
pub(crate) fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// An address as kube-proxy reads it: IPv4 with leading zeros is decimal, IPv4 mapped into IPv6 is IPv4.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let address: Ipv6Addr = text.parse().ok()?;
        return Some(IpAddr::V6(address).to_canonical());
    }
    ipv4(text).map(IpAddr::V4)
}

/// Goes through the text once: a list has a hundred thousand addresses.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let (mut octets, mut n, mut octet) = ([0; 4], 0, None);
    for byte in text.bytes() {
        if byte == b'.' {
            *octets.get_mut(n)? = octet.take()?;
            n += 1;
        } else {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
            octet = Some(octet.unwrap_or(0_u8).checked_mul(10)?.checked_add(digit)?);
        }
    }
    *octets.get_mut(n)? = octet?;
    (n == 3).then(|| octets.into())
}

/// A range as kube-proxy reads it: lenient as [`address`], host bits cleared.
pub(super) fn network(text: &str) -> Option<IpNet> {
    let (base, prefix) = text.split_once('/')?;
    // `u8::from_str` would accept a sign.
    let is_number = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix = is_number.then(|| prefix.parse().ok())??;
    let net = if base.contains(':') {
        IpNet::new(base.parse::<Ipv6Addr>().ok()?.into(), prefix)
    } else {
        IpNet::new(address(base)?, prefix)
    };
    Some(net.ok()?.trunc())
}

/// An RFC 3339 time, with or without fractions of a second.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_leniently_but_not_blindly() {
        for (text, want) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.08", Some("10.0.0.8")),
            ("::1", Some("::1")),
            ("FD00::A", Some("fd00::a")),
            ("::ffff:1.2.3.4", Some("1.2.3.4")),
            ("256.0.0.1", None),
            ("1.2.3", None),
            ("1.2.3.4.5", None),
            ("+1.2.3.4", None),
            (" 1.2.3.4", None),
            ("1..2.3", None),
            ("fe80::1%eth0", None),
            ("", None),
            ("\u{661}.2.3.4", None),
        ] {
            assert_eq!(address(text).map(|a| a.to_string()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn networks_lose_their_host_bits() {
        for (text, want) in [
            ("10.0.0.7/8", Some("10.0.0.0/8")),
            ("010.0.0.0/08", Some("10.0.0.0/8")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("fd00::1/64", Some("fd00::/64")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0/-1", None),
            ("10.0.0.0", None),
            ("10.0.0.0/8/8", None),
        ] {
            assert_eq!(network(text).map(|n| n.to_string()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn names_follow_the_rules_of_kubernetes() {
        let long = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a_b", "a b", "a\"", "a\n", "a'", "a.b", "ä", "a\0", &long] {
            assert!(!is_dns_label(bad), "{bad:?}");
        }
        for good in ["a", "0", "a-b", "1a"] {
            assert!(is_dns_label(good), "{good:?}");
        }
        for bad in ["", ".", "a..b", "a.", ".a", "a.-b", "a b.c", "a\n.b"] {
            assert!(!is_dns_subdomain(bad), "{bad:?}");
        }
        assert!(is_dns_subdomain("node-1.example.com"));
        assert!(is_label_value("eu-West_1.a") && !is_label_value("") && !is_label_value("a b"));
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(clip("short"), "short");
        assert_eq!(clip(&"ä".repeat(500)).chars().count(), MAX_QUOTED + 1);
    }

    #[test]
    fn times_may_have_fractions_and_offsets() {
        assert_eq!(time("1970-01-01T00:00:01Z").map(Timestamp::as_second), Some(1));
        assert_eq!(time("1970-01-01T01:00:00.000000007+01:00").map(Timestamp::as_nanosecond), Some(7));
        assert!(time("yesterday").is_none());
    }
}
