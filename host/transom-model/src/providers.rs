//! The table of providers, and which of them answers for a route. Talking to a model is left to
//! the provider.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc};

use tokio::{runtime::Handle, sync::Notify};
use transom_frame::{Code, Failure};
use transom_harness::{
    catalogue::{Advertised, Catalogue, Effort, Group, Reasoning},
    chunk::{Chunk, Finish, LlmFailure},
    ports::{ModelRequest, Models, RetryPolicy, Route, Served, Sink, Stop},
};

use crate::answer::{Chunks, aborted};

/// What a provider says of one of its models before anybody calls it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// Taken where a route names no model.
    pub model: Option<String>,
    /// Output cap where a route names none.
    pub max_tokens: Option<u64>,
    /// Reasoning efforts to choose from.
    pub efforts: Vec<String>,
    /// Effort where a route names none.
    pub effort: Option<String>,
    /// Tokens that fit into one request and its answer.
    pub context_window: Option<u64>,
    /// Whether messages may carry images.
    pub images: bool,
}

/// One model provider.
pub trait Provider: Send + Sync + 'static {
    /// What is offered for a model. An empty name asks about the provider as such.
    fn offer(&self, model: &str) -> Offer;

    /// For people: what it is called, and the models that it advertises. None: it is left out of lists.
    fn advertised(&self) -> (String, Vec<Advertised>);

    /// When a failed attempt is made again.
    fn retry_policy(&self) -> RetryPolicy;

    /// Makes one attempt: chunks into `out`, the end as the result. Dropping the future stops it.
    fn answer<'a>(
        &'a self,
        request: ModelRequest,
        out: &'a Chunks,
    ) -> Pin<Box<dyn Future<Output = Finish> + Send + 'a>>;
}

/// The providers of a host by id, and the route map.
///
/// The *route map* lets one provider answer for another, so that a client which can only ask for
/// `deepseek-official` may run on `scripted` (decision 57). It changes who answers and nothing else:
/// a served route, and so the log and every message, keep the provider and the model that were
/// asked for, with that provider's defaults, efforts and window if it is in the table. Images and
/// retries follow the provider that answers. Mapping is one hop: the target is an entry of the table.
///
/// A clone shares the providers; a door with a map of its own takes a clone and maps there.
#[derive(Clone)]
pub struct Providers {
    runtime: Handle,
    table: BTreeMap<String, Arc<dyn Provider>>,
    map: BTreeMap<String, String>,
}

/// A route map names a provider that is not in the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot map \"{asked}\" to provider \"{answering}\": there is no such provider (known: {known})"
)]
pub struct UnknownProvider {
    /// The requested provider.
    pub asked: String,
    /// The one that should have answered.
    pub answering: String,
    /// Those that could have, separated by commas.
    pub known: String,
}

impl Providers {
    /// An empty table. Attempts run on `runtime`, which needs its timer and its I/O driver.
    pub fn new(runtime: Handle) -> Providers {
        Providers { runtime, table: BTreeMap::new(), map: BTreeMap::new() }
    }

    /// Adds a provider. One that is already there stays as it is (S-44).
    #[must_use]
    pub fn with(mut self, id: &str, provider: impl Provider) -> Providers {
        self.table.entry(id.to_owned()).or_insert_with(|| Arc::new(provider));
        self
    }

    /// Lets `answering` answer wherever `asked` is requested.
    pub fn map(mut self, asked: &str, answering: &str) -> Result<Providers, UnknownProvider> {
        if !self.table.contains_key(answering) {
            return Err(UnknownProvider {
                asked: asked.to_owned(),
                answering: answering.to_owned(),
                known: self.table.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            });
        }
        self.map.insert(asked.to_owned(), answering.to_owned());
        Ok(self)
    }

    fn answering(&self, asked: &str) -> Option<&Arc<dyn Provider>> {
        self.table.get(self.map.get(asked).map_or(asked, String::as_str))
    }
}

impl Models for Providers {
    fn serve(&self, route: &Route) -> Result<Served, Failure> {
        let Some(provider) = named(&route.provider) else {
            return Err(Failure::invalid(&["route.provider is missing: name a model provider"]));
        };
        let Some(answering) = self.answering(provider) else {
            return Err(
                Failure::new(Code::NoAdapter, no_adapter(provider)).with("provider", provider)
            );
        };
        let wanted = named(&route.model).unwrap_or_default();
        let offer = self.table.get(provider).unwrap_or(answering).offer(wanted);
        let Some(model) = named(&route.model).or(offer.model.as_deref()) else {
            return Err(Failure::invalid(&[
                "route.model is missing: name a model of the provider",
            ]));
        };
        if let Some(effort) = &route.reasoning_effort
            && !offer.efforts.contains(effort)
        {
            return Err(Failure::new(Code::EffortUnsupported, no_effort(provider, model, effort))
                .with("provider", provider)
                .with("model", model)
                .with("effort", effort.as_str()));
        }
        Ok(Served {
            provider: provider.to_owned(),
            model: model.to_owned(),
            max_tokens: route.max_tokens.or(offer.max_tokens),
            max_tokens_is_default: route.max_tokens.is_none() && offer.max_tokens.is_some(),
            reasoning_effort: route.reasoning_effort.clone().or_else(|| offer.effort.clone()),
            reasoning_effort_is_default: route.reasoning_effort.is_none() && offer.effort.is_some(),
            context_window: offer.context_window,
            images: answering.offer(model).images,
        })
    }

    fn catalogue(&self) -> Catalogue {
        let groups = self.table.iter().map(|(id, provider)| {
            let (name, mut models) = provider.advertised();
            for model in &mut models {
                let offer = provider.offer(&model.id);
                model.reasoning = reasoning(&offer);
            }
            Group { id: id.clone(), name, models }
        });
        let groups = groups.filter(|group| !group.models.is_empty()).collect();
        // What a provider here advertises stands in its settings, so that none can fail to tell.
        Catalogue { groups, failures: Vec::new() }
    }

    fn retry_policy(&self, provider: &str) -> RetryPolicy {
        self.answering(provider).map(|provider| provider.retry_policy()).unwrap_or_default()
    }

    fn call(&self, request: ModelRequest, sink: Sink<Chunk>) -> Box<dyn Stop> {
        let stopped = Arc::new(Notify::new());
        let out = Chunks::new(sink);
        let asked = &request.served.provider;
        match self.answering(asked) {
            None => {
                let failure = LlmFailure::new("NO_ADAPTER", no_adapter(asked));
                out.finish(Finish::Error { failure });
            }
            Some(provider) => {
                let provider = Arc::clone(provider);
                let stopped = Arc::clone(&stopped);
                self.runtime.spawn(async move {
                    let reason = tokio::select! {
                        biased;
                        () = stopped.notified() => aborted(),
                        reason = provider.answer(request, &out) => reason,
                    };
                    out.finish(reason);
                });
            }
        }
        Box::new(Stopper(stopped))
    }
}

struct Stopper(Arc<Notify>);

impl Stop for Stopper {
    fn stop(&self) {
        // The permit is kept, so stopping before the task has begun counts too.
        self.0.notify_one();
    }
}

/// One effort is no choice.
fn reasoning(offer: &Offer) -> Option<Reasoning> {
    let effort = |id: &String| {
        let mut letters = id.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        let name = first.unwrap_or_default() + letters.as_str();
        Effort { id: id.clone(), name, description: None }
    };
    (offer.efforts.len() > 1).then(|| Reasoning {
        efforts: offer.efforts.iter().map(effort).collect(),
        default_effort: offer.effort.clone(),
    })
}

fn named(member: &Option<String>) -> Option<&str> {
    member.as_deref().filter(|text| !text.is_empty())
}

fn no_adapter(provider: &str) -> String {
    format!("no adapter registered for provider \"{provider}\"")
}

/// S-49.
pub(crate) fn no_effort(provider: &str, model: &str, effort: &str) -> String {
    format!(
        "provider \"{provider}\" model \"{model}\" does not support reasoning effort \"{effort}\""
    )
}

#[cfg(test)]
mod tests;
