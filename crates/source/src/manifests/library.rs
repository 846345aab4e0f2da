//! All files together: what is known of each, and the lists that they make.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ipnet::IpNet;
use switchyard_model::{Complaint, EndpointSlice, Event, Node, ObjectName, Service, ServiceName};

use super::Config;
use super::allocate::Allocator;
use super::content::{self, Content, file_name};
use super::files::{self, Stamp};
use crate::Sink;
use crate::convert::{FamilyWish, Interner};
use crate::ledger::Ledger;

/// Keeps every file's last good content and sends the lists when they change.
pub(super) struct Library {
    config: Config,
    sink: Sink,
    ledger: Ledger,
    interner: Interner,
    allocator: Allocator,
    files: BTreeMap<PathBuf, Known>,
    path_problem: Option<String>,
    was_listed: bool,
    unsent: Unsent,
    sent: Option<Sent>,
}

/// What is known of one file.
#[derive(Default)]
struct Known {
    stamp: Option<Stamp>,
    content: Content,
    /// What is wrong with the file's present state, if its content is from an earlier one.
    outdated: Vec<Complaint>,
}

/// What may differ from what was sent. Asked of each file when it changes, so that no second copy of all objects is
/// kept to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unsent {
    services: bool,
    slices: bool,
    /// Anything else: Nodes, ranges, complaints.
    rest: bool,
}

impl Unsent {
    const NOTHING: Self = Self { services: false, slices: false, rest: false };
    const EVERYTHING: Self = Self { services: true, slices: true, rest: true };

    /// One file's content is replaced by another.
    fn note(&mut self, old: &Content, new: &Content) {
        self.services |= old.services != new.services;
        self.slices |= old.slices != new.slices;
        self.rest |= old.nodes != new.nodes
            || old.cidrs != new.cidrs
            || old.complaints != new.complaints
            || old.file_complaints != new.file_complaints
            || old.is_whole != new.is_whole;
    }
}

/// The small lists as they were sent.
#[derive(Debug)]
struct Sent {
    node: Node,
    cidrs: Vec<IpNet>,
}

/// Everything that the files say.
#[derive(Debug)]
struct Lists {
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
    node: Node,
    cidrs: Vec<IpNet>,
}

type Complaints = BTreeMap<ObjectName, Vec<Complaint>>;

impl Library {
    /// Nothing is read yet.
    pub(super) fn new(config: Config, sink: Sink) -> Self {
        Self {
            ledger: Ledger::new(sink.clone()),
            allocator: Allocator::new(config.service_ranges.clone()),
            config,
            sink,
            interner: Interner::default(),
            files: BTreeMap::new(),
            path_problem: None,
            was_listed: false,
            unsent: Unsent::EVERYTHING,
            sent: None,
        }
    }

    /// Reads what changed and sends what follows from it.
    pub(super) fn refresh(&mut self) {
        let problem = match files::list(&self.config.path) {
            Ok(paths) => {
                self.was_listed = true;
                self.files.retain(|path, known| {
                    let stays = paths.binary_search(path).is_ok();
                    if !stays {
                        self.unsent.note(&known.content, &Content::default());
                        self.unsent.rest = true;
                    }
                    stays
                });
                for path in paths {
                    self.refresh_file(&path);
                }
                None
            }
            Err(error) => {
                let kept =
                    if self.was_listed { "what it held before stays in use" } else { "nothing is proxied" };
                Some(format!("it cannot be read ({error}); {kept} until --manifests names a readable path"))
            }
        };
        self.unsent.rest |= problem != self.path_problem;
        self.path_problem = problem;
        if self.unsent != Unsent::NOTHING {
            self.send();
        }
    }

    fn refresh_file(&mut self, path: &Path) {
        let stamp = Stamp::of(path).ok();
        let known = self.files.entry(path.to_owned()).or_default();
        let is_settled = stamp.is_some_and(|stamp| stamp.is_settled(SystemTime::now()));
        if is_settled && known.stamp == stamp {
            return;
        }
        let (content, problem) = match files::read(path, self.config.max_file_bytes) {
            Ok(text) => (content::read(path, &text, &mut self.interner), None),
            Err(problem) => (Content::default(), Some(problem)),
        };
        // A file that cannot be read is tried again each time: a change of permissions does not move its stamp.
        known.stamp = stamp.filter(|_| is_settled && problem.is_none());
        let is_good = problem.is_none() && content.is_whole;
        let mut outdated = Vec::new();
        if is_good || (problem.is_none() && !known.content.is_whole) {
            self.unsent.note(&known.content, &content);
            known.content = content;
        } else {
            outdated = content.file_complaints;
            let object = file_name(path);
            let mut say = |problem: String| outdated.push(Complaint { object: object.clone(), problem });
            problem.into_iter().for_each(&mut say);
            if known.content.is_whole {
                say("the last good content of this file stays in use until the file is corrected".to_owned());
            }
        }
        self.unsent.rest |= known.outdated != outdated;
        known.outdated = outdated;
    }

    fn send(&mut self) {
        let mut complaints = Complaints::new();
        let lists = self.assemble(&mut complaints);
        if let Some(problem) = &self.path_problem {
            let object = file_name(&self.config.path);
            let complaint = Complaint { object: object.clone(), problem: problem.clone() };
            complaints.entry(object).or_default().push(complaint);
        }
        self.ledger.replace(complaints);
        if self.was_listed && !self.is_hopeless(&lists) {
            self.send_lists(lists);
        }
    }

    /// At the start, broken files and nothing else: an empty list would make the proxy forget what an earlier run wrote,
    /// and that for a slip of the pen.
    fn is_hopeless(&self, lists: &Lists) -> bool {
        let is_empty = lists.services.is_empty() && lists.slices.is_empty();
        self.sent.is_none() && is_empty && self.files.values().any(|known| !known.content.is_whole)
    }

    /// Sends the lists that may differ from what was sent before; the first time, all of them.
    fn send_lists(&mut self, lists: Lists) {
        let Lists { services, slices, node, cidrs } = lists;
        let before = self.sent.as_ref();
        let is_first = before.is_none();
        if before.is_none_or(|before| before.node != node) {
            (self.sink)(Event::Node(node.clone()));
        }
        if before.is_none_or(|before| before.cidrs != cidrs) {
            (self.sink)(Event::ServiceCidrs(cidrs.clone()));
        }
        if is_first || self.unsent.services {
            (self.sink)(Event::Services(services));
        }
        if is_first || self.unsent.slices {
            (self.sink)(Event::Slices(slices));
        }
        self.sent = Some(Sent { node, cidrs });
        self.unsent = Unsent::NOTHING;
    }

    fn assemble(&mut self, complaints: &mut Complaints) -> Lists {
        let mut heap = Heap::new(&self.config.node_name);
        for (path, known) in &self.files {
            let file = file_name(path);
            let about_file =
                if known.outdated.is_empty() { &known.content.file_complaints } else { &known.outdated };
            if !about_file.is_empty() {
                complaints.entry(file).or_default().extend(about_file.iter().cloned());
            }
            for (object, list) in &known.content.complaints {
                complaints.entry(object.clone()).or_default().extend(list.iter().cloned());
            }
            heap.add(&known.content, path, complaints);
        }
        for (name, why) in self.allocator.assign(&mut heap.services) {
            let problem =
                format!("spec.clusterIP is empty and {why}; the Service has no cluster IP until one is set");
            complain(ObjectName::from(&name), problem, complaints);
        }
        Lists {
            services: heap.services.into_values().map(|(service, _)| service).collect(),
            slices: heap.slices.into_values().collect(),
            node: heap.node,
            cidrs: heap.cidrs,
        }
    }
}

fn complain(object: ObjectName, problem: String, complaints: &mut Complaints) {
    complaints.entry(object.clone()).or_default().push(Complaint { object, problem });
}

/// Objects of all files by name.
struct Heap<'a> {
    services: BTreeMap<ServiceName, (Service, Option<FamilyWish>)>,
    slices: BTreeMap<switchyard_model::SliceName, EndpointSlice>,
    node: Node,
    cidrs: Vec<IpNet>,
    origins: BTreeMap<ObjectName, &'a Path>,
}

impl<'a> Heap<'a> {
    fn new(node_name: &str) -> Self {
        Self {
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            node: Node { name: Arc::from(node_name), ..Node::default() },
            cidrs: Vec::new(),
            origins: BTreeMap::new(),
        }
    }

    /// Adds the objects of a file. Of two objects with one name the later one, in order of paths, is used.
    fn add(&mut self, content: &Content, path: &'a Path, complaints: &mut Complaints) {
        for (service, wish) in &content.services {
            self.note(ObjectName::from(&service.name), path, complaints);
            self.services.insert(service.name.clone(), (service.clone(), wish.clone()));
        }
        for slice in &content.slices {
            self.note(ObjectName::from(&slice.name), path, complaints);
            self.slices.insert(slice.name.clone(), slice.clone());
        }
        for node in
            content.nodes.iter().filter(|node| node.name == self.node.name).cloned().collect::<Vec<_>>()
        {
            self.note(ObjectName::new("Node", "", &node.name), path, complaints);
            self.node = node;
        }
        self.cidrs.extend(&content.cidrs);
        self.cidrs.sort_unstable();
        self.cidrs.dedup();
    }

    fn note(&mut self, object: ObjectName, path: &'a Path, complaints: &mut Complaints) {
        if let Some(before) = self.origins.insert(object.clone(), path) {
            let problem = format!(
                "it is in {} and again in {}; the latter is used, remove one of them",
                before.display(),
                path.display()
            );
            complain(object, problem, complaints);
        }
    }
}
