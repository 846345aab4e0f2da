//! What a question needs that the agent does not keep: it is looked up at the source before the loop is asked.
//!
//! In: a question. Out: pods of a name, or the Services that a selector chooses. Questions that need nothing of it cost nothing; of those that do,
//! one is looked up at a time, so that a crowd of them cannot fill the memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use switchyard_model::ServiceName;
use switchyard_serve::admin::Question;
use switchyard_source::lookup::{self, LookupError, Origin, Pods};
use switchyard_source::selector::Selector;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::page::Page;
use super::{Asked, Refusal, Sender};
use crate::sync::with_causes;

/// How long a question waits for those before it.
const TURN: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LookedUp {
    /// Pods of the name that the question has; absent if it was not looked up.
    pub(super) pods: Option<Pods>,
    /// The Services that are chosen; absent if it was not looked up.
    pub(super) chosen: Option<Chosen>,
}

/// Services that a selector chooses.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// By which.
    pub(super) selector: String,
    /// These.
    pub(super) services: Arc<BTreeSet<ServiceName>>,
}

/// Where to look, one question after another.
pub struct Source {
    origin: Origin,
    turn: Semaphore,
}

impl Source {
    /// Looks there.
    pub fn new(origin: Origin) -> Self {
        Self { origin, turn: Semaphore::new(1) }
    }

    /// Looks up what a question needs.
    pub(super) async fn look(&self, question: &Question) -> Result<LookedUp, Refusal> {
        match question.path.as_str() {
            "/v1/explain" => match Asked::read(question)?.from {
                Some(Sender::Pod { namespace, name }) => {
                    let pods = self.alone(lookup::pods(&self.origin, namespace.as_deref(), &name)).await;
                    let otherwise =
                        |(status, text)| (status, format!("{text}; or give the pod's IP address"));
                    Ok(LookedUp { pods: Some(pods.map_err(otherwise)?), ..LookedUp::default() })
                }
                Some(Sender::Address(_)) | None => Ok(LookedUp::default()),
            },
            "/v1/services" | "/v1/endpoints" | "/v1/routes" => {
                let page = Page::read(question)?;
                let Some(selector) = selector(question)? else { return Ok(LookedUp::default()) };
                let services =
                    self.alone(lookup::services(&self.origin, page.namespace(), &selector)).await?;
                let chosen = Chosen { selector: selector.to_string(), services: Arc::new(services) };
                Ok(LookedUp { chosen: Some(chosen), ..LookedUp::default() })
            }
            _ => Ok(LookedUp::default()),
        }
    }

    /// When it is its turn.
    async fn alone<T>(&self, looking: impl Future<Output = Result<T, LookupError>>) -> Result<T, Refusal> {
        let busy = || (503, "others look things up; try again in a moment".to_owned());
        let _turn = timeout(TURN, self.turn.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())?;
        looking.await.map_err(|error| (503, with_causes(&error)))
    }
}

/// The selector of a question; an empty one is none.
pub(super) fn selector(question: &Question) -> Result<Option<Selector>, Refusal> {
    let text = question.parameter("selector").filter(|text| !text.trim().is_empty());
    text.map(|text| text.parse().map_err(|error| (400, format!("{error}")))).transpose()
}
