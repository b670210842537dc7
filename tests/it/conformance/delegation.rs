//! C-30 to C-32: a session that delegates, in the composition of the coding agent.

use serde_json::{Value, json};

use crate::support::{
    bench::{Bench, configuration},
    client::{Client, is_idle, kind},
    model_server::{ModelServer, Reply, delta, finish, usage},
    place::{Place, text},
    process::Launch,
};

/// A program whose sessions may delegate, with a client that has shaken hands.
fn delegating(max_tokens_as_success: &str) -> Bench {
    let mut bench = Bench::launched(|launch| {
        launch
            .env("DSH_CORDIS_CONFIG", configuration("coding.yml"))
            .env("DSH_MAX_TOKENS_AS_SUCCESS", max_tokens_as_success)
    });
    bench.shake_hands();
    bench
}

/// An answer that hands this prompt on.
fn hand_on(prompt: &str) -> Reply {
    let arguments = json!({ "description": "Child task", "prompt": prompt }).to_string();
    let call = json!({
        "index": 0, "id": "call_sub", "type": "function",
        "function": { "name": "subagent", "arguments": arguments },
    });
    let said = delta(json!({ "tool_calls": [call] }));
    Reply::events(&[said, finish("tool_calls"), usage()])
}

/// Where the first frame of this kind about this session stands.
fn place(frames: &[Value], session: &str, wanted: &str) -> usize {
    let about = |frame: &Value| {
        let params = &frame["params"];
        [&params["sessionId"], &params["childSessionId"]].iter().any(|id| **id == session)
    };
    let found = frames.iter().position(|frame| kind(frame) == wanted && about(frame));
    found.unwrap_or_else(|| panic!("{wanted} of {session} in {frames:#?}"))
}

fn finished(frames: &[Value]) -> &Value {
    let is_end = |frame: &&Value| frame["method"] == "subagent.finished";
    &frames.iter().find(is_end).expect("the run ends")["params"]
}

fn result(frames: &[Value]) -> &Value {
    let is_result =
        |frame: &&Value| frame["params"]["sessionId"] == "main" && kind(frame) == "E:tool/result";
    let result = frames.iter().find(is_result).expect("the call has a result");
    &result["params"]["event"]["data"]["message"]["content"][0]
}

#[test]
fn c_30_a_child_is_announced_complete_and_finished_before_its_parents_result() {
    let mut bench = delegating("false");
    let frames = bench.client.turn("main", "PROMPT: SUBAGENT");
    let started = frames.iter().position(|frame| frame["method"] == "subagent.started").unwrap();
    let child = frames[started]["params"]["childSessionId"].as_str().unwrap().to_owned();
    assert_eq!(frames[started]["params"]["parentSessionId"], "main");

    let of_child = |frame: &Value| frame["params"]["sessionId"] == child.as_str();
    let first = frames.iter().position(of_child).unwrap();
    let idle = frames
        .iter()
        .position(|frame| of_child(frame) && frame["params"]["status"] == "idle")
        .unwrap();
    let ended = frames.iter().position(|frame| frame["method"] == "subagent.finished").unwrap();
    assert!(started < first && first < place(&frames, &child, "E:turn/end"));
    assert!(idle < ended && ended < place(&frames, "main", "E:tool/result"));
    assert_eq!(
        *finished(&frames),
        json!({
            "provider": "spawn",
            "agentId": child,
            "parentSessionId": "main",
            "childSessionId": child,
            "status": "ok",
            "stopReason": "completed",
            "lastAssistantMessage": [{ "type": "text", "text": "plain answer" }],
        })
    );
    assert_eq!(result(&frames)["content"][0]["text"], "plain answer");
}

#[test]
fn c_31_a_child_that_fails_without_a_word_has_no_last_message() {
    let mut bench = delegating("false");
    bench.model.on("DELEGATE", hand_on("PROMPT: ERR401"));
    let frames = bench.client.turn("main", "PROMPT: DELEGATE");
    let finished = finished(&frames);
    assert_eq!((&finished["status"], &finished["stopReason"]), (&json!("error"), &json!("error")));
    assert!(finished.get("lastAssistantMessage").is_none(), "{finished}");
    assert_eq!(result(&frames)["isError"], true);
    assert_eq!(result(&frames)["content"][0]["text"], "Error: subagent run failed");
}

#[test]
fn c_32_the_option_says_whether_a_length_limit_is_a_success() {
    // Row 32 of the loop's checklist as well.
    for (option, status) in [("false", "error"), ("true", "ok")] {
        let mut bench = delegating(option);
        bench.model.on("DELEGATE", hand_on("PROMPT: MAXTOK"));
        let frames = bench.client.turn("main", "PROMPT: DELEGATE");
        let finished = finished(&frames);
        assert_eq!(
            (&finished["status"], &finished["stopReason"]),
            (&json!(status), &json!("max-tokens"))
        );
        assert_eq!(
            result(&frames)["content"][0]["text"],
            "Error: subagent run hit its token limit before finishing\nPartial output before the run ended:\ncut of"
        );
    }
}

/// L-72, L-103, and the order of the recording `v0.2.1rc2.prompt-subagent`: what the profile's model delegates outlives
/// the call, and its parent is told before the end of the run is.
#[test]
fn a_child_of_the_profile_outlives_its_call_and_its_parent_is_told_first() {
    let (place, model) = (Place::new(), ModelServer::start());
    let launch = Launch::new(["--profile", "sdk"])
        .directory(&place.cwd)
        .env("HOME", place.root())
        .env("DSH_HOME", place.root())
        .env("DEEPSEEK_BASE_URL", model.base_url())
        .env("DEEPSEEK_API_KEY", "sk-mock");
    let mut client = Client::new(launch.start());
    client.initialize(text(&place.cwd));
    client.prompt("go", "main", "PROMPT: SUBAGENT");
    client.until(|frame| frame["method"] == "subagent.finished");
    client.until(|frame| is_idle(frame, "main"));

    let frames = client.seen.clone();
    let at = |is_it: &dyn Fn(&Value) -> bool| frames.iter().position(is_it).expect("it was told");
    let of_main = |frame: &Value, wanted: &str| {
        frame["params"]["sessionId"] == "main" && kind(frame) == wanted
    };
    let started = at(&|frame| frame["method"] == "subagent.started");
    let child = frames[started]["params"]["childSessionId"].as_str().unwrap().to_owned();
    let is_notice = |frame: &Value| {
        let message = &frame["params"]["event"]["data"]["inserted"][0];
        of_main(frame, "E:agent/inbox/spliced") && message["source"]["kind"] == "subagent-settled"
    };
    let order = [
        started,
        at(&|frame| of_main(frame, "E:subagent/catalog")),
        at(&|frame| of_main(frame, "E:tool/result")),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let order = [
        self::place(&frames, &child, "E:turn/end"),
        at(&|frame| is_idle(frame, &child)),
        at(&is_notice),
        at(&|frame| frame["method"] == "subagent.finished"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(result(&frames)["content"][0]["text"], format!("started subagent {child}"));
    let finished = finished(&frames);
    assert_eq!((&finished["status"], &finished["stopReason"]), (&json!("ok"), &json!("completed")));
    assert_eq!(
        finished["lastAssistantMessage"],
        json!([{ "type": "text", "text": "plain answer" }])
    );
    assert_eq!(client.shut_down(), 0);
}
