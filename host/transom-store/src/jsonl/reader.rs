//! Looking at logs without changing them (`inspect` of L-73): sessions, events, the canonical export.
//! A torn end is passed over and stays where it is.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use transom_frame::SessionId;
use transom_harness::ports::{Attachment, Page, StoreError, StoredSession};

use super::{
    attachments,
    layout::{self, Encoding, Logs},
    line::Row,
    sessions::is_of,
    tail,
    walk::{self, Ends, Log, Scan},
};
use crate::canonical;

/// Logs of which is remembered what they hold, so that pages of one log are not each read from its front.
const KNOWN_MAX: usize = 64;

/// A view of the logs below a session root.
#[derive(Debug)]
pub struct JsonlReader {
    root: PathBuf,
    /// `None`: there were no logs yet that could tell.
    encoding: Option<Encoding>,
    known: Mutex<HashMap<PathBuf, Known>>,
}

#[derive(Debug)]
struct Known {
    identity: Identity,
    scan: Arc<Scan>,
}

/// A file as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl JsonlReader {
    /// Opens a session root for reading only.
    pub(crate) fn open(root: &Path) -> Result<JsonlReader, StoreError> {
        let encoding = Logs::of(root)?.encoding;
        Ok(JsonlReader { root: root.to_owned(), encoding, known: Mutex::default() })
    }

    /// A view of a root whose logs are known to be written so.
    pub(crate) fn known(root: &Path, encoding: Encoding) -> JsonlReader {
        JsonlReader { root: root.to_owned(), encoding: Some(encoding), known: Mutex::default() }
    }

    fn encoding(&self) -> Result<Encoding, StoreError> {
        match self.encoding {
            Some(encoding) => Ok(encoding),
            None => Ok(Logs::of(&self.root)?.encoding.unwrap_or(Encoding::Zstd)),
        }
    }

    /// The session of that id.
    pub fn find(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        let Some(path) = self.path(id)? else { return Ok(None) };
        let stored = tail::summary(&path, self.encoding()?)?;
        is_of(&path, &stored.id, id)?;
        Ok(Some(stored))
    }

    /// All sessions, the one with the newest event first. A log that cannot be read is named in the
    /// program's own log and left out: it must not hide the others.
    pub fn list(&self) -> Result<Vec<StoredSession>, StoreError> {
        self.list_with(&HashMap::new())
    }

    /// Like [`list`](JsonlReader::list), for somebody who knows how far some of the logs are committed.
    pub(crate) fn list_with(
        &self,
        committed: &HashMap<PathBuf, StoredSession>,
    ) -> Result<Vec<StoredSession>, StoreError> {
        let mut listed = Vec::new();
        let logs = Logs::of(&self.root)?;
        for path in logs.paths {
            let stored = match committed.get(&path) {
                Some(stored) => Ok(stored.clone()),
                None => tail::summary(&path, logs.encoding.unwrap_or(Encoding::Zstd)),
            };
            match stored {
                Ok(stored) => listed.push(stored),
                Err(error) => {
                    tracing::warn!(%error, log = %path.display(), "a session's log is not listed");
                }
            }
        }
        listed.sort_by(|a, b| {
            b.updated_at.cmp(&a.updated_at).then_with(|| a.id.as_str().cmp(b.id.as_str()))
        });
        Ok(listed)
    }

    /// A run of a session's events; none for a session that is not there.
    pub fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError> {
        let Some(path) = self.path(id)? else { return Ok(Vec::new()) };
        let encoding = self.encoding()?;
        let file = File::open(&path).map_err(|error| walk::failed(&path, &error))?;
        let scan = self.scan(&path, encoding, &file)?;
        is_of(&path, &scan.header.id, id)?;
        if let Ends::Corrupt(text) = &scan.ends {
            return Err(walk::refused(&path, text));
        }
        // Only the prefix that counts: what stands behind it may grow meanwhile.
        let end = match &scan.ends {
            Ends::Torn { keep, .. } if !keep.is_empty() => u64::MAX,
            _ => scan.reached.offset,
        };
        let end = end.min(file.metadata().map_err(|error| walk::failed(&path, &error))?.len());
        let log = Log { file: &file, path: &path, encoding, end };
        walk::page(log, walk::start(&scan.points, page.from), scan.reached.events, page)
    }

    /// Writes a session in the canonical form: the header line of L-76, then one event per line as it
    /// was appended. Returns how many events that were; `None`: there is no such session.
    ///
    /// All of it is one moment of the log. Of a damaged log, what can be read is written, and the error
    /// says where it stops (decision 45).
    pub fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError> {
        match self.path(id)? {
            Some(path) => export(&path, self.encoding()?, None, id, out).map(Some),
            None => Ok(None),
        }
    }

    /// The attachment of that name.
    pub fn attachment(&self, name: &str) -> Result<Option<Attachment>, StoreError> {
        attachments::read(&self.root, name)
    }

    /// The file of a session's log.
    pub fn path(&self, id: &SessionId) -> Result<Option<PathBuf>, StoreError> {
        layout::find(&self.root, self.encoding()?, id)
    }

    fn scan(&self, path: &Path, encoding: Encoding, file: &File) -> Result<Arc<Scan>, StoreError> {
        let failed = |error: io::Error| walk::failed(path, &error);
        let identity = Identity::of(file).map_err(failed)?;
        let known = |known: &HashMap<PathBuf, Known>| {
            let known = known.get(path).filter(|known| known.identity == identity)?;
            Some(Arc::clone(&known.scan))
        };
        // Nothing under this lock can be half done: entries go in and out whole.
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scan) = known(&lock()) {
            return Ok(scan);
        }
        let log = Log { file, path, encoding, end: identity.length };
        let scan = Arc::new(walk::scan(log, &mut |_| Ok(()))?);
        let mut all = lock();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        all.insert(path.to_owned(), Known { identity, scan: Arc::clone(&scan) });
        Ok(scan)
    }
}

impl Identity {
    fn of(file: &File) -> io::Result<Identity> {
        let found = file.metadata()?;
        Ok(Identity {
            device: found.dev(),
            inode: found.ino(),
            length: found.len(),
            changed: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// Writes a log in the canonical form; see [`JsonlReader::export`]. Bytes behind `end` do not count.
pub(crate) fn export(
    path: &Path,
    encoding: Encoding,
    end: Option<u64>,
    id: &SessionId,
    out: &mut dyn Write,
) -> Result<u64, StoreError> {
    let failed = |error| walk::failed(path, &error);
    let unwritten =
        |error: io::Error| StoreError::Io(format!("cannot write the export of \"{id}\": {error}"));
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let log = Log { file: &file, path, encoding, end: end.unwrap_or(length).min(length) };

    let header = walk::header(log)?;
    is_of(path, &header.id, id)?;
    // It was parsed as one just now.
    let first = canonical::header(&header.text).unwrap_or(header.text);
    writeln!(out, "{first}").map_err(unwritten)?;
    let scan = walk::scan(log, &mut |row| match row {
        Row::Event { text, .. } => writeln!(out, "{text}").map_err(unwritten),
        Row::Packed(packed) => {
            packed.texts().try_for_each(|text| writeln!(out, "{text}")).map_err(unwritten)
        }
    })?;
    out.flush().map_err(unwritten)?;
    let events = scan.reached.events;
    match scan.ends {
        Ends::Whole | Ends::Torn { .. } => Ok(events),
        Ends::Corrupt(text) => Err(walk::refused(
            path,
            &format!("the export of session \"{id}\" stops after {events} events: {text}"),
        )),
    }
}
