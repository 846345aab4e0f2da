//! What the admin socket answers: a small, versioned JSON API over what the loop knows.
//!
//! | path | answer |
//! |---|---|
//! | `/v1` | who answers: version, node, mode, families, how much is served |
//! | `/v1/services` | service ports, one item per family; `limit`, `continue`, `namespace`, `name`, `selector` |
//! | `/v1/endpoints` | their endpoints, likewise |
//! | `/v1/routes` | their frontends, and what happens to packets for each, likewise |
//! | `/v1/quarantine` | what was set aside, and why; likewise, but for `selector` |
//! | `/v1/changes` | the change ledger; `after` (a number) leaves older entries out, `namespace` and `name` others |
//! | `/v1/diff` | what the kernel holds against what it should hold |
//! | `/v1/explain` | `from`, `to`, `protocol`, `interface`: where a packet goes, and why |
//!
//! In: questions. Out: JSON, an error with `error` in it. Each question is answered on the loop's thread between two runs, so an answer
//! is always of one moment; a page is bounded, so no question holds the loop for long. Nothing is computed while nobody asks.
//! What the agent does not keep (labels, names of pods) is looked up at its source first.

mod changes;
mod dialled;
mod differences;
mod explanation;
mod flow;
mod lists;
mod looked_up;
mod page;
mod quarantine;
mod sender;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_serve::admin::{Answer, Answering, Body, Question, Responder};

use crate::board::Board;
use crate::ctl::NO_SUCH_PATH;
use crate::sync::View;

pub use dialled::Dialled;
pub use explanation::Asked;
pub(crate) use looked_up::LookedUp;
pub use looked_up::Source;
use page::{Looks, Page};
pub use sender::Sender;

/// How long an answer may take. A first write of many rules goes before it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What does not change while the process runs.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The own node.
    pub node: String,
    /// The mode.
    pub mode: crate::flags::Mode,
}

/// See the module.
#[derive(Clone)]
pub struct Admin {
    board: Arc<Board>,
    identity: Identity,
    source: Arc<Source>,
}

/// Why there is no answer: status and text.
pub(crate) type Refusal = (u16, String);

/// What a question leads to, on the loop's thread.
pub(crate) type Work = Box<dyn FnOnce(&View<'_>) -> Result<Value, Refusal> + Send>;

impl Admin {
    /// For the loop behind this board, whose objects come from this source.
    pub fn new(board: Arc<Board>, identity: Identity, source: Source) -> Arc<Self> {
        Arc::new(Self { board, identity, source: Arc::new(source) })
    }

    /// Who this agent is.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The board of its loop.
    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    async fn answer(&self, question: &Question) -> Result<Body, Refusal> {
        let looked_up = self.source.look(question).await?;
        if let (Some(chosen), Some(list)) = (&looked_up.chosen, list(&question.path))
            && question.parameter("limit").is_none()
        {
            let page = Page::read(question)?.of(chosen.clone());
            return flow::whole(self.board.clone(), list, page).await;
        }
        let answer = ask(&self.board, self.work(question, looked_up)?).await?;
        Ok(Body::Whole(format!("{answer}\n")))
    }

    /// What a question leads to, with what was looked up for it.
    pub(crate) fn work(&self, question: &Question, looked_up: LookedUp) -> Result<Work, Refusal> {
        let identity = self.identity.clone();
        Ok(match question.path.as_str() {
            "/v1" | "/v1/" => Box::new(move |view| Ok(lists::status(&identity, view))),
            "/v1/changes" => {
                let (after, page) = (number(question, "after")?.unwrap_or_default(), Page::read(question)?);
                Box::new(move |view| Ok(changes::list(view.ledger, after, &page)))
            }
            "/v1/diff" => Box::new(differences::list),
            "/v1/explain" => {
                let asked = Asked::read(question)?;
                Box::new(move |view| explanation::explain(view, &asked, looked_up.pods.as_ref()))
            }
            path => {
                let unknown =
                    || (404, format!("{NO_SUCH_PATH}{path}; this agent knows version 1 of the API"));
                let (list, page) = (list(path).ok_or_else(unknown)?, Page::read(question)?);
                let page = looked_up.chosen.map_or_else(|| page.clone(), |chosen| page.clone().of(chosen));
                Box::new(move |view| list(view, &page, &mut Looks::default()))
            }
        })
    }
}

/// A list, of which a page is made.
type List = fn(&View<'_>, &Page, &mut Looks) -> Result<Value, Refusal>;

fn list(path: &str) -> Option<List> {
    Some(match path {
        "/v1/services" => lists::services,
        "/v1/endpoints" => lists::endpoints,
        "/v1/routes" => lists::routes,
        "/v1/quarantine" => quarantine::list,
        _ => return None,
    })
}

pub(crate) fn number(question: &Question, name: &str) -> Result<Option<u64>, Refusal> {
    let read = |text: &str| text.parse().map_err(|_| (400, format!("{name} must be a number, not {text:?}")));
    question.parameter(name).map(read).transpose()
}

impl Responder for Admin {
    fn respond(&self, question: Question) -> Answering {
        let admin = self.clone();
        Box::pin(async move {
            match admin.answer(&question).await {
                Ok(body) => Answer { status: 200, body },
                Err((status, text)) => {
                    Answer { status, body: Body::Whole(format!("{}\n", json!({ "error": text }))) }
                }
            }
        })
    }
}

/// Has something done on the loop's thread, unless whoever asked has gone by then.
pub(crate) async fn ask<T: Send + 'static>(
    board: &Board,
    work: impl FnOnce(&View<'_>) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let asked = board.ask(Box::new(move |view| {
        if !send.is_closed() {
            let _ = send.send(work(view));
        }
    }));
    if asked.is_err() {
        return Err((503, "too many questions wait for an answer; try again".to_owned()));
    }
    match tokio::time::timeout(PATIENCE, receive).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err((503, "the agent is stopping".to_owned())),
        Err(_) => Err((503, "the agent is still writing rules; try again".to_owned())),
    }
}
