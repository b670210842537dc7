//! Loading logs of JSON lines that a crash, or worse, has left (L-78, rows 35 and 36, L-82).

use std::{fs, io::Write as _, path::PathBuf};

use tempfile::TempDir;
use transom_harness::ports::{Commit, Page, Store as _};

use super::{delta, event, header, sink, text, texts, turn_end};
use crate::{JsonlOptions, JsonlStore, open_read_only};

/// A root with one hand-made log.
struct Root {
    directory: TempDir,
    compressed: bool,
}

impl Root {
    /// Each batch is a frame of its own where the log is compressed.
    fn new(compressed: bool, batches: &[&[u8]]) -> Root {
        let root = Root { directory: TempDir::new().unwrap(), compressed };
        fs::create_dir_all(root.path().parent().unwrap()).unwrap();
        let encode = |batch: &&[u8]| if compressed { frame(batch) } else { batch.to_vec() };
        fs::write(root.path(), batches.iter().map(encode).collect::<Vec<_>>().concat()).unwrap();
        root
    }

    fn path(&self) -> PathBuf {
        let name = if self.compressed { "session.jsonl.zstd" } else { "session.jsonl" };
        self.directory.path().join("_no-cwd/main").join(name)
    }

    fn open(&self) -> JsonlStore {
        let options = JsonlOptions { compressed: self.compressed, ..JsonlOptions::default() };
        JsonlStore::open(self.directory.path(), options, Box::new(|_| ())).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn torn(&self, number: u32) -> Vec<u8> {
        fs::read(self.path().with_file_name(format!("torn-{number}"))).unwrap()
    }

    fn texts(&self) -> Vec<String> {
        let reader = open_read_only(self.directory.path()).unwrap();
        let texts = reader.read(&"main".into(), Page::events(0, u64::MAX)).unwrap();
        let events = reader.find(&"main".into()).unwrap().unwrap().events;
        assert_eq!(texts.len() as u64, events, "a list and a read agree");
        texts.iter().map(|text| text.to_string()).collect()
    }

    /// What stands in the way of reading it, in every way in which it can be read.
    fn refusal(&self) -> String {
        let before = self.bytes();
        let store = self.open();
        let refused = store.claim(&"main".into()).unwrap_err().to_string();
        let read = store.read(&"main".into(), Page::events(0, 1)).unwrap_err().to_string();
        assert_eq!(read, refused);
        assert_eq!(self.bytes(), before, "a refused log stays as it is");
        let suffix = format!(" (in {:?})", self.path());
        let text = refused.strip_suffix(&suffix).unwrap_or_else(|| panic!("{refused}"));
        // A refused session is nobody's.
        assert_eq!(self.open().claim(&"main".into()).unwrap_err().to_string(), refused);
        text.to_owned()
    }
}

fn frame(text: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn lines(texts: &[String]) -> Vec<u8> {
    texts.iter().flat_map(|text| [text.as_bytes(), b"\n"].concat()).collect()
}

fn first() -> Vec<u8> {
    lines(&[header("main")])
}

fn events(seqs: std::ops::Range<u64>) -> Vec<String> {
    seqs.map(|seq| text(seq, "x")).collect()
}

fn end(seq: u64) -> Vec<u8> {
    lines(&texts(&[turn_end("main", seq)]))
}

/// Row 35, first half; L-82.
#[test]
fn a_torn_tail_is_passed_over_and_cut_off_when_the_session_goes_on() {
    let last = lines(&texts(&[turn_end("main", 4)]));
    for compressed in [false, true] {
        let encoded = if compressed { frame(&last) } else { last.clone() };
        for length in 1..encoded.len() {
            let root = Root::new(compressed, &[&first(), &lines(&events(0..4))]);
            let whole = root.bytes();
            let torn = [&whole[..], &encoded[..length]].concat();
            fs::write(root.path(), &torn).unwrap();

            assert_eq!(root.texts(), events(0..4));
            assert_eq!(root.bytes(), torn, "looking changes nothing");

            let (sink, reports) = sink();
            let options = JsonlOptions { compressed, ..JsonlOptions::default() };
            let store = JsonlStore::open(root.directory.path(), options, sink).unwrap();
            assert_eq!(store.claim(&"main".into()), Ok(true));
            assert_eq!(root.bytes(), whole);
            assert_eq!(root.torn(1), encoded[..length]);
            assert_eq!(store.find(&"main".into()).unwrap().unwrap().events, 4);

            store.append(vec![event(1, "main", 4, "again")]);
            assert_eq!(reports.recv().unwrap(), Commit::Through(1));
            let mut expected = events(0..4);
            expected.push(text(4, "again"));
            assert_eq!(root.texts(), expected);
        }
    }
}

/// The first append to a session that nobody has claimed mends as a claim does.
#[test]
fn an_append_mends_as_well() {
    let root = Root::new(false, &[&first(), &lines(&events(0..2)), b"{\"type\":\"us"]);
    let (sink, reports) = sink();
    let options = JsonlOptions { compressed: false, ..JsonlOptions::default() };
    let store = JsonlStore::open(root.directory.path(), options, sink).unwrap();
    store.append(vec![event(1, "main", 2, "x")]);
    assert_eq!(reports.recv().unwrap(), Commit::Through(1));
    assert_eq!(root.texts(), events(0..3));
    assert_eq!(root.torn(1), b"{\"type\":\"us");
}

/// L-82: bounded, for sessions whose host crashes again and again.
#[test]
fn every_torn_tail_is_kept_up_to_a_number() {
    let root = Root::new(false, &[&first(), &lines(&events(0..1))]);
    let whole = root.bytes();
    for round in 1..=18_u32 {
        let tail = format!("torn {round}");
        fs::write(root.path(), [&whole[..], tail.as_bytes()].concat()).unwrap();
        assert_eq!(root.open().claim(&"main".into()), Ok(true));
        assert_eq!(root.torn(round.min(16)), tail.as_bytes());
    }
    assert_eq!(root.torn(1), b"torn 1");
    assert_eq!(fs::read_dir(root.path().parent().unwrap()).unwrap().count(), 17);
}

/// L-78, row 35, second half.
#[test]
fn damage_before_the_end_of_a_turn_is_refused_by_its_line() {
    let unparsable =
        |line| format!("corrupt session log: unparsable committed event at line {line}");
    let gap = |line: u64, expected: u64, got: u64| {
        format!(
            "corrupt session log: seq gap in committed region at line {line} (expected {expected}, got {got})"
        )
    };
    let half = &lines(&events(2..3))[..20];
    let half = [half, b"\n"].concat();
    let packed = |data: &str| {
        format!("{{\"type\":\"text-chunks\",\"seq0\":2,\"time0\":1,\"data\":{data}}}\n")
    };
    let uneven = packed(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a","b"]}"#);
    let early = packed(r#"{"turn":1,"step":1,"index":0,"dt":[-2],"texts":["a","b"]}"#);
    let two = lines(&events(0..2));
    for (rest, expected) in [
        (vec![&half[..], &end(3)], unparsable(4)),
        (vec![&half[..], &lines(&events(3..5)), &end(5)], unparsable(4)),
        (vec![b"\n", &end(2)], unparsable(4)),
        (vec![b"{\"type\":\"turn/start\"}\n", &end(3)], unparsable(4)),
        (vec![b"\xff\xfe\n", &end(3)], unparsable(4)),
        (vec![uneven.as_bytes(), &end(4)], unparsable(4)),
        (vec![early.as_bytes(), &end(4)], unparsable(4)),
        (vec![&lines(&events(3..4)), &end(4)], gap(4, 2, 3)),
        (vec![&lines(&events(1..2)), &end(2)], gap(4, 2, 1)),
        (vec![&end(3)], gap(4, 2, 3)),
        (vec![&lines(&events(2..3)), &half[..], &end(3), b"{"], unparsable(5)),
    ] {
        for compressed in [false, true] {
            let (first, in_one) = (first(), rest.concat());
            let one = Root::new(compressed, &[&first, &two, &in_one]);
            assert_eq!(one.refusal(), expected);
            let batches: Vec<&[u8]> = [&first[..], &two].into_iter().chain(rest.clone()).collect();
            // Half a line is no frame that anybody writes, but reads as one.
            assert_eq!(Root::new(compressed, &batches).refusal(), expected);
        }
    }
}

/// L-78 where the damage is to the frames themselves.
#[test]
fn a_damaged_frame_counts_from_its_first_line() {
    let batches =
        [first(), lines(&events(0..3)), lines(&events(3..6)), end(6), lines(&events(7..8))];
    let frames: Vec<Vec<u8>> = batches.iter().map(|batch| frame(batch)).collect();
    let starts: Vec<usize> =
        (0..5).map(|index| frames[..index].iter().map(Vec::len).sum()).collect();
    let root = Root::new(true, &batches.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let whole = root.bytes();
    let undamaged = root.texts();
    assert_eq!(undamaged.len(), 8);
    for (batch, lines) in [(1, 2..=5), (2, 5..=8)] {
        // Anywhere in the frame: a turn has ended behind it.
        for at in starts[batch]..starts[batch + 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x5A;
            fs::write(root.path(), &damaged).unwrap();
            let reader = open_read_only(root.directory.path()).unwrap();
            let error = match reader.read(&"main".into(), Page::events(0, 9)) {
                Err(error) => error.to_string(),
                // Some bits only say how much memory to lay by.
                Ok(texts) => {
                    let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
                    assert!(texts == undamaged && at < starts[batch] + 8, "{at}");
                    continue;
                }
            };
            // What frames say of their own length decides whether their lines still count.
            let line = error
                .strip_prefix("corrupt session log: unparsable committed event at line ")
                .and_then(|rest| rest.split_once(' ')?.0.parse::<i32>().ok());
            assert!(line.is_some_and(|line| lines.contains(&line)), "{at}: {error}");
        }
    }
    for cut in starts[4] + 1..whole.len() {
        fs::write(root.path(), &whole[..cut]).unwrap();
        assert_eq!(root.texts().len(), 7, "the last frame is not all there");
    }
}

/// A frame that holds lines that count and others that do not is written anew without the others.
#[test]
fn lines_that_count_survive_those_that_do_not() {
    for before in [&b""[..], b"{\"type\":\"x\"\n"] {
        let batch = [&lines(&events(1..3))[..], b"{\"type\":\"us\n", before].concat();
        let root = Root::new(true, &[&first(), &lines(&events(0..1)), &batch]);
        assert_eq!(root.texts(), events(0..3));
        let (sink, reports) = sink();
        let store = JsonlStore::open(root.directory.path(), JsonlOptions::default(), sink).unwrap();
        assert_eq!(store.claim(&"main".into()), Ok(true));
        assert_eq!(root.torn(1), frame(&batch));
        assert_eq!(root.texts(), events(0..3));
        store.append(vec![event(1, "main", 3, "x")]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(1));
        assert_eq!(root.texts(), events(0..4));
        let names = fs::read_dir(root.path().parent().unwrap()).unwrap().count();
        assert_eq!(names, 2, "the log and what was cut off");
    }
}

/// L-78, row 36.
#[test]
fn a_log_without_a_header_of_this_version_is_refused() {
    let version =
        |n: u64| format!(r#"{{"type":"session","version":{n},"id":"main","other":true}}"#) + "\n";
    let not_a_header = "corrupt session log: first line is not a session header";
    for (line, expected) in [
        (&b""[..], "empty or header-less session log"),
        (br#"{"type":"session""#, "empty or header-less session log"),
        (b"no json\n", "corrupt session log: header line is not valid JSON"),
        (b"\n", "corrupt session log: header line is not valid JSON"),
        (b"\xff\n", "corrupt session log: header line is not valid JSON"),
        (b"[]\n", not_a_header),
        (&lines(&events(0..1)), not_a_header),
        (br#"{"version":0,"id":"main","createdAt":1}"#, "empty or header-less session log"),
        (b"{\"version\":0,\"id\":\"main\",\"createdAt\":1}\n", not_a_header),
        (
            version(1).as_bytes(),
            "session \"main\" uses log format v1, but this harness reads only v0: it was written by another version",
        ),
        (
            version(4).as_bytes(),
            "session \"main\" uses log format v4, but this harness reads only v0: it was written by another version",
        ),
    ] {
        let shown = String::from_utf8_lossy(line).into_owned();
        assert_eq!(Root::new(false, &[line]).refusal(), expected, "{shown}");
        if line.ends_with(b"\n") {
            assert_eq!(Root::new(true, &[line]).refusal(), expected, "{shown}");
        }
    }
    let missing =
        Root::new(false, &[b"{\"type\":\"session\",\"version\":0,\"id\":\"main\"}\n"]).refusal();
    let missing_member = format!("{not_a_header}: missing field `createdAt`");
    assert!(missing.starts_with(&missing_member), "{missing}");
    let no_frame = Root::new(true, &[&first()]);
    fs::write(no_frame.path(), first()).unwrap();
    assert_eq!(no_frame.refusal(), "empty or header-less session log");
}

/// A log that another program wrote: all of it in one frame, deltas as plain rows, a time that goes back.
#[test]
fn a_log_of_another_hand_is_read() {
    let packed = r#"{"type":"reasoning-chunks","seq0":1,"time0":50,"data":{"turn":1,"step":1,"index":0,"dt":[5,-7],"texts":["a","b","c"]}}"#;
    let called = r#"{"type":"tool-call-chunks","seq0":4,"time0":60,"data":{"turn":1,"step":1,"index":1,"id":"call-1","name":"bash","dt":[0],"args":["{","}"]}}"#;
    let mut rows = vec![header("main"), text(0, "x"), packed.to_owned(), called.to_owned()];
    rows.extend(texts(&[delta("main", 6, "x"), turn_end("main", 7)]));
    let log = lines(&rows);
    for compressed in [true, false] {
        let root = Root::new(compressed, &[&log]);
        let read = root.texts();
        assert_eq!(read.len(), 8);
        assert_eq!(
            read[3],
            r#"{"type":"assistant/chunk","seq":3,"time":48,"data":{"turn":1,"step":1,"chunk":{"type":"reasoning-delta","index":0,"text":"c"}}}"#
        );
        assert_eq!(
            read[5],
            r#"{"type":"assistant/chunk","seq":5,"time":60,"data":{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":1,"id":"call-1","name":"bash","argumentsDelta":"}"}}}"#
        );
        let before = root.bytes();
        assert_eq!(root.open().claim(&"main".into()), Ok(true));
        assert_eq!(root.bytes(), before);
    }
}

/// A session whose log holds nothing but the header goes on at event 0.
#[test]
fn a_log_without_events_is_a_session() {
    for compressed in [true, false] {
        let root = Root::new(compressed, &[&first()]);
        assert_eq!(root.texts(), Vec::<String>::new());
        let (sink, reports) = sink();
        let options = JsonlOptions { compressed, ..JsonlOptions::default() };
        let store = JsonlStore::open(root.directory.path(), options, sink).unwrap();
        assert_eq!(store.claim(&"main".into()), Ok(true));
        let stored = store.find(&"main".into()).unwrap().unwrap();
        assert_eq!((stored.events, stored.updated_at), (0, 5));
        store.append(vec![event(1, "main", 0, "x")]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(1));
        assert_eq!(root.texts(), events(0..1));
    }
}
