//! What the dashboard shows: questions of its pages, answered on the loop's thread like those of the admin socket.
//!
//! In: what a page asks for. Out: values of `serve::ui`, each of one moment. The metrics port may be reachable from the network, so no
//! more than [`TURNS`] questions of pages wait or are answered at a time, whoever asks, and each is bounded by what a page may hold.
//! Nothing is computed while nobody looks.

mod changes;
mod lists;
mod set_aside;
mod sheet;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use switchyard_serve::admin::Question;
use switchyard_serve::health::ProxyHealth;
use switchyard_serve::server::Pages;
use switchyard_serve::ui::{
    About, Changes, Coming, Dashboard, Explanation, FamilyCounts, Overview, Search, ServicePage,
    ServiceSheet, SetAsidePage, Trouble, Ui,
};
use tokio::sync::Semaphore;

use crate::admin::{self, Admin, LookedUp, Refusal};
use crate::flags::{Config, Dashboard as Wanted};
use crate::sync::{FamilySync, View};

/// Questions of pages at a time. The loop answers those that wait before it goes on, so they bound what a crowd can cost it.
const TURNS: usize = 2;

/// How long a page waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pages of the metrics server, with a dashboard if there is to be one.
pub fn pages(config: &Config, admin: &Arc<Admin>, health: &Arc<ProxyHealth>) -> Pages {
    let ui = (config.dashboard == Wanted::On).then(|| {
        let identity = admin.identity();
        let about = About {
            node: identity.node.clone(),
            mode: identity.mode.as_str().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Ui::new(about, health.clone(), Arc::new(Looking::new(admin.clone())))
    });
    Pages { ui, ..crate::pages::pages(config) }
}

/// See the module.
struct Looking {
    admin: Arc<Admin>,
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Looking {
    fn new(admin: Arc<Admin>) -> Self {
        Self { admin, turns: Arc::new(Semaphore::new(TURNS)), patience: PATIENCE }
    }

    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&View<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Coming<T> {
        let (admin, turns, patience) = (self.admin.clone(), self.turns.clone(), self.patience);
        Box::pin(async move {
            let busy = || refused((503, "Many look at this dashboard; try again in a moment.".to_owned()));
            let turn = tokio::time::timeout(patience, turns.acquire_owned()).await;
            let turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
            // The turn goes with the question: a client that hangs up does not make room for another question before its own is over.
            let work = move |view: &View<'_>| {
                let _turn = turn;
                work(view)
            };
            admin::ask(admin.board(), work).await.map_err(refused)
        })
    }
}

fn refused((status, text): Refusal) -> Trouble {
    Trouble { status, text }
}

impl Dashboard for Looking {
    fn overview(&self) -> Coming<Overview> {
        self.ask(|view| Ok(overview(view)))
    }

    fn services(&self, search: Search) -> Coming<ServicePage> {
        self.ask(move |view| Ok(lists::page(view, search)))
    }

    fn service(&self, namespace: String, name: String) -> Coming<ServiceSheet> {
        self.ask(move |view| {
            let none = || (404, format!("No Service {namespace}/{name} is served on this node."));
            sheet::sheet(view, &namespace, &name).ok_or_else(none)
        })
    }

    fn changes(&self, after: u64) -> Coming<Changes> {
        self.ask(move |view| Ok(changes::list(view.ledger, after)))
    }

    fn set_aside(&self) -> Coming<SetAsidePage> {
        self.ask(|view| Ok(set_aside::page(view)))
    }

    fn explain(&self, parameters: Vec<(String, String)>) -> Coming<Explanation> {
        let question = Question { path: "/v1/explain".to_owned(), query: parameters };
        // Names of pods are not looked up here: whoever may look at a dashboard must not make the agent list a cluster.
        let work = match self.admin.work(&question, LookedUp::default()) {
            Ok(work) => work,
            Err(refusal) => return Box::pin(async move { Err(refused(refusal)) }),
        };
        let answer = self.ask(work);
        Box::pin(async move {
            let unclear = |error| refused((500, format!("the answer cannot be shown: {error}")));
            serde_json::from_value(answer.await?).map_err(unclear)
        })
    }
}

fn overview(view: &View<'_>) -> Overview {
    let counts = |sync: &FamilySync| {
        let book = sync.book();
        FamilyCounts {
            family: sync.family(),
            node_ip: book.settings().node_ip,
            service_ports: book.ports().len(),
            endpoints: book.endpoints(),
        }
    };
    Overview {
        is_started: view.is_started,
        services: lists::names(view).count(),
        families: view.families.iter().map(counts).collect(),
        set_aside: crate::set_aside::total(view),
        changes: changes::list(view.ledger, 0),
    }
}
