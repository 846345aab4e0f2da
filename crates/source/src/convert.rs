//! Conversion of wire objects into model values.
//!
//! In: one object of [`crate::wire`]. Out: [`Converted`]: the value, or nothing if the object is not for us or had to
//! be set aside, and complaints about whatever is wrong with it.
//!
//! Invariants
//! - No conversion fails or panics; what is wrong with a part costs that part only.
//! - Every name, zone and port name that gets through obeys Kubernetes' rules, so it holds no quotes, blanks or control
//!   characters and may be printed into a rule or a page.
//! - Complaints are bounded in number and length, whatever the object holds.

mod endpoints;
mod findings;
mod intern;
mod node;
mod service;
mod slice;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use endpoints::endpoints;
pub(crate) use findings::{Converted, Findings};
pub(crate) use intern::Interner;
pub(crate) use node::{node, service_cidr};
pub(crate) use service::{FamilyWish, cluster_ip_wish, service};
pub(crate) use slice::slice;
pub(crate) use text::{address, clip, is_dns_label, is_dns_subdomain, is_label_value};

use switchyard_model::{ObjectName, ServiceName, SliceName};

use crate::wire::{Lax, Meta, Object};

/// What an object calls itself, valid or not, cut to a printable length.
pub(crate) fn object_name<O: Object>(meta: &Lax<Meta>) -> ObjectName {
    let (namespace, name) = meta.as_ref().map_or(("", ""), |m| (m.namespace.text(), m.name.text()));
    ObjectName::new(O::KIND, &clip(namespace), &clip(name))
}

/// Namespace and name, if both are valid; otherwise a finding that sets the object aside.
fn namespaced(
    meta: &Lax<Meta>,
    is_valid_name: fn(&str) -> bool,
    interner: &mut Interner,
    findings: &mut Findings,
) -> Option<(std::sync::Arc<str>, std::sync::Arc<str>)> {
    let meta = findings.required(meta, "metadata")?;
    let namespace = findings.required(&meta.namespace, "metadata.namespace")?;
    let name = findings.required(&meta.name, "metadata.name")?;
    if !is_dns_label(namespace) {
        findings.set_aside("metadata.namespace", namespace, "not a DNS label");
        return None;
    }
    if !is_valid_name(name) {
        findings.set_aside("metadata.name", name, "not a valid name");
        return None;
    }
    Some((interner.intern(namespace), name.as_str().into()))
}

/// The Service that the object's own name means, whatever else is wrong with it.
pub(crate) fn service_name(meta: &Lax<Meta>) -> Option<ServiceName> {
    let meta = meta.as_ref()?;
    let (namespace, name) = (meta.namespace.text(), meta.name.text());
    (is_dns_label(namespace) && is_dns_label(name)).then(|| ServiceName::new(namespace, name))
}

/// The EndpointSlice that the object's own name means, whatever else is wrong with it.
pub(crate) fn slice_name(meta: &Lax<Meta>) -> Option<SliceName> {
    let meta = meta.as_ref()?;
    let (namespace, name) = (meta.namespace.text(), meta.name.text());
    (is_dns_label(namespace) && is_dns_subdomain(name)).then(|| SliceName::new(namespace, name))
}
