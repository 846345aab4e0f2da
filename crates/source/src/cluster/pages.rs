//! All objects of a kind, once, page by page: for somebody who asks, not for a watch.
//!
//! In: which objects. Out: one call for each of them. An answer in protobuf is read with the memory of one object, one in JSON with that of a
//! page. Trouble is not waited out: whoever asks can ask again.

use kube::Client;
use kube::api::ListParams;

use super::list::{JSON, ListFormat, PROTOBUF, request, take};
use super::outage::Trouble;
use crate::wire::Object;

/// Objects on a page.
const PAGE: u32 = 250;

/// A server that sends more pages than this does not come to an end.
const MAX_PAGES: usize = 2000;

/// Largest page in JSON.
const MAX_JSON: usize = 64 << 20;

/// The form that has names and labels of objects, and nothing else of them.
const METADATA: &str = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// How much of each object is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// Its metadata. A server that cannot cut it down sends all of it.
    Metadata,
}

/// Which objects are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    /// Those of one namespace, whose name was checked.
    pub(crate) namespace: Option<&'a str>,
    /// Those with these labels.
    pub(crate) labels: Option<String>,
    /// How much of each.
    pub(crate) extent: Extent,
    /// In which form they should come.
    pub(crate) format: ListFormat,
}

impl Wanted<'_> {
    fn accept(&self) -> String {
        match (self.format, self.extent) {
            (ListFormat::Protobuf, Extent::Whole) => format!("{PROTOBUF},{JSON}"),
            (ListFormat::Json, Extent::Whole) => JSON.to_owned(),
            (ListFormat::Protobuf, Extent::Metadata) => {
                format!("{PROTOBUF}{METADATA},{JSON}{METADATA},{JSON}")
            }
            (ListFormat::Json, Extent::Metadata) => format!("{JSON}{METADATA},{JSON}"),
        }
    }
}

/// Takes each object.
pub(crate) async fn pages<O: Object>(
    client: &Client,
    wanted: &Wanted<'_>,
    each: &mut impl FnMut(&O),
) -> Result<(), Trouble> {
    let mut parameters = ListParams {
        label_selector: wanted.labels.clone().filter(|labels| !labels.is_empty()),
        limit: Some(PAGE),
        ..ListParams::default()
    };
    for _ in 0..MAX_PAGES {
        let request = request::<O>(wanted.namespace, &parameters, wanted.accept())?;
        let end = take(client, request, MAX_JSON, each).await?;
        let end = end.ok_or_else(|| Trouble::Garbled("a list without an end".into()))?;
        if end.more.is_empty() {
            return Ok(());
        }
        parameters.continue_token = Some(end.more);
    }
    Err(Trouble::Garbled("a list without an end".into()))
}
