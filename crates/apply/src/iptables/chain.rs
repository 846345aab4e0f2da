//! Chains and jumps as values.

use std::fmt;

pub use switchyard_plan::iptables::rule::Table;

/// A rule in somebody else's chain that leads to one of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Jump {
    /// The table of both chains.
    pub table: Table,
    /// The chain that holds the rule, such as `PREROUTING`.
    pub chain: String,
    /// Matches and target, one argument each and unquoted: `-m comment --comment "a b" -j TARGET` is six.
    pub args: Vec<String>,
}

impl From<&switchyard_plan::iptables::base::Jump> for Jump {
    fn from(planned: &switchyard_plan::iptables::base::Jump) -> Self {
        Self { table: planned.table, chain: planned.from.to_owned(), args: planned.arguments() }
    }
}

impl Jump {
    /// The chain that the rule leads to.
    pub fn target(&self) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == "-j" || arg == "-g")?;
        self.args.get(at + 1).map(String::as_str)
    }
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.table, self.chain, self.target().unwrap_or("(no target)"))
    }
}

/// Where an absent jump is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before all other rules of the chain.
    First,
    /// After all other rules of the chain.
    Last,
}

/// What ensuring something found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// It was there; nothing was written.
    Existed,
    /// It was absent and is there now.
    Created,
}

/// What removing something found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It was there and is gone (a flushed chain: is empty).
    Removed,
    /// It was not there.
    Absent,
}

/// Longest chain name that both variants take (`XT_EXTENSION_MAXNAMELEN` minus the end).
const MAX_CHAIN_NAME: usize = 28;

/// True if the text can stand as a chain name in arguments and in restore input: it is no option and no second
/// word, and does not end the line.
pub fn is_chain_name(text: &str) -> bool {
    (1..=MAX_CHAIN_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'`'))
        && !text.starts_with(['-', '!', '#', '*', ':', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_names() {
        for good in ["KUBE-SVC-XPGD46QRK7WJZT7O", "PREROUTING", "cali-PREROUTING", "a.b_c:d"] {
            assert!(is_chain_name(good), "{good:?}");
        }
        for bad in ["", "-F", "!x", "a b", "a\nb", "#x", "*nat", ":x", "é", "a\"b", &"x".repeat(29)] {
            assert!(!is_chain_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn target_of_a_jump() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect();
        let jump = |text| Jump { table: Table::Nat, chain: "OUTPUT".into(), args: args(text) };
        assert_eq!(jump("-m comment --comment x -j KUBE-SERVICES").target(), Some("KUBE-SERVICES"));
        assert_eq!(jump("-m comment -j").target(), None);
        assert_eq!(jump("-j A").to_string(), "nat OUTPUT -> A");
    }
}
