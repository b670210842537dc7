//! Looking at a store: sessions, events, attachments, and the canonical export (decision 2).
//! Reads never wait for the writer, and a store that another process has open, or left behind when it
//! was killed, can be read as well.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use transom_frame::SessionId;
use transom_harness::ports::{Page, StoreError, StoredSession};

use crate::{file, header, schema};

/// A read-only view of a store.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    path: PathBuf,
}

/// Bytes that were kept under the name of their digest (S-58).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// For example `image/png`; `None` if nobody said.
    pub media_type: Option<String>,
    /// The bytes themselves.
    pub bytes: Vec<u8>,
}

/// Opens a store for reading only, without taking its lock.
///
/// What a killed process had committed is seen; nothing in the database itself is changed.
pub fn open_read_only(path: &Path) -> Result<Reader, StoreError> {
    if file::is_missing(path)? {
        return Err(StoreError::Io(format!("there is no store {path:?}")));
    }
    let reader = Reader::beside_writer(path)?;
    schema::recognise(&reader.connection, path)?;
    Ok(reader)
}

impl Reader {
    /// A view of a store that this process has just opened, and so knows.
    pub(crate) fn beside_writer(path: &Path) -> Result<Reader, StoreError> {
        Ok(Reader { connection: file::open_reader(path)?, path: path.to_owned() })
    }

    /// The session of that id.
    pub fn find(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        let find = || {
            self.connection
                .prepare_cached(
                    "SELECT id, header, events, updated_at FROM sessions WHERE id = ?1",
                )?
                .query_row([id.as_str()], stored_session)
                .optional()
        };
        find().map_err(|error| self.failed(&error))
    }

    /// All sessions, the one with the newest event first.
    pub fn list(&self) -> Result<Vec<StoredSession>, StoreError> {
        let list = || {
            self.connection
                .prepare_cached("SELECT id, header, events, updated_at FROM sessions ORDER BY updated_at DESC, key")?
                .query_map([], stored_session)?
                .collect::<rusqlite::Result<Vec<_>>>()
        };
        list().map_err(|error| self.failed(&error))
    }

    /// Events `from..from + limit` of a session; none for a session that is not there.
    pub fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError> {
        let Page { from, limit, bytes_max } = page;
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT text FROM events WHERE session = (SELECT key FROM sessions WHERE id = ?1)
                 AND seq >= ?2 ORDER BY seq LIMIT ?3",
            )?;
            let mut rows = statement.query(params![id.as_str(), signed(from), signed(limit)])?;
            let mut texts: Vec<Arc<str>> = Vec::new();
            let mut bytes: u64 = 0;
            while bytes < bytes_max
                && let Some(row) = rows.next()?
            {
                let text: Arc<str> = text(row, 0)?;
                bytes = bytes.saturating_add(text.len() as u64);
                texts.push(text);
            }
            rusqlite::Result::Ok(texts)
        };
        read().map_err(|error| self.failed(&error))
    }

    /// The attachment of that name.
    pub fn attachment(&self, name: &str) -> Result<Option<Attachment>, StoreError> {
        let read = || {
            self.connection
                .prepare_cached("SELECT media_type, bytes FROM attachments WHERE name = ?1")?
                .query_row([name], |row| {
                    Ok(Attachment { media_type: row.get(0)?, bytes: row.get(1)? })
                })
                .optional()
        };
        read().map_err(|error| self.failed(&error))
    }

    /// Whether an attachment is there, and if so whether its media type is known.
    pub(crate) fn knows_attachment(&self, name: &str) -> Result<Option<bool>, StoreError> {
        let read = || {
            self.connection
                .prepare_cached("SELECT media_type IS NOT NULL FROM attachments WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()
        };
        read().map_err(|error| self.failed(&error))
    }

    /// Writes a session in the canonical form: the header line of L-76, then one event per line as it
    /// was appended. Returns how many events that were; `None`: there is no such session.
    ///
    /// All of it is one moment of the log, however long the writing takes.
    pub fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError> {
        let snapshot =
            self.connection.unchecked_transaction().map_err(|error| self.failed(&error))?;
        let Some(session) = self.find(id)? else { return Ok(None) };
        let Some(first) = header::line(&session.header) else {
            return Err(StoreError::Io(format!(
                "the stored header of session \"{id}\" in {:?} is not a JSON object",
                self.path
            )));
        };
        let unwritten = |error: std::io::Error| {
            StoreError::Io(format!("cannot write the export of \"{id}\": {error}"))
        };
        writeln!(out, "{first}").map_err(unwritten)?;

        let mut statement = snapshot
            .prepare_cached(
                "SELECT text FROM events WHERE session = (SELECT key FROM sessions WHERE id = ?1) ORDER BY seq",
            )
            .map_err(|error| self.failed(&error))?;
        let mut rows = statement.query([id.as_str()]).map_err(|error| self.failed(&error))?;
        let mut events = 0;
        while let Some(row) = rows.next().map_err(|error| self.failed(&error))? {
            let text = text(row, 0).map_err(|error| self.failed(&error))?;
            // A line break in JSON text can only stand between tokens, where a space says the same.
            let line = text.replace(['\n', '\r'], " ");
            writeln!(out, "{line}").map_err(unwritten)?;
            events += 1;
        }
        out.flush().map_err(unwritten)?;
        Ok(Some(events))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::Io(format!("cannot read the store {:?}: {error}", self.path))
    }
}

fn stored_session(row: &Row<'_>) -> rusqlite::Result<StoredSession> {
    Ok(StoredSession {
        id: SessionId::new(text(row, 0)?),
        header: row.get(1)?,
        events: row.get(2)?,
        updated_at: row.get(3)?,
    })
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Arc<str>> {
    Ok(Arc::from(row.get_ref(column)?.as_str()?))
}

/// SQLite has no unsigned numbers; nothing that is stored lies above the signed ones.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
