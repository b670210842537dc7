//! The store of JSON lines: one log for each session below a session root, as L-73 to L-78 have it.
//! The parts: `layout.rs` (names), `line.rs` and `pack.rs` (rows), `frames.rs` (compression), `walk.rs`
//! (reading), `log.rs` (files), `sessions.rs` (who has what), `writer.rs` (batches).
//!
//! # When a log is mended
//!
//! `claim` is the load of L-78. It takes the session's lock, reads all of its log, refuses one whose committed part
//! is damaged, and cuts off a torn end, whose bytes go to a file `torn-<n>` beside the log (L-82). `find`, `read`,
//! `list` and the export are its inspect: they pass a torn end over and change nothing. A session that nobody has
//! claimed is claimed with its first append, so that a log has one writer whatever the host does. A session that is
//! released while events of it wait goes once they are stored.
//!
//! # What is durable when
//!
//! With [`Durability::Power`] an append is written and synced and then reported; what fails is cut off again. With
//! [`Durability::Process`] it is written, reported and then synced, before anything else is written. New logs are
//! synced before they are reported in either case.

mod attachments;
mod frames;
mod layout;
mod line;
mod log;
mod pack;
mod reader;
mod sessions;
mod tail;
mod walk;
mod writer;

use std::{
    fmt,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use transom_frame::SessionId;
use transom_harness::ports::{
    Append, Attachment, Attachments, Commit, Page, Sink, Store, StoreError, StoredSession,
};

pub use reader::JsonlReader;

use self::{
    layout::{Encoding, Logs},
    sessions::Sessions,
    walk::Log,
    writer::Writer,
};
use crate::{
    Durability, attachment,
    committing::{self, Committer},
    file,
};

/// How a [`JsonlStore`] writes. It reads whatever of it was written with other settings, but for the compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonlOptions {
    /// Zstandard frames in `session.jsonl.zstd` instead of plain lines in `session.jsonl`.
    pub compressed: bool,
    /// Runs of deltas become one row (L-76).
    pub packed: bool,
    /// Against what a reported commit is safe.
    pub durability: Durability,
}

impl Default for JsonlOptions {
    fn default() -> JsonlOptions {
        JsonlOptions { compressed: true, packed: true, durability: Durability::Process }
    }
}

/// A store of one log for each session. Several processes may have one root open; each session is one's own.
pub struct JsonlStore {
    root: PathBuf,
    sessions: Arc<Sessions>,
    /// For sessions that this process does not have.
    reader: JsonlReader,
    committer: Committer,
    is_closed: AtomicBool,
}

impl JsonlStore {
    /// Opens or makes the session root `root`. Commits are reported to `commits`, in order, from the writer's
    /// thread. Refuses a root with logs of the other encoding or in the flat layout (L-77).
    pub fn open(
        root: &Path,
        options: JsonlOptions,
        commits: Sink<Commit>,
    ) -> Result<JsonlStore, StoreError> {
        let JsonlOptions { compressed, packed, durability } = options;
        let encoding = Encoding::of(compressed);
        file::make_directory(root)?;
        Logs::written_as(root, encoding)?;
        let sessions = Arc::new(Sessions::open(root, encoding)?);
        let mut writer = Writer::new(Arc::clone(&sessions), packed, durability);
        let committer = Committer::start(commits, move |queue, sink| {
            committing::drive(queue, sink, &mut writer);
            Ok(())
        })?;
        Ok(JsonlStore {
            root: root.to_owned(),
            sessions,
            reader: JsonlReader::known(root, encoding),
            committer,
            is_closed: AtomicBool::new(false),
        })
    }

    /// The file of a session's log. `None`: nothing of it is stored.
    pub fn session_file(&self, id: &SessionId) -> Option<PathBuf> {
        self.sessions.end(id).map(|end| end.path).or_else(|| self.reader.path(id).ok().flatten())
    }

    /// Writes a session in the canonical form; see [`JsonlReader::export`].
    pub fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError> {
        self.check_open()?;
        match self.sessions.end(id) {
            Some(end) => {
                let Sessions { encoding, .. } = &*self.sessions;
                reader::export(&end.path, *encoding, Some(end.reached.offset), id, out).map(Some)
            }
            None => self.reader.export(id, out),
        }
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::Acquire) { Err(self.closed()) } else { Ok(()) }
    }

    fn closed(&self) -> StoreError {
        StoreError::Io(format!("the store {:?} is closed", self.root))
    }
}

impl Attachments for JsonlStore {
    fn keep_attachment(
        &self,
        bytes: &[u8],
        media_type: Option<&str>,
    ) -> Result<String, StoreError> {
        self.check_open()?;
        attachments::keep(&self.root, bytes, media_type)
    }

    fn attachment(&self, name: &str) -> Result<Option<Attachment>, StoreError> {
        self.check_open()?;
        attachment::verified(name, self.reader.attachment(name)?)
    }
}

impl Store for JsonlStore {
    fn append(&self, events: Vec<Append>) {
        self.sessions.wait_for(&events);
        if let Err(refused) = self.committer.append(events, || self.closed().to_string()) {
            self.sessions.settle(refused.iter());
        }
    }

    fn find(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.check_open()?;
        match self.sessions.stored(id) {
            Some(stored) => Ok(Some(stored)),
            None => self.reader.find(id),
        }
    }

    /// Takes up the session's log as well: see the module's text.
    fn claim(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.check_open()?;
        self.sessions.claim(id)
    }

    fn release(&self, id: &SessionId) {
        self.sessions.release(id);
    }

    fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError> {
        self.check_open()?;
        let Some((end, start)) = self.sessions.reading(id, page.from) else {
            return self.reader.read(id, page);
        };
        let path = &end.path;
        let file = File::open(path).map_err(|error| walk::failed(path, &error))?;
        let (encoding, reached) = (self.sessions.encoding, end.reached);
        let log = Log { file: &file, path, encoding, end: reached.offset };
        walk::page(log, start, reached.events, page)
    }

    fn list(&self) -> Result<Vec<StoredSession>, StoreError> {
        self.check_open()?;
        self.reader.list_with(&self.sessions.all_stored())
    }

    /// Must not be called from the sink, whose thread it waits for.
    fn close(&self) -> Result<(), StoreError> {
        self.committer.close(|| self.is_closed.store(true, Ordering::Release))?;
        self.sessions.release_all();
        Ok(())
    }
}

impl fmt::Debug for JsonlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonlStore").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Drop for JsonlStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, root = %self.root.display(), "the store was not closed in order");
        }
    }
}
