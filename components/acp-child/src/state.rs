//! What a conversation remembers, and its packed form. What may follow what is `conversation.rs`'s.

use transom_guest::{
    Fault, FaultKind, Frame, FrameKind,
    pack::{Packer, Unpacker},
};

use crate::{
    answer::Answer,
    failure::Failure,
    permission::{Decision, Permission},
};

/// The format that `suspend` writes.
pub(crate) const STATE_FORMAT: u32 = 1;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) stage: Stage,
    /// The last answer to a question of the agent.
    pub(crate) decision: Option<Decision>,
    /// Questions of the agent so far.
    pub(crate) questions: u64,
    /// Lines that were no message, or answers to nothing.
    pub(crate) noise: u64,
}

/// Where a run stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// `initialize` is asked; the host may not have said yet where the agent is to work.
    Greeting {
        start: Option<Start>,
    },
    /// The agent has introduced itself first.
    Greeted,
    /// `session/new` is asked.
    Opening {
        start: Asked,
    },
    /// The agent has a session, and the host knows.
    Open {
        session: Box<str>,
    },
    /// `session/prompt` is asked.
    Prompting {
        session: Box<str>,
        prompt: Asked,
        permission: Permission,
        answer: Answer,
    },
    /// The host has its answer. What the agent still asks is answered until the host lets go.
    Over,
    /// The agent failed before the host asked anything; told when it does.
    Failed(Failure),
    Closed,
}

/// A request of the host that is owed an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) id: Option<Box<str>>,
    pub(crate) session: Option<Box<str>>,
}

/// `agent/start` that waits for the agent to introduce itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) asked: Asked,
    pub(crate) cwd: Box<str>,
}

impl Asked {
    pub(crate) fn of(frame: &Frame) -> Asked {
        Asked {
            id: frame.id.as_deref().map(Into::into),
            session: frame.session.as_deref().map(Into::into),
        }
    }

    pub(crate) fn is(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// The answer, with what it repeats.
    pub(crate) fn answered(&self, kind: FrameKind, name: &str, body: String) -> Frame {
        Frame {
            kind,
            session: self.session.as_deref().map(str::to_owned),
            id: self.id.as_deref().map(str::to_owned),
            name: name.to_owned(),
            body,
        }
    }

    fn pack(&self, out: &mut Packer) {
        out.option(self.id.as_deref(), Packer::text);
        out.option(self.session.as_deref(), Packer::text);
    }

    fn unpack(reader: &mut Unpacker<'_>) -> Option<Asked> {
        let text = |reader: &mut Unpacker<'_>| reader.option(|reader| Some(reader.text()?.into()));
        Some(Asked { id: text(reader)?, session: text(reader)? })
    }
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory { stage: Stage::Greeting { start: None }, decision: None, questions: 0, noise: 0 }
    }

    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut out = Packer::default();
        match &self.stage {
            Stage::Greeting { start } => {
                out.number(0);
                out.option(start.as_ref(), |out, start| {
                    start.asked.pack(out);
                    out.text(&start.cwd);
                });
            }
            Stage::Greeted => out.number(1),
            Stage::Opening { start } => {
                out.number(2);
                start.pack(&mut out);
            }
            Stage::Open { session } => {
                out.number(3);
                out.text(session);
            }
            Stage::Prompting { session, prompt, permission, answer } => {
                out.number(4);
                out.text(session);
                prompt.pack(&mut out);
                out.truth(*permission == Permission::Allow);
                answer.pack(&mut out);
            }
            Stage::Over => out.number(5),
            Stage::Failed(failure) => {
                out.number(6);
                failure.pack(&mut out);
            }
            Stage::Closed => out.number(7),
        }
        out.option(self.decision, |out, decision| {
            out.number(match decision {
                Decision::AllowedOnce => 0,
                Decision::AllowedAlways => 1,
                Decision::Rejected => 2,
                Decision::Cancelled => 3,
            });
        });
        out.number(self.questions);
        out.number(self.noise);
        out.into_bytes()
    }

    pub(crate) fn unpack(bytes: &[u8]) -> Result<Memory, Fault> {
        let mut reader = Unpacker::new(bytes);
        match memory(&mut reader) {
            Some(memory) if reader.at_end() => Ok(memory),
            Some(_) | None => {
                let (at, length) = (reader.at(), bytes.len());
                let detail =
                    format!("state of format {STATE_FORMAT} is damaged at byte {at} of {length}");
                Err(Fault::new(FaultKind::Internal, detail))
            }
        }
    }
}

fn memory(reader: &mut Unpacker<'_>) -> Option<Memory> {
    Some(Memory {
        stage: stage(reader)?,
        decision: reader.option(|reader| {
            Some(match reader.number()? {
                0 => Decision::AllowedOnce,
                1 => Decision::AllowedAlways,
                2 => Decision::Rejected,
                3 => Decision::Cancelled,
                _ => return None,
            })
        })?,
        questions: reader.number()?,
        noise: reader.number()?,
    })
}

fn stage(reader: &mut Unpacker<'_>) -> Option<Stage> {
    Some(match reader.number()? {
        0 => Stage::Greeting {
            start: reader.option(|reader| {
                Some(Start { asked: Asked::unpack(reader)?, cwd: reader.text()?.into() })
            })?,
        },
        1 => Stage::Greeted,
        2 => Stage::Opening { start: Asked::unpack(reader)? },
        3 => Stage::Open { session: reader.text()?.into() },
        4 => Stage::Prompting {
            session: reader.text()?.into(),
            prompt: Asked::unpack(reader)?,
            permission: match reader.truth()? {
                true => Permission::Allow,
                false => Permission::Reject,
            },
            answer: Answer::unpack(reader)?,
        },
        5 => Stage::Over,
        6 => Stage::Failed(Failure::unpack(reader)?),
        7 => Stage::Closed,
        _ => return None,
    })
}
