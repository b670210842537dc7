//! C-18 to C-29, C-33 to C-35: prompts and what comes of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use transom_store::open_read_only;

use super::{probe, probed};
use crate::support::{
    bench::{Bench, export, store},
    client::{error, events, is_idle, kind, of_type, prompt},
    model_server::{Reply, delta, finish, usage},
    vector::{self, What},
    wire::Wire,
};

/// The kinds of all frames behind a prompt, up to idle.
fn kinds(frames: &[Value]) -> Vec<String> {
    frames.iter().map(kind).collect()
}

fn last_reason(frames: &[Value]) -> Value {
    let events = events(frames, "main");
    of_type(&events, "turn/end").last().expect("a turn ends")["data"]["reason"].clone()
}

#[test]
fn c_18_a_prompt_needs_a_handshake() {
    let mut bench = Bench::fresh();
    bench.client.prompt("p", "main", "PROMPT: PLAIN");
    assert_eq!(error(&bench.client.next()), "-32603 SDK server is not initialized");
    assert_eq!(probe(&mut bench.client), probed(), "there is no notification");
}

#[test]
fn c_19_a_plain_turn_has_its_order() {
    let recorded: Vec<_> = vector::read("v0.1.0rc6.prompt-plain.jsonl")
        .into_iter()
        .filter_map(|line| match line.what {
            What::Receive(frame) if frame["id"] != "init-1" && frame["id"] != "bye" => {
                Some(kind(&frame))
            }
            _ => None,
        })
        .collect();
    let mut bench = Bench::ready();
    assert_eq!(kinds(&bench.client.turn("main", "PROMPT: PLAIN")), recorded);
}

#[test]
fn c_20_the_receipt_names_the_message() {
    let mut bench = Bench::ready();
    let turn = bench.client.turn("main", "PROMPT: PLAIN");
    let response = turn.iter().find(|frame| kind(frame) == "R").expect("a response");
    let receipt = &turn[0]["params"]["event"];
    assert_eq!(receipt["seq"], 0);
    let mut data = receipt["data"].clone();
    assert_eq!(data["inserted"][0]["id"], response["result"]["messageId"]);
    data["inserted"][0]["id"] = json!("m");
    let message = json!({"role": "user", "content": [{"type": "text", "text": "PROMPT: PLAIN"}], "source": {"kind": "user"}, "id": "m"});
    // Neither `removedCount` nor `outcome` (S-97).
    assert_eq!(data, json!({"target": "next-turn", "start": 0, "inserted": [message]}));
}

#[test]
fn c_21_a_second_turn_goes_on() {
    let mut bench = Bench::ready();
    let first = events(&bench.client.turn("main", "PROMPT: PLAIN"), "main");
    let second = events(&bench.client.turn("main", "PROMPT: PLAIN"), "main");
    assert_eq!(of_type(&second, "turn/start")[0]["data"]["turn"], 2);
    for absent in ["request/header", "session/title", "request/context"] {
        assert!(of_type(&second, absent).is_empty(), "{absent}");
    }
    let seqs: Vec<_> =
        first.iter().chain(&second).filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn c_22_overlapping_prompts_queue_by_session() {
    let mut bench = Bench::ready();
    let request = |id: &str, session: &str, text: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": prompt(session, text)}).to_string()
    };
    let lines = [
        request("a1", "main", "PROMPT: PLAIN a1"),
        request("a2", "main", "PROMPT: PLAIN a2"),
        request("b1", "other", "PROMPT: PLAIN b1"),
    ];
    bench.client.say(&lines.join("\n"));
    let mut idle = BTreeMap::new();
    let mut answered = Vec::new();
    while idle.len() < 2 || answered.len() < 3 {
        let frame = bench.client.next();
        for session in ["main", "other"] {
            if is_idle(&frame, session) {
                *idle.entry(session).or_insert(0) += 1;
            }
        }
        if let Some(id) = frame["id"].as_str() {
            assert!(frame["result"]["messageId"].is_string(), "{frame}");
            answered.push(id.to_owned());
        }
    }
    answered.sort();
    assert_eq!(answered, ["a1", "a2", "b1"]);
    let ends = |session: &str| of_type(&bench.client.events(session), "turn/end").len();
    assert_eq!((ends("main"), ends("other")), (2, 1), "one idle ends both turns of main (S-110)");
    assert_eq!(probe(&mut bench.client), probed(), "nothing comes after the idles");
    assert_eq!(idle, BTreeMap::from([("main", 1), ("other", 1)]));
}

#[test]
fn c_23_a_tool_call_has_a_result_and_a_second_step() {
    let mut bench = Bench::ready();
    let turn = bench.client.turn("main", "PROMPT: TOOL");
    let events = events(&turn, "main");
    let (calls, results) = (of_type(&events, "tool/call"), of_type(&events, "tool/result"));
    assert_eq!((calls.len(), results.len()), (1, 1));
    assert_eq!(results[0]["sourceEventSeqs"], json!([calls[0]["seq"]]));
    let block = &results[0]["data"]["message"]["content"][0];
    assert_eq!(block["isError"], false);
    assert_eq!(block["content"], json!([{"type": "text", "text": "tool-proof\n"}]));
    let steps: Vec<_> =
        of_type(&events, "step/start").iter().map(|event| event["data"]["step"].clone()).collect();
    assert_eq!(steps, [1, 2]);
    assert_eq!(last_reason(&turn), json!({"kind": "completed"}));
    let second = &bench.model.requests()[1].body;
    assert!(second.to_string().contains("tool-proof\\n"), "the model is told: {second}");
}

#[test]
fn c_24_an_unknown_tool_fails_the_call_and_not_the_turn() {
    let mut bench = Bench::ready();
    let turn = bench.client.turn("main", "PROMPT: NOSUCH");
    let events = events(&turn, "main");
    let result = &of_type(&events, "tool/result")[0]["data"];
    assert_eq!(result["error"], json!({"name": "ToolNotFoundError", "code": "UNKNOWN_TOOL"}));
    let block = &result["message"]["content"][0];
    assert_eq!(block["isError"], true);
    assert_eq!(block["content"][0]["text"], "Error: unknown tool \"no_such_tool\"");
    assert_eq!(last_reason(&turn), json!({"kind": "completed"}));
}

#[test]
fn c_25_a_server_error_is_retried_twice() {
    let mut bench = Bench::ready();
    let turn = bench.client.turn("main", "PROMPT: ERR500");
    let story: Vec<_> =
        kinds(&turn).into_iter().skip_while(|kind| kind != "E:request/context").skip(1).collect();
    assert_eq!(
        story,
        [
            "E:assistant/chunk",
            "E:llm/retry",
            "E:llm/retry-started",
            "E:assistant/chunk",
            "E:llm/retry",
            "E:llm/retry-started",
            "E:assistant/chunk",
            "E:step/end",
            "E:turn/end",
            "ST:idle",
        ]
    );
    let events = events(&turn, "main");
    let retries: Vec<_> =
        of_type(&events, "llm/retry").iter().map(|event| event["data"]["retry"].clone()).collect();
    assert_eq!(retries, [1, 2]);
    let reason = last_reason(&turn);
    assert_eq!(
        (&reason["kind"], &reason["error"]["code"], &reason["error"]["status"]),
        (&json!("error"), &json!("SERVER"), &json!(500))
    );
    let response = turn.iter().find(|frame| frame["id"] == "turn").expect("a response");
    assert!(
        response["result"]["messageId"].is_string(),
        "a receipt all the same (S-106): {response}"
    );
    assert_eq!(bench.model.requests().len(), 3);
}

#[test]
fn c_26_a_refusal_is_not_retried() {
    let mut bench = Bench::ready();
    for (word, code, status) in [("ERR400", "INVALID_REQUEST", 400), ("ERR401", "AUTH", 401)] {
        let turn = bench.client.turn("main", &format!("PROMPT: {word}"));
        assert!(of_type(&events(&turn, "main"), "llm/retry").is_empty());
        let error = &last_reason(&turn)["error"];
        assert_eq!((&error["code"], &error["status"]), (&json!(code), &json!(status)));
    }
    assert_eq!(bench.model.requests().len(), 2);
}

#[test]
fn c_27_a_missing_key_fails_the_turn_and_not_the_handshake() {
    let mut bench = Bench::launched(|launch| launch.without("DEEPSEEK_API_KEY"));
    bench.shake_hands();
    let turn = bench.client.turn("main", "PROMPT: PLAIN");
    let reason = last_reason(&turn);
    assert_eq!(
        (&reason["kind"], &reason["error"]["code"]),
        (&json!("error"), &json!("MISSING_CREDENTIAL"))
    );
    assert!(bench.model.requests().is_empty(), "nobody is asked without a key");
}

#[test]
fn c_28_the_length_limit_ends_the_turn() {
    let mut bench = Bench::ready();
    let turn = bench.client.turn("main", "PROMPT: MAXTOK");
    let events = events(&turn, "main");
    let content = &of_type(&events, "assistant/message")[0]["data"]["message"]["content"];
    assert_eq!(*content, json!([{"type": "text", "text": "cut of"}]));
    assert_eq!(last_reason(&turn), json!({"kind": "max-tokens"}));
}

#[test]
fn c_29_characters_are_written_as_they_are() {
    let mut bench = Bench::ready();
    bench.client.prompt("p", "main", "PROMPT: UTF8");
    let mut lines = Vec::new();
    loop {
        let line = bench.client.wire.line().expect("valid UTF-8");
        let last = line.contains("\"idle\"");
        lines.push(line);
        if last {
            break;
        }
    }
    let message = lines.iter().find(|line| line.contains("assistant/message")).expect("an answer");
    assert!(message.contains("你好 🦀\u{2028}end"), "{message}");
    assert!(!lines.concat().contains("\\u"), "only what JSON requires is escaped (S-32)");
}

#[test]
fn c_33_a_defective_prompt_creates_nothing() {
    let mut bench = Bench::ready();
    let blocks = json!([{"type": "text", "text": "PROMPT: PLAIN"}]);
    for (params, member) in [
        (json!({"contentBlocks": blocks}), "sessionId"),
        (json!({"sessionId": 7, "contentBlocks": blocks}), "sessionId"),
        (json!({"sessionId": "", "contentBlocks": blocks}), "sessionId"),
        (json!({"sessionId": "absent"}), "contentBlocks"),
        (json!({"sessionId": "text", "contentBlocks": "PROMPT: PLAIN"}), "contentBlocks"),
        (
            json!({"sessionId": "untyped", "contentBlocks": [{"text": "PROMPT: PLAIN"}]}),
            "contentBlocks",
        ),
        (json!({"sessionId": "list", "contentBlocks": [[]]}), "contentBlocks"),
    ] {
        bench.client.ask("bad", "session/prompt", params);
        let answer = error(&bench.client.next());
        assert!(answer.starts_with("-32603 ") && answer.contains(member), "{answer}");
    }
    assert_eq!(probe(&mut bench.client), probed(), "there is no notification");
    assert_eq!(bench.client.shut_down(), 0);
    let stored =
        open_read_only(&store(&bench.place)).expect("the store").list().expect("its sessions");
    assert_eq!(stored, []);
}

#[test]
fn c_34_a_session_id_may_hold_any_character() {
    let mut bench = Bench::ready();
    for session in ["a/b..c", "../../etc/passwd", "with \"quotes\" and 你好", "-rf"] {
        let turn = bench.client.turn(session, "PROMPT: PLAIN");
        let about = turn.iter().filter(|frame| frame.get("method").is_some());
        assert!(about.into_iter().all(|frame| frame["params"]["sessionId"] == session));
        assert_eq!(kind(&turn[turn.len() - 2]), "E:turn/end");
    }
}

#[test]
fn c_35_a_stored_session_is_not_taken_again() {
    let mut bench = Bench::ready();
    bench.client.turn("main", "PROMPT: PLAIN");
    assert_eq!(bench.client.shut_down(), 0);
    let before = bench.exported("main");

    let mut bench = bench.restarted();
    bench.shake_hands();
    bench.client.prompt("p", "main", "PROMPT: PLAIN");
    assert_eq!(error(&bench.client.next()), "-32603 session \"main\" already exists");
    assert_eq!(bench.client.shut_down(), 0);
    assert_eq!(export(&bench.place, "main"), before);
}

/// S-136: the wire belongs to the transport alone. A child that inherited it could write frames, and would keep
/// the client from seeing the end of output.
#[test]
fn a_tool_cannot_reach_the_wire() {
    let mut bench = Bench::ready();
    let arguments = json!({"command": "readlink /proc/$$/fd/*", "description": "Looks around"});
    let call = json!({"tool_calls": [{
        "index": 0, "id": "call_1", "type": "function",
        "function": {"name": "bash", "arguments": arguments.to_string()},
    }]});
    bench.model.on("TOOL", Reply::events(&[delta(call), finish("tool_calls"), usage()]));
    let events = events(&bench.client.turn("main", "PROMPT: TOOL"), "main");
    let block = &of_type(&events, "tool/result")[0]["data"]["message"]["content"][0];
    let open = block["content"][0]["text"].as_str().expect("what the shell has open");
    assert!(open.contains("/dev/null") && open.contains("pipe:"), "{open}");
    for pipe in &bench.client.wire.pipes {
        assert!(
            !open.contains(pipe.as_str()),
            "{pipe} is the wire, and a child has it open:\n{open}"
        );
    }
}
