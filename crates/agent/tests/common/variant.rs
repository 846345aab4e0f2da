//! How the proxy under test writes rules, and for which of these ways a test is run.

use std::fmt;
use std::io::Write;

use switchyard_lab::scenario::Mode;
use switchyard_lab::{Host, Lab, Node};
use switchyard_netlink::ipvs::Ipvs;

/// How the proxy writes rules: a mode, and in iptables mode a variant of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// iptables over nf_tables.
    Nft,
    /// iptables over x_tables.
    Legacy,
    /// nftables mode.
    Nftables,
    /// ipvs mode.
    Ipvs,
    /// Userspace mode, with rules that lead to the relay.
    Userspace,
}

impl Variant {
    /// The ending of the names of the iptables programs; none in nftables mode.
    pub(crate) fn backend(self) -> Option<&'static str> {
        match self {
            Self::Nft => Some("nft"),
            Self::Legacy => Some("legacy"),
            Self::Nftables | Self::Ipvs | Self::Userspace => None,
        }
    }

    /// The flag that chooses it.
    pub(crate) fn flag(self) -> String {
        match self.backend() {
            Some(backend) => format!("--iptables-backend={backend}"),
            None => format!("--proxy-mode={}", self.mode_name()),
        }
    }

    /// The mode's name in a configuration file.
    pub(crate) fn mode_name(self) -> &'static str {
        match self {
            Self::Nft | Self::Legacy => "iptables",
            Self::Nftables => "nftables",
            Self::Ipvs => "ipvs",
            Self::Userspace => "userspace",
        }
    }

    /// The table of the mode; none of iptables mode.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Ipvs => "switchyard-ipvs",
            Self::Nft | Self::Legacy | Self::Nftables | Self::Userspace => "switchyard",
        }
    }

    /// The mode whose expectations count.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Nft | Self::Legacy => Mode::Iptables,
            Self::Nftables | Self::Userspace => Mode::Nftables,
            Self::Ipvs => Mode::Ipvs,
        }
    }

    /// True if the programs work here, `nft` in nftables mode: the proxy does without it, the tests look through it. If not, says so;
    /// with `LAB=require` in the environment that is a panic.
    pub(crate) fn is_usable(self, lab: &Lab) -> bool {
        let node = lab.node(Node::N1);
        if self == Self::Ipvs && !has_ipvs(node) {
            return false;
        }
        let works = |family: &str| match self.backend() {
            Some(backend) => node.exec_ok(&format!("{family}-{backend}"), &["-w", "-t", "nat", "-S"]),
            None => node.exec_ok("nft", &["list", "tables"]),
        };
        let Some(error) = ["iptables", "ip6tables"].into_iter().find_map(|family| works(family).err()) else {
            return true;
        };
        let reason = format!("{self} does not work: {error}");
        assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but {reason}");
        say(&format!("SKIPPED, {reason}"));
        false
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nft => "iptables-nft",
            Self::Legacy => "iptables-legacy",
            Self::Nftables => "nftables",
            Self::Ipvs => "ipvs",
            Self::Userspace => "userspace",
        })
    }
}

/// Whether the kernel has IPVS. If not, says so; with `VM=require` in the environment that is a panic.
fn has_ipvs(node: &Host) -> bool {
    let has = node.run(|| Ipvs::open().ok().flatten().is_some()).unwrap_or_default();
    if !has {
        assert!(std::env::var("VM").as_deref() != Ok("require"), "VM=require, but this kernel has no IPVS");
        say("SKIPPED, this kernel has no IPVS: `make vm` boots one that has");
    }
    has
}

/// Prints a line that also a passing test shows: what print macros write is held back for those.
pub(crate) fn say(line: &str) {
    // A test whose output nobody reads still counts.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Makes one test per mode and iptables variant out of a function that takes the variant.
macro_rules! every_mode {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            #[test]
            fn iptables_nft() {
                super::$name($crate::common::variant::Variant::Nft);
            }
            #[test]
            fn iptables_legacy() {
                super::$name($crate::common::variant::Variant::Legacy);
            }
            #[test]
            fn nftables() {
                super::$name($crate::common::variant::Variant::Nftables);
            }
        }
    )+ };
}

/// One test for each mode, where a second variant of iptables would show nothing new.
macro_rules! both_modes {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            #[test]
            fn iptables() {
                super::$name($crate::common::variant::Variant::Nft);
            }
            #[test]
            fn nftables() {
                super::$name($crate::common::variant::Variant::Nftables);
            }
        }
    )+ };
}

/// One test per variant of iptables, for what nftables mode does not have:
///
/// - restore programs, which can refuse a line, fail, be slow or outlive the proxy (`restore.rs`, parts of `restart.rs` and `flush.rs`):
///   there the kernel is asked directly, and `lab_nftables` has its refusals;
/// - the xtables lock (`surroundings.rs`): nf_tables has none that a program could hold;
/// - rules in tables that belong to everybody, and canary chains (`flush.rs`, the foreign chains of `services.rs`): there one table is all
///   ours, and `lab_nftables` harms it;
/// - programs that are missing (`surroundings.rs`): `lab_nftables` runs without any.
///
/// Tests of objects and files, which are read before any mode is asked (`objects.rs`, `surroundings.rs`), run once.
macro_rules! iptables_only {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            #[test]
            fn nft() {
                super::$name($crate::common::variant::Variant::Nft);
            }
            #[test]
            fn legacy() {
                super::$name($crate::common::variant::Variant::Legacy);
            }
        }
    )+ };
}
