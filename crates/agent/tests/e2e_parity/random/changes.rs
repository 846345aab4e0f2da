//! Random changes of the objects that there are: endpoints that come, go and change their state, policies, and Services that go.
//!
//! In: a list and a seed. Out: requests for the API server, always the same for the same input.

use serde_json::{Value, json};

use super::dice::Dice;

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Replaces some fields of the object at a path.
    Patch(String, Value),
    /// Removes the object at a path.
    Delete(String),
}

/// Changes of about every fourth object.
pub(crate) fn of(list: &Value, dice: &mut Dice) -> Vec<Change> {
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| change(item, dice)).collect()
}

fn change(item: &Value, dice: &mut Dice) -> Option<Change> {
    let path = path_of(item);
    match item["kind"].as_str()? {
        "Service" if dice.is(5) => Some(Change::Delete(path)),
        "Service" if dice.is(15) => {
            let policy =
                if item["spec"]["internalTrafficPolicy"].as_str()? == "Local" { "Cluster" } else { "Local" };
            Some(Change::Patch(path, json!({ "spec": { "internalTrafficPolicy": policy } })))
        }
        "EndpointSlice" if dice.is(5) => Some(Change::Delete(path)),
        "EndpointSlice" if dice.is(40) => {
            let endpoints = changed(item["endpoints"].as_array()?, dice);
            Some(Change::Patch(path, json!({ "endpoints": endpoints })))
        }
        _ => None,
    }
}

/// One endpoint goes, or is another state.
fn changed(endpoints: &[Value], dice: &mut Dice) -> Vec<Value> {
    let mut endpoints = endpoints.to_vec();
    let index = usize::try_from(dice.below(u32::try_from(endpoints.len().max(1)).unwrap())).unwrap();
    if dice.is(30) {
        endpoints.drain(index..endpoints.len().min(index + 1));
    } else if let Some(endpoint) = endpoints.get_mut(index) {
        endpoint["conditions"] = dice.one(&[
            json!({ "ready": true, "serving": true, "terminating": false }),
            json!({ "ready": false, "serving": true, "terminating": true }),
            json!({ "ready": false, "serving": false, "terminating": false }),
        ]);
    }
    endpoints
}

fn path_of(item: &Value) -> String {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    match text("/kind") {
        "Service" => format!("/api/v1/namespaces/{namespace}/services/{name}"),
        _ => format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_happens_and_can_be_repeated() {
        let list = super::super::objects::list(1, 250);
        let changes = of(&list, &mut Dice::new(2));
        assert_eq!(changes, of(&list, &mut Dice::new(2)));
        let has = |is: fn(&Change) -> bool| changes.iter().any(is);
        assert!(has(|c| matches!(c, Change::Delete(path) if path.contains("/services/"))));
        assert!(has(|c| matches!(c, Change::Delete(path) if path.contains("/endpointslices/"))));
        assert!(has(|c| matches!(c, Change::Patch(_, patch) if patch.get("spec").is_some())));
        assert!(has(|c| matches!(c, Change::Patch(_, patch) if patch.get("endpoints").is_some())));
    }
}
