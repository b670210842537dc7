//! What a host does about itself and about what its commands leave behind (P-42, P-79), played by a program of its own:
//! all of it is a matter of whole processes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::unistd::{Uid, geteuid};
use transom_process::sweep;

/// The program of `tests/programs`.
const REHEARSAL: &str = env!("CARGO_BIN_EXE_transom-rehearsal");

/// Longer than any machine needs; only a failure lasts so long.
const LONG: Duration = Duration::from_secs(60);

fn host(arguments: &[&str]) -> Child {
    Command::new(REHEARSAL)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines(host: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(host.stdout.take().unwrap()).lines().map(Result::unwrap)
}

/// The system tells nobody but the parent that a process has ended, so it has to be looked at.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::yield_now();
    }
}

fn parent(process: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().to_owned())
}

#[test]
fn orphans_are_adopted_and_reaped_and_nobody_elses_end_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // In a session of its own, as daemons are.
    let daemon = format!(
        "(setsid sh -c 'echo $$; exec > /dev/null; read x < {}; exit 3' &)",
        pipe.display()
    );
    // Each leaves an orphan that dies at about the same moment as itself.
    let crowd = ["(exec setsid true &); (true &); exit 7"; 40];
    let arguments = [["adopting-host", daemon.as_str()].as_slice(), &crowd].concat();
    let mut host = host(&arguments);
    let own = host.id().to_string();
    let mut lines = lines(&mut host);
    let daemon = lines.next().unwrap();
    for end in lines.by_ref().take(crowd.len()) {
        assert_eq!(end, "Code(7)");
    }

    until("the daemon is adopted", || parent(&daemon).is_some_and(|parent| parent == own));
    fs::write(pipe, "end\n").unwrap();
    // Gone, not only dead: somebody has reaped it.
    until("the daemon is reaped", || parent(&daemon).is_none());
    until("the crowd is reaped", || dead_children(&own).is_empty());
    drop(host.stdin.take());
    assert!(host.wait().unwrap().success());
}

/// Those of this process that have ended and were not reaped.
fn dead_children(of: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let dead = |process: &String| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        status.contains("\nState:\tZ") && status.contains(&format!("\nPPid:\t{of}\n"))
    };
    processes.filter(dead).collect()
}

#[test]
fn what_has_left_every_group_and_mark_ends_with_its_host() {
    let script =
        "(exec env -i setsid sh -c 'trap \"\" TERM; echo $$; exec >&-; sleep 1000; true' &)";
    let mut host = host(&["ending-host", script]);
    let daemon = lines(&mut host).next().unwrap();
    until("the daemon is adopted", || {
        parent(&daemon).is_some_and(|parent| parent == host.id().to_string())
    });
    until("the daemon has a child", || !children(&daemon).is_empty());
    let child = children(&daemon);
    drop(host.stdin.take());
    assert!(host.wait().unwrap().success());
    // At once: the host has waited for it. Dead is enough, since whoever reaps it now is not known.
    assert_eq!(alive(&daemon), None);
    assert!(child.iter().all(|child| alive(child).is_none()));
}

fn children(of: &str) -> Vec<String> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    children.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_protected_host_keeps_its_environment_to_itself() {
    let mut host = host(&["adopting-host", "echo ready"]);
    assert_eq!(lines(&mut host).next().as_deref(), Some("ready"));
    // What it is to others: root's, whoever runs it, so that no other process of its user may look.
    use std::os::unix::fs::MetadataExt;
    let environment = format!("/proc/{}/environ", host.id());
    assert_eq!(Uid::from_raw(fs::metadata(&environment).unwrap().uid()), Uid::from_raw(0));
    assert_eq!(fs::read(environment).is_ok(), geteuid().is_root());
    drop(host.stdin.take());
    assert!(host.wait().unwrap().success());
}

#[test]
fn what_a_killed_host_left_behind_is_ended_by_the_next_one() {
    // P-79: a daemon has left every group that the killed host knew of.
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_str().unwrap();
    let run = format!("test-{}-daemon", std::process::id());
    let script =
        "(setsid sleep 1000 > /dev/null 2>&1 & echo $!) ; exec > /dev/null; exec sleep 1000";
    let mut doomed = host(&["doomed-host", path, &run, script]);
    let daemon = lines(&mut doomed).next().unwrap();
    until("the daemon sleeps", || alive(&daemon).as_deref() == Some("sleep"));
    // Its host is alive, so it is nobody else's business.
    assert_eq!(sweep(home.path()).ended, []);

    // On Unix this is SIGKILL.
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let swept = sweep(home.path()).ended;
    let found = swept.iter().find(|swept| swept.group.to_string() == daemon).unwrap();
    assert_eq!((found.name.as_str(), found.run.as_str()), ("sleep", run.as_str()));
    assert_eq!(
        found.to_string(),
        format!("ended process group {daemon} (sleep), which run {run} had left behind")
    );
    until("the daemon has ended", || alive(&daemon).is_none());
    assert_eq!(fs::read_dir(home.path().join("groups")).unwrap().count(), 0);
    assert_eq!(sweep(home.path()).ended, []);
    assert_eq!(sweep(Path::new("/nowhere")).ended, []);
}

/// The name of a process that has not ended.
fn alive(process: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let name = status.lines().find_map(|line| line.strip_prefix("Name:\t")).unwrap().to_owned();
    (!status.contains("\nState:\tZ")).then_some(name)
}
