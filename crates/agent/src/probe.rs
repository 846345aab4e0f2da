//! Which IP families a mode can serve on this node, found out before anything is written.

use anyhow::bail;
use switchyard_apply::iptables::family_usable;
use switchyard_apply::nft::probe::{probe, works_for_all};
use switchyard_model::Family;

use crate::sync::with_causes;

/// The families of this node for which the kernel can do what nftables mode needs; an error if there is none.
pub fn families_for_nftables() -> anyhow::Result<Vec<Family>> {
    let families: Vec<Family> = Family::ALL.into_iter().filter(|family| family_usable(*family)).collect();
    if !families.is_empty() && works_for_all(&families) {
        return Ok(families);
    }
    let (mut usable, mut problems) = (Vec::new(), Vec::new());
    for family in families {
        match probe(family) {
            Ok(()) => usable.push(family),
            Err(error) => problems.push(with_causes(&error)),
        }
    }
    problems.dedup();
    if usable.is_empty() {
        bail!("nftables mode cannot start: {}", problems.join("; "));
    }
    for problem in problems {
        tracing::warn!(%problem, "one IP family cannot be served");
    }
    Ok(usable)
}
