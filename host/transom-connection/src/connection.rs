//! A connection from its opening to its close: which events reach the codec, and what becomes of its outputs.
//! Nothing here waits or reads a clock; the driver brings time as a number.

mod outputs;
mod renewal;

use std::{collections::VecDeque, mem, sync::Arc};

use serde_json::json;
use transom_frame::{Code, Failure, Frame, FrameKind};
use transom_framing::Excess;
use transom_policy::FrameRules;

use crate::{
    codec::{
        Codec, CodecError, CodecSource, Ending, Input, Lane, Millis, Output, Setup, Skipped, Unit,
        Vacant,
    },
    effect::{Effect, Event, Level},
    marks::Marks,
    pending::Pending,
    replace::{Previous, ReplaceError, Serving, resume, speaks},
};

/// The most refusals that one event may lead to. A codec that answers every refusal with the next forbidden request
/// would otherwise never come back; one that asks for a whole door's worth at once needs some dozens.
pub const REFUSALS_PER_EVENT_MAX: u64 = 1024;

/// The connection's own wire.
const WIRE: Lane = 0;

/// WebSocket: the server met a condition it did not expect (decision 56).
const CLOSE_CODE_FAILED: u16 = 1011;

/// One peer at one door, with one codec instance behind it.
pub struct Connection {
    state: State,
}

enum State {
    Open(Box<Open>),
    /// The close is out. No call reaches the codec any more; its instance is gone.
    Closed,
}

struct Open {
    serving: Serving,
    /// Its options are those of `serving`.
    setup: Setup,
    /// What the component declares to send; others are refused whatever the policy says.
    sends: FrameRules,
    codec: Box<dyn Codec>,
    previous: Option<Previous>,
    now: Millis,
    deadline: Option<Millis>,
    input: Side,
    output: Side,
    /// What the codec asked the host.
    asking: Pending,
    /// What the host asked the codec.
    asked: Pending,
    /// Refusals that the codec has yet to hear, oldest first.
    refusals: VecDeque<Frame>,
    marks: Marks,
    /// Bytes of memory above which the instance is exchanged for a fresh one.
    renew_above: u64,
}

/// One direction of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Open,
    /// Ended in order.
    Ended,
    /// Nobody is there. What is still sent this way is dropped.
    Broken,
}

/// Where a call left the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Closed,
}

impl Connection {
    /// Opens a connection; its codec gets the options of `serving`. On an error nothing is put out, and the carrier refuses the peer in its own way.
    pub fn open(
        out: &mut Vec<Effect>,
        serving: Serving,
        mut setup: Setup,
    ) -> Result<Connection, CodecError> {
        setup.options = serving.options.to_string();
        speaks(serving.source.as_ref(), setup.framing)?;
        let sends = declared(serving.source.as_ref())?;
        let (codec, outputs) = serving.source.open(&setup)?;
        let mut open = Open {
            marks: Marks::new(&serving.policy.limits),
            serving,
            setup,
            sends,
            codec,
            previous: None,
            now: 0,
            deadline: None,
            input: Side::Open,
            output: Side::Open,
            asking: Pending::default(),
            asked: Pending::default(),
            refusals: VecDeque::new(),
            renew_above: renewal::RENEW_ABOVE,
        };

        let before = out.len();
        match open.perform_all(out, outputs) {
            Ok(Next::GoOn) => Ok(Connection { state: State::Open(Box::new(open)) }),
            Ok(Next::Closed) => Ok(Connection { state: State::Closed }),
            Err(error) => {
                out.truncate(before);
                Err(error)
            }
        }
    }

    /// Advances by one event. Effects are appended in the order in which they must be performed.
    pub fn handle(&mut self, out: &mut Vec<Effect>, now: Millis, event: Event) {
        let State::Open(open) = &mut self.state else { return };
        open.now = open.now.max(now);
        let Some(input) = open.admit(out, event) else { return };
        let next = open.deliver(out, input).and_then(|next| match next {
            Next::GoOn => open.renew(out),
            Next::Closed => Ok(next),
        });
        let next = next.unwrap_or_else(|error| open.fail(out, error));
        if next == Next::Closed {
            self.state = State::Closed;
        }
    }

    /// Moves the connection to an instance of another version, or to other options of the same; to `vacant`, where that version
    /// has prepared one. Requests, ids, deadline and seed stay. Its marks stay too: they are those of the policy that it was
    /// opened with. Gives the instance that served before, for the caller to drop where that holds nobody up.
    pub fn replace(
        &mut self,
        out: &mut Vec<Effect>,
        successor: Serving,
        vacant: Option<Box<dyn Vacant>>,
    ) -> Result<Box<dyn Codec>, ReplaceError> {
        let State::Open(open) = &mut self.state else { return Err(ReplaceError::Closed) };
        // Where nothing was heard since the last move, what was suspended then still says everything, and the version that
        // wrote it is the one that has proven itself.
        let resumes = &successor.source.manifest().resumes;
        if let Some(previous) =
            open.previous.take_if(|previous| resumes.contains(&previous.state_format()))
        {
            let moved = open.move_again(out, previous, successor, vacant);
            return moved.map_err(ReplaceError::Refused);
        }
        let state = match open.codec.suspend() {
            Ok(state) => state,
            Err(error) => {
                open.fail(out, error.clone());
                self.state = State::Closed;
                return Err(ReplaceError::Suspend(error));
            }
        };
        open.move_to(out, successor, vacant, state).map_err(ReplaceError::Refused)
    }

    /// Whether the close is out.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// The component version that serves it; none once it is closed.
    pub fn identity(&self) -> Option<Arc<str>> {
        match &self.state {
            State::Open(open) => Some(open.serving.source.identity()),
            State::Closed => None,
        }
    }

    /// The number of what serves it; none once it is closed.
    pub fn number(&self) -> Option<u64> {
        match &self.state {
            State::Open(open) => Some(open.serving.number),
            State::Closed => None,
        }
    }

    /// Requests without an answer, in both directions.
    pub fn pending(&self) -> usize {
        match &self.state {
            State::Open(open) => open.asking.len() + open.asked.len(),
            State::Closed => 0,
        }
    }

    /// Bytes of memory that its instance occupies.
    pub fn memory_bytes(&self) -> u64 {
        match &self.state {
            State::Open(open) => open.codec.memory_bytes(),
            State::Closed => 0,
        }
    }
}

impl Open {
    /// What the codec hears of an event, if anything.
    fn admit(&mut self, out: &mut Vec<Effect>, event: Event) -> Option<Input> {
        match event {
            // A broken output is learned after the end too. The conversation goes on to its own end, unheard.
            Event::End { broken } if self.input != Side::Open => {
                if broken.is_some() {
                    self.output = Side::Broken;
                }
                None
            }
            Event::Unit { .. } | Event::Skipped { .. } if self.input != Side::Open => {
                log(out, Level::Error, "input behind its end dropped", json!({}));
                None
            }
            Event::Unit { form, bytes } => Some(Input::Unit(Unit { lane: WIRE, form, bytes })),
            Event::Skipped { why, bytes } => {
                // S-9: one diagnostic, whatever the codec makes of it.
                let bound = match why {
                    Excess::TooLong => "unit-bytes-max",
                    Excess::TooDeep => "nesting-max",
                };
                log(out, Level::Warn, "unit skipped", json!({"limit": bound, "bytes": bytes}));
                Some(Input::Skipped(Skipped { lane: WIRE, why, bytes }))
            }
            Event::End { broken } => {
                self.input = Side::Ended;
                if broken.is_some() {
                    self.output = Side::Broken;
                }
                Some(Input::End(Ending { lane: WIRE, broken }))
            }
            Event::Frame(frame) => self.admit_frame(out, frame).map(Input::Frame),
            Event::Deadline => {
                // A deadline that was replaced while its timer fired is no deadline.
                self.deadline.take_if(|deadline| *deadline <= self.now).map(|_| Input::Deadline)
            }
            Event::Drain(farewell) => Some(Input::Drain(farewell)),
            Event::Unwritten(bytes) => {
                self.marks.unwritten(out, bytes);
                None
            }
        }
    }

    /// A frame from the host: an answer to what was asked, and to nothing else, or something new.
    fn admit_frame(&mut self, out: &mut Vec<Effect>, frame: Frame) -> Option<Frame> {
        match frame.kind {
            FrameKind::Notice => Some(frame),
            FrameKind::Reply | FrameKind::Failure => {
                if self.asking.settle(&frame) {
                    return Some(frame);
                }
                log_frame(out, Level::Warn, "answer to nothing dropped", &frame);
                None
            }
            FrameKind::Request => {
                let Some(id) = frame.id.clone().filter(|id| !self.asked.contains(id)) else {
                    log_frame(
                        out,
                        Level::Error,
                        "request without an id of its own dropped",
                        &frame,
                    );
                    return None;
                };
                if self.asked.is_full(self.serving.policy.limits.pending_requests_max) {
                    out.push(Effect::Frame(Frame::failure(&frame, &overloaded())));
                    return None;
                }
                self.asked.begin(id, frame.name.clone());
                Some(frame)
            }
        }
    }

    fn deliver(&mut self, out: &mut Vec<Effect>, input: Input) -> Result<Next, CodecError> {
        let outputs = self.call(out, input)?;
        self.perform_all(out, outputs)
    }

    /// Performs the outputs of a call and of every call that tells the codec of a refusal.
    ///
    /// Refusals come before the next event and in the order of their requests, so to the codec they are answers
    /// like any other: one first-in, first-out queue.
    fn perform_all(
        &mut self,
        out: &mut Vec<Effect>,
        outputs: Vec<Output>,
    ) -> Result<Next, CodecError> {
        let mut next = self.perform(out, outputs)?;
        let mut refused: u64 = 0;
        while next == Next::GoOn
            && let Some(refusal) = self.refusals.pop_front()
        {
            refused += 1;
            if refused > REFUSALS_PER_EVENT_MAX {
                return Err(CodecError::Limit {
                    limit: "refusals-per-event",
                    found: refused,
                    allowed: REFUSALS_PER_EVENT_MAX,
                });
            }
            self.asking.settle(&refusal);
            let outputs = self.call(out, Input::Frame(refusal))?;
            next = self.perform(out, outputs)?;
        }
        Ok(next)
    }

    /// One call into the codec. The first one after a move goes back to the old version when the new one breaks.
    fn call(&mut self, out: &mut Vec<Effect>, input: Input) -> Result<Vec<Output>, CodecError> {
        let Some(previous) = self.previous.take() else {
            return self.codec.handle(self.now, input);
        };
        let kept = input.clone();
        match self.codec.handle(self.now, input) {
            Ok(outputs) => Ok(outputs),
            // What the codec itself says of the peer would not change.
            Err(fault @ CodecError::Fault(_)) => Err(fault),
            Err(
                error @ (CodecError::Trap(_)
                | CodecError::Limit { .. }
                | CodecError::Misuse(_)
                | CodecError::Gone),
            ) => {
                let (number, identity) = (self.serving.number, self.serving.source.identity());
                if !self.move_back(previous) {
                    return Err(error);
                }
                out.push(Effect::Faulted { number, identity, error });
                let identity = self.serving.source.identity();
                log(out, Level::Warn, "codec moved back", json!({"component": &*identity}));
                self.codec.handle(self.now, kept)
            }
        }
    }

    fn move_to(
        &mut self,
        out: &mut Vec<Effect>,
        successor: Serving,
        vacant: Option<Box<dyn Vacant>>,
        state: Vec<u8>,
    ) -> Result<Box<dyn Codec>, CodecError> {
        let format = self.serving.source.manifest().state_format;
        let (before, codec) = self.begin(successor, vacant, format, &state)?;
        self.log_move(out, &before);
        self.previous = Some(Previous { version: before, state });
        Ok(codec)
    }

    /// Moves on from a version that has heard nothing: the one before it stays the one to go back to.
    fn move_again(
        &mut self,
        out: &mut Vec<Effect>,
        previous: Previous,
        successor: Serving,
        vacant: Option<Box<dyn Vacant>>,
    ) -> Result<Box<dyn Codec>, CodecError> {
        let begun = self.begin(successor, vacant, previous.state_format(), &previous.state);
        self.previous = Some(previous);
        let (before, codec) = begun?;
        self.log_move(out, &before);
        Ok(codec)
    }

    /// Puts a resumed instance of `successor` in place; on an error nothing has changed. Gives what was there.
    fn begin(
        &mut self,
        successor: Serving,
        vacant: Option<Box<dyn Vacant>>,
        format: u32,
        state: &[u8],
    ) -> Result<(Serving, Box<dyn Codec>), CodecError> {
        let sends = declared(successor.source.as_ref())?;
        let options = mem::replace(&mut self.setup.options, successor.options.to_string());
        let codec = match resume(successor.source.as_ref(), vacant, &self.setup, format, state) {
            Ok(codec) => mem::replace(&mut self.codec, codec),
            Err(error) => {
                self.setup.options = options;
                return Err(error);
            }
        };
        self.sends = sends;
        self.renew_above = renewal::RENEW_ABOVE;
        Ok((mem::replace(&mut self.serving, successor), codec))
    }

    /// Goes back to the version that suspended itself. Gives whether that is possible.
    fn move_back(&mut self, previous: Previous) -> bool {
        let format = previous.state_format();
        self.begin(previous.version, None, format, &previous.state).is_ok()
    }

    fn log_move(&self, out: &mut Vec<Effect>, before: &Serving) {
        let (from, to) = (before.source.identity(), self.serving.source.identity());
        log(out, Level::Info, "codec moved", json!({"from": &*from, "component": &*to}));
    }

    /// Ends the connection because its codec cannot go on.
    fn fail(&mut self, out: &mut Vec<Effect>, error: CodecError) -> Next {
        let reason = match &error {
            CodecError::Fault(fault) => fault.detail.clone(),
            // What went wrong inside is nobody's business outside.
            CodecError::Trap(_)
            | CodecError::Limit { .. }
            | CodecError::Misuse(_)
            | CodecError::Gone => "the door failed".to_owned(),
        };
        let (number, identity) = (self.serving.number, self.serving.source.identity());
        out.push(Effect::Faulted { number, identity, error });
        out.push(Effect::Close { code: Some(CLOSE_CODE_FAILED), reason, failed: true });
        Next::Closed
    }
}

fn declared(source: &dyn CodecSource) -> Result<FrameRules, CodecError> {
    let sends = &source.manifest().sends;
    FrameRules::parse(sends.iter().map(String::as_str))
        .map_err(|error| misuse(&format!("the manifest sends {sends:?}; right would be {error}")))
}

fn misuse(what: &str) -> CodecError {
    CodecError::Misuse(what.to_owned())
}

fn overloaded() -> Failure {
    Failure::new(Code::Overloaded, "too many requests wait for their answer")
        .with("limit", "pending-requests-max")
}

fn log(out: &mut Vec<Effect>, level: Level, name: &str, fields: serde_json::Value) {
    out.push(Effect::Log { level, name: name.to_owned(), json: fields.to_string() });
}

fn log_frame(out: &mut Vec<Effect>, level: Level, name: &str, frame: &Frame) {
    let id = frame.id.as_ref().map(|id| id.as_str());
    log(out, level, name, json!({"frame": &*frame.name, "kind": frame.kind.as_str(), "id": id}));
}

#[cfg(test)]
mod tests;
