//! One iptables rule as a value, and its text.
//!
//! Arguments keep the order in which kube-proxy writes them. The text of a comment comes from object names; whatever
//! could end the argument or the line is replaced here, though names that contain such characters never get this
//! far.

use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use switchyard_model::Protocol;

/// The kernel's limit for a comment, without the closing zero.
const MAX_COMMENT: usize = 255;

/// A table of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Verdicts.
    Filter,
    /// Address translation.
    Nat,
    /// Only for the canary.
    Mangle,
}

impl Table {
    /// The name for `-t`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Mangle => "mangle",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a match is meant as written or negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// As written.
    Yes,
    /// With `!` before it.
    Not,
}

/// One match of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// `-m comment --comment "text"`; says what the rule is for and matches everything.
    Comment(String),
    /// The same without quotes, as kube-proxy writes a lone name.
    BareComment(String),
    /// `-m tcp -p tcp`.
    Protocol(Protocol),
    /// `-d address`.
    Destination(IpAddr),
    /// `-d range`, perhaps negated.
    DestinationIn(Is, IpNet),
    /// `--dport`.
    DestinationPort(u16),
    /// `-s address`.
    Source(IpAddr),
    /// `-s range`, perhaps negated.
    SourceIn(Is, IpNet),
    /// `-i interface` (a trailing `+` stands for anything), perhaps negated.
    Interface(Is, String),
    /// `-m addrtype --dst-type LOCAL`.
    DestinationLocal,
    /// `-m addrtype --src-type LOCAL`.
    SourceLocal,
    /// `-m conntrack --ctstate STATES`, perhaps negated.
    State(Is, &'static str),
    /// `-m mark --mark M/M`, perhaps negated.
    Marked(Is, u32),
    /// `-m nfacct --nfacct-name NAME`: counts and matches everything.
    Count(&'static str),
    /// `-m recent --name LIST --rcheck --seconds S --reap`: the source was put on the list lately.
    SeenLately {
        /// The list.
        list: String,
        /// How long an entry counts.
        seconds: u32,
    },
    /// `-m recent --name LIST --set`: puts the source on the list and matches everything.
    Remember(String),
    /// `-m statistic --mode random --probability 1/n`.
    OneIn(usize),
}

/// What a rule does with a packet that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Goes on in another chain.
    Chain(String),
    /// Goes back to the calling chain.
    Return,
    /// Accepts.
    Accept,
    /// Drops.
    Drop,
    /// Rejects.
    Reject,
    /// Replaces the source address with this node's.
    Masquerade {
        /// Whether source ports are fully randomised.
        random_fully: bool,
    },
    /// Sets bits of the mark.
    OrMark(u32),
    /// Flips bits of the mark.
    XorMark(u32),
    /// Replaces the destination.
    Dnat(SocketAddr),
    /// Nothing: the rule is there to be read.
    None,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Matches, in order.
    pub matches: Vec<Match>,
    /// Target.
    pub target: Target,
}

impl Rule {
    /// A rule.
    pub fn new(matches: impl Into<Vec<Match>>, target: Target) -> Self {
        Self { matches: matches.into(), target }
    }

    /// A rule that jumps to a chain.
    pub fn jump(matches: impl Into<Vec<Match>>, chain: impl Into<String>) -> Self {
        Self::new(matches, Target::Chain(chain.into()))
    }

    /// Appends the rule as a line of restore input for a chain.
    pub fn write_line(&self, chain: &str, line: &mut String) {
        // Writing to a String cannot fail.
        let _ = writeln!(line, "-A {chain}{self}");
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for m in &self.matches {
            write!(f, " {m}")?;
        }
        write!(f, "{}", self.target)
    }
}

impl fmt::Display for Is {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "",
            Self::Not => "! ",
        })
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comment(text) => write!(f, "-m comment --comment \"{}\"", Safe(text)),
            Self::BareComment(text) => write!(f, "-m comment --comment {}", Word(text)),
            Self::Protocol(p) => write!(f, "-m {p} -p {p}"),
            Self::Destination(ip) => write!(f, "-d {ip}"),
            Self::DestinationIn(is, range) => write!(f, "{is}-d {range}"),
            Self::DestinationPort(port) => write!(f, "--dport {port}"),
            Self::Source(ip) => write!(f, "-s {ip}"),
            Self::SourceIn(is, range) => write!(f, "{is}-s {range}"),
            Self::Interface(is, name) => write!(f, "{is}-i {}", Word(name)),
            Self::DestinationLocal => f.write_str("-m addrtype --dst-type LOCAL"),
            Self::SourceLocal => f.write_str("-m addrtype --src-type LOCAL"),
            Self::State(is, states) => write!(f, "-m conntrack {is}--ctstate {states}"),
            Self::Marked(is, mark) => write!(f, "-m mark {is}--mark {mark:#010x}/{mark:#010x}"),
            Self::Count(name) => write!(f, "-m nfacct --nfacct-name {name}"),
            Self::SeenLately { list, seconds } => {
                write!(f, "-m recent --name {list} --rcheck --seconds {seconds} --reap")
            }
            Self::Remember(list) => write!(f, "-m recent --name {list} --set"),
            Self::OneIn(n) => write!(f, "-m statistic --mode random --probability {}", probability(*n)),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(name) => write!(f, " -j {name}"),
            Self::Return => f.write_str(" -j RETURN"),
            Self::Accept => f.write_str(" -j ACCEPT"),
            Self::Drop => f.write_str(" -j DROP"),
            Self::Reject => f.write_str(" -j REJECT"),
            Self::Masquerade { random_fully: true } => f.write_str(" -j MASQUERADE --random-fully"),
            Self::Masquerade { random_fully: false } => f.write_str(" -j MASQUERADE"),
            Self::OrMark(mark) => write!(f, " -j MARK --or-mark {mark:#010x}"),
            Self::XorMark(mark) => write!(f, " -j MARK --xor-mark {mark:#010x}"),
            Self::Dnat(to) => write!(f, " -j DNAT --to-destination {to}"),
            Self::None => Ok(()),
        }
    }
}

/// One in `n` with exactly ten decimals, as kube-proxy prints it.
fn probability(n: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a Service has far fewer than 2^52 endpoints")]
    let odds = 1.0 / n.max(1) as f64;
    format!("{odds:.10}")
}

/// Text that cannot end an argument or a line, cut to what the kernel takes.
struct Safe<'a>(&'a str);

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_safe(f, self.0, |c| c == ' ' || is_plain(c))
    }
}

/// The same for an argument without quotes, which a space would end.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_safe(f, self.0, is_plain)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\')
}

fn write_safe(f: &mut fmt::Formatter<'_>, text: &str, keeps: impl Fn(char) -> bool) -> fmt::Result {
    text.chars().take(MAX_COMMENT).try_for_each(|c| f.write_char(if keeps(c) { c } else { '?' }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_leave_its_argument() {
        let hostile = Match::Comment("a\" -j ACCEPT\n-A INPUT \\ é\u{1b}[0m".into());
        assert_eq!(
            Rule::new([hostile], Target::Drop).to_string(),
            " -m comment --comment \"a? -j ACCEPT?-A INPUT ? ??[0m\" -j DROP"
        );
        let bare = Match::BareComment("a -j ACCEPT".into());
        assert_eq!(bare.to_string(), "-m comment --comment a?-j?ACCEPT");
        let interface = Match::Interface(Is::Not, "br 0".into());
        assert_eq!(interface.to_string(), "! -i br?0");
        let long = Match::Comment("x".repeat(1000)).to_string();
        assert_eq!(long.len(), "-m comment --comment \"\"".len() + 255);
    }

    #[test]
    fn probabilities_have_ten_decimals() {
        assert_eq!(
            [1, 2, 3, 10_000].map(probability).join(" "),
            "1.0000000000 0.5000000000 0.3333333333 0.0001000000"
        );
    }
}
