//! All files: what is known of each, and what has to be told when one changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use switchyard_model::{Complaint, Event};

use super::Config;
use super::allocate::Allocator;
use super::assembly::{Complaints, Lists, assemble, complain};
use super::content::{self, Content, file_name};
use super::files::{self, Stamp};
use crate::Sink;
use crate::convert::Interner;
use crate::ledger::Ledger;

/// Keeps every file's last good content; sends the lists first, then what differs.
pub(super) struct Library {
    config: Config,
    sink: Sink,
    ledger: Ledger,
    interner: Interner,
    allocator: Allocator,
    files: BTreeMap<PathBuf, Known>,
    path_problem: Option<String>,
    was_listed: bool,
    /// Something may differ from what was sent.
    has_news: bool,
    sent: Option<Lists>,
}

/// What is known of one file.
#[derive(Default)]
struct Known {
    stamp: Option<Stamp>,
    content: Content,
    /// What is wrong with the file's present state, if its content is from an earlier one.
    outdated: Vec<Complaint>,
}

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
            has_news: true,
            sent: None,
        }
    }

    /// Reads what changed and sends what follows from it.
    pub(super) fn refresh(&mut self) {
        let problem = match files::list(&self.config.path) {
            Ok(paths) => {
                self.was_listed = true;
                let before = self.files.len();
                self.files.retain(|path, _| paths.binary_search(path).is_ok());
                self.has_news |= self.files.len() < before;
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
        self.has_news |= problem != self.path_problem;
        self.path_problem = problem;
        if self.has_news {
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
        let (mut content, problem) = match files::read(path, self.config.max_file_bytes) {
            Ok(text) => (content::read(path, &text, &mut self.interner), None),
            Err(problem) => (Content::default(), Some(problem)),
        };
        // A file that cannot be read is tried again each time: a change of permissions does not move its stamp.
        known.stamp = stamp.filter(|_| is_settled && problem.is_none());
        let is_good = problem.is_none() && content.is_whole;
        let mut outdated = Vec::new();
        if is_good || (problem.is_none() && !known.content.is_whole) {
            if known.content != content {
                content.share_with(&known.content);
                known.content = content;
                self.has_news = true;
            }
        } else {
            outdated = content.file_complaints;
            let object = file_name(path);
            let mut say = |problem: String| outdated.push(Complaint { object: object.clone(), problem });
            problem.into_iter().for_each(&mut say);
            if known.content.is_whole {
                say("the last good content of this file stays in use until the file is corrected".to_owned());
            }
        }
        self.has_news |= known.outdated != outdated;
        known.outdated = outdated;
    }

    fn send(&mut self) {
        let mut complaints = self.complaints();
        let files = self.files.iter().map(|(path, known)| (path.as_path(), &known.content));
        let mut lists = assemble(files, &self.config.node_name, &mut self.allocator, &mut complaints);
        self.ledger.replace(complaints);
        if !self.was_listed || self.is_hopeless(&lists) {
            return;
        }
        match &self.sent {
            Some(sent) => {
                let events = lists.since(sent);
                if !events.is_empty() {
                    (self.sink)(Event::Together(events));
                }
            }
            None => {
                (self.sink)(Event::Node(lists.node.clone()));
                (self.sink)(Event::ServiceCidrs(lists.cidrs.clone()));
                (self.sink)(Event::Services(lists.services.clone()));
                (self.sink)(Event::Slices(lists.slices.clone()));
            }
        }
        self.sent = Some(lists);
        self.has_news = false;
    }

    /// At the start, broken files and nothing else: an empty list would make the proxy forget what an earlier run wrote,
    /// and that for a slip of the pen.
    fn is_hopeless(&self, lists: &Lists) -> bool {
        let is_empty = lists.services.is_empty() && lists.slices.is_empty();
        self.sent.is_none() && is_empty && self.files.values().any(|known| !known.content.is_whole)
    }

    /// What is wrong with the path, with files, and with the objects in them.
    fn complaints(&self) -> Complaints {
        let mut complaints = Complaints::new();
        for (path, known) in &self.files {
            let about_file =
                if known.outdated.is_empty() { &known.content.file_complaints } else { &known.outdated };
            if !about_file.is_empty() {
                complaints.entry(file_name(path)).or_default().extend(about_file.iter().cloned());
            }
            for (object, list) in &known.content.complaints {
                complaints.entry(object.clone()).or_default().extend(list.iter().cloned());
            }
        }
        if let Some(problem) = &self.path_problem {
            complain(file_name(&self.config.path), problem.clone(), &mut complaints);
        }
        complaints
    }
}
