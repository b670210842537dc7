//! The store that a host keeps open by default: the port `Store`, over one database with one writer thread and
//! one reading connection. The parts are in `queue.rs`, `committing.rs`, `writer.rs` and `reader.rs`.

use std::{
    fmt,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
};

use transom_frame::SessionId;
use transom_harness::ports::{
    Append, Attachment, Attachments, Commit, Page, Sink, Store, StoreError, StoredSession,
};

use crate::{
    attachment, claims::Claims, committing::Committer, file, queue::Keep, reader::SqliteReader,
    writer::Writer,
};

/// Against what a reported commit is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process, however sudden. A power loss may take the last moments, and never more.
    #[default]
    Process,
    /// A power loss too: every commit waits for the disk.
    Power,
}

/// A store in one SQLite file. Several processes may have it open at once: a session belongs to the one
/// that stored its first event, and another that tries to begin the same session is told so.
pub struct SqliteStore {
    path: PathBuf,
    claims: Claims,
    committer: Committer,
    /// `None` once closed.
    reader: Mutex<Option<SqliteReader>>,
}

impl SqliteStore {
    /// Opens or makes the store at `path`, with its directory. Commits are reported to `sink`, in order,
    /// from the writer's thread.
    pub fn open(
        path: &Path,
        durability: Durability,
        sink: Sink<Commit>,
    ) -> Result<SqliteStore, StoreError> {
        SqliteStore::start(path, durability, None, sink)
    }

    /// Like [`open`](SqliteStore::open), for a database that may not grow beyond `pages_max` pages of
    /// 4096 bytes. A commit that would need more fails as it does on a full disk.
    pub fn open_bounded(
        path: &Path,
        durability: Durability,
        pages_max: u32,
        sink: Sink<Commit>,
    ) -> Result<SqliteStore, StoreError> {
        SqliteStore::start(path, durability, Some(pages_max), sink)
    }

    fn start(
        path: &Path,
        durability: Durability,
        pages_max: Option<u32>,
        sink: Sink<Commit>,
    ) -> Result<SqliteStore, StoreError> {
        file::prepare_directory(path)?;
        let mut made = false;
        if file::is_missing(path)? {
            let _making = file::lock(path)?;
            // Somebody else may have made it while this process waited.
            made = file::is_missing(path)?;
            if made {
                file::make(path)?;
            }
        }
        let connection = file::open_writer(path, durability, pages_max)?;
        let reader = SqliteReader::beside_writer(path)?;
        let claims = Claims::open(&file::sibling(path, ".lock"))?;
        let writer = Writer::new(connection, made.then(|| path.to_owned()));
        let committer = Committer::start(sink, move |queue, sink| writer.run(queue, sink))?;
        Ok(SqliteStore {
            path: path.to_owned(),
            claims,
            committer,
            reader: Mutex::new(Some(reader)),
        })
    }

    /// Writes a session as JSON lines; see [`SqliteReader::export`]. Other reads go on meanwhile.
    pub fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError> {
        self.with_reader(|_| Ok(()))?;
        SqliteReader::beside_writer(&self.path)?.export(id, out)
    }

    fn with_reader<T>(
        &self,
        read: impl FnOnce(&SqliteReader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &*guard(&self.reader) {
            Some(reader) => read(reader),
            None => Err(self.closed()),
        }
    }

    fn closed(&self) -> StoreError {
        StoreError::Io(format!("the store {:?} is closed", self.path))
    }
}

impl Attachments for SqliteStore {
    fn keep_attachment(
        &self,
        bytes: &[u8],
        media_type: Option<&str>,
    ) -> Result<String, StoreError> {
        let name = attachment::name(bytes)?;
        let known = self.with_reader(|reader| reader.knows_attachment(&name))?;
        if known.is_some_and(|has_media_type| has_media_type || media_type.is_none()) {
            return Ok(name);
        }
        let (done, kept) = mpsc::sync_channel(1);
        let keep = Keep {
            name: name.clone(),
            media_type: media_type.map(str::to_owned),
            bytes: bytes.to_vec(),
            done,
        };
        if self.committer.keep(keep).is_err() {
            return Err(self.closed());
        }
        kept.recv().unwrap_or_else(|_| Err(self.closed()))?;
        Ok(name)
    }

    fn attachment(&self, name: &str) -> Result<Option<Attachment>, StoreError> {
        attachment::verified(name, self.with_reader(|reader| reader.attachment(name))?)
    }
}

impl Store for SqliteStore {
    fn append(&self, events: Vec<Append>) {
        // Those that come too late are reported as failed.
        let _ = self.committer.append(events, || self.closed().to_string());
    }

    fn find(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.with_reader(|reader| reader.find(id))
    }

    fn claim(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.claims.claim(id)
    }

    fn release(&self, id: &SessionId) {
        self.claims.release(id);
    }

    fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError> {
        self.with_reader(|reader| reader.read(id, page))
    }

    fn list(&self) -> Result<Vec<StoredSession>, StoreError> {
        self.with_reader(SqliteReader::list)
    }

    fn titled(&self, id: &SessionId) -> Result<Option<Arc<str>>, StoreError> {
        self.with_reader(|reader| reader.titled(id))
    }

    /// Must not be called from the sink, whose thread it waits for.
    fn close(&self) -> Result<(), StoreError> {
        // The writer empties the write-ahead log, which it can only do when nobody reads from it.
        self.committer.close(|| drop(guard(&self.reader).take()))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, path = %self.path.display(), "the store was not closed in order");
        }
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is half done under these locks: each guards one handle.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
