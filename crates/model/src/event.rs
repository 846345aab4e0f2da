//! What a source tells: objects that came, changed or went, and complaints about those it had to set aside.

use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{EndpointSlice, Node, Printable, Service, ServiceName, SliceName};

/// Kind, namespace and name of an object, for messages. Text from outside is kept as it came: whoever prints it
/// to a terminal, a page or a metric escapes it (`Display` here does, see [`Printable`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// `Service`, `EndpointSlice`, `Node`, `file`…
    pub kind: Arc<str>,
    /// Empty for cluster-scoped objects and files.
    pub namespace: Arc<str>,
    /// The name, or a file's path.
    pub name: Arc<str>,
}

impl ObjectName {
    /// A name from its parts.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }
}

impl From<&ServiceName> for ObjectName {
    fn from(name: &ServiceName) -> Self {
        Self { kind: "Service".into(), namespace: name.namespace.clone(), name: name.name.clone() }
    }
}

impl From<&SliceName> for ObjectName {
    fn from(name: &SliceName) -> Self {
        Self { kind: "EndpointSlice".into(), namespace: name.namespace.clone(), name: name.name.clone() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", Printable(&self.kind))?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", Printable(&self.namespace))?;
        }
        write!(f, "{}", Printable(&self.name))
    }
}

/// Something is wrong with an object. The rest of the cluster goes on without it, or without the part that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The object.
    pub object: ObjectName,
    /// What is wrong, where in the object, what was done about it and what the operator can do.
    pub problem: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, Printable(&self.problem))
    }
}

/// One thing that a source saw.
///
/// The plural variants carry a complete list: what they do not name is gone. A source sends them after its first
/// list and after every re-list, so that a broken watch never looks like "everything was deleted". Services and slices are
/// shared, because a source may have to keep them too.
#[derive(Clone, Debug)]
pub enum Event {
    /// All Services.
    Services(Vec<Arc<Service>>),
    /// One Service, new or changed.
    Service(Arc<Service>),
    /// A Service was deleted.
    ServiceGone(ServiceName),
    /// All EndpointSlices.
    Slices(Vec<Arc<EndpointSlice>>),
    /// One EndpointSlice, new or changed.
    Slice(Arc<EndpointSlice>),
    /// An EndpointSlice was deleted.
    SliceGone(SliceName),
    /// The own Node, new or changed.
    Node(Node),
    /// The own Node was deleted.
    NodeGone,
    /// The union of all ServiceCIDRs; none also where they cannot be known.
    ServiceCidrs(Vec<IpNet>),
    /// Several things that happened at once: nobody sees one without the others.
    Together(Vec<Event>),
    /// All complaints about one object; an empty list clears what was said of it before.
    Complaints(ObjectName, Vec<Complaint>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_drive_a_terminal() {
        let object = ObjectName::new("Service", "ns", "a\u{1b}[2J\nb");
        let complaint = Complaint { object, problem: "port 'x' of \u{202e}naïve".into() };
        let shown = r"Service ns/a\u{1b}[2J\nb: port 'x' of \u{202e}naïve";
        assert_eq!(complaint.to_string(), shown);
    }
}
