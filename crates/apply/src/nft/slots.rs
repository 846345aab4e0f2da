//! Reads maps of slots by asking for each slot.
//!
//! In: the frontends that the kernel holds. Out: all elements of the map, or nothing if there are some that no frontend
//! leads to: then it has to be listed.

use std::collections::BTreeMap;

use switchyard_model::Family;
use switchyard_netlink::NetlinkError;
use switchyard_netlink::nftables::{Element, Nft};
use switchyard_plan::nft::element::{Data, Key, Place};
use switchyard_plan::nft::names::Set;
use switchyard_plan::nft::rule::Verdict;
use switchyard_plan::nft::shape::Shape;

use super::observe::table;
use super::sets;

/// Keys made at once; all of them together would take more memory than what they find.
const PORTION: usize = 4096;

/// The elements of `set` if it is a map of slots, holds `count` elements, and the frontends lead to all of them.
pub(super) fn ask(
    nft: &mut Nft,
    family: Family,
    set: Set,
    frontends: &BTreeMap<Place, Data>,
    count: usize,
) -> Result<Option<Vec<(Place, Data)>>, NetlinkError> {
    let mut keys =
        frontends.iter().filter_map(|(place, data)| slots_of(set, place, data)).flatten().peekable();
    let mut found: Vec<(Place, Data)> = Vec::with_capacity(count);
    let mut is_readable = true;
    while keys.peek().is_some() && is_readable {
        let portion: Vec<Element> =
            keys.by_ref().take(PORTION).map(|key| sets::encode(&Place { set, key }, &Data::None)).collect();
        nft.find_elements(&table(family), set.as_str(), &portion, &mut |_, element| {
            let Some(element) = element else { return };
            match sets::decode(set, family, &element) {
                Some(decoded) => found.push(decoded),
                None => is_readable = false,
            }
        })?;
    }
    Ok((is_readable && found.len() == count).then_some(found))
}

/// The slots in `set` that a frontend leads to.
fn slots_of(set: Set, place: &Place, data: &Data) -> Option<impl Iterator<Item = Key>> {
    let Data::Verdict(Verdict::Goto(chain)) = data else { return None };
    let slot: Box<dyn Fn(u16) -> Key> = match (set, place.set, place.key) {
        (Set::Slots, Set::Frontends, Key::Frontend(ip, protocol, port)) => {
            Box::new(move |slot| Key::Slot(ip, protocol, port, slot))
        }
        (Set::NodePortSlots, Set::NodePorts, Key::NodePort(protocol, port)) => {
            Box::new(move |slot| Key::NodePortSlot(protocol, port, slot))
        }
        _ => return None,
    };
    let mut slots: Vec<u16> = Shape::named(chain)?.windows().into_iter().flat_map(|w| w.slots()).collect();
    // Windows may overlap.
    slots.sort_unstable();
    slots.dedup();
    Some(slots.into_iter().map(slot))
}
