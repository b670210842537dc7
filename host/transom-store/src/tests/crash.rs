//! A process that is killed while it appends loses nothing that it had reported.
//! Each test runs itself again as the process to be killed.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
};

use tempfile::TempDir;
use transom_frame::SessionId;
use transom_harness::ports::{Append, Commit, Store as _};

use crate::{Durability, SqliteStore, open_read_only};

/// Names the store in the environment of the process to be killed.
const STORE: &str = "TRANSOM_TEST_STORE";

const SESSIONS: [&str; 3] = ["a", "b", "c"];

#[test]
fn a_killed_process_loses_nothing_it_reported() {
    survive("a_killed_process_loses_nothing_it_reported", Durability::Process);
}

#[test]
fn a_killed_process_that_syncs_loses_nothing_it_reported() {
    survive("a_killed_process_that_syncs_loses_nothing_it_reported", Durability::Power);
}

fn survive(test: &str, durability: Durability) {
    if let Some(path) = env::var_os(STORE) {
        append_until_killed(&PathBuf::from(path), durability);
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
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
            let expected: Vec<String> = (0..events).map(|seq| text(session, seq)).collect();
            assert_eq!(lines, expected, "contiguous and unharmed");
            *before = events;
        }
    }
}

#[test]
fn a_store_is_shared_with_a_process_that_writes() {
    if let Some(path) = env::var_os(STORE) {
        append_until_killed(&PathBuf::from(path), Durability::Process);
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    let mut process = Appending::start("a_store_is_shared_with_a_process_that_writes", &path);
    process.acknowledged().unwrap();

    let (sender, reports) = mpsc::sync_channel(1024);
    let sink = Box::new(move |commit| sender.send(commit).unwrap());
    let store = SqliteStore::open(&path, Durability::Process, sink).unwrap();
    assert!(store.find(&"b".into()).unwrap().is_some());
    store.append(vec![super::event(1, "mine", 0, "{}")]);
    assert_eq!(reports.recv().unwrap(), Commit::Through(1));
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    assert!(store.find(&"mine".into()).unwrap().is_some());
}

#[test]
fn a_panic_in_the_writer_is_a_failed_commit() {
    let directory = TempDir::new().unwrap();
    let (report, reports) = mpsc::sync_channel(16);
    let sink = Box::new(move |commit: Commit| {
        let panics = commit == Commit::Through(1);
        report.send(commit).unwrap();
        assert!(!panics, "as a bug in whoever listens would");
    });
    let store =
        SqliteStore::open(&directory.path().join("store.db"), Durability::Process, sink).unwrap();
    store.append(vec![super::event(1, "main", 0, "{}")]);
    assert_eq!(reports.recv().unwrap(), Commit::Through(1));
    assert!(matches!(reports.recv().unwrap(), Commit::Failed { from: 1, through: 1, .. }));
    store.append(vec![super::event(2, "other", 0, "{}")]);
    assert_eq!(reports.recv().unwrap(), Commit::Through(2), "and the writer goes on");
    store.close().unwrap();
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

fn append_until_killed(path: &Path, durability: Durability) -> ! {
    let (report, commits) = mpsc::sync_channel(1024);
    let store =
        SqliteStore::open(path, durability, Box::new(move |commit| report.send(commit).unwrap()))
            .unwrap();
    let mut seqs = SESSIONS.map(|session| {
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
            store.append(vec![Append {
                number,
                session: session.into(),
                header: format!(r#"{{"version":0,"id":"{session}","createdAt":1}}"#).into(),
                seq,
                time: 1,
                kind: "assistant/chunk".into(),
                text: text(session, seq).into(),
            }]);
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

fn text(session: &str, seq: u64) -> String {
    format!(r#"{{"session":"{session}","seq":{seq},"data":"{}"}}"#, "x".repeat(100))
}

#[test]
fn a_live_session_belongs_to_one_store() {
    // L-82.
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    let open = || SqliteStore::open(&path, Durability::Process, Box::new(|_| ())).unwrap();
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
