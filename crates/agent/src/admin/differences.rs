//! Desired state against the kernel as JSON.

use serde_json::{Value, json};
use switchyard_apply::diff::Line;

use super::Refusal;
use crate::sync::{View, with_causes};

/// What differs, of all families. The kernel is read on the loop's thread, so nothing of ours changes meanwhile.
pub(super) fn list(view: &View<'_>) -> Result<Value, Refusal> {
    if !view.is_started {
        return Err((503, "the agent has not written its rules yet; ask again when it is ready".to_owned()));
    }
    let (mut items, mut count) = (Vec::new(), 0);
    for sync in view.families {
        let family = sync.family().to_string();
        let found = sync.difference().map_err(|failure| {
            (500, format!("cannot read back what the kernel holds for {family}: {}", with_causes(&failure)))
        })?;
        count += found.count();
        items.extend(found.lines().iter().map(|line| item(&family, line)));
    }
    let left_out = count - items.len();
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Difference",
        "isEqual": count == 0,
        "items": items,
        "count": count,
        "leftOut": left_out,
    }))
}

fn item(family: &str, line: &Line) -> Value {
    json!({
        "sign": line.side.sign().to_string(),
        "family": family,
        "object": line.object,
        "owner": line.owner.as_ref().map(ToString::to_string),
    })
}
