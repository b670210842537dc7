//! Published, unmodified ACP clients drive `transom acp` against a local model server (row 52, A-190, A-227 to A-229):
//! what they ask goes through their own methods and types, and what they are told comes through their own callbacks.
//!
//! Each test is one story that every client tells. Which clients there are, and how they come here, is in
//! `acp/peer.rs`.

mod model;
mod peer;
mod swap;

use std::{fs, thread};

use serde_json::{Value, json};

use crate::{
    acp::peer::{Peer, Place, Published},
    clients::PROGRAM,
    model_server::ModelServer,
};

/// Lets clients tell a story at the same time.
fn every(published: &[Published], story: impl Fn(&mut Stage) + Sync) {
    thread::scope(|scope| {
        let telling: Vec<_> = published
            .iter()
            .map(|one| {
                let story = &story;
                let name = one.name();
                let teller = thread::Builder::new().name(name.to_owned());
                let telling = teller.spawn_scoped(scope, move || {
                    let mut stage = Stage::new(*one);
                    story(&mut stage);
                    stage.peer.close_well();
                });
                (name, telling.expect("a thread"))
            })
            .collect();
        let failed: Vec<_> = telling
            .into_iter()
            .filter_map(|(name, telling)| telling.join().is_err().then_some(name))
            .collect();
        assert!(failed.is_empty(), "failed with {failed:?}");
    });
}

/// A client that has shaken hands, and the model behind its agent.
struct Stage {
    model: ModelServer,
    peer: Peer,
}

impl Stage {
    fn new(published: Published) -> Stage {
        let model = model::server();
        let place = Place::new();
        let home = place.path("home");
        let variables = [
            ("DSH_HOME", home.to_str().expect("readable characters")),
            ("DEEPSEEK_API_KEY", "sk-mock"),
            ("DEEPSEEK_BASE_URL", &model.base_url()),
        ];
        let mut peer = Peer::start(published, place, &PROGRAM, &["acp"], &variables);
        peer.initialize();
        Stage { model, peer }
    }

    /// Waits until the model has been asked this often.
    fn asked(&self, times: usize) {
        drop(self.model.wait_requests(times));
    }
}

fn stopped(answer: &Value, reason: &str) {
    assert_eq!(answer["result"]["stopReason"], reason, "{answer}");
}

fn refused(answer: &Value, code: i64, message: &str) {
    let error = &answer["error"];
    // One client puts its own words for the code before the message.
    let found = error["message"].as_str().unwrap_or_default();
    assert!(
        error["code"] == code && found.ends_with(message),
        "expected {code} {message}: {answer}"
    );
}

#[test]
fn two_sessions_are_prompted_at_once() {
    every(&Published::ALL, |stage| {
        let peer = &mut stage.peer;
        let authenticated = peer.call("authenticate", json!({"methodId": "any"}));
        assert!(authenticated.get("error").is_none(), "{authenticated}");
        let (one, two) = (peer.session(), peer.session());
        assert_ne!(one, two);
        for round in 0..2 {
            let words = [format!("[[RED{round}]]"), format!("[[BLUE{round}]]")];
            let asked = [peer.prompt(&one, &words[0]), peer.prompt(&two, &words[1])];
            for number in asked {
                stopped(&peer.answer(number), "end_turn");
            }
            assert_eq!(peer.said(&one), [format!("RED{round} answered")]);
            assert_eq!(peer.said(&two), [format!("BLUE{round} answered")]);
        }
        stopped(&peer.turn(&one, "[[TOOL]]"), "end_turn");
        assert_eq!(peer.said(&one), ["tool said: tool-proof"]);
    });
}

#[test]
fn a_link_reaches_the_model() {
    every(&Published::ALL, |stage| {
        let session = stage.peer.session();
        let link = json!({"type": "resource_link", "name": "notes", "uri": "file:///notes.txt"});
        let prompt = json!([{"type": "text", "text": "[[PLAIN]] see"}, link]);
        let answer =
            stage.peer.call("session/prompt", json!({"sessionId": session, "prompt": prompt}));
        stopped(&answer, "end_turn");
        let asked = stage.model.wait_requests(1).remove(0).body["messages"].clone();
        let text = "[[PLAIN]] see\n[resource_link name=\"notes\" uri=\"file:///notes.txt\"]\n";
        let told = asked.as_array().expect("messages").iter().any(|one| one["content"] == text);
        assert!(told, "A-47: {asked}");
    });
}

#[test]
fn a_session_speaks_with_no_prompt_in_flight() {
    // the job of a tool ends behind the prompt that had begun it.
    every(&Published::ALL, |stage| {
        let peer = &mut stage.peer;
        let session = peer.session();
        stopped(&peer.turn(&session, "[[BACKGROUND]]"), "end_turn");
        assert_eq!(peer.said(&session).len(), 1);
        fs::write(peer.place.workspace.join("go"), "").expect("a file");
        assert!(peer.hears(&session).starts_with("tool said: "));
    });
}

#[test]
fn a_permission_counts_for_what_was_decided() {
    every(&Published::ALL, |stage| {
        let peer = &mut stage.peer;
        let session = peer.session();
        for (outcome, runs) in [
            (json!({"outcome": "selected", "optionId": "allow-once"}), true),
            (json!({"outcome": "selected", "optionId": "reject-once"}), false),
            (json!({"outcome": "cancelled"}), false),
        ] {
            let asked = peer.prompt(&session, "[[ESCALATE]]");
            let (number, params) = peer.permission();
            assert_eq!(params["sessionId"], session.as_str());
            let call = &params["toolCall"];
            assert_eq!(
                (&call["title"], &call["kind"]),
                (&json!("bash"), &json!("execute")),
                "A-65, A-226"
            );
            let options: Vec<_> = params["options"]
                .as_array()
                .expect("options")
                .iter()
                .map(|one| one["kind"].clone())
                .collect();
            assert_eq!(options, ["allow_once", "reject_once"], "A-59");
            peer.decide(number, outcome.clone());
            stopped(&peer.answer(asked), "end_turn");
            let said = peer.said(&session);
            let ran = said.len() == 1 && said[0] == "tool said: escalated";
            assert!(ran == runs && said[0].starts_with("tool said: "), "{outcome}: {said:?}");
        }
    });
}

#[test]
fn a_cancel_ends_a_prompt_before_during_and_after_a_tool_call() {
    every(&Published::ALL, |stage| {
        let session = stage.peer.session();
        // No call yet: the model is silent, or speaks.
        for (mark, requests) in [("[[HANG]]", 1), ("[[STREAM]]", 2)] {
            let asked = stage.peer.prompt(&session, mark);
            stage.asked(requests);
            stage.peer.cancel(&session);
            stopped(&stage.peer.answer(asked), "cancelled");
        }
        let asked = stage.peer.prompt(&session, "[[SLOW_TOOL]]");
        stage.peer.file("begun");
        stage.peer.cancel(&session);
        stopped(&stage.peer.answer(asked), "cancelled");
        fs::remove_file(stage.peer.place.workspace.join("begun")).expect("the tool's file");
        stage.peer.alone();
        // The call is over, and the model is silent again.
        let asked = stage.peer.prompt(&session, "[[THEN_HANG]]");
        stage.asked(5);
        stage.peer.cancel(&session);
        stopped(&stage.peer.answer(asked), "cancelled");
        // Behind the last prompt, and of nobody.
        stage.peer.cancel(&session);
        stage.peer.cancel("nobody");
        assert_eq!(
            stage.peer.said(&session),
            Vec::<String>::new(),
            "nothing of what was cut off (A-53)"
        );
        stopped(&stage.peer.turn(&session, "[[PLAIN]]"), "end_turn");
        assert_eq!(stage.peer.said(&session), ["PLAIN answered"]);
    });
}

#[test]
fn a_cancel_takes_a_question_back() {
    every(&Published::ALL, |stage| {
        let peer = &mut stage.peer;
        let session = peer.session();
        let asked = peer.prompt(&session, "[[ESCALATE]]");
        let (number, _) = peer.permission();
        peer.cancel(&session);
        stopped(&peer.answer(asked), "cancelled");
        // Too late.
        peer.decide(number, json!({"outcome": "selected", "optionId": "allow-once"}));
        stopped(&peer.turn(&session, "[[PLAIN]]"), "end_turn");
        assert_eq!(peer.said(&session), ["PLAIN answered"]);
    });
}

#[test]
fn a_request_that_is_taken_back_is_answered() {
    every(&Published::TAKING_BACK, |stage| {
        let session = stage.peer.session();
        let asked = stage.peer.prompt(&session, "[[HANG]]");
        stage.asked(1);
        stage.peer.take_back(asked);
        stopped(&stage.peer.answer(asked), "cancelled");
        stopped(&stage.peer.turn(&session, "[[PLAIN]]"), "end_turn");
    });
}

#[test]
fn a_second_prompt_is_refused_while_the_first_is_in_flight() {
    every(&Published::ALL, |stage| {
        let (session, other) = (stage.peer.session(), stage.peer.session());
        let first = stage.peer.prompt(&session, "[[HANG]]");
        let second = stage.peer.turn(&session, "[[PLAIN]]");
        refused(&second, -32602, "Invalid params: a prompt is already in flight for this session");
        stopped(&stage.peer.turn(&other, "[[PLAIN]]"), "end_turn");
        stage.peer.cancel(&session);
        stopped(&stage.peer.answer(first), "cancelled");
    });
}

#[test]
fn wrong_parameters_are_refused_and_nothing_else_suffers() {
    every(&Published::ALL, |stage| {
        let peer = &mut stage.peer;
        let session = peer.session();
        let cwd = json!(peer.place.workspace);
        let text = json!([{"type": "text", "text": "[[PLAIN]]"}]);
        let image = json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]);
        let server = json!([{"name": "notes", "command": "/bin/true", "args": [], "env": []}]);
        #[rustfmt::skip]
        let table = [
            ("session/new", json!({"cwd": "relative", "mcpServers": []}), "Invalid params: cwd must be an absolute path: relative"),
            ("session/new", json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": ["/extra"]}), "Invalid params: additionalDirectories is not supported"),
            ("session/new", json!({"cwd": cwd, "mcpServers": server}), "Invalid params: mcpServers is not supported"),
            ("session/prompt", json!({"sessionId": "missing", "prompt": text}), "Invalid params: unknown session: missing"),
            ("session/prompt", json!({"sessionId": session, "prompt": []}), "Invalid params: empty prompt"),
            ("session/prompt", json!({"sessionId": session, "prompt": image}), "Invalid params: only text and resource_link prompt content is supported"),
        ];
        for (method, params, message) in table {
            refused(&peer.call(method, params), -32602, message);
        }
        refused(&peer.call("_nope/x", json!({})), -32601, "\"Method not found\": _nope/x");
        stopped(&peer.turn(&session, "[[PLAIN]]"), "end_turn");
        assert_eq!(peer.said(&session), ["PLAIN answered"]);
    });
}

#[test]
fn a_client_that_leaves_ends_what_it_had_begun() {
    every(&Published::ALL, |stage| {
        let (hangs, works) = (stage.peer.session(), stage.peer.session());
        stage.peer.prompt(&hangs, "[[HANG]]");
        stage.peer.prompt(&works, "[[SLOW_TOOL]]");
        stage.peer.file("begun");
        // That it ends well, and that no process is left, is looked at behind every story.
    });
}

#[test]
fn a_killed_agent_is_seen_and_leaves_nobody_behind() {
    for published in Published::ALL {
        let mut stage = Stage::new(published);
        let session = stage.peer.session();
        let asked = stage.peer.prompt(&session, "[[SLOW_TOOL]]");
        stage.peer.file("begun");
        stage.peer.kill_agent();
        let answer = stage.peer.answer(asked);
        assert!(answer.get("error").is_some(), "{}: {answer}", published.name());
        let later = stage.peer.turn(&session, "[[PLAIN]]");
        assert!(later.get("error").is_some(), "{}: {later}", published.name());
        stage.peer.alone();
        let ended = stage.peer.close();
        assert!(
            ended.status["code"].is_null() && ended.status["signals"] == json!([]),
            "{}: it was gone: {}",
            published.name(),
            ended.status
        );
    }
}
