//! Any [`Machine`] as the implementation of `transom:codec/codec`: every value moves, nothing is copied.
//! What the machine decides is its own affair.

use std::{cell::RefCell, marker::PhantomData};

use crate::{bindings::exports::transom::codec::codec as wit, types::*};

/// The component's exports for one kind of machine.
pub struct Exported<M>(PhantomData<M>);

/// One connection. Calls cannot overlap: the host makes one at a time, and a codec calls nobody.
pub struct Connection<M>(RefCell<M>);

impl<M: Machine> wit::Guest for Exported<M> {
    type Connection = Connection<M>;

    fn describe() -> wit::Manifest {
        M::describe().into()
    }
}

impl<M: Machine> wit::GuestConnection for Connection<M> {
    fn open(setup: wit::Setup) -> Result<(wit::Connection, Vec<wit::Output>), wit::Fault> {
        let mut out = Outputs::default();
        let machine = M::open(&mut out, setup.into())?;
        Ok((wit::Connection::new(Connection(RefCell::new(machine))), outputs(out)))
    }

    fn handle(&self, now: wit::Millis, input: wit::Input) -> Result<Vec<wit::Output>, wit::Fault> {
        let mut out = Outputs::default();
        self.0.borrow_mut().handle(&mut out, now, input.into())?;
        Ok(outputs(out))
    }

    fn suspend(&self) -> Vec<u8> {
        self.0.borrow().suspend()
    }

    fn resume(
        setup: wit::Setup,
        format: u32,
        state: Vec<u8>,
    ) -> Result<wit::Connection, wit::Fault> {
        let machine = M::resume(setup.into(), format, &state)?;
        Ok(wit::Connection::new(Connection(RefCell::new(machine))))
    }
}

fn outputs(out: Outputs) -> Vec<wit::Output> {
    out.into_vec().into_iter().map(Into::into).collect()
}

/// Enums without payload that have the same cases on both sides.
macro_rules! same_cases {
    ($from:ty => $to:ty { $($case:ident),* $(,)? }) => {
        impl From<$from> for $to {
            fn from(value: $from) -> $to {
                match value {
                    $(<$from>::$case => <$to>::$case,)*
                }
            }
        }
    };
}

same_cases!(wit::Framing => Framing { Lines, Messages, Exchange, Outbound, Chunks });
same_cases!(Framing => wit::Framing { Lines, Messages, Exchange, Outbound, Chunks });
same_cases!(wit::FrameKind => FrameKind { Request, Reply, Failure, Notice });
same_cases!(FrameKind => wit::FrameKind { Request, Reply, Failure, Notice });
same_cases!(wit::Form => Form { Text, Binary, Unfinished });
same_cases!(Form => wit::Form { Text, Binary, Unfinished });
same_cases!(wit::Excess => Excess { TooLong, TooDeep });
same_cases!(wit::Farewell => Farewell { Shutdown, Replaced });
same_cases!(FaultKind => wit::FaultKind { Malformed, Misplaced, Unsupported, Silent, Internal });

impl From<Manifest> for wit::Manifest {
    fn from(manifest: Manifest) -> wit::Manifest {
        let Manifest { protocol, revisions, framings, sends, headers, state_format, resumes } =
            manifest;
        let framings = framings.into_iter().map(Into::into).collect();
        wit::Manifest { protocol, revisions, framings, sends, headers, state_format, resumes }
    }
}

impl From<wit::Setup> for Setup {
    fn from(setup: wit::Setup) -> Setup {
        let wit::Setup { framing, seed, options, facts } = setup;
        Setup { framing: framing.into(), seed, options, facts }
    }
}

impl From<wit::Frame> for Frame {
    fn from(frame: wit::Frame) -> Frame {
        let wit::Frame { kind, session, id, name, body } = frame;
        Frame { kind: kind.into(), session, id, name, body }
    }
}

impl From<Frame> for wit::Frame {
    fn from(frame: Frame) -> wit::Frame {
        let Frame { kind, session, id, name, body } = frame;
        wit::Frame { kind: kind.into(), session, id, name, body }
    }
}

impl From<Fault> for wit::Fault {
    fn from(fault: Fault) -> wit::Fault {
        wit::Fault { kind: fault.kind.into(), detail: fault.detail }
    }
}

impl From<wit::Input> for Input {
    fn from(input: wit::Input) -> Input {
        match input {
            wit::Input::Head(wit::Head { lane, fields }) => Input::Head(Head { lane, fields }),
            wit::Input::Unit(wit::Unit { lane, form, bytes }) => {
                Input::Unit(Unit { lane, form: form.into(), bytes })
            }
            wit::Input::Skipped(wit::Skipped { lane, why, bytes }) => {
                Input::Skipped(Skipped { lane, why: why.into(), bytes })
            }
            wit::Input::End(wit::Ending { lane, broken }) => Input::End(Ending { lane, broken }),
            wit::Input::Frame(frame) => Input::Frame(frame.into()),
            wit::Input::Deadline => Input::Deadline,
            wit::Input::Drain(farewell) => Input::Drain(farewell.into()),
            wit::Input::Other((name, json)) => Input::Other(name, json),
        }
    }
}

impl From<Output> for wit::Output {
    fn from(output: Output) -> wit::Output {
        match output {
            Output::Head(Head { lane, fields }) => wit::Output::Head(wit::Head { lane, fields }),
            Output::Unit(Unit { lane, form, bytes }) => {
                wit::Output::Unit(wit::Unit { lane, form: form.into(), bytes })
            }
            Output::End(lane) => wit::Output::End(lane),
            Output::Abort(lane) => wit::Output::Abort(lane),
            Output::Frame(frame) => wit::Output::Frame(frame.into()),
            Output::Deadline(at) => wit::Output::Deadline(at),
            Output::Close(Closing { code, reason }) => {
                wit::Output::Close(wit::Closing { code, reason })
            }
            Output::Note(name, json) => wit::Output::Note((name, json)),
            Output::Other(name, json) => wit::Output::Other((name, json)),
        }
    }
}
