//! The version line of the iptables programs.

use std::fmt;

use super::Variant;

/// A version of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number; 0 if absent.
    pub patch: u32,
}

impl Version {
    /// The oldest version that is accepted: the first whose `iptables-restore` knows `-w SECONDS`. Every older one
    /// would need its lock taken on its behalf.
    pub const OLDEST: Self = Self { major: 1, minor: 6, patch: 2 };

    /// True if `MASQUERADE --random-fully` is understood.
    pub fn has_random_fully(self) -> bool {
        self >= Self { major: 1, minor: 6, patch: 2 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Reads `iptables v1.8.9 (nf_tables)`. Versions before 1.8 name no variant; they are all legacy.
pub(super) fn parse(text: &str) -> Option<(Version, Variant)> {
    let line = text.lines().find(|line| line.contains("tables"))?;
    let mut words = line.split_whitespace();
    let numbers = words.find_map(|word| {
        let number = word.strip_prefix('v')?;
        number.starts_with(|c: char| c.is_ascii_digit()).then_some(number)
    })?;
    let mut parts = numbers.split('.').map(leading_number);
    let version = Version {
        major: parts.next()??,
        minor: parts.next()??,
        patch: match parts.next() {
            Some(part) => part?,
            None => 0,
        },
    };
    let variant = if line.contains("(nf_tables)") { Variant::Nft } else { Variant::Legacy };
    Some((version, variant))
}

/// Distributions append letters (`1.8.9-rc1`), so only the digits at the front count.
fn leading_number(part: &str) -> Option<u32> {
    let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
    part.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_forms() {
        let v = |major, minor, patch| Version { major, minor, patch };
        for (text, expected) in [
            ("iptables v1.8.9 (nf_tables)\n", Some((v(1, 8, 9), Variant::Nft))),
            ("ip6tables v1.8.11 (legacy)", Some((v(1, 8, 11), Variant::Legacy))),
            ("iptables v1.6.2", Some((v(1, 6, 2), Variant::Legacy))),
            ("iptables v1.9-rc1", Some((v(1, 9, 0), Variant::Legacy))),
            ("# warning\niptables v1.4.21\n", Some((v(1, 4, 21), Variant::Legacy))),
            ("iptables vx.y.z", None),
            ("iptables v1", None),
            ("iptables v1.99999999999.1", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
        assert!(v(1, 6, 2).has_random_fully() && !v(1, 6, 1).has_random_fully());
        assert!(v(1, 10, 0) > v(1, 8, 9));
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            let _ = parse(&text);
            let _ = parse(&format!("iptables v{text}"));
        }
    }
}
