//! Stories with real files: what is reported is there, what is refused says why.

mod crash;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
};

use rusqlite::Connection;
use tempfile::TempDir;
use transom_frame::SessionId;
use transom_harness::ports::{Append, Commit, Page, Store as _, StoreError, StoredSession};

use crate::{
    ATTACHMENT_BYTES_MAX, Durability, SqliteStore, open_read_only,
    queue::{Queue, WAITING_BYTES_MAX},
};

/// A store in a directory of its own, and what it has reported.
struct Log {
    store: SqliteStore,
    commits: Receiver<Commit>,
    numbers: u64,
    path: PathBuf,
    _directory: TempDir,
}

impl Log {
    fn new() -> Log {
        Log::open(None)
    }

    fn open(pages_max: Option<u32>) -> Log {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("store.db");
        let (report, commits) = mpsc::sync_channel(65_536);
        let sink = Box::new(move |commit| report.send(commit).unwrap());
        let store = match pages_max {
            None => SqliteStore::open(&path, Durability::Process, sink),
            Some(pages) => SqliteStore::open_bounded(&path, Durability::Process, pages, sink),
        };
        Log { store: store.unwrap(), commits, numbers: 0, path, _directory: directory }
    }

    /// Appends in one call: session, seq, text.
    fn append(&mut self, events: &[(&str, u64, &str)]) {
        let append = |&(session, seq, text): &(&str, u64, &str)| {
            self.numbers += 1;
            event(self.numbers, session, seq, text)
        };
        let events = events.iter().map(append).collect();
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

    fn texts(&self, session: &str) -> Vec<String> {
        let texts = self.store.read(&session.into(), Page::events(0, u64::MAX)).unwrap();
        texts.iter().map(|text| text.to_string()).collect()
    }
}

fn event(number: u64, session: &str, seq: u64, text: &str) -> Append {
    Append {
        number,
        session: session.into(),
        header: header(session).into(),
        seq,
        time: 1000 + seq,
        kind: "user/message".into(),
        text: text.into(),
    }
}

fn header(session: &str) -> String {
    format!(r#"{{"version":0,"id":"{session}","createdAt":5}}"#)
}

fn failed(from: u64, through: u64, message: &str) -> Commit {
    Commit::Failed { from, through, message: message.to_owned() }
}

#[test]
fn what_is_reported_can_be_read() {
    let mut log = Log::new();
    for number in 1..=500 {
        log.append(&[("main", number - 1, &format!("{{\"seq\":{}}}", number - 1))]);
    }
    let mut last = 0;
    for report in log.reports() {
        let Commit::Through(through) = report else { panic!("{report:?}") };
        assert!(through > last, "reports are in order: {through} after {last}");
        last = through;
        let newest = log.store.read(&"main".into(), Page::events(through - 1, 1)).unwrap();
        assert_eq!(*newest[0], format!("{{\"seq\":{}}}", through - 1));
    }
}

/// L-73.
#[test]
fn a_session_comes_into_being_with_its_first_event() {
    let mut log = Log::new();
    assert_eq!(log.store.find(&"main".into()).unwrap(), None);

    log.append(&[("main", 0, "{}"), ("main", 1, "{}")]);
    assert_eq!(log.reports(), [Commit::Through(2)]);
    let stored =
        StoredSession { id: "main".into(), header: header("main"), events: 2, updated_at: 1001 };
    assert_eq!(log.store.find(&"main".into()).unwrap(), Some(stored));
}

#[test]
fn events_are_stored_as_they_were_given() {
    let mut log = Log::new();
    let texts = [
        r#"{"a": 1.0, "a": 1e2 }"#,
        "{\"你好\":\"🦀\u{2028}\u{0}\"}",
        "",
        "not json",
        "{\"n\":9007199254740993}",
    ];
    for (seq, text) in (0..).zip(texts) {
        log.append(&[("a/b..c \u{1F980}", seq, text)]);
    }
    log.reports();
    assert_eq!(log.texts("a/b..c \u{1F980}"), texts);
}

#[test]
fn a_read_takes_the_part_it_asks_for() {
    let mut log = Log::new();
    log.append(&[("main", 0, "0"), ("other", 0, "x"), ("main", 1, "1"), ("main", 2, "2")]);
    log.reports();
    let read = |from, limit| {
        let texts = log.store.read(&"main".into(), Page::events(from, limit)).unwrap();
        texts.iter().map(|text| text.to_string()).collect::<Vec<_>>().concat()
    };
    for (from, limit, expected) in
        [(0, 2, "01"), (1, 9, "12"), (2, 1, "2"), (3, 1, ""), (0, 0, ""), (u64::MAX, u64::MAX, "")]
    {
        assert_eq!(read(from, limit), expected, "from {from}, limit {limit}");
    }
    assert!(log.store.read(&"nobody".into(), Page::events(0, 9)).unwrap().is_empty());
}

/// L-73: an append continues exactly at the stored end.
#[test]
fn an_event_that_leaves_a_gap_is_refused_alone() {
    let mut log = Log::new();
    log.append(&[
        ("a", 0, "a0"),
        ("b", 0, "b0"),
        ("a", 2, "a2"),
        ("a", 3, "a3"),
        ("b", 1, "b1"),
        ("b", 1, "b1"),
    ]);
    assert_eq!(
        log.reports(),
        [
            Commit::Through(2),
            failed(3, 4, "append seq mismatch for \"a\": expected 1 at index 2, got 2"),
            Commit::Through(5),
            failed(6, 6, "append seq mismatch for \"b\": expected 2 at index 5, got 1"),
        ]
    );
    log.append(&[("c", 1, "c1")]);
    assert_eq!(
        log.reports(),
        [failed(7, 7, "append seq mismatch for \"c\": expected 0 at index 0, got 1")]
    );
    assert_eq!(log.store.find(&"c".into()).unwrap(), None);
    assert_eq!(
        (log.texts("a"), log.texts("b")),
        (vec!["a0".to_owned()], vec!["b0".to_owned(), "b1".to_owned()])
    );

    // The host has dropped its suffix and goes on at the stored end.
    log.append(&[("a", 1, "again")]);
    assert_eq!(log.reports(), [Commit::Through(8)]);
    assert_eq!(log.texts("a"), ["a0", "again"]);
}

/// Decision 1 (g): nothing of a failed batch is there, and later batches leave no gap.
#[test]
fn a_full_disk_fails_a_batch_whole() {
    let mut log = Log::open(Some(24));
    log.append(&[("a", 0, "a0"), ("b", 0, "b0")]);
    assert_eq!(log.reports(), [Commit::Through(2)]);

    let large = "x".repeat(200_000);
    log.append(&[("a", 1, "a1"), ("new", 0, "new0"), ("a", 2, &large)]);
    assert_eq!(log.reports(), [failed(3, 5, "cannot store events: database or disk is full")]);
    assert_eq!(log.texts("a"), ["a0"]);
    assert_eq!(log.store.find(&"new".into()).unwrap(), None);

    // What was on its way when it happened.
    log.append(&[("a", 3, "a3"), ("b", 1, "b1"), ("new", 1, "new1")]);
    assert_eq!(
        log.reports(),
        [
            failed(6, 6, "append seq mismatch for \"a\": expected 1 at index 0, got 3"),
            Commit::Through(7),
            failed(8, 8, "append seq mismatch for \"new\": expected 0 at index 2, got 1"),
        ]
    );
    log.append(&[("a", 1, "a1"), ("new", 0, "new0")]);
    assert_eq!(log.reports(), [Commit::Through(10)]);
    assert_eq!((log.texts("a").len(), log.texts("b").len(), log.texts("new").len()), (2, 2, 1));

    let refused = log.store.keep_attachment(large.as_bytes()).unwrap_err();
    assert_eq!(
        refused,
        StoreError::Io("cannot keep the attachment: database or disk is full".to_owned())
    );
}

#[test]
fn a_tool_that_holds_the_database_only_delays() {
    let mut log = Log::new();
    let other = Connection::open(&log.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    log.append(&[("main", 0, "{}")]);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(log.reports(), [Commit::Through(1)]);
}

#[test]
fn a_table_that_is_gone_fails_every_batch_and_says_so() {
    let mut log = Log::new();
    Connection::open(&log.path).unwrap().execute_batch("DROP TABLE events").unwrap();
    log.append(&[("main", 0, "{}")]);
    assert_eq!(log.reports(), [failed(1, 1, "cannot store events: no such table: events")]);
    let read = log.store.read(&"main".into(), Page::events(0, 1)).unwrap_err();
    assert!(read.to_string().contains("no such table: events"), "{read}");
}

#[test]
fn waiting_events_are_bounded() {
    let queue = Queue::default();
    let megabyte: Arc<str> = "x".repeat(1024 * 1024).into();
    let fitting = WAITING_BYTES_MAX / megabyte.len();
    let events = (1..=fitting as u64 + 3)
        .map(|number| Append {
            text: Arc::clone(&megabyte),
            ..event(number, "main", number - 1, "")
        })
        .collect();
    assert!(queue.append(events).is_ok());

    let batch = queue.take().unwrap();
    let refused: Vec<_> = batch.events.iter().filter(|queued| queued.refused.is_some()).collect();
    assert_eq!(refused.len(), 3);
    assert!(
        refused
            .iter()
            .all(|queued| queued.append.text.is_empty() && queued.append.number > fitting as u64)
    );

    assert!(queue.append(vec![event(1, "main", 0, "{}")]).is_ok());
    assert_eq!(queue.take().unwrap().events[0].refused, None, "the bound is on what waits");
}

#[test]
fn closing_stores_what_waits_and_refuses_the_rest() {
    let mut log = Log::new();
    for seq in 0..1000 {
        log.append(&[("main", seq, "{}")]);
    }
    log.store.close().unwrap();
    assert_eq!(log.reports().last(), Some(&Commit::Through(1000)));

    let closed = format!("the store {:?} is closed", log.path);
    log.append(&[("main", 1000, "{}"), ("main", 1001, "{}")]);
    assert_eq!(log.reports(), [failed(1001, 1002, &closed)]);
    assert_eq!(log.store.list().unwrap_err(), StoreError::Io(closed.clone()));
    assert_eq!(log.store.keep_attachment(b"x").unwrap_err(), StoreError::Io(closed));
    assert_eq!(log.store.close(), Ok(()), "closing twice is closing once");

    let reopened = SqliteStore::open(&log.path, Durability::Power, Box::new(|_| ())).unwrap();
    assert_eq!(reopened.find(&"main".into()).unwrap().unwrap().events, 1000);
    assert!(
        !sibling(&log.path, "-wal").exists()
            || fs::metadata(sibling(&log.path, "-wal")).unwrap().len() == 0
    );
}

#[test]
fn a_page_ends_at_its_bytes_but_never_empty() {
    let mut log = Log::new();
    let long = "x".repeat(1000);
    log.append(&[("main", 0, &long), ("main", 1, &long), ("main", 2, "{}")]);
    log.reports();
    let read = |bytes_max| {
        let page = Page { from: 0, limit: 9, bytes_max };
        log.store.read(&"main".into(), page).unwrap().len()
    };
    assert_eq!((read(1), read(1001), read(u64::MAX)), (1, 2, 3));
}

#[test]
fn a_dropped_store_is_a_closed_one() {
    let mut log = Log::new();
    log.append(&[("main", 0, "{}")]);
    drop(log.store);
    assert_eq!(log.commits.iter().collect::<Vec<_>>(), [Commit::Through(1)]);
    assert_eq!(open_read_only(&log.path).unwrap().list().unwrap().len(), 1);
}

#[test]
fn two_stores_on_one_file_take_turns() {
    let mut one = Log::new();
    let (sender, reports) = mpsc::sync_channel(1024);
    let sink = Box::new(move |commit| sender.send(commit).unwrap());
    let other = SqliteStore::open(&one.path, Durability::Process, sink).unwrap();
    for seq in 0..50 {
        one.append(&[("of-one", seq, "{}")]);
        other.append(vec![event(seq + 1, "of-other", seq, "{}")]);
    }
    one.store.close().unwrap();
    other.close().unwrap();
    let failed = |commit: &Commit| matches!(commit, Commit::Failed { .. });
    assert!(!one.commits.try_iter().any(|commit| failed(&commit)));
    assert!(!reports.try_iter().any(|commit| failed(&commit)));
    let reader = open_read_only(&one.path).unwrap();
    for id in ["of-one", "of-other"] {
        assert_eq!(reader.find(&id.into()).unwrap().unwrap().events, 50);
    }
}

#[test]
fn a_session_is_begun_once() {
    // L-3 over two processes: whoever comes second is told, and nothing of it is stored.
    let mut one = Log::new();
    one.append(&[("main", 0, "{}"), ("main", 1, "{}")]);
    one.store.close().unwrap();
    let (sender, reports) = mpsc::sync_channel(1024);
    let sink = Box::new(move |commit| sender.send(commit).unwrap());
    let other = SqliteStore::open(&one.path, Durability::Process, sink).unwrap();
    other.append(vec![event(1, "main", 0, "{}")]);
    other.close().unwrap();
    let message = "session \"main\" already exists: another process began it meanwhile".to_owned();
    assert_eq!(reports.recv().unwrap(), Commit::Failed { from: 1, through: 1, message });
    assert_eq!(open_read_only(&one.path).unwrap().find(&"main".into()).unwrap().unwrap().events, 2);
}

#[test]
fn files_that_are_no_store_are_refused_untouched() {
    let directory = TempDir::new().unwrap();
    let database = |name: &str, sql: &str| {
        let path = directory.path().join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        path
    };
    let text = directory.path().join("notes.txt");
    fs::write(&text, "remember the milk ".repeat(100)).unwrap();
    let cases = [
        (text, "is not a store: it is no SQLite database at all; name another file"),
        (
            database("other.db", "CREATE TABLE milk (litres)"),
            "is another program's database (application id 0x00000000), not a store: name another file",
        ),
        (
            database("harness.db", "PRAGMA application_id = 0x44534850; PRAGMA user_version = 15"),
            "is another program's database (application id 0x44534850), not a store: name another file",
        ),
        (
            database("later.db", "PRAGMA application_id = 0x54524E53; PRAGMA user_version = 2"),
            "has version 2, but this program reads only version 1: use the program that wrote it, or name another file",
        ),
    ];
    for (path, expected) in cases {
        let before = fs::read(&path).unwrap();
        for error in [
            SqliteStore::open(&path, Durability::Process, Box::new(|_| ())).unwrap_err(),
            open_read_only(&path).unwrap_err(),
        ] {
            let StoreError::Foreign(message) = &error else { panic!("{error:?}") };
            assert!(message.ends_with(expected), "{message}");
            assert!(message.contains(&format!("{path:?}")), "{message}");
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn places_where_no_store_can_be_are_named() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = |path: &Path| {
        SqliteStore::open(path, Durability::Process, Box::new(|_| ())).unwrap_err().to_string()
    };

    let below_a_file = error(&file.join("store.db"));
    assert_eq!(
        below_a_file,
        format!("cannot make the store's directory {file:?}: File exists (os error 17)")
    );
    let a_directory = error(directory.path());
    assert_eq!(
        a_directory,
        format!(
            "cannot open the store {:?}: unable to open database file: {}",
            directory.path(),
            directory.path().display()
        )
    );
    let missing = directory.path().join("none.db");
    let missing_message = open_read_only(&missing).unwrap_err();
    assert_eq!(missing_message, StoreError::Io(format!("there is no store {missing:?}")));
    assert!(!missing.exists());
}

#[test]
fn the_files_are_for_their_owner_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a/b/store.db");
    let store = SqliteStore::open(&path, Durability::Process, Box::new(|_| ())).unwrap();
    store.keep_attachment(b"x").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode(&directory.path().join("a")), mode(&directory.path().join("a/b"))),
        (0o700, 0o700)
    );
    for suffix in ["", "-wal", "-shm", ".lock"] {
        assert_eq!(mode(&sibling(&path, suffix)), 0o600, "store.db{suffix}");
    }
    assert!(!sibling(&path, ".new").exists());
}

/// A crash while the store is made leaves the name free or an unfinished file beside it.
#[test]
fn an_unfinished_store_is_made_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    fs::write(&path, "").unwrap();
    fs::write(sibling(&path, ".new"), "SQLite format 3").unwrap();
    let store = SqliteStore::open(&path, Durability::Process, Box::new(|_| ())).unwrap();
    assert_eq!(store.list(), Ok(vec![]));
}

/// S-58, decision 47.
#[test]
fn an_attachment_is_kept_once_under_its_digest() {
    let log = Log::new();
    let name = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(log.store.keep_attachment(b"abc").as_deref(), Ok(name));
    let kept = || log.store.attachment(name).unwrap().unwrap();
    assert_eq!((kept().media_type, kept().bytes), (None, b"abc".to_vec()));

    for media_type in [Some("image/png"), Some("image/gif"), None] {
        assert_eq!(log.store.keep_attachment_as(b"abc", media_type).as_deref(), Ok(name));
        assert_eq!(
            kept().media_type.as_deref(),
            Some("image/png"),
            "the first that was said stays"
        );
    }
    assert_eq!(log.store.attachment("sha256:00").unwrap(), None);
    let too_large = log.store.keep_attachment(&vec![0; ATTACHMENT_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(
        too_large,
        StoreError::Io(
            "an attachment of 167772161 bytes is over the limit of 167772160".to_owned()
        )
    );
}

#[test]
fn ten_thousand_sessions_are_listed_newest_first() {
    let mut log = Log::new();
    let names: Vec<String> = (0..10_000).map(|number| format!("session-{number}")).collect();
    for name in &names {
        log.append(&[(name, 0, "{}")]);
    }
    log.append(&[("session-77", 1, "{}")]);
    log.reports();

    let listed = log.store.list().unwrap();
    assert_eq!(listed.len(), 10_000);
    let newest = StoredSession {
        id: "session-77".into(),
        header: header("session-77"),
        events: 2,
        updated_at: 1001,
    };
    assert_eq!(listed[0], newest);
    let mut rest: Vec<_> = listed.iter().map(|session| session.id.as_str()).collect();
    rest.sort_unstable();
    rest.dedup();
    assert_eq!(rest.len(), 10_000);
}

/// Decision 2: the canonical form of a log; L-76: its first line.
#[test]
fn an_export_is_a_header_line_and_a_line_for_each_event() {
    let mut log = Log::new();
    let header = r#"{"id":"child","delegationDepth":2,"createdAt":7,"extra":[1],"cwd":"/a b","origin":"subagent","parentSession":"main","version":0}"#;
    log.numbers = 2;
    let events = [(0, r#"{"type":"a","seq":0}"#), (1, "{\"type\":\"b\",\r\n\"seq\":1}")];
    let append =
        |(seq, text)| Append { header: header.into(), ..event(seq + 1, "child", seq, text) };
    log.store.append(events.map(append).into());
    log.reports();

    let export = |id: &str| {
        let mut out = Vec::new();
        let events = log.store.export(&id.into(), &mut out).unwrap();
        (events, String::from_utf8(out).unwrap())
    };
    let expected = concat!(
        r#"{"type":"session","version":0,"id":"child","createdAt":7,"cwd":"/a b","parentSession":"main","#,
        r#""origin":"subagent","delegationDepth":2,"extra":[1]}"#,
        "\n{\"type\":\"a\",\"seq\":0}\n{\"type\":\"b\",  \"seq\":1}\n"
    );
    assert_eq!(export("child"), (Some(2), expected.to_owned()));
    assert_eq!(export("nobody"), (None, String::new()));
}

#[test]
fn a_header_line_always_says_version_and_depth() {
    for (stored, expected) in [
        (
            r#"{"id":"a","createdAt":1}"#,
            Some(r#"{"type":"session","version":0,"id":"a","createdAt":1,"delegationDepth":0}"#),
        ),
        (
            r#"{"type":"other","agentPreset":"p","seedLength":3,"id":"a","createdAt":1}"#,
            Some(
                r#"{"type":"session","version":0,"id":"a","createdAt":1,"seedLength":3,"delegationDepth":0,"agentPreset":"p"}"#,
            ),
        ),
        ("[]", None),
        ("", None),
    ] {
        assert_eq!(crate::header::line(stored).as_deref(), expected, "{stored}");
    }
}

#[test]
fn an_export_is_one_moment_while_the_log_grows() {
    let mut log = Log::new();
    log.append(&[("main", 0, "0")]);
    log.reports();

    /// Lets the log grow in the middle of the export.
    struct Growing<'a>(&'a mut Log, Vec<u8>);
    impl std::io::Write for Growing<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let next = self.0.store.find(&"main".into()).unwrap().unwrap().events;
            self.0.append(&[("main", next, "later")]);
            self.0.reports();
            self.1.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let reader = open_read_only(&log.path).unwrap();
    let mut out = Growing(&mut log, Vec::new());
    assert_eq!(reader.export(&"main".into(), &mut out).unwrap(), Some(1));
    let text = String::from_utf8(out.1).unwrap();
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["0"]);
    assert!(log.store.find(&"main".into()).unwrap().unwrap().events > 1);
}

#[test]
fn a_store_that_is_open_can_be_read_beside_it() {
    let mut log = Log::new();
    let reader = open_read_only(&log.path).unwrap();
    log.append(&[("main", 0, "{}")]);
    log.reports();
    assert_eq!(reader.find(&SessionId::from("main")).unwrap().unwrap().events, 1);
    assert_eq!(reader.read(&"main".into(), Page::events(0, 9)).unwrap().len(), 1);
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    path.with_file_name(format!("{}{suffix}", path.file_name().unwrap().to_str().unwrap()))
}
