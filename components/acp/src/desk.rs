//! What the standard surface remembers of a session besides, and how it is packed. What the parts mean for each other is
//! left to `standard.rs`.

use std::collections::{BTreeMap, VecDeque};

use transom_guest::{
    jsonrpc::RequestId,
    pack::{Packer, Unpacker},
};

use crate::{choices::Selection, state::request};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Desk {
    /// Where its tools work, for the places that they name.
    pub(crate) cwd: Box<str>,
    /// Nobody has been told of it yet.
    pub(crate) opening: Option<Opening>,
    /// The last status that was told.
    pub(crate) running: bool,
    /// Who answers its prompts; `None`: nobody knows.
    pub(crate) selection: Option<Selection>,
    /// Tokens that fit into one request to its model and the answer.
    pub(crate) window: Option<u64>,
    /// Requests to close it.
    pub(crate) closing: Vec<RequestId>,
    /// An event that waits for its images, and what came behind it.
    pub(crate) tail: Option<Tail>,
}

/// A `session/new` or `session/resume` that has a session and no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// `None`: the client has taken it back.
    pub(crate) request: Option<RequestId>,
    pub(crate) resumes: bool,
    /// As the host has opened it, as JSON text.
    pub(crate) route: Box<str>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The body of the event.
    pub(crate) event: Box<str>,
    /// How many images have not come.
    pub(crate) missing: u64,
    /// By attachment.
    pub(crate) images: BTreeMap<Box<str>, Image>,
    /// In the order in which it came.
    pub(crate) held: VecDeque<Held>,
}

/// An image that was read back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// Both as JSON text.
    Read { data: Box<str>, media_type: Box<str> },
    /// Why it was not.
    Failed(Box<str>),
}

/// What has to wait for the event in front of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Notice {
        name: Box<str>,
        body: Box<str>,
    },
    /// All rest: see `Pending::Settle`.
    Settle {
        prompt: Option<u64>,
    },
}

impl Held {
    pub(crate) fn is_named(&self, wanted: &str) -> bool {
        matches!(self, Held::Notice { name, .. } if &**name == wanted)
    }
}

impl Tail {
    /// Bytes of what is held.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |held: &Held| match held {
            Held::Notice { name, body } => name.len() + body.len(),
            Held::Settle { .. } => 0,
        };
        self.held.iter().map(bytes).sum()
    }
}

pub(crate) fn pack(out: &mut Packer, desk: &Desk) {
    out.text(&desk.cwd);
    out.option(desk.opening.as_ref(), |out, opening| {
        out.option(opening.request.as_ref(), |out, request| out.text(&request.0));
        out.truth(opening.resumes);
        out.text(&opening.route);
    });
    out.truth(desk.running);
    out.option(desk.selection.as_ref(), |out, selection| {
        out.text(&selection.provider);
        out.text(&selection.model);
        out.option(selection.effort.as_deref(), Packer::text);
        out.truth(selection.chosen);
    });
    out.option(desk.window, Packer::number);
    out.list(desk.closing.iter(), |out, request| out.text(&request.0));
    out.option(desk.tail.as_ref(), |out, tail| {
        out.text(&tail.event);
        out.number(tail.missing);
        out.list(tail.images.iter(), |out, (name, image)| {
            out.text(name);
            match image {
                Image::Read { data, media_type } => {
                    out.number(0);
                    out.text(data);
                    out.text(media_type);
                }
                Image::Failed(why) => {
                    out.number(1);
                    out.text(why);
                }
            }
        });
        out.list(tail.held.iter(), |out, held| match held {
            Held::Notice { name, body } => {
                out.number(0);
                out.text(name);
                out.text(body);
            }
            Held::Settle { prompt } => {
                out.number(1);
                out.option(*prompt, Packer::number);
            }
        });
    });
}

/// The opposite of `pack`.
pub(crate) fn unpack(reader: &mut Unpacker<'_>) -> Option<Desk> {
    Some(Desk {
        cwd: reader.text()?.into(),
        opening: reader.option(|reader| {
            Some(Opening {
                request: reader.option(request)?,
                resumes: reader.truth()?,
                route: reader.text()?.into(),
            })
        })?,
        running: reader.truth()?,
        selection: reader.option(|reader| {
            Some(Selection {
                provider: reader.text()?.to_owned(),
                model: reader.text()?.to_owned(),
                effort: reader.option(|reader| reader.text().map(str::to_owned))?,
                chosen: reader.truth()?,
            })
        })?,
        window: reader.option(Unpacker::number)?,
        closing: reader.list(request)?,
        tail: reader.option(read_tail)?,
    })
}

fn read_tail(reader: &mut Unpacker<'_>) -> Option<Tail> {
    Some(Tail {
        event: reader.text()?.into(),
        missing: reader.number()?,
        images: reader.list(|reader| {
            let name = reader.text()?.into();
            let image = match reader.number()? {
                0 => Image::Read { data: reader.text()?.into(), media_type: reader.text()?.into() },
                1 => Image::Failed(reader.text()?.into()),
                _ => return None,
            };
            Some((name, image))
        })?,
        held: reader.list(|reader| {
            Some(match reader.number()? {
                0 => Held::Notice { name: reader.text()?.into(), body: reader.text()?.into() },
                1 => Held::Settle { prompt: reader.option(Unpacker::number)? },
                _ => return None,
            })
        })?,
    })
}
