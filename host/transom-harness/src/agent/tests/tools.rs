//! Tool calls of one message: order, overlap, results (L-39, L-49, L-55 to L-58).

use super::*;

fn with_calls(names: &[(&str, bool)]) -> Play {
    let mut play = Play::new();
    play.prompt("go").assemble();
    for (index, (id, _)) in names.iter().enumerate() {
        play.call(u32::try_from(index).unwrap(), id, "t");
    }
    play.finish(Finish::ToolCalls);
    play.told();
    let parallel: Vec<_> = names.iter().map(|(_, parallel)| *parallel).collect();
    play.plan(&parallel);
    play
}

fn started(play: &Play) -> Vec<&str> {
    play.tools.iter().map(|(_, call)| call.call_id.as_str()).collect()
}

#[test]
fn results_stand_in_the_order_of_the_calls() {
    // Row 24.
    let mut play = with_calls(&[("r1", true), ("r2", true), ("b", false)]);
    assert_eq!(started(&play), ["r1", "r2"]);
    play.tool("r2", ToolOutcome::text("two"));
    assert_eq!(
        play.told(),
        "13 tool/call \"r1\"\n14 tool/call \"r2\"",
        "the second waits for the first"
    );
    play.tool("r1", ToolOutcome::text("one"));
    assert_eq!(started(&play), ["b"]);
    play.tool("b", ToolOutcome::text("three"));
    let expected = "\
15 tool/result \"r1\" \"one\" null
16 tool/result \"r2\" \"two\" null
17 tool/call \"b\"
18 tool/result \"b\" \"three\" null
19 step/end 1.1";
    assert_eq!(play.told(), expected);
    play.assemble();
    assert!(play.told().starts_with("20 step/start 1.2"));
}

#[test]
fn a_result_names_its_call() {
    // S-82, S-103.
    let mut play = with_calls(&[("c", false)]);
    play.tool("c", ToolOutcome::text("ok"));
    let call = play.events.iter().find(|event| event["type"] == "tool/call").unwrap().clone();
    let result = play.events.iter().find(|event| event["type"] == "tool/result").unwrap();
    assert_eq!(result["sourceEventSeqs"], serde_json::json!([call["seq"]]));
    assert_eq!(result["data"]["message"]["content"][0]["isError"], false);
    assert_eq!(result["data"]["message"]["source"]["callId"], "c");
}

#[test]
fn no_more_calls_run_at_once_than_allowed() {
    let names: Vec<String> = (0..12).map(|n| format!("c{n}")).collect();
    let calls: Vec<_> = names.iter().map(|name| (name.as_str(), true)).collect();
    let mut play = with_calls(&calls);
    assert_eq!(play.tools.len(), 10);
    play.tool("c3", ToolOutcome::text("x"));
    assert_eq!(play.tools.len(), 10, "a free place is taken at once");
}

#[test]
fn the_blocks_decide_whether_tools_run() {
    // Row 20, L-39: a finish of `stop` with a call runs it.
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "c", "t").finish(Finish::Stop).plan(&[false]);
    assert_eq!(started(&play), ["c"]);
}

#[test]
fn a_tool_that_concludes_ends_the_turn() {
    let mut play = with_calls(&[("c", false)]);
    play.tool("c", ToolOutcome { concludes: true, ..ToolOutcome::text("done") });
    assert!(play.told().ends_with("turn/end 1 {\"kind\":\"completed\"}\nidle"));
}

#[test]
fn a_failed_tool_is_no_failed_turn() {
    // S-105.
    let mut play = with_calls(&[("c", false)]);
    let error = Some(("ToolNotFoundError", "UNKNOWN_TOOL"));
    play.tool("c", ToolOutcome::error("unknown tool \"t\"", error)).assemble().answer("I see");
    let told = play.told();
    assert!(
        told.contains("tool/result \"c\" \"Error: unknown tool \\\"t\\\"\" \"UNKNOWN_TOOL\""),
        "{told}"
    );
    assert!(told.contains(r#"turn/end 1 {"kind":"completed"}"#), "{told}");
}

#[test]
fn an_answer_of_another_call_changes_nothing() {
    let mut play = with_calls(&[("c", false)]);
    play.told();
    play.happen(Happened::ToolEnded(Token(9999), ToolOutcome::text("stray")));
    assert_eq!(play.told(), "");
}

#[test]
fn a_turn_takes_so_many_steps() {
    // L-35 [beyond], limit steps_per_turn_max.
    let mut play = Play::with(AgentConfig { steps_per_turn_max: 2, ..AgentConfig::default() });
    play.prompt("go").assemble();
    for id in ["a", "b"] {
        if play.calling.is_empty() {
            play.assemble();
        }
        play.call(0, id, "t")
            .finish(Finish::ToolCalls)
            .plan(&[false])
            .tool(id, ToolOutcome::text("x"));
    }
    let told = play.told();
    assert!(told.contains("error STEP_LIMIT"), "{told}");
    assert!(told.ends_with("idle"), "{told}");
}

#[test]
fn an_answer_may_ask_for_so_many_tools() {
    // Limit calls_per_message_max.
    let mut play = Play::with(AgentConfig { calls_per_message_max: 2, ..AgentConfig::default() });
    play.prompt("go").assemble().call(0, "a", "t").call(1, "b", "t").call(2, "c", "t");
    play.finish(Finish::ToolCalls);
    let told = play.told();
    assert!(!told.contains("tool/call") && !told.contains("assistant/message"), "{told}");
    assert!(
        told.contains("the model asked for 3 tool calls in one answer; 2 are allowed"),
        "{told}"
    );
}
