//! `switchyard cleanup --dry-run`: what a cleanup would remove, and nothing removed.

use anyhow::bail;
use serde_json::{Value, json};
use switchyard_apply::iptables::{Iptables, IptablesError, family_usable, find, leftovers};
use switchyard_apply::ipvs;
use switchyard_model::Family;
use switchyard_netlink::nftables;

use super::{NFTABLES_TABLES, variants};
use crate::ctl::{show, table};
use crate::flags::CleanupFlags;
use crate::sync::with_causes;

/// One thing that would go.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    mode: String,
    family: Option<Family>,
    object: String,
}

/// What was found, and what could not be looked at.
#[derive(Debug, Default)]
struct Found {
    items: Vec<Item>,
    unread: Vec<String>,
}

impl Found {
    fn add(&mut self, mode: &str, family: impl Into<Option<Family>>, object: String) {
        self.items.push(Item { mode: mode.to_owned(), family: family.into(), object });
    }
}

/// Lists. Fails if something could not be looked at, after listing the rest.
pub fn list(flags: &CleanupFlags) -> anyhow::Result<()> {
    let mut found = Found::default();
    of_iptables(flags, &mut found)?;
    of_nftables(&mut found);
    let ipvs = ipvs::find_leftovers();
    ipvs.objects.into_iter().for_each(|object| found.add("ipvs", None, object));
    found
        .unread
        .extend(ipvs.errors.iter().map(|error| format!("{}: {}", error.object, with_causes(&error.cause))));
    let Found { items, unread } = found;
    let answer = json!({
        "apiVersion": "v1",
        "kind": "CleanupList",
        "items": items.iter().map(json_of).collect::<Vec<_>>(),
        "unread": unread,
    });
    show(flags.output, &answer, || match items.as_slice() {
        [] => "Nothing to remove.\n".to_owned(),
        items => table(&["MODE", "FAMILY", "OBJECT"], &items.iter().map(cells).collect::<Vec<_>>()),
    })?;
    if !unread.is_empty() {
        bail!("cannot look everywhere: {}", unread.join("; "));
    }
    Ok(())
}

fn json_of(item: &Item) -> Value {
    json!({ "mode": item.mode, "family": item.family.map(|family| family.to_string()), "object": item.object })
}

fn cells(item: &Item) -> Vec<String> {
    let family = item.family.map(|family| family.to_string()).unwrap_or_default();
    vec![item.mode.clone(), family, item.object.clone()]
}

fn of_iptables(flags: &CleanupFlags, list: &mut Found) -> anyhow::Result<()> {
    for variant in variants(flags.iptables_backend) {
        let mode = format!("iptables-{}", variant.as_str());
        for family in Family::ALL.into_iter().filter(|family| family_usable(*family)) {
            let programs = match Iptables::probe(family, variant) {
                Ok(programs) => programs,
                // A variant that is not installed has left nothing; without permission nothing can be said.
                Err(error @ IptablesError::Permission { .. }) => return Err(error.into()),
                Err(error @ (IptablesError::Locked { .. } | IptablesError::Timeout { .. })) => {
                    list.unread.push(with_causes(&error));
                    continue;
                }
                Err(_) => continue,
            };
            let found = find(&programs, &leftovers::of_every_mode());
            found.jumps.iter().for_each(|jump| list.add(&mode, family, format!("jump {jump}")));
            for (table, chains) in &found.chains {
                chains
                    .iter()
                    .for_each(|chain| list.add(&mode, family, format!("chain {chain} of table {table}")));
            }
            list.unread.extend(found.errors.iter().map(|error| with_causes(&error.cause)));
        }
    }
    Ok(())
}

fn of_nftables(list: &mut Found) {
    let families =
        [(Family::V4, switchyard_netlink::Family::V4), (Family::V6, switchyard_netlink::Family::V6)];
    for ((family, wire), name) in families.into_iter().flat_map(|f| NFTABLES_TABLES.map(|name| (f, name))) {
        match nftables::has_table(wire, name) {
            Ok(true) => list.add("nftables", family, format!("table {name} with everything in it")),
            Ok(false) => {}
            Err(error) => list.unread.push(format!("the table {name}: {}", with_causes(&error))),
        }
    }
}
