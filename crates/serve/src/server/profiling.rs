//! `/debug/pprof` and `/debug/flags`: what the process spends its time on, and how much it logs.
//!
//! In: a request below one of the two paths. Out: pages as kube-proxy has them, as far as this process can know.
//!
//! | path | answer |
//! |---|---|
//! | `/debug/pprof/` | what there is |
//! | `/debug/pprof/cmdline` | the command line, parts separated by NUL |
//! | `/debug/pprof/profile?seconds=30` | CPU time of each thread in pprof's format, see [`cpu`] |
//! | `/debug/pprof/heap`, `/debug/pprof/allocs` | memory in use, and allocated since the start, by call stack, see [`heap`] |
//! | `/debug/pprof/goroutine` and the like | 501: they are about Go's scheduler |
//! | `/debug/flags/v` | `PUT` sets the verbosity of the log |
//!
//! Invariants
//! - One CPU profile at a time, of bounded length, and one heap profile at a time: the pages cannot be used to keep the
//!   process busy.

mod cpu;
mod heap;
mod mappings;
mod proto;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::header::{self, HeaderName};
use hyper::{Method, StatusCode};

use super::ask::Ask;
use super::reply::{HTML, NOSNIFF, PLAIN, Reply};
use heap::View;
pub use heap::{Amount, Function, Heap, Stack};

const PROFILES: &str = "/debug/pprof/";
const FLAGS: &str = "/debug/flags";

const DEFAULT_SECONDS: u64 = 30;
/// Longest CPU profile.
const MAX_SECONDS: u64 = 300;

/// Profiles of the Go runtime that this process has no counterpart of.
const NOT_HERE: [&str; 5] = ["block", "goroutine", "mutex", "threadcreate", "trace"];

const GO_PPROF: (HeaderName, &str) = (HeaderName::from_static("x-go-pprof"), "1");
const TEXT: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain");

/// Sets the verbosity of the log.
pub type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// Says who has which memory. Called on a thread that may wait.
pub type TakeHeap = Arc<dyn Fn() -> Heap + Send + Sync>;

/// The pages of `--profiling`.
pub struct Profiling {
    set_verbosity: SetVerbosity,
    take_heap: TakeHeap,
    is_sampling: AtomicBool,
    /// Held while a heap profile is made.
    heap_turn: tokio::sync::Mutex<()>,
}

impl Profiling {
    /// Pages that change the log's verbosity and learn of memory through these functions.
    pub fn new(set_verbosity: SetVerbosity, take_heap: TakeHeap) -> Self {
        let heap_turn = tokio::sync::Mutex::default();
        Self { set_verbosity, take_heap, is_sampling: AtomicBool::new(false), heap_turn }
    }

    /// The page of a path for which [`is_below`] is true.
    pub(super) async fn page(&self, path: &str, ask: Ask) -> Reply {
        match path.strip_prefix(PROFILES) {
            Some("") => index(),
            Some("cmdline") => Reply::ok([PLAIN, NOSNIFF], command_line()),
            Some("profile") => self.cpu_profile(&ask).await,
            Some("heap") => self.heap_profile(&ask, View::InUse).await,
            Some("allocs") => self.heap_profile(&ask, View::Allocated).await,
            Some("symbol") => Reply::ok([PLAIN, NOSNIFF], "num_symbols: 0\n"),
            Some(name) if NOT_HERE.contains(&name) => not_here(name),
            Some(_) => profile_error(StatusCode::NOT_FOUND, "Unknown profile"),
            None if path == "/debug/pprof" => Reply::redirect(StatusCode::FOUND, PROFILES, &ask.method),
            None if path == "/debug/flags/v" => self.verbosity(ask).await,
            None => Reply::bare_html(FLAGS_PAGE),
        }
    }

    async fn cpu_profile(&self, ask: &Ask) -> Reply {
        let asked = ask.parameters("seconds").next().and_then(|text| text.parse().ok());
        let seconds = asked.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_SECONDS);
        if seconds > MAX_SECONDS {
            return profile_error(StatusCode::BAD_REQUEST, "profile duration exceeds server's WriteTimeout");
        }
        let Some(_sampling) = Sampling::begin(&self.is_sampling) else {
            let text = "Could not enable CPU profiling: cpu profiling already in use";
            return profile_error(StatusCode::INTERNAL_SERVER_ERROR, text);
        };
        let (began, before) = (SystemTime::now(), cpu::threads());
        let duration = Duration::from_secs(seconds);
        tokio::time::sleep(duration).await;
        let profile = cpu::profile(&before, &cpu::threads(), began, duration);
        attachment("attachment; filename=\"profile\"", profile)
    }

    async fn heap_profile(&self, ask: &Ask, view: View) -> Reply {
        let is_asked = |name| ask.parameters(name).next().is_some_and(|value| !matches!(&*value, "" | "0"));
        if is_asked("debug") || is_asked("seconds") {
            let text = "There is only the whole profile in pprof's format, without debug= and seconds=. For text and \
                        differences: go tool pprof -top, -diff_base";
            return profile_error(StatusCode::BAD_REQUEST, text);
        }
        let _turn = self.heap_turn.lock().await;
        let take = self.take_heap.clone();
        let made = tokio::task::spawn_blocking(move || heap::profile(&take(), view, SystemTime::now())).await;
        let name = match view {
            View::InUse => "attachment; filename=\"heap\"",
            View::Allocated => "attachment; filename=\"allocs\"",
        };
        match made {
            Ok(profile) => attachment(name, profile),
            Err(_) => profile_error(StatusCode::INTERNAL_SERVER_ERROR, "Could not make the profile"),
        }
    }

    async fn verbosity(&self, mut ask: Ask) -> Reply {
        let (status, text) = match ask.method {
            Method::PUT => match ask.body().await {
                Some(body) => self.set(&body),
                None => (StatusCode::BAD_REQUEST, "error reading request body: too large".to_owned()),
            },
            _ => (StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned()),
        };
        Reply::new(status, [TEXT, NOSNIFF], text + "\n")
    }

    fn set(&self, body: &Bytes) -> (StatusCode, String) {
        let text = String::from_utf8_lossy(body);
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(level) if is_number => {
                (self.set_verbosity)(level);
                (StatusCode::OK, format!("successfully set klog.logging.verbosity to {text}"))
            }
            _ => {
                let reason = if is_number { "value out of range" } else { "invalid syntax" };
                (StatusCode::BAD_REQUEST, format!("strconv.ParseUint: parsing {text:?}: {reason}"))
            }
        }
    }
}

/// True for the paths of this module.
pub(super) fn is_below(path: &str) -> bool {
    let is_flags = path.strip_prefix(FLAGS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    path == "/debug/pprof" || path.starts_with(PROFILES) || is_flags
}

/// Says that a profile is being made, for as long as it lives; a client that goes away ends it too.
struct Sampling<'a>(&'a AtomicBool);

impl<'a> Sampling<'a> {
    fn begin(is_sampling: &'a AtomicBool) -> Option<Self> {
        // Lazily: a `Self` that is made and dropped would end the other profile.
        (!is_sampling.swap(true, Ordering::AcqRel)).then(|| Self(is_sampling))
    }
}

impl Drop for Sampling<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn profile_error(status: StatusCode, text: &str) -> Reply {
    Reply::new(status, [PLAIN, NOSNIFF, GO_PPROF], format!("{text}\n"))
}

fn attachment(name: &'static str, profile: Vec<u8>) -> Reply {
    let kind = (header::CONTENT_TYPE, "application/octet-stream");
    Reply::ok([(header::CONTENT_DISPOSITION, name), kind, NOSNIFF], profile)
}

fn not_here(name: &str) -> Reply {
    let text = format!(
        "There is no {name} profile: it is about Go's scheduler, and this process has none. \
         For stacks of threads use perf on the node."
    );
    profile_error(StatusCode::NOT_IMPLEMENTED, &text)
}

fn command_line() -> String {
    let arguments: Vec<_> = std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect();
    arguments.join("\0")
}

fn index() -> Reply {
    let rows = [
        ("allocs", "A sampling of all past memory allocations, by call stack"),
        ("cmdline", "The command line, its parts separated by NUL"),
        ("heap", "A sampling of memory allocations of live objects, by call stack"),
        (
            "profile",
            "CPU time of each thread, in user space and in the kernel; ?seconds=30 says for how long",
        ),
    ];
    let row = |(name, what): (&str, &str)| {
        format!("<tr><td><a href='{name}'>{name}</a></td><td>{what}</td></tr>\n")
    };
    let page = format!(
        "<html>\n<head>\n<title>{PROFILES}</title>\n</head>\n<body>\n{PROFILES}\n<br>\n\
         Types of profiles available:\n<table>\n{}</table>\n</body>\n</html>\n",
        rows.map(row).concat()
    );
    Reply::ok([HTML, NOSNIFF], page)
}

const FLAGS_PAGE: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\n\
                          flags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n\
                          </html>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_does_not_end_the_profile_of_another() {
        let is_sampling = AtomicBool::new(false);
        let first = Sampling::begin(&is_sampling);
        assert!(first.is_some());
        for _ in 0..2 {
            assert!(Sampling::begin(&is_sampling).is_none());
        }
        drop(first);
        assert!(Sampling::begin(&is_sampling).is_some());
    }
}
