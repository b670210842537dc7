//! The store's file on disk: its directory, its mode, how it is made once, and the connections to it.
//! What is inside the file is `schema.rs`.

use std::{
    fmt::Display,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use transom_harness::ports::StoreError;

use crate::{schema, sqlite::Durability};

/// How long to wait while another process commits, or a shell that looks into the database holds it. Shorter than the five seconds after which a shutdown is cut off.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// Pages in the write-ahead log before they are moved into the database: 16 MiB. Each move syncs the
/// disk, so a small number makes a busy host stutter; a large one makes the first open after a crash slow.
const WAL_PAGES_MAX: i64 = 4096;

/// Bytes to which the write-ahead log's file is cut back once it is empty.
const WAL_FILE_BYTES_MAX: i64 = 64 * 1024 * 1024;

/// Keeps other processes from making the store meanwhile; released on drop, or by the kernel when the
/// process dies.
#[derive(Debug)]
pub(crate) struct Making {
    _file: File,
}

/// Waits until nobody else is making this store, which takes milliseconds.
///
/// Only the making is exclusive: afterwards any number of processes share the file, and each appends to
/// the sessions that it opened itself. The lock is on a file of its own because SQLite locks the database
/// by byte ranges, which any close of that file by this process would drop.
pub(crate) fn lock(path: &Path) -> Result<Making, StoreError> {
    let beside = sibling(path, ".lock");
    let failed = |error| StoreError::Io(format!("cannot lock {beside:?}: {error}"));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&beside)
        .map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(Making { _file: file })
}

/// Makes the directory of the store, for its owner alone, where it is missing.
pub(crate) fn prepare_directory(path: &Path) -> Result<(), StoreError> {
    directory(path).map_or(Ok(()), make_directory)
}

/// Makes a directory, for its owner alone, where it is missing.
pub(crate) fn make_directory(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        StoreError::Io(format!("cannot make the store's directory {path:?}: {error}"))
    })
}

/// Whether a store is still to be made: there is no file, or one without a byte.
pub(crate) fn is_missing(path: &Path) -> Result<bool, StoreError> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.is_file() && found.len() == 0),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(StoreError::Io(format!("cannot open the store {path:?}: {error}"))),
    }
}

/// Makes an empty store. To be called under the lock.
///
/// It is built under another name and then renamed, so that a crash leaves a whole store or none, and
/// without waiting for the disk, which costs more than all the rest of a start: the writer does that
/// in [`sync`] before it stores anything.
pub(crate) fn make(path: &Path) -> Result<(), StoreError> {
    let failed =
        |error: &dyn Display| StoreError::Io(format!("cannot make the store {path:?}: {error}"));
    let unfinished = sibling(path, ".new");
    // SQLite gives the files that it puts beside a database the database's own mode.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)
        .map_err(|error| failed(&error))?;
    let build = || -> rusqlite::Result<()> {
        let mut connection = Connection::open_with_flags(&unfinished, WRITING)?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
        schema::create(&mut connection)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)
    };
    build().map_err(|error| failed(&error))?;
    fs::rename(&unfinished, path).map_err(|error| failed(&error))
}

/// Puts a new store and its name on the disk.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    File::open(directory(path).unwrap_or(Path::new(".")))?.sync_all()
}

const WRITING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

const READING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// The one connection that writes.
pub(crate) fn open_writer(
    path: &Path,
    durability: Durability,
    pages_max: Option<u32>,
) -> Result<Connection, StoreError> {
    let failed =
        |error: rusqlite::Error| StoreError::Io(format!("cannot open the store {path:?}: {error}"));
    let connection = Connection::open_with_flags(path, WRITING).map_err(failed)?;
    connection.busy_timeout(BUSY_WAIT).map_err(failed)?;

    schema::recognise(&connection, path)?;
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(failed)?;
    if mode != "wal" {
        return Err(StoreError::Io(format!(
            "cannot open the store {path:?}: its file system keeps SQLite from using a write-ahead log \
             (it offers {mode:?}); put the file on a local disk"
        )));
    }
    // In a write-ahead log, NORMAL syncs when pages move to the database, which keeps it whole whatever
    // happens, and FULL syncs at every commit as well.
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    let configure = || {
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_size_limit", WAL_FILE_BYTES_MAX)?;
        connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES_MAX)?;
        match pages_max {
            Some(pages) => connection.pragma_update(None, "max_page_count", pages),
            None => Ok(()),
        }
    };
    configure().map_err(failed)?;
    Ok(connection)
}

/// A connection that only reads, for which the writer never waits and which never waits for the writer.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let failed =
        |error: rusqlite::Error| StoreError::Io(format!("cannot read the store {path:?}: {error}"));
    let connection = Connection::open_with_flags(path, READING).map_err(failed)?;
    connection.busy_timeout(BUSY_WAIT).map_err(failed)?;
    Ok(connection)
}

/// `None`: the current directory.
fn directory(path: &Path) -> Option<&Path> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty())
}

pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
