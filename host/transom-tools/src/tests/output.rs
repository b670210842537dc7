//! Output contracts: values, what the model is shown of them, and what becomes of those that break them (L-53, L-55,
//! L-56, P-59).

use serde_json::json;
use transom_harness::{block::Block, hooks::ResultVerdict, jobs::JobKind, ports::StartedJob};

use super::*;
use crate::{Output, RegistryError};

fn counted() -> Output {
    let schema = json!({
        "type": "object",
        "properties": { "count": { "type": "integer" } },
        "required": ["count"],
        "additionalProperties": false
    });
    Output::new(schema, |value| vec![Block::text(format!("{} of them", value["count"]))])
}

/// A tool that gives its arguments' `give` as its value.
fn giving(output: Output) -> Made {
    let run = |call: Call| async move {
        let value = call.arguments.get("give").cloned().map(Box::new);
        Ok(ToolOutcome { value, ..ToolOutcome::text("the body's own words") })
    };
    Made { output, ..Made::new("give", run) }
}

#[tokio::test]
async fn a_value_is_rendered_and_never_the_bodys_own_words() {
    let bench = Bench::new();
    let output = counted().presented(|value| json!({ "badge": value["count"] }));
    bench.registry.register(giving(output).into_tool()).unwrap();
    let outcome = bench.call("give", json!({ "give": { "count": 3 } })).await;
    assert_eq!(text(&outcome), "3 of them");
    assert_eq!(outcome.value.as_deref(), Some(&json!({ "count": 3 })));
    assert_eq!(outcome.meta, Some(json!({ "badge": 3 })), "for people (L-59)");
}

#[tokio::test]
async fn a_value_that_breaks_the_contract_is_an_error() {
    let bench = Bench::new();
    bench.registry.register(giving(counted()).into_tool()).unwrap();
    let table = [
        (json!({}), r#""value" must be an object"#),
        (json!({ "give": { "count": 1.5 } }), r#""value.count" must be an integer"#),
        (
            json!({ "give": { "more": 1 } }),
            "missing required property \"value.count\"; \"value.more\" is not a declared property \
             (additionalProperties: false)",
        ),
    ];
    for (arguments, found) in table {
        let expected = format!("tool \"give\" returned invalid output: {found}");
        let expected = coded(expected, "ToolOutputError/INVALID_TOOL_OUTPUT");
        assert_eq!(bench.error("give", arguments).await, expected);
    }
}

#[tokio::test]
async fn without_a_contract_of_its_own_a_tools_value_is_its_text() {
    let bench = Bench::new();
    let tool = Made::new("say", |_| async { Ok(ToolOutcome::text("words")) });
    bench.registry.register(tool.into_tool()).unwrap();
    let outcome = bench.call("say", json!({})).await;
    assert_eq!(
        (text(&outcome), outcome.value.as_deref()),
        ("words".to_owned(), Some(&json!("words")))
    );
}

#[tokio::test]
async fn an_error_keeps_its_words() {
    let bench = Bench::new();
    let run = |_| async {
        let value = Some(Box::new(json!("no count")));
        Ok(ToolOutcome { value, ..ToolOutcome::error("out of paper", None) })
    };
    let tool = Made { output: counted(), ..Made::new("fails", run) };
    bench.registry.register(tool.into_tool()).unwrap();
    let outcome = bench.call("fails", json!({})).await;
    assert_eq!(failure(&outcome), plain("out of paper"));
    assert_eq!(outcome.value, None, "what breaks the contract is nobody's");
}

#[tokio::test]
async fn a_contract_that_nobody_could_check_is_refused() {
    let bench = Bench::new();
    let output = Output::new(json!({ "type": "string", "pattern": "^a" }), |_| Vec::new());
    let refused = bench.registry.register(giving(output).into_tool()).unwrap_err();
    assert!(
        matches!(&refused, RegistryError::UnsupportedOutput { found, .. } if found == "pattern")
    );
    assert_eq!(
        refused.to_string(),
        "the output of tool \"give\" uses \"pattern\", which is not checked; leave it out"
    );
}

#[tokio::test]
async fn a_finaliser_has_the_last_word() {
    // L-55: behind whoever replaced the content.
    let bench = Bench::new();
    let shouting = |mut content: Vec<Block>| {
        if let Some(Block::Text { text }) = content.first_mut() {
            *text = text.to_uppercase();
        }
        content
    };
    bench.registry.register(giving(counted().finalised(shouting)).into_tool()).unwrap();
    assert_eq!(bench.ok("give", json!({ "give": { "count": 2 } })).await, "2 OF THEM");

    let replaced = ResultVerdict::Content(vec![Block::text("quiet")]);
    let outcome = replaced.apply(ToolOutcome::text("loud"), crate::tool::given);
    assert_eq!(text(&bench.registry.finish(&"main".into(), "give", outcome)), "QUIET");
}

#[tokio::test]
async fn a_value_that_takes_anothers_place_is_held_against_the_contract_too() {
    let bench = Bench::new();
    bench.registry.register(giving(counted()).into_tool()).unwrap();
    let outcome = bench.call("give", json!({ "give": { "count": 2 } })).await;
    let render = |value| bench.registry.render(&"main".into(), "give", value);
    let other = ResultVerdict::Value(json!({ "count": 9 })).apply(outcome.clone(), render);
    assert_eq!(text(&other), "9 of them");
    let wrong = ResultVerdict::Value(json!({ "count": "nine" })).apply(outcome, render);
    let expected = "tool \"give\" returned invalid output: \"value.count\" must be an integer";
    assert_eq!(failure(&wrong), coded(expected, "ToolOutputError/INVALID_TOOL_OUTPUT"));
}

#[tokio::test]
async fn a_command_gives_its_streams_and_its_exit() {
    let bench = Bench::new();
    let run = |command: &str| json!({ "command": command, "description": "try" });
    let outcome = bench.call("bash", run("echo out; echo err >&2; exit 3")).await;
    assert_eq!(text(&outcome), "out\n[stderr]\nerr\n[exit code: 3]");
    let value = json!({
        "stdout": { "text": "out\n" },
        "stderr": { "text": "err\n" },
        "exitCode": 3
    });
    assert_eq!(outcome.value.as_deref(), Some(&value));

    let outcome = bench.call("bash", run("kill -TERM $$")).await;
    assert_eq!(outcome.value.unwrap()["signal"], "SIGTERM");
    let outcome = bench.call("bash", run("head -c 70000 /dev/zero | tr '\\0' x")).await;
    let stdout = &outcome.value.unwrap()["stdout"];
    assert_eq!(stdout["cut"], true);
    assert!(stdout["file"].as_str().is_some_and(|file| Path::new(file).is_file()));
}

#[tokio::test]
async fn built_in_tools_give_values() {
    let bench = Bench::with(|options| options.enabled.push("todo_write".to_owned()));
    let value = |outcome: ToolOutcome| *outcome.value.unwrap();
    let path = bench.shown("a.txt");

    let wrote = bench.call("write", json!({ "file_path": "a.txt", "content": "one\ntwo\n" })).await;
    assert_eq!(value(wrote), json!({ "path": path.clone(), "created": true }));
    let read = bench.call("read", json!({ "file_path": "a.txt", "limit": 1 })).await;
    let expected = json!({ "path": path.clone(), "first": 1, "lines": ["1: one"], "total": 2, "capped": false });
    assert_eq!(value(read), expected);
    let edit = json!({ "file_path": "a.txt", "old_string": "two", "new_string": "2" });
    assert_eq!(
        value(bench.call("edit", edit).await),
        json!({ "path": path.clone(), "all": false })
    );
    let found = value(bench.call("glob", json!({ "pattern": "*.txt" })).await);
    assert_eq!(found["found"], 1);
    let found = value(bench.call("grep", json!({ "pattern": "one" })).await);
    assert_eq!((&found["matches"], &found["shown"]), (&json!(1), &json!(1)));
    let todos = json!({ "todos": [{ "content": "rest", "status": "pending" }] });
    let counts = value(bench.call("todo_write", todos).await);
    assert_eq!(counts, json!({ "completed": 0, "in_progress": 0, "pending": 1 }));
}

#[tokio::test]
async fn a_contract_with_a_bug_fails_its_call_and_takes_no_job_with_it() {
    // L-55, P-69.
    let bench = Bench::new();
    let output = Output::new(json!({ "type": "object" }), |_| panic!("a bug in a rendering"));
    let (id, label) = ("bash-1".to_owned(), "make".to_owned());
    let job = StartedJob { id, kind: JobKind::Bash, label, started_at: 5 };
    let begun = job.clone();
    let run = move |_| {
        let (job, value) = (Some(begun.clone()), Some(Box::new(json!({}))));
        async move { Ok(ToolOutcome { job, value, ..ToolOutcome::text("") }) }
    };
    let tool = Made { output, ..Made::new("spoils", run) };
    bench.registry.register(tool.into_tool()).unwrap();
    let outcome = bench.call("spoils", json!({})).await;
    let expected = "tool \"spoils\" failed because of an error in this host";
    assert_eq!(failure(&outcome), plain(expected));
    assert_eq!(outcome.job, Some(job));
}
