//! What a session has as long as it lives: the processes it has started, wherever they have gone, its directory, and
//! the files of its jobs (P-41, P-44, P-71, P-78).

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use nix::{sys::signal::kill, unistd::Pid};
use serde_json::json;
use tokio::time::timeout;
use transom_harness::{
    jobs::{JobKind, JobRecord, JobStatus},
    ports::{ToolCall, Tools},
};
use transom_process::Confinement;

use super::{Bench, failure, plain, text};
use crate::{JobLimits, Options, abort::AbortSource, fence::Fence, sessions::Sessions};

/// Longest wait for anything; nothing here takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon that has left every group, and its number.
const DAEMON: &str = "(exec setsid sleep 1000 > /dev/null 2>&1 & echo $!)";

/// Sessions with directories of their own, and jobs.
fn bench(change: impl FnOnce(&mut Options)) -> Bench {
    Bench::with(|options| {
        let run = options.directory.parent().unwrap().join("host/run");
        options.confinement = Confinement { run: Some(run), ..Confinement::default() };
        options.jobs = Some(JobLimits::default());
        options.enabled.extend(["job_output", "job_kill"].map(str::to_owned));
        change(options);
    })
}

fn run(bench: &Bench) -> PathBuf {
    bench.home.path().canonicalize().unwrap().join("host/run")
}

fn line(command: &str) -> serde_json::Value {
    json!({ "command": command, "description": "a test" })
}

fn job(command: &str) -> serde_json::Value {
    json!({ "command": command, "description": "a test", "run_in_background": true })
}

fn is_alive(process: &str) -> bool {
    let process = process.trim();
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Dead and unreaped is dead.
    kill(Pid::from_raw(process.parse().unwrap()), None).is_ok()
        && stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
        && !stat.is_empty()
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let look = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(PATIENCE, look).await.is_ok(), "never happened: {what}");
}

#[tokio::test]
async fn p41_a_daemon_outlives_its_call_and_not_its_session() {
    for is_terminated in [true, false] {
        let mut bench = bench(|_| {});
        let daemon = bench.ok("bash", line(DAEMON)).await;
        bench.session = "another";
        let stranger = bench.ok("bash", line(DAEMON)).await;
        assert!(is_alive(&daemon) && is_alive(&stranger));
        if is_terminated {
            bench.registry.terminate(&"main".into(), 10);
        } else {
            bench.registry.forget(&"main".into());
        }
        until("the daemon has ended", || !is_alive(&daemon)).await;
        assert!(is_alive(&stranger), "it is another session's");
        bench.registry.forget(&"another".into());
        until("the stranger has ended", || !is_alive(&stranger)).await;
    }
}

#[tokio::test]
async fn p75_what_a_job_has_left_behind_ends_with_the_job() {
    let bench = bench(|_| {});
    let call_daemon = bench.ok("bash", line(DAEMON)).await;
    bench.ok("bash", job(&format!("{DAEMON} > daemon; exec sleep 1000"))).await;
    until("the daemon runs", || {
        fs::read_to_string(bench.path("daemon")).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    let daemon = bench.content("daemon");
    assert!(is_alive(&daemon));
    bench.ok("job_kill", json!({ "job_id": "bash-1" })).await;
    let end = bench.ok("job_output", json!({ "job_id": "bash-1", "wait": true })).await;
    assert_eq!(end, "(no new output)\n[status: killed, signal: SIGTERM]");
    // P-64: at its end everything that it had is released.
    assert!(!is_alive(&daemon));
    assert!(is_alive(&call_daemon), "that is not the job's");
    bench.registry.forget(&"main".into());
    until("the other one has ended", || !is_alive(&call_daemon)).await;
}

#[tokio::test]
async fn p44_long_outputs_lie_in_the_sessions_own_directory() {
    let bench = bench(|_| {});
    let shown = bench.ok("bash", line("head -c 70000 /dev/zero | tr '\\0' x")).await;
    let file = run(&bench).join("main/1.call-1.stdout.txt");
    let told = format!("[output truncated; full output: {}]", file.display());
    assert!(shown.ends_with(&told), "{}", &shown[shown.len() - 200..]);
    assert_eq!(fs::metadata(&file).unwrap().len(), 70_000);

    bench.ok("bash", job("head -c 70000 /dev/zero | tr '\\0' x >&2")).await;
    let shown = bench.ok("job_output", json!({ "job_id": "bash-1", "wait": true })).await;
    let file = run(&bench).join("main/bash-1.stderr.txt");
    let told = format!(
        "\n[some output was dropped from memory; full output: {}]\n[status: completed, exit code: 0]",
        file.display()
    );
    assert!(shown.ends_with(&told), "{}", &shown[shown.len() - 200..]);

    // Where there is no home they lie elsewhere.
    let homeless = Bench::new();
    let shown = homeless.ok("bash", line("head -c 70000 /dev/zero | tr '\\0' x")).await;
    assert!(shown.contains("/spills/1.call-1.stdout.txt]"), "{}", &shown[shown.len() - 200..]);
}

#[tokio::test]
async fn p78_the_files_of_a_lost_job_are_named_while_they_are_there() {
    let bench = bench(|_| {});
    let own = run(&bench).join("main");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("bash-1.stdout.txt"), "all of it").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", own.join("bash-1.stderr.txt")).unwrap();
    let lost = |id: &str| JobRecord {
        id: id.to_owned(),
        kind: JobKind::Bash,
        label: "a command".to_owned(),
        status: JobStatus::Failed,
        detail: Some("lost: the host stopped before it ended".to_owned()),
        started_at: 1,
        finished_at: Some(2),
    };
    let look = async |id: &str| {
        let call = ToolCall {
            session: "main".into(),
            cwd: None,
            root: None,
            call_id: "call-1".to_owned(),
            name: "job_output".to_owned(),
            arguments: json!({ "job_id": id }).to_string(),
            access: transom_harness::permissions::Access::FULL,
            jobs: [lost("bash-1"), lost("bash-2")].into(),
        };
        let (sender, mut result) = tokio::sync::mpsc::channel(1);
        bench.registry.call(call, Box::new(move |outcome| sender.try_send(outcome).unwrap()));
        text(&result.recv().await.unwrap())
    };
    let status = "[status: failed, lost: the host stopped before it ended]";
    let file = own.join("bash-1.stdout.txt");
    let named = format!(
        "(no new output)\n[some output was dropped from memory; full output: {}]\n{status}",
        file.display()
    );
    assert_eq!(look("bash-1").await, named);
    assert_eq!(look("bash-2").await, format!("(no new output)\n{status}"));
    // The session goes, and the files with it, also if it has called nothing here.
    bench.registry.forget(&"main".into());
    assert_eq!(look("bash-1").await, format!("(no new output)\n{status}"));
}

#[tokio::test]
async fn p44_a_session_that_comes_back_at_once_keeps_its_new_directory() {
    let bench = bench(|_| {});
    bench.ok("bash", line("mkdir $TMPDIR/tree; echo x > $TMPDIR/tree/file")).await;
    bench.registry.forget(&"main".into());
    assert!(!run(&bench).join("main").exists(), "the name is free at once");
    assert_eq!(bench.ok("bash", line("echo y > $TMPDIR/new; ls $TMPDIR")).await, "new\n");
    let others = || {
        let names = fs::read_dir(run(&bench)).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != "main").count()
    };
    until("the old one is removed", || others() == 0).await;
    assert_eq!(bench.ok("bash", line("ls $TMPDIR")).await, "new\n");
}

#[tokio::test]
async fn a_call_that_is_late_makes_nothing_of_a_gone_session_anew() {
    let bench = bench(|_| {});
    for arguments in [job("touch ran; sleep 1000"), line("touch ran")] {
        // The test's runtime has one thread, so the call has not been looked at yet.
        let late = bench.start("bash", &arguments.to_string());
        bench.registry.forget(&"main".into());
        let outcome = late.outcome().await;
        let (message, code) = failure(&outcome);
        assert_eq!((message.as_str(), code.as_str()), ("tool call aborted", "AbortError/ABORTED"));
        assert_eq!(bench.registry.remembered(), (0, 0));
        assert!(!run(&bench).join("main").exists() && !bench.path("ran").exists());
    }
}

#[test]
fn a_workspace_that_a_late_call_has_looked_at_is_forgotten_with_it() {
    let home = tempfile::tempdir().unwrap();
    let (work, other) = (home.path().join("work"), home.path().join("other"));
    for directory in [&work, &other] {
        fs::create_dir(directory).unwrap();
    }
    let fence = Fence::new(Confinement { shared_temp: false, ..Confinement::default() });
    let sessions = Sessions::new(fence.clone());
    let session = "main".into();
    let late = sessions.begin(&session, AbortSource::new());
    drop(sessions.forget(&session));
    fence.forget("main");
    fence.places("main", &work, None).unwrap();
    fs::rename(&work, home.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(&other, &work).unwrap();
    assert!(fence.places("main", &work, None).is_err(), "it is held as long as the call runs");
    drop(late);
    assert!(fence.places("main", &work, None).is_ok());
    // A session that has come back meanwhile keeps what it holds.
    let late = sessions.begin(&session, AbortSource::new());
    drop(sessions.forget(&session));
    let _current = sessions.begin(&session, AbortSource::new());
    drop(late);
    fs::remove_file(&work).unwrap();
    fs::rename(home.path().join("moved"), &work).unwrap();
    assert!(fence.places("main", &work, None).is_err());
}

#[tokio::test]
async fn a_start_that_hangs_is_within_the_deadline_and_the_abort() {
    // What a start waits for, for example a file system, is played by the place of the log.
    let (release, hung) = mpsc::sync_channel::<()>(1);
    let hung = Mutex::new(hung);
    let bench = bench(|options| {
        options.session_log = Some(Arc::new(move |_| {
            // An error when the test is over.
            let _ = hung.lock().map(|hung| hung.recv());
            None
        }));
    });
    let mut arguments = line("touch ran");
    arguments["timeoutMs"] = 20.into();
    let expected = plain("the command could not be started within 1000ms");
    assert_eq!(bench.error("bash", arguments).await, expected);
    let aborted = bench.start("bash", &line("touch ran").to_string());
    tokio::task::yield_now().await;
    aborted.stop.stop();
    assert_eq!(
        failure(&timeout(PATIENCE, aborted.outcome()).await.unwrap()).0,
        "tool call aborted"
    );
    let begun = bench.ok("bash", job("touch ran")).await;
    assert_eq!(begun, "started background job bash-1");
    bench.ok("job_kill", json!({ "job_id": "bash-1" })).await;
    let end = bench.ok("job_output", json!({ "job_id": "bash-1", "wait": true })).await;
    assert_eq!(end, "(no new output)\n[status: killed, killed before exit]");
    drop(release);
    assert!(!bench.path("ran").exists());
}
