//! Moving a connection to another version of its component, between two calls.
//! Choosing the version and counting what fails is left to the slot.

use std::sync::Arc;

use transom_frame::{Fault, FaultKind};
use transom_policy::Policy;

use crate::codec::{Codec, CodecError, CodecSource, Framing, Setup, Vacant};

/// Why a connection stayed where it was, or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
    /// The new version cannot take this connection over. The old one goes on.
    #[error("the new version does not resume: {0}")]
    Refused(CodecError),
    /// The old version could not even be suspended. The connection has ended; the effects say so.
    #[error("the old version does not suspend: {0}")]
    Suspend(CodecError),
}

/// What serves a connection.
#[derive(Clone)]
pub struct Serving {
    /// By which whoever made it knows it again.
    pub number: u64,
    /// The version of the component.
    pub source: Arc<dyn CodecSource>,
    /// JSON text of the door's options.
    pub options: Arc<str>,
    /// What it may send.
    pub policy: Arc<Policy>,
}

/// What a connection comes from, until the first call of the new version has gone well (decision 52).
pub(crate) struct Previous {
    pub(crate) version: Serving,
    pub(crate) state: Vec<u8>,
}

impl Previous {
    pub(crate) fn state_format(&self) -> u32 {
        self.version.source.manifest().state_format
    }
}

/// Resumes on `source` what `format` and `state` describe. A version that does not take up the format says so itself, and is
/// not to be told from one whose `resume` gives a fault: neither has failed. `vacant` is an instance that `source` has prepared.
pub(crate) fn resume(
    source: &dyn CodecSource,
    vacant: Option<Box<dyn Vacant>>,
    setup: &Setup,
    format: u32,
    state: &[u8],
) -> Result<Box<dyn Codec>, CodecError> {
    speaks(source, setup.framing)?;
    let resumes = &source.manifest().resumes;
    if !resumes.contains(&format) {
        let detail = format!("state format {format}, but {resumes:?} are resumed");
        return Err(CodecError::Fault(Fault::new(FaultKind::Unsupported, detail)));
    }
    match vacant {
        Some(vacant) => vacant.resume(setup, format, state),
        None => source.resume(setup, format, state),
    }
}

/// Whether a component takes units that are cut this way.
pub(crate) fn speaks(source: &dyn CodecSource, framing: Framing) -> Result<(), CodecError> {
    let framings = &source.manifest().framings;
    if framings.contains(&framing) {
        return Ok(());
    }
    Err(CodecError::Misuse(format!("framing {framing:?}, but {framings:?} are spoken")))
}

#[cfg(test)]
mod tests;
