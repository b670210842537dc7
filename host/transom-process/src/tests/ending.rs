//! How children end, wanted or not (L-85, design "Teardown").

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Command as Program, Stdio},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{LONG, all, bash, fifo, line, spawn, writers_ended};
use crate::{Command, Ending, Exit, Mark, Spawner, Tree, end_all, end_asked, stat::Stat};

#[tokio::test]
async fn a_group_ends_with_its_grandchildren() {
    let mut process = spawn("(sleep 1000 & sleep 1000) & sleep 1000 & echo ready; wait").await;
    assert_eq!(line(&mut process).await, "ready");
    let tree = process.tree();
    assert!(!tree.is_gone());
    assert_eq!(tree.end(LONG).await, Ending::Terminated);
    assert!(tree.is_gone());
    assert_eq!(process.wait().await.unwrap(), Exit::Signal(15));
    assert_eq!(tree.end(LONG).await, Ending::AlreadyGone);
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed() {
    let mut process = spawn("trap '' TERM; echo ready; while :; do sleep 0.05; done").await;
    assert_eq!(line(&mut process).await, "ready");
    assert_eq!(process.tree().end(Duration::from_millis(20)).await, Ending::Killed);
    assert_eq!(process.wait().await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn who_has_been_asked_to_end_is_not_asked_again() {
    let mut process =
        spawn("trap 'echo asked' TERM; echo ready; while :; do sleep 0.02; done").await;
    assert_eq!(line(&mut process).await, "ready");
    let tree = process.tree();
    tree.terminate();
    assert_eq!(line(&mut process).await, "asked");
    assert_eq!(end_asked(vec![tree], Duration::from_millis(200)).await, Ending::Killed);
    assert_eq!(all(&mut process).await, "", "it would have answered a second time");
}

#[tokio::test]
async fn a_stopped_child_hears_sigterm_too() {
    let mut process = spawn("echo ready; kill -STOP $$").await;
    assert_eq!(line(&mut process).await, "ready");
    assert_eq!(process.tree().end(LONG).await, Ending::Terminated);
    assert_eq!(process.wait().await.unwrap(), Exit::Signal(15));
}

#[tokio::test]
async fn grandchildren_with_groups_of_their_own_belong_to_the_tree() {
    // Job control gives each background job a group.
    let mut process = spawn("set -m; sleep 1000 & echo ready").await;
    assert_eq!(line(&mut process).await, "ready");
    assert_eq!(process.wait().await.unwrap(), Exit::Code(0));
    assert!(!process.tree().is_gone());
    assert_eq!(process.tree().end(LONG).await, Ending::Terminated);
}

#[tokio::test]
async fn what_carries_the_mark_belongs_to_the_tree_wherever_it_has_gone() {
    let (session, stranger) = (Mark::unique(), Mark::unique());
    let script = "(exec setsid sleep 1000 > /dev/null 2>&1 & echo $!); exec > /dev/null";
    let mut daemons = Vec::new();
    for mark in [session.part("bash-1"), session.part("bash-10"), session.clone(), stranger.clone()]
    {
        let spawner = Spawner::new(Handle::current()).unwrap();
        let mut process =
            spawner.spawn(Command { mark: Some(mark.clone()), ..bash(script) }).await.unwrap();
        daemons.push(line(&mut process).await);
        process.wait().await.unwrap();
        let tree = process.tree();
        // Without the mark nothing is known of it.
        assert!(tree.gone_within(LONG).await);
        assert!(!tree.with_marked(mark).is_gone());
    }
    let alive = || {
        let stat = |daemon: &String| Stat::of(daemon.parse().unwrap());
        daemons
            .iter()
            .map(|daemon| stat(daemon).is_some_and(|stat| !stat.is_dead()))
            .collect::<Vec<_>>()
    };
    assert_eq!(alive(), [true; 4]);
    let one = Tree::marked(session.part("bash-1"));
    assert_eq!(one.end(LONG).await, Ending::Terminated);
    assert_eq!(alive(), [false, true, true, true]);
    assert_eq!(one.end(LONG).await, Ending::AlreadyGone);
    let whole = vec![Tree::marked(session)];
    assert_eq!(end_all(whole, LONG).await, Ending::Terminated);
    assert_eq!(alive(), [false, false, false, true]);
    assert_eq!(Tree::marked(stranger).end(LONG).await, Ending::Terminated);
}

#[tokio::test]
async fn descendants_that_were_seen_belong_to_the_tree_whatever_they_take_off() {
    // Neither session nor mark: such a one is known by its parent alone, and the parent ends.
    let script = "(env -i setsid bash -c 'sleep 1000 & echo $!; read -r _ < \"$0\"' \"$1\" & wait) & read -r _; exit 0";
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    fifo(&pipe);
    let spawner = Spawner::new(Handle::current()).unwrap();
    let command = bash(&script.replace("$1", &pipe.display().to_string()));
    let mark = Mark::unique();
    let command = Command { mark: Some(mark.clone()), stdin: crate::Stdin::Piped, ..command };
    let mut process = spawner.spawn(command).await.unwrap();
    let daemon: u32 = line(&mut process).await.parse().unwrap();
    let forgetful = process.tree().with_marked(mark.clone());
    let tree = process.tree().with_marked(mark).with_descendants();
    assert!(!tree.is_gone());
    // The one between them ends, and then the child itself.
    drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
    drop(process.stdin.take());
    process.wait().await.unwrap();
    assert!(forgetful.gone_within(LONG).await);
    let lives = || Stat::of(daemon).is_some_and(|stat| !stat.is_dead());
    assert!(lives() && !tree.is_gone());
    assert_eq!(tree.end_after(Duration::from_millis(10), LONG).await, Ending::Terminated);
    assert!(!lives() && tree.is_gone());
    assert_eq!(tree.end_after(LONG, LONG).await, Ending::AlreadyGone);
}

#[tokio::test]
async fn a_child_that_was_told_to_end_may_end_by_itself_first() {
    let spawner = Spawner::new(Handle::current()).unwrap();
    let reads = |script: &str| Command { stdin: crate::Stdin::Piped, ..bash(script) };
    let mut process = spawner.spawn(reads("cat > /dev/null; exit 3")).await.unwrap();
    drop(process.stdin.take());
    assert_eq!(process.tree().end_after(LONG, LONG).await, Ending::AlreadyGone);
    assert_eq!(process.wait().await.unwrap(), Exit::Code(3));
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let mut process = spawner.spawn(reads(deaf)).await.unwrap();
    assert_eq!(line(&mut process).await, "ready");
    drop(process.stdin.take());
    let short = Duration::from_millis(20);
    assert_eq!(process.tree().end_after(short, short).await, Ending::Killed);
}

#[tokio::test]
async fn a_tree_without_its_child_can_still_be_ended() {
    let mut process = spawn("sleep 1000 & exit 4").await;
    assert_eq!(process.wait().await.unwrap(), Exit::Code(4));
    assert_eq!(process.tree().end(LONG).await, Ending::Terminated);
}

#[tokio::test]
async fn dropping_a_process_kills_its_tree() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    fifo(&pipe);
    let ended = tokio::spawn({
        let pipe = pipe.clone();
        async move { writers_ended(&pipe).await }
    });
    let script = "(trap '' TERM; sleep 1000) & echo ready; wait";
    let mut process = spawn(&format!("exec 2> {}; {script}", pipe.display())).await;
    let tree = process.tree();
    assert_eq!(line(&mut process).await, "ready");
    drop(process);
    assert_eq!(ended.await.unwrap(), "");
    assert!(tree.gone_within(LONG).await);
}

/// Plays both parts: run again with this variable set, it is the host that gets killed.
const HOST: &str = "TEST_DOOMED_HOST_PIPE";

#[test]
fn a_host_that_is_killed_leaves_no_orphan() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Ok(pipe) = env::var(HOST) {
        runtime.block_on(async {
            // A shell that waits, a child of it, and one with a group of its own.
            let script =
                format!("exec 2> {pipe}; sleep 1000 & (sleep 1000; true) & echo ready; wait");
            let mut process = spawn(&script).await;
            println!("\n{}", line(&mut process).await);
            std::future::pending::<()>().await;
        });
    }

    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    fifo(&pipe);
    let mut host = Program::new(env::current_exe().unwrap())
        .args(["--exact", "tests::ending::a_host_that_is_killed_leaves_no_orphan", "--nocapture"])
        .env(HOST, &pipe)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    let stdout = BufReader::new(host.stdout.take().unwrap());
    assert!(stdout.lines().map_while(Result::ok).any(|line| line == "ready"));
    // On Unix this is SIGKILL.
    host.kill().unwrap();
    host.wait().unwrap();
    // Returns when the last process that holds the pipe has ended.
    assert_eq!(ended.join().unwrap(), "");
    drop(runtime);
}
