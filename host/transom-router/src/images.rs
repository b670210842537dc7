//! Images on their way into a log and out of it: a prompt with images enters the inbox once they are kept, and
//! `attachment/read` gives them back (S-58, B-156, decision 47). What counts as an image is the harness's.

use transom_frame::{Failure, SessionId};
use transom_harness::{
    block::Block,
    image::{ImageError, ImageLimits, Reason, is_image},
};

use crate::{
    Effect, Question,
    answers::Pending,
    peer::Asked,
    request::{AttachmentRead, Prompt},
    router::{Router, disposed},
};

/// What becomes of images in prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Images {
    /// They stand in the log as they came, as in a composition of the baseline, which has no store for them (S-58).
    #[default]
    AsTheyCame,
    /// Their bytes are kept, and the log names them.
    Kept(ImageLimits),
    /// There is no store for them, so no prompt may have any.
    Refused,
}

/// A prompt whose images are being kept.
#[derive(Debug)]
pub(crate) struct Intake {
    asked: Asked,
    /// The life of the session that the prompt is for.
    life: u64,
    /// Its content is with the driver.
    prompt: Prompt,
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
        mut prompt: Prompt,
    ) {
        let has_images = prompt.content.iter().any(is_image);
        let limits = match self.host.images {
            Images::Kept(limits) if has_images => limits,
            Images::Refused if has_images => {
                let text = "image prompt requires an attachment store";
                let error = ImageError::new(Reason::NoStore, text);
                return self.refuse(out, &asked, &error.into());
            }
            Images::AsTheyCame | Images::Kept(_) | Images::Refused => {
                return self.prompt(out, now, id, asked, prompt);
            }
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return self.refuse(out, &asked, &disposed(id));
        };
        session.waiting = Some(Vec::new());
        let content: Vec<Block> = std::mem::take(&mut prompt.content);
        let intake = Intake { asked, life: session.life, prompt };
        self.ask(
            out,
            Question::Keep { content, limits },
            Pending::Keep(id.clone(), Box::new(intake)),
        );
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
        let Intake { asked, life, prompt } = intake;
        match kept {
            Err(failure) => self.refuse(out, &asked, &failure),
            Ok(_) if !self.lives_as(id, life) => self.refuse(out, &asked, &disposed(id)),
            Ok(content) => self.prompt(out, now, id, asked, Prompt { content, ..prompt }),
        }
        self.go_on_after_look(out, now, id, life);
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
