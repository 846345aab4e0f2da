//! Very many Services, put straight into the API server's store.
//!
//! In: one Service that the API server made, with its slice and the claim of its address. Out: copies of them under other names, which the
//! API server serves like any other object: they have everything that it adds to what it makes, managed fields included.
//!
//! Why not through the API? For each new Service, kube-apiserver 1.36 lists the addresses of all others. 10,000 take minutes, and 50,000
//! would take an hour.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::e2e::api::Api;
use crate::e2e::bulk::Crowd;
use crate::e2e::control_plane::ControlPlane;

/// Changes in one transaction; etcd takes 128.
const TOGETHER: usize = 120;

/// How long the API server may take to notice.
const PATIENCE: Duration = Duration::from_secs(120);

const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// What copies are made of.
pub(crate) struct Template {
    service: Value,
    slice: Value,
    address: Value,
}

impl Template {
    /// Service number `n`, as the API server has it.
    pub(crate) fn of(api: &Api, crowd: &Crowd, n: u32) -> anyhow::Result<Self> {
        let read = |path: String| api.read(&path).map_err(|refused| anyhow!("{path}: {refused:?}"));
        Ok(Self {
            service: read(crowd.service_path(n))?,
            slice: read(crowd.slice_path(n))?,
            address: read(format!("{ADDRESSES}/{}", crowd.cluster_ip(n)))?,
        })
    }

    /// Puts copies with these numbers into the store, and waits until the API server has them.
    pub(crate) fn copy(
        &self,
        control_plane: &ControlPlane,
        crowd: &Crowd,
        numbers: Range<u32>,
        endpoints: impl Fn(u32) -> Vec<String>,
    ) -> anyhow::Result<()> {
        let Some(last) = numbers.clone().next_back() else { return Ok(()) };
        let all: Vec<u32> = numbers.collect();
        for some in all.chunks(TOGETHER / 3) {
            let puts: Vec<Value> =
                some.iter().flat_map(|n| self.puts(crowd, *n, &endpoints(*n))).map(put).collect();
            let answer = control_plane.etcd("/v3/kv/txn", &json!({ "success": puts }));
            ensure!(answer.contains("\"succeeded\":true"), "etcd does not take Services: {answer}");
        }
        let api = control_plane.api();
        let begin = Instant::now();
        // Version 0 asks for what the API server has in memory, which is what proxies are given.
        let paths =
            [crowd.service_path(last), crowd.slice_path(last)].map(|path| path + "?resourceVersion=0");
        while !paths.iter().all(|path| api.read(path).is_ok()) {
            ensure!(begin.elapsed() < PATIENCE, "the API server does not see what is in its store");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Keys and objects of one Service.
    fn puts(&self, crowd: &Crowd, n: u32, endpoints: &[String]) -> [(String, Value); 3] {
        let (namespace, name, ip) = (crowd.namespace(), Crowd::name(n), crowd.cluster_ip(n));
        let service = crowd.service(n);
        let slice = crowd.slice(n, endpoints);
        [
            (
                format!("/registry/services/specs/{namespace}/{name}"),
                like(&self.service, &service, (1, n), &["/spec/clusterIP", "/spec/clusterIPs"]),
            ),
            (
                format!("/registry/endpointslices/{namespace}/{name}"),
                like(&self.slice, &slice, (2, n), &["/metadata/labels", "/endpoints"]),
            ),
            (
                format!("/registry/ipaddresses/{ip}"),
                like(
                    &self.address,
                    &json!({
                        "metadata": { "name": ip },
                        "spec": { "parentRef": { "resource": "services", "namespace": namespace, "name": name } },
                    }),
                    (3, n),
                    &["/spec/parentRef"],
                ),
            ),
        ]
    }
}

/// A copy of `template` with the name of `own`, and what is at `places` there.
fn like(template: &Value, own: &Value, (kind, n): (u32, u32), places: &[&str]) -> Value {
    let mut copy = template.clone();
    let metadata = copy.pointer_mut("/metadata").and_then(Value::as_object_mut).unwrap();
    // The store knows it better.
    metadata.remove("resourceVersion");
    metadata.insert("uid".to_owned(), format!("{kind:08x}-0000-4000-8000-{n:012x}").into());
    for place in ["/metadata/name", "/metadata/namespace"].iter().chain(places) {
        if let (Some(to), Some(from)) = (copy.pointer_mut(place), own.pointer(place)) {
            *to = from.clone();
        }
    }
    copy
}

fn put((key, value): (String, Value)) -> Value {
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    json!({ "requestPut": { "key": encode(&key), "value": encode(&value.to_string()) } })
}
