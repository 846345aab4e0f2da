//! From flags to a client.

use std::path::Path;
use std::time::Duration;

use http::Uri;
use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::Config;
use super::observe::Observe;
use crate::SourceError;

/// A server that does not even accept a connection for so long counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than any watch lives, so that only a dead connection reaches it.
const READ_TIMEOUT: Duration = Duration::from_secs(310);

/// A client and the server's URL, for messages.
pub(crate) async fn client(config: &Config) -> Result<(Client, String), SourceError> {
    let mut client = client_config(config).await?;
    client.connect_timeout = Some(CONNECT_TIMEOUT);
    client.read_timeout = Some(READ_TIMEOUT);
    client.reset_reader_on_write = true;
    // Retrying is ours, so that it is logged and paced in one place.
    client.default_retry = false;
    if client.cluster_url.scheme_str() == Some("http") {
        // The certificates of this machine, which a small image has none of, would be read and never used.
        client.root_cert.get_or_insert_default();
    }
    let url = client.cluster_url.to_string();
    let host = client.cluster_url.authority().map(|host| host.as_str().into()).unwrap_or_default();
    let client = ClientBuilder::try_from(client)
        .map_err(|source| SourceError::Client { url: url.clone(), source: Box::new(source) })?;
    Ok((client.with_layer(&Observe { observer: config.observer.clone(), host }).build(), url))
}

async fn client_config(config: &Config) -> Result<kube::Config, SourceError> {
    match (&config.kubeconfig, &config.master) {
        (Some(path), master) => {
            let master = master.as_deref().map(|url| server_url(url, "https")).transpose()?;
            from_kubeconfig(path, master)
                .await
                .map_err(|source| SourceError::Kubeconfig { path: path.clone(), source: Box::new(source) })
        }
        (None, Some(master)) => Ok(kube::Config::new(server_url(master, "http")?)),
        (None, None) => kube::Config::incluster().map_err(|source| SourceError::InCluster(Box::new(source))),
    }
}

async fn from_kubeconfig(path: &Path, master: Option<Uri>) -> Result<kube::Config, KubeconfigError> {
    let mut kubeconfig = Kubeconfig::read_from(path)?;
    if let Some(master) = master {
        for named in &mut kubeconfig.clusters {
            named.cluster.get_or_insert_default().server = Some(master.to_string());
        }
    }
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}

/// A server URL; a scheme may be missing.
fn server_url(text: &str, default_scheme: &str) -> Result<Uri, SourceError> {
    let bad = |source| SourceError::ServerUrl { url: crate::convert::clip(text), source };
    let full = if text.contains("://") { text.to_owned() } else { format!("{default_scheme}://{text}") };
    let uri: Uri = full.parse().map_err(|source| bad(Some(source)))?;
    let is_usable =
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|h| !h.is_empty());
    if is_usable { Ok(uri) } else { Err(bad(None)) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cluster::{ListFormat, ServiceCidrs};

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
        clusters: [{name: k, cluster: {server: 'https://10.0.0.1:6443'}}]\n\
        contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {token: t}}]\n";

    async fn outcome(kubeconfig: Option<PathBuf>, master: Option<&str>) -> String {
        let config = Config {
            kubeconfig,
            master: master.map(str::to_owned),
            node_name: "n1".to_owned(),
            service_cidrs: ServiceCidrs::Ignored,
            list_format: ListFormat::Protobuf,
            observer: super::super::Observer::default(),
        };
        match client(&config).await {
            Ok((_, url)) => url,
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn master_kubeconfig_or_both() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let path = directory.path().join("config");
        std::fs::write(&path, KUBECONFIG).expect("written");
        let path = Some(path);
        assert_eq!(outcome(path.clone(), None).await, "https://10.0.0.1:6443/");
        assert_eq!(outcome(path.clone(), Some("https://other:1")).await, "https://other:1/");
        assert_eq!(outcome(path, Some("other:1")).await, "https://other:1/");
        assert_eq!(outcome(None, Some("http://127.0.0.1:8080")).await, "http://127.0.0.1:8080/");
        assert_eq!(outcome(None, Some("127.0.0.1:8080")).await, "http://127.0.0.1:8080/");
        assert!(outcome(None, None).await.starts_with("no kubeconfig was given"));
        for bad in ["ftp://x", "http://", "a b", ""] {
            assert!(outcome(None, Some(bad)).await.contains("is not the URL of an API server"), "{bad}");
        }
        let nowhere = outcome(Some(directory.path().join("nowhere")), None).await;
        assert!(nowhere.contains("nowhere cannot be used"), "{nowhere}");
    }
}
