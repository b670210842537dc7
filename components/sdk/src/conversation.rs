//! One conversation with an SDK client: what may follow what, who waits for which answer, how it ends.
//!
//! Nothing here waits, reads a clock or holds a socket: a call turns one input into outputs and remembers where the
//! conversation stands. The texts of the wire are `translate.rs`'s, their reading `message.rs`'s.

use std::{mem, sync::Arc};

use transom_guest::{
    Ending, Farewell, Fault, FaultKind, Form, Frame, FrameKind, Input, Machine, Manifest, Millis,
    Outputs, Setup,
};

use crate::{
    json,
    message::{self, Incoming, Method, Request, RequestId, classify, string},
    options::{Options, Scope},
    state::{Life, Memory, Pending, STATE_FORMAT, Session, Stage, Subscription, Use},
    translate::{
        self, Handshake, ID_BYTES_MAX, NOT_INITIALIZED, Refusal, SERVER_INFO, SHUTTING_DOWN,
    },
};

/// Frames that await their reply. A client that has this many requests open has stopped listening; refused beyond
/// it, the memory of a connection stays below the megabytes that `ID_BYTES_MAX` times this gives.
pub(crate) const PENDING_MAX: usize = 1024;

/// Bytes of requests that wait for the first handshake, which takes the host well under a millisecond.
pub(crate) const HELD_BYTES_MAX: usize = 16 << 20;

/// Shutdowns that await their answer: beside the bound above, so that a client can always end.
pub(crate) const SHUTDOWNS_MAX: usize = 64;

/// Sessions that one connection may have opened. They live until shutdown (S-124), so this is far above what a
/// client reaches, and below what the host allows in all.
pub(crate) const SESSIONS_MAX: usize = 16_384;

/// Why the connection closes when a teardown failed: makes the host exit with status 1 (S-133).
const CLOSED_FAILED: &str = "teardown-failed";

/// The SDK door's codec: one value per connection.
#[derive(Debug)]
pub struct Conversation {
    options: Options,
    memory: Memory,
}

impl Machine for Conversation {
    fn describe() -> Manifest {
        translate::manifest()
    }

    fn open(_out: &mut Outputs, setup: Setup) -> Result<Conversation, Fault> {
        Ok(Conversation { options: Options::read(&setup)?, memory: Memory::new() })
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        match input {
            Input::Unit(unit) => match unit.form {
                Form::Text | Form::Binary => self.line(out, unit.bytes),
                // A last line without its line feed is never parsed (S-7).
                Form::Unfinished => {}
            },
            Input::Frame(frame) => self.frame(out, frame),
            Input::Skipped(skipped) => translate::note_skipped(out, skipped),
            Input::End(Ending { broken, .. }) => self.input_ended(out, broken.is_some()),
            Input::Drain(Farewell::Shutdown) => self.input_ended(out, false),
            Input::Drain(Farewell::Replaced) => {}
            // Lines have no heads, and no deadline is ever set.
            Input::Head(_) | Input::Deadline | Input::Other(..) => {}
        }
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        self.memory.pack()
    }

    fn resume(setup: Setup, format: u32, state: &[u8]) -> Result<Conversation, Fault> {
        if format != STATE_FORMAT {
            let detail = format!("state of format {format} cannot be resumed, only {STATE_FORMAT}");
            return Err(Fault::new(FaultKind::Unsupported, detail));
        }
        Ok(Conversation { options: Options::read(&setup)?, memory: Memory::unpack(state)? })
    }
}

/// Why a request is answered with an error: the message.
type Refused = String;

/// What the client says.
impl Conversation {
    fn line(&mut self, out: &mut Outputs, bytes: Vec<u8>) {
        if let Stage::Ending { .. } | Stage::Closed = self.memory.stage {
            return;
        }
        self.begin(out, message::text(bytes));
    }

    fn begin(&mut self, out: &mut Outputs, line: String) {
        match classify(&line) {
            Incoming::Request(request) if self.must_wait(&request, line.len()) => {
                self.memory.held.push(line);
            }
            Incoming::Request(request) if !request.unpaired => self.request(out, &request),
            Incoming::Request(_) => {
                // Everybody behind this door reads ordinary strings, so the text is mended before it is read (S-17).
                let mut bytes = line.into_bytes();
                json::mend_unpaired(&mut bytes);
                if let Incoming::Request(request) = classify(&message::text(bytes)) {
                    self.request(out, &request);
                }
            }
            Incoming::Response | Incoming::Notification | Incoming::Ignored => {}
        }
    }

    /// Whether a request has to wait for the handshake that was sent ahead of it (S-22, S-138). More of them
    /// than fit are refused, as they would be without any handshake.
    fn must_wait(&self, request: &Request<'_>, bytes: usize) -> bool {
        let held: usize = self.memory.held.iter().map(String::len).sum();
        self.is_shaking_hands()
            && request.method().needs_handshake()
            && self.memory.held.len() < PENDING_MAX
            && held + bytes <= HELD_BYTES_MAX
    }

    /// The first handshake is under way.
    fn is_shaking_hands(&self) -> bool {
        let checks =
            || self.memory.pending.values().any(|pending| matches!(pending, Pending::Check { .. }));
        matches!(self.memory.stage, Stage::Fresh)
            && (matches!(self.memory.subscription, Subscription::Asked(_)) || checks())
    }

    /// Serves what has waited, once the handshake has come out either way.
    fn serve_held(&mut self, out: &mut Outputs) {
        if !self.memory.held.is_empty() && !self.is_shaking_hands() {
            for line in mem::take(&mut self.memory.held) {
                self.begin(out, line);
            }
        }
    }

    fn request(&mut self, out: &mut Outputs, request: &Request<'_>) {
        let served = match request.method() {
            Method::Initialize => self.initialize(out, request),
            Method::Prompt => self.prompt(out, request),
            Method::Resume => self.resume_session(out, request),
            Method::Wait => self.wait(out, request),
            Method::DirectoryGet => self.directory(out, request, false),
            Method::DirectorySet => self.directory(out, request, true),
            Method::Shutdown => self.shutdown(out, request),
            Method::Unknown => Err(translate::unknown_method(&request.method_name())),
        };
        if let Err(message) = served {
            out.unit(translate::error(&request.id(), &message));
        }
    }

    fn initialize(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refused> {
        match self.memory.stage {
            Stage::Fresh | Stage::Ready(_) => {}
            Stage::Closing { .. } | Stage::Ending { .. } | Stage::Closed => {
                return Err(SHUTTING_DOWN.to_owned());
            }
        }
        let handshake = translate::handshake(&request.params, &self.options.directory)?;
        let id = self.admit(request, 1)?;
        let body = handshake.route.to_string();
        self.ask(out, "models/check", None, body, Pending::Check { request: id, handshake });
        Ok(())
    }

    /// The handshake is looked at first here, the members first everywhere else (S-226).
    fn prompt(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refused> {
        self.ready()?;
        let session = translate::session_id(
            &request.params,
            "session/prompt requires a non-empty sessionId string",
        )?;
        let blocks = request.params.content_blocks.filter(|blocks| blocks.well_formed).ok_or(
            "session/prompt requires contentBlocks to be an array of objects with a string type",
        )?;
        self.use_session(out, request, &session, Use::Prompt, "session/prompt", || {
            translate::prompt(blocks.raw)
        })
    }

    fn resume_session(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refused> {
        let session = translate::session_id(
            &request.params,
            "session/resume requires a non-empty sessionId string",
        )?;
        let body = translate::open_stored(self.ready()?);
        match self.memory.sessions.get(&*session).map(|session| session.life) {
            Some(Life::Opening | Life::Open) => return Err(translate::already_open(&session)),
            // What was disposed elsewhere may be opened again (S-159).
            Some(Life::Removed) | None => {}
        }
        let id = self.admit(request, 1)?;
        let session = self.remember(&session)?;
        let pending = Pending::Resume { request: id, session: session.clone() };
        self.ask(out, "session/open", Some(&session), body, pending);
        Ok(())
    }

    fn wait(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refused> {
        let session =
            string(request.params.session_id).ok_or("session/wait requires a sessionId string")?;
        self.ready()?;
        // Never creates one (S-62).
        if !self.memory.sessions.contains_key(&*session) {
            return Err(translate::unknown_session(&session));
        }
        let body = || r#"{"descendants":true}"#.to_owned();
        self.use_session(out, request, &session, Use::Wait, "session/wait", body)
    }

    fn directory(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
        set: bool,
    ) -> Result<(), Refused> {
        let session = translate::session_id(
            &request.params,
            "working-directory requests require a non-empty sessionId",
        )?;
        let path = match set {
            true => Some(
                string(request.params.path)
                    .ok_or("working-directory set requires a path string")?,
            ),
            false => None,
        };
        self.ready()?;
        let body = || translate::directory(path.as_deref());
        self.use_session(out, request, &session, Use::Directory, "session/directory", body)
    }

    /// Accepted in every stage (S-60). From here on nothing is announced and nothing else is begun (S-116, S-125).
    fn shutdown(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refused> {
        if self.shutdowns_owed() >= SHUTDOWNS_MAX {
            return Err(format!("more than {SHUTDOWNS_MAX} shutdown requests are open"));
        }
        let id = storable(request)?;
        if let Stage::Fresh | Stage::Ready(_) = self.memory.stage {
            self.memory.stage = Stage::Closing { failed: false };
        }
        self.ask(out, "host/shutdown", None, "{}".to_owned(), Pending::Shutdown { request: id });
        Ok(())
    }

    /// The handshake that counts, or why there is none.
    fn ready(&self) -> Result<&Handshake, Refused> {
        match &self.memory.stage {
            Stage::Fresh => Err(NOT_INITIALIZED.to_owned()),
            Stage::Ready(handshake) => Ok(handshake),
            Stage::Closing { .. } | Stage::Ending { .. } | Stage::Closed => {
                Err(SHUTTING_DOWN.to_owned())
            }
        }
    }

    /// Asks something of a session. The first request that names an id opens the session under exactly that id
    /// (S-120); later ones share that opening, whether it is complete or not (S-121).
    fn use_session(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
        id: &str,
        what: Use,
        name: &str,
        body: impl FnOnce() -> String,
    ) -> Result<(), Refused> {
        let request = self.admit(request, 2)?;
        let known =
            self.memory.sessions.get_key_value(id).map(|(id, session)| (id.clone(), *session));
        let (session, opening) = match known {
            Some((session, Session { opening, life: Life::Opening | Life::Open })) => {
                (session, opening)
            }
            Some((_, Session { life: Life::Removed, .. })) => {
                self.memory.sessions.remove(id);
                return Err(translate::disposed(id));
            }
            None => {
                let open = translate::open_new(self.ready()?);
                let session = self.remember(id)?;
                let pending = Pending::Open { session: session.clone() };
                self.ask(out, "session/open", Some(&session), open, pending);
                (session, self.memory.asked)
            }
        };
        let pending = Pending::Use { request, session: session.clone(), opening, what };
        self.ask(out, name, Some(&session), body(), pending);
        Ok(())
    }

    /// Enters a session whose `session/open` is the next frame.
    fn remember(&mut self, id: &str) -> Result<Arc<str>, Refused> {
        if self.memory.sessions.len() >= SESSIONS_MAX {
            return Err(format!(
                "this connection holds {SESSIONS_MAX} sessions, which is all it may"
            ));
        }
        let id: Arc<str> = id.into();
        let session = Session { opening: self.memory.asked + 1, life: Life::Opening };
        self.memory.sessions.insert(id.clone(), session);
        Ok(id)
    }

    /// The id to keep, if there is room for this many frames more.
    fn admit(&self, request: &Request<'_>, frames: usize) -> Result<RequestId, Refused> {
        let waiting = match &self.memory.subscription {
            Subscription::Asked(waiting) => waiting.len(),
            Subscription::None | Subscription::Made => 0,
        };
        if self.memory.pending.len() + waiting + frames > PENDING_MAX {
            return Err(format!("more than {PENDING_MAX} requests are open"));
        }
        storable(request)
    }

    fn ask(
        &mut self,
        out: &mut Outputs,
        name: &str,
        session: Option<&str>,
        body: String,
        pending: Pending,
    ) {
        self.memory.asked += 1;
        self.memory.pending.insert(self.memory.asked, pending);
        out.frame(Frame::request(name, session, self.memory.asked, body));
    }

    fn shutdowns_owed(&self) -> usize {
        self.memory
            .pending
            .values()
            .filter(|pending| matches!(pending, Pending::Shutdown { .. }))
            .count()
    }
}

impl Conversation {
    /// Requests that were read and have no answer yet.
    fn owed(&self) -> usize {
        let waiting = match &self.memory.subscription {
            Subscription::Asked(waiting) => waiting.len(),
            Subscription::None | Subscription::Made => 0,
        };
        self.memory.pending.len() + waiting + self.memory.held.len()
    }
}

fn storable(request: &Request<'_>) -> Result<RequestId, Refused> {
    let id = request.id();
    translate::within("the request's id", &id.0, ID_BYTES_MAX)?;
    Ok(id)
}

/// What the host says.
impl Conversation {
    fn frame(&mut self, out: &mut Outputs, frame: Frame) {
        match frame.kind {
            FrameKind::Notice => self.notice(out, &frame),
            FrameKind::Reply => self.answered(out, &frame, Ok(&frame.body)),
            FrameKind::Failure => self.answered(out, &frame, Err(Refusal::read(&frame.body))),
            FrameKind::Request => out.frame(translate::unknown_frame(frame)),
        }
    }

    fn notice(&mut self, out: &mut Outputs, frame: &Frame) {
        match self.memory.stage {
            Stage::Fresh | Stage::Ready(_) => {}
            // No notification leaves once a shutdown was accepted or input ended (S-116).
            Stage::Closing { .. } | Stage::Ending { .. } | Stage::Closed => return,
        }
        match frame.name.as_str() {
            "session/removed" => {
                let session =
                    frame.session.as_deref().and_then(|id| self.memory.sessions.get_mut(id));
                // While an id is being opened, what was removed can only be an earlier incarnation.
                if let Some(session) = session.filter(|session| session.life == Life::Open) {
                    session.life = Life::Removed;
                }
            }
            // A client that misses events cannot trust what it has: as if it had gone.
            "stream/lagged" => self.close(out, "lagged"),
            "stream/ended" => self.close(out, "stream ended"),
            _ => {
                if let Some(unit) =
                    translate::notification(frame, self.options.max_tokens_as_success)
                {
                    out.unit(unit);
                }
            }
        }
    }

    /// The one answer to a frame of this side.
    fn answered(&mut self, out: &mut Outputs, frame: &Frame, answer: Result<&str, Refusal>) {
        let number = frame.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        let Some((number, pending)) =
            number.and_then(|number| Some((number, self.memory.pending.remove(&number)?)))
        else {
            // Its requests were answered when the opening they shared failed.
            return;
        };
        if let Pending::Shutdown { request } = pending {
            return self.shut_down(out, &request, answer);
        }
        self.answer_to(out, number, pending, answer);
        self.serve_held(out);
        if let Stage::Ending { failed } = self.memory.stage
            && self.owed() == 0
        {
            self.close(out, if failed { CLOSED_FAILED } else { "end of input" });
        }
    }

    fn answer_to(
        &mut self,
        out: &mut Outputs,
        number: u64,
        pending: Pending,
        answer: Result<&str, Refusal>,
    ) {
        match pending {
            Pending::Check { request, handshake } => self.checked(out, request, handshake, answer),
            Pending::Subscribe => self.subscribed(out, answer),
            Pending::Open { session } => self.opened(out, number, &session, answer.err()),
            Pending::Resume { request, session } => {
                let unit = match &answer {
                    Ok(_) => translate::result(&request, "{}"),
                    Err(refusal) => translate::error(&request, &refusal.on_session(&session)),
                };
                out.unit(unit);
                self.opened(out, number, &session, answer.err());
            }
            Pending::Use { request, session, opening, what } => {
                let unit = match (answer, what) {
                    (Ok(body), Use::Prompt) => {
                        translate::result_member(&request, "messageId", body)
                    }
                    (Ok(body), Use::Directory) => translate::result_member(&request, "cwd", body),
                    (Ok(_), Use::Wait) => translate::result(&request, "{}"),
                    (Err(refusal), _) => {
                        if refusal.says_disposed() {
                            self.forget(&session, opening);
                        }
                        translate::error(&request, &refusal.on_session(&session))
                    }
                };
                out.unit(unit);
            }
            Pending::Shutdown { .. } => {}
        }
    }

    /// A route that the host accepts completes a handshake, but for the subscription.
    fn checked(
        &mut self,
        out: &mut Outputs,
        request: RequestId,
        handshake: Handshake,
        answer: Result<&str, Refusal>,
    ) {
        if let Stage::Closing { .. } = self.memory.stage {
            return out.unit(translate::error(&request, SHUTTING_DOWN));
        }
        if let Err(refusal) = answer {
            return out.unit(translate::error(&request, &refusal.on_handshake(&handshake)));
        }
        match &mut self.memory.subscription {
            Subscription::Made => self.complete(out, &request, handshake),
            Subscription::Asked(waiting) => waiting.push((request, handshake)),
            Subscription::None => {
                self.memory.subscription = Subscription::Asked(vec![(request, handshake)]);
                let scope = match self.options.scope {
                    Scope::All => "all",
                    Scope::Owned => "owned",
                };
                let body = format!(
                    r#"{{"scope":"{scope}","topics":["events","status","subagents","sessions"]}}"#
                );
                self.ask(out, "events/subscribe", None, body, Pending::Subscribe);
            }
        }
    }

    /// The first handshake is answered behind this reply, so no event of its sessions can be missed.
    fn subscribed(&mut self, out: &mut Outputs, answer: Result<&str, Refusal>) {
        let next = if answer.is_ok() { Subscription::Made } else { Subscription::None };
        let Subscription::Asked(waiting) = mem::replace(&mut self.memory.subscription, next) else {
            return;
        };
        for (request, handshake) in waiting {
            match (&answer, &self.memory.stage) {
                (_, Stage::Closing { .. }) => out.unit(translate::error(&request, SHUTTING_DOWN)),
                (Ok(_), _) => self.complete(out, &request, handshake),
                (Err(refusal), _) => {
                    out.unit(translate::error(&request, &refusal.on_handshake(&handshake)))
                }
            }
        }
    }

    /// Only now is anything stored (S-45); an earlier route counts no more for later sessions (S-47).
    fn complete(&mut self, out: &mut Outputs, request: &RequestId, handshake: Handshake) {
        // After the end of input there are no later sessions; the client is still told.
        if let Stage::Fresh | Stage::Ready(_) = self.memory.stage {
            self.memory.stage = Stage::Ready(handshake);
        }
        out.unit(translate::result(request, SERVER_INFO));
    }

    /// An opening that failed is forgotten, and everybody who shared it gets its error (S-122).
    fn opened(&mut self, out: &mut Outputs, opening: u64, session: &str, refusal: Option<Refusal>) {
        let Some(refusal) = refusal else {
            if let Some(known) =
                self.memory.sessions.get_mut(session).filter(|known| known.opening == opening)
            {
                known.life = Life::Open;
            }
            return;
        };
        self.forget(session, opening);
        let message = refusal.on_session(session);
        // The host fails their frames as well; by then nobody waits for them.
        let shares = |pending: &Pending| matches!(pending, Pending::Use { opening: shared, .. } if *shared == opening);
        for (_, pending) in self.memory.pending.extract_if(.., |_, pending| shares(pending)) {
            if let Pending::Use { request, .. } = pending {
                out.unit(translate::error(&request, &message));
            }
        }
    }

    /// Drops the record of a session, unless its id was opened anew meanwhile.
    fn forget(&mut self, session: &str, opening: u64) {
        if self.memory.sessions.get(session).is_some_and(|known| known.opening == opening) {
            self.memory.sessions.remove(session);
        }
    }
}

/// How it ends.
impl Conversation {
    /// The client or the host is done: what was read before is still answered, and nothing else is said.
    fn input_ended(&mut self, out: &mut Outputs, broken: bool) {
        let failed = match self.memory.stage {
            Stage::Fresh | Stage::Ready(_) => false,
            Stage::Closing { failed } | Stage::Ending { failed } => failed,
            Stage::Closed => return,
        };
        // A wait could last as long as its turn, which ends with this connection.
        self.memory.pending.retain(|_, pending| !pending.is_wait());
        if broken || self.owed() == 0 {
            return self.close(out, if failed { CLOSED_FAILED } else { "end of input" });
        }
        self.memory.stage = Stage::Ending { failed };
    }

    /// The answer to one shutdown. Behind the last one that is owed the conversation ends, if input has ended or the
    /// connection owns the process (S-131, S-132).
    fn shut_down(&mut self, out: &mut Outputs, request: &RequestId, answer: Result<&str, Refusal>) {
        match &answer {
            Ok(_) => out.unit(translate::result(request, "{}")),
            Err(refusal) => out.unit(translate::error(request, refusal.on_shutdown())),
        }
        let (Stage::Closing { failed } | Stage::Ending { failed }) = &mut self.memory.stage else {
            return;
        };
        *failed |= answer.is_err();
        let failed = *failed;
        let ends = match self.memory.stage {
            Stage::Ending { .. } => self.owed() == 0,
            _ => self.options.owns_process && self.shutdowns_owed() == 0,
        };
        if ends {
            self.close(out, if failed { CLOSED_FAILED } else { "shutdown" });
        }
    }

    fn close(&mut self, out: &mut Outputs, reason: &str) {
        self.memory.stage = Stage::Closed;
        self.memory.pending.clear();
        self.memory.sessions.clear();
        self.memory.held.clear();
        self.memory.subscription = Subscription::None;
        out.close(reason);
    }
}
