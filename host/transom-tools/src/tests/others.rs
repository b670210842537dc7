//! `subagent`, `ask_user_question` and `todo_write` with scripted ports (L-65, L-71, P-70), and the bound on bodies
//! that do not end (L-52).

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    jobs::{JobChange, JobKind, JobStatus},
    ports::{
        AskRefused, Delegation, DelegationEvent, Questions, Sink, Stop, Subagents, ToolOutcome,
        Tools,
    },
};

use super::{Bench, Made, coded, failure, plain, text};
use crate::{JobLimits, Options, Providers};

/// A port whose runs a test plays by hand.
#[derive(Default)]
struct Stage {
    begun: Mutex<Option<mpsc::Sender<Begun>>>,
    stops: Arc<AtomicUsize>,
}

struct Begun {
    delegation: Delegation,
    sink: Sink<DelegationEvent>,
}

impl Subagents for Stage {
    fn start(&self, delegation: Delegation, sink: Sink<DelegationEvent>) -> Box<dyn Stop> {
        let begun = self.begun.lock().unwrap();
        begun.as_ref().unwrap().try_send(Begun { delegation, sink }).ok().unwrap();
        Box::new(Counting(self.stops.clone()))
    }
}

struct Counting(Arc<AtomicUsize>);

impl Stop for Counting {
    fn stop(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn delegating(
    change: impl FnOnce(&mut Options),
) -> (Bench, mpsc::Receiver<Begun>, Arc<AtomicUsize>) {
    let (sender, begun) = mpsc::channel(8);
    let stage = Stage { begun: Mutex::new(Some(sender)), ..Stage::default() };
    let stops = stage.stops.clone();
    let bench = Bench::with(|options| {
        options.enabled.push("subagent".to_owned());
        options.subagents = Some(Providers::in_process(Arc::new(stage)));
        change(options);
    });
    (bench, begun, stops)
}

fn task() -> Value {
    json!({ "description": "look", "prompt": "look around" })
}

fn ended(stop_reason: &str, output: &[&str]) -> DelegationEvent {
    let output = output.iter().map(|text| Block::text(*text)).collect();
    DelegationEvent::Ended { stop_reason: stop_reason.to_owned(), output, diagnostic: None }
}

#[tokio::test]
async fn l71_a_run_comes_out_as_its_stop_reason_says() {
    let (bench, mut begun, _) = delegating(|_| {});
    let partial = |head: &str| plain(format!("{head}\nPartial output before the run ended:\nhalf"));
    let table = [
        (ended("aborted", &["half"]), partial("subagent run was cancelled")),
        (ended("error", &["half"]), partial("subagent run failed")),
        (
            ended("max-tokens", &["half"]),
            partial("subagent run hit its token limit before finishing"),
        ),
        (ended("refusal", &[]), plain("subagent declined the task")),
        (ended("something else", &[]), plain("subagent run failed")),
        (
            DelegationEvent::Refused("subagent depth 4 exceeds maxDepth 3".to_owned()),
            plain("subagent depth 4 exceeds maxDepth 3"),
        ),
    ];
    for (event, expected) in table {
        let started = bench.start("subagent", &task().to_string());
        let run = begun.recv().await.unwrap();
        (run.sink)(event);
        assert_eq!(failure(&started.outcome().await), expected);
    }

    // A provider may say what went wrong (A-165); of what went well it has nothing to say here.
    let told = |stop_reason: &str, output: Vec<Block>| DelegationEvent::Ended {
        stop_reason: stop_reason.to_owned(),
        output,
        diagnostic: Some("it is gone".to_owned()),
    };
    let started = bench.start("subagent", &task().to_string());
    (begun.recv().await.unwrap().sink)(told("error", vec![Block::text("half")]));
    let expected = "subagent run failed\nit is gone\nPartial output before the run ended:\nhalf";
    assert_eq!(failure(&started.outcome().await), plain(expected));
    let started = bench.start("subagent", &task().to_string());
    (begun.recv().await.unwrap().sink)(told("completed", vec![Block::text("all")]));
    assert_eq!(text(&started.outcome().await), "all");

    let started = bench.start("subagent", &task().to_string());
    let run = begun.recv().await.unwrap();
    assert_eq!(run.delegation.parent, SessionId::from("main"));
    assert_eq!(
        (run.delegation.description, run.delegation.prompt),
        ("look".into(), "look around".into())
    );
    (run.sink)(DelegationEvent::Started { child: "child".into() });
    (run.sink)(ended("completed", &["one", "two"]));
    // Only the first end counts.
    (run.sink)(ended("error", &[]));
    assert_eq!(text(&started.outcome().await), "one\ntwo");

    assert!(bench.registry.is_parallel(&"main".into(), "subagent", &task().to_string()));
    let blank = json!({ "description": "look", "prompt": " " });
    let expected = plain("invalid prompt: expected a non-empty string");
    assert_eq!(bench.error("subagent", blank).await, expected);
    let background = json!({ "description": "d", "prompt": "p", "run_in_background": true });
    let (told, _) = bench.error("subagent", background).await;
    assert!(told.starts_with("run_in_background is disabled"));
}

#[tokio::test]
async fn a_cancelled_delegation_tells_what_there_is() {
    let (bench, mut begun, stops) = delegating(|_| {});
    let started = bench.start("subagent", &task().to_string());
    let run = begun.recv().await.unwrap();
    started.stop.stop();
    while stops.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    (run.sink)(ended("aborted", &["so far"]));
    let expected = "subagent run was cancelled\nPartial output before the run ended:\nso far";
    assert_eq!(failure(&started.outcome().await), plain(expected));
}

#[tokio::test]
async fn p70_a_delegation_in_the_background_is_a_job() {
    let (sender, mut heard) = watch::channel(Vec::new());
    let (bench, mut begun, stops) = delegating(|options| {
        options.jobs = Some(JobLimits::default());
        options.enabled.extend(["job_output", "job_kill", "job_list"].map(str::to_owned));
        options.job_sink =
            Some(Arc::new(move |_, change| sender.send_modify(|heard| heard.push(change))));
    });
    let mut arguments = task();
    arguments["run_in_background"] = true.into();
    let mut start = async || {
        let outcome = bench.call("subagent", arguments.clone()).await;
        let job = outcome.job.clone().unwrap();
        assert_eq!(text(&outcome), format!("started background subagent task {}", job.id));
        assert_eq!((job.kind, job.label.as_str()), (JobKind::Subagent, "look"));
        begun.recv().await.unwrap()
    };
    let output = async |id: &str| bench.ok("job_output", json!({ "job_id": id })).await;
    let mut end = async |wanted: &str| {
        let is_end =
            |change: &&JobChange| matches!(change, JobChange::Ended { id, .. } if id == wanted);
        let heard = heard
            .wait_for(|heard: &Vec<JobChange>| heard.iter().any(|change| is_end(&change)))
            .await
            .unwrap();
        let Some(JobChange::Ended { status, detail, .. }) = heard.iter().find(is_end) else {
            unreachable!()
        };
        (*status, detail.clone())
    };

    let run = start().await;
    assert_eq!(output("subagent-1").await, "(no new output)\n[status: running]");
    (run.sink)(ended("completed", &["found it"]));
    assert_eq!(end("subagent-1").await, (JobStatus::Completed, None));
    for _ in 0..2 {
        assert_eq!(output("subagent-1").await, "found it\n[status: completed]");
    }

    // A failed one keeps its half to itself (P-65), and one that could not start is a failed job.
    let table = [
        (ended("max-tokens", &["half"]), "max-tokens"),
        (ended("error", &[]), "error"),
        (DelegationEvent::Refused("nobody is free".to_owned()), "nobody is free"),
    ];
    for (number, (event, detail)) in table.into_iter().enumerate() {
        let run = start().await;
        (run.sink)(event);
        let id = format!("subagent-{}", number + 2);
        assert_eq!(end(&id).await, (JobStatus::Failed, Some(detail.to_owned())));
        let shown = format!("(no new output)\n[status: failed, {detail}]");
        assert_eq!(output(&id).await, shown);
    }

    let run = start().await;
    let before = stops.load(Ordering::SeqCst);
    bench.ok("job_kill", json!({ "job_id": "subagent-5" })).await;
    while stops.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    assert_eq!(output("subagent-5").await, "(no new output)\n[status: stopping]");
    (run.sink)(ended("aborted", &["half"]));
    assert_eq!(end("subagent-5").await, (JobStatus::Killed, None));
    let list = bench.ok("job_list", json!({})).await;
    assert_eq!(list.lines().last(), Some("subagent-5 [subagent] killed — look"));
}

/// Answers at once, or never.
struct Oracle {
    answer: Option<Result<String, AskRefused>>,
    asked: Mutex<Vec<Value>>,
    waiting: Waiting,
}

type Waiting = Arc<Mutex<Option<Sink<Result<String, AskRefused>>>>>;

struct Withdraw(Waiting);

impl Stop for Withdraw {
    fn stop(&self) {
        if let Some(sink) = self.0.lock().unwrap().take() {
            sink(Err(AskRefused { code: "ASK_ABORTED", message: "withdrawn".to_owned() }));
        }
    }
}

impl Questions for Oracle {
    fn ask(
        &self,
        _session: &SessionId,
        questions: Value,
        sink: Sink<Result<String, AskRefused>>,
    ) -> Box<dyn Stop> {
        self.asked.lock().unwrap().push(questions);
        match &self.answer {
            Some(answer) => sink(answer.clone()),
            None => *self.waiting.lock().unwrap() = Some(sink),
        }
        Box::new(Withdraw(self.waiting.clone()))
    }
}

fn asking(answer: Option<Result<String, AskRefused>>) -> (Bench, Arc<Oracle>) {
    let oracle = Arc::new(Oracle { answer, asked: Mutex::default(), waiting: Arc::default() });
    let questions = oracle.clone();
    let bench = Bench::with(|options| {
        options.enabled.push("ask_user_question".to_owned());
        options.questions = Some(questions);
    });
    (bench, oracle)
}

fn question() -> Value {
    json!({
        "questions": [{
            "id": "colour",
            "question": "Which?",
            "options": [{ "label": "red" }, { "label": "blue", "description": "like the sky" }],
            "multi_select": true
        }]
    })
}

#[tokio::test]
async fn l65_an_answer_is_the_result_and_a_code_has_a_text() {
    let answer = r#"{"answers":[{"id":"colour","selected":["red"]}]}"#;
    let (bench, oracle) = asking(Some(Ok(answer.to_owned())));
    assert_eq!(bench.ok("ask_user_question", question()).await, answer);
    let mut expected = question()["questions"].clone();
    expected[0].as_object_mut().unwrap().remove("multi_select");
    expected[0]["multiSelect"] = true.into();
    assert_eq!(*oracle.asked.lock().unwrap(), [expected]);

    let table = [
        (
            "NO_PROVIDER",
            "",
            "nobody can be asked here; decide yourself, or say what you would need to know",
        ),
        (
            "DELEGATED_CALLER",
            "",
            "a delegated agent cannot ask the user; put the question into your result instead",
        ),
        ("BAD_INTENT", "no such intent", "no such intent"),
    ];
    for (code, message, expected) in table {
        let (bench, _) = asking(Some(Err(AskRefused { code, message: message.to_owned() })));
        let told = bench.error("ask_user_question", question()).await;
        assert_eq!(told, coded(expected, &format!("AskUserQuestionError/{code}")));
    }
}

#[tokio::test]
async fn a_cancelled_question_is_withdrawn() {
    let (bench, oracle) = asking(None);
    let started = bench.start("ask_user_question", &question().to_string());
    while oracle.asked.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    started.stop.stop();
    let expected = coded("withdrawn", "AskUserQuestionError/ASK_ABORTED");
    assert_eq!(failure(&started.outcome().await), expected);
}

#[tokio::test]
async fn l101_a_list_is_confirmed_in_short() {
    let bench = Bench::with(|options| options.enabled.push("todo_write".to_owned()));
    let todo = |content: &str, status: &str| json!({ "content": content, "status": status });
    let todos = json!({ "todos": [todo("a", "completed"), todo("b", "in_progress"), todo("c", "pending"), todo("d", "pending")] });
    let expected = "todo list updated: 1 completed, 1 in progress, 2 pending";
    assert_eq!(bench.ok("todo_write", todos).await, expected);
    let table = [
        (
            json!({ "todos": [todo("a", "done")] }),
            "invalid arguments: \"todos[0].status\" must be one of [\"pending\",\"in_progress\",\"completed\"]",
        ),
        (
            json!({ "todos": [todo("a", "pending"), {}] }),
            "invalid arguments: missing required property \"todos[1].content\"; missing required property \
             \"todos[1].status\"",
        ),
        (
            json!({ "todos": [todo(" ", "pending")] }),
            "invalid todos[0].content: expected a non-empty string",
        ),
    ];
    for (arguments, expected) in table {
        assert_eq!(bench.error("todo_write", arguments).await.0, expected);
    }
}

#[tokio::test]
async fn tools_that_lack_what_they_work_on_are_refused_at_the_start() {
    for name in ["subagent", "ask_user_question", "job_output", "job_list", "job_kill"] {
        let home = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Handle::current();
        let mut options = Options::new(runtime, Vec::new(), home.path(), home.path());
        options.enabled = vec![name.to_owned()];
        let refused = crate::Registry::new(options).err().unwrap().to_string();
        assert!(refused.starts_with(&format!("tool \"{name}\" needs ")), "{refused}");
    }
}

#[tokio::test]
async fn a_body_that_ignores_its_signal_is_left_alone() {
    let bench = Bench::with(|options| options.drain_ms = 20);
    let begun = Arc::new(tokio::sync::Notify::new());
    let dropped = Arc::new(());
    let (notify, kept) = (begun.clone(), dropped.clone());
    let mut tool = Made::new("deaf", move |_| {
        let (notify, kept) = (notify.clone(), kept.clone());
        async move {
            notify.notify_one();
            std::future::pending::<()>().await;
            drop(kept);
            Ok(ToolOutcome::text(""))
        }
    });
    tool.timeout_ms = Some(60_000);
    bench.registry.register(tool.into_tool()).unwrap();
    let started = bench.start("deaf", "{}");
    begun.notified().await;
    started.stop.stop();
    let expected = coded("tool call aborted", "AbortError/ABORTED");
    assert_eq!(failure(&started.outcome().await), expected);
    // Left alone means dropped: only the test and the tool hold it now.
    while Arc::strong_count(&dropped) > 2 {
        tokio::task::yield_now().await;
    }

    let mut tool = Made::new("late", |_| std::future::pending());
    tool.timeout_ms = Some(20);
    bench.registry.register(tool.into_tool()).unwrap();
    let expected = coded("tool call timed out after 20ms", "ToolTimeoutError/TOOL_TIMEOUT");
    assert_eq!(bench.error("late", json!({})).await, expected);
}
