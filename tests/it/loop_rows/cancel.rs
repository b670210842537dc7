//! Rows 26 to 28: cancels, and what comes while they are under way.

use serde_json::{Value, json};

use super::stage::{Setting, at_once, bash, kinds, of_kind, reason, rule, said};
use crate::support::{
    frames::is_event,
    model_server::{Piece, Reply, delta, event},
};

/// What a cancel by a peer writes behind a turn.
fn aborted() -> Value {
    json!({"kind": "aborted", "reason": {"kind": "user"}})
}

/// Row 26. L-48: "Text received so far stays in the log as chunks but no `assistant/message` is committed." L-47: "unless
/// `keepInbox`, the inbox is cleared first (… splices with `outcome:"canceled"`)".
#[test]
fn row_26_a_cancel_while_the_model_speaks_commits_nothing() {
    for (inbox, splices) in [("clear", 1), ("keep", 0)] {
        let mut stage = Setting::served().ready();
        let words = event(&delta(json!({"content": "so far"})).to_string());
        stage.model.on("LONG", Reply::pieces(vec![words, Piece::Silence]));
        stage.peer.prompt("main", "PROMPT: LONG");
        stage.peer.first(|frame| {
            frame.pointer("/body/data/chunk/text").is_some_and(|text| text == "so far")
        });
        let ids = [stage.peer.prompt("main", "PROMPT: PLAIN"), stage.peer.prompt("main", "more")];
        let ids = ids.map(|id| stage.peer.reply(&id)["messageId"].clone());
        stage.peer.call("session/cancel", "main", json!({"inbox": inbox}));
        stage.peer.idle("main", 1);
        stage.model.wait_abandoned(1);
        let events = stage.peer.events("main");
        assert!(of_kind(&events, "assistant/message").is_empty());
        assert_eq!(kinds(&events)[events.len() - 2..], ["step/end", "turn/end"]);
        assert_eq!(reason(&events), aborted());
        let text: String = of_kind(&events, "assistant/chunk")
            .iter()
            .filter_map(|event| event["data"]["chunk"]["text"].as_str())
            .collect();
        assert_eq!(text, "so far");
        let canceled: Vec<_> =
            events.iter().filter(|event| event["data"]["outcome"] == "canceled").collect();
        assert_eq!(canceled.len(), splices, "{inbox}");
        for splice in canceled {
            let expected = json!({"target": "next-turn", "start": 0, "removedCount": 2, "inserted": [], "outcome": "canceled"});
            assert_eq!(splice["data"], expected);
        }
        let discarded = stage.peer.seen.iter().find(|frame| frame["name"] == "inbox/discarded");
        assert_eq!(discarded.is_some(), splices == 1);
        if let Some(discarded) = discarded {
            assert_eq!(discarded["body"]["messageIds"], json!(ids));
        }
        // What was kept waits for the next waking send, and goes first (L-33).
        let next = stage.turn("PROMPT: PLAIN at last");
        let turns = of_kind(&next, "turn/start").len();
        assert_eq!(turns, if splices == 1 { 1 } else { 3 });
    }
}

/// Row 27. L-47: "Cancelling right after a followup on an idle agent yields `turn/start`, claim, `turn/end aborted`, no
/// step." Lines of a peer are read one after the other, so here the turn may have begun its step; what is promised in
/// either case is asked for. That there is no step stands beside the code.
#[test]
fn row_27_a_prompt_that_is_cancelled_at_once_is_never_run_and_not_pending() {
    let mut stage = Setting::served().ready();
    stage.model.on("NEVER", Reply::pieces(vec![Piece::Silence]));
    let cancel = ("session/cancel", "main", json!({"inbox": "clear"}));
    let ids = at_once(&mut stage.peer, &[said("main", "PROMPT: NEVER"), cancel]);
    let message = stage.peer.reply(&ids[0])["messageId"].clone();
    stage.peer.reply(&ids[1]);
    stage.peer.idle("main", 1);
    let events = stage.peer.events("main");
    let expected = ["agent/inbox/spliced", "turn/start", "agent/inbox/spliced"];
    assert_eq!(kinds(&events)[..3], expected);
    assert_eq!(kinds(&events).last(), Some(&"turn/end"));
    assert_eq!(reason(&events), aborted());
    assert!(of_kind(&events, "assistant/message").is_empty());
    let next = stage.turn("PROMPT: PLAIN");
    let entered = of_kind(&next, "user/message");
    assert!(entered.iter().all(|event| event["data"]["id"] != message), "{entered:?}");
    assert_eq!(of_kind(&next, "turn/start").len(), 1);
}

/// Row 28. L-50: "Waking input sent to an already aborted activity goes to `next-turn` … and is latched; after the abort
/// has converged a new activity starts".
#[test]
fn row_28_a_prompt_behind_a_cancel_is_the_next_turn() {
    let script = json!([
        // A shell that takes its time to go: until then the abort has not converged.
        rule("go", 1, json!([bash("c1", "trap 'read _ < gate; exit' TERM; echo started > ear; while :; do read -t 1 _ < never; done")])),
        {"answer": [{"text": "{{prompt}}"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let (mut gate, _never, ear) = (stage.gate("gate"), stage.gate("never"), stage.ear("ear"));
    stage.peer.prompt("main", "go");
    assert_eq!(ear.hear(), "started");
    let cancel = ("session/cancel", "main", json!({"inbox": "clear"}));
    let mut steer = said("main", "and now");
    steer.2["mode"] = "steer".into();
    let ids = at_once(&mut stage.peer, &[cancel, steer]);
    let message = stage.peer.reply(&ids[1])["messageId"].clone();
    gate.open();
    stage.peer.event_nth("main", "turn/end", 2);
    stage.peer.first(|frame| is_event(frame, "main", "assistant/message"));
    let events = stage.peer.events("main");
    let inserted =
        events.iter().find(|event| event.pointer("/data/inserted/0/id") == Some(&message));
    assert_eq!(inserted.expect("its splice")["data"]["target"], "next-turn", "though it steers");
    let ends = of_kind(&events, "turn/end");
    assert_eq!(ends[0]["data"]["reason"], aborted());
    assert_eq!(ends[1]["data"]["reason"], json!({"kind": "completed"}));
    let first_end = events.iter().position(|event| event["type"] == "turn/end");
    let entered = events
        .iter()
        .position(|event| event["type"] == "user/message" && event["data"]["id"] == message);
    assert!(first_end < entered, "{:?}", kinds(&events));
}
