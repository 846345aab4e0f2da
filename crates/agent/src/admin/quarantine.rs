//! What was set aside, in pages.

use serde_json::{Value, json};
use switchyard_model::{Family, ObjectName, PortKey, Protocol, ServiceName, ServicePortName};
use switchyard_plan::route::{Frontend, FrontendAddress};
use switchyard_serve::ui::SetAsideKind;

use super::Refusal;
use super::page::{LOOKS, Looks, Page, none_of_ours};
use crate::set_aside::{Listed, Place, behind};
use crate::sync::View;

/// The page that is asked for. What was set aside of a namespace, or by a name, is asked for by those of the object.
pub(super) fn list(view: &View<'_>, page: &Page, looks: &mut Looks) -> Result<Value, Refusal> {
    let place = page.token.as_deref().map(|token| place(token).ok_or_else(none_of_ours)).transpose()?;
    let (mut items, mut last, mut next) = (Vec::new(), None, None);
    for listed in behind(view, place.as_ref()) {
        let is_wanted = page.wants(&listed.namespace, &listed.name);
        if looks.0 == LOOKS || (is_wanted && items.len() == page.limit) {
            next = last.as_ref().map(token);
            break;
        }
        looks.0 += 1;
        if is_wanted {
            items.push(item(&listed));
        }
        last = Some(listed.place);
    }
    Ok(page.answer("QuarantineList", &items, next.as_deref()))
}

fn item(listed: &Listed) -> Value {
    json!({
        "kind": word(listed.item.kind),
        "object": listed.item.object,
        "namespace": &*listed.namespace,
        "name": &*listed.name,
        "family": listed.item.family.map(Family::as_str),
        "cause": listed.item.cause,
    })
}

fn word(kind: SetAsideKind) -> &'static str {
    match kind {
        SetAsideKind::Object => "object",
        SetAsideKind::Refused => "refused",
        SetAsideKind::Unserved => "unserved",
        SetAsideKind::LeftOut => "left out",
        SetAsideKind::Conflict => "conflict",
    }
}

/// A place as text that only we read. Names of wrong objects may be anything, so it is JSON.
fn token(place: &Place) -> String {
    let port = |word: &str, PortKey { family, name }: &PortKey| {
        let ServicePortName { service, port, protocol } = name;
        json!([word, family.as_str(), &*service.namespace, &*service.name, &**port, protocol.to_string()])
    };
    let token = match place {
        Place::Object(object, n) => json!(["object", &*object.kind, &*object.namespace, &*object.name, n]),
        Place::Refused(key) => port("refused", key),
        Place::Unserved(key) => port("unserved", key),
        Place::LeftOut(key) => port("left out", key),
        Place::Conflict(family, Frontend { address, protocol, port }, n) => {
            let address = match address {
                FrontendAddress::Ip(address) => address.to_string(),
                FrontendAddress::Node(_) => String::new(),
            };
            json!(["conflict", family.as_str(), address, protocol.to_string(), port, n])
        }
    };
    token.to_string()
}

fn place(token: &str) -> Option<Place> {
    let parts: Vec<Value> = serde_json::from_str(token).ok()?;
    let text = |n: usize| parts.get(n).and_then(Value::as_str);
    let number = |n: usize| parts.get(n).and_then(Value::as_u64);
    let family = |n: usize| Family::ALL.into_iter().find(|family| Some(family.as_str()) == text(n));
    let protocol = |n: usize| {
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        all.into_iter().find(|protocol| Some(protocol.to_string().as_str()) == text(n))
    };
    let key = || {
        let service = ServiceName::new(text(2)?, text(3)?);
        let name = ServicePortName { service, port: text(4)?.into(), protocol: protocol(5)? };
        Some(PortKey { family: family(1)?, name })
    };
    Some(match text(0)? {
        "object" => {
            let n = usize::try_from(number(4)?).ok()?;
            Place::Object(ObjectName::new(text(1)?, text(2)?, text(3)?), n)
        }
        "refused" => Place::Refused(key()?),
        "unserved" => Place::Unserved(key()?),
        "left out" => Place::LeftOut(key()?),
        "conflict" => {
            let address = match text(2)? {
                "" => FrontendAddress::Node(family(1)?),
                address => FrontendAddress::Ip(address.parse().ok()?),
            };
            let (port, n) = (u16::try_from(number(4)?).ok()?, usize::try_from(number(5)?).ok()?);
            Place::Conflict(family(1)?, Frontend { address, protocol: protocol(3)?, port }, n)
        }
        _ => return None,
    })
}
