//! What a conversation remembers, and how all of it is packed into bytes and read back.
//! What the parts mean for each other is left to `conversation.rs`.

use std::{collections::BTreeMap, sync::Arc};

use transom_guest::{Fault, FaultKind};

use crate::{message::RequestId, translate::Handshake};

/// The only format so far.
///
/// A conversation is its fields in the order in which they are declared. Numbers are LEB128, a text is its length
/// in bytes and the bytes, a list is its length and the elements, an enum is its variant's number and the fields.
pub(crate) const STATE_FORMAT: u32 = 1;

/// Everything about one conversation that the host does not keep for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) stage: Stage,
    pub(crate) subscription: Subscription,
    /// Sessions that this connection opened or is opening.
    pub(crate) sessions: BTreeMap<Arc<str>, Session>,
    /// Frames that await their reply, by the number that is their id.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Lines that were read while the first handshake was under way and need it.
    pub(crate) held: Vec<String>,
    /// The number of the last frame asked.
    pub(crate) asked: u64,
}

/// Where the conversation stands (S-218).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No handshake has succeeded yet.
    Fresh,
    /// Later sessions get this directory and route.
    Ready(Handshake),
    /// A shutdown was accepted; `failed` once a teardown was reported as failed.
    Closing { failed: bool },
    /// Besides, nothing more is read. Only shutdowns are still answered.
    Ending { failed: bool },
    /// The last output was put out.
    Closed,
}

/// The one subscription of the connection (S-117).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    None,
    /// Asked for; these handshakes are complete but for it, in the order in which they completed.
    Asked(Vec<(RequestId, Handshake)>),
    Made,
}

/// A session of this connection. `opening` is the number of the frame that opened it: it tells this
/// incarnation from an earlier one of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) opening: u64,
    pub(crate) life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Opening,
    Open,
    /// It was disposed by somebody else, and no request has been told yet (S-159).
    Removed,
}

/// A frame that awaits its reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// `models/check` for an `initialize`.
    Check { request: RequestId, handshake: Handshake },
    /// `events/subscribe`.
    Subscribe,
    /// `session/open` for an id that a request named first; nobody waits for this reply itself.
    Open { session: Arc<str> },
    /// `session/open` for a `session/resume`.
    Resume { request: RequestId, session: Arc<str> },
    /// A request on a session that is open or opening.
    Use { request: RequestId, session: Arc<str>, opening: u64, what: Use },
    /// `host/shutdown`.
    Shutdown { request: RequestId },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Prompt,
    Wait,
    Directory,
}

impl Pending {
    pub(crate) fn is_wait(&self) -> bool {
        matches!(self, Pending::Use { what: Use::Wait, .. })
    }
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory {
            stage: Stage::Fresh,
            subscription: Subscription::None,
            sessions: BTreeMap::new(),
            pending: BTreeMap::new(),
            held: Vec::new(),
            asked: 0,
        }
    }

    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut out = Packer(Vec::new());
        match &self.stage {
            Stage::Fresh => out.number(0),
            Stage::Ready(handshake) => {
                out.number(1);
                out.handshake(handshake);
            }
            Stage::Closing { failed } => out.numbers([2, (*failed).into()]),
            Stage::Ending { failed } => out.numbers([3, (*failed).into()]),
            Stage::Closed => out.number(4),
        }
        match &self.subscription {
            Subscription::None => out.number(0),
            Subscription::Asked(waiting) => {
                out.numbers([1, waiting.len() as u64]);
                for (request, handshake) in waiting {
                    out.text(&request.0);
                    out.handshake(handshake);
                }
            }
            Subscription::Made => out.number(2),
        }
        out.number(self.sessions.len() as u64);
        for (id, session) in &self.sessions {
            out.text(id);
            out.number(session.opening);
            out.number(match session.life {
                Life::Opening => 0,
                Life::Open => 1,
                Life::Removed => 2,
            });
        }
        out.number(self.pending.len() as u64);
        for (number, pending) in &self.pending {
            out.number(*number);
            out.pending(pending);
        }
        out.number(self.held.len() as u64);
        for line in &self.held {
            out.text(line);
        }
        out.number(self.asked);
        out.0
    }

    /// The opposite of `pack`.
    pub(crate) fn unpack(bytes: &[u8]) -> Result<Memory, Fault> {
        let mut reader = Unpacker { bytes, length: bytes.len() };
        match reader.memory() {
            Some(memory) if reader.bytes.is_empty() => Ok(memory),
            Some(_) | None => {
                let at = reader.length - reader.bytes.len();
                let detail = format!(
                    "state of format {STATE_FORMAT} is damaged at byte {at} of {}",
                    reader.length
                );
                Err(Fault::new(FaultKind::Internal, detail))
            }
        }
    }
}

struct Packer(Vec<u8>);

impl Packer {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            self.number(number);
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn handshake(&mut self, handshake: &Handshake) {
        self.text(&handshake.cwd);
        self.text(&handshake.route);
    }

    fn pending(&mut self, pending: &Pending) {
        match pending {
            Pending::Check { request, handshake } => {
                self.number(0);
                self.text(&request.0);
                self.handshake(handshake);
            }
            Pending::Subscribe => self.number(1),
            Pending::Open { session } => {
                self.number(2);
                self.text(session);
            }
            Pending::Resume { request, session } => {
                self.number(3);
                self.text(&request.0);
                self.text(session);
            }
            Pending::Use { request, session, opening, what } => {
                self.number(4);
                self.text(&request.0);
                self.text(session);
                self.number(*opening);
                self.number(match what {
                    Use::Prompt => 0,
                    Use::Wait => 1,
                    Use::Directory => 2,
                });
            }
            Pending::Shutdown { request } => {
                self.number(5);
                self.text(&request.0);
            }
        }
    }
}

struct Unpacker<'a> {
    /// What is left.
    bytes: &'a [u8],
    /// How much there was.
    length: usize,
}

impl Unpacker<'_> {
    fn memory(&mut self) -> Option<Memory> {
        let stage = match self.number()? {
            0 => Stage::Fresh,
            1 => Stage::Ready(self.handshake()?),
            2 => Stage::Closing { failed: self.truth()? },
            3 => Stage::Ending { failed: self.truth()? },
            4 => Stage::Closed,
            _ => return None,
        };
        let subscription = match self.number()? {
            0 => Subscription::None,
            1 => {
                let waiting = self.number()?;
                // Grows with what is really there, never with what a damaged length promises.
                Subscription::Asked(
                    (0..waiting)
                        .map(|_| Some((self.request()?, self.handshake()?)))
                        .collect::<Option<_>>()?,
                )
            }
            2 => Subscription::Made,
            _ => return None,
        };
        let sessions = self.number()?;
        let sessions = (0..sessions)
            .map(|_| {
                let id = self.text()?.into();
                let opening = self.number()?;
                let life = match self.number()? {
                    0 => Life::Opening,
                    1 => Life::Open,
                    2 => Life::Removed,
                    _ => return None,
                };
                Some((id, Session { opening, life }))
            })
            .collect::<Option<_>>()?;
        let pending = self.number()?;
        let pending =
            (0..pending).map(|_| Some((self.number()?, self.pending()?))).collect::<Option<_>>()?;
        let held = self.number()?;
        let held = (0..held).map(|_| Some(self.text()?.to_owned())).collect::<Option<_>>()?;
        Some(Memory { stage, subscription, sessions, pending, held, asked: self.number()? })
    }

    fn pending(&mut self) -> Option<Pending> {
        Some(match self.number()? {
            0 => Pending::Check { request: self.request()?, handshake: self.handshake()? },
            1 => Pending::Subscribe,
            2 => Pending::Open { session: self.text()?.into() },
            3 => Pending::Resume { request: self.request()?, session: self.text()?.into() },
            4 => Pending::Use {
                request: self.request()?,
                session: self.text()?.into(),
                opening: self.number()?,
                what: match self.number()? {
                    0 => Use::Prompt,
                    1 => Use::Wait,
                    2 => Use::Directory,
                    _ => return None,
                },
            },
            5 => Pending::Shutdown { request: self.request()? },
            _ => return None,
        })
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn truth(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        std::str::from_utf8(text).ok()
    }

    fn request(&mut self) -> Option<RequestId> {
        Some(RequestId(self.text()?.into()))
    }

    fn handshake(&mut self) -> Option<Handshake> {
        Some(Handshake { cwd: self.text()?.into(), route: self.text()?.into() })
    }
}
