//! One conversation with an ACP client: what may follow what, who waits for which answer, how it ends.
//!
//! Nothing here waits, reads a clock or holds a socket: a call turns one input into outputs and remembers where the
//! conversation stands. The texts of the wire are `translate.rs`'s, their reading `message.rs`'s and `params.rs`'s, the
//! way of one prompt `slot.rs`'s.

use std::mem;

use transom_guest::{
    Ending, Farewell, Fault, FaultKind, Frame, FrameKind, Input, Machine, Manifest, Millis,
    Outputs, Setup, jsonrpc::RequestId,
};

use crate::{
    content::{self, Images},
    message::{self, Incoming, Notification, Request, Response, classify},
    options::Options,
    params,
    permission::{self, Decision},
    slot::{Fact, Heard, Outcome, Slot, Stop},
    state::{Memory, Pending, Permission, STATE_FORMAT, Session, Subscription, Wanted},
    translate::{self, CANCELLED, Event, ID_BYTES_MAX, INTERNAL_ERROR, PATH_BYTES_MAX, Refusal},
};

/// Sessions that one connection may have. They live until it ends (A-86), so this is far above what a client reaches,
/// and below what the host allows in all.
pub(crate) const SESSIONS_MAX: usize = 16_384;

/// Requests that are owed an answer and belong to no session yet. A client that has this many open has stopped
/// listening.
pub(crate) const OPENING_MAX: usize = 1024;

/// Permission requests that a client may leave open: one for each session that it could be looking at.
pub(crate) const PERMISSIONS_MAX: usize = 1024;

/// The ACP door's codec: one value per connection.
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
        if self.memory.closed {
            return Ok(());
        }
        match input {
            // A last line without its line feed counts (A-9).
            Input::Unit(unit) => self.line(out, unit.bytes),
            Input::Frame(frame) => self.frame(out, frame),
            Input::Skipped(skipped) => out.unit(translate::skipped(skipped)),
            Input::End(Ending { broken, .. }) => self.end(out, broken.is_none(), "end of input"),
            Input::Drain(Farewell::Shutdown) => self.end(out, true, "shutdown"),
            // Prompts are finished, and whoever is connected may go on (decision 26).
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

/// What the client says.
impl Conversation {
    fn line(&mut self, out: &mut Outputs, bytes: Vec<u8>) {
        let line = match message::line(bytes) {
            Ok(line) => line,
            Err(skipped) => return out.unit(translate::skipped(skipped)),
        };
        match classify(&line) {
            Incoming::Blank => {}
            Incoming::Bad(bad) => out.unit(translate::bad(bad)),
            Incoming::Request(request) if request.id.0.len() > ID_BYTES_MAX => {
                out.unit(translate::long_id());
            }
            Incoming::Request(request) => self.request(out, &request),
            Incoming::Notification(notification) => self.notification(out, &notification),
            Incoming::Response(response) => self.response(out, &response),
        }
    }

    fn request(&mut self, out: &mut Outputs, request: &Request<'_>) {
        let served = match &*request.method {
            "initialize" => self.initialize(out, request),
            "authenticate" => params::authenticate(request.params)
                .map(|()| Some("{}".to_owned()))
                .map_err(|issues| Refusal::schema(&issues)),
            "session/new" => self.new_session(out, request).map(|()| None),
            "session/prompt" => self.prompt(out, request).map(|()| None),
            unknown => Err(Refusal::unknown_method(unknown)),
        };
        match served {
            Ok(Some(result)) => out.unit(translate::result(&request.id, &result)),
            Ok(None) => {}
            Err(refusal) => {
                translate::note_refused(out, &request.method, &request.id, refusal.code);
                out.unit(translate::error(&request.id, &refusal));
            }
        }
    }

    /// A constant, but for images, which are the model's to take (A-28, A-110).
    fn initialize(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
    ) -> Result<Option<String>, Refusal> {
        params::initialize(request.params).map_err(|issues| Refusal::schema(&issues))?;
        if !self.options.images {
            return Ok(Some(translate::agent(&self.options, false)));
        }
        if self.unsettled() >= OPENING_MAX {
            return Err(Refusal::unexpected("this connection has all the requests that it may"));
        }
        let pending = Pending::Check { request: request.id.clone() };
        self.ask(out, "models/check", None, translate::route(&self.options), Some(pending));
        Ok(None)
    }

    /// Requests that are owed an answer and belong to no session yet.
    fn unsettled(&self) -> usize {
        let of_none =
            |pending: &&Pending| matches!(pending, Pending::Open { .. } | Pending::Check { .. });
        let waiting = match &self.memory.subscription {
            Subscription::Asked(waiting) => waiting.len(),
            Subscription::None | Subscription::Made => 0,
        };
        self.memory.pending.values().filter(of_none).count() + waiting
    }

    /// A method that is a request's is neither run nor answered (A-15), and unknown ones are ignored (A-23).
    fn notification(&mut self, out: &mut Outputs, notification: &Notification<'_>) {
        match &*notification.method {
            "session/cancel" => match params::cancel(notification.params) {
                Some(session) => self.cancel(out, &session),
                None => out.note("cancel-malformed", "{}"),
            },
            "$/cancel_request" => {
                if let Some(request) = params::cancel_request(notification.params) {
                    self.cancel_request(out, &request);
                }
            }
            _ => {}
        }
    }

    /// The answer to a permission request. One that came too late, or was never asked for, changes nothing (A-14,
    /// A-64).
    fn response(&mut self, out: &mut Outputs, response: &Response<'_>) {
        let id = response.id.0.parse::<u64>().ok();
        match id.and_then(|id| self.memory.permissions.remove(&id)) {
            Some(permission) => {
                self.answer(out, &permission, permission::decision(response.result))
            }
            None => out.note("response-unasked", "{}"),
        }
    }

    /// The checks of A-33, in their order.
    fn new_session(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted =
            params::new_session(request.params).map_err(|issues| Refusal::schema(&issues))?;
        if !wanted.cwd.starts_with('/') {
            let cwd = translate::shown(&wanted.cwd);
            return Err(Refusal::params(format!("cwd must be an absolute path: {cwd}")));
        }
        if wanted.cwd.len() > PATH_BYTES_MAX {
            return Err(Refusal::params(format!("cwd is longer than {PATH_BYTES_MAX} bytes")));
        }
        if wanted.directories {
            return Err(Refusal::params("additionalDirectories is not supported"));
        }
        if wanted.servers {
            return Err(Refusal::params("mcpServers is not supported"));
        }
        let opening = self.unsettled();
        if opening >= OPENING_MAX || self.memory.sessions.len() + opening >= SESSIONS_MAX {
            return Err(Refusal::unexpected("this connection has all the sessions that it may"));
        }

        let wanted = Wanted { request: request.id.clone(), cwd: wanted.cwd.into() };
        match &mut self.memory.subscription {
            Subscription::Made => self.open_session(out, wanted),
            Subscription::Asked(waiting) => waiting.push(wanted),
            // Made first, so that nothing of a session is missed.
            Subscription::None => {
                self.memory.subscription = Subscription::Asked(vec![wanted]);
                let body = r#"{"scope":"owned","topics":["events","status","inbox","asks","errors","sessions"]}"#;
                self.ask(out, "events/subscribe", None, body.to_owned(), Some(Pending::Subscribe));
            }
        }
        Ok(())
    }

    fn open_session(&mut self, out: &mut Outputs, wanted: Wanted) {
        let body = translate::open(&wanted.cwd, &self.options);
        let pending = Pending::Open { request: Some(wanted.request) };
        self.ask(out, "session/open", None, body, Some(pending));
    }

    /// The checks of A-41, in their order.
    fn prompt(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refusal> {
        let prompt = params::prompt(request.params).map_err(|issues| Refusal::schema(&issues))?;
        let number = self.memory.asked + 1;
        let Some(session) = self.memory.sessions.get_mut(&*prompt.session) else {
            let id = translate::shown(&prompt.session);
            return Err(Refusal::params(format!("unknown session: {id}")));
        };
        if session.slot.is_some() {
            return Err(Refusal::new(translate::INVALID_PARAMS, translate::IN_FLIGHT));
        }
        let images = match (self.options.images, self.memory.images) {
            (false, _) => Images::Refused,
            (true, false) => Images::Unsaid,
            (true, true) => Images::Advertised,
        };
        let content = content::content(&prompt.blocks, images).map_err(Refusal::params)?;
        if session.removed {
            return Err(Refusal::new(INTERNAL_ERROR, translate::NOT_QUEUED_DISPOSED));
        }
        session.slot = Some(Slot::new(request.id.clone(), number));
        let pending = Pending::Prompt { session: (&*prompt.session).into() };
        let body = translate::prompt(&content);
        self.ask(out, "session/prompt", Some(&prompt.session), body, Some(pending));
        Ok(())
    }

    /// Stops whatever the session does, and settles its prompt at once (A-78 to A-83). What waits in its inbox goes
    /// as well, whoever put it there (decisions 5 and 82).
    fn cancel(&mut self, out: &mut Outputs, id: &str) {
        let Some(session) = self.memory.sessions.get_mut(id).filter(|session| !session.removed)
        else {
            return;
        };
        let slot = session.slot.take();
        self.ask(out, "session/cancel", Some(id), r#"{"inbox":"clear"}"#.to_owned(), None);
        // Without waiting for the client (A-64).
        let open = |permission: &Permission| &*permission.session == id;
        let withdrawn: Vec<_> = self
            .memory
            .permissions
            .extract_if(.., |_, permission| open(permission))
            .map(|(_, permission)| permission)
            .collect();
        for permission in withdrawn {
            self.answer(out, &permission, Decision::Cancelled);
        }
        if let Some(slot) = slot {
            out.unit(translate::outcome(&slot.request, &Outcome::Stopped(Stop::Cancelled)));
        }
    }

    /// A client that takes one request back (A-85).
    fn cancel_request(&mut self, out: &mut Outputs, wanted: &RequestId) {
        let in_flight =
            self.memory.sessions.iter().find(|(_, session)| {
                session.slot.as_ref().is_some_and(|slot| slot.request == *wanted)
            });
        if let Some(id) = in_flight.map(|(id, _)| id.clone()) {
            return self.cancel(out, &id);
        }
        let opening = self.memory.pending.values_mut().find_map(|pending| match pending {
            Pending::Open { request } if request.as_ref() == Some(wanted) => Some(request),
            _ => None,
        });
        // What is being opened for it is closed again when it is there.
        let taken = match (opening, &mut self.memory.subscription) {
            (Some(request), _) => request.take().is_some(),
            (None, Subscription::Asked(waiting)) => {
                let before = waiting.len();
                waiting.retain(|waiting| waiting.request != *wanted);
                waiting.len() < before
            }
            (None, Subscription::None | Subscription::Made) => false,
        };
        if taken {
            let refusal = Refusal::new(CANCELLED, "Request cancelled");
            out.unit(translate::error(wanted, &refusal));
        }
    }

    fn answer(&mut self, out: &mut Outputs, permission: &Permission, decision: Decision) {
        let (name, body) = permission::answer(decision, permission);
        self.ask(out, name, None, body, None);
    }

    fn ask(
        &mut self,
        out: &mut Outputs,
        name: &str,
        session: Option<&str>,
        body: String,
        pending: Option<Pending>,
    ) {
        self.memory.asked += 1;
        if let Some(pending) = pending {
            self.memory.pending.insert(self.memory.asked, pending);
        }
        out.frame(Frame::request(name, session, self.memory.asked, body));
    }
}

/// What the host says.
impl Conversation {
    fn frame(&mut self, out: &mut Outputs, frame: Frame) {
        match frame.kind {
            FrameKind::Notice => self.notice(out, &frame),
            FrameKind::Reply | FrameKind::Failure => self.answered(out, &frame),
            FrameKind::Request => out.frame(translate::unknown_frame(frame)),
        }
    }

    fn notice(&mut self, out: &mut Outputs, frame: &Frame) {
        let id = frame.session.as_deref().unwrap_or_default();
        match frame.name.as_str() {
            "session/event" => self.event(out, id, &frame.body),
            "inbox/claimed" | "agent/error" | "session/status" => {
                if let Some(fact) = translate::fact(&frame.name, &frame.body) {
                    self.hear(out, id, fact);
                }
            }
            "ask/opened" => self.ask_opened(out, id, &frame.body),
            // Decided elsewhere, or by the cancel that was sent: an answer would come too late.
            "ask/closed" => {
                if let Some(ask) = translate::text_of(&frame.body, "askId") {
                    self.memory.permissions.retain(|_, permission| *permission.ask != *ask);
                }
            }
            "session/removed" => self.removed(out, id),
            // A client that misses updates cannot trust what it has: as if it had gone.
            "stream/lagged" => self.end(out, true, "lagged"),
            "stream/ended" => self.end(out, true, "stream ended"),
            _ => {}
        }
    }

    /// Only what is committed is shown, and only of sessions of this connection (A-53, A-56), with and without a
    /// prompt in flight (A-57).
    fn event(&mut self, out: &mut Outputs, id: &str, body: &str) {
        let Some(session) = self.memory.sessions.get(id) else { return };
        match translate::event(body) {
            Some(Event::Message(data)) => {
                for update in translate::updates(id, data, session.prompt_turn) {
                    out.unit(update);
                }
            }
            Some(Event::Fact(fact)) => self.hear(out, id, fact),
            None => {}
        }
    }

    fn hear(&mut self, out: &mut Outputs, id: &str, fact: Fact) {
        let slot = self.memory.sessions.get_mut(id).and_then(|session| session.slot.as_mut());
        if let Some(slot) = slot {
            let heard = slot.hear(fact);
            self.heard(out, id, heard);
        }
    }

    fn heard(&mut self, out: &mut Outputs, id: &str, heard: Heard) {
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        let Some(slot) = &session.slot else { return };
        session.prompt_turn = slot.turn().or(session.prompt_turn);
        match heard {
            Heard::Nothing => {}
            Heard::Settled(outcome) => self.settle(out, id, &outcome),
            Heard::Waits => {
                let pending = Pending::Rest { session: id.into(), prompt: slot.number };
                self.ask(out, "session/describe", Some(id), "{}".to_owned(), Some(pending));
            }
        }
    }

    /// Answers the prompt in flight and frees its place, exactly once.
    fn settle(&mut self, out: &mut Outputs, id: &str, outcome: &Outcome) {
        let slot = self.memory.sessions.get_mut(id).and_then(|session| session.slot.take());
        let Some(slot) = slot else { return };
        // A prompt that has its answer never runs later (A-83).
        if let Some(message) = slot.waiting_message() {
            self.ask(out, "session/queue", Some(id), translate::remove(message), None);
        }
        out.unit(translate::outcome(&slot.request, outcome));
    }

    /// Asks that are not about one call of a tool, or neither of a session of this connection nor of one that works for
    /// it, have nobody here to answer them (A-61, A-96).
    fn ask_opened(&mut self, out: &mut Outputs, id: &str, body: &str) {
        let approval = permission::approval(body);
        let root = approval.as_ref().and_then(|approval| approval.root.as_deref());
        let (session, child) = root.map_or((id, None), |root| (root, Some(id)));
        let known = self.memory.sessions.contains_key(session)
            && (child.is_none() || self.options.child_permissions)
            && self.memory.permissions.len() < PERMISSIONS_MAX;
        match approval.as_ref().filter(|_| known) {
            Some(approval) => {
                let number = self.memory.requested;
                self.memory.requested += 1;
                out.unit(permission::request_permission(number, session, child, approval));
                let permission = Permission {
                    session: session.into(),
                    child: child.map(Into::into),
                    ask: approval.ask.as_ref().into(),
                    approval: approval.approval.as_ref().into(),
                };
                self.memory.permissions.insert(number, permission);
            }
            None => {
                if let Some(ask) = translate::text_of(body, "askId") {
                    let body = permission::settle(&ask, "unavailable");
                    self.ask(out, "ask/settle", None, body, None);
                }
            }
        }
    }

    /// The session was disposed behind the connection's back: its prompt is over, later ones are refused (A-41.7).
    fn removed(&mut self, out: &mut Outputs, id: &str) {
        self.memory.permissions.retain(|_, permission| &*permission.session != id);
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        session.removed = true;
        if let Some(slot) = session.slot.take() {
            out.unit(translate::outcome(&slot.request, &Outcome::Stopped(Stop::Cancelled)));
        }
    }

    /// The one answer to a frame of this side.
    fn answered(&mut self, out: &mut Outputs, frame: &Frame) {
        let answer = match frame.kind {
            FrameKind::Failure => Err(frame.body.as_str()),
            FrameKind::Reply | FrameKind::Request | FrameKind::Notice => Ok(frame.body.as_str()),
        };
        let number = frame.id.as_deref().and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
        match (self.memory.pending.remove(&number), answer) {
            (Some(Pending::Subscribe), answer) => self.subscribed(out, answer),
            (Some(Pending::Open { request }), Ok(_)) => {
                self.opened(out, request, frame.session.as_deref());
            }
            (Some(Pending::Open { request: Some(request) }), Err(failure)) => {
                refuse_opening(out, &request, failure);
            }
            (Some(Pending::Open { request: None }), Err(_)) => {}
            (Some(Pending::Prompt { session }), answer) => {
                self.queued(out, &session, number, answer);
            }
            (Some(Pending::Rest { session, prompt }), answer) => {
                self.rests(out, &session, prompt, answer);
            }
            (Some(Pending::Check { request }), answer) => {
                self.memory.images = answer.is_ok_and(translate::takes_images);
                let agent = translate::agent(&self.options, self.memory.images);
                out.unit(translate::result(&request, &agent));
            }
            (None, Ok(_)) => {}
            // What was over before it could be stopped is no failure of anybody.
            (None, Err(failure)) => out.note("frame-refused", failure),
        }
    }

    fn subscribed(&mut self, out: &mut Outputs, answer: Result<&str, &str>) {
        let next = if answer.is_ok() { Subscription::Made } else { Subscription::None };
        let Subscription::Asked(waiting) = mem::replace(&mut self.memory.subscription, next) else {
            return;
        };
        for wanted in waiting {
            match answer {
                Ok(_) => self.open_session(out, wanted),
                Err(failure) => refuse_opening(out, &wanted.request, failure),
            }
        }
    }

    fn opened(&mut self, out: &mut Outputs, request: Option<RequestId>, session: Option<&str>) {
        match (request, session) {
            (Some(request), Some(id)) => {
                self.memory.sessions.insert(id.into(), Session::default());
                out.unit(translate::result(&request, &translate::session(id)));
            }
            // Nobody wants it any more.
            (None, Some(id)) => self.ask(out, "session/close", Some(id), "{}".to_owned(), None),
            (Some(request), None) => {
                let refusal = Refusal::unexpected("the host's reply names no session");
                out.unit(translate::error(&request, &refusal));
            }
            (None, None) => {}
        }
    }

    /// The host has taken a prompt, or refused it. A refused one leaves its place free (A-43).
    fn queued(&mut self, out: &mut Outputs, id: &str, number: u64, answer: Result<&str, &str>) {
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        // It may have been settled meanwhile, and another may be in its place (A-76).
        let Some(slot) = session.slot.as_mut().filter(|slot| slot.number == number) else { return };
        let (code, message) = match answer {
            Ok(body) => match translate::text_of(body, "messageId") {
                Some(message) => {
                    let heard = slot.queued(message.into());
                    return self.heard(out, id, heard);
                }
                None => ("".into(), "the host's reply names no message".into()),
            },
            Err(failure) => translate::failure(failure),
        };
        let refusal = match &*code {
            "attachment-error" => {
                translate::image_refusal(answer.err().unwrap_or_default(), &message)
            }
            "session-disposed" => Refusal::new(INTERNAL_ERROR, translate::NOT_QUEUED_DISPOSED),
            _ => {
                let message = format!("Internal error: prompt was not queued: {message}");
                Refusal::new(INTERNAL_ERROR, message)
            }
        };
        if let Some(slot) = session.slot.take() {
            out.unit(translate::error(&slot.request, &refusal));
        }
    }

    /// Whether the agent stays at rest over a message that waits. If it does, no turn will ever claim it (decision 7).
    fn rests(&mut self, out: &mut Outputs, id: &str, prompt: u64, answer: Result<&str, &str>) {
        let slot = self.memory.sessions.get(id).and_then(|session| session.slot.as_ref());
        let Some(slot) = slot.filter(|slot| slot.number == prompt) else { return };
        let running = answer.is_ok_and(translate::is_running);
        if slot.waiting_message().is_some() && !running {
            let outcome = slot.unclaimed();
            self.settle(out, id, &outcome);
        }
    }
}

fn refuse_opening(out: &mut Outputs, request: &RequestId, failure: &str) {
    let (_, message) = translate::failure(failure);
    let refusal = Refusal::unexpected(&message);
    translate::note_refused(out, "session/new", request, refusal.code);
    out.unit(translate::error(request, &refusal));
}

/// How it ends.
impl Conversation {
    /// Everybody who waits is answered, and nothing is read any more (A-88). What the connection owns is cancelled and
    /// disposed by the host, whatever this side does (decision 15).
    fn end(&mut self, out: &mut Outputs, heard: bool, reason: &str) {
        let memory = mem::replace(&mut self.memory, Memory::new());
        self.memory.closed = true;
        if heard {
            let waiting = match memory.subscription {
                Subscription::Asked(waiting) => waiting,
                Subscription::None | Subscription::Made => Vec::new(),
            };
            let refusal = Refusal::new(INTERNAL_ERROR, translate::CLOSED_DURING_NEW);
            let refused = |request: &RequestId| translate::error(request, &refusal);
            for pending in memory.pending.into_values() {
                match pending {
                    Pending::Open { request: Some(request) } => out.unit(refused(&request)),
                    Pending::Check { request } => {
                        let agent = translate::agent(&self.options, false);
                        out.unit(translate::result(&request, &agent));
                    }
                    Pending::Open { request: None }
                    | Pending::Subscribe
                    | Pending::Prompt { .. }
                    | Pending::Rest { .. } => {}
                }
            }
            for wanted in waiting {
                out.unit(refused(&wanted.request));
            }
            // In the order in which they were prompted.
            let slots = memory.sessions.into_values().filter_map(|session| session.slot);
            let mut slots: Vec<_> = slots.collect();
            slots.sort_by_key(|slot| slot.number);
            for slot in slots {
                out.unit(translate::outcome(&slot.request, &Outcome::Stopped(Stop::Cancelled)));
            }
        }
        out.close(reason);
    }
}
