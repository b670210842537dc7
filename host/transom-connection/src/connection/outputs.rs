//! What becomes of a codec's outputs: each is checked against contract, carrier and policy, and then an effect.
//! Which events the codec hears is left to the module above.

use serde_json::json;
use transom_frame::{Code, Failure, Frame, FrameKind};
use transom_framing::check_line;
use transom_policy::{Action, Decision, decide};

use super::{Next, Open, Side, WIRE, log, log_frame, misuse, overloaded};
use crate::{
    codec::{Closing, CodecError, Form, Framing, Lane, Output, Unit},
    effect::{Effect, Level},
    pending::FRAME_ID_BYTES_MAX,
};

/// Requests that begin nothing: they stop, withdraw or answer what is there.
const TAKES_BACK: [&str; 6] = [
    "ask/answer",
    "ask/settle",
    "host/shutdown",
    "session/cancel",
    "session/close",
    "session/queue",
];

impl Open {
    /// Performs the outputs of one call, in order, up to a close.
    pub(super) fn perform(
        &mut self,
        out: &mut Vec<Effect>,
        outputs: Vec<Output>,
    ) -> Result<Next, CodecError> {
        let mut outputs = outputs.into_iter();
        while let Some(output) = outputs.next() {
            match output {
                Output::Unit(unit) => self.write(out, unit)?,
                Output::End(lane) => {
                    on_wire(lane)?;
                    match self.output {
                        Side::Open => out.push(Effect::EndOutput),
                        Side::Ended => return Err(misuse("the output is ended a second time")),
                        Side::Broken => {}
                    }
                    self.output = Side::Ended;
                }
                Output::Abort(lane) => {
                    on_wire(lane)?;
                    if self.setup.framing == Framing::Lines {
                        return Err(misuse("lines cannot be broken off; close ends them"));
                    }
                    out.push(Effect::AbortOutput);
                    self.output = Side::Broken;
                }
                Output::Head(_) => return Err(misuse("the carrier has no heads")),
                Output::Frame(frame) => self.send(out, frame)?,
                Output::Deadline(at) => {
                    self.deadline = at;
                    out.push(Effect::Deadline(at));
                }
                Output::Close(Closing { code, reason }) => {
                    if outputs.len() > 0 {
                        log(
                            out,
                            Level::Warn,
                            "outputs behind the close dropped",
                            json!({"outputs": outputs.len()}),
                        );
                    }
                    out.push(Effect::Close { code, reason, failed: false });
                    return Ok(Next::Closed);
                }
                Output::Note(name, json) => {
                    out.push(Effect::Log { level: Level::Info, name, json });
                }
                // A later version of the track; this one was promised that it may ignore it.
                Output::Other(name, _) => {
                    log(out, Level::Debug, "unknown output ignored", json!({"output": name}));
                }
            }
        }
        Ok(Next::GoOn)
    }

    fn write(&self, out: &mut Vec<Effect>, unit: Unit) -> Result<(), CodecError> {
        on_wire(unit.lane)?;
        match (self.setup.framing, unit.form) {
            (_, Form::Unfinished) => return Err(misuse("a unit is put out unfinished")),
            (Framing::Lines, Form::Binary) => return Err(misuse("a line is put out as binary")),
            (Framing::Lines, Form::Text) => {
                check_line(&unit.bytes).map_err(|error| misuse(&error.to_string()))?;
            }
            (Framing::Outbound, Form::Text | Form::Binary) => {
                return Err(misuse("an outbound connection has no wire of its own"));
            }
            (
                Framing::Messages | Framing::Exchange | Framing::Chunks,
                Form::Text | Form::Binary,
            ) => {}
        }
        match self.output {
            Side::Open => out.push(Effect::Write(unit.bytes)),
            Side::Ended => return Err(misuse("a unit is put out behind the end of the output")),
            // S-36: stop writing and let the conversation end in its own order.
            Side::Broken => {}
        }
        Ok(())
    }

    /// A frame from the codec: to the host, if it may.
    fn send(&mut self, out: &mut Vec<Effect>, frame: Frame) -> Result<(), CodecError> {
        match frame.kind {
            FrameKind::Request => self.send_request(out, frame)?,
            FrameKind::Notice => {
                if frame.id.is_some() {
                    return Err(misuse(&format!("the notice {} has an id", frame.name)));
                }
                match self.refusal(&frame.name) {
                    None => out.push(Effect::Frame(frame)),
                    Some(reason) => log_refused(out, "notice refused", &frame, &reason),
                }
            }
            FrameKind::Reply | FrameKind::Failure => {
                if self.asked.settle(&frame) {
                    out.push(Effect::Frame(frame));
                } else {
                    log_frame(out, Level::Warn, "answer to nothing dropped", &frame);
                }
            }
        }
        Ok(())
    }

    fn send_request(&mut self, out: &mut Vec<Effect>, frame: Frame) -> Result<(), CodecError> {
        let Some(id) = frame.id.clone() else {
            return Err(misuse(&format!("the request {} has no id", frame.name)));
        };
        if id.as_str().len() > FRAME_ID_BYTES_MAX {
            return Err(CodecError::Limit {
                limit: "frame-id-bytes-max",
                found: u64::try_from(id.as_str().len()).unwrap_or(u64::MAX),
                allowed: u64::try_from(FRAME_ID_BYTES_MAX).unwrap_or(u64::MAX),
            });
        }
        // Two answers of one id could not be told apart.
        if self.asking.contains(&id) {
            return Err(misuse(&format!("the id {id} of {} is still pending", frame.name)));
        }

        let refusal = if let Some(reason) = self.refusal(&frame.name) {
            log_refused(out, "request refused", &frame, &reason);
            let message = format!("this door may not send {}", frame.name);
            Some(Failure::new(Code::Denied, message).with("frame", &*frame.name))
        } else if self.asking.is_full(self.room_for(&frame.name)) {
            Some(overloaded())
        } else {
            None
        };

        // A refused request is pending too, until its refusal is heard.
        self.asking.begin(id, frame.name.clone());
        match refusal {
            Some(failure) => self.refusals.push_back(Frame::failure(&frame, &failure)),
            None => out.push(Effect::Frame(frame)),
        }
        Ok(())
    }

    /// How many requests may be pending beside one of this name. What stops or answers something has as much room again:
    /// a peer that asks for more than it may must still be able to take back what it has.
    fn room_for(&self, name: &str) -> u64 {
        let requests = self.serving.policy.limits.pending_requests_max;
        if TAKES_BACK.contains(&name) { requests.saturating_mul(2) } else { requests }
    }

    /// Why a frame may not be sent, if it may not.
    fn refusal(&self, name: &str) -> Option<String> {
        if self.sends.naming(name).is_none() {
            return Some(format!("the component does not declare {name}"));
        }
        match decide(&self.serving.policy, Action::SendFrame(name)) {
            Decision { allowed: true, .. } => None,
            Decision { allowed: false, reason } => Some(reason.to_string()),
        }
    }
}

fn on_wire(lane: Lane) -> Result<(), CodecError> {
    if lane == WIRE {
        return Ok(());
    }
    Err(misuse(&format!("lane {lane} is used, and the carrier has none but 0")))
}

fn log_refused(out: &mut Vec<Effect>, name: &str, frame: &Frame, reason: &str) {
    log(out, Level::Warn, name, json!({"frame": &*frame.name, "reason": reason}));
}
