//! Children that outlive their task, against the real binary (L-67, L-72, P-80): further messages, the notice to an
//! idle and to a running parent, interrupts, reports, strangers, a host that dies, and kinds of children.

use std::cell::Cell;

use serde_json::{Value, json};
use transom_harness::{audit::audit, header::Header};

use super::stage::{Setting, Stage, bash, call, of_kind, reason, results, rule};

const CONTINUABLE: &str = "[tools]\nsubagent-mode = \"continuable\"\n";

fn start(prompt: &str) -> Value {
    call("c1", "subagent", json!({"description": "Child task", "prompt": prompt}))
}

/// The only child that there is so far.
fn child(stage: &Stage) -> String {
    let added =
        stage.peer.seen.iter().find(|frame| {
            frame["name"] == "session/added" && frame["body"]["origin"] == "subagent"
        });
    added.and_then(|frame| frame["session"].as_str()).expect("a child was born").to_owned()
}

/// Messages on a session's surface from this kind of source.
fn from(events: &[Value], kind: &str) -> Vec<Value> {
    let messages = of_kind(events, "user/message").into_iter();
    messages
        .map(|event| event["data"].clone())
        .filter(|data| data["source"]["kind"] == kind)
        .collect()
}

/// The texts of a message.
fn texts(message: &Value) -> Vec<&str> {
    let blocks = message["content"].as_array().expect("blocks").iter();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

/// Whether a frame shows that `main` is told how a child has come to rest.
fn is_notice(frame: &Value) -> bool {
    frame["session"] == "main"
        && frame["body"]["type"] == "user/message"
        && frame["body"]["data"]["source"]["kind"] == "subagent-settled"
}

/// Whether a frame shows that `main` has answered with these words.
fn heard(frame: &Value, words: &str) -> bool {
    frame["session"] == "main"
        && frame["body"]["type"] == "assistant/message"
        && texts(&frame["body"]["data"]["message"]) == [words]
}

fn code(events: &[Value]) -> Value {
    of_kind(events, "tool/result").last().expect("a result")["data"]["error"]["code"].clone()
}

/// The names of the tools that a session's model was told of last.
fn tools(events: &[Value]) -> Vec<&str> {
    let header = &of_kind(events, "request/header").pop().expect("a header")["data"]["header"];
    let tools = header["tools"].as_array().expect("tools").iter();
    tools.filter_map(|tool| tool["name"].as_str()).collect()
}

/// Every log that the host has kept is one that it may write.
fn audited(stage: &Stage, session: &str) {
    let lines: Vec<String> = stage.exported(session).iter().map(Value::to_string).collect();
    let header = Header::parse(&lines[0]).expect("a header");
    let checked = audit(&header, lines[1..].iter().map(String::as_str));
    assert!(checked.is_ok(), "{session}: {}", checked.unwrap_err());
}

/// L-72, P-80: a child that has finished is told something else, and its idle parent is woken each time.
#[test]
fn a_child_takes_a_second_message_and_an_idle_parent_is_woken() {
    let more =
        json!({"subagent_id": "{{notice after subagent}}", "message": "now the second part"});
    let script = json!([
        {"when": {"contains": "go", "notice": "first words"}, "answer": [call("c2", "send_message", more)]},
        {"when": {"contains": "go", "notice": "second words"}, "answer": [{"text": "both are done"}]},
        rule("go", 1, json!([start("you are the child")])),
        rule("you are the child", 1, json!([bash("b1", "read _ < gate")])),
        {"when": {"contains": "you are the child"}, "answer": [{"text": "first words"}]},
        {"when": {"contains": "the second part"}, "answer": [{"text": "second words"}]},
        {"answer": [{"text": "well"}]},
    ]);
    let mut stage = Setting::scripted(script).manifest(CONTINUABLE).ready();
    let mut gate = stage.gate("gate");
    let turn = stage.turn("go");
    let child = child(&stage);
    assert_eq!(results(&turn), [("c1".to_owned(), format!("started subagent {child}"), false)]);
    let catalog = of_kind(&turn, "subagent/catalog");
    assert_eq!(catalog[0]["data"]["childId"], child);
    assert_eq!(catalog[0]["ignorable"], true);
    for tool in ["interrupt_agent", "list_agents", "send_message"] {
        assert!(tools(&turn).contains(&tool), "{tool}");
    }
    assert!(!tools(&turn).contains(&"report"), "it has nobody to report to");

    gate.open();
    // The second notice may come while the turn of the first still runs.
    stage.peer.first(|frame| {
        frame["session"] == "main"
            && frame["body"]["type"] == "assistant/message"
            && texts(&frame["body"]["data"]["message"]) == ["both are done"]
    });
    let events = stage.peer.events("main");
    let notices = from(&events, "subagent-settled");
    let finished = format!("subagent {child} has finished.");
    assert_eq!(texts(&notices[0]), [&*finished, "Its last words:", "first words"]);
    assert_eq!(texts(&notices[1]), [&*finished, "Its last words:", "second words"]);
    assert_eq!(notices[0]["source"]["form"], "notice");
    assert_eq!(notices[0]["source"]["senderSessionId"], child);
    assert_eq!(notices[0]["source"]["summary"], "Child task has finished");
    let queued = format!("message queued as the next turn for subagent {child}");
    assert_eq!(results(&events)[1], ("c2".to_owned(), queued, false));

    let own = stage.peer.events(&child);
    assert!(tools(&own).contains(&"report"), "{:?}", tools(&own));
    let told = from(&own, "coordinator");
    assert_eq!(texts(&told[0]), ["now the second part"]);
    assert_eq!(
        told[0]["source"],
        json!({"kind": "coordinator", "form": "relay", "senderSessionId": "main"})
    );
    assert_eq!(of_kind(&own, "subagent/descriptor").len(), 1);
    let runs = stage.peer.seen.iter().filter(|frame| frame["name"] == "subagent/finished");
    assert_eq!(runs.count(), 2, "S-78");
    audited(&stage, "main");
    audited(&stage, &child);
}

/// P-80: a running parent learns of it within its turn. L-72: a report reaches it before that.
#[test]
fn a_running_parent_is_told_within_its_turn_and_hears_reports() {
    let script = json!([
        rule("go", 1, json!([start("you are the child")])),
        rule("go", 2, json!([bash("b1", "read _ < gate")])),
        rule("you are the child", 1, json!([call("r1", "report", json!({"output": "half way"}))])),
        {"when": {"contains": "you are the child"}, "answer": [{"text": "last words"}]},
        {"answer": [{"text": "heard: {{notice}}"}]},
    ]);
    let mut stage = Setting::scripted(script).manifest(CONTINUABLE).ready();
    let mut gate = stage.gate("gate");
    let id = stage.peer.prompt("main", "go");
    stage.peer.reply(&id);
    stage.peer.first(|frame| frame["name"] == "subagent/finished");
    gate.open();
    stage.peer.idle("main", 1);
    let child = child(&stage);
    let events = stage.peer.events("main");
    assert_eq!(of_kind(&events, "turn/start").len(), 1, "no turn of its own");
    let report = &from(&events, "subagent-report")[0];
    assert_eq!(texts(report), ["half way"]);
    let source = json!({"kind": "subagent-report", "form": "relay", "senderSessionId": child});
    assert_eq!(report["source"], source);
    let notice = &from(&events, "subagent-settled")[0];
    assert_eq!(texts(notice)[2], "last words");
    assert_eq!(results(&stage.peer.events(&child))[0].1, "report delivered");
    audited(&stage, "main");
}

/// L-72: an interrupt ends the turn and keeps what waits; only those above may, and only the exact parent writes.
#[test]
fn an_interrupt_keeps_the_inbox_and_strangers_are_refused() {
    let agent = json!({"agent_id": "{{prompt after agent}}"});
    let message = json!({"subagent_id": "{{prompt after agent}}", "message": "and then this"});
    let script = json!([
        rule("go", 1, json!([start("you are the child")])),
        rule("you are the child", 1, json!([bash("b1", "read _ < gate")])),
        rule("write agent", 1, json!([call("m1", "send_message", message)])),
        rule("stop agent", 1, json!([call("i1", "interrupt_agent", agent)])),
        rule("list", 1, json!([call("l1", "list_agents", json!({}))])),
        {"when": {"contains": "and then this"}, "answer": [{"text": "that too"}]},
        {"answer": [{"text": "well"}]},
    ]);
    let mut stage = Setting::scripted(script).manifest(CONTINUABLE).ready();
    let _gate = stage.gate("gate");
    stage.turn("go");
    let child = child(&stage);
    let started =
        |frame: &Value| frame["session"] == *child && frame["body"]["type"] == "tool/call";
    stage.peer.first(started);
    assert_eq!(results(&stage.turn("list"))[0].1, format!("{child} running — Child task"));

    // A session that has nothing to do with it.
    stage.open("stranger");
    for (words, tool) in [("write agent", "m1"), ("stop agent", "i1")] {
        let id = stage.peer.prompt("stranger", &format!("{words} {child}"));
        stage.peer.reply(&id);
        stage.peer.first(|frame| {
            let result = frame["body"]["type"] == "tool/result";
            let of = &frame["body"]["data"]["message"]["content"][0]["toolCallId"];
            frame["session"] == "stranger" && result && *of == tool
        });
        let events = stage.peer.events("stranger");
        assert_eq!(code(&events), "UNAUTHORIZED");
    }

    assert!(!results(&stage.turn(&format!("write agent {child}")))[0].2, "it waits for a turn");
    let stop = stage.turn(&format!("stop agent {child}"));
    assert_eq!(results(&stop)[0].1, format!("interrupt requested for agent {child}"));
    stage.peer.idle(&child, 1);
    let own = stage.peer.events(&child);
    assert_eq!(reason(&own), json!({"kind": "aborted", "reason": {"kind": "parent"}}));
    let canceled = of_kind(&own, "agent/inbox/spliced").into_iter();
    assert_eq!(canceled.filter(|event| event["data"]["outcome"] == "canceled").count(), 0);
    // P-80: what waits there wakes nobody, so the child has come to rest. Its parent hears of that in this turn or the next.
    let told = Cell::new(false);
    stage.peer.first(|frame| {
        let source = &frame["body"]["data"]["source"]["kind"];
        let hears = frame["body"]["type"] == "user/message" && source == "subagent-settled";
        told.set(told.get() || (frame["session"] == "main" && hears));
        told.get() && frame["session"] == "main" && frame["body"]["status"] == "idle"
    });
    let waits = "and 1 message waits there until the next one is sent";
    let notices = from(&stage.peer.events("main"), "subagent-settled");
    assert_eq!(texts(&notices[0])[0], format!("subagent {child} was stopped, {waits}."));
    let idle = format!("{child} idle, 1 message waiting — Child task");
    assert_eq!(results(&stage.turn("list"))[0].1, idle);

    // What waited is taken up with the next message.
    stage.turn(&format!("write agent {child}"));
    stage.peer.idle(&child, 2);
    let own = stage.peer.events(&child);
    assert_eq!(from(&own, "coordinator").len(), 2);
    audited(&stage, &child);
}

/// L-72, L-79: a child of a host that was killed goes on where it was, once its parent writes to it.
#[test]
fn a_child_of_a_host_that_was_killed_comes_back_when_it_is_written_to() {
    let message = json!({"subagent_id": "{{prompt after agent}}", "message": "carry on please"});
    let script = json!([
        rule("go", 1, json!([start("you are the child")])),
        rule("you are the child", 1, json!([bash("b1", "read _ < gate")])),
        rule("list", 1, json!([call("l1", "list_agents", json!({}))])),
        rule("write agent", 1, json!([call("m1", "send_message", message)])),
        {"when": {"contains": "carry on please"}, "answer": [{"text": "here I am"}]},
        {"when": {"notice": "here I am"}, "answer": [{"text": "all is told"}]},
        {"answer": [{"text": "well"}]},
    ]);
    let mut stage = Setting::scripted(script).manifest(CONTINUABLE).ready();
    let _gate = stage.gate("gate");
    stage.turn("go");
    let child = child(&stage);
    stage.peer.first(|frame| frame["session"] == *child && frame["body"]["type"] == "tool/call");
    stage.kill();

    stage.restart();
    stage.resume("main");
    assert!(!stage.peer.told("main").iter().any(|told| told == "running"), "it is not woken");
    let list = stage.turn("list");
    assert_eq!(results(&list)[0].1, format!("{child} stored — Child task"));
    let told = from(&list, "subagent-settled");
    let words =
        format!("subagent {child} was interrupted: the host stopped before it had finished.");
    assert_eq!((told.len(), texts(&told[0])[0]), (1, &*words));
    stage.turn(&format!("write agent {child}"));
    stage.peer.idle(&child, 1);
    let notice = stage.peer.nth(2, is_notice)["body"]["data"].clone();
    assert_eq!(texts(&notice)[2], "here I am");
    stage.peer.first(|frame| heard(frame, "all is told"));

    let own = stage.exported(&child);
    let ends: Vec<_> =
        of_kind(&own, "turn/end").iter().map(|end| end["data"]["reason"]["kind"].clone()).collect();
    assert_eq!(ends, ["interrupted", "completed"]);
    assert_eq!(
        of_kind(&own, "subagent/descriptor").len(),
        1,
        "its descriptor is that of its birth"
    );
    assert!(tools(&own).contains(&"report"));
    let header = of_kind(&own, "request/header").pop().expect("a header");
    assert_eq!(header["data"]["reason"], "resume");
    audited(&stage, "main");
    audited(&stage, &child);
    // A session that is not the child's parent has not been told of it.
    stage.open("stranger");
    let id = stage.peer.prompt("stranger", "list");
    stage.peer.reply(&id);
    stage.peer.idle("stranger", 1);
    assert_eq!(results(&stage.peer.events("stranger"))[0].1, "(no subagents)");

    // It has heard of everything: there is nothing to tell once more.
    stage.kill();
    stage.restart();
    stage.resume("main");
    let list = stage.turn("list");
    assert_eq!(from(&list, "subagent-settled"), [Value::Null; 0]);
    audited(&stage, "main");
}

/// The last mode that a session's log has, and who has set it.
fn mode(events: &[Value]) -> Value {
    of_kind(events, "sandbox/mode").pop().expect("a mode")["data"].clone()
}

/// P-23, P-35: what a parent may no longer do it cannot have done by a child either: not by one that is live, not by one
/// from the store, not under another manifest.
#[test]
fn a_parent_that_was_narrowed_does_not_act_through_its_children() {
    let message = json!({"subagent_id": "{{prompt after agent}}", "message": "now reach out"});
    let script = json!([
        rule("go", 1, json!([start("you are the child")])),
        rule("write agent", 1, json!([call("m1", "send_message", message)])),
        rule("now reach out", 1, json!([bash("b1", "echo out > ../outside")])),
        {"answer": [{"text": "well"}]},
    ]);
    let free = format!("{CONTINUABLE}[permissions]\npreset = \"danger-full-access\"\n");
    let mut stage = Setting::scripted(script).switching().manifest(&free).ready();
    let outside = stage.place.cwd.parent().expect("a directory above").join("outside");
    let born = |stage: &mut Stage, n: usize| {
        let id = stage.peer.prompt("main", "go");
        stage.peer.reply(&id);
        let added = |frame: &Value| {
            frame["name"] == "session/added" && frame["body"]["origin"] == "subagent"
        };
        let child = stage.peer.nth(n, added)["session"].as_str().expect("an id").to_owned();
        stage.peer.idle(&child, 1);
        child
    };
    let reach = |stage: &mut Stage, child: &str, rests: usize| {
        let id = stage.peer.prompt("main", &format!("write agent {child}"));
        stage.peer.reply(&id);
        stage.peer.idle(child, rests);
        outside.exists()
    };
    let switch = |stage: &mut Stage, preset: &str| {
        stage.peer.call("session/permissions", "main", json!({ "set": preset }))
    };
    let older = born(&mut stage, 1);
    assert!(reach(&mut stage, &older, 2), "as long as its parent may");
    std::fs::remove_file(&outside).expect("what it has written");

    switch(&mut stage, "read-only");
    let handed_on = json!({"mode": "read-only", "source": "delegation"});
    assert_eq!(mode(&stage.log(&older)), handed_on);
    assert!(!reach(&mut stage, &older, 3));
    switch(&mut stage, "danger-full-access");
    assert!(!reach(&mut stage, &older, 4), "wider it does not become by that");
    let younger = born(&mut stage, 2);
    assert!(reach(&mut stage, &younger, 2), "it is as wide as its parent");
    std::fs::remove_file(&outside).expect("what it has written");
    audited(&stage, &older);

    // The operator's ceiling holds for what is stored, and for the children of that.
    stage.kill();
    let low = "[permissions]\npreset = \"read-only\"\nceiling = \"read-only\"\n";
    stage.rewrite(&format!("{CONTINUABLE}{low}"));
    stage.restart();
    stage.resume("main");
    assert_eq!(mode(&stage.log("main")), json!({"mode": "read-only"}), "as by a switch");
    assert!(!reach(&mut stage, &younger, 1));
    assert_eq!(mode(&stage.log(&younger)), handed_on);
    for session in ["main", &older, &younger] {
        audited(&stage, session);
    }
}

const JUDGE: &str = "[subagents.judge]\ndescription = \"Judges.\"\npersona = \"You are strict.\"\ntools = [\"read\"]\n\
                     model = \"small\"\noutput-schema = { type = \"object\", required = [\"ok\"], properties = { ok = { type = \"boolean\" } } }\n";

/// L-67: a kind has its persona, its tools and its model, and its last words are the JSON that was asked for, or the
/// call fails clearly.
#[test]
fn a_kind_has_its_persona_and_tools_and_its_words_are_what_was_asked_for() {
    let judge = |id: &str, prompt: &str| {
        let arguments = json!({"description": "Judge", "prompt": prompt, "kind": "judge"});
        call(id, "subagent", arguments)
    };
    let script = json!([
        rule("go", 1, json!([judge("c1", "case one")])),
        rule("go", 2, json!([judge("c2", "case two")])),
        rule("go", 3, json!([judge("c3", "case three")])),
        rule("case one", 1, json!([bash("b1", "echo broken in")])),
        {"when": {"contains": "case one"}, "answer": [{"text": " {\"ok\": true} "}]},
        {"when": {"contains": "case two"}, "answer": [{"text": "{\"ok\": 1}"}]},
        {"when": {"contains": "case three"}, "answer": [{"text": "I like it"}]},
        {"answer": [{"text": "well"}]},
    ]);
    let mut stage = Setting::scripted(script).manifest(JUDGE).ready();
    let turn = stage.turn("go");
    let all = results(&turn);
    assert_eq!(all[0], ("c1".to_owned(), r#"{"ok":true}"#.to_owned(), false));
    let wrong = "Error: subagent run gave no valid output: \"value.ok\" must be a boolean\nIts last words:\n{\"ok\": 1}";
    assert_eq!(all[1], ("c2".to_owned(), wrong.to_owned(), true));
    assert!(
        all[2]
            .1
            .starts_with("Error: subagent run gave no valid output: its last words are no JSON")
    );
    assert_eq!(code(&turn), "INVALID_OUTPUT");
    let header = &of_kind(&turn, "request/header")[0]["data"]["header"];
    let subagent =
        header["tools"].as_array().expect("tools").iter().find(|tool| tool["name"] == "subagent");
    let kind = &subagent.expect("the tool")["parameters"]["properties"]["kind"];
    assert_eq!(kind["enum"], json!(["judge"]));
    assert!(!tools(&turn).contains(&"send_message"), "no child takes further messages here");

    let own = stage.exported(&child(&stage));
    assert_eq!(tools(&own), ["read"]);
    let (_, refused, is_error) = &results(&own)[0];
    assert_eq!((refused.as_str(), is_error), ("Error: unknown tool \"bash\"", &true));
    let header = &of_kind(&own, "request/header")[0]["data"]["header"];
    assert!(header["system"].as_str().expect("a prompt").contains("You are strict."));
    assert_eq!(header["config"]["model"], "small");
    let descriptor = &of_kind(&own, "subagent/descriptor")[0]["data"];
    assert_eq!(descriptor["persona"], "You are strict.");
    assert_eq!(descriptor["toolFilter"], json!({"allow": ["read"]}));
    assert_eq!(descriptor["agentModel"], "small");
    audited(&stage, "main");
}
