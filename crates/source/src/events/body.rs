//! A notice as the API wants it.

use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Value, json};
use switchyard_model::Printable;

use super::series::{Occurrences, Post};
use super::{Notice, Severity};
use crate::convert::{is_dns_label, is_dns_subdomain};

/// The API's limits.
const MAX_NOTE: usize = 1024;
const MAX_WORD: usize = 128;
/// Room for a dot and a time after the object's name.
const MAX_STEM: usize = 200;
/// Where Events about objects without a namespace go.
const DEFAULT_NAMESPACE: &str = "default";
/// As kube-proxy's, so that what looks for its Events finds ours.
const CONTROLLER: &str = "kube-proxy";

/// The namespace in which an Event is written; nothing if there can be no Event about such an object.
pub(super) fn namespace(notice: &Notice) -> Option<&str> {
    api_version(notice)?;
    match &*notice.regarding.namespace {
        "" => Some(DEFAULT_NAMESPACE),
        namespace => Some(namespace).filter(|namespace| is_dns_label(namespace)),
    }
}

fn api_version(notice: &Notice) -> Option<&'static str> {
    match &*notice.regarding.kind {
        "Service" | "Endpoints" | "Node" => Some("v1"),
        "EndpointSlice" => Some("discovery.k8s.io/v1"),
        "ServiceCIDR" => Some("networking.k8s.io/v1"),
        _ => None,
    }
}

/// The name of an Event, of the object's name and a number that is used once.
pub(super) fn name(notice: &Notice, number: u128) -> String {
    let object = &*notice.regarding.name;
    let stem = if object.len() <= MAX_STEM && is_dns_subdomain(object) { object } else { "object" };
    format!("{stem}.{number:x}")
}

/// The path under which Events of a namespace are.
pub(super) fn path(namespace: &str) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
}

/// A whole Event.
pub(super) fn whole(post: &Post, namespace: &str, instance: &str) -> Value {
    let Notice { regarding, severity, reason, action, note } = &post.notice;
    let mut about = json!({
        "apiVersion": api_version(&post.notice), "kind": &*regarding.kind, "name": &*regarding.name,
    });
    let mut event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "name": post.name, "namespace": namespace },
        "eventTime": micro_time(post.began),
        "reportingController": CONTROLLER,
        "reportingInstance": cut(instance, MAX_WORD),
        "action": cut(action, MAX_WORD),
        "reason": cut(reason, MAX_WORD),
        "note": cut(note, MAX_NOTE),
        "type": match severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        },
    });
    if let Some(about) = about.as_object_mut() {
        if !regarding.namespace.is_empty() {
            about.insert("namespace".to_owned(), json!(&*regarding.namespace));
        }
        if &*regarding.kind == "Node" {
            // As the kubelet does: `kubectl describe node` looks for Events by this, and finds none without it.
            about.insert("uid".to_owned(), json!(&*regarding.name));
        }
    }
    if let Some(event) = event.as_object_mut() {
        event.insert("regarding".to_owned(), about);
        event.extend(post.series.as_ref().map(|series| ("series".to_owned(), occurrences(series))));
    }
    event
}

/// What is new about an Event that is there already.
pub(super) fn update(series: &Occurrences) -> Value {
    json!({ "series": occurrences(series) })
}

fn occurrences(series: &Occurrences) -> Value {
    json!({ "count": series.count, "lastObservedTime": micro_time(series.last) })
}

/// Six digits after the point, as the API's MicroTime has.
fn micro_time(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Printable text of at most so many bytes.
fn cut(text: &str, bytes: usize) -> String {
    let text = Printable(text).to_string();
    if text.len() <= bytes {
        return text;
    }
    const MORE: char = '…';
    let room = bytes.saturating_sub(MORE.len_utf8());
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text.get(..end).unwrap_or_default().chars().chain([MORE]).collect()
}
