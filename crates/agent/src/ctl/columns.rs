//! The columns of each list, as users of kubectl expect them.
//!
//! In: items as the agent lists them, and what time it is. Out: a table. An older agent does not say everything: what is absent is a dash, and a
//! column of which nothing is known does not stand there if it is an extra one.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use switchyard_serve::machine_time;

use super::age::{age, time};
use super::explain::{list, plain};
use super::table::{MAX_CELL, MAX_WIDE_CELL, aligned};
use crate::flags::Resource;

/// How a table is to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) width: Width,
    pub(super) header: Header,
    pub(super) now: SystemTime,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Usual,
    Wide,
}

/// Whether the names of columns are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Shown,
    LeftOut,
}

/// When a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// If there is room.
    Wide,
    /// If something is in it.
    Used,
}

/// What a cell is made of.
type Cell = fn(&Value, Look) -> String;

type Column = (&'static str, When, Cell);

use When::{Always, Used, Wide};

/// A table of these items.
pub(super) fn table(resource: Resource, items: &[Value], look: Look) -> String {
    let columns: &[Column] = match resource {
        Resource::Services => &SERVICES,
        Resource::Endpoints => &ENDPOINTS,
        Resource::Routes => &ROUTES,
        Resource::Quarantine => &QUARANTINE,
        Resource::Changes => &CHANGES,
    };
    let is_shown = |(_, when, cell): &&Column| match when {
        Always => true,
        Wide => look.width == Width::Wide,
        Used => items.iter().any(|item| !cell(item, look).is_empty()),
    };
    let columns: Vec<&Column> = columns.iter().filter(is_shown).collect();
    let header: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
    let row = |item: &Value| columns.iter().map(|(.., cell)| cell(item, look)).collect();
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    let longest = if look.width == Width::Wide { MAX_WIDE_CELL } else { MAX_CELL };
    aligned((look.header == Header::Shown).then_some(&header), &rows, longest)
}

const NAMESPACE: Column = ("NAMESPACE", Always, |item, _| plain(&item["namespace"]));
const NAME: Column = ("NAME", Always, |item, _| plain(&item["name"]));
const FAMILY: Cell = |item, _| plain(&item["family"]);

const SERVICES: [Column; 14] = [
    NAMESPACE,
    NAME,
    ("PORT", Always, |item, _| port(item, &plain(&item["port"]))),
    ("CLUSTER-IP", Always, |item, _| plain(&item["clusterIP"])),
    ("EXTERNAL-IP", Always, |item, _| joined(item, ["externalIPs", "loadBalancerIPs"])),
    ("NODE-PORT", Always, |item, _| plain(&item["nodePort"])),
    ("ENDPOINTS", Always, |item, _| format!("{}/{}", plain(&item["usable"]), plain(&item["endpoints"]))),
    ("FAMILY", Wide, FAMILY),
    ("INTERNAL", Wide, |item, _| plain(&item["internalTrafficPolicy"])),
    ("EXTERNAL", Wide, |item, _| plain(&item["externalTrafficPolicy"])),
    ("STICKY", Wide, |item, _| item["affinitySeconds"].as_u64().map(|s| format!("{s}s")).unwrap_or_default()),
    ("SOURCE-RANGES", Wide, |item, _| list(&item["sourceRanges"])),
    ("DIAL", Used, |item, _| each(&item["loopback"], "dial", ",")),
    ("SET-ASIDE", Used, |item, _| plain(&item["quarantined"])),
];

/// `http:80/tcp`.
fn port(item: &Value, number: &str) -> String {
    let name = plain(&item["portName"]);
    let name = if name.is_empty() { name } else { format!("{name}:") };
    format!("{name}{number}/{}", plain(&item["protocol"]))
}

/// What is in these lists, with commas.
fn joined<const N: usize>(item: &Value, fields: [&str; N]) -> String {
    let texts = fields.map(|field| list(&item[field]));
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(",")
}

/// A field of each thing in a list.
fn each(things: &Value, field: &str, between: &str) -> String {
    let things = things.as_array().map(Vec::as_slice).unwrap_or_default();
    things.iter().map(|thing| plain(&thing[field])).collect::<Vec<_>>().join(between)
}

const ENDPOINTS: [Column; 9] = [
    NAMESPACE,
    NAME,
    ("PORT", Always, |item, _| plain(&item["portName"])),
    ("ENDPOINT", Always, |item, _| plain(&item["address"])),
    ("STATE", Always, |item, _| state(item).to_owned()),
    ("NODE", Always, |item, _| plain(&item["node"])),
    ("FAMILY", Wide, FAMILY),
    ("USED-FOR", Wide, |item, _| {
        let used = [("Cluster", "usedForCluster"), ("Local", "usedForLocal")];
        let used = used.into_iter().filter(|(_, field)| item[field] == true).map(|(name, _)| name);
        used.collect::<Vec<_>>().join(",")
    }),
    ("HINTS", Wide, |item, _| joined(item, ["hintedZones", "hintedNodes"])),
];

fn state(item: &Value) -> &'static str {
    let is = |name: &str| item[name] == true;
    match (is("ready"), is("serving"), is("terminating")) {
        (true, _, true) => "Ready,Terminating",
        (true, _, false) => "Ready",
        (false, true, true) => "Terminating",
        (false, false, true) => "Ended",
        (false, ..) => "NotReady",
    }
}

const ROUTES: [Column; 10] = [
    NAMESPACE,
    NAME,
    ("FRONTEND", Always, |item, _| plain(&item["frontend"])),
    ("KIND", Always, |item, _| plain(&item["frontendKind"])),
    ("FROM", Always, |item, _| each(&item["branches"], "from", "; ")),
    ("VERDICT", Always, |item, _| verdicts(item)),
    ("MASQUERADE", Always, |item, _| each(&item["branches"], "masquerade", "; ")),
    ("FAMILY", Wide, FAMILY),
    ("PORT", Wide, |item, _| plain(&item["portName"])),
    ("ONLY-FROM", Wide, |item, _| list(&item["allowedSources"])),
];

fn verdicts(item: &Value) -> String {
    let verdict = |branch: &Value| match plain(&branch["verdict"]) {
        verdict if verdict == "pick" => list(&branch["endpoints"]),
        verdict => verdict,
    };
    let branches = item["branches"].as_array().map(Vec::as_slice).unwrap_or_default();
    branches.iter().map(verdict).collect::<Vec<_>>().join("; ")
}

const QUARANTINE: [Column; 4] = [
    ("KIND", Always, |item, _| plain(&item["kind"])),
    ("OBJECT", Always, |item, _| plain(&item["object"])),
    ("FAMILY", Always, FAMILY),
    ("CAUSE", Always, |item, _| plain(&item["cause"])),
];

const CHANGES: [Column; 11] = [
    ("NUMBER", Always, |item, _| plain(&item["number"])),
    ("AGE", Always, |item, look| time(&item["committed"]).map(|at| age(at, look.now)).unwrap_or_default()),
    ("SEEN", Wide, |item, _| time(&item["seen"]).map(machine_time).unwrap_or_default()),
    ("COMMITTED", Wide, |item, _| time(&item["committed"]).map(machine_time).unwrap_or_default()),
    ("FAMILY", Always, FAMILY),
    ("KIND", Always, |item, _| plain(&item["kind"])),
    ("LATENCY", Always, |item, _| milliseconds(&item["latencySeconds"])),
    ("TOOK", Always, |item, _| milliseconds(&item["tookSeconds"])),
    ("OPERATIONS", Always, |item, _| plain(&item["operations"])),
    ("SERVICES", Always, services),
    ("OUTCOME", Always, |item, _| match plain(&item["cause"]) {
        cause if cause.is_empty() => plain(&item["outcome"]),
        cause => format!("{}: {cause}", plain(&item["outcome"])),
    }),
];

/// The first name and how many there are, or if there is room all that are known.
fn services(item: &Value, look: Look) -> String {
    let names = item["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = if look.width == Width::Wide { names.len() } else { 1 };
    let shown: Vec<String> = names.iter().take(shown).map(plain).collect();
    let total =
        item["serviceCount"].as_u64().and_then(|total| usize::try_from(total).ok()).unwrap_or_default();
    match total.saturating_sub(shown.len()) {
        0 => shown.join(","),
        more => format!("{} and {more} more", shown.join(",")),
    }
}

fn milliseconds(seconds: &Value) -> String {
    let time = seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.map(|time| format!("{:.3}ms", time.as_secs_f64() * 1000.0)).unwrap_or_default()
}
