//! A guest's machine as a codec source without a sandbox: the words of one side turned into those of the other.

use std::{marker::PhantomData, sync::Arc};

use transom_connection::codec::{
    Closing, Codec, CodecError, CodecSource, Ending, Farewell, Form, Framing, Head, Input,
    Manifest, Millis, Output, Setup, Skipped, Unit,
};
use transom_frame::{Fault, FaultKind, Frame, FrameId, FrameKind, SessionId};
use transom_framing::Excess;
use transom_guest::{self as guest, Machine};

/// Serves connections with machines of one kind.
pub struct Native<M> {
    manifest: Manifest,
    machine: PhantomData<fn() -> M>,
}

struct Running<M>(M);

impl<M: Machine + Send> Native<M> {
    /// A source, ready to be given to a door.
    pub fn source() -> Arc<dyn CodecSource> {
        let guest::Manifest {
            protocol,
            revisions,
            framings,
            sends,
            headers,
            state_format,
            resumes,
        } = M::describe();
        let framings = framings.into_iter().map(to_host_framing).collect();
        let manifest =
            Manifest { protocol, revisions, framings, sends, headers, state_format, resumes };
        Arc::new(Native::<M> { manifest, machine: PhantomData })
    }
}

impl<M: Machine + Send> CodecSource for Native<M> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn identity(&self) -> Arc<str> {
        format!("{} native", self.manifest.protocol).into()
    }

    fn open(&self, setup: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError> {
        let mut out = guest::Outputs::default();
        let machine = M::open(&mut out, to_guest_setup(setup)).map_err(fault)?;
        Ok((Box::new(Running(machine)), outputs(out)))
    }

    fn resume(
        &self,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> Result<Box<dyn Codec>, CodecError> {
        let machine = M::resume(to_guest_setup(setup), format, state).map_err(fault)?;
        Ok(Box::new(Running(machine)))
    }
}

impl<M: Machine + Send> Codec for Running<M> {
    fn handle(&mut self, now: Millis, input: Input) -> Result<Vec<Output>, CodecError> {
        let mut out = guest::Outputs::default();
        self.0.handle(&mut out, now, to_guest_input(input)).map_err(fault)?;
        Ok(outputs(out))
    }

    fn suspend(&mut self) -> Result<Vec<u8>, CodecError> {
        Ok(self.0.suspend())
    }
}

fn outputs(out: guest::Outputs) -> Vec<Output> {
    out.into_vec().into_iter().map(to_host_output).collect()
}

fn fault(fault: guest::Fault) -> CodecError {
    let kind = match fault.kind {
        guest::FaultKind::Malformed => FaultKind::Malformed,
        guest::FaultKind::Misplaced => FaultKind::Misplaced,
        guest::FaultKind::Unsupported => FaultKind::Unsupported,
        guest::FaultKind::Silent => FaultKind::Silent,
        guest::FaultKind::Internal => FaultKind::Internal,
    };
    CodecError::Fault(Fault::new(kind, fault.detail))
}

fn to_guest_setup(setup: &Setup) -> guest::Setup {
    let framing = match setup.framing {
        Framing::Lines => guest::Framing::Lines,
        Framing::Messages => guest::Framing::Messages,
        Framing::Exchange => guest::Framing::Exchange,
        Framing::Outbound => guest::Framing::Outbound,
        Framing::Chunks => guest::Framing::Chunks,
    };
    guest::Setup {
        framing,
        seed: setup.seed,
        options: setup.options.clone(),
        facts: setup.facts.clone(),
    }
}

fn to_host_framing(framing: guest::Framing) -> Framing {
    match framing {
        guest::Framing::Lines => Framing::Lines,
        guest::Framing::Messages => Framing::Messages,
        guest::Framing::Exchange => Framing::Exchange,
        guest::Framing::Outbound => Framing::Outbound,
        guest::Framing::Chunks => Framing::Chunks,
    }
}

fn to_guest_input(input: Input) -> guest::Input {
    match input {
        Input::Head(Head { lane, fields }) => guest::Input::Head(guest::Head { lane, fields }),
        Input::Unit(Unit { lane, form, bytes }) => {
            let form = match form {
                Form::Text => guest::Form::Text,
                Form::Binary => guest::Form::Binary,
                Form::Unfinished => guest::Form::Unfinished,
            };
            guest::Input::Unit(guest::Unit { lane, form, bytes })
        }
        Input::Skipped(Skipped { lane, why, bytes }) => {
            let why = match why {
                Excess::TooLong => guest::Excess::TooLong,
                Excess::TooDeep => guest::Excess::TooDeep,
            };
            guest::Input::Skipped(guest::Skipped { lane, why, bytes })
        }
        Input::End(Ending { lane, broken }) => guest::Input::End(guest::Ending { lane, broken }),
        Input::Frame(frame) => guest::Input::Frame(to_guest_frame(frame)),
        Input::Deadline => guest::Input::Deadline,
        Input::Drain(Farewell::Shutdown) => guest::Input::Drain(guest::Farewell::Shutdown),
        Input::Drain(Farewell::Replaced) => guest::Input::Drain(guest::Farewell::Replaced),
        Input::Other(name, json) => guest::Input::Other(name, json),
    }
}

fn to_host_output(output: guest::Output) -> Output {
    match output {
        guest::Output::Head(guest::Head { lane, fields }) => Output::Head(Head { lane, fields }),
        guest::Output::Unit(guest::Unit { lane, form, bytes }) => {
            let form = match form {
                guest::Form::Text => Form::Text,
                guest::Form::Binary => Form::Binary,
                guest::Form::Unfinished => Form::Unfinished,
            };
            Output::Unit(Unit { lane, form, bytes })
        }
        guest::Output::End(lane) => Output::End(lane),
        guest::Output::Abort(lane) => Output::Abort(lane),
        guest::Output::Frame(frame) => Output::Frame(to_host_frame(frame)),
        guest::Output::Deadline(at) => Output::Deadline(at),
        guest::Output::Close(guest::Closing { code, reason }) => {
            Output::Close(Closing { code, reason })
        }
        guest::Output::Note(name, json) => Output::Note(name, json),
        guest::Output::Other(name, json) => Output::Other(name, json),
    }
}

fn to_guest_frame(frame: Frame) -> guest::Frame {
    let kind = match frame.kind {
        FrameKind::Request => guest::FrameKind::Request,
        FrameKind::Reply => guest::FrameKind::Reply,
        FrameKind::Failure => guest::FrameKind::Failure,
        FrameKind::Notice => guest::FrameKind::Notice,
    };
    guest::Frame {
        kind,
        session: frame.session.map(|session| session.as_str().to_owned()),
        id: frame.id.map(|id| id.as_str().to_owned()),
        name: frame.name.to_string(),
        body: frame.body.to_string(),
    }
}

fn to_host_frame(frame: guest::Frame) -> Frame {
    let kind = match frame.kind {
        guest::FrameKind::Request => FrameKind::Request,
        guest::FrameKind::Reply => FrameKind::Reply,
        guest::FrameKind::Failure => FrameKind::Failure,
        guest::FrameKind::Notice => FrameKind::Notice,
    };
    Frame {
        kind,
        session: frame.session.map(SessionId::new),
        id: frame.id.map(FrameId::new),
        name: frame.name.into(),
        body: frame.body.into(),
    }
}
