//! The envelope of an event (L-5), and what it shows without the events before it: its class, its data's
//! shape, numbers that would not survive, how it says that it joins the surface.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Checked, bad, ensure};
use crate::vocabulary::{self, Class, Members, lost_number};

/// An event, taken apart.
pub(super) struct Envelope<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) seq: u64,
    pub(super) time: u64,
    pub(super) data: Members<'a>,
    /// Only on surface events.
    pub(super) joins: Option<Joins>,
    pub(super) sources: Option<Vec<u64>>,
}

/// How a message joins the surface (L-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joins {
    Append,
    /// Takes the place of these nodes and those between them.
    Replace {
        start: u64,
        end: u64,
    },
}

const MEMBERS: [&str; 7] =
    ["type", "seq", "time", "data", "ignorable", "surfaceOp", "sourceEventSeqs"];

impl<'a> Envelope<'a> {
    pub(super) fn read(text: &'a str, expected: u64) -> Checked<Envelope<'a>> {
        let Some(members) = Members::read(text) else { return bad("L-5", "not a JSON object") };
        let names: Vec<_> = members.names().collect();
        for (at, name) in names.iter().enumerate() {
            ensure(MEMBERS.contains(name), "L-5", || {
                format!("\"{name}\" is no member of an event")
            })?;
            let again = names.iter().take(at).any(|earlier| earlier == name);
            ensure(!again, "L-5", || format!("\"{name}\" stands there twice"))?;
        }
        let (Some(kind), Some(seq), Some(time), Some(raw), Some(data)) = (
            members.text("type"),
            members.count("seq"),
            members.count("time"),
            members.raw("data"),
            members.object("data"),
        ) else {
            let right =
                "needs a string type, integers seq and time of at least 0, and an object data";
            return bad("L-5", format!("an event {right}"));
        };
        ensure(seq == expected, "L-5", || format!("seq must be {expected}, got {seq}"))?;
        let ignorable = members.raw("ignorable").map(RawValue::get);
        ensure(matches!(ignorable, None | Some("true")), "L-5", || {
            "ignorable must be true or left out".to_owned()
        })?;
        if let Some(number) = lost_number(raw.get()) {
            let lost = format!("the number {number} would not be read back");
            let text =
                format!("session event \"{kind}\" carries non-JSON-serializable data: {lost}");
            return bad("L-6", text);
        }

        let joins = members.raw("surfaceOp").map(joins).transpose()?;
        let sources = match members.raw("sourceEventSeqs") {
            Some(_) => Some(sources(&members, &kind, seq)?),
            None => None,
        };
        let event = Envelope { seq, time, data, joins, sources, kind };
        event.classed(raw, ignorable.is_some())?;
        Ok(event)
    }

    /// Whether the event is written as its type is.
    fn classed(&self, data: &RawValue, ignorable: bool) -> Checked {
        let kind = &self.kind;
        let known = vocabulary::find(kind);
        let class = known.map(|known| known.class);
        ensure(known.is_some() || ignorable, "L-17", || {
            format!("the type \"{kind}\" is unknown and not ignorable")
        })?;
        if class == Some(Class::Surface) {
            ensure(self.joins.is_some(), "L-8", || format!("{kind} without surfaceOp"))?;
        } else {
            let bare = self.joins.is_none() && self.sources.is_none();
            ensure(bare, "L-8", || {
                format!(
                    "{kind} is not on the surface and must carry neither surfaceOp nor sourceEventSeqs"
                )
            })?;
        }
        match class {
            Some(Class::Ignorable) => ensure(ignorable, "L-19", || {
                format!("{kind} must be written with ignorable: true")
            })?,
            Some(Class::Surface | Class::LogOnly) => ensure(!ignorable, "L-19", || {
                format!(
                    "{kind} must not be ignorable: a reader that passes over it folds another session"
                )
            })?,
            None => {}
        }
        match known.map(|known| known.check(data)) {
            Some(Err(what)) => bad("L-17", format!("{kind}: {what}")),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// The message of a surface event.
    pub(super) fn message(&self) -> Option<Members<'a>> {
        match &*self.kind {
            "user/message" => None,
            _ => self.data.object("message"),
        }
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.data.count(name).unwrap_or_default()
    }

    pub(super) fn text(&self, name: &str) -> Cow<'a, str> {
        self.data.text(name).unwrap_or_default()
    }

    /// Whether this is the result of that call, not a later form of it.
    pub(super) fn is_result_of(&self, call: &str) -> bool {
        let source = self.message().and_then(|message| message.object("source"));
        let of = source.and_then(|source| source.text("callId"));
        self.kind == "tool/result"
            && self.joins == Some(Joins::Append)
            && of.is_some_and(|of| of == call)
    }

    pub(super) fn settles_lost_job(&self) -> bool {
        self.kind == "job/settled" && self.text("cause") == "lost"
    }

    /// Whether this only puts messages of the host's own before the next step.
    pub(super) fn injects_notice(&self) -> bool {
        let messages = self.data.list("inserted").unwrap_or_default();
        let by_plugin = |message: &&RawValue| {
            let source = Members::read(message.get()).and_then(|message| message.object("source"));
            source
                .and_then(|source| source.text("kind"))
                .is_some_and(|kind| kind == "plugin" || kind == "subagent-settled")
        };
        self.kind == "agent/inbox/spliced"
            && self.text("target") == "next-step"
            && self.data.raw("removedCount").is_none()
            && messages.iter().all(by_plugin)
    }
}

fn joins(value: &RawValue) -> Checked<Joins> {
    if vocabulary::text(value).is_some_and(|word| word == "append") {
        return Ok(Joins::Append);
    }
    let members = Members::read(value.get());
    let replace = members.and_then(|members| {
        let (start, end) = (members.count("start")?, members.count("end")?);
        let is = members.text("op")? == "replace" && members.names().count() == 3;
        is.then_some(Joins::Replace { start, end })
    });
    match replace {
        Some(replace) => Ok(replace),
        None => {
            let right = r#""append" or {"op":"replace","start":…,"end":…}"#;
            bad("L-8", format!("surfaceOp must be {right}, got {}", value.get()))
        }
    }
}

fn sources(members: &Members<'_>, kind: &str, seq: u64) -> Checked<Vec<u64>> {
    let seqs = members.list("sourceEventSeqs");
    let seqs = seqs.and_then(|seqs| seqs.into_iter().map(|seq| seq.get().parse().ok()).collect());
    let Some(seqs) = seqs else { return bad("L-8", "sourceEventSeqs must be an array of seqs") };
    let seqs: Vec<u64> = seqs;
    let mut sorted = seqs.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let earlier = sorted.last().is_none_or(|last| *last < seq);
    ensure(earlier && sorted.len() == seqs.len(), "L-8", || {
        format!("sourceEventSeqs must be distinct seqs of earlier events, got {seqs:?}")
    })?;
    ensure(!seqs.is_empty() || kind == "assistant/message", "L-8", || {
        format!("sourceEventSeqs must not be empty on {kind}")
    })?;
    Ok(seqs)
}
