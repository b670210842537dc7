//! A component version that is ready to serve: the source of its instances.
//! How one got here is told in `sandbox.rs`, what an instance does in `instance.rs`.

use std::{fmt, sync::Arc};

use transom_connection::codec::{Codec, CodecError, CodecSource, Manifest, Output, Setup, Vacant};
use wasmtime::Store;

use crate::{
    error::LoadError,
    instance::{Caller, Instance},
    limits::{Limits, Meter},
    sandbox::Capacity,
    since_0_1::{Bare, Exports},
    ticker::Ticker,
};

/// A loaded component. Shared by all connections that it serves, from any thread.
pub struct Component {
    manifest: Manifest,
    exports: Exports<Meter>,
    caller: Arc<Caller>,
}

impl Component {
    pub(crate) fn new(
        exports: Exports<Meter>,
        identity: Arc<str>,
        limits: Limits,
        capacity: Capacity,
        ticker: Arc<Ticker>,
    ) -> Result<Component, LoadError> {
        let caller = Arc::new(Caller { identity, limits, capacity, ticker });
        let mut store = caller.store(exports.engine());
        let described = caller.call(&mut store, "describe", 0, |store| exports.describe(store));
        let manifest = described.map_err(LoadError::Describe)?;
        if manifest.protocol.is_empty() {
            return Err(LoadError::Manifest { problem: "no protocol name" });
        }
        if manifest.framings.is_empty() {
            return Err(LoadError::Manifest {
                problem: "no framing, so no wire could be cut for it",
            });
        }
        Ok(Component { manifest, exports, caller })
    }

    /// The limits of each instance.
    pub fn limits(&self) -> Limits {
        self.caller.limits
    }

    fn empty(&self) -> Result<Empty, CodecError> {
        let mut store = self.caller.store(self.exports.engine());
        let made =
            self.caller.call(&mut store, "instantiate", 0, |store| self.exports.instance(store));
        made.map(|bare| Empty { caller: Arc::clone(&self.caller), store, bare })
    }
}

impl CodecSource for Component {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn identity(&self) -> Arc<str> {
        Arc::clone(&self.caller.identity)
    }

    fn open(&self, setup: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError> {
        let mut store = self.caller.store(self.exports.engine());
        let opened = self
            .caller
            .call(&mut store, "open", size(setup), |store| self.exports.open(store, setup))?;
        let (connection, outputs) = opened.map_err(CodecError::Fault)?;
        self.caller.check(&outputs)?;
        Ok((Box::new(Instance::new(Arc::clone(&self.caller), store, connection)), outputs))
    }

    fn resume(
        &self,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> Result<Box<dyn Codec>, CodecError> {
        Box::new(self.empty()?).resume(setup, format, state)
    }

    fn prepare(&self) -> Result<Option<Box<dyn Vacant>>, CodecError> {
        Ok(Some(Box::new(self.empty()?)))
    }
}

/// An instance that waits for its connection.
struct Empty {
    caller: Arc<Caller>,
    store: Store<Meter>,
    bare: Bare,
}

impl Vacant for Empty {
    fn resume(
        self: Box<Self>,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> Result<Box<dyn Codec>, CodecError> {
        let Empty { caller, mut store, bare } = *self;
        let bytes = size(setup) + state.len() as u64;
        let resumed = caller
            .call(&mut store, "resume", bytes, |store| bare.resume(store, setup, format, state))?;
        let connection = resumed.map_err(CodecError::Fault)?;
        Ok(Box::new(Instance::new(caller, store, connection)))
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Component").field(&self.caller.identity).finish()
    }
}

fn size(setup: &Setup) -> u64 {
    let facts: usize = setup.facts.iter().map(|(name, value)| name.len() + value.len()).sum();
    (setup.options.len() + facts) as u64
}
