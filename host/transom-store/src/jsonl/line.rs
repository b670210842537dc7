//! Lines of a log: the header (L-76, L-78), and rows that stand for one event or for several.
//! How several events become one row is `pack.rs`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use transom_frame::SessionId;
use transom_harness::header::{Header, LOG_VERSION};

use super::pack::Packed;

/// What stands in the first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderLine {
    /// The line itself.
    pub(crate) text: String,
    pub(crate) id: SessionId,
    pub(crate) created_at: u64,
    pub(crate) cwd: Option<String>,
}

/// Reads a log's first line. An error is a text of L-78.
pub(crate) fn header(line: &str) -> Result<HeaderLine, String> {
    let value: Value = serde_json::from_str(line)
        .map_err(|_| "corrupt session log: header line is not valid JSON".to_owned())?;
    let none = "corrupt session log: first line is not a session header";
    if value.get("type") != Some(&Value::from("session")) {
        return Err(none.to_owned());
    }
    let version = value.get("version").and_then(Value::as_u64);
    // Headers of other versions may have any shape, and are still to be told from damaged ones.
    if let (Some(version), Some(id)) = (version, value.get("id").and_then(Value::as_str))
        && version != u64::from(LOG_VERSION)
    {
        return Err(format!(
            "session \"{id}\" uses log format v{version}, but this harness reads only v{LOG_VERSION}: it was \
             written by another version"
        ));
    }
    let Header { id, created_at, cwd, .. } = Header::parse(line)?;
    Ok(HeaderLine { text: line.to_owned(), id, created_at, cwd })
}

/// One line behind the header.
#[derive(Debug)]
pub(crate) enum Row<'a> {
    /// An event, as it was appended.
    Event {
        /// The line itself.
        text: &'a str,
        /// The event's `type`.
        kind: Cow<'a, str>,
        /// Place in the session's log.
        seq: u64,
        /// Epoch milliseconds.
        time: u64,
    },
    /// A run of deltas.
    Packed(Packed),
}

/// Members of every kind of row.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    seq: Option<u64>,
    time: Option<u64>,
    seq0: Option<u64>,
    time0: Option<u64>,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl<'a> Row<'a> {
    /// Reads a line. Both forms are known, whatever this store writes (L-76). `None`: it is no row.
    pub(crate) fn parse(line: &'a str) -> Option<Row<'a>> {
        let members: Members<'a> = serde_json::from_str(line).ok()?;
        match members {
            Members { kind, seq: Some(seq), time: Some(time), seq0: None, time0: None, .. } => {
                Some(Row::Event { text: line, kind, seq, time })
            }
            Members {
                kind,
                seq: None,
                time: None,
                seq0: Some(seq),
                time0: Some(time),
                data,
                ..
            } => Packed::parse(&kind, seq, time, data.get()).map(Row::Packed),
            _ => None,
        }
    }

    /// `seq` of the row's first event.
    pub(crate) fn seq(&self) -> u64 {
        match self {
            Row::Event { seq, .. } => *seq,
            Row::Packed(packed) => packed.seq(),
        }
    }

    /// How many events it stands for.
    pub(crate) fn events(&self) -> u64 {
        match self {
            Row::Event { .. } => 1,
            Row::Packed(packed) => packed.events(),
        }
    }

    /// Time of the row's last event.
    pub(crate) fn last_time(&self) -> u64 {
        match self {
            Row::Event { time, .. } => *time,
            Row::Packed(packed) => packed.last_time(),
        }
    }
}

/// Whether a line says that a turn has ended, wherever it stands.
pub(crate) fn is_turn_end(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }

    serde_json::from_slice::<Kind<'_>>(line).is_ok_and(|line| line.kind == "turn/end")
}
