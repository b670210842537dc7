//! Bytes to lines and back, at whatever places the carrier splits them.
//! Decoding is left to the codec: this module cuts bytes and never looks for characters, so a character that
//! arrives in two reads is whole again in its line (S-3).

use crate::{Excess, nests_deeper_than};

/// What a line may be. A policy sets both (`unit-bytes-max`, `nesting-max`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of one line without its line feed.
    pub unit_bytes_max: u64,
    /// Arrays and objects open at one place.
    pub nesting_max: u64,
}

/// What was cut off the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// A line without its line feed.
    Line(Vec<u8>),
    /// What was left when the input ended without a line feed. Never empty.
    Unfinished(Vec<u8>),
    /// A line that crossed a bound, and how long it was.
    Skipped {
        /// The bound.
        why: Excess,
        /// The bytes of the line without its line feed.
        bytes: u64,
    },
}

/// Cuts pushed bytes into lines. Only a line feed ends a line (S-4).
///
/// Every byte is looked at once, however the input is split (S-8, S-9). At most `unit_bytes_max` bytes are held, and
/// none between two lines: a finished line takes its memory with it.
#[derive(Debug)]
pub struct Lines {
    bounds: Bounds,
    line: Line,
}

/// The line that is under way.
#[derive(Debug)]
enum Line {
    /// Within its bound so far.
    Kept(Vec<u8>),
    /// Over the bound: only counted, until its line feed.
    Dropped { bytes: u64 },
}

impl Lines {
    /// A cutter at the start of its input.
    pub fn new(bounds: Bounds) -> Lines {
        Lines { bounds, line: Line::Kept(Vec::new()) }
    }

    /// Takes what the carrier read and puts out every line that it completes.
    pub fn push(&mut self, out: &mut Vec<Cut>, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = bytes.split_at(end);
            self.extend(head);
            out.push(self.cut(Cut::Line));
            // The line feed itself is behind us.
            bytes = tail.get(1..).unwrap_or_default();
        }
        self.extend(bytes);
    }

    /// Ends the input: what is left of a line that has no line feed.
    pub fn finish(&mut self) -> Option<Cut> {
        match &self.line {
            Line::Kept(line) if line.is_empty() => None,
            Line::Kept(_) | Line::Dropped { .. } => Some(self.cut(Cut::Unfinished)),
        }
    }

    /// Bytes of memory that are held for the line under way.
    pub fn held_bytes(&self) -> usize {
        match &self.line {
            Line::Kept(line) => line.capacity(),
            Line::Dropped { .. } => 0,
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        match &mut self.line {
            Line::Dropped { bytes: dropped } => *dropped = dropped.saturating_add(count(bytes)),
            Line::Kept(line) => {
                let length = count(line).saturating_add(count(bytes));
                if length > self.bounds.unit_bytes_max {
                    self.line = Line::Dropped { bytes: length };
                } else {
                    make_room(line, bytes.len(), self.bounds.unit_bytes_max);
                    line.extend_from_slice(bytes);
                }
            }
        }
    }

    fn cut(&mut self, whole: fn(Vec<u8>) -> Cut) -> Cut {
        match std::mem::replace(&mut self.line, Line::Kept(Vec::new())) {
            Line::Dropped { bytes } => Cut::Skipped { why: Excess::TooLong, bytes },
            Line::Kept(line) if nests_deeper_than(&line, self.bounds.nesting_max) => {
                Cut::Skipped { why: Excess::TooDeep, bytes: count(&line) }
            }
            Line::Kept(line) => whole(line),
        }
    }
}

/// Grows by doubling, so that a line in many pieces is copied a constant number of times per byte, but never past
/// the bound: an ordinary vector would hold up to twice of it.
fn make_room(line: &mut Vec<u8>, more: usize, unit_bytes_max: u64) {
    let needed = line.len().saturating_add(more);
    if needed <= line.capacity() {
        return;
    }
    let bound = usize::try_from(unit_bytes_max).unwrap_or(usize::MAX);
    let wanted = line.capacity().saturating_mul(2).min(bound).max(needed);
    line.reserve_exact(wanted.saturating_sub(line.len()));
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// A unit that is no line, because the other side would read two out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the unit holds a line feed at byte {at}, which would end its line; escape it or leave it out"
)]
pub struct EmbeddedLineFeed {
    /// Where the first line feed stands.
    pub at: usize,
}

/// Whether a unit can be sent as one line.
///
/// A line feed inside is refused and never replaced: what else the bytes say is the codec's business, and two
/// forged units are worse than one lost connection.
pub fn check_line(unit: &[u8]) -> Result<(), EmbeddedLineFeed> {
    match unit.iter().position(|byte| *byte == b'\n') {
        Some(at) => Err(EmbeddedLineFeed { at }),
        None => Ok(()),
    }
}

/// Appends a unit and its line feed to what is to be written (S-2), or nothing at all.
pub fn encode_line(out: &mut Vec<u8>, unit: &[u8]) -> Result<(), EmbeddedLineFeed> {
    check_line(unit)?;
    out.reserve(unit.len().saturating_add(1));
    out.extend_from_slice(unit);
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests;
