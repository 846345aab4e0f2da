//! What is not kept, looked up when somebody asks: the addresses of a pod, and which Services have some labels.
//!
//! In: where objects come from, and a question. Out: the answer as of now, or one line that says why there is none and what to do. While nobody
//! asks, nothing of it costs memory or requests; a question is bounded in time and in what it may find.
//!
//! Which pods are known? Those that an EndpointSlice (in files also an Endpoints object) names as its target, in its own namespace: what a
//! slice says about pods of other namespaces is not believed, because its owner need not own those.

mod pods;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use switchyard_model::ServiceName;
use tokio::time::timeout;

use crate::cluster::{self, Extent, Trouble, Wanted};
use crate::convert::{is_dns_label, service_name};
use crate::selector::Selector;
use crate::wire::{PodSlice, ServiceHead};
use crate::{SourceError, manifests};
pub(crate) use pods::Search;

/// How long looking may take.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 20 });

/// Most Services that a selector may find.
const MAX_SERVICES: usize = 200_000;

/// Where to look.
#[derive(Clone, Debug)]
pub enum Origin {
    /// An API server.
    Cluster(cluster::Config),
    /// Files.
    Manifests(manifests::Config),
}

/// Pods of one name: their addresses, by namespace.
pub type Pods = BTreeMap<String, BTreeSet<IpAddr>>;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The source cannot be used at all.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The API server does not say.
    #[error("the API server cannot tell ({kind}{detail}); {advice}")]
    Server {
        /// What went wrong.
        kind: &'static str,
        /// More about it, after a colon; may be empty.
        detail: String,
        /// What to do.
        advice: &'static str,
    },
    /// It took too long.
    #[error("looking it up took longer than {} s; try again, or give a namespace", PATIENCE.as_secs())]
    Late,
    /// More than anybody can read.
    #[error("more than {MAX_SERVICES} Services match; give a narrower selector or a namespace")]
    TooMany,
    /// A file is broken: what it held before may be in use, but its names are not kept.
    #[error("manifest {} cannot be looked into: {problem}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl From<Trouble> for LookupError {
    fn from(trouble: Trouble) -> Self {
        let detail = match trouble.detail() {
            text if text.is_empty() => text,
            text => format!(": {}", text.replace(char::is_control, " ")),
        };
        Self::Server { kind: trouble.kind(), detail, advice: trouble.advice() }
    }
}

/// The pods of a name, in one namespace or in all.
///
/// # Errors
///
/// If it cannot be known. A pod that no slice names is not there, which is no error.
pub async fn pods(origin: &Origin, namespace: Option<&str>, name: &str) -> Result<Pods, LookupError> {
    if namespace.is_some_and(|namespace| !is_dns_label(namespace)) {
        return Ok(Pods::new());
    }
    let mut search = Search::new(namespace, name);
    match origin {
        Origin::Manifests(config) => {
            let (path, most) = (config.path.clone(), config.max_file_bytes);
            search = beside(move || manifests::look(&path, most, &mut search).map(|()| search)).await?;
        }
        Origin::Cluster(config) => {
            let wanted = wanted(config, namespace, None, Extent::Whole);
            list(config, &wanted, &mut |slice: &PodSlice| search.slice(slice)).await?;
        }
    }
    Ok(search.found())
}

/// The Services whose labels meet a selector, in one namespace or in all.
///
/// # Errors
///
/// If it cannot be known.
pub async fn services(
    origin: &Origin,
    namespace: Option<&str>,
    selector: &Selector,
) -> Result<BTreeSet<ServiceName>, LookupError> {
    if namespace.is_some_and(|namespace| !is_dns_label(namespace)) {
        return Ok(BTreeSet::new());
    }
    let found = match origin {
        Origin::Manifests(config) => {
            let (path, most, selector) = (config.path.clone(), config.max_file_bytes, selector.clone());
            let mut found = manifests::Matching::new(selector);
            beside(move || manifests::look(&path, most, &mut found).map(|()| found.names())).await?
        }
        Origin::Cluster(config) => {
            let wanted = wanted(config, namespace, Some(selector.to_string()), Extent::Metadata);
            let mut found = BTreeSet::new();
            let take = &mut |service: &ServiceHead| {
                if found.len() <= MAX_SERVICES {
                    found.extend(service_name(&service.metadata));
                }
            };
            list(config, &wanted, take).await?;
            found
        }
    };
    if found.len() > MAX_SERVICES { Err(LookupError::TooMany) } else { Ok(found) }
}

fn wanted<'a>(
    config: &cluster::Config,
    namespace: Option<&'a str>,
    labels: Option<String>,
    extent: Extent,
) -> Wanted<'a> {
    Wanted { namespace, labels, extent, format: config.list_format }
}

/// Asks with a client of its own, which is gone afterwards: nothing is held for the next question.
async fn list<O: crate::wire::Object>(
    config: &cluster::Config,
    wanted: &Wanted<'_>,
    each: &mut impl FnMut(&O),
) -> Result<(), LookupError> {
    let ask = async {
        let (client, _) = cluster::client(config).await?;
        Ok(cluster::pages(&client, wanted, each).await?)
    };
    timeout(PATIENCE, ask).await.unwrap_or(Err(LookupError::Late))
}

/// Reads files on a thread of its own, which ends with it: threads that stay would keep the memory that it took.
async fn beside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, LookupError> + Send + 'static,
) -> Result<T, LookupError> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let work = move || drop(send.send(read()));
    std::thread::Builder::new().name("lookup".into()).spawn(work).map_err(SourceError::Thread)?;
    match timeout(PATIENCE, receive).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => Err(SourceError::Ended.into()),
        Err(_) => Err(LookupError::Late),
    }
}
