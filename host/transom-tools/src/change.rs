//! The course of every change to a file, whichever tool makes it: may it be changed, what does it hold, has the session
//! seen that, and the change itself (L-99, P-40). What is put there is the tool's.

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
    sync::MutexGuard,
};

use crate::{
    fence::{Bounds, Spot},
    files::{self, Files, Verb, cannot, check_observed, refused, replace, version},
    tool::{Call, ToolError},
};

/// A change that may be made, to a file that no other call of this host changes meanwhile.
pub(crate) struct Change<'a> {
    call: &'a Call,
    bounds: &'a Bounds,
    verb: Verb,
    path: PathBuf,
    real: PathBuf,
    spot: Spot,
    _changing: Option<MutexGuard<'a, ()>>,
}

/// What the file held when the change began; the session has seen it.
pub(crate) struct Seen {
    pub(crate) content: Vec<u8>,
    metadata: Metadata,
}

impl<'a> Change<'a> {
    /// Begins one. What is to be written may be missing, with directories above it, which are made.
    pub(crate) fn begin(
        call: &'a Call,
        files: &'a Files,
        bounds: &'a Bounds,
        verb: Verb,
        path: PathBuf,
    ) -> Result<Change<'a>, ToolError> {
        bounds.may_change(verb, &path)?;
        let real = bounds.resolve(verb, &path)?;
        let changing = files.lock(&real);
        // It may have had to wait.
        if call.abort.is_set() {
            return Err(ToolError::aborted());
        }
        let spot = bounds.reach(verb, &path, &real, verb == Verb::Write)?;
        Ok(Change { call, bounds, verb, path, real, spot, _changing: changing })
    }

    /// The file, as the call named it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anything has the name.
    pub(crate) fn exists(&self) -> Result<bool, ToolError> {
        let found = self.spot.metadata();
        Ok(found.map_err(|error| refused(self.verb, &self.path, &error))?.is_some())
    }

    /// What the file holds; an error if the session has seen something else, or nothing.
    pub(crate) fn seen(&self) -> Result<Seen, ToolError> {
        let Change { call, bounds, verb, path, real, spot, .. } = self;
        let (content, metadata) = files::content(bounds, *verb, path, spot, &call.abort)?;
        check_observed(call, *verb, path, real, &content)?;
        Ok(Seen { content, metadata })
    }

    /// Puts a new text in some places of what was seen, each so many bytes long; gives the file, as the call named it.
    pub(crate) fn exchange(
        self,
        seen: &Seen,
        places: &[usize],
        old_bytes: usize,
        new: &[u8],
    ) -> Result<PathBuf, ToolError> {
        let content = &seen.content;
        let mut changed = Vec::with_capacity(content.len() + places.len() * new.len());
        let mut from = 0;
        for at in places {
            changed.extend_from_slice(content.get(from..*at).unwrap_or_default());
            changed.extend_from_slice(new);
            from = at + old_bytes;
        }
        changed.extend_from_slice(content.get(from..).unwrap_or_default());
        if changed.len() as u64 > files::CONTENT_BYTES_MAX {
            let why = format!("file would be larger than {} bytes", files::CONTENT_BYTES_MAX);
            return Err(cannot(self.verb, &self.path, &why));
        }
        self.put(Some(seen), &changed)
    }

    /// Puts content in the place of what was seen, or where nothing is; gives the file, as the call named it.
    pub(crate) fn put(self, seen: Option<&Seen>, content: &[u8]) -> Result<PathBuf, ToolError> {
        let Change { call, verb, path, real, spot, .. } = self;
        replace(verb, &path, &spot, content, seen.map(|seen| &seen.metadata))?;
        call.ticket.observe(real, version(content));
        Ok(path)
    }
}
