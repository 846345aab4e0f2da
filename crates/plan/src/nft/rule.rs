//! One nftables rule as a value, and its text in nft's own syntax.
//!
//! The text is for people, logs and golden tests: nothing parses it. Interface names come from flags, and whatever could
//! end a word is replaced.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use switchyard_model::{Family, Protocol};

use super::names::Set;

/// Where a packet goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// In another chain, without coming back.
    Goto(String),
    /// In another chain, and back.
    Jump(String),
    /// Nowhere.
    Drop,
    /// Back to the calling chain.
    Return,
}

/// A field of a packet, or a random number, as part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Transport protocol.
    Protocol,
    /// Destination port.
    Port,
    /// A random slot: one of `modulus` numbers from `offset` on.
    RandomSlot {
        /// How many.
        modulus: u32,
        /// The first.
        offset: u32,
    },
}

/// Address . protocol . port, as most maps have it.
pub const FRONTEND: [Field; 3] = [Field::Destination, Field::Protocol, Field::Port];
/// Protocol . port.
pub const NODE_PORT: [Field; 2] = [Field::Protocol, Field::Port];

/// Whether a comparison is meant as written or negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Is {
    /// As written.
    Yes,
    /// With `!=`.
    Not,
}

/// A set by name: a shared one, or one of a sticky Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetName {
    /// Shared.
    Shared(Set),
    /// Of one endpoint of a sticky Service.
    Own(String),
}

impl SetName {
    /// The name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Shared(set) => set.as_str(),
            Self::Own(name) => name,
        }
    }
}

/// One statement of a rule, in order of evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// `ct state new`.
    New,
    /// `ct status dnat`: the destination was replaced.
    Translated,
    /// `meta l4proto PROTOCOL`.
    Protocol(Protocol),
    /// `ip saddr RANGE`.
    SourceIn(Is, IpNet),
    /// `ip daddr RANGE`.
    DestinationIn(Is, IpNet),
    /// `iifname NAME`, or a beginning of a name with `*`.
    Interface(Is, String),
    /// `fib saddr type local`.
    SourceLocal,
    /// `fib daddr type local`.
    DestinationLocal,
    /// `meta priority P`.
    Priority(u32),
    /// `meta mark & M != 0`.
    Marked(u32),
    /// Fields in a set, or not in it.
    In(Is, Vec<Field>, SetName),
    /// Looks the fields up in a verdict map and does what it says.
    Lookup(Vec<Field>, SetName),
    /// Sets bits of the mark.
    OrMark(u32),
    /// Flips bits of the mark.
    XorMark(u32),
    /// Replaces the destination by what the map has for the fields.
    DnatByMap(Vec<Field>, SetName),
    /// Replaces the destination.
    Dnat(SocketAddr),
    /// Picks a verdict at random, each with the same odds.
    RandomVerdict(Vec<Verdict>),
    /// Remembers the source in a set with a timeout, or renews it.
    Remember(String),
    /// Replaces the source address by this node's.
    Masquerade,
    /// Rejects.
    Reject,
    /// Ends the rule.
    Verdict(Verdict),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Statements, in order.
    pub statements: Vec<Statement>,
    /// For people.
    pub comment: Option<&'static str>,
}

impl Rule {
    /// A rule without a comment.
    pub fn new(statements: impl Into<Vec<Statement>>) -> Self {
        Self { statements: statements.into(), comment: None }
    }

    /// A rule with a comment.
    pub fn with_comment(statements: impl Into<Vec<Statement>>, comment: &'static str) -> Self {
        Self { statements: statements.into(), comment: Some(comment) }
    }

    /// nft's syntax.
    pub fn to_text(&self, family: Family) -> String {
        let mut words: Vec<String> = self.statements.iter().map(|s| statement(s, family)).collect();
        words.extend(self.comment.map(|text| format!("comment \"{text}\"")));
        words.join(" ")
    }

    /// The rule with the chain that it is in.
    pub fn to_line(&self, family: Family, chain: &str) -> String {
        format!("rule {} of chain {chain}", self.to_text(family))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::Drop => f.write_str("drop"),
            Self::Return => f.write_str("return"),
        }
    }
}

fn header(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

fn key(fields: &[Field], family: Family) -> String {
    let ip = header(family);
    let one = |field: &Field| match field {
        Field::Source => format!("{ip} saddr"),
        Field::Destination => format!("{ip} daddr"),
        Field::Protocol => "meta l4proto".to_owned(),
        Field::Port => "th dport".to_owned(),
        Field::RandomSlot { modulus, offset: 0 } => format!("numgen random mod {modulus}"),
        Field::RandomSlot { modulus, offset } => format!("numgen random mod {modulus} offset {offset}"),
    };
    fields.iter().map(one).collect::<Vec<_>>().join(" . ")
}

fn not(is: Is) -> &'static str {
    match is {
        Is::Yes => "",
        Is::Not => "!= ",
    }
}

fn statement(statement: &Statement, family: Family) -> String {
    let ip = header(family);
    match statement {
        Statement::New => "ct state new".into(),
        Statement::Translated => "ct status dnat".into(),
        Statement::Protocol(protocol) => format!("meta l4proto {protocol}"),
        Statement::SourceIn(is, range) => format!("{ip} saddr {}{range}", not(*is)),
        Statement::DestinationIn(is, range) => format!("{ip} daddr {}{range}", not(*is)),
        Statement::Interface(is, name) => format!("iifname {}\"{}\"", not(*is), word(name)),
        Statement::SourceLocal => "fib saddr type local".into(),
        Statement::DestinationLocal => "fib daddr type local".into(),
        Statement::Priority(class) => format!("meta priority {:x}:{:x}", class >> 16, class & 0xffff),
        Statement::Marked(mark) => format!("meta mark & {mark:#010x} != 0x00000000"),
        Statement::In(is, fields, set) => format!("{} {}@{}", key(fields, family), not(*is), set.as_str()),
        Statement::Lookup(fields, set) => format!("{} vmap @{}", key(fields, family), set.as_str()),
        Statement::OrMark(mark) => format!("meta mark set meta mark | {mark:#010x}"),
        Statement::XorMark(mark) => format!("meta mark set meta mark ^ {mark:#010x}"),
        Statement::DnatByMap(fields, map) => {
            format!("dnat {ip} to {} map @{}", key(fields, family), map.as_str())
        }
        Statement::Dnat(to) => format!("dnat {ip} to {to}"),
        Statement::RandomVerdict(verdicts) => {
            let all: Vec<String> = verdicts.iter().enumerate().map(|(i, v)| format!("{i} : {v}")).collect();
            format!("numgen random mod {} vmap {{ {} }}", verdicts.len(), all.join(", "))
        }
        Statement::Remember(set) => format!("update @{set} {{ {ip} saddr }}"),
        Statement::Masquerade => "masquerade fully-random".into(),
        Statement::Reject => "reject".into(),
        Statement::Verdict(verdict) => verdict.to_string(),
    }
}

fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() && !matches!(c, '"' | '\\') { c } else { '?' }).collect()
}

/// The range that holds one address.
pub fn only(address: IpAddr) -> IpNet {
    IpNet::from(address)
}
