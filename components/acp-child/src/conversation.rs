//! One run of an agent, from its greeting to its last word: what may follow what, and who is owed which answer.
//!
//! Nothing here waits, reads a clock or holds a process: a call turns one input into outputs and remembers where the run
//! stands. The texts of the wire are `translate.rs`'s, their reading `message.rs`'s, what is given back `answer.rs`'s.

use std::mem;

use transom_guest::{
    Ending, Farewell, Fault, FaultKind, Frame, FrameKind, Input, Machine, Manifest, Millis,
    Outputs, Setup, Skipped,
    jsonrpc::{RequestId, string, text},
};

use crate::{
    failure::{self, Failure},
    message::{Incoming, Notification, Outcome, Request, Response, classify, members},
    options::Options,
    permission::{self, Decision, Permission},
    state::{Asked, Memory, STATE_FORMAT, Stage, Start},
    translate::{self, Ended, ID_BYTES_MAX, INITIALIZE, NEW_SESSION, PROMPT, Update},
};

const START: &str = "agent/start";
const TASK: &str = "agent/prompt";

/// Questions of one agent that are noted one by one: an agent that asks more often asks in a loop.
const QUESTIONS_NOTED_MAX: u64 = 64;

/// The codec of the ACP child backend: one value for each process.
#[derive(Debug)]
pub struct Conversation {
    options: Options,
    memory: Memory,
}

impl Machine for Conversation {
    fn describe() -> Manifest {
        translate::manifest()
    }

    /// The agent is greeted at once: it takes a while to come up.
    fn open(out: &mut Outputs, setup: Setup) -> Result<Conversation, Fault> {
        let options = Options::read(&setup)?;
        out.unit(translate::initialize());
        out.deadline(Some(options.start_ms));
        Ok(Conversation { options, memory: Memory::new() })
    }

    fn handle(&mut self, out: &mut Outputs, now: Millis, input: Input) -> Result<(), Fault> {
        if self.memory.stage == Stage::Closed {
            return Ok(());
        }
        match input {
            // A last line without its line feed counts, too.
            Input::Unit(unit) => self.line(out, unit.bytes),
            Input::Frame(frame) => self.frame(out, now, frame),
            Input::Skipped(skipped) => self.skipped(out, skipped),
            Input::End(Ending { .. }) => {
                self.fail(out, Failure::closed);
                // The host is just about to ask, and is told then.
                if !matches!(self.memory.stage, Stage::Failed(_)) {
                    self.close(out, "the agent has ended");
                }
            }
            Input::Deadline => self.late(out),
            Input::Drain(Farewell::Shutdown) => {
                self.abort(out);
                self.close(out, "over");
            }
            // The run is finished, and whoever came after the swap is served by the other version (decision 26).
            Input::Drain(Farewell::Replaced) => {}
            Input::Head(_) | Input::Other(..) => {}
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

/// What the agent says.
impl Conversation {
    fn line(&mut self, out: &mut Outputs, bytes: Vec<u8>) {
        let line = text(bytes);
        match classify(&line) {
            Incoming::Blank => {}
            Incoming::Noise => self.noise(out),
            Incoming::Request(request) if request.id.0.len() > ID_BYTES_MAX => {
                out.unit(translate::long_id());
            }
            Incoming::Request(request) => self.request(out, &request),
            Incoming::Notification(notification) => self.notification(out, &notification),
            Incoming::Response(response) => self.response(out, &response),
        }
    }

    /// Told once, however much of it there is.
    fn noise(&mut self, out: &mut Outputs) {
        self.memory.noise += 1;
        if self.memory.noise == 1 {
            out.note("line-ignored", "{}");
        }
    }

    /// Whatever it is about, nobody is asked.
    fn request(&mut self, out: &mut Outputs, request: &Request<'_>) {
        if request.method != "session/request_permission" {
            return out.unit(translate::unknown_method(&request.id, &request.method));
        }
        let ours = |session: &str| {
            let named = request.params.and_then(|params| translate::text_of(params, "sessionId"));
            named.as_deref() == Some(session)
        };
        let (decision, result) = match &self.memory.stage {
            Stage::Prompting { session, permission, .. } if ours(session) => {
                permission::decide(*permission, request.params)
            }
            // There is no prompt that it could be about.
            Stage::Prompting { .. }
            | Stage::Greeting { .. }
            | Stage::Greeted
            | Stage::Opening { .. }
            | Stage::Open { .. }
            | Stage::Over
            | Stage::Failed(_)
            | Stage::Closed => (Decision::Cancelled, permission::cancelled()),
        };
        self.memory.decision = Some(decision);
        self.memory.questions += 1;
        if self.memory.questions <= QUESTIONS_NOTED_MAX {
            translate::note_decision(out, decision);
        }
        out.unit(translate::result(&request.id, &result));
    }

    fn notification(&mut self, out: &mut Outputs, notification: &Notification<'_>) {
        if notification.method != "session/update" {
            return;
        }
        let Stage::Prompting { session, answer, .. } = &mut self.memory.stage else { return };
        let Some((of, update)) = notification.params.and_then(translate::update) else { return };
        // Another session of the same process is not this run's.
        if *of != **session {
            return;
        }
        match update {
            Update::Text(text, message) => {
                let added = answer.add(&text, message.as_deref());
                if !added.text.is_empty() {
                    let body = translate::output(added.text, added.begins);
                    out.frame(Frame::notice("agent/output", None, body));
                }
            }
            Update::Tool => answer.part(),
            Update::Other => {}
        }
    }

    fn response(&mut self, out: &mut Outputs, response: &Response<'_>) {
        match (&self.memory.stage, response.id) {
            (Stage::Greeting { .. }, Some(INITIALIZE)) => self.greeted(out, &response.outcome),
            (Stage::Opening { .. }, Some(NEW_SESSION)) => self.opened(out, &response.outcome),
            (Stage::Prompting { .. }, Some(PROMPT)) => self.answered(out, &response.outcome),
            // The host has not waited for it.
            (Stage::Over, Some(PROMPT)) => {}
            (
                Stage::Greeting { .. }
                | Stage::Greeted
                | Stage::Opening { .. }
                | Stage::Open { .. }
                | Stage::Prompting { .. }
                | Stage::Over
                | Stage::Failed(_)
                | Stage::Closed,
                _,
            ) => self.noise(out),
        }
    }

    fn greeted(&mut self, out: &mut Outputs, outcome: &Outcome<'_>) {
        let stage = failure::Stage::Initialize;
        let failure = match outcome {
            Outcome::Result(result) => match translate::member(result, "protocolVersion") {
                // As with ids, what a number says counts: there are languages that write 1 as 1.0.
                Some(version) if *RequestId::of(version).0 == *"1" => None,
                version => Some(Failure::version(version)),
            },
            Outcome::Error(refused) => {
                translate::note_refused(out, stage, refused);
                Some(Failure::refused(stage, refused.code))
            }
            Outcome::Nothing => Some(Failure::malformed(stage)),
        };
        if let Some(failure) = failure {
            return self.fail(out, |_| failure);
        }
        let Stage::Greeting { start } = &mut self.memory.stage else { return };
        self.memory.stage = match start.take() {
            Some(start) => open_session(out, start),
            None => Stage::Greeted,
        };
    }

    /// Only now does the host know of the agent.
    fn opened(&mut self, out: &mut Outputs, outcome: &Outcome<'_>) {
        let stage = failure::Stage::NewSession;
        let session = match outcome {
            Outcome::Result(result) => {
                let session = members(result, ["sessionId"]).and_then(|[id]| string(id));
                session.filter(|id| id.len() <= ID_BYTES_MAX).ok_or_else(Failure::no_session)
            }
            Outcome::Error(refused) => {
                translate::note_refused(out, stage, refused);
                Err(Failure::refused(stage, refused.code))
            }
            Outcome::Nothing => Err(Failure::no_session()),
        };
        match (session, &self.memory.stage) {
            (Ok(session), Stage::Opening { start }) => {
                out.frame(start.answered(FrameKind::Reply, START, "{}".to_owned()));
                out.deadline(None);
                self.memory.stage = Stage::Open { session: (&*session).into() };
            }
            (Ok(_), _) => {}
            (Err(failure), _) => self.fail(out, |_| failure),
        }
    }

    fn answered(&mut self, out: &mut Outputs, outcome: &Outcome<'_>) {
        let stage = failure::Stage::Prompt;
        match outcome {
            Outcome::Result(result) => match translate::ended(result) {
                Ended::Well(stop_reason) => self.settle(out, stop_reason, None),
                Ended::Badly(failure) => self.settle(out, "error", Some(&failure)),
            },
            Outcome::Error(refused) => {
                translate::note_refused(out, stage, refused);
                self.settle(out, "error", Some(&Failure::refused(stage, refused.code)));
            }
            Outcome::Nothing => self.settle(out, "error", Some(&Failure::malformed(stage))),
        }
    }

    /// What was in the line may have been the answer that everybody waits for.
    fn skipped(&mut self, out: &mut Outputs, skipped: Skipped) {
        self.fail(out, |stage| Failure::skipped(stage, skipped));
    }

    fn late(&mut self, out: &mut Outputs) {
        let limit = self.options.start_ms;
        match self.memory.stage {
            Stage::Greeting { .. } | Stage::Opening { .. } => {
                self.fail(out, |stage| Failure::late(stage, limit));
            }
            // It waits for the host, or is past its start.
            Stage::Greeted
            | Stage::Open { .. }
            | Stage::Prompting { .. }
            | Stage::Over
            | Stage::Failed(_)
            | Stage::Closed => {}
        }
    }
}

/// What the host says.
impl Conversation {
    fn frame(&mut self, out: &mut Outputs, now: Millis, frame: Frame) {
        match (frame.kind, frame.name.as_str()) {
            (FrameKind::Request, START) => self.start(out, now, &frame),
            (FrameKind::Request, TASK) => self.prompt(out, &frame),
            (FrameKind::Request, _) => out.frame(translate::unknown_frame(frame)),
            (FrameKind::Notice, "agent/cancel") => {
                let id = translate::text_of(&frame.body, "id");
                let is_meant = |asked: &Asked| id.as_deref().is_some_and(|id| asked.is(id));
                let meant = match &self.memory.stage {
                    Stage::Greeting { start: Some(start) } => is_meant(&start.asked),
                    Stage::Opening { start } => is_meant(start),
                    Stage::Prompting { prompt, .. } => is_meant(prompt),
                    Stage::Greeting { start: None }
                    | Stage::Greeted
                    | Stage::Open { .. }
                    | Stage::Over
                    | Stage::Failed(_)
                    | Stage::Closed => false,
                };
                if meant {
                    self.abort(out);
                }
            }
            // This side asks the host nothing.
            (FrameKind::Notice | FrameKind::Reply | FrameKind::Failure, _) => {}
        }
    }

    fn start(&mut self, out: &mut Outputs, now: Millis, frame: &Frame) {
        let Some(cwd) = translate::text_of(&frame.body, "cwd") else {
            return out.frame(translate::invalid(frame, "cwd must be a text"));
        };
        let start = Start { asked: Asked::of(frame), cwd: (&*cwd).into() };
        match mem::replace(&mut self.memory.stage, Stage::Over) {
            Stage::Greeting { start: None } => {
                self.memory.stage = Stage::Greeting { start: Some(start) };
            }
            Stage::Greeted => {
                out.deadline(Some(now + self.options.start_ms));
                self.memory.stage = open_session(out, start);
            }
            Stage::Failed(failure) => {
                out.frame(start.asked.answered(FrameKind::Failure, START, failure.body()));
                self.close(out, "the agent could not be started");
            }
            stage @ (Stage::Greeting { start: Some(_) }
            | Stage::Opening { .. }
            | Stage::Open { .. }
            | Stage::Prompting { .. }
            | Stage::Over
            | Stage::Closed) => {
                self.memory.stage = stage;
                out.frame(translate::invalid(frame, "an agent is started once"));
            }
        }
    }

    /// Never a failure: whatever comes of it is an outcome.
    fn prompt(&mut self, out: &mut Outputs, frame: &Frame) {
        let prompt = Asked::of(frame);
        let refuse = |out: &mut Outputs, why: &str| {
            let body = translate::outcome("[]", "error", Some(&Failure::unprompted(why)), None);
            out.frame(prompt.answered(FrameKind::Reply, TASK, body));
        };
        if let Stage::Failed(failure) = &self.memory.stage {
            let body = translate::outcome("[]", "error", Some(failure), None);
            out.frame(prompt.answered(FrameKind::Reply, TASK, body));
            return self.close(out, "the agent has ended");
        }
        let Stage::Open { session } = &self.memory.stage else {
            return refuse(out, "this ACP child takes one task, once it has been started");
        };
        let content = translate::member(&frame.body, "content");
        let Some(blocks) = content.and_then(translate::text_blocks) else {
            return refuse(out, "the task holds no text");
        };
        let permission =
            Permission::parse(translate::text_of(&frame.body, "permission").as_deref());
        out.unit(translate::prompt(session, &blocks));
        let (session, answer) = (session.clone(), Default::default());
        self.memory.stage = Stage::Prompting { session, prompt, permission, answer };
    }
}

/// How things end.
impl Conversation {
    /// The answer to the prompt, with everything that was said until then.
    fn settle(&mut self, out: &mut Outputs, stop_reason: &str, failure: Option<&Failure>) {
        let stage = mem::replace(&mut self.memory.stage, Stage::Over);
        let Stage::Prompting { prompt, answer, .. } = stage else { return };
        let decision = self.memory.decision;
        let body = translate::outcome(&answer.blocks(), stop_reason, failure, decision);
        out.frame(prompt.answered(FrameKind::Reply, TASK, body));
    }

    /// Tells whoever waits that nothing will come of it.
    fn fail(&mut self, out: &mut Outputs, failure: impl FnOnce(failure::Stage) -> Failure) {
        match mem::replace(&mut self.memory.stage, Stage::Over) {
            Stage::Greeting { start: None } => {
                self.memory.stage = Stage::Failed(failure(failure::Stage::Initialize));
            }
            Stage::Greeted => {
                self.memory.stage = Stage::Failed(failure(failure::Stage::NewSession));
            }
            Stage::Greeting { start: Some(start) } => {
                let failure = failure(failure::Stage::Initialize);
                out.frame(start.asked.answered(FrameKind::Failure, START, failure.body()));
                self.close(out, "the agent could not be started");
            }
            Stage::Opening { start } => {
                let failure = failure(failure::Stage::NewSession);
                out.frame(start.answered(FrameKind::Failure, START, failure.body()));
                self.close(out, "the agent could not be started");
            }
            stage @ Stage::Prompting { .. } => {
                self.memory.stage = stage;
                self.settle(out, "error", Some(&failure(failure::Stage::Prompt)));
            }
            Stage::Open { .. } => {
                self.memory.stage = Stage::Failed(failure(failure::Stage::Prompt));
            }
            stage @ (Stage::Over | Stage::Failed(_) | Stage::Closed) => self.memory.stage = stage,
        }
    }

    /// Nobody waits any more: the caller has its answer at once, and the agent is told.
    fn abort(&mut self, out: &mut Outputs) {
        match &self.memory.stage {
            Stage::Prompting { session, .. } => {
                let cancel = translate::cancel(session);
                self.settle(out, "aborted", None);
                out.unit(cancel);
            }
            Stage::Greeting { start: Some(_) } | Stage::Opening { .. } => {
                self.fail(out, Failure::aborted);
            }
            Stage::Greeting { start: None }
            | Stage::Greeted
            | Stage::Open { .. }
            | Stage::Over
            | Stage::Failed(_)
            | Stage::Closed => {}
        }
    }

    fn close(&mut self, out: &mut Outputs, reason: &str) {
        if mem::replace(&mut self.memory.stage, Stage::Closed) == Stage::Closed {
            return;
        }
        if self.memory.noise > 1 {
            out.note("lines-ignored", format!("{{\"lines\":{}}}", self.memory.noise));
        }
        out.close(reason);
    }
}

fn open_session(out: &mut Outputs, start: Start) -> Stage {
    out.unit(translate::new_session(&start.cwd));
    Stage::Opening { start: start.asked }
}
