//! `scripted`: a provider that plays a script (`docs/scripted-model.md`). No key, no network, no
//! chance: the same conversation gets the same answers. Reading scripts is in `script`.

mod reader;
mod scene;
mod script;
mod template;

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    task::{consume_budget, spawn_blocking},
    time::sleep,
};
use transom_frame::SessionId;
use transom_harness::{
    catalogue::Advertised,
    chunk::{Chunk, Finish, LlmFailure},
    image::{Facts, ImageLimits, ImageReference, inspect},
    ports::{Attachments, ModelRequest, RetryPolicy},
};

pub use crate::scripted::{reader::ScriptError, script::Script};
use crate::{
    answer::{Blocks, Chunks},
    providers::{Offer, Provider},
    scripted::{
        scene::Scene,
        script::{Action, Rule},
    },
};

/// The id under which this provider is registered.
pub const ID: &str = "scripted";

/// How many sessions have their uses of rules with `times` counted; the oldest is forgotten first.
const SESSIONS_MAX: usize = 4096;

/// The provider.
pub struct Scripted {
    script: Script,
    attachments: Option<Arc<dyn Attachments>>,
    uses: Mutex<Uses>,
}

#[derive(Default)]
struct Uses {
    /// Per session, how often each rule was taken.
    counts: HashMap<SessionId, HashMap<usize, u64>>,
    order: VecDeque<SessionId>,
}

impl Scripted {
    /// A provider that plays `script`.
    pub fn new(script: Script) -> Scripted {
        Scripted { script, attachments: None, uses: Mutex::default() }
    }

    /// The same, with the bytes of the images that messages name. Without them images are not looked at.
    #[must_use]
    pub fn seeing(mut self, attachments: Arc<dyn Attachments>) -> Scripted {
        self.attachments = Some(attachments);
        self
    }

    /// What images are, by their bytes: `image/png 1x1 70 bytes`, one behind the other.
    async fn look(&self, named: Vec<ImageReference>) -> Result<String, LlmFailure> {
        let Some(attachments) = self.attachments.clone().filter(|_| !named.is_empty()) else {
            return Ok(String::new());
        };
        let looked = spawn_blocking(move || {
            let each = named.iter().map(|image| describe(&*attachments, image));
            each.collect::<Result<Vec<_>, _>>().map(|each| each.join(", "))
        });
        looked.await.unwrap_or_else(|failure| Err(failure.to_string())).map_err(unseen)
    }

    /// The first rule that fits and is not used up.
    fn pick(&self, session: &SessionId, scene: &Scene) -> Option<&Rule> {
        let fitting = self.script.rules.iter().enumerate().filter(|(_, rule)| rule.fits(scene));
        for (at, rule) in fitting {
            let Some(times) = rule.times else { return Some(rule) };
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            if uses.take(session, at, times) {
                return Some(rule);
            }
        }
        None
    }

    async fn play(&self, request: &ModelRequest, out: &Chunks) -> Result<Finish, LlmFailure> {
        let mut scene = Scene::read(&request.messages);
        if scene.has_image && !self.script.images {
            return Err(LlmFailure::new(
                "UNSUPPORTED_CONTENT",
                "the script does not declare images",
            ));
        }
        scene.images = self.look(mem::take(&mut scene.named)).await?;
        let Some(rule) = self.pick(&request.session, &scene) else {
            return Err(LlmFailure::new("INVALID_REQUEST", scene.unanswered()));
        };
        // A script that refers to what is not there is wrong, and says so to whoever plays it.
        let missing = |message: String| LlmFailure::new("INVALID_REQUEST", message);
        let mut put = |chunk: Chunk| out.put(chunk);
        let mut blocks = Blocks::default();
        let mut usage = None;
        let mut calls = 0;
        for action in &rule.answer {
            // A long answer without delays lets others run, and can be stopped.
            consume_budget().await;
            match action {
                Action::Text(fragments) => {
                    for fragment in fragments {
                        blocks.text(&mut put, &fragment.fill(&scene).map_err(missing)?);
                    }
                }
                Action::Reasoning(fragments) => {
                    for fragment in fragments {
                        blocks.reasoning(&mut put, &fragment.fill(&scene).map_err(missing)?);
                    }
                }
                Action::Tool { id, name, arguments } => {
                    calls += 1;
                    let id =
                        id.clone().unwrap_or_else(|| format!("call-{}-{calls}", scene.answers + 1));
                    let fragments = arguments.fragments(&scene).map_err(missing)?;
                    let at = blocks.open_call(&mut put);
                    for fragment in fragments {
                        blocks.call(&mut put, at, Some(&id), Some(name), &fragment);
                    }
                }
                Action::Delay(time) => sleep(*time).await,
                Action::Usage(counts) => usage = Some(*counts),
                Action::Finish(reason) => return Ok(blocks.close(&mut put, usage, reason.clone())),
                Action::Error(failure) => return Err(failure.clone()),
                Action::Cut => {
                    let message = "the script cuts the stream before its end";
                    return Err(LlmFailure::new("STREAM_CLOSED", message));
                }
            }
        }
        let reason = if blocks.calls() > 0 { Finish::ToolCalls } else { Finish::Stop };
        Ok(blocks.close(&mut put, usage, reason))
    }
}

fn describe(attachments: &dyn Attachments, image: &ImageReference) -> Result<String, String> {
    let name = &image.attachment_id;
    let kept = attachments.attachment(name).map_err(|error| error.to_string())?;
    let bytes = kept.ok_or_else(|| format!("{name} is not kept"))?.bytes;
    let Facts { media_type, width, height } =
        inspect(&bytes, Some(image.media_type), &ImageLimits::default())
            .map_err(|error| format!("{name} {error}"))?;
    Ok(format!("{} {width}x{height} {} bytes", media_type.as_str(), bytes.len()))
}

fn unseen(why: String) -> LlmFailure {
    LlmFailure::new("INVALID_REQUEST", format!("an image cannot be shown to the model: {why}"))
}

impl Uses {
    fn take(&mut self, session: &SessionId, rule: usize, times: u64) -> bool {
        if !self.counts.contains_key(session) {
            if self.order.len() >= SESSIONS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.counts.remove(&oldest);
            }
            self.order.push_back(session.clone());
        }
        let used = self.counts.entry(session.clone()).or_default().entry(rule).or_default();
        let free = *used < times;
        *used += u64::from(free);
        free
    }
}

impl Provider for Scripted {
    fn offer(&self, _model: &str) -> Offer {
        Offer {
            model: Some(self.script.model.clone()),
            max_tokens: None,
            efforts: ["off", "high", "max"].map(str::to_owned).to_vec(),
            effort: None,
            context_window: self.script.context_window,
            images: self.script.images,
        }
    }

    /// It is for rehearsals: whoever wants it names it.
    fn advertised(&self) -> (String, Vec<Advertised>) {
        ("Scripted".to_owned(), Vec::new())
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.script.retry.clone()
    }

    fn answer<'a>(
        &'a self,
        request: ModelRequest,
        out: &'a Chunks,
    ) -> Pin<Box<dyn Future<Output = Finish> + Send + 'a>> {
        Box::pin(async move {
            match self.play(&request, out).await {
                Ok(finish) => finish,
                Err(failure) => Finish::Error { failure },
            }
        })
    }
}

#[cfg(test)]
mod tests;
