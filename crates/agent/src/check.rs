//! `switchyard check`: what this node's kernel and programs offer for each mode. No agent is needed, and nothing that is tried stays.
//!
//! In: the mode that matters, and the IPVS scheduler. Out: a table or JSON; [`Finding::Bad`] if that mode cannot work here.
//!
//! What is tried is what the modes themselves try before they write anything. Where the process may make a network namespace, it is tried
//! in a fresh one that goes away afterwards: asking legacy iptables for a table makes the kernel create it.

mod schedulers;

use std::error::Error;

use serde_json::{Value, json};
use switchyard_apply::iptables::{Iptables, Variant, VariantChoice, family_usable};
use switchyard_apply::{ipvs, nft};
use switchyard_model::Family;
use switchyard_netlink::netns::Namespace;

use crate::cleanup::has_legacy_tables;
use crate::ctl::{CtlError, Finding, show, table};
use crate::flags::{CheckFlags, Mode};
use crate::run::has_loopback;
use crate::sync::with_causes;

/// One way to serve one family.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    mode: Mode,
    family: Family,
    /// Whether it works, and if the mode has several ways, whether this is the one that it would take.
    works: bool,
    is_chosen: bool,
    /// By what.
    with: String,
    missing: String,
    advice: String,
}

impl Row {
    fn works(mode: Mode, family: Family, with: impl Into<String>) -> Self {
        let (missing, advice) = Default::default();
        Self { mode, family, works: true, is_chosen: true, with: with.into(), missing, advice }
    }

    /// Errors of probes say what is wrong, and behind the last semicolon what to do.
    fn fails(mode: Mode, family: Family, with: impl Into<String>, error: &dyn Error) -> Self {
        let text = error.to_string();
        let (missing, advice) = text.rsplit_once("; ").unwrap_or((&text, ""));
        let cause = error.source().map(|cause| format!(" ({})", with_causes(cause))).unwrap_or_default();
        Self {
            works: false,
            missing: format!("{missing}{cause}"),
            advice: advice.to_owned(),
            ..Self::works(mode, family, with)
        }
    }

    fn json(&self) -> Value {
        json!({
            "mode": self.mode.as_str(),
            "family": self.family.to_string(),
            "works": self.works,
            "isChosen": self.is_chosen,
            "with": self.with,
            "missing": self.missing,
            "advice": self.advice,
        })
    }

    fn cells(&self) -> Vec<String> {
        let works = if self.works { "yes" } else { "no" };
        let family = self.family.to_string();
        let first = [self.mode.as_str().to_owned(), family, works.to_owned()];
        first.into_iter().chain([self.with.clone(), self.missing.clone(), self.advice.clone()]).collect()
    }
}

/// Looks, and prints.
pub fn run(flags: &CheckFlags) -> Result<Finding, CtlError> {
    let mode = flags.mode();
    let rows = look(flags);
    let works = rows.iter().any(|row| row.mode == mode && row.works && row.is_chosen);
    let answer = json!({
        "apiVersion": "v1",
        "kind": "Check",
        "mode": mode.as_str(),
        "works": works,
        "items": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    show(flags.output, &answer, || {
        let header = ["MODE", "FAMILY", "WORKS", "WITH", "MISSING", "WHAT-TO-DO"];
        let verdict = if works { "works" } else { "cannot work" };
        let rows: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        format!("{}\n{} mode {verdict} on this node.\n", table(&header, &rows), mode.as_str())
    })?;
    Ok(if works { Finding::Good } else { Finding::Bad })
}

/// Whether nf_tables has what is needed.
type Tables = Result<(), nft::probe::ProbeError>;

/// What has to be known of the node before leaving its namespace.
struct Node {
    families: Vec<Family>,
    with_loopback: Vec<Family>,
    chosen: Option<Variant>,
    has_legacy_tables: bool,
}

fn look(flags: &CheckFlags) -> Vec<Row> {
    let node = Node {
        families: Family::ALL.into_iter().filter(|family| family_usable(*family)).collect(),
        with_loopback: Family::ALL.into_iter().filter(|family| has_loopback(*family)).collect(),
        chosen: VariantChoice::Auto.resolve().ok(),
        has_legacy_tables: has_legacy_tables(),
    };
    let scheduler = &flags.ipvs_scheduler;
    let elsewhere = Namespace::new().and_then(|namespace| namespace.run(|| rows(&node, scheduler, true)));
    elsewhere.unwrap_or_else(|_| rows(&node, scheduler, false))
}

fn rows(node: &Node, scheduler: &str, is_elsewhere: bool) -> Vec<Row> {
    // Three modes need nf_tables: it is asked once.
    let tables: Vec<(Family, Tables)> = node.families.iter().map(|f| (*f, nft::probe::probe(*f))).collect();
    let mut rows: Vec<Row> = tables.iter().map(|(family, tables)| nftables(*family, tables)).collect();
    for variant in [Variant::Nft, Variant::Legacy] {
        // Asking would make the kernel create its tables, and they would stay.
        let may_ask = is_elsewhere || variant == Variant::Nft || node.has_legacy_tables;
        for family in node.families.iter().filter(|_| may_ask) {
            let is_chosen = node.chosen.is_none_or(|chosen| chosen == variant);
            rows.push(Row { is_chosen, ..iptables(*family, variant, is_chosen) });
        }
    }
    let known = schedulers::known();
    rows.extend(tables.iter().map(|(family, tables)| ipvs(*family, tables, scheduler, &known)));
    rows.extend(tables.iter().map(|(family, tables)| userspace(*family, tables, node)));
    rows
}

fn nftables(family: Family, tables: &Tables) -> Row {
    let with = "netlink, no program";
    match tables {
        Ok(()) => Row::works(Mode::Nftables, family, with),
        Err(error) => Row::fails(Mode::Nftables, family, with, error),
    }
}

fn iptables(family: Family, variant: Variant, is_chosen: bool) -> Row {
    let chosen = if is_chosen { "" } else { ", not chosen" };
    let name = variant.as_str();
    match Iptables::probe(family, variant) {
        Ok(programs) => Row::works(Mode::Iptables, family, format!("{name} {}{chosen}", programs.version())),
        Err(error) => Row::fails(Mode::Iptables, family, format!("{name}{chosen}"), &error),
    }
}

fn ipvs(family: Family, tables: &Tables, scheduler: &str, known: &[String]) -> Row {
    let with = match known {
        [] => format!("scheduler {scheduler}"),
        known => format!("scheduler {scheduler} of {}", known.join(" ")),
    };
    let fails = |error: &dyn Error| Row::fails(Mode::Ipvs, family, with.clone(), error);
    match (ipvs::probe::look(scheduler), tables) {
        (Err(error), _) => fails(&error),
        // The table beside IPVS is one of nf_tables.
        (Ok(()), Err(error)) => fails(error),
        (Ok(()), Ok(())) => Row::works(Mode::Ipvs, family, with),
    }
}

fn userspace(family: Family, tables: &Tables, node: &Node) -> Row {
    match tables {
        Ok(()) => Row::works(Mode::Userspace, family, "rules that lead to listeners"),
        Err(error) => {
            let with = "ports on loopback addresses, without rules";
            let row = Row::fails(Mode::Userspace, family, with, error);
            Row { works: node.with_loopback.contains(&family), ..row }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_taken_apart_into_what_is_missing_and_what_to_do() {
        let row = Row::fails(Mode::Ipvs, Family::V4, "rr", &ipvs::probe::ProbeError::NoIpvs);
        assert!(row.missing.starts_with("this kernel has no IPVS") && !row.works, "{row:?}");
        assert!(row.advice.starts_with("`modprobe ip_vs` may bring it"), "{row:?}");
        assert_eq!(row.cells().len(), 6);
    }
}
