//! Rows 14 to 27, 38, 39 and 41: prompts, what is shown of them and how they end.

use std::fs;

use serde_json::json;

use crate::support::{
    acp::{Stage, chunks, error, prompt, request, stop},
    wire::Wire as _,
};

#[test]
fn row_14_row_15_each_prompt_has_its_update_and_then_its_result() {
    let mut stage = Stage::new();
    let session = stage.session();
    for turn in [1, 2] {
        let (updates, answer) = stage.client.turn(&session, "[[PLAIN]]");
        assert_eq!((chunks(&updates), stop(&answer)), (vec!["hello there".to_owned()], "end_turn"));
        let update = &updates[0]["params"]["update"];
        assert_eq!(updates[0]["params"]["sessionId"], session.as_str());
        assert!(update["messageId"].is_string(), "A-54: {update}");
        assert_eq!(update["_meta"], json!({"dsh/turn": turn, "dsh/origin": "prompt"}), "A-57");
        assert_eq!(answer["result"], json!({"stopReason": "end_turn"}), "A-77");
    }
}

#[test]
fn row_16_row_17_only_committed_texts_are_shown() {
    let mut stage = Stage::with("[permissions]\npreset = \"danger-full-access\"\n");
    let session = stage.session();
    for (mark, shown) in [
        ("REASON", &["visible answer"][..]),
        ("EMPTYTEXT", &[]),
        ("TEXTTOOL", &["let me check", "final text"]),
        ("TOOL", &["tool says: tool-output"]),
    ] {
        let (updates, answer) = stage.client.turn(&session, &format!("[[{mark}]]"));
        assert_eq!(chunks(&updates), shown, "{mark}");
        assert_eq!(stop(&answer), "end_turn", "{mark}");
    }
}

#[test]
fn row_18_characters_arrive_as_they_are() {
    let mut stage = Stage::new();
    let session = stage.session();
    let (updates, _) = stage.client.turn(&session, "[[UNICODE]]");
    assert_eq!(chunks(&updates), ["héllo 世界 🎉\nline2"]);
}

#[test]
fn row_19_row_20_row_21_the_model_sees_one_text() {
    let mut stage = Stage::new();
    let session = stage.session();
    for (blocks, seen) in [
        (
            json!([{"type": "text", "text": "[[ECHO]] first"}, {"type": "text", "text": " second"}, {"text": "\nthird  ", "type": "text"}]),
            "ECHO:[[ECHO]] first second\nthird  ",
        ),
        (
            json!([{"type": "resource_link", "name": "a \"q\" \\ é\n", "uri": "file:///w/a%20b.txt", "size": 12}, {"type": "text", "text": "[[ECHO]]"}]),
            "ECHO:\n[resource_link name=\"a \\\"q\\\" \\\\ é\\n\" uri=\"file:///w/a%20b.txt\"]\n[[ECHO]]",
        ),
        (
            json!([{"type": "resource_link", "name": "[[ECHO]]", "uri": "x:y"}]),
            "ECHO:\n[resource_link name=\"[[ECHO]]\" uri=\"x:y\"]\n",
        ),
    ] {
        stage.client.ask("e", "session/prompt", json!({"sessionId": session, "prompt": blocks}));
        let (updates, answer) = stage.client.until("e");
        assert_eq!((chunks(&updates), stop(&answer)), (vec![seen.to_owned()], "end_turn"));
    }
}

#[test]
fn row_22_a_blank_prompt_is_refused() {
    let mut stage = Stage::new();
    let session = stage.session();
    let empty =
        stage.client.call("b", "session/prompt", json!({"sessionId": session, "prompt": []}));
    assert_eq!(error(&empty), "-32602 Invalid params: empty prompt");
    for blank in ["", "  \n\t", "\u{feff}", "\u{a0} \u{2003}"] {
        let answer = stage.client.call("b", "session/prompt", prompt(&session, blank));
        assert_eq!(error(&answer), "-32602 Invalid params: empty prompt", "{blank:?}");
    }
    for seen in ["\u{85}", "\u{200b}"] {
        assert_eq!(stop(&stage.client.turn(&session, seen).1), "end_turn", "{seen:?}");
    }
}

#[test]
fn row_23_richer_content_begins_no_turn() {
    let mut stage = Stage::new();
    let session = stage.session();
    let audio = json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"});
    for blocks in [
        json!([{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]),
        json!([audio]),
        json!([{"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inline"}}]),
        json!([{"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAAA"}}]),
        json!([{"type": "text", "text": "ok"}, audio]),
    ] {
        let answer = stage.client.call(
            "r",
            "session/prompt",
            json!({"sessionId": session, "prompt": blocks}),
        );
        assert_eq!(
            error(&answer),
            "-32602 Invalid params: only text and resource_link prompt content is supported"
        );
    }
    // The turns are numbered, and this is the first.
    let (updates, _) = stage.client.turn(&session, "[[PLAIN]]");
    assert_eq!(updates[0]["params"]["update"]["_meta"]["dsh/turn"], 1);
}

#[test]
fn row_24_row_25_wrong_shapes_and_unknown_sessions_are_refused() {
    let mut stage = Stage::new();
    let session = stage.session();
    for params in [
        json!({"sessionId": session, "prompt": [{"type": "bogus"}]}),
        json!({"sessionId": session, "prompt": "x"}),
        json!({"sessionId": 5, "prompt": []}),
        json!({"sessionId": session}),
        json!({"prompt": []}),
    ] {
        let answer = stage.client.call("w", "session/prompt", params.clone());
        assert_eq!(error(&answer), "-32602 Invalid params", "{params}");
    }
    let answer = stage.client.call("w", "session/prompt", prompt("missing", "x"));
    assert_eq!(error(&answer), "-32602 Invalid params: unknown session: missing");
}

const IN_FLIGHT: &str = "-32602 Invalid params: a prompt is already in flight for this session";

#[test]
fn row_26_one_prompt_is_in_flight() {
    let mut stage = Stage::new();
    let session = stage.session();
    stage.client.prompt("first", &session, "[[HANG]]");
    let audio =
        json!({"sessionId": session, "prompt": [{"type": "audio", "data": "", "mimeType": "x"}]});
    for params in [prompt(&session, "[[PLAIN]]"), prompt(&session, ""), audio] {
        assert_eq!(error(&stage.client.call("second", "session/prompt", params)), IN_FLIGHT);
    }
    stage.client.cancel(&session);
    assert_eq!(stop(&stage.client.until("first").1), "cancelled", "it was still pending");
}

#[test]
fn row_27_the_second_of_two_in_one_write_fails() {
    let mut stage = Stage::new();
    let session = stage.session();
    let first = request("a", "session/prompt", prompt(&session, "[[PLAIN]] one"));
    let second = request("b", "session/prompt", prompt(&session, "[[PLAIN]] two"));
    stage.client.wire.write(format!("{first}\n{second}\n").as_bytes());
    assert_eq!(error(&stage.client.next()), IN_FLIGHT);
    let (updates, answer) = stage.client.until("a");
    assert_eq!((chunks(&updates).len(), stop(&answer)), (1, "end_turn"));
}

#[test]
fn row_38_the_length_limit_is_an_end_like_others() {
    let mut stage = Stage::new();
    let session = stage.session();
    let (updates, answer) = stage.client.turn(&session, "[[LENGTH]]");
    assert_eq!((chunks(&updates), stop(&answer)), (vec!["cut off".to_owned()], "end_turn"));
}

#[test]
fn row_39_a_failed_turn_is_an_error_and_shows_nothing() {
    let mut stage = Stage::new();
    let session = stage.session();
    for (mark, why) in [
        ("AUTH", "bad key"),
        ("BAD", "malformed request"),
        ("FILTER", "model stopped: content_filter"),
    ] {
        let (updates, answer) = stage.client.turn(&session, &format!("[[{mark}]]"));
        assert_eq!(chunks(&updates), Vec::<String>::new(), "{mark}");
        assert_eq!(error(&answer), format!("-32603 Internal error: turn failed: {why}"));
        assert!(answer["error"].get("data").is_none(), "A-25: {answer}");
        assert_eq!(
            stop(&stage.client.turn(&session, "[[PLAIN]]").1),
            "end_turn",
            "the session goes on"
        );
    }
}

#[test]
fn row_41_what_comes_later_is_shown_without_a_prompt() {
    let mut stage = Stage::with("[permissions]\npreset = \"danger-full-access\"\n");
    let session = stage.session();
    let (updates, answer) = stage.client.turn(&session, "[[BG]]");
    assert_eq!((chunks(&updates), stop(&answer)), (vec!["started".to_owned()], "end_turn"));
    // The job ends only now, with no prompt in flight.
    fs::write(stage.place.cwd.join("go"), "").expect("a file");
    let late = stage.client.next();
    assert_eq!(chunks(std::slice::from_ref(&late)), ["background noted"]);
    assert_eq!(late["params"]["update"]["_meta"]["dsh/origin"], "autonomous", "A-57");
    assert_eq!(stage.client.end(), (vec![], 0));
}
