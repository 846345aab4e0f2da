//! Which of the two iptables variants this node uses.
//!
//! Rules of both variants are in force at the same time, so writing into the one that the rest of the node does not
//! use makes order and clean-up unpredictable. The answer is found as in kube-proxy's image: the kubelet leaves a
//! chain behind as a hint. Without a hint the variant that holds more rules wins, and nft when that is a tie.
//! (Since 2026 the wrappers in that image stop after the hint and say nft; a node that runs a kubelet gets the same
//! answer from both.)

use std::path::PathBuf;
use std::time::Duration;

use switchyard_model::Family;

use super::IptablesError;
use super::binaries::{ask_version, base_name, find, missing};
use super::exec::{Invocation, NotFinished, Output};

/// The two programs that share the name iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Rules live in nf_tables.
    Nft,
    /// Rules live in x_tables.
    Legacy,
}

impl Variant {
    /// The middle part of program names, as in `iptables-nft-save`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        }
    }
}

/// What an operator asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VariantChoice {
    /// Look at the node.
    #[default]
    Auto,
    /// Always nft.
    Nft,
    /// Always legacy.
    Legacy,
}

const HINTS: [&str; 2] = [":KUBE-IPTABLES-HINT", ":KUBE-KUBELET-CANARY"];
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_LIMIT: usize = 64 << 20;

impl VariantChoice {
    /// The variant to use, with programs from [`default_dirs`](super::default_dirs).
    pub fn resolve(self) -> Result<Variant, IptablesError> {
        self.resolve_in(&super::default_dirs())
    }

    /// As [`resolve`](Self::resolve), with programs from these directories. Fails only if there is no iptables.
    pub fn resolve_in(self, dirs: &[PathBuf]) -> Result<Variant, IptablesError> {
        match self {
            Self::Nft => Ok(Variant::Nft),
            Self::Legacy => Ok(Variant::Legacy),
            Self::Auto => detect(dirs),
        }
    }
}

fn detect(dirs: &[PathBuf]) -> Result<Variant, IptablesError> {
    let has = |variant: Variant| find(dirs, &format!("iptables-{}", variant.as_str())).is_some();
    match (has(Variant::Nft), has(Variant::Legacy)) {
        (true, true) => Ok(compare(dirs)),
        (true, false) => Ok(Variant::Nft),
        (false, true) => Ok(Variant::Legacy),
        (false, false) => {
            let plain = find(dirs, "iptables").ok_or_else(|| missing(dirs, "iptables"))?;
            Ok(ask_version(&plain)?.1)
        }
    }
}

/// Failures to look count as "nothing seen": the probe that follows reports them properly.
fn compare(dirs: &[PathBuf]) -> Variant {
    let nft_mangle = Family::ALL.map(|family| look(dirs, family, Variant::Nft, &["-t", "mangle"]));
    if nft_mangle.iter().any(Looked::has_hint) {
        return Variant::Nft;
    }
    // Not `-t mangle` here: asking legacy for a table makes the kernel create it.
    let legacy = Family::ALL.map(|family| look(dirs, family, Variant::Legacy, &[]));
    if legacy.iter().any(Looked::has_hint) {
        return Variant::Legacy;
    }
    let rules = |looked: [Looked; 2]| looked.iter().map(Looked::rules).fold(0, usize::saturating_add);
    let legacy_rules = rules(legacy);
    if legacy_rules == 0 {
        return Variant::Nft;
    }
    let nft_rules = rules(Family::ALL.map(|family| look(dirs, family, Variant::Nft, &[])));
    if legacy_rules > nft_rules { Variant::Legacy } else { Variant::Nft }
}

fn names_chain(line: &str, hint: &str) -> bool {
    line.strip_prefix(hint).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// What a save printed.
enum Looked {
    /// All of it; empty if the save failed.
    Text(String),
    /// More than we care to read, or wait for.
    Huge,
}

impl Looked {
    fn has_hint(&self) -> bool {
        let is_hint = |line: &str| HINTS.iter().any(|hint| names_chain(line, hint));
        matches!(self, Self::Text(text) if text.lines().any(is_hint))
    }

    fn rules(&self) -> usize {
        match self {
            Self::Text(text) => text.lines().filter(|line| line.starts_with('-')).count(),
            Self::Huge => usize::MAX,
        }
    }
}

fn look(dirs: &[PathBuf], family: Family, variant: Variant, args: &[&str]) -> Looked {
    let name = format!("{}-{}-save", base_name(family), variant.as_str());
    let Some(program) = find(dirs, &name) else { return Looked::Text(String::new()) };
    let invocation = Invocation {
        program: &program,
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        input: None,
        output: Output::Keep { limit: LOOK_LIMIT },
        timeout: LOOK_TIMEOUT,
        env: None,
        children: None,
    };
    match invocation.run() {
        Ok(finished) => Looked::Text(String::from_utf8_lossy(&finished.stdout).into_owned()),
        Err(NotFinished::TooMuchOutput { .. } | NotFinished::Timeout { .. }) => Looked::Huge,
        Err(NotFinished::Exec { .. }) => Looked::Text(String::new()),
    }
}
