//! Rows 1 to 10: the log, the inbox, and the order of turns and steps.

use serde_json::{Value, json};

use super::stage::{Setting, at_once, bash, kinds, of_kind, reason, rule, said};
use crate::support::{
    bench::Bench,
    client::{events, kind},
    frames::is_status,
};

/// Row 1. L-20: "A door prompt is a followup with source `{kind:"user"}`." L-24: "splice(insert) → status running →
/// `turn/start` → splice(claim) → *response* → `step/start`". Launch form A, whose sessions begin without settings, so
/// that the splice is event 0.
#[test]
fn row_01_a_prompt_on_idle_is_claimed_before_its_receipt() {
    let mut bench = Bench::ready();
    let turn = bench.client.turn("main", "PROMPT: PLAIN");
    let shown: Vec<_> = turn.iter().map(kind).collect();
    let expected = [
        "E:agent/inbox/spliced",
        "ST:running",
        "E:turn/start",
        "E:agent/inbox/spliced",
        "R",
        "E:step/start",
        "E:user/message",
    ];
    assert_eq!(shown[..expected.len()], expected);
    let events = events(&turn, "main");
    let seqs: Vec<_> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (0..events.len() as u64).collect::<Vec<_>>());
    let inserted = &events[0]["data"]["inserted"][0];
    assert_eq!(inserted["source"], json!({"kind": "user"}));
    assert_eq!(turn[4]["result"], json!({"messageId": inserted["id"]}));
    assert_eq!(events[1]["data"], json!({"turn": 1}));
    let claim = json!({"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []});
    assert_eq!(events[2]["data"], claim);
    assert_eq!(events[3]["data"], json!({"turn": 1, "step": 1}));
    assert_eq!(events[4]["surfaceOp"], "append");
    assert_eq!(events[4]["data"]["id"], inserted["id"]);
}

/// Row 2. L-38: "Every chunk is appended as `assistant/chunk` as it arrives." L-17: "`sourceEventSeqs` = seqs of the
/// winning attempt's chunks". L-28: "one pair of transitions per activity".
#[test]
fn row_02_an_answer_in_two_deltas_names_its_chunks() {
    let answer = json!([
        {"text": ["plain ", "answer"]}, {"usage": {"input_tokens": 11, "output_tokens": 5}},
    ]);
    let mut stage = Setting::scripted(json!([{ "answer": answer }])).ready();
    let turn = stage.turn("hi");
    let chunks = of_kind(&turn, "assistant/chunk");
    let shapes: Vec<_> =
        chunks.iter().map(|event| event["data"]["chunk"]["type"].clone()).collect();
    assert_eq!(shapes, ["block-start", "text-delta", "text-delta", "block-end", "usage", "finish"]);
    let seqs: Vec<_> = chunks.iter().map(|event| event["seq"].clone()).collect();
    let message = of_kind(&turn, "assistant/message")[0];
    assert_eq!(message["sourceEventSeqs"], Value::from(seqs));
    let text = json!([{"type": "text", "text": "plain answer"}]);
    assert_eq!(message["data"]["message"]["content"], text);
    assert_eq!(
        kinds(&turn)[kinds(&turn).len() - 3..],
        ["assistant/message", "step/end", "turn/end"]
    );
    assert_eq!(reason(&turn), json!({"kind": "completed"}));
    let told = stage.peer.told("main");
    assert_eq!(told.iter().filter(|told| *told == "running").count(), 1);
    assert_eq!(told.last().expect("a last word"), "idle", "and nothing behind it");
}

/// Row 3. L-22: "at turn opening all of `next-step`, then one of `next-turn`". L-28: "two queued prompts: running, turn
/// 1, turn 2, idle".
#[test]
fn row_03_three_prompts_at_once_are_three_turns_of_one_activity() {
    let mut stage = Setting::scripted(json!([{"answer": [{"text": "{{prompt}}!"}]}])).ready();
    let prompts = ["one", "two", "three"].map(|words| said("main", words));
    let asked = at_once(&mut stage.peer, &prompts);
    let ids: Vec<_> = asked.iter().map(|id| stage.peer.reply(id)["messageId"].clone()).collect();
    stage.peer.event_nth("main", "turn/end", 3);
    stage.peer.idle("main", 1);
    let statuses = |told: &String| matches!(told.as_str(), "running" | "idle");
    let told: Vec<_> = stage.peer.told("main").into_iter().filter(statuses).collect();
    assert_eq!(told, ["running", "idle"]);
    let claimed: Vec<_> =
        stage.peer.seen.iter().filter(|frame| frame["name"] == "inbox/claimed").collect();
    let claimed: Vec<_> = claimed.iter().map(|frame| frame["body"].clone()).collect();
    let expected: Vec<_> =
        (1..).zip(&ids).map(|(turn, id)| json!({"turn": turn, "messageIds": [id]})).collect();
    assert_eq!(claimed, expected);
    let events = stage.peer.events("main");
    let answers: Vec<_> = of_kind(&events, "assistant/message")
        .iter()
        .map(|event| event["data"]["message"]["content"][0]["text"].clone())
        .collect();
    assert_eq!(answers, ["one!", "two!", "three!"]);
}

/// Row 4. L-30: "events of different sessions interleave freely, those of one session keep `seq` order on every door".
#[test]
fn row_04_each_session_counts_by_itself() {
    let mut stage = Setting::scripted(json!([{"answer": [{"text": ["a", "b", "c"]}]}])).start();
    let mut from = Vec::new();
    for session in ["one", "two"] {
        from.push(stage.open(session)["lastSeq"].as_u64().expect("a seq") + 1);
    }
    at_once(&mut stage.peer, &[said("one", "hi"), said("two", "hi"), said("one", "again")]);
    stage.peer.event_nth("one", "turn/end", 2);
    for (session, from) in ["one", "two"].into_iter().zip(from) {
        stage.peer.idle(session, 1);
        let events = stage.peer.events(session);
        let seqs: Vec<_> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
        assert_eq!(seqs, (from..from + events.len() as u64).collect::<Vec<_>>());
        assert_eq!(seqs.last().map(|last| last + 1), Some(stage.log(session).len() as u64));
    }
}

/// Row 5. L-6: "`data` must survive a JSON round trip unchanged: no NaN or infinities, no −0, no undefined members, …
/// else the append fails with `session event "<type>" carries non-JSON-serializable data` and the log is unchanged." What
/// this host says itself cannot be of that sort; what a peer sends can. Numbers that hold are kept to the letter, also
/// those that no double can say (decision 75).
#[test]
fn row_05_what_is_no_json_never_reaches_a_log() {
    let script = json!([
        rule("go", 1, json!([bash("c1", "read _ < gate")])), {"answer": [{"text": "ok"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let mut gate = stage.gate("gate");
    let before = stage.log("main");
    let line = |block: &str| {
        format!(
            r#"{{"kind":"request","session":"main","id":"odd","name":"session/prompt","body":{{"content":[{block}]}}}}"#
        )
    };
    for block in [
        r#"{"type":"text","text":NaN}"#,
        r#"{"type":"text","text":"x","n":Infinity}"#,
        r#"{"type":"text","text":"x","n":undefined}"#,
        r#"{"type":"text","text":"x","n":[1,,2]}"#,
    ] {
        stage.peer.say(&line(block));
        assert_eq!(stage.peer.next()["name"], "peer/malformed", "{block}");
    }
    for number in ["-0", "-0.0", "[0, -0e2]", "1e400", "-1E400"] {
        let block = format!(r#"{{"type":"text","text":"x","n":{number}}}"#);
        stage.peer.say(&line(&block));
        let answer = stage.peer.next();
        assert_eq!(answer["kind"], "failure", "{answer}");
        let text = "session event \"agent/inbox/spliced\" carries non-JSON-serializable data";
        assert_eq!(answer["body"]["message"], text);
    }
    assert_eq!(stage.log("main"), before);

    stage.peer.prompt("main", "go");
    stage.peer.event("main", "tool/call");
    let odd = r#"{"type":"text","text":"-0 1e400","n":[0.10,1E+2,123456789012345678901234567890]}"#;
    stage.peer.say(&line(odd).replace("\"odd\"", "\"kept\""));
    stage.peer.reply("kept");
    stage.peer.watch();
    gate.open();
    stage.peer.event_nth("main", "turn/end", 2);
    let log = stage.peer.seen.len();
    assert!(stage.log("main").len() > before.len());
    let said = stage.peer.lines.iter().filter(|line| line.contains(odd)).count();
    assert!(stage.peer.lines[log..].iter().any(|line| line.contains(odd)), "as it is read");
    // The splice, the queue, the queue in the second baseline, the message, and the read.
    assert!(said >= 5, "{said} lines have it to the letter");
    stage.kill();
    stage.restart();
    stage.resume("main");
    stage.log("main");
    assert!(stage.peer.lines.iter().any(|line| line.contains(odd)), "as it was stored");
}

/// Row 6. L-7: "Append is synchronous: commit, then notify observers … Appending from inside an observer of the same
/// session" is an error. Observers of this host are peers: what one of them sends because of an event is a request of
/// its own, which comes behind that event and harms nothing.
#[test]
fn row_06_what_an_observer_sends_comes_behind_what_it_has_seen() {
    let mut stage = Setting::scripted(json!([{"answer": [{"text": "ok"}]}])).ready();
    let mut peer = stage.peer;
    peer.prompt("main", "first");
    let mut sent = Vec::new();
    for n in 1..=6 {
        let seen = peer.nth(n, |frame| frame["name"] == "session/event");
        sent.push((seen["body"]["seq"].as_u64().expect("a seq"), peer.prompt("main", "more")));
    }
    peer.event_nth("main", "turn/end", 7);
    peer.idle("main", 1);
    for (seen, id) in sent {
        let message = peer.reply(&id)["messageId"].clone();
        let events = peer.events("main");
        let own = |event: &&Value| event.pointer("/data/inserted/0/id") == Some(&message);
        let splice = events.iter().find(own).expect("its splice");
        assert!(splice["seq"].as_u64() > Some(seen), "{splice}");
    }
    stage.peer = peer;
    let events = stage.peer.events("main");
    let log = stage.log("main");
    assert_eq!(log[log.len() - events.len()..], events);
}

/// Row 8. L-20: "*steer* = append to `next-step` and wake". L-32: "`next-step` messages enter at the next step boundary
/// of the *same* turn".
#[test]
fn row_08_steering_during_a_call_enters_with_the_next_step() {
    let script = json!([
        rule("go", 1, json!([bash("c1", "read _ < gate; echo done")])),
        {"answer": [{"text": "{{prompt}}"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let mut gate = stage.gate("gate");
    stage.peer.prompt("main", "go");
    stage.peer.event("main", "tool/call");
    let id = stage.peer.steer("main", "aside");
    let message = stage.peer.reply(&id)["messageId"].clone();
    gate.open();
    stage.peer.idle("main", 1);
    let events = stage.peer.events("main");
    assert_eq!(of_kind(&events, "turn/start").len(), 1);
    let at = |is_it: &dyn Fn(&Value) -> bool| events.iter().position(is_it).expect("it is there");
    let result = at(&|event| event["type"] == "tool/result");
    let second = at(&|event| event["data"] == json!({"turn": 1, "step": 2}));
    let entered = at(&|event| event["type"] == "user/message" && event["data"]["id"] == message);
    assert!(result < second && second < entered, "{:?}", kinds(&events));
    let splice = events.iter().find(|event| event.pointer("/data/inserted/0/id") == Some(&message));
    assert_eq!(splice.expect("a splice")["data"]["target"], "next-step");
}

/// Row 9. L-20: "*inject* = append to `next-step`, no wake". L-22: "all of `next-step`, then one of `next-turn`, in that
/// order". No door injects by itself; the end of a job does, under `delivery = "quiet"` (P-77).
#[test]
fn row_09_what_is_injected_waits_for_a_followup_and_goes_first() {
    let background = json!({"command": "read _ < gate; echo ready", "description": "Waits", "run_in_background": true});
    let script = json!([
        rule("start", 1, json!([super::stage::call("c1", "bash", background)])),
        {"answer": [{"text": "ok"}]},
    ]);
    let mut stage = Setting::scripted(script).manifest("[jobs]\ndelivery = \"quiet\"").ready();
    let mut gate = stage.gate("gate");
    let before = stage.turn("start");
    gate.open();
    let injected = stage.peer.first(|frame| {
        frame["name"] == "session/event"
            && frame.pointer("/body/data/target").is_some_and(|target| target == "next-step")
    });
    assert_eq!(injected["body"]["data"]["inserted"].as_array().map(Vec::len), Some(1));
    let described = stage.peer.call("session/describe", "main", json!({}));
    assert_eq!(described["live"], true);
    let running = |frame: &&Value| is_status(frame, "main", "running");
    assert_eq!(stage.peer.seen.iter().filter(running).count(), 1, "nothing wakes");

    let next = stage.turn("go on");
    let entered = of_kind(&next, "user/message");
    assert_eq!(entered.len(), 2, "{:?}", kinds(&next));
    assert_eq!(entered[0]["data"]["id"], injected["body"]["data"]["inserted"][0]["id"]);
    assert_eq!(entered[1]["data"]["source"], json!({"kind": "user"}));
    assert_eq!(of_kind(&next, "turn/start").len(), 1);
    assert_eq!(of_kind(&next, "step/start").len(), 1);
    assert_eq!(of_kind(&before, "turn/start").len(), 1);
}
