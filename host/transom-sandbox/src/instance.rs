//! One instance of a component: each call under its limits, each failure explained, nothing left after one.
//! What the connection does about a failure is its own affair.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use nix::time::ClockId;
use tracing::{debug, debug_span};
use transom_connection::codec::{Codec, CodecError, Input, Millis, Output};
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, WasmBacktrace};

use crate::{
    limits::{Limits, Meter},
    sandbox::Capacity,
    since_0_1::{Connection, OUTPUT_BYTES},
    ticker::Ticker,
};

/// A trap's text at most. Function names are the component's own and may be as long as it likes.
const TRAP_BYTES_MAX: usize = 8 << 10;

/// What all calls into one component have in common.
pub(crate) struct Caller {
    pub(crate) identity: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) capacity: Capacity,
    pub(crate) ticker: Arc<Ticker>,
}

impl Caller {
    /// A store for one instance.
    pub(crate) fn store(&self, engine: &Engine) -> Store<Meter> {
        let mut store = Store::new(engine, Meter::new(&self.limits));
        store.limiter(|meter| meter);
        let ticker = Arc::clone(&self.ticker);
        store.epoch_deadline_callback(move |mut store| {
            if ticker.cuts_off() {
                return Ok(UpdateDeadline::Interrupt);
            }
            let now = ClockId::CLOCK_THREAD_CPUTIME_ID.now();
            Ok(now.map_or(UpdateDeadline::Interrupt, |now| {
                store.data_mut().tick(Duration::from(now))
            }))
        });
        // What may be lifted out of the guest in one call, so that the host never holds more than it will accept.
        let outputs = (OUTPUT_BYTES as u64).saturating_mul(self.limits.outputs_per_call);
        let lifted = self.limits.bytes_per_call.saturating_add(outputs);
        store.set_hostcall_fuel(lifted.try_into().unwrap_or(usize::MAX));
        store
    }

    /// Makes one call, which reads about `bytes`. After an error the store must not be used again.
    pub(crate) fn call<R>(
        &self,
        store: &mut Store<Meter>,
        what: &'static str,
        bytes: u64,
        call: impl FnOnce(&mut Store<Meter>) -> wasmtime::Result<R>,
    ) -> Result<R, CodecError> {
        let _span =
            debug_span!("transom.codec.call", component = %self.identity, call = what, bytes)
                .entered();
        let call_ms = self.limits.call_ms(bytes);
        store.data_mut().begin_call(call_ms);
        store.set_epoch_deadline(1);
        let running = self.ticker.run();
        let result = call(store);
        drop(running);
        result.map_err(|error| {
            let explained = self.explain(&error, store.data(), call_ms);
            debug!(component = %self.identity, call = what, ?error, "codec call failed");
            explained
        })
    }

    /// Refuses outputs beyond the limits.
    pub(crate) fn check(&self, outputs: &[Output]) -> Result<(), CodecError> {
        let count = outputs.len() as u64;
        if count > self.limits.outputs_per_call {
            return Err(CodecError::Limit {
                limit: "outputs_per_call",
                found: count,
                allowed: self.limits.outputs_per_call,
            });
        }
        self.check_bytes(outputs.iter().map(size).sum())
    }

    fn check_bytes(&self, found: u64) -> Result<(), CodecError> {
        let allowed = self.limits.bytes_per_call;
        if found > allowed {
            Err(CodecError::Limit { limit: "bytes_per_call", found, allowed })
        } else {
            Ok(())
        }
    }

    fn explain(&self, error: &wasmtime::Error, meter: &Meter, allowed: u64) -> CodecError {
        if let Some(Trap::Interrupt) = error.downcast_ref::<Trap>() {
            if self.ticker.cuts_off() && meter.spent_ms() <= allowed {
                return CodecError::Trap("cut off, because the host ends".to_owned());
            }
            // Stopped at the first look after the time was over, so there is always a little more.
            let found = meter.spent_ms().max(allowed.saturating_add(1));
            return CodecError::Limit { limit: "call_ms", found, allowed };
        }
        if let Some(refused) = meter.refused() {
            return CodecError::Limit {
                limit: refused.limit,
                found: refused.found,
                allowed: refused.allowed,
            };
        }
        if let (Some(PoolConcurrencyLimitError { .. }), Capacity::Pool { connections }) =
            (error.downcast_ref(), self.capacity)
        {
            let allowed = u64::from(connections);
            return CodecError::Limit { limit: "instances", found: allowed + 1, allowed };
        }
        let root = error.root_cause().to_string();
        if root.contains("fuel allocated for hostcalls") {
            // The engine stops before it knows how much there would have been.
            let allowed = self.limits.bytes_per_call;
            return CodecError::Limit {
                limit: "bytes_per_call",
                found: allowed.saturating_add(1),
                allowed,
            };
        }
        CodecError::Trap(trap(root, error.downcast_ref::<WasmBacktrace>()))
    }
}

/// The trap and where it happened.
fn trap(mut text: String, backtrace: Option<&WasmBacktrace>) -> String {
    if let Some(backtrace) = backtrace {
        let _ = write!(text, "\n{backtrace}");
    }
    if text.len() > TRAP_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TRAP_BYTES_MAX));
        text.push('…');
    }
    text
}

/// One connection's instance.
pub(crate) struct Instance {
    caller: Arc<Caller>,
    /// Nothing after a failed call: the store is closed for good, and its memory is given back at once.
    live: Option<Live>,
}

struct Live {
    store: Store<Meter>,
    connection: Connection,
}

impl Instance {
    pub(crate) fn new(
        caller: Arc<Caller>,
        store: Store<Meter>,
        connection: Connection,
    ) -> Instance {
        Instance { caller, live: Some(Live { store, connection }) }
    }

    /// Makes a call; the instance survives only a call that came back within its limits.
    fn call<R>(
        &mut self,
        what: &'static str,
        bytes: u64,
        call: impl FnOnce(&mut Store<Meter>, &Connection) -> wasmtime::Result<R>,
        check: impl FnOnce(&Caller, &R) -> Result<(), CodecError>,
    ) -> Result<R, CodecError> {
        let Some(Live { store, connection }) = &mut self.live else { return Err(CodecError::Gone) };
        let result = self.caller.call(store, what, bytes, |store| call(store, connection));
        let checked = result.and_then(|result| check(&self.caller, &result).map(|()| result));
        if checked.is_err() {
            self.live = None;
        }
        checked
    }
}

impl Codec for Instance {
    fn handle(&mut self, now: Millis, input: Input) -> Result<Vec<Output>, CodecError> {
        self.call(
            "handle",
            input_size(&input),
            |store, connection| connection.handle(store, now, &input),
            |caller, handled| handled.as_deref().map_or(Ok(()), |outputs| caller.check(outputs)),
        )?
        .map_err(CodecError::Fault)
    }

    fn suspend(&mut self) -> Result<Vec<u8>, CodecError> {
        // State comes from memory, so there is at most that much to read.
        self.call(
            "suspend",
            self.memory_bytes(),
            |store, connection| connection.suspend(store),
            |caller, state| caller.check_bytes(state.len() as u64),
        )
    }

    fn memory_bytes(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.store.data().memory_bytes())
    }
}

fn input_size(input: &Input) -> u64 {
    let bytes = match input {
        Input::Head(head) => head.fields.iter().map(|(name, value)| name.len() + value.len()).sum(),
        Input::Unit(unit) => unit.bytes.len(),
        Input::Frame(frame) => frame.body.len(),
        Input::End(ending) => ending.broken.as_ref().map_or(0, String::len),
        Input::Other(name, json) => name.len() + json.len(),
        Input::Skipped(_) | Input::Deadline | Input::Drain(_) => 0,
    };
    bytes as u64
}

fn size(output: &Output) -> u64 {
    let bytes = match output {
        Output::Head(head) => {
            head.fields.iter().map(|(name, value)| name.len() + value.len()).sum()
        }
        Output::Unit(unit) => unit.bytes.len(),
        Output::Frame(frame) => {
            let session = frame.session.as_ref().map_or(0, |session| session.as_str().len());
            let id = frame.id.as_ref().map_or(0, |id| id.as_str().len());
            session + id + frame.name.len() + frame.body.len()
        }
        Output::Close(closing) => closing.reason.len(),
        Output::Note(name, json) | Output::Other(name, json) => name.len() + json.len(),
        Output::End(_) | Output::Abort(_) | Output::Deadline(_) => 0,
    };
    bytes as u64
}
