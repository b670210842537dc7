//! One conversation with an ACP client: what it and the host say, and who of the rest of the codec hears it.
//!
//! Nothing here waits, reads a clock or holds a socket: a call turns one input into outputs and remembers where the
//! conversation stands. How sessions begin is left to `openings.rs`, the way of prompts to `prompts.rs`, what only the
//! standard surface does to `standard.rs`, the end to `ending.rs`; texts of the wire are `translate.rs`'s.

use transom_guest::{
    Ending, Farewell, Fault, FaultKind, Frame, FrameKind, Input, Machine, Manifest, Millis,
    Outputs, Setup,
};

use crate::{
    message::{self, Incoming, Notification, Request, Response, classify},
    openings::refuse_opening,
    options::{Options, Surface},
    params, permission,
    state::{Memory, Pending, STATE_FORMATS, Subscription},
    translate::{self, Event, ID_BYTES_MAX, Refusal},
};

/// Sessions that one connection may have. They live until it ends, so this is far above what a client reaches,
/// and below what the host allows in all.
pub(crate) const SESSIONS_MAX: usize = 16_384;

/// Requests that are owed an answer and belong to no session yet. A client that has this many open has stopped
/// listening.
pub(crate) const OPENING_MAX: usize = 1024;

/// The ACP door's codec: one value per connection.
#[derive(Debug)]
pub struct Conversation {
    pub(crate) options: Options,
    pub(crate) memory: Memory,
}

impl Machine for Conversation {
    fn describe() -> Manifest {
        translate::manifest()
    }

    fn open(_out: &mut Outputs, setup: Setup) -> Result<Conversation, Fault> {
        let options = Options::read(&setup)?;
        let memory = Memory::new(options.surface);
        Ok(Conversation { options, memory })
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        if self.memory.closed {
            return Ok(());
        }
        match input {
            // A last line without its line feed counts.
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
        if !STATE_FORMATS.contains(&format) {
            let detail =
                format!("state of format {format} cannot be resumed, only {STATE_FORMATS:?}");
            return Err(Fault::new(FaultKind::Unsupported, detail));
        }
        let memory = Memory::unpack(format, state)?;
        // Whoever is connected keeps the surface that `initialize` has told of.
        let options = Options::read(&setup)?.on(memory.surface);
        Ok(Conversation { options, memory })
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
            method if self.memory.surface == Surface::Standard => {
                self.standard_request(out, method, request)
            }
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

    /// A constant, but for images, which are the model's to take.
    fn initialize(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
    ) -> Result<Option<String>, Refusal> {
        params::initialize(request.params, self.memory.surface)
            .map_err(|issues| Refusal::schema(&issues))?;
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
    pub(crate) fn unsettled(&self) -> usize {
        let of_none = |pending: &&Pending| {
            matches!(pending, Pending::Open { .. } | Pending::Check { .. } | Pending::List { .. })
        };
        let waiting = match &self.memory.subscription {
            Subscription::Asked(waiting) => waiting.len(),
            Subscription::None | Subscription::Made => 0,
        };
        self.memory.pending.values().filter(of_none).count() + waiting
    }

    /// A method that is a request's is neither run nor answered, and unknown ones are ignored.
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
    ///
    fn response(&mut self, out: &mut Outputs, response: &Response<'_>) {
        let id = response.id.0.parse::<u64>().ok();
        match id.and_then(|id| self.memory.permissions.remove(&id)) {
            Some(permission) => {
                self.answer(out, &permission, permission::decision(response.result))
            }
            None => out.note("response-unasked", "{}"),
        }
    }

    pub(crate) fn ask(
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
        if !self.holds_back(out, id, &frame.name, &frame.body) {
            self.told(out, id, &frame.name, &frame.body);
        }
    }

    /// What is told of a session, in its order.
    pub(crate) fn told(&mut self, out: &mut Outputs, id: &str, name: &str, body: &str) {
        match name {
            "session/event" => self.event(out, id, body),
            "inbox/claimed" | "agent/error" | "session/status" => {
                self.runs(id, name, body);
                if let Some(fact) = translate::fact(name, body) {
                    self.hear(out, id, fact);
                }
            }
            "ask/opened" => self.ask_opened(out, id, body),
            // Decided elsewhere, or by the cancel that was sent: an answer would come too late.
            "ask/closed" => {
                if let Some(ask) = translate::text_of(body, "askId") {
                    self.memory.permissions.retain(|_, permission| *permission.ask != *ask);
                }
            }
            "session/removed" => self.removed(out, id),
            "models/changed" => self.models_changed(out),
            // A client that misses updates cannot trust what it has: as if it had gone.
            "stream/lagged" => self.end(out, true, "lagged"),
            "stream/ended" => self.end(out, true, "stream ended"),
            _ => {}
        }
    }

    /// Only what is committed is shown, and only of sessions of this connection, with and without a
    /// prompt in flight.
    fn event(&mut self, out: &mut Outputs, id: &str, body: &str) {
        let Some(session) = self.memory.sessions.get(id) else { return };
        if session.desk.is_some() {
            return self.standard_event(out, id, body);
        }
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

    /// The one answer to a frame of this side.
    fn answered(&mut self, out: &mut Outputs, frame: &Frame) {
        let answer = match frame.kind {
            FrameKind::Failure => Err(frame.body.as_str()),
            FrameKind::Reply | FrameKind::Request | FrameKind::Notice => Ok(frame.body.as_str()),
        };
        let number = frame.id.as_deref().and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
        match (self.memory.pending.remove(&number), answer) {
            (Some(Pending::Subscribe), answer) => self.subscribed(out, answer),
            (Some(Pending::Open { request, resumes }), Ok(body)) => {
                self.opened(out, request, resumes, frame.session.as_deref(), body);
            }
            (Some(Pending::Open { request: Some(request), resumes }), Err(failure)) => {
                refuse_opening(out, &request, resumes.as_deref(), failure);
            }
            (Some(Pending::Open { request: None, .. }), Err(_)) => {}
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
            (Some(pending), answer) => self.standard_answered(out, pending, answer),
            (None, Ok(_)) => {}
            // What was over before it could be stopped is no failure of anybody.
            (None, Err(failure)) => out.note("frame-refused", failure),
        }
    }
}
