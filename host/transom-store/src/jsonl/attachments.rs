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
        make_directory(&root.join(DIRECTORY))?;
        // What has been damaged since is made good: the receipt promises these bytes.
        let is_whole = |kept: &[u8]| kept == bytes;
        write_unless(&place, bytes, is_whole)?;
        match media_type {
            Some(media_type) => {
                write_unless(&with_type(&place), media_type.as_bytes(), |kept| !kept.is_empty())
            }
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

/// Makes the directory of attachments. A link in its place would lead out of the session root.
fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::symlink_metadata(path)?.is_dir() {
                return Ok(());
            }
            let message = format!("{path:?} is not a directory of its own");
            Err(io::Error::new(ErrorKind::NotADirectory, message))
        }
        made => made,
    }
}

/// Writes a file, unless it is there already as it must be.
fn write_unless(path: &Path, bytes: &[u8], is_whole: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    match fs::read(path) {
        Ok(kept) if is_whole(&kept) => return Ok(()),
        Ok(_) => {
            tracing::warn!(?path, "a damaged attachment is replaced");
            fs::remove_file(path)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
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
