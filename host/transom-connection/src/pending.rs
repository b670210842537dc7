//! Requests that wait for their answer, in one direction.
//! What is asked and answered is left to both ends.

use std::{collections::HashMap, sync::Arc};

use transom_frame::{Frame, FrameId};

/// The longest id of a request. Codecs count or echo their peer's id; a UUID has 36 bytes, and peers that pack a
/// trace into an id stay below 200.
pub const FRAME_ID_BYTES_MAX: usize = 256;

/// Which requests are under way. Every one gets exactly one answer (decision 20).
#[derive(Debug, Default)]
pub(crate) struct Pending {
    names: HashMap<FrameId, Arc<str>>,
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether another request would be one too many.
    pub(crate) fn is_full(&self, requests_max: u64) -> bool {
        u64::try_from(self.names.len()).is_ok_and(|requests| requests >= requests_max)
    }

    pub(crate) fn contains(&self, id: &FrameId) -> bool {
        self.names.contains_key(id)
    }

    pub(crate) fn begin(&mut self, id: FrameId, name: Arc<str>) {
        self.names.insert(id, name);
    }

    /// Takes the request that this frame answers. Both its id and its name have to be echoed.
    pub(crate) fn settle(&mut self, answer: &Frame) -> bool {
        let Some(id) = &answer.id else { return false };
        if self.names.get(id).is_some_and(|name| *name == answer.name) {
            self.names.remove(id);
            return true;
        }
        false
    }
}
