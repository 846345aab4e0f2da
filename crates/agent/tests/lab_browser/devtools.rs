//! A headless Chromium, driven over its DevTools protocol by a pipe: no port, no driver program.
//!
//! In: addresses to open, expressions to evaluate. Out: values, pictures, and everything that the browser complained about.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchyard_lab::Host;

use crate::common::variant::say;

/// Names under which distributions install it; the first is smaller.
const PROGRAMS: [&str; 3] = ["chromium-headless-shell", "chromium", "chromium-browser"];

/// How long a page may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Pixels per unit.
    pub(crate) scale: f64,
    /// `light` or `dark`.
    pub(crate) scheme: &'static str,
}

/// The program, or a loud word about its absence; with `BROWSER=require` it must be there.
pub(crate) fn program_or_skip() -> Option<&'static str> {
    let is_there = |program: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|dir| dir.join(program).is_file())
    };
    let found = PROGRAMS.into_iter().find(|program| is_there(program));
    if found.is_none() {
        let why =
            "no Chromium here (Debian package chromium-headless-shell, or scripts/install-packages browser)";
        assert!(std::env::var("BROWSER").as_deref() != Ok("require"), "BROWSER=require, but {why}");
        say(&format!("SKIPPED: {why}"));
    }
    found
}

/// A running browser with one page.
pub(crate) struct Browser {
    process: Child,
    orders: ChildStdin,
    messages: Receiver<Value>,
    number: u64,
    session: Option<String>,
    complaints: Vec<String>,
    loads: usize,
}

impl Browser {
    /// Starts it in the namespace of a host. Everything that it keeps is in `directory`.
    pub(crate) fn start(host: &Host, program: &str, directory: &Path) -> Self {
        // The protocol's pipe is descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", program]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
        command.args([
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--force-color-profile=srgb",
        ]);
        command.arg(format!("--user-data-dir={}", directory.join("profile").display()));
        command.arg("--remote-debugging-pipe").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = host.run(|| command.spawn()).unwrap().unwrap();
        let orders = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        let (send, messages) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            while answers.read_until(0, &mut text).is_ok_and(|length| length > 0) {
                let Ok(message) = serde_json::from_slice(text.strip_suffix(&[0]).unwrap_or(&text)) else {
                    return;
                };
                text.clear();
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { process, orders, messages, number: 0, session: None, complaints: Vec::new(), loads: 0 };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = self.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        // What the policy of a page forbids is told to the page, and here kept for us.
        let watch = "window.violations = []; document.addEventListener('securitypolicyviolation', \
                     event => violations.push(event.violatedDirective + ' ' + event.blockedURI));";
        self.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": watch }));
    }

    /// Calls a method and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut order = json!({ "id": number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).unwrap();
        loop {
            let message = self.next(method);
            if message["id"] == json!(number) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn next(&mut self, waiting_for: &str) -> Value {
        let message = self.messages.recv_timeout(PATIENCE);
        let message = message.unwrap_or_else(|error| panic!("the browser, asked for {waiting_for}: {error}"));
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loads += 1,
            Some("Runtime.exceptionThrown") => self.complaints.push(parameters.to_string()),
            Some("Runtime.consoleAPICalled") => self.complaints.push(parameters["args"].to_string()),
            Some("Log.entryAdded") => self.complaints.push(parameters["entry"].to_string()),
            _ => {}
        }
        message
    }

    pub(crate) fn resize(&mut self, window: Window) {
        let Window { width, height, scale, scheme } = window;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": feature }));
    }

    /// Opens an address and waits until all of it is there.
    pub(crate) fn open(&mut self, address: &str) {
        let loads = self.loads;
        let answer = self.call("Page.navigate", &json!({ "url": address }));
        assert!(answer.get("errorText").is_none(), "{address}: {answer}");
        while self.loads == loads {
            self.next(address);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Asks again and again until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.value(expression) != json!(true) {
            assert!(Instant::now() < end, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the window shows, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        decoded(answer["data"].as_str().unwrap())
    }

    /// What the browser complained about since the last time.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        let violations = self.value("window.violations || []");
        let violations = violations.as_array().cloned().unwrap_or_default();
        violations.iter().map(Value::to_string).chain(std::mem::take(&mut self.complaints)).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Base64.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let triple = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes().into_iter().skip(1).take(four.len() - 1).collect::<Vec<u8>>()
    };
    digits.chunks(4).flat_map(triple).collect()
}
