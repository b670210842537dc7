//! What is said of a damaged store, and that what can be read still is (decision 45).

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
};

use rusqlite::Connection;
use transom_harness::ports::{Page, StoreError};

use super::{Kind, Log, delta, event, failed, long, read, text, turn_end};
use crate::open_read_only;

fn log_of_nine() -> Log {
    let mut log = Log::new(Kind::Sqlite);
    log.append(&(0..9).map(|seq| ("main", seq, "x")).collect::<Vec<_>>());
    log.append(&[("other", 0, "x")]);
    log.stored();
    log
}

fn sql(log: &Log, text: &str) {
    Connection::open(&log.path).unwrap().execute_batch(text).unwrap();
}

/// What an export wrote, and where it stopped.
fn partial(log: &Log) -> (Vec<String>, String) {
    let mut out = Vec::new();
    let reader = open_read_only(&log.path).unwrap();
    let stopped = reader.export(&"main".into(), &mut out).unwrap_err();
    (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), stopped.to_string())
}

#[test]
fn a_table_that_is_gone_fails_every_batch_and_says_so() {
    let mut log = log_of_nine();
    sql(&log, "DROP TABLE events");
    log.append(&[("main", 9, "")]);
    assert_eq!(log.reports(), [failed(11, 11, "cannot store events: no such table: events")]);
    let error = read(&*log.store, "main", Page::events(0, 1)).unwrap_err().to_string();
    assert!(error.starts_with("cannot read session \"main\" at seq 0 in the store "), "{error}");
    assert!(error.contains("no such table: events"), "{error}");
}

#[test]
fn an_event_row_that_is_gone_is_missed() {
    let log = log_of_nine();
    sql(&log, "DELETE FROM events WHERE seq IN (3, 4) AND session = 1");
    let damaged = |seq: u64, stored: u64, found: &str| {
        StoreError::Io(format!(
            "the store {:?} is damaged: session \"main\" has no event at seq {seq}, though {stored} were stored; {found}",
            log.path
        ))
    };
    let next = "the next one that is there has seq 5";
    for (from, limit, expected) in [
        (0, 9, Err(damaged(3, 9, next))),
        (3, 9, Err(damaged(3, 9, next))),
        (4, 3, Err(damaged(4, 7, next))),
        (0, 3, Ok(3)),
        (5, 9, Ok(4)),
    ] {
        let found = read(&*log.store, "main", Page::events(from, limit)).map(|texts| texts.len());
        assert_eq!(found, expected, "from {from}, limit {limit}");
    }
    assert_eq!(log.texts("other"), [text(0, "x")]);

    let (lines, stopped) = partial(&log);
    assert_eq!(lines[1..], [text(0, "x"), text(1, "x"), text(2, "x")]);
    let whole = damaged(3, 9, next);
    assert_eq!(stopped, format!("the export of session \"main\" stops after 3 events: {whole}"));

    sql(&log, "DELETE FROM events WHERE seq > 6 AND session = 1");
    let at_the_end = read(&*log.store, "main", Page::events(5, 9)).unwrap_err();
    assert_eq!(at_the_end, damaged(7, 9, "nothing is there behind it either"));
}

#[test]
fn a_column_that_is_no_text_is_located() {
    let log = log_of_nine();
    // STRICT tables refuse other types, but text need not be UTF-8.
    sql(&log, "UPDATE events SET text = CAST(x'FF' AS TEXT) WHERE seq = 2 AND session = 1");
    let (lines, stopped) = partial(&log);
    assert_eq!(lines.len(), 3);
    assert!(
        stopped.contains("after 2 events: cannot read session \"main\" at seq 2 in the store"),
        "{stopped}"
    );
}

#[test]
fn a_page_that_is_overwritten_is_located() {
    let mut log = Log::new(Kind::Sqlite);
    for seq in 0..200 {
        log.append(&[("main", seq, &long(2))]);
    }
    log.stored();
    log.store.close().unwrap();
    let length = fs::metadata(&log.path).unwrap().len();
    let file = OpenOptions::new().write(true).open(&log.path).unwrap();
    file.write_all_at(&vec![0xA5; 4096 * 8], (length / 2) & !4095).unwrap();

    let (lines, stopped) = partial(&log);
    let written = lines.len() - 1;
    assert!(written < 200);
    let expected: Vec<String> = (0..written as u64).map(|seq| text(seq, &long(2))).collect();
    assert!(lines[1..] == expected, "what comes out is unharmed");
    assert!(
        stopped.starts_with(&format!(
            "the export of session \"main\" stops after {written} events: the store {:?} is damaged, found while \
             reading session \"main\" at seq {written}: ",
            log.path
        )),
        "{stopped}"
    );
}

/// Decision 45.
#[test]
fn an_export_of_a_damaged_log_gives_what_can_be_read() {
    for kind in [Kind::Jsonl, Kind::Lines] {
        let mut log = Log::new(kind);
        for seq in 0..4 {
            log.append_all(vec![event(0, "main", seq, "x")]);
            log.stored();
        }
        let before = fs::metadata(log.path.join("_no-cwd/main").join(name(kind))).unwrap().len();
        log.append_all(vec![delta("main", 4, "a"), turn_end("main", 5)]);
        log.stored();
        log.append_all(vec![turn_end("main", 6)]);
        log.stored();
        log.store.close().unwrap();
        let path = log.path.join("_no-cwd/main").join(name(kind));
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"\xff\xff\xff", before + 20).unwrap();

        let (lines, stopped) = partial(&log);
        assert_eq!(lines[1..], [0, 1, 2, 3].map(|seq| text(seq, "x")));
        let expected = format!(
            "the export of session \"main\" stops after 4 events: corrupt session log: unparsable committed event \
             at line 6 (in {path:?})"
        );
        assert_eq!(stopped, expected);
        let refused = open_read_only(&log.path).unwrap().read(&"main".into(), Page::events(0, 1));
        assert!(refused.unwrap_err().to_string().starts_with("corrupt session log: "));
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Lines => "session.jsonl",
        _ => "session.jsonl.zstd",
    }
}

/// what is given back is what was kept, or nothing.
#[test]
fn an_attachment_whose_bytes_have_changed_is_not_given_back() {
    let name = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let damaged =
        StoreError::Io(format!("the attachment {name} is damaged: its bytes have another digest"));
    let log = Log::new(Kind::Sqlite);
    log.store.keep_attachment(b"abc", None).unwrap();
    sql(&log, "UPDATE attachments SET bytes = x'616264'");
    assert_eq!(log.store.attachment(name), Err(damaged.clone()));

    let log = Log::new(Kind::Lines);
    log.store.keep_attachment(b"abc", None).unwrap();
    let file = log.path.join(".attachments").join(&name["sha256:".len()..]);
    fs::write(&file, b"ab").unwrap();
    assert_eq!(log.store.attachment(name), Err(damaged));
    // Whoever brings it again makes it whole.
    log.store.keep_attachment(b"abc", None).unwrap();
    assert_eq!(log.store.attachment(name).unwrap().unwrap().bytes, b"abc");
}

#[test]
fn attachments_stay_within_their_root() {
    let log = Log::new(Kind::Lines);
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), log.path.join(".attachments")).unwrap();
    let error = log.store.keep_attachment(b"abc", None).unwrap_err().to_string();
    assert!(error.ends_with(".attachments\" is not a directory of its own"), "{error}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

/// What a host that was killed had begun to write has no name of an attachment, and is in nobody's way.
#[test]
fn an_attachment_that_was_not_finished_is_none() {
    let name = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let log = Log::new(Kind::Lines);
    let directory = log.path.join(".attachments");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join(format!("{}-0.new", std::process::id())), b"ab").unwrap();
    assert_eq!(log.store.attachment(name), Ok(None));
    assert_eq!(log.store.keep_attachment(b"abc", Some("image/png")).as_deref(), Ok(name));
    assert_eq!(log.store.attachment(name).unwrap().unwrap().bytes, b"abc");
}
