//! The one prompt in flight of a session, from its frame to its outcome.
//! Which prompt may be admitted, and what the client is told, is left to `conversation.rs`.
//!
//! A prompt is followed by the id of its message: what the loop says of other messages and other turns is never its
//! outcome. The host names the message only behind the first things that it tells of it, so those are kept until then.

use std::mem;

use transom_guest::jsonrpc::RequestId;

/// Things told before the message is named. A turn tells three of them; what came before those is about others.
pub(crate) const EARLY_MAX: usize = 64;

/// A prompt that has no answer yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Whom to answer.
    pub(crate) request: RequestId,
    /// The number of its `session/prompt` frame, which tells this prompt from any other of the session.
    pub(crate) number: u64,
    pub(crate) stage: Stage,
    /// It is settled only when the agent and all that work for it rest, by the last turn until then: the way of the
    /// standard surface. Otherwise a failure settles it at once.
    pub(crate) patient: bool,
    /// The client has taken it back, and is told so once all rest.
    pub(crate) cancelled: bool,
    /// What of the answer could not be shown.
    pub(crate) undelivered: Option<String>,
}

/// Where a prompt stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The host has not named the message yet.
    Asked { early: Vec<Fact> },
    /// No turn has the message. `failure`: what stopped the agent since.
    Queued { message: Box<str>, failure: Option<String> },
    /// A turn has it. `ending`: how that turn, or what failed in it, has ended.
    Claimed { message: Box<str>, turn: u64, ending: Option<Ending> },
}

/// What the host tells of a session, as far as it can concern a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// `inbox/claimed`.
    Claimed { turn: u64, messages: Vec<Box<str>> },
    /// `agent/error`: a turn that had claimed these has failed.
    Failed { message: String, messages: Vec<Box<str>> },
    /// `turn/start`, which only the standard surface listens to.
    Began { turn: u64 },
    /// `turn/end`.
    Ended { turn: u64, ending: Ending },
    /// The agent is idle (decision 7).
    Rested,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Stopped(Stop),
    Failed(String),
}

/// A stop reason, as far as any is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    EndTurn,
    Cancelled,
    /// Only the standard surface says so; the other lowers it.
    MaxTokens,
}

/// The outcome of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Stopped(Stop),
    /// `turn failed: …`
    Failed(String),
    /// `assistant output delivery failed: …`
    Undelivered(String),
}

/// What a fact comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    Settled(Outcome),
    /// The agent rests, and others may still work for it.
    Rests,
    /// The agent rests and the message waits: whether it stays so has to be asked, because what was sent behind an
    /// abort wakes the agent again at once.
    Waits,
}

impl Slot {
    /// A prompt whose frame is just being sent: armed before anything can happen to it.
    pub(crate) fn new(request: RequestId, number: u64) -> Slot {
        let stage = Stage::Asked { early: Vec::new() };
        Slot { request, number, stage, patient: false, cancelled: false, undelivered: None }
    }

    /// The turn that has the message, if one has.
    pub(crate) fn turn(&self) -> Option<u64> {
        match &self.stage {
            Stage::Claimed { turn, .. } => Some(*turn),
            Stage::Asked { .. } | Stage::Queued { .. } => None,
        }
    }

    /// The id of the message, while no turn has it.
    pub(crate) fn waiting_message(&self) -> Option<&str> {
        match &self.stage {
            Stage::Queued { message, .. } => Some(message),
            Stage::Asked { .. } | Stage::Claimed { .. } => None,
        }
    }

    /// The host has named the message. What it told before is heard now.
    pub(crate) fn queued(&mut self, message: Box<str>) -> Heard {
        let Stage::Asked { early } = mem::replace(
            &mut self.stage,
            Stage::Queued { message: message.clone(), failure: None },
        ) else {
            return Heard::Nothing;
        };
        // A rest that was told before the message was claimed came before the message as well: an agent at rest would
        // have been woken by it.
        for fact in early {
            if fact == Fact::Rested && self.turn().is_none() {
                self.stage = Stage::Queued { message: message.clone(), failure: None };
                continue;
            }
            let heard = self.hear(fact);
            if heard != Heard::Nothing {
                return heard;
            }
        }
        // Failures of turns that were over before it was named are not its own.
        if let Stage::Queued { failure, .. } = &mut self.stage {
            *failure = None;
        }
        Heard::Nothing
    }

    /// Something was told of the session.
    pub(crate) fn hear(&mut self, fact: Fact) -> Heard {
        match &mut self.stage {
            Stage::Asked { early } => {
                if early.len() >= EARLY_MAX {
                    early.remove(0);
                }
                early.push(fact);
                Heard::Nothing
            }
            Stage::Queued { message, failure } => match fact {
                Fact::Claimed { turn, messages } => {
                    if messages.contains(message) {
                        let message = mem::take(message);
                        self.stage = Stage::Claimed { message, turn, ending: None };
                    }
                    Heard::Nothing
                }
                Fact::Failed { message: why, messages } => {
                    if messages.contains(message) && !self.patient {
                        return Heard::Settled(Outcome::Failed(why));
                    }
                    *failure = Some(why);
                    Heard::Nothing
                }
                Fact::Began { .. } | Fact::Ended { .. } => Heard::Nothing,
                // Whoever has taken it back waits for the whole tree already.
                Fact::Rested if self.cancelled => Heard::Nothing,
                Fact::Rested => Heard::Waits,
            },
            Stage::Claimed { message, turn, ending } => match fact {
                Fact::Claimed { .. } => Heard::Nothing,
                Fact::Began { turn: begun } => {
                    if self.patient && begun > *turn {
                        (*turn, *ending) = (begun, None);
                    }
                    Heard::Nothing
                }
                // A competing turn's failure is not this prompt's.
                Fact::Failed { message: why, messages } => match messages.contains(message) {
                    true if self.patient => {
                        *ending = Some(Ending::Failed(why));
                        Heard::Nothing
                    }
                    true => Heard::Settled(Outcome::Failed(why)),
                    false => Heard::Nothing,
                },
                Fact::Ended { turn: ended, ending: how } if ended == *turn => match how {
                    Ending::Failed(why) if !self.patient => Heard::Settled(Outcome::Failed(why)),
                    how => {
                        *ending = Some(how);
                        Heard::Nothing
                    }
                },
                Fact::Ended { .. } => Heard::Nothing,
                Fact::Rested if self.cancelled => Heard::Nothing,
                Fact::Rested if self.patient => Heard::Rests,
                Fact::Rested => Heard::Settled(self.rested()),
            },
        }
    }

    /// The outcome of a prompt once all rest, in the order of A-124.
    pub(crate) fn rested(&self) -> Outcome {
        if self.cancelled {
            return Outcome::Stopped(Stop::Cancelled);
        }
        if let Some(why) = &self.undelivered {
            return Outcome::Undelivered(why.clone());
        }
        match &self.stage {
            Stage::Claimed { ending: Some(Ending::Failed(why)), .. } => {
                Outcome::Failed(why.clone())
            }
            Stage::Claimed { ending: Some(Ending::Stopped(stop)), .. } => Outcome::Stopped(*stop),
            Stage::Claimed { ending: None, .. } => Outcome::Stopped(Stop::Cancelled),
            Stage::Asked { .. } | Stage::Queued { .. } => self.unclaimed(),
        }
    }

    /// The outcome of a prompt whose message waits in an agent that stays at rest: what stopped the agent, else that
    /// no turn ever claimed it.
    pub(crate) fn unclaimed(&self) -> Outcome {
        match &self.stage {
            Stage::Queued { failure: Some(why), .. } => Outcome::Failed(why.clone()),
            Stage::Queued { failure: None, .. } | Stage::Asked { .. } | Stage::Claimed { .. } => {
                Outcome::Stopped(Stop::Cancelled)
            }
        }
    }
}
