//! The objects of one file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;
use switchyard_model::{Complaint, EndpointSlice, Node, ObjectName, Service};

use super::document::{self, Documents};
use crate::convert::{self, Converted, FamilyWish, Findings, Interner, clip};
use crate::wire::{self, Lax, Meta, Object, Shape, Text};

/// Lists within lists are followed this far.
const MAX_LIST_DEPTH: usize = 4;
/// What an object without a namespace gets, as from `kubectl`.
const DEFAULT_NAMESPACE: &str = "default";

/// What a file holds.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Content {
    /// The Services that can be used, in order, and which cluster IPs each still needs.
    pub(super) services: Vec<(Arc<Service>, Option<Box<FamilyWish>>)>,
    /// The EndpointSlices, those made of Endpoints objects included, in order.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    /// Nodes, not only the own one, in order.
    pub(super) nodes: Vec<Node>,
    /// The ranges of all ServiceCIDRs.
    pub(super) cidrs: Vec<IpNet>,
    /// Complaints about objects.
    pub(super) complaints: Vec<(ObjectName, Vec<Complaint>)>,
    /// Complaints about the file.
    pub(super) file_complaints: Vec<Complaint>,
    /// Every document could be read.
    pub(super) is_whole: bool,
}

impl Content {
    /// Uses the values of an earlier content where they are equal, so that whoever has those keeps no second copy.
    pub(super) fn share_with(&mut self, earlier: &Self) {
        let known: HashMap<_, _> = earlier.services.iter().map(|(known, _)| (&known.name, known)).collect();
        for (service, _) in &mut self.services {
            if let Some(known) = known.get(&service.name).filter(|known| **known == service) {
                *service = (*known).clone();
            }
        }
        let known: HashMap<_, _> = earlier.slices.iter().map(|known| (&known.name, known)).collect();
        for slice in &mut self.slices {
            if let Some(known) = known.get(&slice.name).filter(|known| **known == slice) {
                *slice = (*known).clone();
            }
        }
    }
}

/// The name under which complaints about a file go.
pub(super) fn file_name(path: &Path) -> ObjectName {
    ObjectName::new("file", "", &path.to_string_lossy())
}

/// Reads the text of a file.
pub(super) fn read(path: &Path, text: &str, interner: &mut Interner) -> Content {
    let Documents { values, broken } = document::read(text);
    let mut reader = Reader { interner, content: Content::default(), ignored: BTreeMap::new() };
    for (line, value) in values {
        each_object(value, &mut |kind, api_version, value| reader.object(kind, api_version, value, line));
    }
    let Reader { mut content, ignored, .. } = reader;
    content.is_whole = broken.is_empty();
    let mut findings = Findings::default();
    broken.into_iter().for_each(|problem| findings.say(problem));
    for (kind, (line, count)) in ignored {
        let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
        findings.say(format!("{kind} at line {line}{times} is of no use to a proxy; it is ignored"));
    }
    content.file_complaints = findings.complaints(|| file_name(path));
    // A file is kept for as long as it stays as it is: no spare room.
    content.services.shrink_to_fit();
    content.slices.shrink_to_fit();
    content
}

/// Takes an object with its kind and API version.
pub(super) type Each<'a> = dyn FnMut(&str, &str, Value) + 'a;

/// Hands on one object, or all objects of a list. Items of a typed list need not name their kind.
pub(super) fn each_object(value: Value, each: &mut Each<'_>) {
    unfold(value, None, 0, each);
}

fn unfold(mut value: Value, kind_of_list: Option<&str>, depth: usize, each: &mut Each<'_>) {
    let text = |key| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut kind = text("kind");
    let api_version = text("apiVersion");
    if kind.is_empty() {
        kind.push_str(kind_of_list.unwrap_or_default());
    }
    let item_kind = kind.strip_suffix("List");
    if let (Some(item_kind), Some(Value::Array(items))) = (item_kind, value.get_mut("items"))
        && depth < MAX_LIST_DEPTH
    {
        let items = std::mem::take(items);
        for item in items {
            unfold(item, Some(item_kind).filter(|kind| !kind.is_empty()), depth + 1, each);
        }
        return;
    }
    each(&kind, &api_version, value);
}

struct Reader<'a> {
    interner: &'a mut Interner,
    content: Content,
    /// Kinds that were ignored: first line, count.
    ignored: BTreeMap<String, (usize, usize)>,
}

impl Reader<'_> {
    fn object(&mut self, kind: &str, api_version: &str, value: Value, line: usize) {
        match (kind, api_version) {
            ("Service", "v1" | "") => self.service(value),
            ("EndpointSlice", "discovery.k8s.io/v1" | "") => self.slice(value),
            ("Endpoints", "v1" | "") => self.endpoints(value),
            ("Node", "v1" | "") => self.node(value),
            ("ServiceCIDR", "networking.k8s.io/v1" | "networking.k8s.io/v1beta1" | "") => self.cidr(value),
            _ => self.ignore(kind, api_version, line),
        }
    }

    fn ignore(&mut self, kind: &str, api_version: &str, line: usize) {
        let kind = match (kind, api_version) {
            ("", _) => "a document without a kind".to_owned(),
            (kind, "") => format!("kind {}", clip(kind)),
            (kind, version) => format!("kind {} of {}", clip(kind), clip(version)),
        };
        self.ignored.entry(kind).or_insert((line, 0)).1 += 1;
    }

    /// Keeps the complaints about an object and hands on what it became.
    fn heard<T>(&mut self, object: ObjectName, converted: Converted<T>) -> Option<T> {
        if !converted.complaints.is_empty() {
            self.content.complaints.push((object, converted.complaints));
        }
        converted.value
    }

    fn service(&mut self, value: Value) {
        let mut wire: wire::Service = decode(value);
        default_namespace(&mut wire.metadata);
        let wish = convert::cluster_ip_wish(&wire);
        let converted = convert::service(&wire, self.interner);
        let service = self.heard(name_of(&wire), converted);
        self.content.services.extend(service.map(|service| (service.into(), wish.map(Box::new))));
    }

    fn slice(&mut self, value: Value) {
        let mut wire: wire::EndpointSlice = decode(value);
        default_namespace(&mut wire.metadata);
        // The API server would have filled in the names.
        if let Lax::Is(ports) = &mut wire.ports {
            for port in ports {
                if let Lax::Is(port) = port
                    && port.name == Lax::Absent
                {
                    port.name = Lax::Is(Text::default());
                }
            }
        }
        let converted = convert::slice(&wire, self.interner);
        let slice = self.heard(name_of(&wire), converted);
        self.content.slices.extend(slice.map(Arc::new));
    }

    fn endpoints(&mut self, value: Value) {
        let mut wire: wire::Endpoints = decode(value);
        default_namespace(&mut wire.metadata);
        let converted = convert::endpoints(&wire, self.interner);
        let slices = self.heard(name_of(&wire), converted);
        self.content.slices.extend(slices.into_iter().flatten().map(Arc::new));
    }

    fn node(&mut self, value: Value) {
        let wire: wire::Node = decode(value);
        let converted = convert::node(&wire, self.interner);
        let node = self.heard(name_of(&wire), converted);
        self.content.nodes.extend(node);
    }

    fn cidr(&mut self, value: Value) {
        let wire: wire::ServiceCidr = decode(value);
        let converted = convert::service_cidr(&wire);
        let cidrs = self.heard(name_of(&wire), converted);
        self.content.cidrs.extend(cidrs.into_iter().flatten());
    }
}

fn name_of<O: Object>(wire: &O) -> ObjectName {
    convert::object_name::<O>(wire.metadata())
}

/// Decoding a value that is already parsed cannot fail; if it did, the object would lack everything.
pub(super) fn decode<O: Shape + Default>(value: Value) -> O {
    match Lax::deserialize(value) {
        Ok(Lax::Is(object)) => object,
        Ok(Lax::Absent | Lax::Wrong(_)) | Err(_) => O::default(),
    }
}

pub(super) fn default_namespace(meta: &mut Lax<Meta>) {
    if let Lax::Is(meta) = meta
        && meta.namespace == Lax::Absent
    {
        meta.namespace = Lax::Is(DEFAULT_NAMESPACE.into());
    }
}
