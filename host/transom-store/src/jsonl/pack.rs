//! Runs of deltas as one row, and back to the very same texts (L-76, row 37).
//! How rows become bytes is `frames.rs`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use transom_harness::{
    chunk::Chunk,
    event::{Data, envelope},
    ports::Append,
};

use crate::canonical;

/// The event type that is packed.
const CHUNK: &str = "assistant/chunk";

/// Shorter runs stay as they are.
const RUN_MIN: usize = 3;

/// A run of deltas of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    seq: u64,
    place: Place,
    /// One for each member.
    times: Vec<u64>,
    pieces: Vec<String>,
}

/// What all members of a run have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    turn: u64,
    step: u64,
    index: u32,
    of: Of,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    Text,
    Reasoning,
    ToolCall { id: String, name: Option<String> },
}

#[derive(Serialize)]
struct Line<'a, D> {
    #[serde(rename = "type")]
    kind: &'static str,
    seq0: u64,
    time0: u64,
    data: &'a D,
}

#[derive(Serialize, Deserialize)]
struct Texts {
    turn: u64,
    step: u64,
    index: u32,
    dt: Vec<i64>,
    texts: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Calls {
    turn: u64,
    step: u64,
    index: u32,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    dt: Vec<i64>,
    args: Vec<String>,
}

impl Packed {
    /// Reads a row's members. `None`: they are no run.
    pub(crate) fn parse(kind: &str, seq: u64, time: u64, data: &str) -> Option<Packed> {
        let texts = |of| {
            let Texts { turn, step, index, dt, texts } = serde_json::from_str(data).ok()?;
            Some((Place { turn, step, index, of }, dt, texts))
        };
        let (place, dt, pieces) = match kind {
            "text-chunks" => texts(Of::Text)?,
            "reasoning-chunks" => texts(Of::Reasoning)?,
            "tool-call-chunks" => {
                let Calls { turn, step, index, id, name, dt, args } =
                    serde_json::from_str(data).ok()?;
                (Place { turn, step, index, of: Of::ToolCall { id, name } }, dt, args)
            }
            _ => return None,
        };
        let mut times = vec![time];
        let mut last = time;
        for difference in dt {
            last = last.checked_add_signed(difference)?;
            times.push(last);
        }
        seq.checked_add(pieces.len() as u64)?;
        (times.len() == pieces.len()).then_some(Packed { seq, place, times, pieces })
    }

    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn events(&self) -> u64 {
        self.pieces.len() as u64
    }

    pub(crate) fn last_time(&self) -> u64 {
        self.times.last().copied().unwrap_or_default()
    }

    /// The members as they were appended.
    pub(crate) fn texts(&self) -> impl Iterator<Item = Arc<str>> {
        let members = self.times.iter().zip(&self.pieces);
        (self.seq..).zip(members).map(|(seq, (time, piece))| self.place.text(seq, *time, piece))
    }

    fn line(&self) -> serde_json::Result<Vec<u8>> {
        let (seq0, time0) = (self.seq, self.times.first().copied().unwrap_or_default());
        // A run's times never decrease, and no clock shows more than `i64` holds for millions of years.
        let differences = self.times.iter().zip(self.times.iter().skip(1));
        let dt = differences.map(|(one, next)| next.saturating_sub(*one) as i64).collect();
        let Place { turn, step, index, of } = self.place.clone();
        let pieces = self.pieces.clone();
        let texts = |kind, dt| {
            let data = &Texts { turn, step, index, dt, texts: pieces.clone() };
            serde_json::to_vec(&Line { kind, seq0, time0, data })
        };
        match of {
            Of::Text => texts("text-chunks", dt),
            Of::Reasoning => texts("reasoning-chunks", dt),
            Of::ToolCall { id, name } => {
                let data = &Calls { turn, step, index, id, name, dt, args: pieces.clone() };
                serde_json::to_vec(&Line { kind: "tool-call-chunks", seq0, time0, data })
            }
        }
    }
}

impl Place {
    /// The one text form of a delta.
    fn text(&self, seq: u64, time: u64, piece: &str) -> Arc<str> {
        let (index, piece) = (self.index, piece.to_owned());
        let chunk = match &self.of {
            Of::Text => Chunk::TextDelta { index, text: piece },
            Of::Reasoning => Chunk::ReasoningDelta { index, text: piece },
            Of::ToolCall { id, name } => Chunk::ToolCallDelta {
                index,
                id: id.clone(),
                name: name.clone(),
                arguments_delta: piece,
            },
        };
        let data = Data::AssistantChunk { turn: self.turn, step: self.step, chunk: &chunk };
        envelope(seq, time, &data, None)
    }
}

/// The lines of a batch's events of one session, each with its end.
pub(crate) fn lines(events: &[&Append], packed: bool) -> Vec<u8> {
    let mut lines = Lines::default();
    for append in events {
        match packed.then(|| delta(append)).flatten() {
            Some((place, piece)) => lines.delta(append, place, piece),
            None => {
                lines.end_run();
                lines.plain(append);
            }
        }
    }
    lines.end_run();
    lines.out
}

#[derive(Default)]
struct Lines<'a> {
    out: Vec<u8>,
    run: Option<Packed>,
    /// The members of the run as they were appended.
    members: Vec<&'a Append>,
}

impl<'a> Lines<'a> {
    fn delta(&mut self, append: &'a Append, place: Place, piece: String) {
        if let Some(run) = &mut self.run
            && run.place == place
            && run.last_time() <= append.time
        {
            run.times.push(append.time);
            run.pieces.push(piece);
        } else {
            self.end_run();
            let (times, pieces) = (vec![append.time], vec![piece]);
            self.run = Some(Packed { seq: append.seq, place, times, pieces });
        }
        self.members.push(append);
    }

    fn end_run(&mut self) {
        let members = std::mem::take(&mut self.members);
        let run = self.run.take().filter(|_| members.len() >= RUN_MIN);
        // Numbers and texts can always be written; if not, the events are there still.
        match run.and_then(|run| run.line().ok()) {
            Some(line) => {
                self.out.extend(line);
                self.out.push(b'\n');
            }
            None => members.into_iter().for_each(|append| self.plain(append)),
        }
    }

    fn plain(&mut self, append: &Append) {
        self.out.extend_from_slice(canonical::one_line(&append.text).as_bytes());
        self.out.push(b'\n');
    }
}

/// A delta that unpacking gives back to the letter; anything else stays a line of its own.
fn delta(append: &Append) -> Option<(Place, String)> {
    #[derive(Deserialize)]
    struct Envelope {
        data: Attempt,
    }
    #[derive(Deserialize)]
    struct Attempt {
        turn: u64,
        step: u64,
        chunk: Chunk,
    }

    if *append.kind != *CHUNK {
        return None;
    }
    let Envelope { data: Attempt { turn, step, chunk } } =
        serde_json::from_str(&append.text).ok()?;
    let (index, of, piece) = match chunk {
        Chunk::TextDelta { index, text } => (index, Of::Text, text),
        Chunk::ReasoningDelta { index, text } => (index, Of::Reasoning, text),
        Chunk::ToolCallDelta { index, id, name, arguments_delta } => {
            (index, Of::ToolCall { id, name }, arguments_delta)
        }
        Chunk::BlockStart { .. }
        | Chunk::BlockEnd { .. }
        | Chunk::Usage { .. }
        | Chunk::Finish { .. } => return None,
    };
    let place = Place { turn, step, index, of };
    (place.text(append.seq, append.time, &piece) == append.text).then_some((place, piece))
}

#[cfg(test)]
mod tests;
