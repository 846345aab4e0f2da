//! The made-up cluster of [`super::cluster`] as files: Lists of Services and EndpointSlices in JSON.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::cluster::{CLUSTER_IPS, ENDPOINTS, NEW_POD_IPS, POD_IPS, number};

/// Services in one file.
const PER_FILE: u32 = 500;

/// A directory of files, removed when dropped.
pub(super) struct Manifests {
    path: PathBuf,
    /// Around it, so that no other program writes beside it: the agent would look.
    _directory: TempDir,
    services: u32,
    /// Services with a replaced endpoint. They stay changed, or a second change in a file would undo the first.
    changed: BTreeSet<u32>,
}

impl Manifests {
    pub(super) fn write(services: u32) -> Result<Self> {
        let directory = TempDir::with_prefix("switchyard-bench-")?;
        let path = directory.path().join("manifests");
        fs::create_dir(&path)?;
        let manifests = Self { path, _directory: directory, services, changed: BTreeSet::new() };
        for first in (0..services).step_by(PER_FILE as usize) {
            manifests.put(first)?;
        }
        Ok(manifests)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces one endpoint of a Service: the file that holds it is renamed into place.
    pub(super) fn replace_endpoint(&mut self, service: u32) -> Result<()> {
        self.changed.insert(service);
        self.put(service / PER_FILE * PER_FILE)
    }

    fn put(&self, first: u32) -> Result<()> {
        let range = first..self.services.min(first + PER_FILE);
        let items: Vec<Value> =
            range.flat_map(|index| [service(index), slice(index, self.changed.contains(&index))]).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let target = self.path().join(format!("services-{first:05}.json"));
        let hidden: PathBuf = self.path().join(".new");
        fs::write(&hidden, list.to_string()).context("cannot write manifests")?;
        fs::rename(hidden, target).context("cannot put manifests into place")
    }
}

fn namespace(index: u32) -> String {
    format!("team-{}", index % 100)
}

fn service(index: u32) -> Value {
    let address = number(CLUSTER_IPS, index);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace(index), "name": format!("service-{index}")},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    })
}

fn slice(index: u32, is_changed: bool) -> Value {
    let address = |offset: u32| -> IpAddr {
        let start: Ipv4Addr = if is_changed && offset == 0 { NEW_POD_IPS } else { POD_IPS };
        number(start, index * ENDPOINTS + offset)
    };
    let endpoint = |offset: u32| {
        json!({
            "addresses": [address(offset)],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("n{}", index % 50),
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace(index),
            "name": format!("service-{index}-abcde"),
            "labels": {"kubernetes.io/service-name": format!("service-{index}")},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (0..ENDPOINTS).map(endpoint).collect::<Vec<_>>(),
    })
}
