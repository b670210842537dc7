//! The fixed course of every call (L-49, L-53 to L-57).

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::json;
use tokio::{runtime::Handle, sync::Notify};
use transom_frame::SessionId;
use transom_harness::{
    ports::{Asker, ToolOutcome, ToolSpec, Tools},
    subagents::{ToolFilter, Toolset},
};

use super::{Bench, Made, coded, failure, plain, text};
use crate::{Addition, Call, Options, Registry, Running, Tool, ToolError};

#[tokio::test]
async fn specs_are_sorted_and_say_what_is_required() {
    let bench = Bench::new();
    let specs = bench.registry.specs(&"main".into());
    let told: Vec<_> = specs
        .iter()
        .map(|spec| (spec.name.as_str(), spec.parameters["required"].to_string()))
        .collect();
    let expected = [
        ("bash", r#"["command","description"]"#),
        ("edit", r#"["file_path","old_string","new_string"]"#),
        ("glob", r#"["pattern"]"#),
        ("grep", r#"["pattern"]"#),
        ("read", r#"["file_path"]"#),
        ("write", r#"["file_path","content"]"#),
    ];
    assert_eq!(told, expected.map(|(name, required)| (name, required.to_owned())));
    for spec in specs.iter() {
        assert!(!spec.description.is_empty());
        assert_eq!(spec.parameters["type"], "object");
    }
    assert_eq!(specs[0].parameters["properties"].get("run_in_background"), None);
}

#[tokio::test]
async fn only_enabled_tools_exist() {
    let bench = Bench::with(|options| options.enabled = vec!["read".to_owned()]);
    assert_eq!(bench.registry.specs(&"main".into()).len(), 1);
    let expected = coded("unknown tool \"bash\"", "ToolNotFoundError/UNKNOWN_TOOL");
    assert_eq!(bench.error("bash", json!({})).await, expected);
}

#[tokio::test]
async fn a_tool_that_cannot_be_enabled_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let refuse = |enabled: &[&str]| {
        let mut options =
            Options::new(Handle::current(), Vec::new(), home.path(), PathBuf::from("/"));
        options.enabled = enabled.iter().map(|name| (*name).to_owned()).collect();
        Registry::new(options).err().unwrap().to_string()
    };
    assert_eq!(refuse(&["read", "bsh"]), "unknown tool \"bsh\"; did you mean \"bash\"?");
    let all = "unknown tool \"telescope\"; known are ask_user_question, bash, edit, glob, grep, interrupt_agent, \
               job_kill, job_list, job_output, list_agents, read, read_image, send_message, skill, \
               str_replace_editor, subagent, todo_write, write";
    assert_eq!(refuse(&["telescope"]), all);
    assert!(refuse(&["read", "read"]).starts_with("tool \"read\" is already registered"));
}

#[tokio::test]
async fn names_are_checked_at_registration() {
    let bench = Bench::new();
    let register = |name: &str| {
        let tool = Made::new(name, |_| async { Ok(ToolOutcome::text("")) });
        bench.registry.register(tool.into_tool()).map_err(|error| error.to_string())
    };
    let long = "x".repeat(64);
    for name in ["a", "A-b_9", &long] {
        assert_eq!(register(name), Ok(()));
    }
    for name in ["", "a b", "é", "a.b", "a/b", &"x".repeat(65)] {
        assert!(
            register(name).unwrap_err().starts_with(&format!("tool name \"{name}\" is invalid"))
        );
    }
    assert_eq!(register("run_code").unwrap_err(), "tool name \"run_code\" is reserved");
    assert!(register("bash").unwrap_err().starts_with("tool \"bash\" is already registered"));

    let mut tool = Made::new("strict", |_| async { Ok(ToolOutcome::text("")) });
    tool.spec.parameters = json!({ "type": "object", "properties": { "n": { "maximum": 3 } } });
    let error = bench.registry.register(tool.into_tool()).unwrap_err().to_string();
    assert!(error.contains("\"maximum\""), "{error}");
}

#[tokio::test]
async fn bad_arguments_never_reach_a_tool() {
    let bench = Bench::new();
    // Rows 22 and 23 of the checklist.
    let table = [
        (
            r#"{"command":1}"#,
            "missing required property \"description\"; \"command\" must be a string",
        ),
        ("not json", "\"arguments\" must be an object"),
        ("", "missing required property \"command\"; missing required property \"description\""),
        ("[]", "\"arguments\" must be an object"),
    ];
    for (arguments, expected) in table {
        let outcome = bench.start("bash", arguments).outcome().await;
        let expected = format!("invalid arguments: {expected}");
        assert_eq!(failure(&outcome), coded(expected, "ToolArgsError/INVALID_ARGS"), "{arguments}");
    }
}

#[tokio::test]
async fn only_valid_calls_of_read_are_parallel() {
    let bench = Bench::new();
    let table = [
        ("read", r#"{"file_path":"a"}"#, true),
        ("read", r#"{"file_path":"a","limit":"x"}"#, false),
        ("read", "", false),
        ("read", "not json", false),
        ("write", r#"{"file_path":"a","content":""}"#, false),
        ("edit", r#"{"file_path":"a","old_string":"a","new_string":"b"}"#, false),
        ("glob", r#"{"pattern":"a"}"#, false),
        ("grep", r#"{"pattern":"a"}"#, false),
        ("bash", r#"{"command":"ls","description":"look"}"#, false),
        ("no_such_tool", "{}", false),
    ];
    for (name, arguments, expected) in table {
        assert_eq!(
            bench.registry.is_parallel(&"main".into(), name, arguments),
            expected,
            "{name} {arguments}"
        );
    }
}

#[tokio::test]
async fn a_call_that_is_stopped_before_it_begins_does_not_run() {
    let bench = Bench::new();
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let tool = Made::new("mark", move |_| {
        seen.store(true, Ordering::SeqCst);
        async { Ok(ToolOutcome::text("done")) }
    });
    bench.registry.register(tool.into_tool()).unwrap();
    // The test's runtime has one thread, so the call has not been looked at yet.
    let started = bench.start("mark", "{}");
    started.stop.stop();
    let outcome = started.outcome().await;
    assert_eq!(failure(&outcome), coded("tool call aborted", "AbortError/ABORTED"));
    assert!(!ran.load(Ordering::SeqCst));
}

#[tokio::test]
async fn after_an_abort_a_success_is_none_and_a_failure_keeps_its_text() {
    let bench = Bench::new();
    let begun = Arc::new(Notify::new());
    let tools = [
        ("late", Ok(ToolOutcome::text("too late"))),
        ("fails", Err(ToolError::new("out of paper"))),
        ("returns_error", Ok(ToolOutcome::error("own words", None))),
    ];
    for (name, result) in tools {
        let begun = begun.clone();
        let tool = Made::new(name, move |call| {
            let (begun, result) = (begun.clone(), result.clone());
            async move {
                begun.notify_one();
                call.abort.set().await;
                result
            }
        });
        bench.registry.register(tool.into_tool()).unwrap();
    }
    let table = [
        ("late", coded("tool call aborted", "AbortError/ABORTED")),
        ("fails", plain("out of paper")),
        ("returns_error", plain("own words")),
    ];
    for (name, expected) in table {
        let started = bench.start(name, "{}");
        begun.notified().await;
        started.stop.stop();
        started.stop.stop();
        assert_eq!(failure(&started.outcome().await), expected, "{name}");
    }
}

#[tokio::test]
async fn a_stop_after_the_end_changes_nothing() {
    let bench = Bench::new();
    let tool = Made::new("quick", |_| async { Ok(ToolOutcome::text("done")) });
    bench.registry.register(tool.into_tool()).unwrap();
    let mut started = bench.start("quick", "{}");
    let outcome = started.results.recv().await.unwrap();
    started.stop.stop();
    assert_eq!(text(&outcome), "done");
    assert!(started.results.recv().await.is_none());
}

#[tokio::test]
async fn a_tools_own_deadline_sets_its_signal_and_waits_for_it() {
    let bench = Bench::new();
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let mut tool = Made::new("slow", move |call| {
        let seen = seen.clone();
        async move {
            call.abort.set().await;
            seen.store(true, Ordering::SeqCst);
            Ok(ToolOutcome::text("finished anyway"))
        }
    });
    tool.timeout_ms = Some(20);
    bench.registry.register(tool.into_tool()).unwrap();
    let expected = coded("tool call timed out after 20ms", "ToolTimeoutError/TOOL_TIMEOUT");
    assert_eq!(bench.error("slow", json!({})).await, expected);
    assert!(ended.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_bug_in_a_tool_is_an_error_result() {
    let bench = Bench::new();
    let outside = Made::new("at_once", |_| -> std::future::Ready<_> { panic!("a bug") });
    let inside = Made::new("later", |_| async { panic!("a bug") });
    let blocking = Made::new("in_a_thread", |_| crate::tool::blocking(|| panic!("a bug")));
    for tool in [outside, inside, blocking] {
        let name = tool.spec.name.clone();
        bench.registry.register(tool.into_tool()).unwrap();
        let expected = plain(format!("tool \"{name}\" failed because of an error in this host"));
        assert_eq!(bench.error(&name, json!({})).await, expected);
    }
    // The host goes on.
    assert_eq!(bench.ok("glob", json!({ "pattern": "*" })).await, "No files found");
}

#[tokio::test]
async fn a_result_without_a_bound_gets_one() {
    let bench = Bench::new();
    let tool = Made::new("endless", |_| async { Ok(ToolOutcome::text("é".repeat(300_000))) });
    bench.registry.register(tool.into_tool()).unwrap();
    let told = bench.ok("endless", json!({})).await;
    let marker = "\n[result cut here: 75712 more bytes were left out]";
    assert_eq!(told.len(), (512 << 10) + marker.len());
    assert!(told.ends_with(marker));
}

#[tokio::test]
async fn forgetting_a_session_forgets_what_it_saw() {
    let bench = Bench::new();
    bench.put("a.txt", "one");
    bench.ok("read", json!({ "file_path": "a.txt" })).await;
    bench.registry.forget(&"another".into());
    bench.ok("write", json!({ "file_path": "a.txt", "content": "two" })).await;
    bench.registry.forget(&"main".into());
    let (_, code) = bench.error("write", json!({ "file_path": "a.txt", "content": "three" })).await;
    assert_eq!(code, "FsError/FS_NOT_OBSERVED");
}

#[tokio::test]
async fn what_shells_do_not_get_is_reported_by_name() {
    let bench = Bench::with(|options| {
        for name in ["DEEPSEEK_API_KEY", "KEYBOARD_LAYOUT", "TRANSOM_HOME"] {
            options.environment.push((name.to_owned(), "value".to_owned()));
        }
        options.keep = vec!["KEYBOARD_LAYOUT".to_owned()];
    });
    assert_eq!(bench.registry.withheld(), ["DEEPSEEK_API_KEY", "TRANSOM_HOME"]);
}

/// A tool that says something else to each session.
struct Personal(&'static str);

impl Tool for Personal {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({ "type": "object" });
        ToolSpec { name: self.0.to_owned(), description: "For".to_owned(), parameters }
    }

    fn addition(&self) -> Option<Addition> {
        let name = self.0;
        Some(Arc::new(move |asker| Some(format!(" {}, from {name}", asker.session))))
    }

    fn run(&self, _: Call) -> Running {
        Box::pin(async { Ok(ToolOutcome::text("")) })
    }
}

#[tokio::test]
async fn every_tool_may_say_something_of_its_own_to_a_session() {
    let bench = Bench::with(|options| options.enabled = vec!["read".to_owned()]);
    let registry = &bench.registry;
    let (main, other) = ("main".into(), "other".into());
    let told = |session: &SessionId| -> Vec<String> {
        let asker = Asker { session: session.clone(), cwd: None, root: None, images: true };
        let specs = registry.specs_for(&asker);
        let added = specs.iter().filter(|spec| spec.name != "read");
        added.map(|spec| spec.description.clone()).collect()
    };
    assert!(!registry.specs_need_disk(&main));
    registry.register_for(&main, Arc::new(Personal("mine"))).unwrap();
    assert!(registry.specs_need_disk(&main) && !registry.specs_need_disk(&other));
    registry.register(Arc::new(Personal("all"))).unwrap();
    assert_eq!(told(&main), ["For main, from all", "For main, from mine"]);
    assert_eq!(told(&other), ["For other, from all"]);

    // What a session may not use does not speak to it.
    let filters = vec![ToolFilter { allow: Some(vec!["read".to_owned()]), deny: Vec::new() }];
    registry.equip(&other, Toolset { filters, ..Toolset::default() });
    assert_eq!(told(&other), [""; 0]);
    assert!(!registry.specs_need_disk(&other));
}
