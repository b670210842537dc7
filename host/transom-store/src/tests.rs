//! Stories with real files: what is reported is there, what is refused says why. Those of `shared.rs` are told of
//! every store.

mod crash;
mod damage;
mod jsonl;
mod mending;
mod shared;
mod sqlite;

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
};

use tempfile::TempDir;
use transom_frame::SessionId;
use transom_harness::ports::{Append, Commit, Page, Sink, Store, StoreError};

use crate::{Durability, JsonlOptions, JsonlStore, SqliteStore};

/// The stores there are, with their settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sqlite,
    /// Compressed and packed.
    Jsonl,
    /// Neither compressed nor packed.
    Lines,
}

const KINDS: [Kind; 3] = [Kind::Sqlite, Kind::Jsonl, Kind::Lines];

/// What every store offers beside the port.
trait Stored: Store {
    fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError>;
}

macro_rules! stored {
    ($($store:ty),*) => {$(
        impl Stored for $store {
            fn export(&self, id: &SessionId, out: &mut dyn Write) -> Result<Option<u64>, StoreError> {
                <$store>::export(self, id, out)
            }
        }
    )*};
}

stored!(SqliteStore, JsonlStore);

impl Kind {
    fn options(self) -> JsonlOptions {
        let is_default = self != Kind::Lines;
        JsonlOptions { compressed: is_default, packed: is_default, ..JsonlOptions::default() }
    }

    fn open(self, path: &Path, durability: Durability, sink: Sink<Commit>) -> Box<dyn Stored> {
        match self {
            Kind::Sqlite => Box::new(SqliteStore::open(path, durability, sink).unwrap()),
            Kind::Jsonl | Kind::Lines => {
                let options = JsonlOptions { durability, ..self.options() };
                Box::new(JsonlStore::open(path, options, sink).unwrap())
            }
        }
    }
}

/// A store in a directory of its own, and what it has reported.
struct Log {
    store: Box<dyn Stored>,
    commits: Receiver<Commit>,
    numbers: u64,
    /// A database, or a session root.
    path: PathBuf,
    directory: TempDir,
}

impl Log {
    fn new(kind: Kind) -> Log {
        // Says which store a failed test is about.
        eprintln!("{kind:?}");
        Log::made(|path, sink| kind.open(path, Durability::Process, sink))
    }

    fn made(open: impl FnOnce(&Path, Sink<Commit>) -> Box<dyn Stored>) -> Log {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("store");
        let (sink, commits) = sink();
        let store = open(&path, sink);
        Log { store, commits, numbers: 0, path, directory }
    }

    /// Closes the store and opens it once more.
    fn reopened(self, kind: Kind) -> Log {
        let Log { store, numbers, path, directory, .. } = self;
        store.close().unwrap();
        let (sink, commits) = sink();
        Log { store: kind.open(&path, Durability::Power, sink), commits, numbers, path, directory }
    }

    /// Appends in one call: session, seq, data.
    fn append(&mut self, events: &[(&str, u64, &str)]) {
        let append = |&(session, seq, data): &(&str, u64, &str)| {
            self.numbers += 1;
            event(self.numbers, session, seq, data)
        };
        let events = events.iter().map(append).collect();
        self.store.append(events);
    }

    /// Appends in one call events whose number does not matter.
    fn append_all(&mut self, events: Vec<Append>) {
        let numbered = events.into_iter().map(|append| {
            self.numbers += 1;
            Append { number: self.numbers, ..append }
        });
        let events = numbered.collect();
        self.store.append(events);
    }

    /// What has been reported about everything appended so far, in the order in which it came.
    fn reports(&mut self) -> Vec<Commit> {
        let mut reports = Vec::new();
        loop {
            let commit = self.commits.recv().unwrap();
            let through = match commit {
                Commit::Through(through) | Commit::Failed { through, .. } => through,
            };
            reports.push(commit);
            if through == self.numbers {
                return reports;
            }
        }
    }

    /// Like [`reports`](Log::reports), where nothing may have failed.
    fn stored(&mut self) {
        let reports = self.reports();
        assert!(reports.iter().all(|report| matches!(report, Commit::Through(_))), "{reports:?}");
    }

    fn texts(&self, session: &str) -> Vec<String> {
        read(&*self.store, session, Page::events(0, u64::MAX)).unwrap()
    }

    fn events(&self, session: &str) -> Option<u64> {
        self.store.find(&session.into()).unwrap().map(|stored| stored.events)
    }

    fn exported(&self, session: &str) -> (Option<u64>, String) {
        let mut out = Vec::new();
        let events = self.store.export(&session.into(), &mut out).unwrap();
        (events, String::from_utf8(out).unwrap())
    }
}

fn sink() -> (Sink<Commit>, Receiver<Commit>) {
    let (report, commits) = mpsc::sync_channel(65_536);
    (Box::new(move |commit| report.send(commit).unwrap()), commits)
}

fn read(store: &dyn Stored, session: &str, page: Page) -> Result<Vec<String>, StoreError> {
    Ok(store.read(&session.into(), page)?.iter().map(|text| text.to_string()).collect())
}

fn event(number: u64, session: &str, seq: u64, data: &str) -> Append {
    Append {
        number,
        session: session.into(),
        header: header(session).into(),
        seq,
        time: 1000 + seq,
        kind: "user/message".into(),
        text: text(seq, data).into(),
    }
}

/// The envelope of [`event`].
fn text(seq: u64, data: &str) -> String {
    format!(r#"{{"type":"user/message","seq":{seq},"time":{},"data":"{data}"}}"#, 1000 + seq)
}

/// Any other event.
fn other(session: &str, seq: u64, kind: &str, data: &str) -> Append {
    let text = format!(r#"{{"type":"{kind}","seq":{seq},"time":{},"data":{data}}}"#, 1000 + seq);
    Append { kind: kind.into(), text: text.into(), ..event(0, session, seq, "") }
}

/// A delta as the loop logs it.
fn delta(session: &str, seq: u64, text: &str) -> Append {
    let data = format!(
        r#"{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{text}"}}}}"#
    );
    other(session, seq, "assistant/chunk", &data)
}

fn turn_end(session: &str, seq: u64) -> Append {
    other(session, seq, "turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#)
}

fn header(session: &str) -> String {
    format!(
        r#"{{"type":"session","version":0,"id":"{session}","createdAt":5,"delegationDepth":0}}"#
    )
}

fn failed(from: u64, through: u64, message: &str) -> Commit {
    Commit::Failed { from, through, message: message.to_owned() }
}

fn texts(events: &[Append]) -> Vec<String> {
    events.iter().map(|append| append.text.to_string()).collect()
}

fn on_each(test: impl Fn(Kind, Log)) {
    for kind in KINDS {
        test(kind, Log::new(kind));
    }
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    crate::file::sibling(path, suffix)
}

/// A text of many kilobytes.
fn long(kilobytes: usize) -> Arc<str> {
    "0123456789abcdef".repeat(64 * kilobytes).into()
}
