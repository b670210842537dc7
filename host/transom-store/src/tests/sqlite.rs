//! What holds for the database alone: the file, what it shares with other programs, a full disk.

use std::{fs, path::Path, sync::Arc};

use rusqlite::Connection;
use tempfile::TempDir;
use transom_harness::ports::{Append, Commit, Store as _, StoreError, StoredSession};

use super::{Kind, Log, event, failed, header, sibling, text};
use crate::{
    Durability, SqliteStore, open_read_only,
    queue::{Queue, WAITING_BYTES_MAX},
};

/// A text that is no envelope: the database takes any.
fn raw(number: u64, session: &str, seq: u64, text: &str) -> Append {
    Append { text: text.into(), ..event(number, session, seq, "") }
}

#[test]
fn any_text_is_stored_as_it_was_given() {
    let mut log = Log::new(Kind::Sqlite);
    let texts = ["", "not json", "[\n]", "\u{0}"];
    log.append_all((0..).zip(texts).map(|(seq, text)| raw(0, "main", seq, text)).collect());
    log.stored();
    assert_eq!(log.texts("main"), texts);
}

#[test]
fn a_closed_database_is_one_file() {
    let mut log = Log::new(Kind::Sqlite);
    log.append(&[("main", 0, "")]);
    log.store.close().unwrap();
    let beside = sibling(&log.path, "-wal");
    assert!(!beside.exists() || fs::metadata(beside).unwrap().len() == 0);
}

/// Decision 1 (g): nothing of a failed batch is there, and later batches leave no gap.
#[test]
fn a_full_disk_fails_a_batch_whole() {
    let mut log = Log::made(|path, sink| {
        Box::new(SqliteStore::open_bounded(path, Durability::Process, 24, sink).unwrap())
    });
    log.append(&[("a", 0, "a0"), ("b", 0, "b0")]);
    assert_eq!(log.reports(), [Commit::Through(2)]);

    let large = "x".repeat(200_000);
    log.append(&[("a", 1, "a1"), ("new", 0, "new0"), ("a", 2, &large)]);
    assert_eq!(log.reports(), [failed(3, 5, "cannot store events: database or disk is full")]);
    assert_eq!(log.texts("a"), [text(0, "a0")]);
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

    let refused = log.store.keep_attachment(large.as_bytes(), None).unwrap_err();
    assert_eq!(
        refused,
        StoreError::Io("cannot keep the attachment: database or disk is full".to_owned())
    );
}

#[test]
fn a_tool_that_holds_the_database_only_delays() {
    let mut log = Log::new(Kind::Sqlite);
    let other = Connection::open(&log.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    log.append(&[("main", 0, "{}")]);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(log.reports(), [Commit::Through(1)]);
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

    let below_a_file = error(&file.join("store"));
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

/// A crash while the store is made leaves the name free or an unfinished file beside it.
#[test]
fn an_unfinished_store_is_made_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    fs::write(&path, "").unwrap();
    fs::write(sibling(&path, ".new"), "SQLite format 3").unwrap();
    let store = SqliteStore::open(&path, Durability::Process, Box::new(|_| ())).unwrap();
    assert_eq!(store.list(), Ok(vec![]));
}

#[test]
fn ten_thousand_sessions_are_listed_newest_first() {
    let mut log = Log::new(Kind::Sqlite);
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
