//! What userspace mode makes of a scenario: the same, but for what a relay cannot do.
//!
//! `docs/modes.md` says what that is, and its table of scenarios without a meaning on loopback is read here, so that page and tests
//! cannot differ.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Expected, Mode, Scenario, Seen};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/modes.md");
const BEGIN: &str = "<!-- scenarios without a meaning on loopback -->";
const END: &str = "<!-- end -->";

/// The page about modes.
pub(crate) fn page() -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(Path::new(PAGE))?)
}

/// Scenarios without a meaning where there are no rules, and why: the rows of the table.
pub(crate) fn without_meaning() -> anyhow::Result<BTreeMap<String, String>> {
    let page = page()?;
    let (_, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no {BEGIN}"))?;
    let (table, _) = rest.split_once(END).context("the table does not end")?;
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.trim_end_matches('|').split_once("` |"));
    let rows: BTreeMap<_, _> = rows.map(|(name, why)| (name.to_owned(), why.trim().to_owned())).collect();
    for (name, why) in &rows {
        ensure!(!why.is_empty(), "{name} has no reason");
    }
    Ok(rows)
}

/// Expectations of a mode, nftables where its rules lead to the relay. But endpoints always see the node, because the relay dials them,
/// and node ports answer on every address of the node: that they do not is nftables mode's own default.
pub(crate) fn through_a_relay(mut scenario: Scenario, mode: Mode) -> Scenario {
    for flow in scenario.steps.iter_mut().flat_map(|step| &mut step.flows) {
        let mode = if flow.to == Symbol::Gateway { Mode::Iptables } else { mode };
        let mut expected = flow.expected_in(mode).clone();
        if let Expected::Pods(pods) | Expected::Sticky(pods) = &mut expected {
            pods.values_mut().for_each(|seen| *seen = Seen::Node);
        }
        (flow.expected, flow.expected_in_nftables) = (expected, None);
    }
    scenario
}
