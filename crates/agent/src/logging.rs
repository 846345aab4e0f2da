//! Where log lines go and how they look.
//!
//! In: a format and kube-proxy's verbosity. Out: lines on standard error, one per event.
//!
//! Invariants
//! - One event is one line. Text in an event may come from the API server, so whatever could start a new line or drive
//!   a terminal is written as an escape, in both formats. The formatters of `tracing-subscriber` do this for some
//!   characters only (a line feed in a message passes), so the last step before standard error does it for all.
//! - Other people's crates stay at warnings up to `-v 7`, and never say more than debug: their traces may hold requests.

use std::io::{self, Write};
use std::sync::OnceLock;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::escaped::push_json;

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people: time, level, target, message, fields.
    #[default]
    Text,
    /// For programs: one JSON object.
    Json,
}

/// What is logged and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// The look of a line.
    pub format: Format,
    /// kube-proxy's `-v`: from 4 our debug lines, from 6 our traces, from 8 other crates' debug lines.
    pub verbosity: u32,
}

/// What changes the verbosity of the process's log, once it is started.
static VERBOSITY: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Starts logging to standard error for the whole process. Fails if logging has been started before.
pub fn start(logging: Logging) -> anyhow::Result<()> {
    let (filter, handle) = reload::Layer::new(filter(logging.verbosity));
    Registry::default().with(layer(logging.format, filter, io::stderr)).try_init()?;
    // Nobody else has started it.
    let _ = VERBOSITY.set(handle);
    Ok(())
}

/// Changes how much the process logs from now on.
pub fn set_verbosity(verbosity: u32) {
    let changed = VERBOSITY.get().map(|handle| handle.reload(filter(verbosity)));
    match changed {
        Some(Ok(())) => tracing::info!(verbosity, "the verbosity of the log was changed"),
        Some(Err(cause)) => tracing::warn!(%cause, verbosity, "the verbosity of the log cannot be changed"),
        None => {}
    }
}

/// The lines of one subscriber, filtered and formatted, to a writer.
fn layer<S, F, W>(format: Format, filter: F, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Filter<S> + Send + Sync + 'static,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(OneLine(writer));
    match format {
        Format::Text => lines.compact().with_filter(filter).boxed(),
        Format::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    }
}

/// What passes at a verbosity. The name covers every crate of ours, since all begin with it.
fn filter(verbosity: u32) -> Targets {
    let ours = match verbosity {
        0..4 => LevelFilter::INFO,
        4..6 => LevelFilter::DEBUG,
        6.. => LevelFilter::TRACE,
    };
    let others = if verbosity < 8 { LevelFilter::WARN } else { LevelFilter::DEBUG };
    // Says each failed request, which we say once and with what to do about it, and each watch that was cut (`eof in
    // poll`), which is how watches end.
    let requests = if verbosity < 8 { LevelFilter::OFF } else { others };
    Targets::new()
        .with_default(others)
        .with_target("kube_client::client", requests)
        .with_target("kube_client::client::auth", others)
        .with_target("kube_client::client::tls", others)
        .with_target("switchyard", ours)
}

/// Escapes what must not reach a terminal or a line-by-line reader.
struct OneLine<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLine<W> {
    type Writer = OneLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine(self.0.make_writer())
    }
}

impl<W: Write> Write for OneLine<W> {
    /// Takes a whole event with its line feed, as the formatters hand it over.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let mut escaped = String::with_capacity(text.len());
        for c in line.chars() {
            // In a line of JSON such a character can only stand inside a string.
            push_json(&mut escaped, c);
        }
        escaped.push('\n');
        self.0.write_all(escaped.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use switchyard_model::is_unseen;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics while it writes").write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, verbosity: u32, body: impl FnOnce()) -> String {
        let page = Page::default();
        let writer = page.clone();
        let layer = layer(format, filter(verbosity), move || writer.clone());
        tracing::subscriber::with_default(Registry::default().with(layer), body);
        let bytes = page.0.lock().expect("no test panics while it writes").clone();
        String::from_utf8(bytes).expect("only text is logged")
    }

    const HOSTILE: &str = "a\nERROR forged\r\t\u{1b}[31m\u{9b}31m\u{7f}\0\u{202e}\u{2028}\u{ad}\u{e0041}z";

    fn hostile_events() {
        let error = io::Error::other(HOSTILE);
        let span = tracing::info_span!(target: "switchyard", "span", what = %HOSTILE);
        let _entered = span.enter();
        tracing::info!(target: "switchyard", shown = %HOSTILE, debugged = ?HOSTILE, text = HOSTILE, "{HOSTILE}");
        tracing::warn!(target: "other", error = &error as &dyn std::error::Error, "failed");
    }

    #[test]
    fn one_event_is_one_harmless_line() {
        for format in [Format::Text, Format::Json] {
            let page = logged(format, 0, hostile_events);
            assert_eq!(page.matches('\n').count(), 2, "{page}");
            assert!(page.ends_with('\n'));
            for c in page.chars().filter(|c| *c != '\n') {
                assert!(!is_unseen(c), "{c:?} in {page}");
            }
        }
    }

    #[test]
    fn a_json_line_keeps_the_text() {
        let page = logged(Format::Json, 0, || tracing::info!(target: "switchyard", n = 3, "{HOSTILE}"));
        let line: serde_json::Value = serde_json::from_str(&page).expect("a line is JSON");
        assert_eq!(line["message"], HOSTILE);
        assert_eq!(
            (&line["level"], &line["n"], &line["target"]),
            (&"INFO".into(), &3.into(), &"switchyard".into())
        );
        assert!(line["timestamp"].is_string());
    }

    #[test]
    fn a_text_line_reads_well() {
        let page =
            logged(Format::Text, 0, || tracing::info!(target: "switchyard", port = 80, "héllo \"you\""));
        let (time, rest) = page.split_once(' ').expect("a time stands first");
        assert!(time.ends_with('Z'), "{page}");
        assert_eq!(rest, " INFO switchyard: héllo \"you\" port=80\n");
    }

    #[test]
    fn verbosity_opens_levels() {
        let speak = || {
            tracing::info!(target: "switchyard_plan", "our-info");
            tracing::debug!(target: "switchyard::agent", "our-debug");
            tracing::trace!(target: "switchyard", "our-trace");
            tracing::warn!(target: "kube_client", "their-warn");
            tracing::info!(target: "hyper", "their-info");
            tracing::debug!(target: "h2", "their-debug");
            tracing::trace!(target: "rustls", "their-trace");
            tracing::error!(target: "kube_client::client::builder", "their-request");
            tracing::warn!(target: "kube_client::client", "their-eof");
            tracing::warn!(target: "kube_client::client::tls", "their-ca");
        };
        let heard = |verbosity| {
            let page = logged(Format::Text, verbosity, speak);
            page.lines().filter_map(|l| l.rsplit(' ').next()).collect::<Vec<_>>().join(" ")
        };
        for (verbosity, want) in [
            (0, "our-info their-warn their-ca"),
            (3, "our-info their-warn their-ca"),
            (4, "our-info our-debug their-warn their-ca"),
            (7, "our-info our-debug our-trace their-warn their-ca"),
            (
                8,
                "our-info our-debug our-trace their-warn their-info their-debug their-request their-eof their-ca",
            ),
            (
                u32::MAX,
                "our-info our-debug our-trace their-warn their-info their-debug their-request their-eof their-ca",
            ),
        ] {
            assert_eq!(heard(verbosity), want, "-v {verbosity}");
        }
    }
}
