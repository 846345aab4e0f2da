//! Where objects come from, and where Events go.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context;
use switchyard_config::configuration::ClientConnection;
use switchyard_serve::metrics::Metrics;
use switchyard_source::cluster::{ListFormat, ServiceCidrs};
use switchyard_source::events::Recorder;
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
    match &config.source {
        Source::Manifests { path } => {
            let config = manifests::Config {
                path: path.clone(),
                node_name: node_name.to_owned(),
                service_ranges: config.service_ranges.clone(),
                max_file_bytes: manifests::MAX_FILE_BYTES,
            };
            manifests::run(config, sink).await
        }
        Source::Cluster { .. } => match cluster_config(config, node_name, metrics) {
            Some(config) => cluster::run(config, sink).await,
            None => std::future::pending().await,
        },
    }
}

/// How the API server is reached; nothing without one.
fn cluster_config(config: &Config, node_name: &str, metrics: &Arc<Metrics>) -> Option<cluster::Config> {
    let Source::Cluster { kubeconfig, master } = &config.source else { return None };
    Some(cluster::Config {
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
    let Some(server) = cluster_config(config, node_name, metrics) else {
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
