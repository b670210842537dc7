//! Attachments beside logs: a file for the bytes, and one for what they are.
//! Names and limits are `attachment.rs`.

use std::{
    fs::{self, DirBuilder},
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use transom_harness::ports::{Attachment, StoreError};

use super::log;
use crate::attachment;

/// A name that no project has (L-75).
const DIRECTORY: &str = ".attachments";

/// Numbers the unfinished files of this process.
static UNFINISHED: AtomicU64 = AtomicU64::new(0);

/// Keeps bytes below a session root. What was said first of what they are stays.
pub(crate) fn keep(
    root: &Path,
    bytes: &[u8],
    media_type: Option<&str>,
) -> Result<String, StoreError> {
    let name = attachment::name(bytes)?;
    let Some(place) = place(root, &name) else { return Ok(name) };
    let keep = || -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(root.join(DIRECTORY)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        write_once(&place, bytes)?;
        match media_type {
            Some(media_type) => write_once(&with_type(&place), media_type.as_bytes()),
            None => Ok(()),
        }
    };
    keep().map_err(|error| StoreError::Io(format!("cannot keep the attachment: {error}")))?;
    Ok(name)
}

/// The attachment of that name.
pub(crate) fn read(root: &Path, name: &str) -> Result<Option<Attachment>, StoreError> {
    let Some(place) = place(root, name) else { return Ok(None) };
    let read = |path: &Path| match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::Io(format!("cannot read the attachment {path:?}: {error}"))),
    };
    let Some(bytes) = read(&place)? else { return Ok(None) };
    let media_type = read(&with_type(&place))?.and_then(|text| String::from_utf8(text).ok());
    Ok(Some(Attachment { media_type, bytes }))
}

fn write_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let number = UNFINISHED.fetch_add(1, Ordering::Relaxed);
    let unfinished = path.with_file_name(format!("{}-{number}.new", process::id()));
    match log::publish(&unfinished, path, bytes) {
        // Somebody else kept the same meanwhile.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        written => written,
    }
}

fn place(root: &Path, name: &str) -> Option<PathBuf> {
    attachment::digest(name).map(|digest| root.join(DIRECTORY).join(digest))
}

fn with_type(place: &Path) -> PathBuf {
    crate::file::sibling(place, ".type")
}
