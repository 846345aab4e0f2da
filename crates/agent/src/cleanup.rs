//! `--cleanup` and `switchyard cleanup`: removes what every mode may have left on this node, and nothing else. Needs no API server. The proxy
//! itself removes here what other modes left, once its own rules stand. What would go can be listed instead ([`list`]): both look for the
//! same chains, tables and objects.

mod dry;

use anyhow::bail;
use switchyard_apply::iptables::{
    Iptables, IptablesError, Variant, VariantChoice, cleanup, family_usable, leftovers,
};
use switchyard_apply::ipvs;
use switchyard_model::Family;
use switchyard_netlink::nftables;
use switchyard_plan::nft;

use crate::flags::{IptablesBackend, Mode};
use crate::sync::with_causes;

pub use dry::list;

/// Cleans up. Goes on after the first failure; fails if anything is left.
pub fn run(backend: IptablesBackend) -> anyhow::Result<()> {
    let mut left = 0;
    for variant in variants(backend) {
        for family in Family::ALL.into_iter().filter(|family| family_usable(*family)) {
            match Iptables::probe(family, variant) {
                Ok(programs) => left += clean(&programs),
                // A variant that is not installed has left nothing; without permission nothing can be said.
                Err(error @ IptablesError::Permission { .. }) => return Err(error.into()),
                Err(error @ (IptablesError::Locked { .. } | IptablesError::Timeout { .. })) => {
                    left += 1;
                    tracing::error!(%family, variant = variant.as_str(), cause = %with_causes(&error), "cannot look for rules; run --cleanup again");
                }
                Err(error) => {
                    tracing::debug!(%family, variant = variant.as_str(), cause = %with_causes(&error), "skipped");
                }
            }
        }
    }
    let families = [switchyard_netlink::Family::V4, switchyard_netlink::Family::V6];
    for (family, name) in families.into_iter().flat_map(|f| NFTABLES_TABLES.map(|name| (f, name))) {
        match nftables::delete_table(family, name) {
            Ok(nftables::Removed::Yes) => {
                tracing::info!(table = name, ?family, "removed a table of nftables mode")
            }
            Ok(nftables::Removed::Absent) => {}
            Err(error) => {
                left += 1;
                tracing::error!(table = name, cause = %with_causes(&error), "cannot remove a table of nftables mode");
            }
        }
    }
    left += clean_ipvs();
    if left > 0 {
        bail!("encountered an error while tearing down rules: {left} objects are left, each named above");
    }
    Ok(())
}

/// The rest of ipvs mode, once its rules are gone. Says how many things are left.
fn clean_ipvs() -> usize {
    let removed = ipvs::remove_leftovers();
    if removed.was_here {
        tracing::info!(interface = ipvs::LINK, "removed interface, virtual servers and sets of ipvs mode");
    }
    tell_ipvs(&removed.errors);
    removed.errors.len()
}

fn tell_ipvs(left: &[ipvs::LeftoverError]) {
    for error in left {
        tracing::error!(cause = %with_causes(error), "something of ipvs mode is left");
    }
}

/// Both variants, unless the operator named one: an earlier run may have used the other. The legacy one is only
/// asked where its tables exist, because asking makes the kernel create them.
pub(crate) fn variants(backend: IptablesBackend) -> Vec<Variant> {
    match backend {
        IptablesBackend::Auto => [VariantChoice::Nft, VariantChoice::Legacy]
            .into_iter()
            .filter_map(|choice| choice.resolve().ok())
            .filter(|variant| *variant == Variant::Nft || has_legacy_tables())
            .collect(),
        IptablesBackend::Nft => vec![Variant::Nft],
        IptablesBackend::Legacy => vec![Variant::Legacy],
    }
}

/// Number of things that are left.
fn clean(programs: &Iptables) -> usize {
    let outcome = cleanup(programs, &leftovers::of_every_mode());
    let (family, variant) = (programs.family(), programs.variant().as_str());
    tracing::info!(%family, variant, jumps = outcome.jumps, chains = outcome.chains, "removed");
    for error in &outcome.errors {
        tracing::error!(%family, variant, cause = %with_causes(error), "something is left");
    }
    outcome.errors.len()
}

/// Whether the kernel has tables of the legacy variant.
pub(crate) fn has_legacy_tables() -> bool {
    ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"]
        .iter()
        .any(|path| std::fs::read_to_string(path).is_ok_and(|names| !names.trim().is_empty()))
}

/// What other modes, and other proxies, left goes once our rules stand, so that no connection is without a proxy in
/// between.
pub(crate) fn remove_leftovers(mode: Mode) {
    let names: &[&str] = match mode {
        Mode::Iptables => &NFTABLES_TABLES,
        Mode::Nftables | Mode::Userspace => {
            remove_iptables_leftovers();
            &[KUBE_PROXY_TABLE]
        }
        Mode::Ipvs => {
            remove_iptables_leftovers();
            &NFTABLES_TABLES
        }
    };
    match mode {
        Mode::Ipvs => tell_ipvs(&ipvs::leftovers::remove_sets()),
        Mode::Iptables | Mode::Nftables | Mode::Userspace => _ = clean_ipvs(),
    }
    for name in names {
        for family in [switchyard_netlink::Family::V4, switchyard_netlink::Family::V6] {
            match nftables::delete_table(family, name) {
                Ok(nftables::Removed::Yes) => {
                    tracing::info!(table = name, ?family, "removed the rules of nftables mode");
                }
                Ok(nftables::Removed::Absent) => {}
                Err(error) => {
                    tracing::warn!(cause = %with_causes(&error), table = name, "cannot remove the rules of nftables mode; run --cleanup");
                }
            }
        }
    }
}

/// Best effort: a node without the programs has no such rules either.
fn remove_iptables_leftovers() {
    for variant in variants(IptablesBackend::Auto) {
        for family in Family::ALL.into_iter().filter(|family| family_usable(*family)) {
            let Ok(programs) = Iptables::probe(family, variant) else { continue };
            let outcome = cleanup(&programs, &leftovers::of_every_mode());
            if outcome.chains > 0 {
                tracing::info!(%family, variant = variant.as_str(), chains = outcome.chains, "removed the rules of iptables mode");
            }
            for error in &outcome.errors {
                tracing::warn!(%family, cause = %with_causes(error), "cannot remove rules of iptables mode; run --cleanup");
            }
        }
    }
}

/// The table of kube-proxy's nftables mode.
const KUBE_PROXY_TABLE: &str = "kube-proxy";

/// Tables of nftables mode, kube-proxy's and ours.
pub const NFTABLES_TABLES: [&str; 2] = [KUBE_PROXY_TABLE, nft::names::TABLE];
