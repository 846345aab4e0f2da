//! `/flagz` and `/statusz`: what the process was told and how it is, for people and for programs.
//!
//! In: flags and versions from the agent, and a request. Out: kube-proxy's text, or its JSON or YAML objects if the
//! client asks for one by group, version and kind (`Accept: application/json;v=v1beta1;g=config.k8s.io;as=Flagz`).
//!
//! Invariants
//! - A client that says nothing, or takes anything, gets text. One that asks for what there is not gets 406.
//! - The text is for people: its separator differs from answer to answer, as in kube-proxy, so that nobody parses it.

mod negotiate;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hyper::{StatusCode, header};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::ask::Ask;
use super::reply::{JSON, PLAIN, Reply};
use negotiate::{Format, Kind, Version, Wanted, negotiate};

/// The name under which dashboards know this component.
const COMPONENT: &str = "kube-proxy";

const DISCLAIMER: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting \
                          compatibility guarantees and is for debugging purposes only.";

/// Every flag with its value, as text.
#[derive(Clone, Debug, Default)]
pub struct Flagz(pub BTreeMap<String, String>);

impl Flagz {
    pub(super) fn page(&self, ask: &Ask) -> Reply {
        answer(
            Kind::Flagz,
            ask,
            || self.text(separator()),
            |version| FlagzObject {
                kind: "Flagz",
                api_version: version.group_version(),
                metadata: Metadata { name: COMPONENT },
                flags: &self.0,
            },
        )
    }

    fn text(&self, separator: &str) -> String {
        let lines = self.0.iter().map(|(name, value)| format!("{name}{separator}{value}\n"));
        format!("\n{COMPONENT} flagz\n{DISCLAIMER}\n{}", lines.collect::<String>())
    }
}

/// The versions that `/statusz` shows.
#[derive(Clone, Debug)]
pub struct Statusz {
    /// What this program was built with; kube-proxy shows the version of Go.
    pub toolchain: String,
    /// The Kubernetes minor version that it stands for, like `1.36`.
    pub version: String,
}

impl Statusz {
    pub(super) fn page(&self, ask: &Ask, up: Duration, now: SystemTime, paths: &[&str]) -> Reply {
        let started = Timestamp::try_from(now.checked_sub(up).unwrap_or(now)).unwrap_or_default();
        answer(
            Kind::Statusz,
            ask,
            || self.text(separator(), started, up, paths),
            |version| StatuszObject {
                kind: "Statusz",
                api_version: version.group_version(),
                metadata: Metadata { name: COMPONENT },
                start_time: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                uptime_seconds: up.as_secs(),
                go_version: &self.toolchain,
                binary_version: &self.version,
                emulation_version: &self.version,
                paths,
            },
        )
    }

    fn text(&self, separator: &str, started: Timestamp, up: Duration, paths: &[&str]) -> String {
        let started = started.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y").to_string();
        let (hours, minutes, seconds) = (up.as_secs() / 3600, up.as_secs() / 60 % 60, up.as_secs() % 60);
        let up = format!("{hours} hr {minutes:02} min {seconds:02} sec");
        let paths = paths.join(" ");
        let rows = [
            ("Started", started.as_str()),
            ("Up", &up),
            ("Go version", &self.toolchain),
            ("Binary version", &self.version),
            ("Emulation version", &self.version),
            ("Paths", &paths),
        ];
        let lines = rows.map(|(name, value)| format!("{name}{separator} {value}\n"));
        format!("\n{COMPONENT} statusz\n{DISCLAIMER}\n\n{}", lines.concat())
    }
}

/// One of kube-proxy's four, a different one from time to time.
fn separator() -> &'static str {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    match nanos / 1000 % 4 {
        0 => ":",
        1 => ": ",
        2 => "=",
        _ => " ",
    }
}

/// The text, or the object in the form that was asked for.
fn answer<T: Serialize>(
    kind: Kind,
    ask: &Ask,
    text: impl FnOnce() -> String,
    object: impl FnOnce(Version) -> T,
) -> Reply {
    let (format, version) = match negotiate(kind, ask.accept()) {
        Wanted::Text => return Reply::ok([PLAIN], text()),
        Wanted::Unknown => return not_acceptable(ask),
        Wanted::Object(format, version) => (format, version),
    };
    let object = object(version);
    let body = match format {
        Format::Json => json(&object, ask),
        Format::Yaml => yaml::write(&serde_json::to_value(&object).unwrap_or_default()),
    };
    let content_type = (header::CONTENT_TYPE, version.content_type(format, kind));
    let warning = version.warning(kind).map(|text| (header::WARNING, text));
    Reply::ok([content_type].into_iter().chain(warning), body)
}

fn not_acceptable(ask: &Ask) -> Reply {
    let status = StatusObject {
        kind: "Status",
        api_version: "v1",
        metadata: BTreeMap::new(),
        status: "Failure",
        message: "only the following media types are accepted: application/json, application/yaml, text/plain",
        reason: "NotAcceptable",
        code: StatusCode::NOT_ACCEPTABLE.as_u16(),
    };
    // Who takes JSON gets it as usual, others in lines.
    let body = match ask.accept().split(',').any(|range| range.trim() == "application/json") {
        true => json(&status, ask),
        false => serde_json::to_string_pretty(&status).unwrap_or_default(),
    };
    Reply::new(StatusCode::NOT_ACCEPTABLE, [JSON], body)
}

/// In lines for people, in one line for programs. Who is who is told by the parameter `pretty`, or by the program's name.
fn json<T: Serialize>(object: &T, ask: &Ask) -> String {
    let pretty = ask.parameters("pretty").next().filter(|value| !value.is_empty());
    let is_pretty = match pretty.as_deref() {
        Some(value) => ["1", "t", "T", "true", "TRUE", "True"].contains(&value),
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| ask.user_agent().starts_with(name)),
    };
    // Plain fields cannot fail to be written.
    if is_pretty {
        return serde_json::to_string_pretty(object).unwrap_or_default();
    }
    serde_json::to_string(object).unwrap_or_default() + "\n"
}

/// The order of the fields is part of the contract, here and below.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FlagzObject<'a> {
    kind: &'static str,
    api_version: String,
    metadata: Metadata,
    flags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatuszObject<'a> {
    kind: &'static str,
    api_version: String,
    metadata: Metadata,
    start_time: String,
    uptime_seconds: u64,
    go_version: &'a str,
    binary_version: &'a str,
    emulation_version: &'a str,
    paths: &'a [&'a str],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusObject {
    kind: &'static str,
    api_version: &'static str,
    metadata: BTreeMap<&'static str, &'static str>,
    status: &'static str,
    message: &'static str,
    reason: &'static str,
    code: u16,
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
}
