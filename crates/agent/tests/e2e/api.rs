//! Objects of a real API server, over plain HTTP on the socket of the control plane.
//!
//! In: Kubernetes objects as JSON, as they stand in manifests. Out: what the API server says to them. [`Api::put_all`] makes
//! Services and EndpointSlices those of a list, with as few writes as that takes; what the API server owns stays.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

/// No answer takes longer: the API server itself gives up after a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// The lists of what a proxy reads and a test writes.
const LISTS: [&str; 2] = ["/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"];

/// Scenarios whose objects no API server has, each with the reason.
const IMPOSSIBLE: [(&str, &str); 2] = [
    ("same-node-port", "two Services cannot have one node port"),
    ("service-cidrs", "the ranges of a ServiceCIDR cannot be changed"),
];

/// True for a scenario that cannot be played through the API.
pub(crate) fn is_impossible(scenario: &str) -> bool {
    IMPOSSIBLE.iter().any(|(name, _)| scenario == *name)
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    socket: PathBuf,
}

/// The API server said no.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the API server says {}: {}", self.status, self.message)
    }
}

impl std::error::Error for Refused {}

type Answer = Result<Value, Refused>;

impl Api {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// POST to a list.
    pub(crate) fn create(&self, list: &str, object: &Value) -> Answer {
        self.call("POST", list, Some(object))
    }

    /// GET.
    pub(crate) fn read(&self, path: &str) -> Answer {
        self.call("GET", path, None)
    }

    /// The items of a list.
    pub(crate) fn items(&self, list: &str) -> Vec<Value> {
        let mut answer = self.read(list).unwrap();
        answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
    }

    /// DELETE.
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, None)
    }

    /// Changes some fields (a JSON merge patch).
    pub(crate) fn patch(&self, path: &str, change: &Value) -> Answer {
        self.send("PATCH", path, "application/merge-patch+json", Some(change))
    }

    /// Makes a namespace if it is not there.
    pub(crate) fn ensure_namespace(&self, name: &str) {
        match self.create("/api/v1/namespaces", &json!({ "metadata": { "name": name } })) {
            Err(refused) if refused.status != 409 => panic!("namespace {name}: {refused}"),
            _ => {}
        }
    }

    /// Deletes all Services and EndpointSlices: addresses and ports of other Services are free again.
    pub(crate) fn clear(&self) -> Result<(), Refused> {
        self.put_all(&Value::Null)
    }

    /// Makes the objects those of a `kind: List`.
    pub(crate) fn put_all(&self, list: &Value) -> Result<(), Refused> {
        let mut wanted: BTreeMap<String, Value> = BTreeMap::new();
        for object in list.get("items").and_then(Value::as_array).into_iter().flatten() {
            wanted.insert(path_of(object), admissible(object.clone()));
        }
        let mut present: BTreeMap<String, Value> = BTreeMap::new();
        for list in LISTS {
            for object in self.items(list) {
                present.insert(path_of(&typed(object, list)), Value::Null);
            }
        }
        present.retain(|path, _| !path.contains("/namespaces/default/") || !path.ends_with("/kubernetes"));
        for path in present.keys().filter(|path| !wanted.contains_key(*path)) {
            self.delete(path)?;
        }
        wanted.iter().try_for_each(|(path, object)| self.put(path, object))
    }

    /// Makes one object what it should be, status included.
    fn put(&self, path: &str, object: &Value) -> Result<(), Refused> {
        if let Some(namespace) = text(object, "/metadata/namespace") {
            self.ensure_namespace(namespace);
        }
        let list = path.rsplit_once('/').unwrap().0;
        let mut stored = match self.read(path) {
            Ok(present) => self.call("PUT", path, Some(&with_version(object, &present)))?,
            Err(refused) if refused.status == 404 => self.create(list, object)?,
            Err(refused) => return Err(refused),
        };
        let status = object.get("status").filter(|status| Some(*status) != stored.get("status"));
        if let (Some(status), Some(fields)) = (status, stored.as_object_mut()) {
            fields.insert("status".into(), status.clone());
            self.call("PUT", &format!("{path}/status"), Some(&stored))?;
        }
        Ok(())
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.send(method, path, "application/json", body)
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: Option<&Value>) -> Answer {
        let (status, text) = self.exchange(method, path, kind, body).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({ "message": text }));
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let message = value.get("message").and_then(Value::as_str).unwrap_or_default();
        Err(Refused { status, message: format!("{message} ({method} {path})") })
    }

    /// In HTTP 1.0 an answer ends with its connection, and never comes in chunks.
    fn exchange(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> std::io::Result<(u16, String)> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.0\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        Ok((status, answer.split_once("\r\n\r\n").unwrap_or_default().1.to_owned()))
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// Where an object is.
fn path_of(object: &Value) -> String {
    let kind = text(object, "/kind").unwrap_or_default();
    let name = text(object, "/metadata/name").unwrap_or_default();
    let namespace = text(object, "/metadata/namespace").unwrap_or_default();
    match kind {
        "Node" => format!("/api/v1/nodes/{name}"),
        "Service" => format!("/api/v1/namespaces/{namespace}/services/{name}"),
        "EndpointSlice" => format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"),
        other => panic!("the test does not know where a {other} is"),
    }
}

/// Items of a list do not say what they are.
fn typed(mut object: Value, list: &str) -> Value {
    let kind = match list.rsplit('/').next() {
        Some("services") => "Service",
        _ => "EndpointSlice",
    };
    object.as_object_mut().unwrap().insert("kind".into(), json!(kind));
    object
}

/// An update says which version it changes.
fn with_version(object: &Value, present: &Value) -> Value {
    let mut object = object.clone();
    let version = present.pointer("/metadata/resourceVersion").cloned();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).unwrap();
    metadata.insert("resourceVersion".into(), version.unwrap_or_default());
    object
}

/// Without fields that a proxy ignores and the API server refuses: a policy for traffic from outside where none can come, and zeros.
fn admissible(mut object: Value) -> Value {
    let is_service = text(&object, "/kind") == Some("Service");
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| is_service) else {
        return object;
    };
    let is_internal = spec.get("type").is_none_or(|kind| kind == "ClusterIP");
    let is_empty = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if is_internal && is_empty(spec.get("externalIPs")) {
        spec.remove("externalTrafficPolicy");
    }
    if spec.get("healthCheckNodePort").is_some_and(|port| port == 0) {
        spec.remove("healthCheckNodePort");
    }
    let is_dual = spec.get("clusterIPs").and_then(Value::as_array).is_some_and(|ips| ips.len() == 2);
    spec.insert("ipFamilyPolicy".into(), json!(if is_dual { "RequireDualStack" } else { "SingleStack" }));
    let is_balanced = spec.get("type").is_some_and(|kind| kind == "LoadBalancer");
    if !is_balanced {
        object.as_object_mut().unwrap().remove("status");
    }
    object
}
