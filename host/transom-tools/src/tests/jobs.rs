//! Background jobs with real processes (P-63 to P-78). When the owner is told of an end is the loop's; here is what
//! the loop hears.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::{sys::signal::kill, unistd::Pid};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};
use transom_frame::SessionId;
use transom_harness::{
    jobs::{JobCause, JobChange, JobKind, JobRecord, JobStatus},
    ports::{StartedJob, ToolCall, ToolOutcome, Tools},
};

use super::{Bench, Started, failure, plain, text};
use crate::{JobLimits, KillError, Options};

/// Longest wait for anything; nothing here takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A bench whose jobs are watched.
struct Yard {
    bench: Bench,
    heard: watch::Receiver<Vec<(SessionId, JobChange)>>,
    logged: Mutex<Arc<[JobRecord]>>,
}

impl Yard {
    fn new() -> Yard {
        Yard::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Options)) -> Yard {
        let (sender, heard) = watch::channel(Vec::new());
        let bench = Bench::with(|options| {
            options.jobs = Some(JobLimits::default());
            options.job_sink = Some(Arc::new(move |session, change| {
                sender.send_modify(|heard| heard.push((session, change)));
            }));
            let jobs = ["job_output", "job_list", "job_kill"].map(str::to_owned);
            options.enabled.extend(jobs);
            change(options);
        });
        Yard { bench, heard, logged: Mutex::default() }
    }

    fn wished(&self, session: &str, name: &str, arguments: Value) -> ToolCall {
        ToolCall {
            session: session.into(),
            cwd: Some(self.bench.shown("")),
            root: None,
            call_id: "call-1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            access: transom_harness::permissions::Access::FULL,
            jobs: self.logged.lock().unwrap().clone(),
        }
    }

    fn begin(&self, session: &str, name: &str, arguments: Value) -> Started {
        let (sender, results) = tokio::sync::mpsc::channel(2);
        let call = self.wished(session, name, arguments);
        let sink = move |outcome| sender.try_send(outcome).unwrap();
        Started { stop: self.bench.registry.call(call, Box::new(sink)), results }
    }

    async fn call_as(&self, session: &str, name: &str, arguments: Value) -> ToolOutcome {
        self.begin(session, name, arguments).outcome().await
    }

    async fn call(&self, name: &str, arguments: Value) -> String {
        let outcome = self.call_as("main", name, arguments).await;
        assert!(!outcome.is_error, "{}", text(&outcome));
        text(&outcome)
    }

    async fn start_as(&self, session: &str, command: &str) -> ToolOutcome {
        let arguments =
            json!({ "command": command, "description": "a job", "run_in_background": true });
        self.call_as(session, "bash", arguments).await
    }

    async fn start(&self, command: &str) -> StartedJob {
        let outcome = self.start_as("main", command).await;
        let job = outcome.job.clone().unwrap();
        assert_eq!(text(&outcome), format!("started background job {}", job.id));
        job
    }

    async fn output(&self, id: &str) -> String {
        self.call("job_output", json!({ "job_id": id })).await
    }

    async fn waited(&self, id: &str) -> String {
        self.call("job_output", json!({ "job_id": id, "wait": true })).await
    }

    /// Waits for the end of a job, as the loop hears it.
    async fn end(&self, id: &str) -> End {
        self.end_of("main", id).await
    }

    async fn end_of(&self, owner: &str, id: &str) -> End {
        let is_it = |(session, change): &&(SessionId, JobChange)| {
            session.as_str() == owner && ends(change, id)
        };
        let mut heard = self.heard.clone();
        let seen = heard.wait_for(|heard| heard.iter().any(|change| is_it(&change)));
        let heard = timeout(PATIENCE, seen).await.unwrap().unwrap().clone();
        let mut found = heard.iter().filter(is_it);
        let (session, change) = found.next().unwrap();
        assert!(found.next().is_none(), "an end comes once");
        let JobChange::Ended { status, detail, cause, reported, .. } = change else {
            unreachable!()
        };
        End {
            session: session.to_string(),
            status: *status,
            detail: detail.clone().unwrap_or_default(),
            cause: *cause,
            reported: *reported,
        }
    }

    fn heard(&self) -> Vec<JobChange> {
        self.heard.borrow().iter().map(|(_, change)| change.clone()).collect()
    }

    /// Waits until a file is there, and reads it.
    async fn written(&self, name: &str) -> String {
        let path = self.bench.path(name);
        let look = async {
            loop {
                match fs::read_to_string(&path) {
                    Ok(text) if text.ends_with('\n') => return text,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        timeout(PATIENCE, look).await.unwrap()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct End {
    session: String,
    status: JobStatus,
    detail: String,
    cause: JobCause,
    reported: bool,
}

fn ends(change: &JobChange, wanted: &str) -> bool {
    matches!(change, JobChange::Ended { id, .. } if id == wanted)
}

fn end(status: JobStatus, detail: &str, cause: JobCause, reported: bool) -> End {
    End { session: "main".to_owned(), status, detail: detail.to_owned(), cause, reported }
}

fn is_alive(process: &str) -> bool {
    let process: i32 = process.trim().parse().unwrap();
    if kill(Pid::from_raw(process), None).is_err() {
        return false;
    }
    // Dead and unreaped is dead.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
        && !stat.is_empty()
}

#[tokio::test]
async fn row_24_a_job_runs_on_and_is_read_with_one_cursor() {
    let yard = Yard::new();
    let gate = yard.bench.fifo("gate");
    let job = yard.start("read line < gate; echo x; exit 3").await;
    assert_eq!((job.id.as_str(), job.kind), ("bash-1", JobKind::Bash));
    assert_eq!(job.label, "read line < gate; echo x; exit 3");
    assert_eq!(yard.output("bash-1").await, "(no new output)\n[status: running]");
    let list = "bash-1 [bash] running — read line < gate; echo x; exit 3";
    assert_eq!(yard.call("job_list", json!({})).await, list);
    assert_eq!(yard.heard(), []);

    tokio::task::spawn_blocking(move || fs::write(gate, "go\n").unwrap()).await.unwrap();
    let expected = end(JobStatus::Completed, "exit code: 3", JobCause::Producer, false);
    assert_eq!(yard.end("bash-1").await, expected);
    assert_eq!(yard.output("bash-1").await, "x\n[status: completed, exit code: 3]");
    let again = "(no new output)\n[status: completed, exit code: 3]";
    assert_eq!(yard.output("bash-1").await, again);
    assert_eq!(yard.waited("bash-1").await, again);
    let killed = yard.call("job_kill", json!({ "job_id": "bash-1" })).await;
    assert_eq!(killed, "job bash-1 had already finished [status: completed, exit code: 3]");
}

#[tokio::test]
async fn the_end_of_a_job_is_never_told_before_its_start() {
    // A job that is over at once, and a host that is slow to take results.
    let yard = Yard::new();
    for number in 1..=20 {
        let heard = yard.heard.clone();
        let id = format!("bash-{number}");
        let expected = id.clone();
        let (sender, mut results) = tokio::sync::mpsc::channel(1);
        let arguments = json!({ "command": "true", "description": "x", "run_in_background": true });
        let call = yard.wished("main", "bash", arguments);
        let sink = move |outcome: ToolOutcome| {
            assert!(!heard.borrow().iter().any(|(_, change)| ends(change, &expected)));
            sender.try_send(outcome).unwrap();
        };
        let _stop = yard.bench.registry.call(call, Box::new(sink));
        assert_eq!(results.recv().await.unwrap().job.unwrap().id, id);
        yard.end(&id).await;
    }
}

#[tokio::test]
async fn row_26_a_wait_or_a_kill_is_a_report() {
    let yard = Yard::new();
    let gate = yard.bench.fifo("gate");
    yard.start("read line < gate; echo out; echo err >&2").await;
    let waiting = yard.begin("main", "job_output", json!({ "job_id": "bash-1", "wait": true }));
    // The result of this call proves that the one before has begun: on one thread they run in order.
    yard.call("job_list", json!({})).await;
    tokio::task::spawn_blocking(move || fs::write(gate, "go\n").unwrap()).await.unwrap();
    let expected = "out\n[stderr]\nerr\n[status: completed, exit code: 0]";
    assert_eq!(text(&waiting.outcome().await), expected);
    let expected = end(JobStatus::Completed, "exit code: 0", JobCause::Producer, true);
    assert_eq!(yard.end("bash-1").await, expected);

    yard.start("sleep 1000").await;
    let killed = yard.call("job_kill", json!({ "job_id": "bash-2", "reason": "enough" })).await;
    assert_eq!(killed, "requested cancellation of job bash-2");
    let expected = end(JobStatus::Killed, "signal: SIGTERM", JobCause::Kill, true);
    assert_eq!(yard.end("bash-2").await, expected);
    let stopping = JobChange::Stopping { id: "bash-2".to_owned() };
    assert_eq!(yard.heard().iter().filter(|change| **change == stopping).count(), 1);
    let expected = "(no new output)\n[status: killed, signal: SIGTERM]";
    assert_eq!(yard.output("bash-2").await, expected);
}

#[tokio::test]
async fn p65_an_exit_code_is_an_exit_code_also_after_a_kill() {
    let yard = Yard::new();
    yard.start("trap 'exit 9' TERM; echo up > up; while :; do sleep 0.02; done").await;
    yard.written("up").await;
    for _ in 0..2 {
        let killed = yard.call("job_kill", json!({ "job_id": "bash-1" })).await;
        assert!(killed.contains("job bash-1"), "{killed}");
    }
    let expected = end(JobStatus::Completed, "exit code: 9", JobCause::Kill, true);
    assert_eq!(yard.end("bash-1").await, expected);
    // However often it was asked, it began to stop once.
    let stopping = JobChange::Stopping { id: "bash-1".to_owned() };
    assert_eq!(yard.heard().iter().filter(|change| **change == stopping).count(), 1);
}

#[tokio::test]
async fn p82_the_operator_kills_and_the_model_is_to_be_told() {
    let yard = Yard::new();
    yard.start("sleep 1000").await;
    let session = "main".into();
    let registry = &yard.bench.registry;
    assert_eq!(registry.kill_job(&session, "bash-1"), Ok(()));
    let expected = end(JobStatus::Killed, "killed by the operator", JobCause::Kill, false);
    assert_eq!(yard.end("bash-1").await, expected);
    let unknown = registry.kill_job(&"other".into(), "bash-1");
    assert_eq!(unknown, Err(KillError::Unknown("bash-1".to_owned())));
    let over = registry.kill_job(&session, "bash-1").unwrap_err().to_string();
    assert_eq!(over, "job bash-1 had already finished [status: killed, killed by the operator]");
}

#[tokio::test]
async fn p65_ends_have_their_words() {
    let yard = Yard::new();
    let table = [
        ("exit 0", JobStatus::Completed, "exit code: 0"),
        ("exit 2", JobStatus::Completed, "exit code: 2"),
        ("kill -KILL $$", JobStatus::Killed, "signal: SIGKILL"),
        ("kill -TERM $$", JobStatus::Killed, "signal: SIGTERM"),
    ];
    for (command, status, detail) in table {
        let job = yard.start(command).await;
        assert_eq!(yard.end(&job.id).await, end(status, detail, JobCause::Producer, false));
    }
    // P-72: it could not be spawned.
    let arguments = json!({
        "command": "true", "description": "x", "workdir": "nowhere", "run_in_background": true
    });
    let job = yard.call_as("main", "bash", arguments).await.job.unwrap();
    let missing = yard.bench.shown("nowhere");
    let detail =
        format!("spawn failed: working directory \"{missing}\" is not an existing directory");
    let expected = end(JobStatus::Failed, &detail, JobCause::Producer, false);
    assert_eq!(yard.end(&job.id).await, expected);
}

#[tokio::test]
async fn row_28_the_eleventh_job_is_refused_and_strangers_know_nothing() {
    let yard = Yard::new();
    for number in 1..=10 {
        assert_eq!(yard.start("sleep 1000").await.id, format!("bash-{number}"));
    }
    let outcome = yard.start_as("main", "echo ran > ran").await;
    let expected = "background job limit reached for this owner (limit: 10); use job_kill to stop an unneeded job, \
                    wait for it to finish, then retry";
    assert_eq!((failure(&outcome), outcome.job), (plain(expected), None));
    for name in ["job_output", "job_kill"] {
        let outcome = yard.call_as("other", name, json!({ "job_id": "bash-1" })).await;
        assert_eq!(failure(&outcome), plain("unknown job bash-1"), "{name}");
    }
    let list = yard.call_as("other", "job_list", json!({})).await;
    assert_eq!(text(&list), "(no background jobs)");
    // Ids are the session's own, and no number was spent on the refused one (P-66).
    assert_eq!(yard.start_as("other", "true").await.job.unwrap().id, "bash-1");
    yard.call("job_kill", json!({ "job_id": "bash-4" })).await;
    yard.end("bash-4").await;
    assert_eq!(yard.start("true").await.id, "bash-11");
    assert!(!yard.bench.path("ran").exists());
    yard.bench.registry.terminate(&"main".into(), 0);
    for number in (1..=10).filter(|number| *number != 4) {
        yard.end(&format!("bash-{number}")).await;
    }
}

#[tokio::test]
async fn the_host_has_a_limit_of_its_own() {
    let yard = Yard::with(|options| {
        options.jobs = Some(JobLimits { host_max: 2, ..JobLimits::default() });
    });
    yard.start_as("one", "sleep 1000").await.job.unwrap();
    yard.start_as("two", "sleep 1000").await.job.unwrap();
    let outcome = yard.start_as("three", "true").await;
    let expected = "this host runs its maximum of background jobs (2); retry later";
    assert_eq!(failure(&outcome), plain(expected));
    yard.bench.registry.terminate(&"one".into(), 0);
    yard.end_of("one", "bash-1").await;
    yard.start_as("three", "true").await.job.unwrap();
    yard.bench.registry.terminate(&"two".into(), 0);
}

#[tokio::test]
async fn p68_only_so_many_ended_jobs_are_kept_the_known_ones_going_first() {
    let yard = Yard::with(|options| {
        options.jobs = Some(JobLimits { ended_max: 2, ..JobLimits::default() });
    });
    for number in 1..=3 {
        let id = yard.start("true").await.id;
        yard.end(&id).await;
        if number == 2 {
            yard.output(&id).await;
        }
    }
    let list = "bash-1 [bash] completed — true\nbash-3 [bash] completed — true";
    assert_eq!(yard.call("job_list", json!({})).await, list);
    // The log still has it, but this host has dropped it.
    *yard.logged.lock().unwrap() = vec![record("bash-2", JobStatus::Completed, None)].into();
    let outcome = yard.call_as("main", "job_output", json!({ "job_id": "bash-2" })).await;
    assert_eq!(failure(&outcome), plain("unknown job bash-2"));
}

fn record(id: &str, status: JobStatus, detail: Option<&str>) -> JobRecord {
    JobRecord {
        id: id.to_owned(),
        kind: JobKind::Bash,
        label: "make".to_owned(),
        status,
        detail: detail.map(str::to_owned),
        started_at: 1,
        finished_at: Some(2),
    }
}

#[tokio::test]
async fn row_30_jobs_of_an_earlier_host_are_shown_and_numbers_go_on() {
    let yard = Yard::new();
    let lost = "lost: the host stopped before it ended";
    *yard.logged.lock().unwrap() = vec![record("bash-1", JobStatus::Failed, Some(lost))].into();
    let shown = format!("(no new output)\n[status: failed, {lost}]");
    assert_eq!(yard.output("bash-1").await, shown);
    assert_eq!(yard.waited("bash-1").await, shown);
    let killed = yard.call("job_kill", json!({ "job_id": "bash-1" })).await;
    assert_eq!(killed, format!("job bash-1 had already finished [status: failed, {lost}]"));
    assert_eq!(yard.start("true").await.id, "bash-2");
    yard.end("bash-2").await;
    let list = "bash-1 [bash] failed — make\nbash-2 [bash] completed — true";
    assert_eq!(yard.call("job_list", json!({})).await, list);
}

#[tokio::test]
async fn row_29_cancelling_calls_leaves_a_job_alone_and_closing_the_session_leaves_nothing() {
    let yard = Yard::new();
    let command = "trap '' TERM; (trap '' TERM; echo $BASHPID > inner; while :; do sleep 0.05; done) & \
                   echo $$ > outer; wait";
    let arguments = json!({ "command": command, "description": "x", "run_in_background": true });
    let mut started = yard.begin("main", "bash", arguments);
    let outcome = started.results.recv().await.unwrap();
    started.stop.stop();
    assert!(outcome.job.is_some());
    let (inner, outer) = (yard.written("inner").await, yard.written("outer").await);
    assert!(is_alive(&inner) && is_alive(&outer));
    assert_eq!(yard.output("bash-1").await, "(no new output)\n[status: running]");

    yard.bench.registry.terminate(&"main".into(), 50);
    let expected = end(JobStatus::Killed, "signal: SIGKILL", JobCause::Teardown, true);
    assert_eq!(yard.end("bash-1").await, expected);
    assert!(!is_alive(&inner) && !is_alive(&outer));
    yard.bench.registry.forget(&"main".into());
    assert_eq!(yard.call("job_list", json!({})).await, "(no background jobs)");
}

#[tokio::test]
async fn a_session_that_is_forgotten_takes_its_jobs_along() {
    let yard = Yard::new();
    yard.start("echo $$ > process; sleep 1000").await;
    let process = yard.written("process").await;
    yard.bench.registry.forget(&"main".into());
    assert_eq!(yard.end("bash-1").await.cause, JobCause::Teardown);
    assert!(!is_alive(&process));
}

#[tokio::test]
async fn a_call_that_is_stopped_before_its_job_begins_has_none() {
    let yard = Yard::new();
    let arguments = json!({ "command": "true", "description": "x", "run_in_background": true });
    let started = yard.begin("main", "bash", arguments);
    // The test's runtime has one thread, so the call has not been looked at yet.
    started.stop.stop();
    let outcome = started.outcome().await;
    assert_eq!((failure(&outcome).0, outcome.job), ("tool call aborted".to_owned(), None));
    assert_eq!(yard.call("job_list", json!({})).await, "(no background jobs)");
}

#[tokio::test]
async fn a_wait_ends_with_its_time_or_its_call() {
    let yard = Yard::new();
    yard.start("sleep 1000").await;
    let arguments = json!({ "job_id": "bash-1", "wait": true, "timeout_ms": 1 });
    let shown = yard.call("job_output", arguments).await;
    assert_eq!(shown, "(no new output)\n[status: running]");
    let waiting = yard.begin("main", "job_output", json!({ "job_id": "bash-1", "wait": true }));
    yard.call("job_list", json!({})).await;
    waiting.stop.stop();
    assert_eq!(failure(&waiting.outcome().await), plain("wait aborted"));
    // Nobody waits any more, so the end is news.
    yard.bench.registry.kill_job(&"main".into(), "bash-1").unwrap();
    assert!(!yard.end("bash-1").await.reported);
}

#[tokio::test]
async fn p76_arguments_are_told_what_is_wrong_with_them() {
    let yard = Yard::new();
    let table = [
        (
            "job_output",
            json!({ "job_id": "" }),
            "invalid job_id: expected a non-empty string, got \"\"",
        ),
        (
            "job_kill",
            json!({ "job_id": " " }),
            "invalid job_id: expected a non-empty string, got \" \"",
        ),
        ("job_output", json!({ "job_id": "bash-7" }), "unknown job bash-7"),
        ("job_output", json!({ "job_id": "bash-7", "wait": true }), "unknown job bash-7"),
        ("job_kill", json!({ "job_id": "nonsense" }), "unknown job nonsense"),
        (
            "job_output",
            json!({ "job_id": "bash-1", "timeout_ms": 0 }),
            "invalid wait timeout: expected a positive number of milliseconds, got 0",
        ),
    ];
    for (name, arguments, expected) in table {
        let outcome = yard.call_as("main", name, arguments).await;
        assert_eq!(failure(&outcome), plain(expected));
    }
    for name in ["job_output", "job_list", "job_kill"] {
        assert!(!yard.bench.registry.is_parallel(&"main".into(), name, r#"{"job_id":"bash-1"}"#));
    }
}

#[tokio::test]
async fn p71_a_flood_is_bounded_and_its_whole_is_in_a_private_file() {
    let yard = Yard::new();
    yard.start("seq 30000; echo end >&2").await;
    yard.end("bash-1").await;
    let shown = yard.output("bash-1").await;
    let (output, rest) = shown.split_once("\n[stderr]\nend\n").unwrap();
    assert!(output.len() < 64_000 && output.ends_with("\n29999\n30000"));
    let path = rest.strip_prefix("[some output was dropped from memory; full output: ").unwrap();
    let path = path.strip_suffix("]\n[status: completed, exit code: 0]").unwrap();
    let whole = fs::read_to_string(path).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("\n30000\n"));
    yard.bench.registry.forget(&"main".into());
    let gone = async {
        while std::path::Path::new(path).exists() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();

    // Beyond the limit there is no file: half of one would pass for the whole.
    let yard = Yard::with(|options| options.spill_limits.stream_bytes_max = 100_000);
    yard.start("seq 30000").await;
    yard.end("bash-1").await;
    let shown = yard.output("bash-1").await;
    let expected = "30000\n[some output was dropped from memory; full output: (unavailable)]\n\
                    [status: completed, exit code: 0]";
    assert!(shown.ends_with(expected));
    let spills = yard.bench.home.path().join("spills");
    assert_eq!(fs::read_dir(spills).unwrap().count(), 0);
}

#[tokio::test]
async fn many_jobs_of_many_sessions_end_each_once() {
    let yard = Yard::new();
    let sessions: Vec<_> = (0..12).map(|number| format!("s{number}")).collect();
    for session in &sessions {
        for number in 0..8 {
            let outcome = yard.start_as(session, &format!("echo {session}; exit {number}")).await;
            assert_eq!(outcome.job.unwrap().id, format!("bash-{}", number + 1));
        }
    }
    let mut heard = yard.heard.clone();
    timeout(PATIENCE, heard.wait_for(|heard| heard.len() == 96)).await.unwrap().unwrap();
    for session in &sessions {
        for number in 1..=8 {
            let id = format!("bash-{number}");
            let shown = yard.call_as(session, "job_output", json!({ "job_id": id })).await;
            let expected = format!("{session}\n[status: completed, exit code: {}]", number - 1);
            assert_eq!(text(&shown), expected);
        }
    }
    assert_eq!(yard.heard.borrow().len(), 96);
}

#[tokio::test]
async fn a_teardown_in_the_middle_of_starting_leaves_no_process() {
    // Whatever the teardown meets: a call, a job that is being born, or one that runs.
    for round in 0..20_u32 {
        let yard = Yard::new();
        let mut started = Vec::new();
        for number in 0..4 {
            let command = format!("echo $$ > process-{number}; exec sleep 1000");
            let arguments =
                json!({ "command": command, "description": "x", "run_in_background": true });
            started.push(yard.begin("main", "bash", arguments));
        }
        for _ in 0..round * 3 {
            tokio::task::yield_now().await;
        }
        yard.bench.registry.terminate(&"main".into(), 10);
        yard.bench.registry.forget(&"main".into());
        for started in started {
            if let Some(job) = started.outcome().await.job {
                assert_eq!(yard.end(&job.id).await.cause, JobCause::Teardown);
            }
        }
        for number in 0..4 {
            let path = yard.bench.path(&format!("process-{number}"));
            if let Ok(process) = fs::read_to_string(path)
                && !process.trim().is_empty()
            {
                assert!(!is_alive(&process), "round {round}");
            }
        }
    }
}

#[tokio::test]
async fn without_jobs_no_schema_speaks_of_them() {
    let bench = Bench::new();
    let bash = &bench.registry.specs(&"main".into())[0];
    assert!(bash.parameters["properties"].get("run_in_background").is_none());
    let arguments = json!({ "command": "true", "description": "x", "run_in_background": true });
    let expected =
        "run_in_background is disabled for this deployment (enableRunInBackground: false)";
    assert_eq!(bench.error("bash", arguments).await, plain(expected));
    let arguments = json!({ "command": "true", "description": "x", "run_in_background": false });
    assert_eq!(bench.ok("bash", arguments).await, "(no output)");

    let yard = Yard::new();
    let bash = &yard.bench.registry.specs(&"main".into())[0];
    assert_eq!(bash.parameters["properties"]["run_in_background"]["type"], "boolean");
}
