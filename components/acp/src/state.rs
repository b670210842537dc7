//! What a conversation remembers, and how all of it is packed into bytes and read back.
//! What the parts mean for each other is left to `conversation.rs`.

use std::collections::BTreeMap;

use transom_guest::{
    Fault, FaultKind,
    jsonrpc::RequestId,
    pack::{Packer, Unpacker},
};

use crate::{
    desk::{self, Desk},
    options::Surface,
    slot::{Ending, Fact, Slot, Stage, Stop},
};

/// The format that is written: the fields in the order in which they are declared, those of the standard surface
/// behind the others.
pub(crate) const STATE_FORMAT: u32 = 2;

/// The formats that are read. The first knew the automation surface alone.
pub(crate) const STATE_FORMATS: [u32; 2] = [1, STATE_FORMAT];

/// Everything about one conversation that the host does not keep for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The last output was put out, and nothing is read any more.
    pub(crate) closed: bool,
    /// The last `initialize` has said that images may be sent.
    pub(crate) images: bool,
    pub(crate) subscription: Subscription,
    /// What `session/new` has given out, by id.
    pub(crate) sessions: BTreeMap<Box<str>, Session>,
    /// Frames whose reply means something, by the number that is their id.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Permission requests that the client has not answered, by their id on the wire.
    pub(crate) permissions: BTreeMap<u64, Permission>,
    /// The number of the last frame asked.
    pub(crate) asked: u64,
    /// The id of the next permission request.
    pub(crate) requested: u64,
    /// What the connection began with; an option that changes later is for others.
    pub(crate) surface: Surface,
    /// The last reply to `models/list`, as JSON text.
    pub(crate) catalogue: Option<Box<str>>,
}

/// The one subscription of the connection, made with its first session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    None,
    /// Asked for; these sessions wait for it, in the order in which they were wanted.
    Asked(Vec<Wanted>),
    Made,
}

/// A `session/new` or `session/resume` that has passed its checks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) request: RequestId,
    /// As the client sent it.
    pub(crate) cwd: Box<str>,
    /// The session that is to be gone on with.
    pub(crate) resumes: Option<Box<str>>,
}

/// A session of this connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// It was disposed elsewhere.
    pub(crate) removed: bool,
    /// The prompt in flight.
    pub(crate) slot: Option<Slot>,
    /// The last turn that had a prompt of this client.
    pub(crate) prompt_turn: Option<u64>,
    /// What the standard surface remembers of it besides.
    pub(crate) desk: Option<Box<Desk>>,
}

/// A frame whose reply means something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// `events/subscribe`.
    Subscribe,
    /// `session/open`. `None`: the client has taken its request back.
    Open { request: Option<RequestId>, resumes: Option<Box<str>> },
    /// `session/prompt`.
    Prompt { session: Box<str> },
    /// `session/describe`, to learn whether the agent stays at rest over the prompt of this number.
    Rest { session: Box<str>, prompt: u64 },
    /// `models/check`, for an `initialize`.
    Check { request: RequestId },
    /// `models/list`, for one session that is being opened, or for all that are.
    Models { session: Option<Box<str>> },
    /// `models/check`, to learn what a session's route comes to.
    Route { session: Box<str> },
    /// `session/list`. `None`: the client has taken its request back.
    List { request: Option<RequestId> },
    /// `session/wait`, until the agent and all that work for it rest: for the prompt of this number, else for a close.
    Settle { session: Box<str>, prompt: Option<u64> },
    /// `session/close`.
    Close { session: Box<str> },
    /// `attachment/read`.
    Image { session: Box<str>, attachment: Box<str> },
}

/// What the client was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    /// The client's.
    pub(crate) session: Box<str>,
    /// The one that asks, where it works for the client's.
    pub(crate) child: Option<Box<str>>,
    pub(crate) ask: Box<str>,
    pub(crate) approval: Box<str>,
}

impl Memory {
    pub(crate) fn new(surface: Surface) -> Memory {
        Memory {
            closed: false,
            images: false,
            subscription: Subscription::None,
            sessions: BTreeMap::new(),
            pending: BTreeMap::new(),
            permissions: BTreeMap::new(),
            asked: 0,
            requested: 0,
            surface,
            catalogue: None,
        }
    }

    /// A session that the client has been told of.
    pub(crate) fn known(&mut self, id: &str) -> Option<&mut Session> {
        let is_told = |session: &&mut Session| {
            session.desk.as_ref().is_none_or(|desk| desk.opening.is_none())
        };
        self.sessions.get_mut(id).filter(is_told)
    }

    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut out = Packer::default();
        out.truth(self.closed);
        out.truth(self.images);
        match &self.subscription {
            Subscription::None => out.number(0),
            Subscription::Asked(waiting) => {
                out.number(1);
                out.list(waiting.iter(), |out, wanted| {
                    out.text(&wanted.request.0);
                    out.text(&wanted.cwd);
                    out.option(wanted.resumes.as_deref(), Packer::text);
                });
            }
            Subscription::Made => out.number(2),
        }
        out.list(self.sessions.iter(), |out, (id, session)| {
            out.text(id);
            out.truth(session.removed);
            out.option(session.slot.as_ref(), slot);
            out.option(session.prompt_turn, Packer::number);
            out.option(session.desk.as_deref(), desk::pack);
        });
        out.list(self.pending.iter(), |out, (number, pending)| {
            out.number(*number);
            match pending {
                Pending::Subscribe => out.number(0),
                Pending::Open { request, resumes } => {
                    out.number(1);
                    out.option(request.as_ref(), |out, request| out.text(&request.0));
                    out.option(resumes.as_deref(), Packer::text);
                }
                Pending::Prompt { session } => {
                    out.number(2);
                    out.text(session);
                }
                Pending::Rest { session, prompt } => {
                    out.number(3);
                    out.text(session);
                    out.number(*prompt);
                }
                Pending::Check { request } => {
                    out.number(4);
                    out.text(&request.0);
                }
                Pending::Models { session } => {
                    out.number(5);
                    out.option(session.as_deref(), Packer::text);
                }
                Pending::Route { session } => {
                    out.number(6);
                    out.text(session);
                }
                Pending::List { request } => {
                    out.number(7);
                    out.option(request.as_ref(), |out, request| out.text(&request.0));
                }
                Pending::Settle { session, prompt } => {
                    out.number(8);
                    out.text(session);
                    out.option(*prompt, Packer::number);
                }
                Pending::Close { session } => {
                    out.number(9);
                    out.text(session);
                }
                Pending::Image { session, attachment } => {
                    out.number(10);
                    out.text(session);
                    out.text(attachment);
                }
            }
        });
        out.list(self.permissions.iter(), |out, (id, permission)| {
            out.number(*id);
            out.text(&permission.session);
            out.option(permission.child.as_deref(), Packer::text);
            out.text(&permission.ask);
            out.text(&permission.approval);
        });
        out.number(self.asked);
        out.number(self.requested);
        out.truth(self.surface == Surface::Standard);
        out.option(self.catalogue.as_deref(), Packer::text);
        out.into_bytes()
    }

    /// The opposite of `pack`, for one of the formats there are.
    pub(crate) fn unpack(format: u32, bytes: &[u8]) -> Result<Memory, Fault> {
        let mut reader = Unpacker::new(bytes);
        match memory(&mut reader, format) {
            Some(memory) if reader.at_end() => Ok(memory),
            Some(_) | None => {
                let (at, length) = (reader.at(), bytes.len());
                let detail =
                    format!("state of format {format} is damaged at byte {at} of {length}");
                Err(Fault::new(FaultKind::Internal, detail))
            }
        }
    }
}

fn slot(out: &mut Packer, slot: &Slot) {
    out.text(&slot.request.0);
    out.number(slot.number);
    match &slot.stage {
        Stage::Asked { early } => {
            out.number(0);
            out.list(early.iter(), fact);
        }
        Stage::Queued { message, failure } => {
            out.number(1);
            out.text(message);
            out.option(failure.as_deref(), Packer::text);
        }
        Stage::Claimed { message, turn, ending } => {
            out.number(2);
            out.text(message);
            out.number(*turn);
            out.option(ending.as_ref(), pack_ending);
        }
    }
    out.truth(slot.patient);
    out.truth(slot.cancelled);
    out.option(slot.undelivered.as_deref(), Packer::text);
}

fn pack_ending(out: &mut Packer, ending: &Ending) {
    match ending {
        Ending::Stopped(how) => {
            out.number(0);
            stop(out, *how);
        }
        Ending::Failed(why) => {
            out.number(1);
            out.text(why);
        }
    }
}

fn fact(out: &mut Packer, fact: &Fact) {
    match fact {
        Fact::Claimed { turn, messages } => {
            out.number(0);
            out.number(*turn);
            out.list(messages.iter(), |out, message| out.text(message));
        }
        Fact::Failed { message, messages } => {
            out.number(1);
            out.text(message);
            out.list(messages.iter(), |out, message| out.text(message));
        }
        Fact::Ended { turn, ending } => {
            out.number(2);
            out.number(*turn);
            pack_ending(out, ending);
        }
        Fact::Rested => out.number(3),
        Fact::Began { turn } => {
            out.number(4);
            out.number(*turn);
        }
    }
}

fn stop(out: &mut Packer, stop: Stop) {
    out.number(match stop {
        Stop::EndTurn => 0,
        Stop::Cancelled => 1,
        Stop::MaxTokens => 2,
    });
}

fn memory(reader: &mut Unpacker<'_>, format: u32) -> Option<Memory> {
    // What the first format did not know is as it was then.
    let first = format == 1;
    Some(Memory {
        closed: reader.truth()?,
        images: reader.truth()?,
        subscription: match reader.number()? {
            0 => Subscription::None,
            1 => Subscription::Asked(reader.list(|reader| {
                Some(Wanted {
                    request: request(reader)?,
                    cwd: reader.text()?.into(),
                    resumes: if first { None } else { name(reader)? },
                })
            })?),
            2 => Subscription::Made,
            _ => return None,
        },
        sessions: reader.list(|reader| {
            let id = reader.text()?.into();
            let session = Session {
                removed: reader.truth()?,
                slot: reader.option(|reader| read_slot(reader, first))?,
                prompt_turn: reader.option(Unpacker::number)?,
                desk: if first { None } else { reader.option(desk::unpack)?.map(Box::new) },
            };
            Some((id, session))
        })?,
        pending: reader.list(|reader| Some((reader.number()?, read_pending(reader, first)?)))?,
        permissions: reader.list(|reader| {
            let id = reader.number()?;
            let permission = Permission {
                session: reader.text()?.into(),
                child: match first {
                    true => None,
                    false => reader.option(|reader| reader.text().map(Into::into))?,
                },
                ask: reader.text()?.into(),
                approval: reader.text()?.into(),
            };
            Some((id, permission))
        })?,
        asked: reader.number()?,
        requested: reader.number()?,
        surface: match !first && reader.truth()? {
            true => Surface::Standard,
            false => Surface::Automation,
        },
        catalogue: if first { None } else { name(reader)? },
    })
}

pub(crate) fn request(reader: &mut Unpacker<'_>) -> Option<RequestId> {
    Some(RequestId(reader.text()?.into()))
}

fn name(reader: &mut Unpacker<'_>) -> Option<Option<Box<str>>> {
    reader.option(|reader| reader.text().map(Into::into))
}

fn read_pending(reader: &mut Unpacker<'_>, first: bool) -> Option<Pending> {
    Some(match reader.number()? {
        0 => Pending::Subscribe,
        1 => Pending::Open {
            request: reader.option(request)?,
            resumes: if first { None } else { name(reader)? },
        },
        2 => Pending::Prompt { session: reader.text()?.into() },
        3 => Pending::Rest { session: reader.text()?.into(), prompt: reader.number()? },
        4 => Pending::Check { request: request(reader)? },
        5 => Pending::Models { session: name(reader)? },
        6 => Pending::Route { session: reader.text()?.into() },
        7 => Pending::List { request: reader.option(request)? },
        8 => Pending::Settle {
            session: reader.text()?.into(),
            prompt: reader.option(Unpacker::number)?,
        },
        9 => Pending::Close { session: reader.text()?.into() },
        10 => Pending::Image { session: reader.text()?.into(), attachment: reader.text()?.into() },
        _ => return None,
    })
}

fn read_slot(reader: &mut Unpacker<'_>, first: bool) -> Option<Slot> {
    Some(Slot {
        request: request(reader)?,
        number: reader.number()?,
        stage: match reader.number()? {
            0 => Stage::Asked { early: reader.list(read_fact)? },
            1 => Stage::Queued {
                message: reader.text()?.into(),
                failure: reader.option(|reader| reader.text().map(str::to_owned))?,
            },
            2 => Stage::Claimed {
                message: reader.text()?.into(),
                turn: reader.number()?,
                ending: match first {
                    true => reader.option(read_stop)?.map(Ending::Stopped),
                    false => reader.option(read_ending)?,
                },
            },
            _ => return None,
        },
        patient: !first && reader.truth()?,
        cancelled: !first && reader.truth()?,
        undelivered: match first {
            true => None,
            false => reader.option(|reader| reader.text().map(str::to_owned))?,
        },
    })
}

fn read_fact(reader: &mut Unpacker<'_>) -> Option<Fact> {
    fn messages(reader: &mut Unpacker<'_>) -> Option<Vec<Box<str>>> {
        reader.list(|reader| reader.text().map(Into::into))
    }
    Some(match reader.number()? {
        0 => Fact::Claimed { turn: reader.number()?, messages: messages(reader)? },
        1 => Fact::Failed { message: reader.text()?.to_owned(), messages: messages(reader)? },
        2 => Fact::Ended { turn: reader.number()?, ending: read_ending(reader)? },
        3 => Fact::Rested,
        4 => Fact::Began { turn: reader.number()? },
        _ => return None,
    })
}

fn read_ending(reader: &mut Unpacker<'_>) -> Option<Ending> {
    Some(match reader.number()? {
        0 => Ending::Stopped(read_stop(reader)?),
        1 => Ending::Failed(reader.text()?.to_owned()),
        _ => return None,
    })
}

fn read_stop(reader: &mut Unpacker<'_>) -> Option<Stop> {
    match reader.number()? {
        0 => Some(Stop::EndTurn),
        1 => Some(Stop::Cancelled),
        2 => Some(Stop::MaxTokens),
        _ => None,
    }
}
