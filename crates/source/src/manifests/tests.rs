//! Files in temporary directories, read by hand and watched.

mod assigned;
mod watched;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use switchyard_model::{EndpointSlice, Event, Service, ServiceName};
use tempfile::TempDir;

use super::library::Library;
use super::{Config, read_once};
use crate::Sink;

pub(super) fn service(name: &str, ip: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec:\n  clusterIP: {ip}\n  ports:\n  - port: 80\n"
    )
}

pub(super) fn config(path: &Path) -> Config {
    Config {
        path: path.to_owned(),
        node_name: "n1".to_owned(),
        service_ranges: vec![
            "10.96.0.0/24".parse().expect("a range"),
            "fd00::/112".parse().expect("a range"),
        ],
        max_file_bytes: 4096,
    }
}

fn show_service(service: &Service) -> String {
    format!("{}{:?}", service.name, service.cluster_ips)
}

fn show_slice(slice: &EndpointSlice) -> String {
    format!("{}x{}p{}", slice.name, slice.endpoints.len(), slice.ports.len())
}

/// An event as lines; what happens together is in square brackets.
pub(super) fn show(event: &Event) -> Vec<String> {
    let line = match event {
        Event::Services(list) => {
            let list: Vec<_> = list.iter().map(|s| show_service(s)).collect();
            format!("services {}", list.join(" "))
        }
        Event::Service(service) => format!("service {}", show_service(service)),
        Event::ServiceGone(name) => format!("service gone {name}"),
        Event::Slices(list) => {
            let list: Vec<_> = list.iter().map(|s| show_slice(s)).collect();
            format!("slices {}", list.join(" "))
        }
        Event::Slice(slice) => format!("slice {}", show_slice(slice)),
        Event::SliceGone(name) => format!("slice gone {name}"),
        Event::Node(node) => format!("node {} {:?}", node.name, node.addresses),
        Event::ServiceCidrs(list) => format!("cidrs {list:?}"),
        Event::Complaints(object, list) => {
            let name = object.name.rsplit('/').next().unwrap_or_default();
            let list: Vec<_> = list.iter().map(|c| c.problem.as_str()).collect();
            format!("complaints {} {name}: {}", object.kind, list.join(" | "))
        }
        Event::Together(list) => return list.iter().flat_map(show).collect(),
        Event::NodeGone => "unexpected".to_owned(),
    };
    vec![line]
}

/// A library on a directory, and everything it said since the last look.
pub(super) struct Bench {
    pub(super) directory: TempDir,
    library: Library,
    events: Arc<Mutex<Vec<Event>>>,
    /// The Services that somebody knows who has heard everything.
    pub(super) services: BTreeMap<ServiceName, String>,
}

impl Bench {
    pub(super) fn new(change: impl FnOnce(&mut Config)) -> Self {
        let directory = TempDir::new().expect("a directory");
        let events = Arc::new(Mutex::new(Vec::new()));
        let collected = events.clone();
        let sink: Sink = Arc::new(move |event| collected.lock().expect("a list").push(event));
        let mut config = config(directory.path());
        change(&mut config);
        Self { library: Library::new(config, sink), directory, events, services: BTreeMap::new() }
    }

    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join(name), text).expect("written");
    }

    fn learn(&mut self, event: &Event) {
        match event {
            Event::Services(list) => {
                self.services = list.iter().map(|s| (s.name.clone(), show_service(s))).collect();
            }
            Event::Service(service) => {
                self.services.insert(service.name.clone(), show_service(service));
            }
            Event::ServiceGone(name) => {
                self.services.remove(name);
            }
            Event::Together(list) => list.iter().for_each(|event| self.learn(event)),
            _ => {}
        }
    }

    pub(super) fn refresh(&mut self) -> Vec<String> {
        self.library.refresh();
        let events = std::mem::take(&mut *self.events.lock().expect("a list"));
        events.iter().for_each(|event| self.learn(event));
        events.iter().flat_map(show).collect()
    }
}

#[test]
fn all_kinds_and_lists_are_read() {
    let mut bench = Bench::new(|_| ());
    bench.write("a.yaml", service("a", "10.96.0.1") + "---\n" + &service("b", "10.96.0.2"));
    bench.write(
        "b.json",
        r#"{"kind":"ServiceList","apiVersion":"v1","items":[
            {"metadata":{"name":"c","namespace":"x"},"spec":{"clusterIP":"10.96.0.3"}},
            {"metadata":{"name":"headless"},"spec":{"clusterIP":"None"}}]}
           {"kind":"List","items":[{"kind":"Node","metadata":{"name":"n1"},"status":{"addresses":[
              {"type":"InternalIP","address":"10.0.0.1"}]}},{"kind":"Node","metadata":{"name":"n2"}}]}"#,
    );
    fs::create_dir(bench.directory.path().join("sub")).expect("made");
    bench.write(
        "sub/c.yml",
        "{kind: EndpointSlice, metadata: {name: a-1, labels: {kubernetes.io/service-name: a}}, \
         addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [10.1.0.1]}]}\n\
         ---\nkind: Endpoints\nmetadata: {name: b}\nsubsets: [{addresses: [{ip: 10.1.0.2}], ports: [{port: 1}]}]\n\
         ---\nkind: ServiceCIDR\napiVersion: networking.k8s.io/v1\nspec: {cidrs: [10.96.0.0/24]}\n",
    );
    bench.write("README.md", "kind: [");
    bench.write(".hidden.yaml", "kind: [");
    let want = [
        "node n1 [10.0.0.1]",
        "cidrs [10.96.0.0/24]",
        "services default/a[10.96.0.1] default/b[10.96.0.2] x/c[10.96.0.3]",
        "slices default/a-1x1p1 default/b-0-ipv4x1p1",
    ];
    assert_eq!(bench.refresh(), want);
    assert!(bench.refresh().is_empty(), "nothing changed");
    let once = read_once(config(bench.directory.path())).expect("readable");
    assert_eq!(once.iter().flat_map(show).collect::<Vec<_>>(), want);
}

#[test]
fn only_what_differs_is_sent_again() {
    let slice = |ip: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
             metadata: {{name: a-1, labels: {{kubernetes.io/service-name: a}}}}\n\
             endpoints: [{{addresses: [{ip}]}}]\nports: [{{name: '', port: 80}}]\n"
        )
    };
    let mut bench = Bench::new(|_| {});
    bench.write("a.yaml", service("a", "10.96.0.1") + "---\n" + &slice("10.1.0.1"));
    bench.write("b.yaml", service("b", "10.96.0.2"));
    assert_eq!(bench.refresh().len(), 4, "node, ranges, services and slices");
    bench.write("a.yaml", service("a", "10.96.0.1") + "---\n" + &slice("10.1.0.1") + "# a remark\n");
    assert!(bench.refresh().is_empty());
    bench.write("a.yaml", service("a", "10.96.0.1") + "---\n" + &slice("10.1.0.2"));
    assert_eq!(bench.refresh(), ["slice default/a-1x1p1"]);
    fs::remove_file(bench.directory.path().join("b.yaml")).expect("removed");
    assert_eq!(bench.refresh(), ["service gone default/b"]);
    assert!(bench.refresh().is_empty());
    // A rename, a change and a deletion come as one event.
    bench.write("a.yaml", service("c", "10.96.0.1"));
    bench.write("b.yaml", service("b", "10.96.0.3"));
    bench.library.refresh();
    assert_eq!(bench.events.lock().expect("a list").len(), 1);
    let want = [
        "service gone default/a",
        "service default/b[10.96.0.3]",
        "service default/c[10.96.0.1]",
        "slice gone default/a-1",
    ];
    assert_eq!(bench.refresh(), want);
}

#[test]
fn an_empty_directory_is_an_empty_but_complete_list() {
    let mut bench = Bench::new(|_| ());
    assert_eq!(bench.refresh(), ["node n1 []", "cidrs []", "services ", "slices "]);
}

#[test]
fn other_kinds_are_named_and_ignored() {
    let mut bench = Bench::new(|_| ());
    bench.write(
        "a.yaml",
        "kind: Deployment\napiVersion: apps/v1\n---\nkind: Service\napiVersion: serving.knative.dev/v1\n---\nfoo\n",
    );
    let events = bench.refresh();
    assert_eq!(
        events[0],
        "complaints file a.yaml: a document without a kind at line 6 is of no use to a proxy; it is ignored | \
         kind Deployment of apps/v1 at line 1 is of no use to a proxy; it is ignored | \
         kind Service of serving.knative.dev/v1 at line 3 is of no use to a proxy; it is ignored"
    );
    bench.write("a.yaml", "");
    assert_eq!(bench.refresh(), ["complaints file a.yaml: "]);
}

#[test]
fn a_broken_file_keeps_its_last_good_content() {
    let mut bench = Bench::new(|_| ());
    bench.write("a.yaml", service("a", "10.96.0.1"));
    // Broken from the start: what can be read of it is used.
    bench.write("b.yaml", service("b", "10.96.0.2") + "---\nkind: [\n");
    let events = bench.refresh();
    assert!(
        events[0].starts_with("complaints file b.yaml: the document at line 8 is not valid YAML"),
        "{events:?}"
    );
    assert_eq!(events[3], "services default/a[10.96.0.1] default/b[10.96.0.2]");

    for broken in ["kind: [\n".as_bytes(), b"kind: Service \xff", &[b'#'; 5000]] {
        bench.write("a.yaml", broken);
        let events = bench.refresh();
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].starts_with("complaints file a.yaml: "), "{events:?}");
        assert!(events[0].contains("the last good content of this file stays in use"), "{events:?}");
    }
    bench.write("a.yaml", service("a", "10.96.0.9"));
    assert_eq!(bench.refresh(), ["complaints file a.yaml: ", "service default/a[10.96.0.9]"]);
    fs::remove_file(bench.directory.path().join("a.yaml")).expect("removed");
    assert_eq!(bench.refresh(), ["service gone default/a"]);
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let mut bench = Bench::new(|_| ());
    bench.write("big.yaml", vec![b'#'; 5000]);
    bench.write("latin.yaml", b"kind: \xe4");
    let events = bench.refresh();
    assert_eq!(
        events[0],
        "complaints file big.yaml: it is larger than 4096 bytes; split it into several files"
    );
    assert_eq!(events[1], "complaints file latin.yaml: it is not UTF-8 text (byte 6); save it as UTF-8");
    assert_eq!(events.len(), 2, "broken files alone are no reason to forget everything: {events:?}");
    bench.write("good.yaml", service("a", "10.96.0.1"));
    assert_eq!(bench.refresh(), ["node n1 []", "cidrs []", "services default/a[10.96.0.1]", "slices "]);
}

#[test]
fn bad_objects_are_complained_about_until_they_are_good_or_gone() {
    let mut bench = Bench::new(|_| ());
    bench.write("a.yaml", service("a", "10.96.0.1") + "---\n" + &service("Bad", "10.96.0.2"));
    let events = bench.refresh();
    assert!(
        events[0].starts_with("complaints Service Bad: metadata.name `Bad` is not a valid name"),
        "{events:?}"
    );
    assert_eq!(events[3], "services default/a[10.96.0.1]");
    bench.write("a.yaml", service("a", "10.96.0.1"));
    assert_eq!(bench.refresh(), ["complaints Service Bad: "]);
}

#[test]
fn the_same_object_in_two_files_is_used_once() {
    let mut bench = Bench::new(|_| ());
    bench.write("a.yaml", service("a", "10.96.0.1"));
    bench.write("b.yaml", service("a", "10.96.0.2"));
    let events = bench.refresh();
    assert!(
        events[0].contains("and again in") && events[0].starts_with("complaints Service a"),
        "{events:?}"
    );
    assert_eq!(events[3], "services default/a[10.96.0.2]");
    // The other one is used when the first is gone.
    fs::remove_file(bench.directory.path().join("b.yaml")).expect("removed");
    assert_eq!(bench.refresh(), ["complaints Service a: ", "service default/a[10.96.0.1]"]);
}

#[test]
fn nothing_is_kept_twice() {
    let slice = |ip: &str| {
        format!(
            "---\nkind: EndpointSlice\naddressType: IPv4\nports: [{{port: 80}}]\n\
             metadata: {{name: a-1, labels: {{kubernetes.io/service-name: a}}}}\nendpoints: [{{addresses: [{ip}]}}]\n"
        )
    };
    let mut bench = Bench::new(|_| ());
    let text = service("a", "10.96.0.1") + "---\n" + &service("b", "10.96.0.2");
    bench.write("a.yaml", text.clone() + &slice("10.1.0.1"));
    let kept = Arc::new(Mutex::new(Vec::<Arc<Service>>::new()));
    let hand = kept.clone();
    bench.library.refresh();
    for event in std::mem::take(&mut *bench.events.lock().expect("a list")) {
        if let Event::Services(list) = event {
            hand.lock().expect("a list").extend(list);
        }
    }
    // One file changes, but not its Services: what was sent is still what the library holds.
    bench.write("a.yaml", text + &slice("10.1.0.2"));
    assert_eq!(bench.refresh(), ["slice default/a-1x1p1"]);
    for service in kept.lock().expect("a list").iter() {
        assert_eq!(Arc::strong_count(service), 3, "here, in the file's content, in what was sent");
    }
}

#[test]
fn a_path_that_is_missing_or_vanishes_never_means_that_all_is_gone() {
    let mut bench = Bench::new(|config| config.path.push("later"));
    let path = bench.directory.path().join("later");
    let events = bench.refresh();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].starts_with("complaints file later: it cannot be read"), "{events:?}");
    fs::create_dir(&path).expect("made");
    fs::write(path.join("a.yaml"), service("a", "10.96.0.1")).expect("written");
    let want =
        ["complaints file later: ", "node n1 []", "cidrs []", "services default/a[10.96.0.1]", "slices "];
    assert_eq!(bench.refresh(), want);
    fs::remove_dir_all(&path).expect("removed");
    let events = bench.refresh();
    assert!(events.len() == 1 && events[0].contains("what it held before stays in use"), "{events:?}");
    fs::create_dir(&path).expect("made");
    assert_eq!(bench.refresh(), ["complaints file later: ", "service gone default/a"]);
    assert!(read_once(config(&path.join("nowhere"))).is_err());
}
