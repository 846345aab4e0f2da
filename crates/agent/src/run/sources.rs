//! Where objects come from, and where Events go.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context;
use switchyard_config::configuration::ClientConnection;
use switchyard_serve::metrics::Metrics;
use switchyard_source::cluster::{ListFormat, ServiceCidrs};
use switchyard_source::events::Recorder;
use switchyard_source::lookup::Origin;
use switchyard_source::{Sink, SourceError, cluster, manifests};
use tokio::runtime::Runtime;

use crate::flags::{Config, Mode, Source};
use crate::notices::{self, Notices};
use crate::pages;

/// Follows objects for ever.
pub(super) async fn source(
    config: &Config,
    node_name: &str,
    sink: Sink,
    metrics: &Arc<Metrics>,
) -> Result<Infallible, SourceError> {
    match origin(config, node_name, metrics) {
        Origin::Manifests(config) => manifests::run(config, sink).await,
        Origin::Cluster(config) => cluster::run(config, sink).await,
    }
}

/// Where objects come from.
pub(super) fn origin(config: &Config, node_name: &str, metrics: &Arc<Metrics>) -> Origin {
    let (kubeconfig, master) = match &config.source {
        Source::Cluster { kubeconfig, master } => (kubeconfig, master),
        Source::Manifests { path } => {
            return Origin::Manifests(manifests::Config {
                path: path.clone(),
                node_name: node_name.to_owned(),
                service_ranges: config.service_ranges.clone(),
                max_file_bytes: manifests::MAX_FILE_BYTES,
            });
        }
    };
    Origin::Cluster(cluster::Config {
        kubeconfig: kubeconfig.clone(),
        master: master.clone(),
        node_name: node_name.to_owned(),
        service_cidrs: match config.mode {
            Mode::Nftables | Mode::Userspace => ServiceCidrs::Watched,
            Mode::Iptables | Mode::Ipvs => ServiceCidrs::Ignored,
        },
        list_format: list_format(&config.configuration.client_connection),
        observer: pages::observer(metrics),
    })
}

/// What kube-proxy would ask for: `contentType`, unless `acceptContentTypes` says otherwise.
fn list_format(connection: &ClientConnection) -> ListFormat {
    let accepted = match connection.accept_content_types.as_str() {
        "" => &connection.content_type,
        types => types,
    };
    if accepted.contains("protobuf") { ListFormat::Protobuf } else { ListFormat::Json }
}

/// Kubernetes Events, if there is an API server.
pub(super) fn notices(
    config: &Config,
    node_name: &str,
    runtime: &Runtime,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Notices> {
    let Origin::Cluster(server) = origin(config, node_name, metrics) else {
        return Ok(Notices::new(Recorder::silent(), node_name));
    };
    let (recorder, poster) = notices::recorder(&host_name()?);
    runtime.spawn(poster.run(server));
    let counted = recorder.clone();
    metrics.events_lost(Box::new(move || counted.lost()));
    Ok(Notices::new(recorder, node_name))
}

/// What this host calls itself.
pub(super) fn host_name() -> anyhow::Result<String> {
    let host = nix::unistd::gethostname().context("cannot read the host name; pass --hostname-override")?;
    Ok(host.to_string_lossy().into_owned())
}
