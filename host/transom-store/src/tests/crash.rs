//! A process that is killed while it appends loses nothing that it had reported.
//! Each test runs itself again as the process to be killed.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use nix::sys::{
    resource::{RLIM_INFINITY, Resource, setrlimit},
    signal::{SigSet, Signal},
};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use transom_frame::SessionId;
use transom_harness::ports::{Append, Commit};

use super::{Kind, delta, sink};
use crate::{Durability, open_read_only};

/// Names the store in the environment of the process to be killed.
const STORE: &str = "TRANSOM_TEST_STORE";

const SESSIONS: [&str; 3] = ["a", "b", "c"];

#[test]
fn a_killed_process_loses_nothing_it_reported() {
    survive("a_killed_process_loses_nothing_it_reported", Kind::Sqlite, Durability::Process);
}

#[test]
fn a_killed_process_that_syncs_loses_nothing_it_reported() {
    survive(
        "a_killed_process_that_syncs_loses_nothing_it_reported",
        Kind::Sqlite,
        Durability::Power,
    );
}

#[test]
fn a_killed_writer_of_frames_loses_nothing_it_reported() {
    survive(
        "a_killed_writer_of_frames_loses_nothing_it_reported",
        Kind::Jsonl,
        Durability::Process,
    );
}

#[test]
fn a_killed_writer_of_frames_that_syncs_loses_nothing_it_reported() {
    survive(
        "a_killed_writer_of_frames_that_syncs_loses_nothing_it_reported",
        Kind::Jsonl,
        Durability::Power,
    );
}

#[test]
fn a_killed_writer_of_lines_loses_nothing_it_reported() {
    survive("a_killed_writer_of_lines_loses_nothing_it_reported", Kind::Lines, Durability::Process);
}

fn survive(test: &str, kind: Kind, durability: Durability) {
    if let Some(path) = env::var_os(STORE) {
        append_until_killed(&PathBuf::from(path), kind, durability);
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    let mut stored = [0; 3];
    // Each round goes on in the store that the one before left behind.
    for acknowledgements in [1, 40, 7] {
        let mut process = Appending::start(test, &path);
        let mut through = 0;
        for _ in 0..acknowledgements {
            through = process.acknowledged().unwrap();
        }
        process.child.kill().unwrap();
        while let Some(later) = process.acknowledged() {
            through = later;
        }
        process.child.wait().unwrap();

        let reader = open_read_only(&path).unwrap();
        for (index, (session, before)) in SESSIONS.iter().zip(&mut stored).enumerate() {
            let reported =
                (1..=through).filter(|number| session_of(*number) == index).count() as u64;
            let events = reader
                .find(&SessionId::from(*session))
                .unwrap()
                .map_or(0, |session| session.events);
            assert!(
                events >= *before + reported,
                "session {session}: {events} stored, {before} before and {reported} reported since"
            );
            let mut log = Vec::new();
            reader.export(&SessionId::from(*session), &mut log).unwrap();
            let lines: Vec<String> =
                String::from_utf8(log).unwrap().lines().skip(1).map(str::to_owned).collect();
            let expected: Vec<String> =
                (0..events).map(|seq| appended(session, seq).text.to_string()).collect();
            assert_eq!(lines, expected, "contiguous and unharmed");
            *before = events;
        }
    }
}

#[test]
fn a_store_is_shared_with_a_process_that_writes() {
    share("a_store_is_shared_with_a_process_that_writes", Kind::Sqlite);
}

#[test]
fn a_session_root_is_shared_with_a_process_that_writes() {
    share("a_session_root_is_shared_with_a_process_that_writes", Kind::Jsonl);
}

fn share(test: &str, kind: Kind) {
    if let Some(path) = env::var_os(STORE) {
        append_until_killed(&PathBuf::from(path), kind, Durability::Process);
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    let mut process = Appending::start(test, &path);
    process.acknowledged().unwrap();

    let (sink, reports) = sink();
    let store = kind.open(&path, Durability::Process, sink);
    assert!(store.find(&"b".into()).unwrap().is_some());
    assert_eq!(store.claim(&"b".into()), Ok(false), "it is live there");
    store.append(vec![super::event(1, "mine", 0, "")]);
    assert_eq!(reports.recv().unwrap(), Commit::Through(1));
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    assert!(store.find(&"mine".into()).unwrap().is_some());
    assert_eq!(store.claim(&"b".into()), Ok(true), "a dead process has nothing");
}

/// A write that stops in the middle, as on a full disk, leaves nothing of it behind (L-77).
#[test]
fn a_write_that_fails_half_way_is_taken_back() {
    if let Some(path) = env::var_os(STORE) {
        fail_half_way(&PathBuf::from(path));
    }
    let directory = TempDir::new().unwrap();
    // A process of its own: the limit is on everything that it writes.
    let test = "tests::crash::a_write_that_fails_half_way_is_taken_back";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(STORE, directory.path().join("store"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all of it held."), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn fail_half_way(path: &Path) -> ! {
    // The writer inherits it: what goes over the limit fails then, and does not end the process.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    signals.thread_block().unwrap();
    let limit = |bytes: u64| setrlimit(Resource::RLIMIT_FSIZE, bytes, RLIM_INFINITY).unwrap();
    for (kind, durability) in [
        (Kind::Lines, Durability::Power),
        (Kind::Lines, Durability::Process),
        (Kind::Jsonl, Durability::Power),
    ] {
        let path = path.join(format!("{kind:?}-{durability:?}"));
        let (sink, reports) = sink();
        let store = kind.open(&path, durability, sink);
        let name = if kind == Kind::Jsonl { "session.jsonl.zstd" } else { "session.jsonl" };
        let log = path.join("_no-cwd/a").join(name);
        let mut large = String::new();
        while large.len() < 40_000 {
            // Nothing that compresses well.
            large.push_str(&format!("{:x}", Sha256::digest(&large)));
        }
        store.append(vec![super::event(1, "a", 0, "a0")]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(1));
        let committed = fs::read(&log).unwrap();

        limit(10_000);
        let event = super::event;
        store.append(vec![event(2, "a", 1, &large), event(3, "b", 0, ""), event(4, "a", 2, "")]);
        let message = "cannot store events: File too large (os error 27)";
        let expected =
            [super::failed(2, 2, message), Commit::Through(3), super::failed(4, 4, message)];
        assert_eq!([(); 3].map(|()| reports.recv().unwrap()), expected);
        assert_eq!(fs::read(&log).unwrap(), committed, "the log is as it was");
        assert_eq!(store.find(&"a".into()).unwrap().unwrap().events, 1);

        store.append(vec![event(5, "c", 0, &large)]);
        let Commit::Failed { from: 5, through: 5, message } = reports.recv().unwrap() else {
            panic!("a log that is too large was made");
        };
        assert!(message.ends_with("File too large (os error 27)"), "{message}");
        assert_eq!(store.find(&"c".into()), Ok(None));

        limit(RLIM_INFINITY);
        store.append(vec![event(6, "a", 1, &large), event(7, "c", 0, &large)]);
        assert_eq!(reports.recv().unwrap(), Commit::Through(7));
        assert_eq!(store.find(&"a".into()).unwrap().unwrap().events, 2);
        drop(store);
        let reader = open_read_only(&path).unwrap();
        assert_eq!(reader.export(&"a".into(), &mut std::io::sink()), Ok(Some(2)));
    }
    println!("all of it held.");
    std::io::stdout().flush().unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "the parent reads what was said, and nothing else"
    )]
    std::process::exit(0)
}

/// The process to be killed, and its output.
struct Appending {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Appending {
    fn start(test: &str, path: &Path) -> Appending {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", &format!("tests::crash::{test}"), "--nocapture"])
            .env(STORE, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Appending { child, lines }
    }

    /// The next number that was reported as durable. `None`: the process has ended.
    fn acknowledged(&mut self) -> Option<u64> {
        loop {
            let line = self.lines.next()?.unwrap();
            // A line that the kill cut off was never said.
            if let Some(number) =
                line.strip_prefix("through ").and_then(|rest| rest.strip_suffix('.'))
            {
                return Some(number.parse().unwrap());
            }
        }
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn append_until_killed(path: &Path, kind: Kind, durability: Durability) -> ! {
    let (sink, commits) = sink();
    let store = kind.open(path, durability, sink);
    let mut seqs = SESSIONS.map(|session| {
        assert_eq!(store.claim(&session.into()), Ok(true));
        store.find(&SessionId::from(session)).unwrap().map_or(0, |session| session.events)
    });
    let mut number = 0;
    let mut through = 0;
    loop {
        // Far enough ahead that the kill falls into a commit as likely as between two.
        while number < through + 300 {
            number += 1;
            let index = session_of(number);
            let (session, seq) = (SESSIONS[index], seqs[index]);
            seqs[index] += 1;
            store.append(vec![Append { number, ..appended(session, seq) }]);
        }
        match commits.recv().unwrap() {
            Commit::Through(number) => through = number,
            failed @ Commit::Failed { .. } => panic!("{failed:?}"),
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "through {through}.").unwrap();
        out.flush().unwrap();
    }
}

fn session_of(number: u64) -> usize {
    (number % 3) as usize
}

fn appended(session: &str, seq: u64) -> Append {
    match seq % 10 {
        9 => super::turn_end(session, seq),
        _ => delta(session, seq, &format!("{session}{seq}{}", "x".repeat(100))),
    }
}
