//! The archive around a layer: blobs by their digests, and the documents that lead to them.
//!
//! In: a name, the command, one layer. Out: an OCI image layout in a tar file, with the one file more (`manifest.json`) by which
//! older engines find the same blobs.

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tar::Archive;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// The archive, and the digest of the image's manifest.
pub(super) fn archive(name: &str, command: &[&str], layer: &[u8]) -> Result<(Vec<u8>, String)> {
    let version = env!("CARGO_PKG_VERSION");
    let reference = format!("{name}:{version}");
    let config = document(&config(command, &digest(layer), version))?;
    let manifest = document(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, layer)],
    }))?;
    let mut entry = descriptor(MANIFEST, &manifest);
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("platform".to_owned(), json!({ "os": "linux", "architecture": architecture() }));
        let names = json!({
            "org.opencontainers.image.ref.name": version,
            "io.containerd.image.name": format!("docker.io/library/{reference}"),
        });
        entry.insert("annotations".to_owned(), names);
    }
    let index = document(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    }))?;
    let older = document(&json!([{
        "Config": blob(&config),
        "RepoTags": [reference],
        "Layers": [blob(layer)],
    }]))?;
    let mut archive = Archive::default();
    archive.file("oci-layout", &document(&json!({ "imageLayoutVersion": "1.0.0" }))?)?;
    archive.file("index.json", &index)?;
    archive.file("manifest.json", &older)?;
    for bytes in [config.as_slice(), manifest.as_slice(), layer] {
        archive.file(&blob(bytes), bytes)?;
    }
    Ok((archive.finish(), digest(&manifest)))
}

fn config(command: &[&str], layer: &str, version: &str) -> Value {
    json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": command,
            "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Labels": {
                "org.opencontainers.image.title": "Switchyard",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
        "history": [{ "created_by": "make image" }],
    })
}

/// In the words of Go, which registries use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() })
}

fn document(value: &Value) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}

pub(super) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
