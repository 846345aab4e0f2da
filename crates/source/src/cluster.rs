//! Objects from the API server.
//!
//! In: a kubeconfig, a server URL or a pod's service account. Out: complete lists after each (re-)list, single objects
//! after each change.
//!
//! Invariants
//! - A list is sent when its last object has come, never before and never because of an error.
//! - Server trouble is retried for ever, with growing, jittered delays; it is logged once per outage.
//! - An object of any shape is decoded; what is wrong with it becomes complaints.
//!
//! Why not the watcher of `kube::runtime`? It resumes for ever from a resource version that the server refuses with
//! HTTP 410, logs every failure by itself, and does not tell when a broken watch works again.

mod connect;
mod desk;
mod follow;
mod items;
mod list;
mod observe;
mod outage;
mod pages;
mod single;
#[cfg(test)]
mod tests;
mod watched;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use switchyard_model::Event;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tracing::{info, warn};

pub use list::ListFormat;
pub use observe::{Answered, Observer};

use crate::convert::Interner;
use crate::{Sink, SourceError};
pub(crate) use connect::client;
use desk::{Desk, EndpointsDesk, Services, Slices};
use follow::{Collector, Follower, Patience, Selection};
use outage::Outages;
pub(crate) use outage::Trouble;
pub(crate) use pages::{Extent, Wanted, pages};
use single::{CidrDesk, NodeDesk};
#[cfg(test)]
pub(crate) use watched::Watched;

/// A role or an API that is missing is asked for again after this time: clusters are upgraded.
const REFUSED_REST: Duration = Duration::from_secs(600);

/// How to reach the API server, and who we are.
#[derive(Clone, Debug)]
pub struct Config {
    /// The kubeconfig file. Without it and without `master`, the pod's service account is used.
    pub kubeconfig: Option<PathBuf>,
    /// The server's URL; replaces the kubeconfig's.
    pub master: Option<String>,
    /// The own node's name.
    pub node_name: String,
    /// Whether somebody needs ServiceCIDRs.
    pub service_cidrs: ServiceCidrs,
    /// In which form lists are asked for.
    pub list_format: ListFormat,
    /// Is told about every request.
    pub observer: Observer,
}

/// Whether ServiceCIDRs are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceCidrs {
    /// They are; where the server has none or refuses them, it goes on without.
    Watched,
    /// They are not asked for.
    Ignored,
}

/// What all watches share.
#[derive(Clone)]
struct Shared {
    sink: Sink,
    interner: Arc<Mutex<Interner>>,
    outages: Arc<Outages>,
    list_format: ListFormat,
}

impl Shared {
    /// A follower of all objects of one kind.
    fn follower<C: Collector>(&self, client: &Client, selection: Selection, collector: C) -> Follower<C> {
        Follower::new(client, self.list_format, selection, collector, self.outages.clone())
    }
}

/// Lists and watches Services, EndpointSlices (or Endpoints), the own Node and ServiceCIDRs, for ever.
///
/// # Errors
///
/// If the configuration cannot work. Trouble with the server is retried instead.
pub async fn run(config: Config, sink: Sink) -> Result<Infallible, SourceError> {
    let (mut current, server) = client(&config).await?;
    info!(%server, "watching the API server");
    let outages = Arc::new(Outages::new(&server, config.observer.pause()));
    let shared = Shared { sink, interner: Arc::default(), outages, list_format: config.list_format };
    loop {
        tokio::select! {
            () = watch(&current, &config, shared.clone()) => {}
            () = shared.outages.lasts() => {}
        }
        // Certificates expire and servers move: the files may know more than they did at the start.
        match client(&config).await {
            Ok((renewed, _)) => current = renewed,
            Err(error) => {
                warn!(%error, "the API server's credentials cannot be read again; going on with the old ones")
            }
        }
    }
}

/// All watches, for ever, side by side: lists are read on as many processors as there are. They end with the future.
async fn watch(client: &Client, config: &Config, shared: Shared) {
    let mut watches = JoinSet::new();
    watches.spawn(services(client.clone(), shared.clone()));
    watches.spawn(endpoints(client.clone(), shared.clone()));
    watches.spawn(node(client.clone(), config.node_name.clone(), shared.clone()));
    watches.spawn(cidrs(client.clone(), config.service_cidrs, shared));
    while let Some(ended) = watches.join_next().await {
        // A mistake of ours ends the process, here as anywhere.
        if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
            std::panic::resume_unwind(panic);
        }
    }
    // Only watches that gave up come here, and that of Services never does.
    std::future::pending().await
}

async fn services(client: Client, shared: Shared) {
    let selection = Selection {
        labels: Some("!service.kubernetes.io/service-proxy-name".to_owned()),
        fields: None,
        // Servers before 1.21 do not know this field; headless Services are left out here anyway.
        optional_fields: Some("spec.clusterIP!=None".to_owned()),
    };
    let desk = Desk::<Services>::new(&shared);
    shared.follower(&client, selection, desk).run(Patience::Endless).await;
}

/// EndpointSlices; Endpoints if the server does not know the former.
async fn endpoints(client: Client, shared: Shared) {
    let labels = Some("!service.kubernetes.io/headless".to_owned());
    let selection = Selection { labels, ..Selection::default() };
    let desk = Desk::<Slices>::new(&shared);
    let follower = shared.follower(&client, selection.clone(), desk);
    follower.run(Patience::UntilUnknown).await;
    info!("the API server has no EndpointSlices (discovery.k8s.io/v1); watching Endpoints instead");
    let desk = EndpointsDesk::new(&shared);
    shared.follower(&client, selection, desk).run(Patience::Endless).await;
}

async fn node(client: Client, name: String, shared: Shared) {
    let selection = Selection { fields: Some(format!("metadata.name={name}")), ..Selection::default() };
    let desk = NodeDesk::new(&name, &shared);
    shared.follower(&client, selection, desk).run(Patience::Endless).await;
}

async fn cidrs(client: Client, wanted: ServiceCidrs, shared: Shared) {
    if wanted == ServiceCidrs::Watched {
        watch_cidrs(&client, &shared).await;
        info!(
            "the API server gives no ServiceCIDRs (an older cluster or an older role); going on without them"
        );
    }
    (shared.sink)(Event::ServiceCidrs(Vec::new()));
    if wanted == ServiceCidrs::Watched {
        loop {
            sleep(REFUSED_REST).await;
            watch_cidrs(&client, &shared).await;
        }
    }
}

/// Follows ServiceCIDRs until the server refuses the first list.
async fn watch_cidrs(client: &Client, shared: &Shared) {
    let desk = CidrDesk::new(shared);
    let follower = shared.follower(client, Selection::default(), desk);
    follower.run(Patience::UntilRefused).await;
}
