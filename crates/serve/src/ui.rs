//! The dashboard: pages for people under `/ui/` of the metrics server.
//!
//! In: [`Dashboard`], somebody who knows what the proxy does, and requests. Out: HTML that needs no script to be read, two small files
//! beside it, and a stream of changes.
//!
//! | path | page |
//! |---|---|
//! | `/ui/` | how the proxy is: counts, latency plot, latest changes |
//! | `/ui/services` | Services, by page; `search` (part of a name, or an address), `page` |
//! | `/ui/service` | one Service (`namespace`, `name`): frontends, what happens to packets, endpoints and their state |
//! | `/ui/changes` | the change ledger, live |
//! | `/ui/set-aside` | what is wrong with objects, what the kernel refused, frontends that another Service has |
//! | `/ui/explain` | a form: where does a packet go, and why |
//! | `/ui/events` | changes as server-sent events |
//! | `/ui/style.css`, `/ui/live.js`, `/ui/icon.svg` | what the pages need |
//!
//! Invariants
//! - Only GET and HEAD, and nothing that is asked here changes anything.
//! - Every text of an object, a request or a kernel goes through [`html::Html`], which escapes it.
//! - Pages load nothing from elsewhere, run no inline script, and may not be framed ([`site::HEADERS`]).
//! - A page holds a bounded number of rows, whatever the cluster holds. Nothing is asked or kept while nobody looks.
//! - Rendering is a pure function from values to text; only the site reads clocks.
//! - Links are relative, so that pages work behind a proxy that puts something before the path.

mod changes;
mod explain;
mod feed;
mod html;
mod layout;
mod overview;
mod plot;
mod service;
mod services;
mod set_aside;
mod site;
#[cfg(test)]
mod tests;
mod values;
mod words;

use std::pin::Pin;

pub(crate) use site::is_below;
pub use site::{About, Ui};
pub use values::{
    Change, ChangeKind, Changes, Endpoint, EndpointState, ExplainedEndpoint, Explanation, FamilyCounts,
    Frontend, FrontendKind, Hit, Outcome, Overview, PortSheet, Route, Search, ServicePage, ServiceSheet,
    ServiceSummary, SetAside, SetAsideKind, SetAsidePage,
};

/// What a page needs, later.
pub type Coming<T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send>>;

/// Why a page has nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// An HTTP status.
    pub status: u16,
    /// What went wrong and what to do, in one line.
    pub text: String,
}

/// Who knows what the pages show. Whoever answers bounds what is asked at a time.
pub trait Dashboard: Send + Sync + 'static {
    /// Counts and the ledger.
    fn overview(&self) -> Coming<Overview>;
    /// A page of Services.
    fn services(&self, search: Search) -> Coming<ServicePage>;
    /// One Service.
    fn service(&self, namespace: String, name: String) -> Coming<ServiceSheet>;
    /// Changes with greater numbers than this.
    fn changes(&self, after: u64) -> Coming<Changes>;
    /// What was set aside.
    fn set_aside(&self) -> Coming<SetAsidePage>;
    /// Where a packet goes; the parameters are those of the admin API's `/v1/explain`.
    fn explain(&self, parameters: Vec<(String, String)>) -> Coming<Explanation>;
}
