//! The tables, and how a file is recognised as ours.
//! Opening files and locking them is `file.rs`.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};
use transom_harness::ports::StoreError;

/// `TRNS` in ASCII; tells our files from any other program's SQLite database.
pub(crate) const APPLICATION_ID: i32 = 0x5452_4E53;

/// Version of the tables below. A change that an older program would misread raises it.
pub(crate) const VERSION: i32 = 1;

/// `sessions.key` keeps event rows short; the id is any text (S-57). `events.text` is the whole envelope
/// exactly as it was appended: the other columns are copies for queries and repair.
const TABLES: &str = "
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    header TEXT NOT NULL,
    events INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions (key),
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    time INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE attachments (
    name TEXT PRIMARY KEY,
    media_type TEXT,
    bytes BLOB NOT NULL
) STRICT;
";

/// Says why a file is none of ours, if it is not.
pub(crate) fn recognise(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let read = || -> rusqlite::Result<(i32, i32)> {
        Ok((
            connection.pragma_query_value(None, "application_id", |row| row.get(0))?,
            connection.pragma_query_value(None, "user_version", |row| row.get(0))?,
        ))
    };
    match read().map_err(|error| unreadable(path, &error))? {
        (APPLICATION_ID, VERSION) => Ok(()),
        (APPLICATION_ID, version) => Err(StoreError::Foreign(format!(
            "the store {path:?} has version {version}, but this program reads only version {VERSION}: \
             use the program that wrote it, or name another file"
        ))),
        (application_id, _) => Err(StoreError::Foreign(format!(
            "{path:?} is another program's database (application id {application_id:#010x}), not a store: \
             name another file"
        ))),
    }
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::Foreign(format!(
            "{path:?} is not a store: it is no SQLite database at all; name another file"
        )),
        _ => StoreError::Io(format!("cannot read the store {path:?}: {error}")),
    }
}

/// Makes the tables and marks the file as ours, all or nothing.
pub(crate) fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}
