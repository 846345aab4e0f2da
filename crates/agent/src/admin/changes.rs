//! The change ledger as JSON.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchyard_apply::report::Kind;

use super::page::Page;
use crate::ledger::{Entry, Ledger, Outcome, Subjects};

/// Entries with greater numbers, oldest first; if there is a namespace or a name on the page, those that are, or may be, about it.
pub(super) fn list(ledger: &Ledger, after: u64, page: &Page) -> Value {
    let entries = ledger.entries().filter(|entry| entry.number > after && may_be_about(entry, page));
    let items: Vec<Value> = entries.map(item).collect();
    let mut answer = page.answer("ChangeList", &items, None);
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("last".to_owned(), ledger.count().into());
    }
    answer
}

/// Of a change of very many Services only some names are kept: it may be about any of them.
fn may_be_about(entry: &Entry, page: &Page) -> bool {
    let Subjects { services, total } = &entry.subjects;
    page.is_about_all()
        || *total > services.len()
        || services.iter().any(|service| page.wants(&service.namespace, &service.name))
}

fn item(entry: &Entry) -> Value {
    let services: Vec<String> = entry.subjects.services.iter().map(ToString::to_string).collect();
    let (outcome, cause) = match &entry.outcome {
        Outcome::Written => ("written", None),
        Outcome::SetAside(1) => ("set aside", Some("1 service port was refused".to_owned())),
        Outcome::SetAside(count) => ("set aside", Some(format!("{count} service ports were refused"))),
        Outcome::Failed(cause) => ("failed", Some(cause.clone())),
    };
    json!({
        "number": entry.number,
        "family": entry.family.to_string(),
        "kind": if entry.kind == Kind::Full { "full" } else { "partial" },
        "services": services,
        "serviceCount": entry.subjects.total,
        "seen": entry.seen.map(timestamp),
        "committed": timestamp(entry.committed),
        "latencySeconds": entry.latency.as_ref().map(Duration::as_secs_f64),
        "tookSeconds": entry.took.as_secs_f64(),
        "operations": entry.operations,
        "outcome": outcome,
        "cause": cause,
    })
}

/// Seconds since 1970; clocks may stand before that.
pub(super) fn timestamp(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs_f64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use switchyard_model::{Family, ServiceName};
    use switchyard_serve::admin::Question;

    use super::*;

    fn entry(services: &[&str], total: usize) -> Entry {
        let name = |name: &&str| {
            let (namespace, name) = name.split_once('/').unwrap();
            ServiceName::new(namespace, name)
        };
        Entry {
            number: 0,
            family: Family::V4,
            subjects: Subjects { services: services.iter().map(name).collect(), total },
            kind: Kind::Partial,
            seen: None,
            committed: SystemTime::UNIX_EPOCH,
            latency: None,
            took: Duration::ZERO,
            operations: 0,
            outcome: Outcome::Written,
        }
    }

    #[test]
    fn changes_are_chosen_by_service_and_those_of_very_many_are_about_any() {
        let mut ledger = Ledger::default();
        ledger.add(entry(&["a/x", "b/y"], 9_000));
        ledger.add(entry(&["shop/web", "shop/cart"], 2));
        ledger.add(entry(&["test/web"], 1));
        ledger.add(entry(&[], 0));
        let numbers = |after, query: &[(&str, &str)]| -> Vec<u64> {
            let query = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let page = Page::read(&Question { path: String::new(), query }).unwrap();
            let answer = list(&ledger, after, &page);
            assert_eq!(answer["last"], 4);
            answer["items"].as_array().unwrap().iter().map(|item| item["number"].as_u64().unwrap()).collect()
        };
        assert_eq!(numbers(0, &[]), [1, 2, 3, 4]);
        assert_eq!(numbers(0, &[("name", "web")]), [1, 2, 3]);
        assert_eq!(numbers(1, &[("name", "web"), ("namespace", "shop")]), [2]);
        assert_eq!(numbers(1, &[("namespace", "test")]), [3]);
        assert_eq!(numbers(1, &[("name", "cart"), ("namespace", "test")]), [0; 0]);
    }
}
