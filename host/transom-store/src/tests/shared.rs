//! What holds for every store.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Barrier, Mutex, mpsc},
    thread,
};

use tempfile::TempDir;
use transom_harness::ports::{Append, Commit, Page, StoreError, StoredSession};

use super::{
    KINDS, Kind, Log, delta, event, failed, header, long, on_each, other, read, sink, text, texts,
};
use crate::{ATTACHMENT_BYTES_MAX, Durability, open_read_only};

#[test]
fn what_is_reported_can_be_read() {
    on_each(|_, mut log| {
        for number in 1..=500 {
            log.append(&[("main", number - 1, "x")]);
        }
        let mut last = 0;
        for report in log.reports() {
            let Commit::Through(through) = report else { panic!("{report:?}") };
            assert!(through > last, "reports are in order: {through} after {last}");
            last = through;
            let newest = read(&*log.store, "main", Page::events(through - 1, 1)).unwrap();
            assert_eq!(newest, [text(through - 1, "x")]);
        }
    });
}

/// L-73.
#[test]
fn a_session_comes_into_being_with_its_first_event() {
    on_each(|_, mut log| {
        assert_eq!(log.store.find(&"main".into()).unwrap(), None);
        assert_eq!(log.store.claim(&"main".into()), Ok(true));
        assert_eq!(log.store.find(&"main".into()).unwrap(), None);
        assert_eq!(log.store.list(), Ok(vec![]));

        log.append(&[("main", 0, ""), ("main", 1, "")]);
        assert_eq!(log.reports(), [Commit::Through(2)]);
        let stored = StoredSession {
            id: "main".into(),
            header: header("main"),
            events: 2,
            updated_at: 1001,
        };
        assert_eq!(log.store.find(&"main".into()), Ok(Some(stored.clone())));
        assert_eq!(log.store.list(), Ok(vec![stored]));
    });
}

#[test]
fn events_are_stored_as_they_were_given() {
    on_each(|kind, mut log| {
        let id = "a/b..c \u{1F980}";
        let events = vec![
            other(id, 0, "a", r#"{"a": 1.0, "a": 1e2 }"#),
            other(id, 1, "b", "{\"你好\":\"🦀\u{2028}\\u0000\"}"),
            other(id, 2, "c", "{\"n\":9007199254740993}"),
            other(id, 3, "d", "null"),
            delta(id, 4, "one"),
            delta(id, 5, "\\u00e9 said otherwise than this host would"),
            delta(id, 6, "two"),
            delta(id, 7, "\\\"three\\\"\\n"),
            delta(id, 8, "四"),
            delta(id, 9, ""),
        ];
        log.append_all(events.clone());
        log.stored();
        assert_eq!(log.texts(id), texts(&events));
        let log = log.reopened(kind);
        assert_eq!(log.texts(id), texts(&events));
        assert_eq!(log.events(id), Some(10));
    });
}

#[test]
fn a_read_takes_the_part_it_asks_for() {
    on_each(|kind, mut log| {
        let deltas: Vec<Append> = (3..9).map(|seq| delta("main", seq, "x")).collect();
        log.append(&[("main", 0, "0"), ("other", 0, "x"), ("main", 1, "1"), ("main", 2, "2")]);
        log.append_all(deltas);
        log.stored();
        for is_live in [true, false] {
            let all = log.texts("main");
            assert_eq!(all.len(), 9);
            for (from, limit) in [(0, 2), (1, 9), (2, 1), (3, 1), (4, 3), (8, 5), (9, 1), (0, 0)] {
                let expected: Vec<_> =
                    all.iter().skip(from as usize).take(limit as usize).cloned().collect();
                let page = read(&*log.store, "main", Page::events(from, limit)).unwrap();
                assert_eq!(page, expected, "from {from}, limit {limit}, live {is_live}");
            }
            let behind = read(&*log.store, "main", Page::events(u64::MAX, u64::MAX)).unwrap();
            assert_eq!(behind, Vec::<String>::new());
            assert!(read(&*log.store, "nobody", Page::events(0, 9)).unwrap().is_empty());
            log = log.reopened(kind);
        }
    });
}

#[test]
fn a_page_ends_at_its_bytes_but_never_empty() {
    on_each(|_, mut log| {
        let long = "x".repeat(1000);
        log.append(&[("main", 0, &long), ("main", 1, &long), ("main", 2, "")]);
        log.stored();
        let pages = [1, 1001, 1100, u64::MAX].map(|bytes_max| {
            let page = Page { from: 0, limit: 9, bytes_max };
            read(&*log.store, "main", page).unwrap().len()
        });
        assert_eq!(pages, [1, 1, 2, 3]);
    });
}

#[test]
fn pages_of_a_long_log_are_the_log() {
    on_each(|kind, mut log| {
        let mut events = Vec::new();
        for seq in 0..400 {
            events.push(match seq % 7 {
                0 => event(0, "main", seq, &long(4)),
                _ => delta("main", seq, &format!("{seq}")),
            });
        }
        for batch in events.chunks(9) {
            log.append_all(batch.to_vec());
            log.stored();
        }
        let expected = texts(&events);
        for is_live in [true, false] {
            let mut paged = Vec::new();
            while paged.len() < 400 {
                let page = Page { from: paged.len() as u64, limit: 11, bytes_max: 20_000 };
                let texts = read(&*log.store, "main", page).unwrap();
                assert!(!texts.is_empty());
                paged.extend(texts);
            }
            assert!(paged == expected, "live {is_live}");
            log = log.reopened(kind);
        }
    });
}

/// L-73: an append continues exactly at the stored end.
#[test]
fn an_event_that_leaves_a_gap_is_refused_alone() {
    on_each(|_, mut log| {
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
        assert_eq!(log.events("c"), None);
        assert_eq!(log.texts("a"), [text(0, "a0")]);
        assert_eq!(log.texts("b"), [text(0, "b0"), text(1, "b1")]);

        // The host has dropped its suffix and goes on at the stored end.
        log.append(&[("a", 1, "again")]);
        assert_eq!(log.reports(), [Commit::Through(8)]);
        assert_eq!(log.texts("a"), [text(0, "a0"), text(1, "again")]);
    });
}

#[test]
fn closing_stores_what_waits_and_refuses_the_rest() {
    on_each(|kind, mut log| {
        for seq in 0..1000 {
            log.append(&[("main", seq, "")]);
        }
        log.store.close().unwrap();
        assert_eq!(log.reports().last(), Some(&Commit::Through(1000)));

        let closed = format!("the store {:?} is closed", log.path);
        log.append(&[("main", 1000, ""), ("main", 1001, "")]);
        assert_eq!(log.reports(), [failed(1001, 1002, &closed)]);
        let closed = StoreError::Io(closed);
        assert_eq!(log.store.list(), Err(closed.clone()));
        assert_eq!(log.store.find(&"main".into()), Err(closed.clone()));
        assert_eq!(read(&*log.store, "main", Page::events(0, 1)), Err(closed.clone()));
        assert_eq!(log.store.keep_attachment(b"x", None), Err(closed));
        assert_eq!(log.store.close(), Ok(()), "closing twice is closing once");
        assert_eq!(log.reopened(kind).events("main"), Some(1000));
    });
}

#[test]
fn a_dropped_store_is_a_closed_one() {
    on_each(|_, mut log| {
        log.append(&[("main", 0, "")]);
        drop(log.store);
        assert_eq!(log.commits.iter().collect::<Vec<_>>(), [Commit::Through(1)]);
        assert_eq!(open_read_only(&log.path).unwrap().list().unwrap().len(), 1);
    });
}

#[test]
fn two_stores_in_one_place_take_turns() {
    on_each(|kind, mut one| {
        let (sink, reports) = sink();
        let other = kind.open(&one.path, Durability::Process, sink);
        for seq in 0..50 {
            one.append(&[("of-one", seq, "")]);
            other.append(vec![event(seq + 1, "of-other", seq, "")]);
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
    });
}

/// L-3 over two processes: whoever comes second is told, and nothing of it is stored.
#[test]
fn a_session_is_begun_once() {
    on_each(|kind, mut one| {
        one.append(&[("main", 0, ""), ("main", 1, "")]);
        one.store.close().unwrap();
        let (sink, reports) = sink();
        let other = kind.open(&one.path, Durability::Process, sink);
        other.append(vec![event(1, "main", 0, "")]);
        other.close().unwrap();
        let message = "session \"main\" already exists: another process began it meanwhile";
        assert_eq!(reports.recv().unwrap(), failed(1, 1, message));
        let reader = open_read_only(&one.path).unwrap();
        assert_eq!(reader.find(&"main".into()).unwrap().unwrap().events, 2);
    });
}

/// L-82.
#[test]
fn a_live_session_belongs_to_one_store() {
    for kind in KINDS {
        let directory = TempDir::new().unwrap();
        let open =
            || kind.open(&directory.path().join("store"), Durability::Process, Box::new(|_| ()));
        let (one, other) = (open(), open());
        assert_eq!(one.claim(&"main".into()), Ok(true));
        assert_eq!(one.claim(&"main".into()), Ok(true), "its own claim stands");
        assert_eq!(other.claim(&"main".into()), Ok(false));
        assert_eq!(other.claim(&"side".into()), Ok(true));
        one.release(&"main".into());
        assert_eq!(other.claim(&"main".into()), Ok(true));
        drop(other);
        assert_eq!(one.claim(&"side".into()), Ok(true), "whoever goes lets go");
    }
}

/// A session may pass from one process to another and back, and each goes on where the other has stopped.
#[test]
fn a_session_that_is_given_back_can_be_continued_elsewhere() {
    on_each(|kind, mut one| {
        let (sink, reports) = sink();
        let other = kind.open(&one.path, Durability::Process, sink);
        assert_eq!(one.store.claim(&"main".into()), Ok(true));
        one.append(&[("main", 0, "one")]);
        one.stored();
        one.store.release(&"main".into());

        assert_eq!(other.claim(&"main".into()), Ok(true));
        other.append(vec![event(1, "main", 1, "other"), event(2, "main", 2, "other")]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(2));
        assert_eq!(one.events("main"), Some(3));
        other.release(&"main".into());

        assert_eq!(one.store.claim(&"main".into()), Ok(true));
        one.append(&[("main", 3, "one")]);
        one.stored();
        assert_eq!(
            one.texts("main"),
            [text(0, "one"), text(1, "other"), text(2, "other"), text(3, "one")]
        );
    });
}

#[test]
fn many_writers_share_one_order() {
    on_each(|kind, mut log| {
        const WRITERS: usize = 8;
        const EVENTS: u64 = 150;
        let order = Mutex::new(0_u64);
        let ready = Barrier::new(WRITERS);
        let (store, order, ready) = (&*log.store, &order, &ready);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    let session = format!("session-{writer}");
                    ready.wait();
                    for seq in 0..EVENTS {
                        let mut number = order.lock().unwrap();
                        *number += 1;
                        let append = match seq % 10 {
                            0 => event(0, &session, seq, "x"),
                            _ => delta(&session, seq, "y"),
                        };
                        store.append(vec![Append { number: *number, ..append }]);
                    }
                });
            }
        });
        log.numbers = WRITERS as u64 * EVENTS;
        log.stored();
        let before: Vec<_> = (0..WRITERS).map(|n| log.texts(&format!("session-{n}"))).collect();
        let log = log.reopened(kind);
        for (writer, texts) in before.into_iter().enumerate() {
            assert_eq!(texts.len() as u64, EVENTS);
            assert_eq!(log.texts(&format!("session-{writer}")), texts);
        }
    });
}

/// S-58, decision 47.
#[test]
fn an_attachment_is_kept_once_under_its_digest() {
    on_each(|kind, log| {
        let name = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(log.store.keep_attachment(b"abc", None).as_deref(), Ok(name));
        let kept = |log: &Log| log.store.attachment(name).unwrap().unwrap();
        assert_eq!((kept(&log).media_type, kept(&log).bytes), (None, b"abc".to_vec()));

        for media_type in [Some("image/png"), Some("image/gif"), None] {
            assert_eq!(log.store.keep_attachment(b"abc", media_type).as_deref(), Ok(name));
            let first = kept(&log).media_type;
            assert_eq!(first.as_deref(), Some("image/png"), "the first that was said stays");
        }
        for nothing in ["sha256:00", "../store", "", &name.to_uppercase()] {
            assert_eq!(log.store.attachment(nothing), Ok(None), "{nothing}");
        }
        let too_large =
            log.store.keep_attachment(&vec![0; ATTACHMENT_BYTES_MAX + 1], None).unwrap_err();
        assert_eq!(
            too_large,
            StoreError::Io(
                "an attachment of 167772161 bytes is over the limit of 167772160".to_owned()
            )
        );
        assert_eq!(log.store.list(), Ok(vec![]), "an attachment is no session");
        let log = log.reopened(kind);
        assert_eq!(kept(&log).bytes, b"abc");
        let reader = open_read_only(&log.path).unwrap();
        assert_eq!(reader.attachment(name).unwrap().unwrap().bytes, b"abc");
    });
}

#[test]
fn sessions_are_listed_newest_first() {
    on_each(|kind, mut log| {
        let names: Vec<String> = (0..200).map(|number| format!("session-{number}")).collect();
        for name in &names {
            log.append(&[(name, 0, "")]);
        }
        log.append(&[("session-77", 1, "")]);
        log.stored();
        for is_live in [true, false] {
            let listed = log.store.list().unwrap();
            assert_eq!(listed.len(), 200);
            let newest = StoredSession {
                id: "session-77".into(),
                header: header("session-77"),
                events: 2,
                updated_at: 1001,
            };
            assert_eq!(listed[0], newest, "live {is_live}");
            let mut rest: Vec<_> = listed.iter().map(|session| session.id.as_str()).collect();
            rest.sort_unstable();
            rest.dedup();
            assert_eq!(rest.len(), 200);
            log = log.reopened(kind);
        }
    });
}

/// Decision 2: the canonical form of a log; L-76: its first line.
#[test]
fn an_export_is_a_header_line_and_a_line_for_each_event() {
    on_each(|_, mut log| {
        let header = r#"{"id":"child","delegationDepth":2,"createdAt":7,"extra":[1],"cwd":"/a b","origin":"subagent","parentSession":"main","version":0}"#;
        let broken = "{\"type\":\"b\",\r\n\"seq\":1,\"time\":1001,\"data\":{}}";
        let events = [
            Append { header: header.into(), ..other("child", 0, "a", "{}") },
            Append { header: header.into(), text: broken.into(), ..other("child", 1, "b", "{}") },
        ];
        log.append_all(events.into());
        log.stored();
        let expected = concat!(
            r#"{"type":"session","version":0,"id":"child","createdAt":7,"cwd":"/a b","parentSession":"main","#,
            r#""origin":"subagent","delegationDepth":2,"extra":[1]}"#,
            "\n{\"type\":\"a\",\"seq\":0,\"time\":1000,\"data\":{}}",
            "\n{\"type\":\"b\",  \"seq\":1,\"time\":1001,\"data\":{}}\n"
        );
        assert_eq!(log.exported("child"), (Some(2), expected.to_owned()));
        assert_eq!(log.exported("nobody"), (None, String::new()));
    });
}

/// Decision 2.
#[test]
fn exports_of_one_session_are_the_same_whatever_the_store() {
    let mut exports: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
    for kind in KINDS {
        let mut log = Log::new(kind);
        let mut events = vec![event(0, "main", 0, "prompt")];
        events.extend((1..40).map(|seq| delta("main", seq, &format!("word {seq} é\\n"))));
        events.push(super::turn_end("main", 40));
        log.append_all(events);
        log.stored();
        let (live, from_reader) = (log.exported("main"), {
            let mut out = Vec::new();
            open_read_only(&log.path).unwrap().export(&"main".into(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        });
        assert_eq!(live, (Some(41), from_reader.clone()));
        exports.entry(from_reader).or_default().push(kind);
    }
    assert_eq!(exports.into_values().collect::<Vec<_>>(), [KINDS]);
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
        assert_eq!(crate::canonical::header(stored).as_deref(), expected, "{stored}");
    }
}

#[test]
fn an_export_is_one_moment_while_the_log_grows() {
    /// Lets the log grow in the middle of the export.
    struct Growing<'a>(&'a mut Log, Vec<u8>);
    impl std::io::Write for Growing<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let next = self.0.events("main").unwrap();
            self.0.append(&[("main", next, "later")]);
            self.0.stored();
            self.1.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    on_each(|_, mut log| {
        log.append(&[("main", 0, "0")]);
        log.stored();
        let reader = open_read_only(&log.path).unwrap();
        let mut out = Growing(&mut log, Vec::new());
        assert_eq!(reader.export(&"main".into(), &mut out).unwrap(), Some(1));
        let exported = String::from_utf8(out.1).unwrap();
        assert_eq!(exported.lines().skip(1).collect::<Vec<_>>(), [text(0, "0")]);
        assert!(log.events("main").unwrap() > 1);
    });
}

#[test]
fn a_store_that_is_open_can_be_read_beside_it() {
    on_each(|_, mut log| {
        let reader = open_read_only(&log.path).unwrap();
        assert_eq!(reader.list(), Ok(vec![]));
        log.append(&[("main", 0, ""), ("main", 1, "")]);
        log.stored();
        assert_eq!(reader.find(&"main".into()).unwrap().unwrap().events, 2);
        assert_eq!(reader.read(&"main".into(), Page::events(0, 9)).unwrap().len(), 2);
    });
}

#[test]
fn the_files_are_for_their_owner_alone() {
    fn check(directory: &Path) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
            let is_directory = entry.file_type().unwrap().is_dir();
            assert_eq!(mode, if is_directory { 0o700 } else { 0o600 }, "{:?}", entry.path());
            if is_directory {
                check(&entry.path());
            }
        }
    }
    for kind in KINDS {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("a/b/store");
        let (sink, reports) = sink();
        let store = kind.open(&path, Durability::Process, sink);
        store.keep_attachment(b"x", Some("image/png")).unwrap();
        store.append(vec![event(1, "main", 0, "")]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(1));
        check(directory.path());
        let left = |suffix| super::sibling(&path, suffix).exists();
        assert!(!left(".new"), "nothing unfinished stays");
    }
}

#[test]
fn a_panic_in_the_writer_is_a_failed_commit() {
    for kind in KINDS {
        let directory = TempDir::new().unwrap();
        let (report, reports) = mpsc::sync_channel(16);
        let sink = Box::new(move |commit: Commit| {
            let panics = commit == Commit::Through(1);
            report.send(commit).unwrap();
            assert!(!panics, "as a bug in whoever listens would");
        });
        let store = kind.open(&directory.path().join("store"), Durability::Process, sink);
        store.append(vec![event(1, "main", 0, "")]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(1));
        assert!(matches!(reports.recv().unwrap(), Commit::Failed { from: 1, through: 1, .. }));
        store.append(vec![event(2, "other", 0, "")]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(2), "and the writer goes on");
        store.close().unwrap();
    }
}
