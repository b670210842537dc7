//! One log as a file: made with its first events, grown, and mended when it is taken up again (L-77, L-78, L-82).
//! What may be written to it, and when, is `writer.rs`.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use transom_harness::ports::{StoreError, StoredSession};

use super::{
    frames,
    layout::Encoding,
    line::HeaderLine,
    walk::{self, Ends, Log, POINT_BYTES, Point, Scan},
};

/// Name under which a log is written until it is whole. Only the one that has the session writes it.
const UNFINISHED: &str = "unfinished.new";

/// Files of cut-off bytes that are kept for one session. A session that crashes oftener overwrites the last.
pub(crate) const TORN_FILES_MAX: u32 = 16;

/// A stored session that this process has.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) path: PathBuf,
    pub(crate) header: HeaderLine,
    /// Behind the last committed line: nothing behind it counts.
    pub(crate) reached: Point,
    pub(crate) updated_at: u64,
    pub(crate) points: Vec<Point>,
    /// Bytes behind the committed ones could not be taken back yet.
    pub(crate) is_unclean: bool,
}

impl Live {
    fn new(path: &Path, scan: Scan) -> Live {
        let Scan { header, reached, updated_at, points, ends: _ } = scan;
        Live { path: path.to_owned(), header, reached, updated_at, points, is_unclean: false }
    }

    /// A log that holds nothing but its first line, of `length` bytes.
    pub(crate) fn begun(path: &Path, header: HeaderLine, length: u64) -> Live {
        Live {
            path: path.to_owned(),
            updated_at: header.created_at,
            header,
            reached: Point { offset: length, lines: 1, events: 0 },
            points: vec![Point::default()],
            is_unclean: false,
        }
    }

    /// Counts what was committed.
    pub(crate) fn advance(&mut self, bytes: u64, lines: u64, events: u64, last_time: u64) {
        let Point { offset, lines: lines_before, events: events_before } = self.reached;
        if self.points.last().is_none_or(|last| offset >= last.offset + POINT_BYTES) {
            self.points.push(self.reached);
        }
        self.reached = Point {
            offset: offset + bytes,
            lines: lines_before + lines,
            events: events_before + events,
        };
        self.updated_at = last_time;
    }

    pub(crate) fn stored(&self) -> StoredSession {
        StoredSession {
            id: self.header.id.clone(),
            header: self.header.text.clone(),
            events: self.reached.events,
            updated_at: self.updated_at,
        }
    }
}

/// Reads a log that is to be continued, and cuts off what was never committed. The bytes that go are kept
/// beside it.
pub(crate) fn take_up(path: &Path, encoding: Encoding) -> Result<Live, StoreError> {
    let failed = |error| walk::failed(path, &error);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let end = file.metadata().map_err(failed)?.len();
    let log = Log { file: &file, path, encoding, end };
    let mut scan = walk::scan(log, &mut |_| Ok(()))?;
    match &scan.ends {
        Ends::Whole => {}
        Ends::Corrupt(text) => return Err(walk::refused(path, text)),
        Ends::Torn { offset, keep } => {
            let mend = || -> io::Result<u64> {
                let kept = keep_torn(&file, path, *offset, end)?;
                let length = cut(&file, path, *offset, keep)?;
                tracing::warn!(
                    log = %path.display(), kept = %kept.display(), offset, bytes = end - offset,
                    "the end of a session's log was never committed and has been cut off"
                );
                Ok(length)
            };
            scan.reached.offset = mend().map_err(|error| {
                StoreError::Io(format!(
                    "cannot cut the torn end off the session log {path:?}: {error}"
                ))
            })?;
        }
    }
    // Left behind where a process was killed between making the log and tidying up.
    if let Some(directory) = path.parent() {
        let _ = fs::remove_file(directory.join(UNFINISHED));
    }
    Ok(Live::new(path, scan))
}

/// Copies a log's torn end to a file of its own (L-82).
fn keep_torn(file: &File, path: &Path, from: u64, end: u64) -> io::Result<PathBuf> {
    let mut number = 1;
    let (mut kept, name) = loop {
        let name = path.with_file_name(format!("torn-{number}"));
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        match number {
            TORN_FILES_MAX => options.create(true).truncate(true),
            _ => options.create_new(true),
        };
        match options.open(&name) {
            Ok(kept) => break (kept, name),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    };
    let mut block = vec![0; 64 * 1024];
    let mut at = from;
    while at < end {
        let room = usize::try_from(end - at).unwrap_or(usize::MAX).min(block.len());
        let part = block.get_mut(..room).unwrap_or_default();
        let read = frames::read_fully(file, part, at)?;
        kept.write_all(part.get(..read).unwrap_or_default())?;
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    kept.sync_all()?;
    sync_directory(&name)?;
    Ok(name)
}

/// Ends a log at `offset`, with the lines `keep` behind it. Gives its new length.
fn cut(file: &File, path: &Path, offset: u64, keep: &[u8]) -> io::Result<u64> {
    if keep.is_empty() {
        file.set_len(offset)?;
        file.sync_all()?;
        return Ok(offset);
    }
    // Lines that count share a frame with one that does not: a new file, so that none is ever missing.
    let frame = frames::encode(keep)?;
    let unfinished = path.with_file_name(UNFINISHED);
    let mut whole =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    io::copy(&mut io::Read::take(File::open(path)?, offset), &mut whole)?;
    whole.write_all(&frame)?;
    whole.sync_all()?;
    fs::rename(&unfinished, path)?;
    sync_directory(path)?;
    Ok(offset + frame.len() as u64)
}

/// Makes a log with its first bytes, all or nothing, below a root that exists. An existing file is an error.
pub(crate) fn create(root: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(root);
    let project = directory.parent().unwrap_or(root);
    for (missing, parent) in [(project, root), (directory, project)] {
        match DirBuilder::new().mode(0o700).create(missing) {
            Ok(()) => File::open(parent)?.sync_all()?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    publish(&directory.join(UNFINISHED), path, bytes)
}

/// Writes a file under one name and then gives it its own, which nobody must have yet.
pub(crate) fn publish(unfinished: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::hard_link(unfinished, path)
    };
    let written = write();
    // The file is there under its own name, or the error is what matters.
    let _ = fs::remove_file(unfinished);
    written?;
    sync_directory(path)
}

/// Puts names in the directory of a file on the disk.
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Why bytes were not added to a log.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) error: io::Error,
    /// Some of them may be there, behind the ones that count.
    pub(crate) is_unclean: bool,
}

/// Adds bytes behind the committed ones, or nothing.
pub(crate) fn append(
    path: &Path,
    committed: u64,
    is_unclean: bool,
    bytes: &[u8],
    is_synced: bool,
) -> Result<File, Unwritten> {
    let open = || -> io::Result<File> {
        let file = OpenOptions::new().write(true).open(path)?;
        let found = file.metadata()?.len();
        if is_unclean && found > committed {
            file.set_len(committed)?;
        } else if found != committed {
            return Err(io::Error::other(format!(
                "the log {path:?} has {found} bytes where {committed} were stored: another program has changed it"
            )));
        }
        Ok(file)
    };
    let file = open().map_err(|error| Unwritten { error, is_unclean })?;
    let write = || {
        file.write_all_at(bytes, committed)?;
        if is_synced { file.sync_data() } else { Ok(()) }
    };
    match write() {
        Ok(()) => Ok(file),
        Err(error) => {
            let is_unclean = file.set_len(committed).is_err();
            Err(Unwritten { error, is_unclean })
        }
    }
}

#[cfg(test)]
mod tests;
