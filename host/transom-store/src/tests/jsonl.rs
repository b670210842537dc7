//! What holds for logs of JSON lines alone: where they are, what stands in them, who may write to them.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

use tempfile::TempDir;
use transom_harness::ports::{Append, Commit, Store as _, StoreError};

use super::{Kind, Log, delta, event, failed, header, other, sink, text, texts};
use crate::{Durability, JsonlOptions, JsonlStore, open_read_only};

const PLAIN: JsonlOptions =
    JsonlOptions { compressed: false, packed: true, durability: Durability::Power };

/// The log of session `main` in a store of plain lines.
const MAIN: &str = "_no-cwd/main/session.jsonl";

fn plain() -> Log {
    Log::made(|path, sink| Box::new(JsonlStore::open(path, PLAIN, sink).unwrap()))
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn in_directory(cwd: &str, append: Append) -> Append {
    let id = append.session.as_str();
    let header =
        format!(r#"{{"type":"session","version":0,"id":"{id}","createdAt":5,"cwd":"{cwd}"}}"#);
    Append { header: header.into(), ..append }
}

/// L-75, row 38.
#[test]
fn a_log_is_found_by_directory_and_id() {
    let directory = TempDir::new().unwrap();
    for (options, file) in
        [(JsonlOptions::default(), "session.jsonl.zstd"), (PLAIN, "session.jsonl")]
    {
        let root = directory.path().join(file);
        let (sink, reports) = sink();
        let store = JsonlStore::open(&root, options, sink).unwrap();
        assert_eq!(store.session_file(&"..".into()), None);
        let events = [("/a b", ".."), ("/home/u/my app", "a/b"), ("/", "x")];
        let events = (1..).zip(events).map(|(number, (cwd, id))| Append {
            number,
            ..in_directory(cwd, event(number, id, 0, ""))
        });
        store.append(events.chain([event(4, "none", 0, "")]).collect());
        assert_eq!(reports.recv().unwrap(), Commit::Through(4));
        for (id, place) in [
            ("..", "--a~0020b--/~002E~002E"),
            ("a/b", "--home-u-my~0020app--/a~002Fb"),
            ("x", "--root--/x"),
            ("none", "_no-cwd/none"),
        ] {
            let path = root.join(place).join(file);
            assert!(path.is_file(), "{path:?}");
            assert_eq!(store.session_file(&id.into()), Some(path.clone()));
            let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
            assert_eq!(names.len(), 1, "nothing but the log: {names:?}");
        }
        drop(store);
        let store = JsonlStore::open(&root, options, Box::new(|_| ())).unwrap();
        let path = root.join("--root--/x").join(file);
        assert_eq!(store.session_file(&"x".into()), Some(path), "resting sessions too");
        assert_eq!(store.session_file(&"y".into()), None);
    }
}

/// L-76.
#[test]
fn the_first_line_is_the_header() {
    let mut log = plain();
    log.append_all(vec![in_directory("/w", event(0, "main", 0, "x"))]);
    log.stored();
    assert_eq!(
        lines(&log.path.join("--w--/main/session.jsonl")),
        [
            r#"{"type":"session","version":0,"id":"main","createdAt":5,"cwd":"/w","delegationDepth":0}"#,
            &text(0, "x"),
        ]
    );
}

/// Row 37.
#[test]
fn three_deltas_of_a_batch_are_one_row_and_two_are_not() {
    let mut log = plain();
    let deltas: Vec<Append> = (0..5).map(|seq| delta("main", seq, "a")).collect();
    for batch in deltas.chunks(3) {
        log.append_all(batch.to_vec());
        log.stored();
    }
    let row = concat!(
        r#"{"type":"text-chunks","seq0":0,"time0":1000,"#,
        r#""data":{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","a","a"]}}"#
    );
    let expected =
        [header("main"), row.to_owned(), texts(&deltas)[3].clone(), texts(&deltas)[4].clone()];
    assert_eq!(lines(&log.path.join(MAIN)), expected);
    assert_eq!(log.texts("main"), texts(&deltas));
}

/// L-76: one checksummed frame for the header, one for each batch, none of which splits a line.
#[test]
fn a_batch_is_a_frame() {
    let mut log = Log::new(Kind::Jsonl);
    for batch in 0..3 {
        log.append_all((0..4).map(|n| delta("main", 4 * batch + n, "word")).collect());
        log.stored();
    }
    let file = fs::read(log.path.join("_no-cwd/main/session.jsonl.zstd")).unwrap();
    let mut rest = &file[..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        assert_eq!(rest[..4], [0x28, 0xb5, 0x2f, 0xfd]);
        assert_eq!(rest[4] & 0b100, 0b100, "a checksum follows");
        let length = zstd::zstd_safe::find_frame_compressed_size(rest).unwrap();
        let text = zstd::stream::decode_all(&rest[..length]).unwrap();
        frames.push(String::from_utf8(text).unwrap());
        rest = &rest[length..];
    }
    assert_eq!(frames.len(), 4);
    assert_eq!(frames[0], header("main") + "\n");
    for (batch, frame) in frames[1..].iter().enumerate() {
        assert!(frame.ends_with("}\n") && frame.lines().count() == 1, "{frame}");
        assert!(frame.contains(&format!(r#""text-chunks","seq0":{}"#, 4 * batch)), "{frame}");
    }
}

/// L-76: readers take both forms of rows, whatever is written now.
#[test]
fn a_log_may_hold_rows_of_both_forms() {
    let directory = TempDir::new().unwrap();
    let deltas: Vec<Append> = (0..12).map(|seq| delta("main", seq, "é")).collect();
    let mut forms = Vec::new();
    for (round, batch) in deltas.chunks(4).enumerate() {
        let options = JsonlOptions { packed: round % 2 == 0, ..PLAIN };
        let (sink, reports) = sink();
        let store = JsonlStore::open(directory.path(), options, sink).unwrap();
        assert_eq!(store.claim(&"main".into()), Ok(true));
        store.append(batch.to_vec());
        assert_eq!(reports.recv().unwrap(), Commit::Through(0));
        let all = transom_harness::ports::Page::events(0, 99);
        let read: Vec<String> =
            store.read(&"main".into(), all).unwrap().iter().map(|text| text.to_string()).collect();
        assert_eq!(read, texts(&deltas)[..4 * (round + 1)]);
        forms.push(lines(&directory.path().join(MAIN)).len());
    }
    assert_eq!(forms, [2, 6, 7]);
}

/// L-77.
#[test]
fn roots_of_another_form_are_refused_untouched() {
    let open = |root: &Path, compressed| {
        let options = JsonlOptions { compressed, ..PLAIN };
        JsonlStore::open(root, options, Box::new(|_| ())).map(drop)
    };
    for (files, compressed, expected) in [
        (&["--a--/x/session.jsonl"][..], true, Some("and this store writes compressed ones")),
        (&["--a--/x/session.jsonl.zstd"], false, Some("and this store writes plain ones")),
        (&["--a--/x/session.jsonl.zstd", "_no-cwd/y/session.jsonl"], true, Some("mixes encodings")),
        (&["--a--/x/session.jsonl", "--a--/x/session.jsonl.zstd"], false, Some("mixes encodings")),
        (&["x.jsonl"], true, Some("has the flat layout")),
        (&["session.jsonl.zstd"], true, Some("has the flat layout")),
        (&["--a--/x.jsonl.zstd"], true, Some("has the flat layout")),
        (&["--a--/x/session.jsonl"], false, None),
        (&["--a--/x/torn-1", "notes.txt", "other/session.jsonl"], true, None),
    ] {
        let root = TempDir::new().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        match (open(root.path(), compressed), expected) {
            (Ok(()), None) => {}
            (Err(StoreError::Foreign(message)), Some(expected)) => {
                assert!(message.contains(expected), "{files:?}: {message}");
                assert!(message.contains(&format!("{:?}", root.path())), "{message}");
            }
            (found, _) => panic!("{files:?}: {found:?}"),
        }
        for file in files {
            assert_eq!(fs::read(root.path().join(file)).unwrap(), b"x");
        }
        if expected == Some("mixes encodings") {
            assert!(
                open_read_only(root.path()).unwrap_err().to_string().contains("mixes encodings")
            );
        }
    }
}

#[test]
fn places_where_no_root_can_be_are_named() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("root")] {
        let error = JsonlStore::open(&path, PLAIN, Box::new(|_| ())).unwrap_err().to_string();
        assert!(error.starts_with("cannot make the store's directory "), "{error}");
    }
}

/// L-77: an existing file is an error, and stays as it is.
#[test]
fn a_log_never_takes_the_place_of_another_file() {
    let mut log = plain();
    assert_eq!(log.store.claim(&"main".into()), Ok(true));
    let path = log.path.join(MAIN);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "somebody else's").unwrap();
    log.append(&[("main", 0, ""), ("other", 0, "")]);
    let message = format!("cannot store events: empty or header-less session log (in {path:?})");
    assert_eq!(log.reports(), [failed(1, 1, &message), Commit::Through(2)]);
    assert_eq!(fs::read(&path).unwrap(), b"somebody else's");
}

/// Whatever happens to one session's log is no other session's failure.
#[test]
fn a_log_that_was_changed_from_outside_fails_alone() {
    let mut log = plain();
    log.append(&[("a", 0, "a0"), ("b", 0, "b0")]);
    log.stored();
    let path = log.path.join("_no-cwd/a/session.jsonl");
    let committed = fs::metadata(&path).unwrap().len();
    let mut outside = OpenOptions::new().append(true).open(&path).unwrap();
    outside.write_all(b"{}\n").unwrap();

    log.append(&[("b", 1, "b1"), ("a", 1, "a1"), ("b", 2, "b2"), ("a", 2, "a2"), ("new", 0, "")]);
    let message = format!(
        "cannot store events: the log {path:?} has {} bytes where {committed} were stored: another program has \
         changed it",
        committed + 3
    );
    assert_eq!(
        log.reports(),
        [
            Commit::Through(3),
            failed(4, 4, &message),
            Commit::Through(5),
            failed(6, 6, &message),
            Commit::Through(7),
        ]
    );
    assert_eq!(log.texts("a"), [text(0, "a0")]);
    assert_eq!(log.texts("b"), [text(0, "b0"), text(1, "b1"), text(2, "b2")]);

    // Cut to what was stored, the log goes on.
    outside.set_len(committed).unwrap();
    log.append(&[("a", 1, "a1")]);
    assert_eq!(log.reports(), [Commit::Through(8)]);
    assert_eq!(log.texts("a"), [text(0, "a0"), text(1, "a1")]);

    outside.set_len(committed).unwrap();
    let page = transom_harness::ports::Page::events(0, 9);
    let shortened = log.store.read(&"a".into(), page).unwrap_err().to_string();
    assert!(shortened.contains("ends before event 1, though 2 events were stored"), "{shortened}");
}

#[test]
fn an_event_that_could_not_be_read_back_is_refused() {
    let mut log = plain();
    let good = event(0, "main", 0, "x");
    for (wrong, why) in [
        (Append { text: "not json".into(), ..good.clone() }, "not JSON"),
        (Append { text: "".into(), ..good.clone() }, "empty"),
        (Append { text: text(1, "x").into(), ..good.clone() }, "another seq"),
        (Append { time: 7, ..good.clone() }, "another time"),
        (Append { kind: "turn/end".into(), ..good.clone() }, "another type"),
    ] {
        log.append_all(vec![wrong]);
        let reports = log.reports();
        let [Commit::Failed { message, .. }] = &reports[..] else { panic!("{why}: {reports:?}") };
        assert!(message.starts_with("the text of event 0 of session \"main\" is not"), "{message}");
    }
    for (header, expected) in [
        ("[]", "cannot store events: the header of session \"main\" is not a JSON object"),
        (
            r#"{"id":"other","createdAt":1}"#,
            "cannot store events: the header of session \"main\" names session \"other\"",
        ),
        (
            r#"{"id":"main"}"#,
            "cannot store events: corrupt session log: first line is not a session header: missing field `createdAt`",
        ),
    ] {
        log.append_all(vec![Append { header: header.into(), ..good.clone() }]);
        let reports = log.reports();
        let [Commit::Failed { message, .. }] = &reports[..] else { panic!("{reports:?}") };
        assert!(message.starts_with(expected), "{message}");
    }
    assert_eq!(log.events("main"), None);
    assert!(!log.path.join("_no-cwd").exists(), "nothing was made for what was refused");
    log.append_all(vec![good]);
    log.stored();
}

#[test]
fn an_id_without_a_place_is_refused_when_it_is_claimed() {
    let log = plain();
    for id in [String::new(), "x".repeat(300)] {
        assert!(log.store.claim(&id.as_str().into()).is_err());
        assert_eq!(log.store.find(&id.as_str().into()), Ok(None));
    }
}

/// L-82: a session that another process has takes nothing from this one.
#[test]
fn a_session_that_is_live_elsewhere_takes_no_events() {
    let mut one = plain();
    one.append(&[("main", 0, "")]);
    one.stored();
    let (sink, reports) = sink();
    let elsewhere = JsonlStore::open(&one.path, PLAIN, sink).unwrap();
    elsewhere.append(vec![event(1, "main", 1, ""), event(2, "side", 0, "")]);
    let message = "session \"main\" is live in another process";
    assert_eq!(reports.recv().unwrap(), failed(1, 1, message));
    assert_eq!(reports.recv().unwrap(), Commit::Through(2));
    assert_eq!(elsewhere.find(&"main".into()).unwrap().unwrap().events, 1, "it can be looked at");
    one.store.release(&"main".into());
    assert_eq!(elsewhere.claim(&"main".into()), Ok(true));
}

/// A claim that is given back while events wait holds until they are stored.
#[test]
fn a_release_waits_for_what_is_on_its_way() {
    let mut one = plain();
    let (sink, _reports) = sink();
    let elsewhere = JsonlStore::open(&one.path, PLAIN, sink).unwrap();
    for round in 0..40 {
        let session = format!("session-{round}");
        let events: Vec<Append> = (0..30).map(|seq| delta(&session, seq, "x")).collect();
        assert_eq!(one.store.claim(&session.as_str().into()), Ok(true));
        one.append_all(events);
        one.store.release(&session.as_str().into());
        while !elsewhere.claim(&session.as_str().into()).unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(elsewhere.find(&session.as_str().into()).unwrap().unwrap().events, 30);
    }
    one.stored();
}

#[test]
fn a_log_in_a_wrong_place_is_not_taken_for_another() {
    let mut log = plain();
    log.append(&[("a", 0, ""), ("b", 0, "")]);
    log.stored();
    let from = log.path.join("_no-cwd/a");
    let copy = |to: &str| {
        let to = log.path.join(to);
        fs::create_dir_all(&to).unwrap();
        fs::copy(from.join("session.jsonl"), to.join("session.jsonl")).unwrap();
    };
    copy("_no-cwd/c");
    let found = log.store.find(&"c".into()).unwrap_err().to_string();
    assert!(found.ends_with("is of session \"a\", where one of \"c\" should be"), "{found}");
    assert_eq!(log.store.claim(&"c".into()).unwrap_err().to_string(), found);

    copy("--elsewhere--/b");
    let reopened = log.reopened(Kind::Lines);
    let found = reopened.store.find(&"b".into()).unwrap_err().to_string();
    assert!(found.starts_with("session \"b\" has two logs, "), "{found}");
}

#[test]
fn a_list_shows_the_logs_that_can_be_read() {
    let mut log = plain();
    log.append(&[("a", 0, ""), ("b", 0, "")]);
    log.append_all(vec![other("b", 1, "long", &format!("\"{}\"", super::long(40)))]);
    log.stored();
    log.store.close().unwrap();
    fs::write(log.path.join("_no-cwd/a/session.jsonl"), "no header\n").unwrap();
    let listed = open_read_only(&log.path).unwrap().list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id.as_str(), listed[0].events), ("b", 2));
}
