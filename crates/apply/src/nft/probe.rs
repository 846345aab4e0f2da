//! What this mode needs of the kernel, tried before anything is written.
//!
//! In: a family. Out: nothing if all is there, or one error that names what is missing, since which release Linux has it and
//! which modules could bring it.
//!
//! Each [`Feature`] is a few objects of a table that never comes to be: the kernel judges them in a transaction that has no end and
//! takes them back. The table is dormant, so that not even for that moment a packet meets it. Nobody is notified, and the
//! generation of the ruleset stays. The kernel loads modules for it if it can.
//!
//! Why not compare releases? Distributions bring features to old kernels, and leave them out of new ones. The releases in the
//! message come from the history of the kernel.

use std::fmt;

use nix::errno::Errno;
use switchyard_model::Family;
use switchyard_netlink::NetlinkError;
use switchyard_netlink::nftables::{CommitError, Nft};

mod feature;

pub use feature::Feature;

/// Why this mode cannot work for a family.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// We may not change nf_tables.
    #[error(
        "nftables mode needs the capability CAP_NET_ADMIN in this network namespace, and this process does not have it; \
         run it as root, or grant the capability"
    )]
    NotPermitted(#[source] Errno),
    /// The kernel has no nf_tables.
    #[error(
        "this kernel ({release}) has no nf_tables: nftables mode needs Linux 5.10 or newer with CONFIG_NF_TABLES; \
         `modprobe nf_tables` may bring it, else use iptables mode"
    )]
    NoNfTables {
        /// The release of the kernel.
        release: String,
        /// Its answer.
        #[source]
        errno: Errno,
    },
    /// The kernel lacks features.
    #[error("{0}")]
    Lacks(Lacks),
    /// The kernel could not be asked.
    #[error("cannot ask the kernel what its nf_tables can do")]
    Unasked(#[source] CommitError),
}

/// What a kernel lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacks {
    /// The release of the kernel.
    pub release: String,
    /// For which family.
    pub family: Family,
    /// What, and how the kernel refused it. At least one.
    pub features: Vec<(Feature, Errno)>,
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this kernel ({}) lacks what nftables mode needs for {}: ", self.release, self.family)?;
        for (index, (feature, errno)) in self.features.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{feature} (in Linux since {}; {errno})", feature.since())?;
        }
        let mut modules: Vec<&str> =
            self.features.iter().flat_map(|(feature, _)| feature.modules(self.family)).copied().collect();
        modules.sort_unstable();
        modules.dedup();
        write!(
            f,
            "; `modprobe -a {}` may bring it, else use a newer kernel or iptables mode",
            modules.join(" ")
        )
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The kernel would do it.
    Works,
    /// The kernel refused one of the operations.
    Refused(Errno),
    /// The kernel refused the transaction as a whole.
    RefusedAll(Errno),
}

/// True if everything that this mode writes works for all these families. The kernel waits for all its processors before it gives an
/// answer, so one question takes as long as the other; whoever gets no for an answer asks [`probe`] why.
pub fn works_for_all(families: &[Family]) -> bool {
    let asked = feature::batch(families, &Feature::ALL);
    Nft::open().is_ok_and(|mut nft| nft.check(&asked).is_ok())
}

/// Tries everything that this mode writes.
pub fn probe(family: Family) -> Result<(), ProbeError> {
    let mut nft = match Nft::open() {
        Ok(nft) => nft,
        Err(error) => return Err(unopened(error)),
    };
    look(family, release(), &mut |features| attempt(&mut nft, family, features))
}

/// Tries all features at once, and one by one if that does not work.
fn look(
    family: Family,
    release: String,
    attempt: &mut dyn FnMut(&[Feature]) -> Result<Attempt, CommitError>,
) -> Result<(), ProbeError> {
    let mut ask = |features: &[Feature]| attempt(features).map_err(ProbeError::Unasked);
    let together = match ask(&Feature::ALL)? {
        Attempt::Works => return Ok(()),
        Attempt::RefusedAll(errno @ (Errno::EPERM | Errno::EACCES)) => {
            return Err(ProbeError::NotPermitted(errno));
        }
        Attempt::RefusedAll(errno) => return Err(ProbeError::NoNfTables { release, errno }),
        Attempt::Refused(errno) => errno,
    };
    let mut features = Vec::new();
    for feature in Feature::ALL {
        if let Attempt::Refused(errno) | Attempt::RefusedAll(errno) = ask(&[feature])? {
            features.push((feature, errno));
        }
        if feature == Feature::Tables && !features.is_empty() {
            break; // Nothing else can work.
        }
    }
    if features.is_empty() {
        // Each works alone, so the kernel is at some limit: all of it together is what is written.
        features.push((Feature::Tables, together));
    }
    Err(ProbeError::Lacks(Lacks { release, family, features }))
}

fn attempt(nft: &mut Nft, family: Family, features: &[Feature]) -> Result<Attempt, CommitError> {
    match nft.check(&feature::batch(&[family], features)) {
        Ok(()) => Ok(Attempt::Works),
        Err(CommitError::Refused { refusals, errno }) => Ok(match refusals.first().operation {
            Some(_) => Attempt::Refused(errno),
            None => Attempt::RefusedAll(errno),
        }),
        Err(error) => Err(error),
    }
}

/// Without netfilter's netlink there is not even a socket.
fn unopened(error: NetlinkError) -> ProbeError {
    match error.errno() {
        Some(errno @ (Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT)) => {
            ProbeError::NoNfTables { release: release(), errno }
        }
        _ => ProbeError::Unasked(CommitError::Socket(error)),
    }
}

fn release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match text.trim() {
        "" => "of unknown release".to_owned(),
        release => format!("Linux {release}"),
    }
}

#[cfg(test)]
mod tests;
