//! The text of `ip:port` as a value without memory of its own, for sorting.
//!
//! kube-proxy sorts endpoints by this text, and a first list has a hundred thousand of them.

use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};

/// As long as the longest text, which is one of IPv6: `[`, eight groups of four digits, `]:` and a port.
const LENGTH: usize = 48;

/// Ordered as the text is: what follows its end are zeros, which no text holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressText([u8; LENGTH]);

impl AddressText {
    /// The text of an address.
    pub(crate) fn of(address: SocketAddr) -> Self {
        let mut bytes = [0; LENGTH];
        let mut rest = &mut bytes[..];
        // A slice has always room for what is written here; without it, the text would be cut.
        let _ = match address {
            SocketAddr::V4(address) => put_v4(&mut rest, address),
            SocketAddr::V6(_) => write!(rest, "{address}"),
        };
        Self(bytes)
    }
}

/// What `Display` would write, in a tenth of its time.
fn put_v4(out: &mut impl Write, address: SocketAddrV4) -> std::io::Result<()> {
    let [a, b, c, d] = address.ip().octets().map(u16::from);
    for (number, separator) in [(a, b"."), (b, b"."), (c, b"."), (d, b":")] {
        put_number(out, number)?;
        out.write_all(separator)?;
    }
    put_number(out, address.port())
}

fn put_number(out: &mut impl Write, number: u16) -> std::io::Result<()> {
    let digits =
        [10_000, 1000, 100, 10, 1].map(|unit| b'0' + u8::try_from(number / unit % 10).unwrap_or_default());
    let zeros = digits.iter().take(4).take_while(|digit| **digit == b'0').count();
    out.write_all(digits.get(zeros..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses() -> impl Strategy<Value = SocketAddr> {
        let ports = || prop_oneof![any::<u16>(), 0..12_u16, Just(u16::MAX)];
        let few = prop_oneof![Just(0_u8), Just(1), Just(10), Just(100), Just(255), any::<u8>()];
        let v4 = (proptest::array::uniform4(few), ports()).prop_map(SocketAddr::from);
        let groups = prop_oneof![Just(0_u16), Just(u16::MAX), any::<u16>()];
        let v6 = (proptest::array::uniform8(groups), ports()).prop_map(SocketAddr::from);
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn it_is_the_text_and_sorts_like_it(a in addresses(), b in addresses()) {
            let text = |address| {
                let AddressText(bytes) = AddressText::of(address);
                String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
            };
            prop_assert_eq!(text(a), a.to_string());
            prop_assert_eq!(AddressText::of(a).cmp(&AddressText::of(b)), a.to_string().cmp(&b.to_string()));
        }
    }
}
