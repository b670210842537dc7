//! What the system says about a process in one line (`/proc/<pid>/stat`).

use std::{collections::HashMap, fs};

/// The part of the line that is used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The name of its program, cut by the system.
    pub(crate) name: String,
    /// One letter.
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// When it was started, in ticks since the system was: with the number, it names one process for good.
    pub(crate) started: u64,
}

impl Stat {
    /// Of a process that is there, alive or not yet reaped.
    pub(crate) fn of(process: u32) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{process}/stat")).ok()?)
    }

    /// The name, in parentheses, may hold anything, parentheses included.
    fn parse(line: &[u8]) -> Option<Stat> {
        let begin = line.iter().position(|byte| *byte == b'(')? + 1;
        let end = line.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(line.get(begin..end)?).into_owned();
        let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        // The 22nd field of the line; the session is the sixth.
        let started = fields.nth(15)?.parse().ok()?;
        Some(Stat { name, state, parent, group, session, started })
    }

    /// Whether it has ended and only waits to be reaped.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// All processes by number; none where the system does not list them.
pub(crate) fn processes() -> HashMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Some end between being listed and being looked at.
    numbers.filter_map(|process| Some((process, Stat::of(process)?))).collect()
}
