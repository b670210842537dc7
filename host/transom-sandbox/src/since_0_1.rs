//! `transom:codec@0.1` as wasmtime calls it, and its types turned into the host's. Nothing generated leaves this file.
//!
//! Inputs are borrowed while they are lowered, so a body is copied once, into the guest; outputs are lifted into
//! values of their own, and those move on.

use transom_connection::codec::{
    Closing, Ending, Farewell, Form, Framing, Head, Input, Manifest, Millis, Output, Setup,
    Skipped, Unit,
};
use transom_frame::{Fault, FaultKind, Frame, FrameKind};
use transom_framing::Excess;
use wasmtime::{
    Engine, Store,
    component::{InstancePre, ResourceAny},
};

use self::generated::exports::transom::codec::codec as wit;

#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    clippy::all,
    clippy::indexing_slicing,
    reason = "generated from the interface, which carries the comments"
)]
mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit/codec/0.1",
        world: "codec-component",
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

/// Bytes that the host holds per output beside its strings, for the bound on what one call may hand over.
pub(crate) const OUTPUT_BYTES: usize = size_of::<wit::Output>();

/// A component version with its exports looked up.
pub(crate) struct Exports<T: 'static>(generated::CodecComponentPre<T>);

impl<T: 'static> Exports<T> {
    pub(crate) fn new(pre: InstancePre<T>) -> wasmtime::Result<Exports<T>> {
        Ok(Exports(generated::CodecComponentPre::new(pre)?))
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.0.engine()
    }

    pub(crate) fn describe(&self, store: &mut Store<T>) -> wasmtime::Result<Manifest> {
        Ok(self.0.instantiate(&mut *store)?.transom_codec_codec().call_describe(store)?.into())
    }

    pub(crate) fn open(
        &self,
        store: &mut Store<T>,
        setup: &Setup,
    ) -> wasmtime::Result<Result<(Connection, Vec<Output>), Fault>> {
        let exports = self.0.instantiate(&mut *store)?.transom_codec_codec().clone();
        let facts = pairs(&setup.facts);
        let opened = exports.connection().call_open(store, lower_setup(setup, &facts))?;
        Ok(match opened {
            Ok((resource, outputs)) => Ok((Connection { exports, resource }, lift(outputs))),
            Err(fault) => Err(fault.into()),
        })
    }

    /// An instance in which nothing was called yet.
    pub(crate) fn instance(&self, store: &mut Store<T>) -> wasmtime::Result<Bare> {
        Ok(Bare(self.0.instantiate(store)?.transom_codec_codec().clone()))
    }
}

/// The exports of an instance that has no connection yet.
pub(crate) struct Bare(wit::Guest);

impl Bare {
    pub(crate) fn resume<T>(
        self,
        store: &mut Store<T>,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> wasmtime::Result<Result<Connection, Fault>> {
        let facts = pairs(&setup.facts);
        let resumed =
            self.0.connection().call_resume(store, lower_setup(setup, &facts), format, state)?;
        Ok(match resumed {
            Ok(resource) => Ok(Connection { exports: self.0, resource }),
            Err(fault) => Err(fault.into()),
        })
    }
}

/// The resource `connection` of one instance.
pub(crate) struct Connection {
    exports: wit::Guest,
    resource: ResourceAny,
}

impl Connection {
    pub(crate) fn handle<T>(
        &self,
        store: &mut Store<T>,
        now: Millis,
        input: &Input,
    ) -> wasmtime::Result<Result<Vec<Output>, Fault>> {
        let fields = match input {
            Input::Head(head) => pairs(&head.fields),
            _ => Vec::new(),
        };
        let handled = self.exports.connection().call_handle(
            store,
            self.resource,
            now,
            lower(input, &fields),
        )?;
        Ok(handled.map(lift).map_err(Fault::from))
    }

    pub(crate) fn suspend<T>(&self, store: &mut Store<T>) -> wasmtime::Result<Vec<u8>> {
        self.exports.connection().call_suspend(store, self.resource)
    }
}

fn pairs(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn lower_setup<'a>(setup: &'a Setup, facts: &'a [(&'a str, &'a str)]) -> wit::Setup<'a> {
    wit::Setup { framing: setup.framing.into(), seed: setup.seed, options: &setup.options, facts }
}

/// `fields` are those of a head.
fn lower<'a>(input: &'a Input, fields: &'a [(&'a str, &'a str)]) -> wit::Input<'a> {
    match input {
        Input::Head(Head { lane, fields: _ }) => {
            wit::Input::Head(wit::HeadParam { lane: *lane, fields })
        }
        Input::Unit(Unit { lane, form, bytes }) => {
            wit::Input::Unit(wit::UnitParam { lane: *lane, form: (*form).into(), bytes })
        }
        Input::Skipped(Skipped { lane, why, bytes }) => {
            wit::Input::Skipped(wit::Skipped { lane: *lane, why: (*why).into(), bytes: *bytes })
        }
        Input::End(Ending { lane, broken }) => {
            wit::Input::End(wit::Ending { lane: *lane, broken: broken.as_deref() })
        }
        Input::Frame(frame) => wit::Input::Frame(wit::FrameParam {
            kind: frame.kind.into(),
            session: frame.session.as_ref().map(|session| session.as_str()),
            id: frame.id.as_ref().map(|id| id.as_str()),
            name: &frame.name,
            body: &frame.body,
        }),
        Input::Deadline => wit::Input::Deadline,
        Input::Drain(farewell) => wit::Input::Drain((*farewell).into()),
        Input::Other(name, json) => wit::Input::Other((name, json)),
    }
}

fn lift(outputs: Vec<wit::Output>) -> Vec<Output> {
    outputs.into_iter().map(Into::into).collect()
}

impl From<wit::Output> for Output {
    fn from(output: wit::Output) -> Output {
        match output {
            wit::Output::Head(wit::HeadResult { lane, fields }) => {
                Output::Head(Head { lane, fields })
            }
            wit::Output::Unit(wit::UnitResult { lane, form, bytes }) => {
                Output::Unit(Unit { lane, form: form.into(), bytes })
            }
            wit::Output::End(lane) => Output::End(lane),
            wit::Output::Abort(lane) => Output::Abort(lane),
            wit::Output::Frame(wit::FrameResult { kind, session, id, name, body }) => {
                Output::Frame(Frame {
                    kind: kind.into(),
                    session: session.map(Into::into),
                    id: id.map(Into::into),
                    name: name.into(),
                    body: body.into(),
                })
            }
            wit::Output::Deadline(at) => Output::Deadline(at),
            wit::Output::Close(wit::Closing { code, reason }) => {
                Output::Close(Closing { code, reason })
            }
            wit::Output::Note((name, json)) => Output::Note(name, json),
            wit::Output::Other((name, json)) => Output::Other(name, json),
        }
    }
}

impl From<wit::Manifest> for Manifest {
    fn from(manifest: wit::Manifest) -> Manifest {
        let wit::Manifest { protocol, revisions, framings, sends, headers, state_format, resumes } =
            manifest;
        let framings = framings.into_iter().map(Into::into).collect();
        Manifest { protocol, revisions, framings, sends, headers, state_format, resumes }
    }
}

impl From<wit::Fault> for Fault {
    fn from(fault: wit::Fault) -> Fault {
        Fault { kind: fault.kind.into(), detail: fault.detail }
    }
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
same_cases!(Excess => wit::Excess { TooLong, TooDeep });
same_cases!(Farewell => wit::Farewell { Shutdown, Replaced });
same_cases!(wit::FaultKind => FaultKind { Malformed, Misplaced, Unsupported, Silent, Internal });
