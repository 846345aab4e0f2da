//! What the kernel's table holds against what it should hold. Nothing is written.

use std::collections::{BTreeMap, HashMap};

use switchyard_model::{Family, ServicePortName};
use switchyard_netlink::NetlinkError;
use switchyard_netlink::nftables::{Nft, Rule as KernelRule};
use switchyard_plan::nft::base::Chain;
use switchyard_plan::nft::element::{Data, Place};
use switchyard_plan::nft::ops::{Change, Op};
use switchyard_plan::nft::planner::Planner;

use super::observe::{Observed, observe};
use super::{Layout, rules};
use crate::diff::Difference;

/// Reads the table of nftables mode back and compares.
pub(crate) fn difference(planner: &Planner) -> Result<Difference, NetlinkError> {
    let family = planner.book().settings().family;
    let (mut nft, layout) = (Nft::open()?, Layout::NFTABLES);
    let mut difference = Difference::default();
    let observed = observe(&mut nft, family, layout, &planner.chains())?;
    let Some(mut held) = table(observed, family, layout, &mut difference) else { return Ok(difference) };
    let ops = planner.repair_objects(&held);
    let missing = planner.repair_elements(&mut held.elements);
    objects(&mut nft, family, layout, &ops, &mut difference)?;
    elements(&missing, &held.elements, &mut difference);
    Ok(difference)
}

/// The table if it can be compared piece by piece; else says what it is instead.
pub(crate) fn table(
    observed: Observed,
    family: Family,
    layout: Layout,
    difference: &mut Difference,
) -> Option<switchyard_plan::nft::planner::Ruleset> {
    let name = format!("table {} {}", word(family), layout.table);
    match observed {
        Observed::Table(held) => return Some(held),
        Observed::Nothing => difference.missing(None, format!("{name}, with everything in it")),
        Observed::Foreign => {
            difference.extra(None, format!("{name}, in a form that this agent never gave it"));
            difference.missing(None, format!("{name}, made anew"));
        }
    }
    None
}

fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// Chains, and sets of sticky clients.
pub(crate) fn objects(
    nft: &mut Nft,
    family: Family,
    layout: Layout,
    ops: &[Op],
    difference: &mut Difference,
) -> Result<(), NetlinkError> {
    let mut found: Option<HashMap<String, Vec<KernelRule>>> = None;
    for op in ops {
        let owner = op.owner.as_ref();
        match &op.change {
            Change::AddClients(set) => difference.missing(owner, format!("set {}", set.name)),
            Change::DeleteClients(name) => difference.extra(owner, format!("set {name}")),
            Change::AddChain(chain) => {
                difference
                    .missing(owner, format!("chain {} with its {} rules", chain.name, chain.rules.len()));
            }
            Change::DeleteChain(name) => difference.extra(owner, format!("chain {name}")),
            Change::ReplaceRules(chain) => {
                let found = match &mut found {
                    Some(found) => found,
                    none => none.insert(by_chain(nft, family, layout)?),
                };
                let held = found.get(&chain.name).map(Vec::as_slice).unwrap_or_default();
                rules_of(chain, family, held, owner, difference);
            }
            Change::AddTable
            | Change::DeleteTable
            | Change::AddSet(..)
            | Change::DeleteSet(_)
            | Change::AddElement(..)
            | Change::DeleteElement(_) => {}
        }
    }
    Ok(())
}

fn by_chain(
    nft: &mut Nft,
    family: Family,
    layout: Layout,
) -> Result<HashMap<String, Vec<KernelRule>>, NetlinkError> {
    let mut found: HashMap<String, Vec<KernelRule>> = HashMap::new();
    for rule in nft.rules(&layout.id(family))? {
        found.entry(rule.chain.to_string()).or_default().push(rule.without_handle());
    }
    Ok(found)
}

/// The rules of one chain that differs.
fn rules_of(
    chain: &Chain,
    family: Family,
    held: &[KernelRule],
    owner: Option<&ServicePortName>,
    difference: &mut Difference,
) {
    let mut others: Vec<&KernelRule> = held.iter().collect();
    let before = difference.count();
    for rule in &chain.rules {
        let alone = Chain { rules: vec![rule.clone()], ..chain.clone() };
        for wanted in rules::rules(&alone, family) {
            match others.iter().position(|other| **other == wanted) {
                Some(at) => _ = others.remove(at),
                None => difference.missing(owner, rule.to_line(family, &chain.name)),
            }
        }
    }
    if !others.is_empty() {
        let count = others.len();
        difference.extra(owner, format!("{count} rules of chain {} that are none of ours", chain.name));
    }
    if difference.count() == before {
        difference.extra(owner, format!("the order of the rules of chain {}", chain.name));
    }
}

/// Elements: `missing` should be there, `extra` is there and should not be, or not so.
pub(crate) fn elements(missing: &[Op], extra: &BTreeMap<Place, Data>, difference: &mut Difference) {
    let owners: HashMap<&Place, &ServicePortName> = missing
        .iter()
        .filter_map(|op| match &op.change {
            Change::AddElement(place, _) => Some((place, op.owner.as_ref()?)),
            _ => None,
        })
        .collect();
    for (place, data) in extra {
        difference.extra(owners.get(place).copied(), place.to_text(data));
    }
    for op in missing {
        if let Change::AddElement(place, data) = &op.change {
            difference.missing(op.owner.as_ref(), place.to_text(data));
        }
    }
}
