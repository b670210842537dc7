//! Looking at a database: sessions, events, attachments, and the canonical export (decision 2); and at whichever
//! store is in a place. Reads never wait for the writer, and a store that another process has open, or left behind
//! when it was killed, can be read as well.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};
use transom_frame::SessionId;
use transom_harness::ports::{Attachment, Page, StoreError, StoredSession};

use crate::{JsonlReader, canonical, file, schema};

/// A read-only view of a store, whichever it is.
#[derive(Debug)]
pub enum Reader {
    /// Of one database.
    Sqlite(SqliteReader),
    /// Of the logs below a session root.
    Jsonl(JsonlReader),
}

/// A read-only view of a database.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
    path: PathBuf,
}

/// Opens a store for reading only, without taking any lock: a directory is a session root of JSON lines, a file is a
/// database.
///
/// What a killed process had committed is seen; nothing in the store itself is changed.
pub fn open_read_only(path: &Path) -> Result<Reader, StoreError> {
    if path.is_dir() {
        return JsonlReader::open(path).map(Reader::Jsonl);
    }
    if file::is_missing(path)? {
        return Err(StoreError::Io(format!("there is no store {path:?}")));
    }
    let reader = SqliteReader::beside_writer(path)?;
    schema::recognise(&reader.connection, path)?;
    Ok(Reader::Sqlite(reader))
}

impl Reader {
    /// The session of that id.
    pub fn find(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        match self {
            Reader::Sqlite(reader) => reader.find(id),
            Reader::Jsonl(reader) => reader.find(id),
        }
    }

    /// All sessions, the one with the newest event first.
    pub fn list(&self) -> Result<Vec<StoredSession>, StoreError> {
        match self {
            Reader::Sqlite(reader) => reader.list(),
            Reader::Jsonl(reader) => reader.list(),
        }
    }

    /// A run of a session's events; none for a session that is not there.
    pub fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError> {
        match self {
            Reader::Sqlite(reader) => reader.read(id, page),
            Reader::Jsonl(reader) => reader.read(id, page),
        }
    }

    /// The attachment of that name.
    pub fn attachment(&self, name: &str) -> Result<Option<Attachment>, StoreError> {
        match self {
            Reader::Sqlite(reader) => reader.attachment(name),
            Reader::Jsonl(reader) => reader.attachment(name),
        }
    }

    /// Writes a session in the canonical form: the header line of L-76, then one event per line as it
    /// was appended. Returns how many events that were; `None`: there is no such session.
    ///
    /// All of it is one moment of the log, however long the writing takes. Of a damaged log, what can be read is
    /// written, and the error says where it stops (decision 45).
    pub fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError> {
        match self {
            Reader::Sqlite(reader) => reader.export(id, out),
            Reader::Jsonl(reader) => reader.export(id, out),
        }
    }
}

impl SqliteReader {
    /// A view of a store that this process has just opened, and so knows.
    pub(crate) fn beside_writer(path: &Path) -> Result<SqliteReader, StoreError> {
        Ok(SqliteReader { connection: file::open_reader(path)?, path: path.to_owned() })
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
        find().map_err(|error| self.failed(&format!("session \"{id}\""), &error))
    }

    /// All sessions, the one with the newest event first.
    pub fn list(&self) -> Result<Vec<StoredSession>, StoreError> {
        let list = || {
            self.connection
                .prepare_cached("SELECT id, header, events, updated_at FROM sessions ORDER BY updated_at DESC, key")?
                .query_map([], stored_session)?
                .collect::<rusqlite::Result<Vec<_>>>()
        };
        list().map_err(|error| self.failed("the list of sessions", &error))
    }

    /// The last `session/title` event of a session, if there is one.
    pub fn titled(&self, id: &SessionId) -> Result<Option<Arc<str>>, StoreError> {
        let find = || {
            self.connection
                .prepare_cached(
                    "SELECT text FROM events WHERE session = (SELECT key FROM sessions WHERE id = ?1)
                     AND type = 'session/title' ORDER BY seq DESC LIMIT 1",
                )?
                .query_row([id.as_str()], |row| row.get::<_, String>(0))
                .optional()
        };
        let found = find().map_err(|error| self.failed(&format!("session \"{id}\""), &error))?;
        Ok(found.map(Into::into))
    }

    /// Events `from..from + limit` of a session; none for a session that is not there.
    pub fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError> {
        // Both questions are about one moment of the log.
        let _snapshot = self.snapshot(id)?;
        let Some(session) = self.find(id)? else { return Ok(Vec::new()) };
        let (mut texts, mut bytes): (Vec<Arc<str>>, u64) = (Vec::new(), 0);
        let limit = page.limit.min(session.events.saturating_sub(page.from));
        if limit == 0 || page.bytes_max == 0 {
            return Ok(texts);
        }
        self.each_event(id, page.from, page.from + limit, &mut |text| {
            bytes = bytes.saturating_add(text.len() as u64);
            texts.push(text.into());
            Ok(bytes < page.bytes_max)
        })?;
        Ok(texts)
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
        read().map_err(|error| self.failed(&format!("attachment {name}"), &error))
    }

    /// Whether an attachment is there, and if so whether its media type is known.
    pub(crate) fn knows_attachment(&self, name: &str) -> Result<Option<bool>, StoreError> {
        let read = || {
            self.connection
                .prepare_cached("SELECT media_type IS NOT NULL FROM attachments WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()
        };
        read().map_err(|error| self.failed(&format!("attachment {name}"), &error))
    }

    /// Writes a session in the canonical form; see [`Reader::export`].
    pub fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError> {
        let _snapshot = self.snapshot(id)?;
        let Some(session) = self.find(id)? else { return Ok(None) };
        let Some(first) = canonical::header(&session.header) else {
            return Err(StoreError::Io(format!(
                "the stored header of session \"{id}\" in {:?} is not a JSON object",
                self.path
            )));
        };
        let unwritten = |error: std::io::Error| {
            StoreError::Io(format!("cannot write the export of \"{id}\": {error}"))
        };
        writeln!(out, "{first}").map_err(unwritten)?;
        let mut written: u64 = 0;
        let all = self.each_event(id, 0, session.events, &mut |text| {
            writeln!(out, "{}", canonical::one_line(text)).map_err(unwritten)?;
            written += 1;
            Ok(true)
        });
        // What could be read is there even if the rest could not.
        out.flush().map_err(unwritten)?;
        all.map(|()| Some(written)).map_err(|error| {
            StoreError::Io(format!(
                "the export of session \"{id}\" stops after {written} events: {error}"
            ))
        })
    }

    /// Gives away the events `from..to`, which must all be there, for as long as more are wanted.
    fn each_event(
        &self,
        id: &SessionId,
        from: u64,
        to: u64,
        take: &mut dyn FnMut(&str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut seq = from;
        let failed = |seq: u64, error: rusqlite::Error| {
            self.failed(&format!("session \"{id}\" at seq {seq}"), &error)
        };
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT seq, text FROM events WHERE session = (SELECT key FROM sessions WHERE id = ?1)
                 AND seq >= ?2 AND seq < ?3 ORDER BY seq",
            )
            .map_err(|error| failed(seq, error))?;
        let mut rows = statement
            .query(params![id.as_str(), signed(from), signed(to)])
            .map_err(|error| failed(seq, error))?;
        while seq < to {
            let row = rows.next().map_err(|error| failed(seq, error))?;
            let found =
                row.map(|row| row.get(0)).transpose().map_err(|error| failed(seq, error))?;
            let Some(row) = row.filter(|_| found == Some(seq)) else {
                let found = match found {
                    Some(found) => format!("the next one that is there has seq {found}"),
                    None => "nothing is there behind it either".to_owned(),
                };
                return Err(StoreError::Io(format!(
                    "the store {:?} is damaged: session \"{id}\" has no event at seq {seq}, though {to} were \
                     stored; {found}",
                    self.path
                )));
            };
            let text = row.get_ref(1).map_err(|error| failed(seq, error))?;
            let text = text.as_str().map_err(|error| failed(seq, error.into()))?;
            if !take(text)? {
                break;
            }
            seq += 1;
        }
        Ok(())
    }

    fn snapshot(&self, id: &SessionId) -> Result<rusqlite::Transaction<'_>, StoreError> {
        self.connection
            .unchecked_transaction()
            .map_err(|error| self.failed(&format!("session \"{id}\""), &error))
    }

    fn failed(&self, what: &str, error: &rusqlite::Error) -> StoreError {
        let path = &self.path;
        StoreError::Io(match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                format!("the store {path:?} is damaged, found while reading {what}: {error}")
            }
            _ => format!("cannot read {what} in the store {path:?}: {error}"),
        })
    }
}

fn stored_session(row: &Row<'_>) -> rusqlite::Result<StoredSession> {
    Ok(StoredSession {
        id: SessionId::new(row.get_ref(0)?.as_str()?),
        header: row.get(1)?,
        events: row.get(2)?,
        updated_at: row.get(3)?,
    })
}

/// SQLite has no unsigned numbers; nothing that is stored lies above the signed ones.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
