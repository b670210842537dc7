//! What a list says of a log, read from its two ends. A log that does not end as it should is read whole.

use std::{fs::File, path::Path};

use transom_harness::ports::{StoreError, StoredSession};

use super::{
    frames::{self, FRAME_BYTES_MAX, View},
    layout::Encoding,
    line::Row,
    walk::{self, Log},
};

/// How much of a plain log's end is read at first; most lines are shorter.
const PLAIN_BYTES: u64 = 16 * 1024;

/// A log as a list has it. Damage in the middle is not seen.
pub(crate) fn summary(path: &Path, encoding: Encoding) -> Result<StoredSession, StoreError> {
    let failed = |error| walk::failed(path, &error);
    let file = File::open(path).map_err(failed)?;
    let end = file.metadata().map_err(failed)?.len();
    let log = Log { file: &file, path, encoding, end };
    let header = walk::header(log)?;
    let last = match encoding {
        Encoding::Zstd => last_frame(log),
        Encoding::Plain => last_lines(log),
    };
    let (events, updated_at) = match last.map_err(failed)?.as_deref().and_then(ends_with) {
        Some(Last::Row { events, time }) => (events, time),
        Some(Last::Header) => (0, header.created_at),
        None => {
            let scan = walk::scan(log, &mut |_| Ok(()))?;
            (scan.reached.events, scan.updated_at)
        }
    };
    Ok(StoredSession { id: header.id, header: header.text, events, updated_at })
}

enum Last {
    Row { events: u64, time: u64 },
    Header,
}

/// The last line of a text. `None`: it is none of a log's.
fn ends_with(text: &[u8]) -> Option<Last> {
    let line = text.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n').next()?;
    let line = str::from_utf8(line).ok()?.trim_end_matches('\r');
    match Row::parse(line) {
        Some(row) => {
            let events = row.seq().checked_add(row.events())?;
            Some(Last::Row { events, time: row.last_time() })
        }
        None => super::line::header(line).is_ok().then_some(Last::Header),
    }
}

/// The text of the last frame, if frames are all there is.
fn last_frame(log: Log<'_>) -> std::io::Result<Option<Vec<u8>>> {
    let mut view = View::new(log.file, log.end);
    let (mut at, mut last) = (0, None);
    while at < log.end {
        let Some(length) = frames::measure(&mut view, at)? else { return Ok(None) };
        last = Some((at, length));
        at += length;
    }
    let Some((at, length)) = last.filter(|(_, length)| *length <= FRAME_BYTES_MAX) else {
        return Ok(None);
    };
    let mut frame = vec![0; usize::try_from(length).unwrap_or_default()];
    let read = frames::read_fully(log.file, &mut frame, at)?;
    frame.truncate(read);
    Ok(frames::decode(&frame).ok())
}

/// The end of a plain log, from the beginning of a line on.
fn last_lines(log: Log<'_>) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = PLAIN_BYTES.min(log.end);
    loop {
        let mut text = vec![0; usize::try_from(length).unwrap_or_default()];
        let read = frames::read_fully(log.file, &mut text, log.end - length)?;
        text.truncate(read);
        let is_all = length == log.end;
        // The first line may be cut, so a line counts only behind the end of another.
        if is_all || text.iter().filter(|byte| **byte == b'\n').count() > 1 {
            return Ok(Some(text));
        }
        if length > FRAME_BYTES_MAX {
            return Ok(None);
        }
        length = length.saturating_mul(4).min(log.end);
    }
}
