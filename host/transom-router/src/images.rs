//! Images on their way into a log and out of it: a prompt with images enters the inbox once they are kept, and
//! `attachment/read` gives them back (S-58, B-156, decision 47). What counts as an image is the harness's.

use std::{mem, sync::Arc};

use transom_frame::{Code, Failure, SessionId};
use transom_harness::{
    block::Block,
    image::{ImageError, ImageLimits, Reason, is_image},
    ports::Served,
};

use crate::{
    Effect, Question,
    answers::Pending,
    peer::Asked,
    request::{AttachmentRead, Prompt, Request},
    router::{Router, disposed},
};

/// What becomes of images in prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Images {
    /// They stand in the log as they came, as in a composition of the baseline, which has no store for them (S-58).
    #[default]
    AsTheyCame,
    /// Their bytes are kept, and the log names them.
    Kept {
        /// How much of images a prompt may have.
        limits: ImageLimits,
        /// What holds where the model takes none.
        unseen: Unseen,
    },
    /// There is no store for them, so no prompt may have any.
    Refused,
}

/// What becomes of a prompt with images for a model that takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// It is refused before anything is kept (B-124).
    Refused,
    /// It is admitted as the recorded runtimes of the SDK wire admit it, and the model decides in the turn (S-56, S-58).
    Admitted,
}

/// A prompt on its way in: it is judged whether its images can be shown, then they are kept.
#[derive(Debug)]
pub(crate) struct Intake {
    asked: Asked,
    /// The life of the session that the prompt is for.
    life: u64,
    /// Its content is with the driver while that keeps the images.
    prompt: Prompt,
    limits: ImageLimits,
}

impl Router {
    /// Begins a prompt. One with images waits for the store first, and what is asked of the session meanwhile waits
    /// behind it, in order (design §4, rule 4).
    pub(crate) fn take_in(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        prompt: Prompt,
    ) {
        let has_images = prompt.content.iter().any(is_image);
        let (limits, unseen) = match self.host.images {
            Images::Kept { limits, unseen } if has_images => (limits, unseen),
            Images::Refused if has_images => {
                let text = "image prompt requires an attachment store";
                let error = ImageError::new(Reason::NoStore, text);
                return self.refuse(out, &asked, &error.into());
            }
            Images::AsTheyCame | Images::Kept { .. } | Images::Refused => {
                return self.prompt(out, now, id, asked, prompt);
            }
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return self.refuse(out, &asked, &disposed(id));
        };
        session.waiting = Some(Vec::new());
        let intake = Intake { asked, life: session.life, prompt, limits };
        match unseen {
            Unseen::Admitted => self.keep_images(out, id, intake),
            Unseen::Refused => {
                let door = Arc::clone(&session.door);
                let own = session.agent.route().clone();
                let route = match intake.prompt.route.clone() {
                    Some(route) => self.routed(Some(route)),
                    None => own,
                };
                let pending = Pending::Sight(id.clone(), Box::new(intake));
                self.ask(out, Question::Serve { door, route }, pending);
            }
        }
    }

    /// Goes on once it is known whether the model takes images. A route that nobody serves says nothing about them: as
    /// with every prompt, its turn fails.
    pub(crate) fn sight_known(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        intake: Intake,
        served: Result<Served, Failure>,
    ) {
        match served {
            Ok(Served { images: false, provider, model, .. }) => {
                let text = format!("model {model:?} of provider {provider:?} does not take images");
                let error = ImageError::new(Reason::Unsupported, text);
                self.taken_in(out, now, id, intake, Err(error.into()));
            }
            Ok(_) | Err(_) => self.keep_images(out, id, intake),
        }
    }

    fn keep_images(&mut self, out: &mut Vec<Effect>, id: &SessionId, mut intake: Intake) {
        let (content, limits) = (mem::take(&mut intake.prompt.content), intake.limits);
        let pending = Pending::Keep(id.clone(), Box::new(intake));
        self.ask(out, Question::Keep { content, limits }, pending);
    }

    /// Refuses the prompt whose images are being kept, and those that wait (L-47): nothing of them is in the inbox yet, so
    /// nothing is logged of their end. Gives what else has waited and can begin now. An answer of the driver's for the
    /// withdrawn prompt comes too late to matter.
    pub(crate) fn withdraw_prompts(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
    ) -> Vec<(Asked, Request)> {
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        let Some(waiting) = session.waiting.take() else { return Vec::new() };
        let life = session.life;
        let is_prompt =
            |(_, request): &(Asked, Request)| matches!(request, Request::SessionPrompt(_));
        let (prompts, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_prompt);
        let of_this_life = |pending: &Pending| {
            matches!(
                pending,
                Pending::Sight(of, intake) | Pending::Keep(of, intake)
                    if of == id && intake.life == life
            )
        };
        let under_way = self.pending.iter().find(|(_, pending)| of_this_life(pending));
        let under_way = under_way.map(|(ask, _)| *ask);
        let intake = under_way.and_then(|ask| self.pending.remove(&ask));
        let mut begun = Vec::new();
        if let Some(Pending::Sight(_, intake) | Pending::Keep(_, intake)) = intake {
            self.refuse(out, &intake.asked, &withdrawn());
            begun = others;
        } else if let Some(session) = self.sessions.get_mut(id) {
            // What is under way is the look at a directory, which no cancel is about.
            session.waiting = Some(others);
        }
        for (asked, _) in prompts {
            self.refuse(out, &asked, &withdrawn());
        }
        begun
    }

    /// Goes on once the images of a prompt are durable, or are not taken.
    pub(crate) fn taken_in(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        intake: Intake,
        kept: Result<Vec<Block>, Failure>,
    ) {
        let Intake { asked, life, prompt, .. } = intake;
        match kept {
            Err(failure) => self.refuse(out, &asked, &failure),
            Ok(_) if !self.lives_as(id, life) => self.refuse(out, &asked, &disposed(id)),
            Ok(content) => self.prompt(out, now, id, asked, Prompt { content, ..prompt }),
        }
        self.begin_waiting(out, now, id, life);
    }

    /// Reads an attachment that the session's log names.
    pub(crate) fn read_attachment(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        asked: Asked,
        read: AttachmentRead,
    ) {
        let events = self.sessions.get(id).map_or(0, |session| session.released);
        let question =
            Question::Attachment { session: id.clone(), name: read.attachment_id, events };
        self.ask(out, question, Pending::Attachment(asked));
    }
}

fn withdrawn() -> Failure {
    Failure::new(Code::Cancelled, "the prompt was cancelled before it entered the inbox")
}
