//! What `switchyard get` prints, of an agent with hostile objects, and of one that is older than it.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use expect_test::expect_file;
use switchyard_apply::report::Kind;
use switchyard_model::{Family, Hints, ObjectName, ServiceName, TrafficPolicy, is_unseen};

use super::get::Told;
use super::*;
use crate::flags::{Command, Flags};
use crate::ledger::{Entry, Outcome, Subjects};
use crate::shelf::{Troubles, World, no_source, port};

/// An agent that knows only these paths.
pub(super) struct OldAgent {
    answers: Vec<(String, u16, String)>,
}

impl OldAgent {
    pub(super) fn new(answers: &[(&str, u16, &str)]) -> Self {
        let own =
            |(path, status, body): &(&str, u16, &str)| ((*path).to_owned(), *status, (*body).to_owned());
        Self { answers: answers.iter().map(own).collect() }
    }

    /// Does something with its socket.
    pub(super) fn with<T>(self, ask: impl FnOnce(&Path) -> T) -> T {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("admin.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let end = is_over.clone();
        let agent = std::thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !end.load(Ordering::SeqCst)) {
                self.answer(&mut stream.unwrap());
            }
        });
        let asked = ask(&socket);
        is_over.store(true, Ordering::SeqCst);
        drop(UnixStream::connect(&socket).unwrap());
        agent.join().unwrap();
        asked
    }

    fn answer(&self, stream: &mut UnixStream) {
        let mut head = [0; 4096];
        let length = stream.read(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        let path = head.split([' ', '?']).nth(1).unwrap();
        let unknown =
            format!(r#"{{"error":"nothing answers on {path}; this agent knows version 1 of the API"}}"#);
        let known = self.answers.iter().find(|(known, ..)| known == path);
        let (status, body) = known.map_or((404, unknown.as_str()), |(_, status, body)| (*status, body));
        write!(stream, "HTTP/1.0 {status} X\r\n\r\n{body}").unwrap();
    }
}

/// An escape of a terminal in two spellings, an override of direction, and what nobody sees.
const EVIL: &str = "e\u{1b}[31m\u{9b}2J\u{7f}\u{202e}\u{61c}\u{ad}\u{206a}\u{e0041}é日";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_813_600)
}

/// Some of everything, and among it what is hostile.
fn world() -> World {
    let mut web =
        port("shop/web:http", "10.96.0.1", &["10.1.0.1:80", "10.1.0.2:80 elsewhere", "10.1.0.3:80 unready"]);
    (web.node_port, web.external_policy, web.affinity) = (Some(30080), TrafficPolicy::Local, Some(10_800));
    web.load_balancer_ips = vec!["198.51.100.20".parse().unwrap()];
    web.source_ranges = vec!["203.0.113.0/24".parse().unwrap()];
    let mut evil = port("x/x", "10.96.0.3", &["10.1.0.9:80 ending"]);
    evil.name.service = ServiceName::new(EVIL, &format!("{EVIL}{}", "x".repeat(80)));
    evil.name.port = EVIL.into();
    evil.endpoints[0].node = Some(EVIL.into());
    evil.endpoints[0].hints = Some(Arc::new(Hints { zones: vec![EVIL.into()], nodes: vec!["n1".into()] }));
    let mut thief = port("shop/thief", "10.96.0.4", &[]);
    thief.external_ips = vec!["198.51.100.20".parse().unwrap()];
    let ports = [
        web,
        port("shop/web:http", "fd00::1", &["[fd00:1::1]:80"]),
        evil,
        thief,
        port("shop/odd", "10.96.0.5", &[]),
    ];
    let troubles = Troubles { refused: &["odd"], ..Troubles::default() };
    let mut world = World::troubled(&ports, troubles);
    world.complain(
        &ObjectName::new("Service", EVIL, EVIL),
        &[&format!("{EVIL} is no port; {}", "say it again, ".repeat(12))],
    );
    changes(&mut world);
    world
}

fn changes(world: &mut World) {
    let names = |names: &[&str]| names.iter().map(|name| ServiceName::new("shop", name)).collect::<Vec<_>>();
    let entry = |services: Vec<ServiceName>, total, seconds: u64, latency: Option<u64>, outcome| Entry {
        number: 0,
        family: Family::V4,
        subjects: Subjects { services, total },
        kind: if total > 3 { Kind::Full } else { Kind::Partial },
        seen: latency.map(|latency| now() - Duration::from_secs(seconds) - Duration::from_micros(latency)),
        committed: now() - Duration::from_secs(seconds),
        latency: latency.map(Duration::from_micros),
        took: Duration::from_micros(300),
        operations: 17,
        outcome,
    };
    world.ledger.add(entry(names(&["cart", "web"]), 5_000, 90_000, Some(812_345), Outcome::Written));
    world.ledger.add(entry(names(&["cart", "odd", "web"]), 3, 184, Some(1_840), Outcome::SetAside(1)));
    world.ledger.add(entry(vec![], 0, 60, None, Outcome::Written));
    world.ledger.add(entry(names(&[EVIL]), 1, 12, Some(950), Outcome::Failed(EVIL.repeat(5))));
}

/// What a command line prints of an agent.
fn told(socket: &Path, arguments: &[&str]) -> Result<Told, CtlError> {
    let all = ["switchyard", "get"].iter().chain(arguments).map(Into::into);
    match Flags::read(all).unwrap().command {
        Some(Command::Get(flags)) => get::run(&GetFlags { admin_socket: socket.to_owned(), ..flags }, now()),
        other => panic!("{other:?}"),
    }
}

/// The same of the agent that knows [`world`]: standard output, standard error.
fn said(command_line: &'static str) -> (String, String) {
    let ask = move |socket: PathBuf| told(&socket, &command_line.split(' ').collect::<Vec<_>>());
    let told = world().asked(no_source(), ask).0.unwrap();
    let missing = told.missing.map(|error| error.to_string());
    (told.found, told.note.into_iter().chain(missing).collect())
}

#[test]
fn every_list_has_the_columns_that_it_should_have() {
    for resource in ["services", "endpoints", "routes", "quarantine", "changes"] {
        for output in ["table", "wide"] {
            let command_line = format!("{resource} -o {output}").leak();
            let (found, note) = said(command_line);
            assert_eq!(note, "", "{command_line}");
            assert!(!found.replace('\n', "").contains(is_unseen), "{command_line}: {found}");
            let file = format!("{}/src/ctl/tests/{resource}-{output}.txt", env!("CARGO_MANIFEST_DIR"));
            expect_file![file].assert_eq(&found);
        }
    }
    let (found, _) = said("services -o yaml");
    expect_file![format!("{}/src/ctl/tests/services.yaml", env!("CARGO_MANIFEST_DIR"))].assert_eq(&found);
}

#[test]
fn several_names_are_listed_and_those_that_are_not_there_are_told() {
    let names = |command_line: &'static str| said(command_line).0;
    assert_eq!(names("services web thief -o name"), "shop/web\nshop/thief\n");
    assert_eq!(names("routes shop/thief -o name"), "shop/thief\n");
    assert_eq!(names("services -n shop -o name"), "shop/thief\nshop/web\n");
    assert_eq!(names("changes -o name"), "1\n2\n3\n4\n");
    let bare = names("endpoints web thief --no-headers");
    assert_eq!((bare.lines().count(), &bare[..4]), (4, "shop"));
    let advice = "`switchyard get services` lists all, `switchyard get quarantine` what was set aside";
    for (command_line, found, missing) in [
        ("services missing", "", "missing is"),
        ("services missing -o json", "", "missing is"),
        ("endpoints missing -o yaml", "", "missing is"),
        ("services web -n nobody", "", "nobody/web is"),
        ("services shop/missing thief nobody/x -o name", "shop/thief\n", "shop/missing, nobody/x is"),
        // The kernel refused it, and it had no earlier value.
        ("services odd", "", "odd is"),
    ] {
        let want = format!("no Service {missing} served here; {advice}");
        assert_eq!(said(command_line), (found.to_owned(), want), "{command_line}");
    }
    let (_, evil) = said("services \u{1b}[31m\u{202e}");
    assert!(evil.starts_with(r"no Service \u{1b}[31m\u{202e} is served here"), "{evil}");
}

#[test]
fn an_empty_list_is_no_error_and_stays_a_list() {
    for (command_line, note) in [
        ("services -n nobody", " in namespace nobody; `switchyard get services` lists all"),
        ("endpoints thief", " of thief; no EndpointSlice names any"),
        ("quarantine cart", " of cart; nothing was set aside"),
        ("quarantine -n nobody", " in namespace nobody; nothing was set aside"),
        ("changes -n nobody -o name", ""),
    ] {
        let (found, said) = said(command_line);
        if command_line.starts_with("changes") {
            // The first one was about very many Services.
            assert_eq!((found.as_str(), said.as_str()), ("1\n", ""));
        } else {
            assert_eq!((found, said), (String::new(), format!("No resources found{note}")), "{command_line}");
        }
    }
    for (command_line, kind) in
        [("services -n nobody -o json", "ServicePortList"), ("quarantine cart -o json", "QuarantineList")]
    {
        let (found, said) = said(command_line);
        let list: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(
            (&list["kind"], &list["items"], said.as_str()),
            (&kind.into(), &serde_json::json!([]), "")
        );
    }
    assert_eq!(
        said("services -n nobody -o yaml").0,
        "apiVersion: \"v1\"\nitems: []\nkind: \"ServicePortList\"\n"
    );
}

#[test]
fn quarantine_and_changes_are_listed_by_name_and_namespace() {
    let count = |command_line: &'static str| said(command_line).0.lines().count();
    assert_eq!((count("quarantine --no-headers"), count("quarantine odd --no-headers")), (3, 1));
    assert_eq!(count("quarantine -n shop --no-headers"), 2);
    assert_eq!(said("changes thief odd -o name").0, "1\n2\n", "each once, in order");
    assert_eq!(said("changes shop/odd -n shop -o name").0, "1\n2\n");
    let refused = |command_line: &'static str| {
        let agent = OldAgent::new(&[]);
        let error =
            agent.with(|socket| told(socket, &command_line.split(' ').collect::<Vec<_>>()).unwrap_err());
        error.to_string()
    };
    let twice = "shop/odd names another namespace than --namespace does; leave one of them out";
    assert_eq!(refused("quarantine shop/odd -n test"), twice);
    assert!(
        refused("quarantine -l app=web").starts_with("labels are those of Services; leave --selector out")
    );
}

/// An agent of the first version, with these answers, and what is said of it.
fn of_older(path: &str, answer: &str, arguments: &[&str]) -> Result<Told, CtlError> {
    let agent = OldAgent::new(&[("/v1", 200, r#"{"version":"0.0.1"}"#), (path, 200, answer)]);
    agent.with(|socket| told(socket, arguments))
}

#[test]
fn what_an_older_agent_does_not_say_is_left_out() {
    let service =
        r#"{"items":[{"namespace":"shop","name":"web","port":80,"protocol":"tcp","family":"IPv4"}]}"#;
    let told = of_older("/v1/services", service, &["services", "-o", "wide"]).unwrap();
    let lines: Vec<&str> = told.found.lines().collect();
    assert!(
        lines[0].ends_with("  SOURCE-RANGES") && lines[1].starts_with("shop       web   80/tcp  -"),
        "{lines:?}"
    );
    let changes = r#"{"items":[{"number":7,"outcome":"written"}]}"#;
    let told = of_older("/v1/changes", changes, &["changes", "-o", "wide", "--no-headers"]).unwrap();
    assert_eq!(told.found, "7  -  -  -  -  -  -  -  -  -  written\n");
    let set_aside = r#"{"items":[{"kind":"refused","object":"shop/web:http","cause":"no room"}]}"#;
    let told = of_older("/v1/quarantine", set_aside, &["quarantine", "-o", "name"]).unwrap();
    assert_eq!(told.found, "shop/web:http\n");
    // Neither who the pod is nor what carries the packet.
    let explanation = serde_json::json!({
        "from": "10.1.0.1", "to": "10.96.0.1:80", "protocol": "tcp", "verdict": "endpoints", "reason": "so be it",
        "hit": { "service": "shop/web", "endpoints": [{ "address": "10.1.0.9:80", "odds": "1/1" }] },
    });
    let text = explain::text(&explanation);
    assert!(
        text.starts_with("packet      10.1.0.1 -> 10.96.0.1:80/tcp\nverdict     endpoints: so be it\n"),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.starts_with("10.1.0.9:80  -     1/1")) && !text.contains("\nby"),
        "{text}"
    );
}

#[test]
fn what_an_older_agent_does_not_heed_is_told() {
    let all = r#"{"items":[{"namespace":"shop","name":"web"}],"continue":null}"#;
    for (path, arguments, what) in [
        ("/v1/services", &["services", "-l", "app=web"] as &[&str], "selectors"),
        ("/v1/quarantine", &["quarantine", "web"], "names and namespaces in `get quarantine`"),
        ("/v1/quarantine", &["quarantine", "-n", "shop"], "names and namespaces in `get quarantine`"),
        ("/v1/changes", &["changes", "-n", "shop"], "names and namespaces in `get changes`"),
    ] {
        let error = of_older(path, all, arguments).unwrap_err().to_string();
        let said = format!("is of version 0.0.1 and does not know {what}; this program is of version ");
        assert!(error.contains(&said) && error.lines().count() == 1, "{error}");
    }
    // What it always knew needs no hint.
    let told = of_older("/v1/services", all, &["services", "web", "-n", "shop", "-o", "name"]).unwrap();
    assert_eq!(told.found, "shop/web\n");
}
