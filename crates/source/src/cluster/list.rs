//! One list of objects, in one answer.
//!
//! In: what is wanted. Out: `begin` and one `add` for each object, and the version from which a watch goes on. Only a list that came to
//! its end has one, and only if it is not a part of a longer one.
//!
//! The first list may be as old as the server's cache is: that is cheap for the server, and the watch brings what is missing. Later lists are
//! asked for as of now, so that time does not go back.

use std::time::Duration;

use http::{Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::api::{ListParams, ObjectList};
use kube::client::Body;
use kube::core::{Request as Paths, Status};
use kube::{Client, Resource};
use tokio::time::timeout;

use super::follow::{ANSWER, Collector, Selection};
use super::items::{End, Items};
use super::outage::Trouble;
use super::watched::Watched;
use crate::convert::clip;
use crate::wire::protobuf::{decode, enveloped};
use crate::wire::{Object, Refusal};

/// A list that pauses for so long is one that will not come.
const PAUSE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });

/// Largest list in JSON, which is read as a whole.
const MAX_JSON: usize = 512 << 20;

/// Largest answer that says no.
const MAX_REFUSAL: usize = 64 << 10;

pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(super) const JSON: &str = "application/json";

/// In which form lists are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    /// Protobuf, where server and object have it.
    Protobuf,
    /// JSON.
    Json,
}

/// How old a list may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// As old as the server's cache.
    Any,
    /// As of now.
    Now,
}

/// Fetches a list; its version.
pub(super) async fn fetch<C: Collector>(
    client: &Client,
    selection: &Selection,
    age: Age,
    format: ListFormat,
    collector: &mut C,
) -> Result<String, Trouble> {
    collector.begin();
    let parameters = ListParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.field_selector(),
        resource_version: (age == Age::Any).then(|| "0".to_owned()),
        ..ListParams::default()
    };
    let request = request::<C::Wire>(None, &parameters, accept::<C::Wire>(format))?;
    let end = take(client, request, MAX_JSON, &mut |object: &C::Wire| collector.add(object)).await?;
    // Nobody asked for a part of the list, and a part must not be taken for the whole.
    let version = end.filter(|end| end.more.is_empty()).map(|end| end.version);
    version.ok_or_else(|| Trouble::Garbled("a list without a version, or a part of one".into()))
}

fn accept<O: Object>(format: ListFormat) -> String {
    match format {
        ListFormat::Protobuf if O::HAS_PROTOBUF => format!("{PROTOBUF},{JSON}"),
        ListFormat::Protobuf | ListFormat::Json => JSON.to_owned(),
    }
}

/// The request for a list. A namespace is one part of a path, so it must be a name.
pub(super) fn request<O: Object>(
    namespace: Option<&str>,
    parameters: &ListParams,
    accept: String,
) -> Result<Request<Body>, Trouble> {
    let path = Watched::<O>::url_path(&(), namespace);
    let unusable = |error: &dyn std::error::Error| Trouble::Invalid(clip(&error.to_string()));
    let mut request = Paths::new(path).list(parameters).map_err(|error| unusable(&error))?.map(Body::from);
    let accept = accept.try_into().map_err(|error: header::InvalidHeaderValue| unusable(&error))?;
    request.headers_mut().insert(header::ACCEPT, accept);
    Ok(request)
}

/// Takes each object of an answer; what the list says about itself, if it came to its end.
pub(super) async fn take<O: Object>(
    client: &Client,
    request: Request<Body>,
    most: usize,
    each: &mut impl FnMut(&O),
) -> Result<Option<End>, Trouble> {
    let answer = timeout(ANSWER, client.send(request)).await.map_err(|_| Trouble::Silent)?;
    let answer = answer.map_err(|error| Trouble::of(&error))?;
    if !answer.status().is_success() {
        return Err(refusal(answer).await);
    }
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with(PROTOBUF)) {
        take_protobuf(answer.into_body(), each).await
    } else {
        take_json(answer.into_body(), most, each).await
    }
}

/// The objects come while the rest of the list is still on its way.
async fn take_protobuf<O: Object>(mut body: Body, each: &mut impl FnMut(&O)) -> Result<Option<End>, Trouble> {
    let garbled = |_| Trouble::Garbled("a list that is no protobuf".into());
    let mut items = Items::new();
    while let Some(frame) = timeout(PAUSE, body.frame()).await.map_err(|_| Trouble::Silent)? {
        let frame = frame.map_err(|error| Trouble::of(&error))?;
        items.push(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        while let Some(item) = items.next().map_err(garbled)? {
            each(&decode(item));
        }
    }
    Ok(items.finish())
}

async fn take_json<O: Object>(
    body: Body,
    most: usize,
    each: &mut impl FnMut(&O),
) -> Result<Option<End>, Trouble> {
    let text = whole(body, most).await?;
    let garbled = |error: serde_json::Error| Trouble::Garbled(clip(&error.to_string()));
    let list: ObjectList<Watched<O>> = serde_json::from_slice(&text).map_err(garbled)?;
    list.items.iter().for_each(|item| each(&item.object));
    let version = list.metadata.resource_version.filter(|version| !version.is_empty());
    let more = list.metadata.continue_.unwrap_or_default();
    Ok(version.map(|version| End { version, more }))
}

/// Why the server says no. It says so in the form in which the list would have come.
async fn refusal(answer: Response<Body>) -> Trouble {
    let code = answer.status().as_u16();
    let text = match whole(answer.into_body(), MAX_REFUSAL).await {
        Ok(text) => text,
        Err(trouble) => return trouble,
    };
    let status = serde_json::from_slice::<Status>(&text).unwrap_or_else(|_| {
        let message = enveloped(&text).map(|object| decode::<Refusal>(object).message.text().to_owned());
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(&text).into_owned());
        Status { message: clip(&message), ..Status::default() }
    });
    Trouble::of_status(&Status { code, ..status })
}

/// All bytes of a body that is not too long and does not pause for too long.
async fn whole(body: Body, most: usize) -> Result<Vec<u8>, Trouble> {
    let mut body = Limited::new(body, most);
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(PAUSE, body.frame()).await.map_err(|_| Trouble::Silent)? {
        let frame = frame.map_err(|error| match error.downcast::<kube::Error>() {
            Ok(error) => Trouble::of(&error),
            Err(error) if error.is::<LengthLimitError>() => {
                Trouble::Garbled("an answer that is too long".into())
            }
            Err(error) => Trouble::Unreachable(clip(&error.to_string())),
        })?;
        bytes.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
    }
    Ok(bytes)
}
