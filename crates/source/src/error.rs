//! Why a source cannot run at all. Trouble that may pass is retried instead and never returned.

use std::path::PathBuf;

/// A configuration that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The kubeconfig is missing, unreadable or wrong.
    #[error("kubeconfig {} cannot be used; check the file that --kubeconfig or the config file names", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// There is no kubeconfig, and this is not a pod with a service account.
    #[error(
        "no kubeconfig was given and the in-cluster configuration is not there; give --kubeconfig or --master"
    )]
    InCluster(#[source] Box<kube::config::InClusterError>),
    /// `--master` is not a URL.
    #[error("`{url}` is not the URL of an API server; give --master as https://host:port")]
    ServerUrl {
        /// What was given.
        url: String,
        /// Why it is no URL.
        #[source]
        source: Option<http::uri::InvalidUri>,
    },
    /// Certificates, keys or tokens cannot be used.
    #[error("no client for API server {url} can be set up; check certificates and keys of the kubeconfig")]
    Client {
        /// The server.
        url: String,
        /// What is wrong.
        #[source]
        source: Box<kube::Error>,
    },
    /// Manifests cannot be read.
    #[error("manifests {} cannot be read; check the path and its permissions", path.display())]
    Manifests {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The thread that reads manifests could not be started.
    #[error("cannot start the thread that reads manifests; look for a limit on threads")]
    Thread(#[source] std::io::Error),
    /// The thread that reads manifests ended, which it never does by itself.
    #[error("the thread that reads manifests ended; please report it with the log")]
    Ended,
}
