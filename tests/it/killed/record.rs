//! What clients were shown, and what the store has of it.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;
use transom_frame::SessionId;
use transom_harness::{
    audit::{Auditor, Summary},
    header::Header,
};
use transom_store::open_read_only;

/// Events by session and number, as they were written on the wire.
#[derive(Default)]
pub(super) struct Shown(BTreeMap<String, BTreeMap<usize, String>>);

impl Shown {
    /// One more event. What was shown before is shown again only as it was.
    pub(super) fn note(&mut self, session: &str, event: &str) {
        let parsed: Value = serde_json::from_str(event).expect("an event");
        let seq = number(&parsed["seq"]);
        let known = self.0.entry(session.to_owned()).or_default();
        match known.get(&seq) {
            Some(before) => assert_eq!(before, event, "{session}: seq {seq} has changed"),
            None => drop(known.insert(seq, event.to_owned())),
        }
    }

    /// The sessions of which something was shown.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Everything that was shown is in these logs, byte for byte.
    pub(super) fn is_in(&self, store: &Path) {
        for (session, shown) in &self.0 {
            let log = Log::read(store, session).unwrap_or_else(|| panic!("{session} is gone"));
            for (seq, event) in shown {
                let stored = log.events.get(*seq).map(String::as_str);
                assert_eq!(stored, Some(event.as_str()), "{session}: seq {seq} was shown");
            }
        }
    }
}

/// In the middle of what hosts were killed, by how many sessions were there.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) turns: usize,
    pub(super) steps: usize,
    pub(super) asks: usize,
    pub(super) jobs: usize,
    pub(super) children: usize,
}

impl Tally {
    /// One more session that a host has left.
    pub(super) fn count(&mut self, log: &Log) {
        let summary = log.audited();
        self.turns += usize::from(summary.open_turn.is_some());
        self.steps += usize::from(summary.open_step.is_some());
        self.asks += usize::from(!summary.open_approvals.is_empty());
        self.jobs += usize::from(!summary.running_jobs().is_empty());
        let is_child = log.header.parent_session.is_some();
        self.children += usize::from(is_child && summary.open_turn.is_some());
    }
}

/// A stored session.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) header: Header,
    pub(super) events: Vec<String>,
}

impl Log {
    /// As the store has it now, whoever else has the store open; `None`: it has no such session.
    pub(super) fn read(store: &Path, session: &str) -> Option<Log> {
        let reader = open_read_only(store).expect("a store that can be read");
        let mut text = Vec::new();
        let id = SessionId::from(session);
        reader.export(&id, &mut text).unwrap_or_else(|error| panic!("{session}: {error}"))?;
        let text = String::from_utf8(text).expect("readable characters");
        let mut lines = text.lines();
        let header = lines.next().expect("a header");
        let header = Header::parse(header).unwrap_or_else(|error| panic!("{session}: {error}"));
        Some(Log { header, events: lines.map(str::to_owned).collect() })
    }

    /// What it folds to; its last turn may be open.
    pub(super) fn audited(&self) -> Summary {
        self.auditor().finish().unwrap_or_else(|finding| self.unsound(&finding.to_string()))
    }

    /// The same of a log that somebody has closed.
    pub(super) fn audited_closed(&self) -> Summary {
        let summary = self.auditor().finish_closed();
        let summary = summary.unwrap_or_else(|finding| self.unsound(&finding.to_string()));
        assert_eq!(summary.running_jobs(), [] as [&str; 0], "{}", self.header.id);
        assert_eq!(summary.open_approvals, [] as [&str; 0], "{}", self.header.id);
        summary
    }

    fn auditor(&self) -> Auditor {
        let mut auditor = Auditor::new(&self.header);
        for event in &self.events {
            if let Err(finding) = auditor.push(event) {
                self.unsound(&finding.to_string());
            }
        }
        auditor
    }

    fn unsound(&self, finding: &str) -> ! {
        let events = self.events.join("\n");
        panic!("{}: {finding}\n{events}", self.header.id)
    }

    /// This log is `before` and what closes it: an open turn ends as interrupted, and nothing else happens (L-79,
    /// P-78).
    pub(super) fn closes(&self, before: &Log) {
        let id = &self.header.id;
        assert_eq!(self.header, before.header, "{id}");
        let (kept, closers) = self.events.split_at(before.events.len().min(self.events.len()));
        assert_eq!(kept, before.events, "{id}");
        let open = before.audited();
        self.audited_closed();
        let closers: Vec<Value> =
            closers.iter().map(|event| serde_json::from_str(event).expect("an event")).collect();
        let ends: Vec<_> = closers.iter().filter(|event| event["type"] == "turn/end").collect();
        match open.open_turn {
            None => assert_eq!(ends, [] as [&Value; 0], "{id}"),
            Some(turn) => {
                let end = serde_json::json!({"turn": turn, "reason": {"kind": "interrupted"}});
                assert_eq!(ends.len(), 1, "{id}: {closers:?}");
                assert_eq!(ends[0]["data"], end, "{id}");
            }
        }
        let known = [
            "tool/result",
            "approval/decided",
            "step/end",
            "turn/end",
            "session/end-seed",
            "job/settled",
            "agent/inbox/spliced",
            "permission/preset",
            "sandbox/mode",
            "approval/policy",
        ];
        for event in &closers {
            assert!(known.iter().any(|kind| event["type"] == *kind), "{id}: {event}");
        }
    }
}

/// A number of a frame.
pub(super) fn number(value: &Value) -> usize {
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
    number.unwrap_or_else(|| panic!("{value} is no number of something"))
}
