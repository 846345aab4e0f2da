//! Pages of long lists.
//!
//! In: what a question wants of a list, and where the page before ended. Out: the next items, and where they end.
//!
//! Invariants
//! - A page is bounded in service ports, in items, and in what is looked at for it: no question holds the loop for long, however many Services
//!   there are and however many endpoints one of them has. A page may therefore be short, even empty; the last one has no `continue`.
//! - Each page is of its own moment. What is there all the time is in exactly one of them.

use std::ops::Bound;

use serde_json::{Value, json};
use switchyard_model::{Family, PortKey, Protocol, ServiceName, ServicePort, ServicePortName};
use switchyard_plan::book::Book;
use switchyard_serve::admin::Question;

use super::looked_up::Chosen;
use super::{Refusal, number};

/// Service ports on a page unless less is asked for, and at most.
const LIMIT: u64 = 500;

/// Items on a page; each counts once more for every endpoint that it names. One item is always taken.
pub(super) const ITEMS: usize = 5_000;

/// Service ports and endpoints that are looked at for a page. A service port is always looked at as a whole.
pub(super) const LOOKS: usize = 20_000;

/// What a question wants of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) limit: usize,
    /// Where the page before ended, as that page said it.
    pub(super) token: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// Only these Services.
    chosen: Option<Chosen>,
}

/// What was looked at for a page: service ports and endpoints, or things that were set aside.
#[derive(Debug, Default)]
pub(super) struct Looks(pub(super) usize);

impl Page {
    pub(super) fn read(question: &Question) -> Result<Self, Refusal> {
        let limit = number(question, "limit")?.unwrap_or(LIMIT).clamp(1, LIMIT);
        let text = |name: &str| question.parameter(name).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            token: text("continue"),
            namespace: text("namespace"),
            name: text("name"),
            chosen: None,
        })
    }

    /// The same of these Services alone.
    pub(super) fn of(self, chosen: Chosen) -> Self {
        Self { chosen: Some(chosen), ..self }
    }

    /// The page behind the one that ended with this token.
    pub(super) fn behind(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The namespace that it is about, if it is about one.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// True if neither a namespace nor a name is given.
    pub(super) fn is_about_all(&self) -> bool {
        self.namespace.is_none() && self.name.is_none()
    }

    /// The answer with these items. It says by what they were chosen: an older agent that does not know that lists everything, and whoever asks
    /// must be able to tell.
    pub(super) fn answer(&self, kind: &str, items: &[Value], next: Option<&str>) -> Value {
        let mut answer = json!({ "apiVersion": "v1", "kind": kind, "items": items, "continue": next });
        let chosen = [
            ("namespace", self.namespace.as_deref()),
            ("name", self.name.as_deref()),
            ("selector", self.chosen.as_ref().map(|chosen| chosen.selector.as_str())),
        ];
        if let Some(fields) = answer.as_object_mut() {
            fields.extend(
                chosen.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))),
            );
        }
        answer
    }

    /// True if what has this name is wanted.
    pub(super) fn wants(&self, namespace: &str, name: &str) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.namespace, namespace) && is(&self.name, name)
    }

    fn has(&self, service: &ServiceName) -> bool {
        let is_chosen = || self.chosen.as_ref().is_none_or(|chosen| chosen.services.contains(service));
        self.wants(&service.namespace, &service.name) && is_chosen()
    }

    /// Service ports of one namespace stand beside each other, and those of one Service, too.
    fn begin(&self) -> Bound<ServicePortName> {
        let Some(namespace) = &self.namespace else { return Bound::Unbounded };
        let service = ServiceName::new(namespace, self.name.as_deref().unwrap_or_default());
        Bound::Included(ServicePortName { service, port: "".into(), protocol: Protocol::Tcp })
    }

    /// False if neither this one nor any behind it can be wanted.
    fn may_have(&self, name: &ServicePortName) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| **namespace == *name.service.namespace)
    }
}

/// What is wrong with a token that no page ended with.
pub(super) fn none_of_ours() -> Refusal {
    (400, "continue is none of ours; leave it out to begin anew".to_owned())
}

/// Where a page of service ports ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    key: PortKey,
    /// How many items of it were there; all if absent.
    inside: Option<usize>,
}

impl Place {
    fn new(family: Family, name: &ServicePortName, inside: Option<usize>) -> Self {
        Self { key: PortKey { family, name: name.clone() }, inside }
    }

    /// As text that only we read.
    fn token(&self) -> String {
        let PortKey { family, name: ServicePortName { service, port, protocol } } = &self.key;
        let inside = self.inside.map(|items| items.to_string()).unwrap_or_default();
        format!("{family}/{inside}/{}/{}/{protocol}/{port}", service.namespace, service.name)
    }

    fn read(token: &str) -> Option<Self> {
        let mut parts = token.splitn(6, '/');
        let family = parts.next()?;
        let family = Family::ALL.into_iter().find(|known| known.to_string() == family)?;
        let inside = Some(parts.next()?).filter(|text| !text.is_empty()).map(str::parse).transpose().ok()?;
        let service = ServiceName::new(parts.next()?, parts.next()?);
        let protocol = parts.next()?;
        let protocol =
            [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|p| p.to_string() == protocol)?;
        let name = ServicePortName { service, port: parts.next()?.into(), protocol };
        Some(Self { key: PortKey { family, name }, inside })
    }

    /// Where a family's part of the list goes on, and how much of the first service port there was already. Nothing if it is over.
    fn begin(&self, family: Family, page: &Page) -> Option<(Bound<ServicePortName>, usize)> {
        let name = self.key.name.clone();
        match self.inside {
            _ if self.key.family > family => None,
            _ if self.key.family < family => Some((page.begin(), 0)),
            Some(items) => Some((Bound::Included(name), items)),
            None => Some((Bound::Excluded(name), 0)),
        }
    }
}

/// Items of a page as they are made.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    items: Vec<Value>,
    room: usize,
}

impl Sheet {
    fn new() -> Self {
        Self { items: Vec::new(), room: ITEMS }
    }

    /// Adds items, those of `things` from this one on. Says where it stopped if they do not all fit.
    pub(super) fn fill<T>(
        &mut self,
        things: impl IntoIterator<Item = T>,
        begin: usize,
        item: impl Fn(T) -> (usize, Value),
    ) -> Option<usize> {
        for (place, thing) in things.into_iter().enumerate().skip(begin) {
            if self.room == 0 {
                return Some(place);
            }
            let (weight, item) = item(thing);
            self.room = self.room.saturating_sub(weight);
            self.items.push(item);
        }
        None
    }
}

/// One page of a list: items of each service port, in order of family and name. `add` puts the items of one on the sheet, from the given one
/// on, and says where it stopped if they do not all fit.
pub(super) fn page<'a, T: 'a>(
    sources: impl Iterator<Item = (&'a Book, &'a T)>,
    page: &Page,
    looks: &mut Looks,
    kind: &str,
    add: impl Fn(&T, &ServicePort, usize, &mut Sheet) -> Option<usize>,
) -> Result<Value, Refusal> {
    let place = page.token.as_deref().map(|token| Place::read(token).ok_or_else(none_of_ours)).transpose()?;
    let (mut sheet, mut count, mut next) = (Sheet::new(), 0, None);
    // A page may end where a family does.
    let mut last: Option<(Family, &ServicePortName)> = None;
    'pages: for (book, one) in sources {
        let family = book.settings().family;
        let begin = place.as_ref().map_or(Some((page.begin(), 0)), |place| place.begin(family, page));
        let Some((begin, inside)) = begin else { continue };
        let ports = book.ports().range((begin, Bound::Unbounded));
        for (name, port) in ports.take_while(|(name, _)| page.may_have(name)) {
            looks.0 += 1;
            let is_wanted = page.has(&name.service);
            let is_full = looks.0 > LOOKS || (is_wanted && (count == page.limit || sheet.room == 0));
            if is_full && let Some((family, name)) = last {
                next = Some(Place::new(family, name, None));
                break 'pages;
            }
            last = Some((family, name));
            if !is_wanted {
                continue;
            }
            (count, looks.0) = (count + 1, looks.0 + port.endpoints.len());
            let is_begun = place.as_ref().is_some_and(|place| place.key.name == *name);
            if let Some(items) = add(one, port, if is_begun { inside } else { 0 }, &mut sheet) {
                next = Some(Place::new(family, name, Some(items)));
                break 'pages;
            }
        }
    }
    let next = next.as_ref().map(Place::token);
    Ok(page.answer(kind, &sheet.items, next.as_deref()))
}
