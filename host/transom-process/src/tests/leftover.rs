//! Which groups of an earlier run are ended, and which are spared because nothing proves whose they are (P-79).

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use tokio::runtime::Handle;

use super::{LONG, bash, line, spawn};
use crate::{Exit, Leftovers, Process, Spawner, Swept, stat::Stat, sweep};

/// Runs of these tests have names of their own, because a mark is looked for in all processes.
fn run() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn sleeper() -> Process {
    let mut process = spawn("echo ready; exec sleep 1000").await;
    assert_eq!(line(&mut process).await, "ready");
    process
}

fn swept(home: &Path) -> Vec<u32> {
    let swept = sweep(home);
    assert_eq!(swept.failures.len(), 0, "{swept:?}");
    swept.ended.into_iter().map(|Swept { group, .. }| group).collect()
}

/// The notes of a dead run, as they were found.
fn leave(home: &Path, run: &str, text: &str) {
    drop(Leftovers::open(home, run).unwrap());
    let path = home.join("groups").join(run);
    let boot = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("BOOT\n", &boot)).unwrap();
}

#[tokio::test]
async fn a_noted_leader_that_is_still_the_same_is_ended_with_its_session() {
    let home = tempfile::tempdir().unwrap();
    let mut process = spawn("set -m; sleep 1000 & echo ready; exec sleep 1000").await;
    assert_eq!(line(&mut process).await, "ready");
    let mut leftovers = Leftovers::open(home.path(), &run()).unwrap();
    leftovers.note(process.id());
    assert!(swept(home.path()).is_empty(), "its run is alive");
    drop(leftovers);
    let swept = swept(home.path());
    assert_eq!((swept.len(), swept.contains(&process.id())), (2, true), "{swept:?}");
    assert_eq!(process.wait().await.unwrap(), Exit::Signal(9));
    assert!(process.tree().gone_within(LONG).await);
}

#[tokio::test]
async fn a_number_alone_proves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let process = sleeper().await;
    let group = process.id();
    let started = Stat::of(group).unwrap().started;
    let cases = [
        ("another start", format!("BOOT\n+ {group} {}\n", started + 1)),
        (
            "another boot",
            format!("boot 00000000-0000-0000-0000-000000000000\n+ {group} {started}\n"),
        ),
        ("ended by its run", format!("BOOT\n+ {group} {started}\n- {group}\n")),
        ("cut off", format!("BOOT\n+ {group} {started}")),
        ("nonsense", format!("BOOT\n+ {group}\n+ x y\n+ {group} {started} more\n- \n\n")),
        ("nothing", String::new()),
    ];
    for (name, text) in cases {
        leave(home.path(), &run(), &text);
        assert!(swept(home.path()).is_empty(), "{name}");
        assert_eq!(fs::read_dir(home.path().join("groups")).unwrap().count(), 0, "{name}");
    }
    assert!(!process.tree().is_gone());
    // The same with everything right, so that the cases above are known to differ in one thing only.
    leave(home.path(), &run(), &format!("BOOT\n+ {group} {started}\n"));
    assert_eq!(swept(home.path()), [group]);
}

#[tokio::test]
async fn the_mark_of_the_run_is_proof_and_that_of_another_is_none() {
    let home = tempfile::tempdir().unwrap();
    let (dead, alive) = (run(), run());
    let mut processes = Vec::new();
    for run in [&dead, &alive] {
        let spawner =
            Spawner::noting(Handle::current(), Leftovers::open(home.path(), run).unwrap()).unwrap();
        let command = bash("echo $TRANSOM_RUN; exec sleep 1000");
        let mut process = spawner.spawn(command).await.unwrap();
        assert_eq!(line(&mut process).await, *run);
        processes.push(process);
    }
    // What the host of the dead run had noted is lost, and its lock with it.
    let notes = home.path().join("groups").join(&dead);
    fs::remove_file(&notes).unwrap();
    leave(home.path(), &dead, "BOOT\n");
    assert_eq!(swept(home.path()), [processes[0].id()]);
    assert!(!processes[1].tree().is_gone());
}

#[tokio::test]
async fn notes_that_cannot_be_read_keep_no_others_from_being_swept() {
    let home = tempfile::tempdir().unwrap();
    let process = sleeper().await;
    let group = process.id();
    let started = Stat::of(group).unwrap().started;
    let directory = home.path().join("groups");
    // Whatever the order in which they are found.
    for number in 0..8 {
        leave(home.path(), &run(), "");
        fs::write(directory.join(format!("{number}-no-text")), b"boot \xff\n").unwrap();
        fs::create_dir(directory.join(format!("{number}-no-file"))).unwrap();
    }
    leave(home.path(), &run(), &format!("BOOT\n+ {group} {started}\n"));
    super::fifo(&directory.join("pipe"));
    let swept = sweep(home.path());
    assert_eq!(swept.ended.iter().map(|swept| swept.group).collect::<Vec<_>>(), [group]);
    assert_eq!(swept.failures.len(), 17, "{swept:?}");
    let told: Vec<_> = swept.failures.iter().map(ToString::to_string).collect();
    let named = format!("\"{}\": ", directory.join("3-no-text").display());
    assert!(told.iter().any(|line| line.starts_with(&named)), "{told:?}");
    // This host is noted all the same.
    drop(Leftovers::open(home.path(), &run()).unwrap());
}

#[tokio::test]
async fn notes_are_private_and_hold_what_was_started_and_not_ended() {
    let home = tempfile::tempdir().unwrap();
    let run = run();
    let spawner =
        Spawner::noting(Handle::current(), Leftovers::open(home.path(), &run).unwrap()).unwrap();
    let path = home.path().join("groups").join(&run);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let count = |sign: &str| {
        fs::read_to_string(&path).unwrap().lines().filter(|line| line.starts_with(sign)).count()
    };
    let first = spawner.spawn(bash("exec sleep 1000")).await.unwrap();
    let second = spawner.spawn(bash("exec sleep 1000")).await.unwrap();
    assert_eq!((count("+"), count("-")), (2, 0));
    // Children end on the thread that starts them, in the order of both.
    drop(first);
    let _third = spawner.spawn(bash("exec sleep 1000")).await.unwrap();
    assert_eq!((count("+"), count("-")), (3, 1));
    drop(second);
    let _fourth = spawner.spawn(bash("exec sleep 1000")).await.unwrap();
    assert_eq!((count("+"), count("-")), (4, 2));
}

#[test]
fn notes_stay_small_however_much_is_started() {
    let home = tempfile::tempdir().unwrap();
    let run = run();
    let mut leftovers = Leftovers::open(home.path(), &run).unwrap();
    let own = std::process::id();
    for _ in 0..10_000 {
        leftovers.note(own);
        leftovers.forget(own);
    }
    leftovers.note(own);
    let text = fs::read_to_string(home.path().join("groups").join(&run)).unwrap();
    assert!(text.len() < 70_000, "{}", text.len());
    let last = format!("+ {own} {}\n", Stat::of(own).unwrap().started);
    assert!(text.starts_with("boot ") && text.ends_with(&last));
}

#[test]
fn a_run_has_a_name_that_is_a_file_name() {
    let home = tempfile::tempdir().unwrap();
    for name in ["", "../x", ".x", "a b", "a/b", &"x".repeat(65)] {
        let error = Leftovers::open(home.path(), name).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("run {name:?} is not a name of letters, digits and hyphens")
        );
    }
}

#[test]
fn what_the_system_says_of_a_process_is_read_whatever_its_name() {
    let own = Stat::of(std::process::id()).unwrap();
    assert_eq!(own.parent, std::os::unix::process::parent_id());
    assert!(!own.is_dead() && own.started > 0);
    assert_eq!(Stat::of(0), None);
}
