//! The dashboard in a real browser: what people see, in every size and colour, and what a hostile object cannot do there.
//!
//! Needs a lab (root) and Chromium. Without the latter the tests say SKIPPED; `BROWSER=require` makes that a failure. With
//! `SCREENSHOTS=DIRECTORY` the pictures for the documentation are written there.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]
#![allow(clippy::indexing_slicing, reason = "JSON of our own making")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

#[path = "lab_browser/cluster.rs"]
mod cluster;
#[path = "lab_browser/devtools.rs"]
mod devtools;

use std::path::PathBuf;

use common::looking::{METRICS, eventually, http};
use common::proxy::{Agent, Bench};
use common::variant::Variant;
use devtools::{Browser, Window, program_or_skip};
use serde_json::json;
use switchyard_lab::{Lab, Node};

const UI: &str = "http://127.0.0.1:10249/ui/";

const PAGES: [&str; 9] = [
    "",
    "services",
    "services?search=shop",
    "service?namespace=shop&name=web",
    "service?namespace=ingress&name=gateway",
    "changes",
    "set-aside",
    "explain",
    "explain?from=10.1.1.210&to=10.96.0.26%3A80&protocol=tcp",
];

/// The pictures of the documentation: page and window.
const PICTURES: [&str; 8] = [
    "overview-light",
    "services-dark",
    "service-light",
    "changes-light",
    "set-aside-dark",
    "overview-phone",
    "services-phone-dark",
    "explain-phone",
];

const DESKTOP: Window = Window { width: 1200, height: 800, scale: 1.0, scheme: "light" };
const DESKTOP_DARK: Window = Window { scheme: "dark", ..DESKTOP };
const PHONE: Window = Window { width: 390, height: 780, scale: 1.5, scheme: "light" };
const PHONE_DARK: Window = Window { scheme: "dark", ..PHONE };

/// Texts whose contrast with what is behind them is below 4.5.
const FAINT: &str = r"(() => {
  const numbers = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const isClear = (colour) => numbers(colour).length === 4 && numbers(colour)[3] === 0;
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!isClear(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || element.closest('svg, script, [aria-hidden]')) continue;
    const pair = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (!(contrast >= 4.5)) faint.add(element.className + ': ' + text.slice(0, 30) + ': ' + contrast.toFixed(2));
  }
  return [...faint];
})()";

struct Seat {
    lab: Lab,
    bench: Bench,
    _agent: Agent,
    browser: Browser,
    _directory: tempfile::TempDir,
}

impl Seat {
    /// An agent in nftables mode with a dashboard and these objects, and a browser on the same node.
    fn new(objects: &str) -> Option<Self> {
        let program = program_or_skip()?;
        let lab = Lab::new_or_skip()?;
        let bench = Bench::new(&lab, Variant::Nftables).unwrap();
        bench.write_objects(objects).unwrap();
        let mut agent = bench.start(&["--enable-ui"]).unwrap();
        agent.wait_until_synced().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let browser = Browser::start(lab.node(Node::N1), program, directory.path());
        Some(Self { lab, bench, _agent: agent, browser, _directory: directory })
    }

    fn page(&self, path: &str) -> String {
        http(self.lab.node(Node::N1), METRICS, path).unwrap_or_default().1
    }

    /// The number of the last sync.
    fn last(&self) -> u64 {
        let page = self.page("/ui/changes");
        let number = page.split("data-last=\"").nth(1).and_then(|rest| rest.split('"').next());
        number.and_then(|number| number.parse().ok()).unwrap_or_default()
    }

    fn change(&self, objects: &str) {
        let before = self.last();
        self.bench.write_objects(objects).unwrap();
        eventually("the change is in the ledger", || self.last() > before);
    }

    /// Nothing that the browser minds, nothing wider than the window, nothing too faint, no field without a label.
    fn check(&mut self, what: &str) {
        let browser = &mut self.browser;
        assert_eq!(browser.complaints(), [""; 0], "{what}");
        let width = browser.value("document.documentElement.scrollWidth - innerWidth");
        assert!(width.as_i64().is_some_and(|wider| wider <= 0), "{what} is wider than the window: {width}");
        assert_eq!(browser.value(FAINT), json!([]), "{what}");
        let labelled =
            "[...document.querySelectorAll('input, select')].every(field => field.labels.length > 0)";
        assert_eq!(browser.value(labelled), json!(true), "{what}");
        let headed = "document.querySelectorAll('h1').length === 1 && document.documentElement.lang === 'en'";
        assert_eq!(browser.value(headed), json!(true), "{what}");
    }
}

/// Where pictures are wanted, if they are.
fn album() -> Option<PathBuf> {
    std::env::var_os("SCREENSHOTS").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Keeps a picture, if pictures are wanted.
fn keep(name: &str, picture: &[u8]) {
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 10_000, "{name} is no picture");
    let Some(directory) = album() else { return };
    assert!(picture.len() < 150_000, "{name} has {} bytes", picture.len());
    std::fs::write(directory.join(format!("{name}.png")), picture).unwrap();
}

#[test]
fn every_page_is_readable_in_every_size_and_colour() {
    let Some(mut seat) = Seat::new(&cluster::objects(0)) else { return };
    // Only for people to look at a plot needs many dots.
    let dots = if album().is_some() { 72 } else { 12 };
    for changes in 1..=dots {
        seat.change(&cluster::objects(changes));
    }
    for (name, window) in
        [("light", DESKTOP), ("dark", DESKTOP_DARK), ("phone", PHONE), ("phone-dark", PHONE_DARK)]
    {
        seat.browser.resize(window);
        for page in PAGES {
            seat.browser.open(&format!("{UI}{page}"));
            seat.check(&format!("{page} {name}"));
            let title = page.split('?').next().filter(|title| !title.is_empty()).unwrap_or("overview");
            let name = format!("{title}-{name}");
            if page.contains("search") || page.contains("name=web") || !PICTURES.contains(&&*name) {
                continue;
            }
            if ["overview", "changes"].contains(&title) {
                seat.browser.wait_for("document.getElementById('live').textContent === 'Live'");
            }
            let picture = seat.browser.picture();
            keep(&name, &picture);
        }
    }
    // The look for faint texts is no ornament either.
    seat.browser.value("document.querySelector('h1').style.color = 'rgb(150, 150, 150)'");
    seat.browser.resize(DESKTOP);
    assert_ne!(seat.browser.value(FAINT), json!([]));
    seat.browser.resize(PHONE_DARK);
    let scheme = "getComputedStyle(document.body).backgroundColor";
    let dark = seat.browser.value(scheme);
    seat.browser.resize(DESKTOP);
    assert_ne!(seat.browser.value(scheme), dark);
}

#[test]
fn changes_appear_by_themselves_and_without_a_script_everything_can_be_read() {
    let Some(mut seat) = Seat::new(&cluster::objects(0)) else { return };
    seat.browser.resize(DESKTOP);
    seat.browser.open(&format!("{UI}changes"));
    seat.browser.wait_for("document.getElementById('live').textContent === 'Live'");
    let rows = seat.browser.value("document.getElementById('ledger').rows.length").as_u64().unwrap();
    for changes in 1..=3 {
        seat.change(&cluster::objects(changes));
    }
    seat.browser.wait_for(&format!("document.getElementById('ledger').rows.length >= {}", rows + 3));
    let first = "document.getElementById('ledger').rows[0].textContent";
    let live = seat.browser.value(first);
    assert_eq!(seat.browser.complaints(), [""; 0]);
    seat.browser.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    seat.browser.open(&format!("{UI}changes"));
    assert_eq!(seat.browser.value(first), live, "a row that came live looks like one that was there");
    for (page, word) in [
        ("", "Median latency"),
        ("services?search=10.96.0.26", "shop/web"),
        ("service?namespace=shop&name=web", "*:30080/tcp"),
        ("set-aside", "shop/web-old"),
        ("explain?to=10.96.0.26%3A80", "1/4"),
        ("explain?to=10.96.0.26%3A80", "element frontends"),
        ("explain?to=nobody", "no Service nobody is served here"),
    ] {
        seat.browser.open(&format!("{UI}{page}"));
        let text = seat.browser.value("document.body.textContent");
        assert!(text.as_str().unwrap().contains(word), "{page}: {word}: {text}");
    }
}

#[test]
fn hostile_names_are_texts_and_the_policy_holds() {
    let Some(mut seat) = Seat::new(&cluster::hostile()) else { return };
    seat.browser.resize(PHONE);
    let long = "x".repeat(63);
    let evil = "%22%3E%3Cscript%3Ewindow.owned%3D3%3C%2Fscript%3E";
    let mut seen = String::new();
    for page in [
        String::new(),
        "services".to_owned(),
        format!("services?search={evil}"),
        format!("service?namespace=evil&name={long}"),
        format!("service?namespace={evil}&name={evil}"),
        "changes".to_owned(),
        "set-aside".to_owned(),
        format!("explain?from={evil}&to={evil}&protocol={evil}"),
    ] {
        seat.browser.open(&format!("{UI}{page}"));
        let owned = seat.browser.value("window.owned === undefined && document.images.length === 0");
        assert_eq!(owned, json!(true), "{page}");
        let scripts =
            seat.browser.value("[...document.scripts].map(script => script.getAttribute('src')).join()");
        assert_eq!(scripts, json!("live.js"), "{page}");
        // A page that does not exist is told by the browser as well.
        let minds = seat.browser.complaints();
        assert!(minds.iter().all(|text| text.contains("status of 40")), "{page}: {minds:?}");
        seen += seat.browser.value("document.body.textContent").as_str().unwrap();
    }
    assert!(seen.contains("\\u{1b}[31m\\u{202e}gpj.é日"), "what is hostile is shown: {seen}");
    assert!(!seen.contains(['\u{1b}', '\u{202e}']));
    // The policy is no ornament: what a page must not do is refused, and told.
    let inline = "(() => { const script = document.createElement('script'); \
                  try { script.textContent = 'window.owned = 4'; } catch { return 'refused'; } \
                  document.body.append(script); return window.owned === undefined ? 'refused' : 'ran'; })()";
    assert_eq!(seat.browser.value(inline), json!("refused"));
    assert!(!seat.browser.complaints().is_empty(), "the browser tells what it refuses");
}
