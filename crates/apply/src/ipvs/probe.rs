//! What ipvs mode needs of the kernel, tried before anything is written.
//!
//! In: the name of a scheduler. Out: nothing if all is there, or an error that names the module that is missing. The kernel
//! loads modules for it if it can. A scheduler is tried with a virtual server at an address for documentation, which is removed
//! at once.

use nix::errno::Errno;
use switchyard_netlink::NetlinkError;
use switchyard_netlink::ipvs::{Command, Ipvs, Persistence, Service, ServiceFlags, ServiceId};
use switchyard_netlink::route::Routes;

use super::LINK;

/// Longest name of a scheduler.
const MAX_NAME: usize = 15;

/// Where a scheduler is tried.
const TRIAL: ServiceId = ServiceId {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 0)),
    protocol: 6,
    port: 20_000,
};

/// A link that is made and removed at once.
const TRIAL_LINK: &str = "switchyard-try";

/// Why this mode cannot work.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel has no IPVS.
    #[error(
        "this kernel has no IPVS: ipvs mode needs the module ip_vs; `modprobe ip_vs` may bring it, else use nftables mode"
    )]
    NoIpvs,
    /// The kernel has not got the scheduler.
    #[error(
        "IPVS has no scheduler {name:?}: it needs the module ip_vs_{name}; `modprobe ip_vs_{name}` may bring it, else choose \
         another one, such as rr"
    )]
    NoScheduler {
        /// Its name.
        name: String,
        /// The kernel's answer.
        #[source]
        errno: Errno,
    },
    /// Nothing that could be a scheduler.
    #[error(
        "{name:?} is no name of an IPVS scheduler: it has 1 to {MAX_NAME} small letters, digits and underscores; choose one such as rr"
    )]
    BadName {
        /// What it is, cut.
        name: String,
    },
    /// The kernel has no dummy links.
    #[error(
        "the link {LINK}, which carries the virtual addresses, cannot be made: ipvs mode needs the module dummy; \
         `modprobe dummy` may bring it, else use nftables mode"
    )]
    NoDummy(#[source] NetlinkError),
    /// The kernel could not be asked.
    #[error(
        "cannot ask the kernel for IPVS; ipvs mode needs the capability CAP_NET_ADMIN in this network namespace"
    )]
    Unasked(#[source] NetlinkError),
}

/// Tries everything, as [`probe`] does, and leaves nothing behind.
///
/// # Errors
/// What is missing.
pub fn look(scheduler: &str) -> Result<(), ProbeError> {
    check_name(scheduler)?;
    let mut ipvs = Ipvs::open().map_err(ProbeError::Unasked)?.ok_or(ProbeError::NoIpvs)?;
    try_scheduler(&mut ipvs, scheduler)?;
    let mut routes = Routes::open().map_err(ProbeError::Unasked)?;
    match routes.link_index(LINK) {
        Ok(_) => return Ok(()),
        Err(NetlinkError::Missing { .. }) => {}
        Err(error) => return Err(ProbeError::Unasked(error)),
    }
    routes.create_dummy(TRIAL_LINK).map_err(ProbeError::NoDummy)?;
    let link = routes.link_index(TRIAL_LINK).map_err(ProbeError::Unasked)?;
    routes.delete_link(link).map_err(ProbeError::Unasked)
}

/// Tries everything. Afterwards the link is there.
///
/// # Errors
/// What is missing.
pub fn probe(scheduler: &str) -> Result<(), ProbeError> {
    check_name(scheduler)?;
    let mut ipvs = Ipvs::open().map_err(ProbeError::Unasked)?.ok_or(ProbeError::NoIpvs)?;
    try_scheduler(&mut ipvs, scheduler)?;
    let mut routes = Routes::open().map_err(ProbeError::Unasked)?;
    match routes.link_index(LINK) {
        Ok(_) => Ok(()),
        Err(NetlinkError::Missing { .. }) => routes.create_dummy(LINK).map_err(ProbeError::NoDummy),
        Err(error) => Err(ProbeError::Unasked(error)),
    }
}

fn check_name(name: &str) -> Result<(), ProbeError> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
        return Err(ProbeError::BadName { name: name.chars().take(MAX_NAME * 2).collect() });
    }
    Ok(())
}

fn try_scheduler(ipvs: &mut Ipvs, scheduler: &str) -> Result<(), ProbeError> {
    let services = ipvs.services().map_err(ProbeError::Unasked)?;
    if services.iter().any(|service| service.scheduler == scheduler && service.id != TRIAL) {
        return Ok(());
    }
    let trial = Service {
        id: TRIAL,
        scheduler: scheduler.to_owned(),
        flags: ServiceFlags::NONE,
        persistence: Persistence::None,
    };
    // One that is left over from a trial that was cut off goes first.
    let commands = [Command::DeleteService(TRIAL), Command::AddService(trial), Command::DeleteService(TRIAL)];
    let answers = ipvs.send(&commands).map_err(ProbeError::Unasked)?;
    match answers.get(1).copied().flatten() {
        Some(errno) => Err(ProbeError::NoScheduler { name: scheduler.to_owned(), errno }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_before_the_kernel_is_asked() {
        for name in ["", "rr\0", "RR", "a-name-with-dashes", "sixteen_letters_", "../x"] {
            assert!(matches!(probe(name), Err(ProbeError::BadName { .. })), "{name:?}");
        }
    }
}
