//! Plays a recorded conversation against whoever is at the other end of a wire. What is to be expected comes from
//! `vector.rs` and `departures.rs`; how the other end was started, from the test.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
};

use serde_json::Value;

use super::{
    departures::{self, Departure, Expected, Step},
    transcript::Normaliser,
    vector::{Bindings, Line, What, parse},
    wire::Wire,
};

/// How much of a file binds (decision 38).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Every frame.
    Full,
    /// Requests, responses and the status of agents: the log format is a later one.
    Answers,
}

/// What came of a conversation.
#[derive(Debug)]
pub struct Played {
    /// Everything said, normalised, in the order of the file where order was free.
    pub transcript: Vec<String>,
    /// Departures that were not needed: what was recorded came after all.
    pub unneeded: Vec<usize>,
}

/// A conversation in progress.
pub struct Player<'a> {
    pub file: &'a str,
    pub binding: Binding,
    pub departures: &'a [Departure],
    /// Placeholders and what they stand for.
    pub known: &'a [(&'static str, &'a str)],
}

struct Playing<'a> {
    player: &'a Player<'a>,
    wire: &'a mut dyn Wire,
    bindings: Bindings,
    normaliser: Normaliser,
    transcript: Vec<String>,
    /// What the client says back to back goes out in one write.
    unsent: Vec<u8>,
    /// Requests written since the last frame was awaited.
    outstanding: usize,
    /// The `seq` of the last event of each session.
    last: BTreeMap<String, u64>,
    /// By session, what each recorded `seq` is in this conversation.
    seqs: BTreeMap<(String, u64), u64>,
    /// For each departure that changes a place: whether it was needed anywhere.
    needed: BTreeMap<usize, bool>,
    /// For each departure that replaces lines: what came in their place.
    came: BTreeMap<usize, Vec<Value>>,
}

impl Player<'_> {
    /// Plays these lines. An error tells file, line and the first difference.
    pub fn play(&self, lines: &[Line], wire: &mut dyn Wire) -> Result<Played, String> {
        let mut playing = Playing {
            player: self,
            wire,
            bindings: Bindings::new(self.known),
            normaliser: Normaliser::new(self.known),
            transcript: Vec::new(),
            unsent: Vec::new(),
            outstanding: 0,
            last: BTreeMap::new(),
            seqs: BTreeMap::new(),
            needed: BTreeMap::new(),
            came: BTreeMap::new(),
        };
        let mut block = Vec::new();
        for step in departures::rewrite(self.file, lines, self.departures) {
            match step {
                Step::Receive(expected) => {
                    if self.binds(&expected.frame) {
                        block.push(expected);
                    }
                }
                Step::Other(line) => {
                    playing.receive(std::mem::take(&mut block))?;
                    playing.other(&line)?;
                }
            }
        }
        playing.receive(block)?;
        playing.flush();
        let unneeded = playing.unneeded(lines);
        Ok(Played { transcript: playing.transcript, unneeded })
    }

    fn binds(&self, frame: &Value) -> bool {
        self.binding == Binding::Full
            || frame.get("method").is_none_or(|method| method == "session.status")
    }
}

impl Playing<'_> {
    fn other(&mut self, line: &Line) -> Result<(), String> {
        let number = line.number;
        if !matches!(line.what, What::Send(_)) {
            self.flush();
        }
        match &line.what {
            What::Meta { .. } => {}
            What::Receive(_) => unreachable!("frames that came are not other lines"),
            What::Send(pieces) => {
                let mut whole = Vec::new();
                for (index, piece) in pieces.iter().enumerate() {
                    if index > 0 {
                        self.flush();
                    }
                    let filled = match std::str::from_utf8(piece) {
                        Ok(text) => self.bindings.fill(text).into_bytes(),
                        Err(_) => piece.clone(),
                    };
                    self.unsent.extend_from_slice(&filled);
                    whole.extend(filled);
                }
                let text = String::from_utf8_lossy(&whole).into_owned();
                self.outstanding += text.lines().filter(|line| is_request(line)).count();
                let shown = self.normaliser.text(&text);
                self.transcript.push(format!("> {shown:?}"));
            }
            What::InputClosed => {
                self.wire.close_input();
                self.transcript.push("> end".to_owned());
            }
            What::Signal(signal) => {
                self.wire.signal(*signal);
                self.transcript.push(format!("> {signal:?}"));
            }
            What::OutputEnded => {
                while let Some(frame) = self.frame(number)? {
                    if self.player.binds(&frame) {
                        return Err(self.wrong(
                            number,
                            &format!("expected the end of output\n  found    {frame}"),
                        ));
                    }
                }
                self.transcript.push("< end".to_owned());
            }
            What::Exit(code) => {
                let found = self.wire.exit();
                if found != *code {
                    return Err(self
                        .wrong(number, &format!("expected exit {code}\n  found    exit {found}")));
                }
                self.transcript.push(format!("< exit {found}"));
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        if !self.unsent.is_empty() {
            self.wire.write(&std::mem::take(&mut self.unsent));
        }
    }

    /// Awaits the frames of one block: those between two things that the client did.
    ///
    /// After one request their order is the recorded one. After several at once, sessions interleave freely (L-30,
    /// S-84), responses overtake each other and other sessions (S-22), and the receipt of a prompt falls between any
    /// two events of a busy session, so that it takes one `seq` or another. Apart from that each session keeps its
    /// own order, and a prompt's receipt comes before its response (S-54).
    fn receive(&mut self, block: Vec<Expected>) -> Result<(), String> {
        if block.is_empty() {
            return Ok(());
        }
        self.flush();
        let free = self.outstanding > 1;
        self.outstanding = 0;
        let mut streams: BTreeMap<String, VecDeque<(usize, Expected)>> = BTreeMap::new();
        let count = block.len();
        for (index, expected) in block.into_iter().enumerate() {
            let stream = if free { stream(&expected.frame) } else { String::new() };
            streams.entry(stream).or_default().push_back((index, expected));
        }
        let mut came = BTreeMap::new();
        for _ in 0..count {
            let next = streams
                .values()
                .filter_map(VecDeque::front)
                .map(|(_, expected)| expected.line)
                .min();
            let line = next.unwrap_or_default();
            let Some(frame) = self.bound_frame(line)? else {
                return Err(self.wrong(line, "expected a frame\n  found    the end of output"));
            };
            let stream = if free { stream(&frame) } else { String::new() };
            let Some((index, mut expected)) =
                streams.get_mut(&stream).and_then(VecDeque::pop_front)
            else {
                return Err(self.wrong(
                    line,
                    &format!("expected nothing more of {stream:?}\n  found    {frame}"),
                ));
            };
            let numbers = numbers(&expected.frame);
            self.contiguous(expected.line, &frame)?;
            if free {
                self.renumber(&mut expected.frame, &frame);
            }
            self.compare(&expected, &frame)?;
            came.insert(index, with_numbers(frame, numbers));
        }
        for frame in came.values() {
            let line = self.normaliser.frame(frame);
            self.transcript.push(format!("< {line}"));
        }
        Ok(())
    }

    /// S-84: no gaps, no repetitions.
    fn contiguous(&mut self, line: usize, frame: &Value) -> Result<(), String> {
        let Some((session, seq)) = numbered(frame) else { return Ok(()) };
        let next = self.last.get(&session).map_or(seq, |last| last + 1);
        if seq != next {
            return Err(self
                .wrong(line, &format!("expected seq {next} of {session:?}\n  found    {frame}")));
        }
        self.last.insert(session, seq);
        Ok(())
    }

    /// Puts the numbers of this conversation in the place of the recorded ones.
    fn renumber(&mut self, expected: &mut Value, found: &Value) {
        let (Some((session, recorded)), Some((_, seq))) = (numbered(expected), numbered(found))
        else {
            return;
        };
        self.seqs.insert((session.clone(), recorded), seq);
        for path in NUMBERS {
            let Some(number) = expected.pointer_mut(path) else { continue };
            match number {
                Value::Array(list) => {
                    for number in list {
                        self.renumber_one(&session, number);
                    }
                }
                number => self.renumber_one(&session, number),
            }
        }
    }

    fn renumber_one(&self, session: &str, number: &mut Value) {
        let known =
            number.as_u64().and_then(|recorded| self.seqs.get(&(session.to_owned(), recorded)));
        if let Some(seq) = known {
            *number = Value::from(*seq);
        }
    }

    fn compare(&mut self, expected: &Expected, frame: &Value) -> Result<(), String> {
        // Where events bind, the receipt has told the id of a message before the response repeats it.
        if self.player.binding == Binding::Full
            && let Some(name) = expected.frame.pointer("/result/messageId").and_then(Value::as_str)
            && self.bindings.id(name).is_none()
        {
            return Err(self.wrong(
                expected.line,
                &format!("expected the receipt before its response\n  found    {frame}"),
            ));
        }
        let before = self.bindings.clone();
        if let Err(difference) = self.bindings.compare(&expected.frame, frame) {
            let mut message = difference.to_string();
            for index in &expected.departures {
                let departure = &self.player.departures[*index];
                let _ = write!(
                    message,
                    "\n  this departs from the recording by {}: {}",
                    departure.rule, departure.because
                );
            }
            let _ = write!(message, "\n  whole: {frame}");
            return Err(self.wrong(expected.line, &message));
        }
        for index in &expected.departures {
            match departures::place(&self.player.departures[*index]) {
                None => self.came.entry(*index).or_default().push(frame.clone()),
                Some(path) => {
                    let recorded = expected.recorded.as_ref().and_then(|frame| frame.pointer(path));
                    let found = frame.pointer(path);
                    let same = match (recorded, found) {
                        (Some(recorded), Some(found)) => {
                            before.clone().compare(recorded, found).is_ok()
                        }
                        _ => false,
                    };
                    *self.needed.entry(*index).or_default() |= !same;
                }
            }
        }
        Ok(())
    }

    fn unneeded(&self, lines: &[Line]) -> Vec<usize> {
        let mut unneeded: Vec<usize> =
            self.needed.iter().filter(|(_, needed)| !**needed).map(|(index, _)| *index).collect();
        for (index, came) in &self.came {
            let recorded = self.player.departures[*index].replaced(lines).unwrap_or_default();
            let mut bindings = Bindings::new(self.player.known);
            if recorded.len() == came.len()
                && recorded
                    .iter()
                    .zip(came)
                    .all(|(recorded, came)| bindings.compare(recorded, came).is_ok())
            {
                unneeded.push(*index);
            }
        }
        unneeded
    }

    /// The next frame that binds.
    fn bound_frame(&mut self, line: usize) -> Result<Option<Value>, String> {
        loop {
            match self.frame(line)? {
                Some(frame) if !self.player.binds(&frame) => {}
                frame => return Ok(frame),
            }
        }
    }

    fn frame(&mut self, number: usize) -> Result<Option<Value>, String> {
        let Some(line) = self.wire.line() else { return Ok(None) };
        match checked(&line) {
            Ok(frame) => Ok(Some(frame)),
            Err(wrong) => Err(self.wrong(number, &format!("{wrong}\n  in {line}"))),
        }
    }

    fn wrong(&self, number: usize, message: &str) -> String {
        let mut told = format!("{}:{number}: {message}", self.player.file);
        let said = self.wire.diagnostics();
        if !said.is_empty() {
            let _ = write!(told, "\n  diagnostics:\n{said}");
        }
        told
    }
}

/// Where an event tells its own number and those of others.
const NUMBERS: [&str; 3] =
    ["/params/event/seq", "/params/event/sourceEventSeqs", "/params/event/data/messageSeqs"];

fn numbered(frame: &Value) -> Option<(String, u64)> {
    let session = frame.pointer("/params/sessionId")?.as_str()?;
    Some((session.to_owned(), frame.pointer("/params/event/seq")?.as_u64()?))
}

fn numbers(frame: &Value) -> [Option<Value>; 3] {
    NUMBERS.map(|path| frame.pointer(path).cloned())
}

fn with_numbers(mut frame: Value, numbers: [Option<Value>; 3]) -> Value {
    for (path, number) in NUMBERS.into_iter().zip(numbers) {
        if let (Some(place), Some(number)) = (frame.pointer_mut(path), number) {
            *place = number;
        }
    }
    frame
}

/// What keeps its own order: a session, a receipt, a response.
fn stream(frame: &Value) -> String {
    let receipt = frame.pointer("/params/event/data/inserted/0/content");
    if let Some(content) = receipt {
        return format!("receipt of {content}");
    }
    match frame.pointer("/params/sessionId") {
        Some(session) => format!("session {session}"),
        None => format!("response {}", frame.get("id").unwrap_or(&Value::Null)),
    }
}

fn is_request(line: &str) -> bool {
    let Ok(value) = parse(line.trim()) else { return false };
    value.get("id").is_some_and(|id| id.is_string() || id.is_number())
        && value.get("method").is_some_and(Value::is_string)
}

/// Reads a line as a frame and checks the shape that every frame has: compact (S-2), no raw control characters, and
/// members in the order that an emitter keeps (S-31, S-80).
pub fn checked(line: &str) -> Result<Value, String> {
    let mut inside = false;
    let mut escaped = false;
    for character in line.chars() {
        match character {
            _ if character.is_ascii_control() => {
                return Err("a raw control character (S-2)".to_owned());
            }
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            ' ' if !inside => return Err("insignificant white space (S-2)".to_owned()),
            _ => {}
        }
    }
    let frame = parse(line).map_err(|error| format!("not JSON: {error}"))?;
    ordered(&frame, "", &["jsonrpc", "id", "method", "params", "result", "error"])?;
    if let Some(event) = frame.pointer("/params/event") {
        ordered(&frame["params"], "/params", &["sessionId", "event"])?;
        ordered(
            event,
            "/params/event",
            &["type", "seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp"],
        )?;
    }
    if let Some(error) = frame.get("error") {
        ordered(error, "/error", &["code", "message"])?;
    }
    Ok(frame)
}

fn ordered(value: &Value, path: &str, order: &[&str]) -> Result<(), String> {
    let Some(members) = value.as_object() else { return Err(format!("{path} is not an object")) };
    let mut places = BTreeSet::new();
    for name in members.keys() {
        let Some(place) = order.iter().position(|known| known == name) else {
            return Err(format!("{path} has the unknown member {name:?}"));
        };
        if places.last().is_some_and(|last| *last > place) {
            return Err(format!("{path}: {name:?} stands too late (S-31, S-80)"));
        }
        places.insert(place);
    }
    Ok(())
}
