//! What the agent tells about itself on the metrics server: its metrics, and pages beside them.

mod configz;
mod heap;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use switchyard_config::gates;
use switchyard_model::Family;
use switchyard_netlink::nfacct::Accounts;
use switchyard_plan::iptables::base::{INVALID_COUNTER, LOOPBACK_COUNTER};
use switchyard_serve::metrics::{ApiAnswer, Feature, Metrics, Mode, PacketCounts, Stage};
use switchyard_serve::server::{Flagz, Pages, Profiling, Statusz};
use switchyard_source::cluster::{Answered, Observer};

use crate::flags::{Config, Mode as ModeName};
use crate::logging;
use crate::sync::with_causes;

/// The metrics of an agent that serves these families.
pub fn metrics(config: &Config, families: &[Family]) -> Arc<Metrics> {
    let mode = match config.mode {
        ModeName::Iptables => Mode::Iptables,
        ModeName::Nftables => Mode::Nftables,
        ModeName::Ipvs | ModeName::Userspace => Mode::Other,
    };
    let metrics = Metrics::new(mode, families, env!("CARGO_PKG_VERSION"));
    metrics.features(features(config));
    if mode == Mode::Iptables {
        metrics.packets_counted(Box::new(packet_counts));
    }
    Arc::new(metrics)
}

/// Counts what the API server answers.
pub fn observer(metrics: &Arc<Metrics>) -> Observer {
    let metrics = metrics.clone();
    Observer::new(move |answered| {
        let Answered { host, method, status, took } = *answered;
        metrics.api_answered(&ApiAnswer { host, method, status, took });
    })
}

/// The pages of an agent that was told so.
pub fn pages(config: &Config) -> Pages {
    let gates = &config.configuration.feature_gates;
    let is_on = |gate| gates::is_on(gate, gates);
    let mut configuration = config.configuration.clone();
    configuration.keep_only_the_mode();
    Pages {
        mode: config.mode.as_str().to_owned(),
        config: configz::text(&configuration.to_json()),
        flags: is_on("ComponentFlagz").then(|| Flagz(config.flags.clone())),
        status: is_on("ComponentStatusz").then(status),
        profiling: configuration.enable_profiling.then(profiling),
        ui: None,
    }
}

fn profiling() -> Profiling {
    Profiling::new(Arc::new(logging::set_verbosity), Arc::new(heap::take))
}

/// The compiler's oldest version that builds this program is all that the program knows of it.
fn status() -> Statusz {
    let toolchain = format!("rustc {}", env!("CARGO_PKG_RUST_VERSION"));
    Statusz { toolchain, version: format!("1.{}", switchyard_config::MINOR) }
}

fn features(config: &Config) -> Vec<Feature> {
    let feature = |(name, stage, is_enabled): (&str, &str, bool)| {
        let stage = match stage {
            "ALPHA" => Stage::Alpha,
            "BETA" => Stage::Beta,
            "DEPRECATED" => Stage::Deprecated,
            _ => Stage::Stable,
        };
        Feature { name: name.to_owned(), stage, is_enabled }
    };
    gates::all(&config.configuration.feature_gates).map(feature).collect()
}

/// What the kernel counted for rules of iptables mode; nothing where it cannot count or be asked.
fn packet_counts() -> PacketCounts {
    let mut accounts = match Accounts::open() {
        Ok(accounts) => accounts,
        Err(error) => {
            tracing::debug!(cause = %with_causes(&error), "no packet counters");
            return PacketCounts::default();
        }
    };
    let mut packets = |name| match accounts.packets(name) {
        Ok(packets) => packets,
        Err(error) => {
            tracing::debug!(cause = %with_causes(&error), name, "a packet counter cannot be read");
            None
        }
    };
    PacketCounts { invalid_dropped: packets(INVALID_COUNTER), loopback_accepted: packets(LOOPBACK_COUNTER) }
}
