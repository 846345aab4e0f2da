//! Reads our table and says what it holds in the planner's words.
//!
//! The kernel lists a map in pieces and walks it from the start for each: listing all endpoints of 50,000 Services takes
//! many seconds. So large maps of slots are not listed but asked: every frontend leads to a chain whose name says which
//! slots it has, and the number of elements tells whether there are others.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use switchyard_model::Family;
use switchyard_netlink::nftables::{Chain as KernelChain, Nft, Rule as KernelRule, SetFlags, TableId};
use switchyard_netlink::{NetlinkError, socket};
use switchyard_plan::nft::base::Chain;
use switchyard_plan::nft::element::{Data, Place};
use switchyard_plan::nft::names::Set;
use switchyard_plan::nft::planner::Ruleset;
use switchyard_plan::nft::sticky::ClientSet;

use super::{Layout, rules, sets, slots, wire};

/// Elements of a set that are listed; more are asked for one by one, which is faster from here on.
const LISTED: usize = 64 << 10;

/// Before a list that is not whole is asked for again. A table of 50,000 elements is in order within some milliseconds.
const RESTS: [Duration; 5] = [
    Duration::from_millis(2),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// What the kernel holds.
#[derive(Debug)]
pub(crate) enum Observed {
    /// Nothing of ours.
    Nothing,
    /// A table that we could have written; what differs can be mended piece by piece.
    Table(Ruleset),
    /// A table with our name that we would never have written: it must be made anew.
    Foreign,
}

/// The table of nftables mode.
pub(super) fn table(family: Family) -> TableId {
    Layout::NFTABLES.id(family)
}

/// Reads everything. `want` tells which chains to compare with: one whose rules are the same comes back as it is there.
pub(crate) fn observe(
    nft: &mut Nft,
    family: Family,
    layout: Layout,
    want: &BTreeMap<String, Chain>,
) -> Result<Observed, NetlinkError> {
    socket::retry(|| observe_once(nft, family, layout, want))
}

fn observe_once(
    nft: &mut Nft,
    family: Family,
    layout: Layout,
    want: &BTreeMap<String, Chain>,
) -> Result<Observed, NetlinkError> {
    let id = layout.id(family);
    match nft.tables(wire(family))?.into_iter().find(|table| table.id == id) {
        None => return Ok(Observed::Nothing),
        // Somebody switched all of it off.
        Some(table) if table.is_dormant => return Ok(Observed::Foreign),
        Some(_) => {}
    }
    let mut have = Ruleset::default();
    let mut shared = BTreeSet::new();
    for set in nft.sets(&id)? {
        if let Some(known) = layout.sets.iter().copied().find(|s| s.as_str() == &*set.name) {
            let size = set.size.filter(|_| known.may_have_size());
            if set != sets::declare(known, family, size) {
                return Ok(Observed::Foreign);
            }
            have.rooms.extend(size.map(|size| (known, size)));
            shared.insert(known);
            continue;
        }
        let Some(seconds) = set.timeout.map(|t| t.as_secs()).and_then(|s| u32::try_from(s).ok()) else {
            return Ok(Observed::Foreign);
        };
        let clients = ClientSet { name: set.name.to_string(), seconds };
        if set != sets::declare_clients(&clients, family) {
            return Ok(Observed::Foreign);
        }
        have.clients.insert(clients.name, seconds);
    }
    if shared.len() < layout.sets.len() {
        return Ok(Observed::Foreign);
    }
    let counts = nft.element_counts(&id)?;
    // In this order: what leads to slots is known before they are.
    for set in layout.sets.iter().copied() {
        let count = counts.get(set.as_str()).and_then(|count| usize::try_from(*count).ok());
        let asked = match count.filter(|count| *count > LISTED) {
            Some(count) => slots::ask(nft, family, set, &have.elements, count)?,
            None => None,
        };
        match asked {
            Some(asked) => have.elements.extend(asked),
            None if list(nft, &id, set, count, family, &mut have.elements)? == Listed::Ours => {}
            None => return Ok(Observed::Foreign),
        }
    }
    read_chains(nft, &id, family, want, have)
}

fn read_chains(
    nft: &mut Nft,
    id: &TableId,
    family: Family,
    want: &BTreeMap<String, Chain>,
    mut have: Ruleset,
) -> Result<Observed, NetlinkError> {
    let mut by_chain: BTreeMap<String, Vec<KernelRule>> = BTreeMap::new();
    for rule in nft.rules(id)? {
        by_chain.entry(rule.chain.to_string()).or_default().push(rule.without_handle());
    }
    for chain in nft.chains(id)? {
        let found = by_chain.remove(&*chain.name).unwrap_or_default();
        let Some(known) = known_chain(&chain, &found, family, want) else { return Ok(Observed::Foreign) };
        have.chains.insert(known.name.clone(), known);
    }
    Ok(Observed::Table(have))
}

/// Whether all elements of a set could be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Ours,
    Foreign,
}

/// Adds the elements of a set, of which the kernel says how many there are, to `have`.
///
/// A hash table that grew is put in order in the background. The kernel finds the place where the next piece of a list begins by counting
/// elements, so a list that is read meanwhile may miss some, or have some twice, and no flag tells. The number of elements does.
fn list(
    nft: &mut Nft,
    id: &TableId,
    set: Set,
    count: Option<usize>,
    family: Family,
    have: &mut BTreeMap<Place, Data>,
) -> Result<Listed, NetlinkError> {
    // Ranges are counted by their ends.
    let expected = count.filter(|_| !sets::declare(set, family, None).flags.contains(SetFlags::INTERVAL));
    let before = have.len();
    let mut rests = RESTS.iter();
    loop {
        match elements(nft, id, set, family)? {
            Some(elements) => have.extend(elements),
            None => return Ok(Listed::Foreign),
        }
        let is_whole = expected.is_none_or(|expected| have.len() - before == expected);
        // Whoever changes the set all the time is not waited for: the generation tells of him.
        match rests.next().filter(|_| !is_whole) {
            Some(rest) => thread::sleep(*rest),
            None => return Ok(Listed::Ours),
        }
    }
}

pub(super) fn elements(
    nft: &mut Nft,
    id: &TableId,
    set: Set,
    family: Family,
) -> Result<Option<Vec<(Place, Data)>>, NetlinkError> {
    let mut all = Some(Vec::new());
    nft.elements(id, set.as_str(), &mut |element| match (sets::decode(set, family, &element), &mut all) {
        (Some(decoded), Some(list)) => list.push(decoded),
        _ => all = None,
    })?;
    Ok(all)
}

/// The wanted chain if the kernel's is the same; a chain without rules if only they differ; `None` if it hangs
/// elsewhere.
fn known_chain(
    found: &KernelChain,
    rules_found: &[KernelRule],
    family: Family,
    want: &BTreeMap<String, Chain>,
) -> Option<Chain> {
    let Some(wanted) = want.get(&*found.name) else {
        return Some(Chain { name: found.name.to_string(), base: None, rules: Vec::new() });
    };
    if rules::chain(wanted).attachment != found.attachment {
        return None;
    }
    if rules::rules(wanted, family) == rules_found {
        return Some(wanted.clone());
    }
    Some(Chain { rules: Vec::new(), ..wanted.clone() })
}
