//! Stored messages that take the place of others (L-8, L-9), and of the runtime context (L-96).

use super::*;
use crate::log::ReplaceError;

fn user(seq: u64, text: &str, more: &str) -> Arc<str> {
    let data = json!({
        "role": "user", "content": [{ "type": "text", "text": text }],
        "source": { "kind": "user" }, "id": format!("m{seq}"),
    });
    line(seq, "user/message", &data, more)
}

/// A tool result of one call; `id` is the message's.
fn result(seq: u64, id: &str, text: &str, is_error: bool, more: &str) -> Arc<str> {
    let data = json!({ "turn": 1, "step": 1, "message": {
        "role": "user",
        "content": [{
            "type": "tool-result", "toolCallId": "c", "isError": is_error,
            "content": [{ "type": "text", "text": text }],
        }],
        "source": { "kind": "tool", "callId": "c" },
        "id": id,
    } });
    line(seq, "tool/result", &data, more)
}

fn line(seq: u64, kind: &str, data: &Value, more: &str) -> Arc<str> {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":5,"data":{data},{more}}}"#).into()
}

const APPEND: &str = r#""surfaceOp":"append""#;

fn replace(start: u64, end: u64, sources: &str) -> String {
    format!(
        r#""sourceEventSeqs":{sources},"surfaceOp":{{"op":"replace","start":{start},"end":{end}}}"#
    )
}

fn history(events: &[Arc<str>]) -> Result<Vec<String>, RestoreError> {
    let restored = restore(header(), events, 9)?;
    let texts = restored.log.history();
    Ok(texts.iter().map(|message| serde_json::to_string(&message.content).unwrap()).collect())
}

/// Three messages and a result, then this event.
fn behind(last: Arc<str>) -> Result<Vec<String>, RestoreError> {
    let mut events: Vec<_> = (0..3).map(|seq| user(seq, &format!("u{seq}"), APPEND)).collect();
    events.push(result(3, "r", "long", false, APPEND));
    events.push(last);
    history(&events)
}

#[test]
fn a_summary_takes_the_place_of_what_it_sums_up() {
    let text = |text: &str| format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    let said = behind(user(4, "sum", &replace(0, 1, "[0,1]"))).unwrap();
    assert_eq!(said[..2], [text("sum"), text("u2")]);
    assert_eq!(said.len(), 3);
    // Sources may name more than is hidden (L-8), and a message may hide results.
    let said = behind(user(4, "sum", &replace(1, 3, "[3,0,2,1]"))).unwrap();
    assert_eq!(said, [text("u0"), text("sum")]);
}

#[test]
fn a_result_takes_the_place_of_its_own_longer_form() {
    let said = behind(result(4, "r", "short", false, &replace(3, 3, "[3]"))).unwrap();
    assert_eq!(said.len(), 4);
    assert!(said[3].contains("short"), "{said:?}");
}

#[test]
fn what_was_replaced_can_be_replaced_again_by_its_new_place_only() {
    let mut events = vec![user(0, "a", APPEND), user(1, "b", &replace(0, 0, "[0]"))];
    events.push(user(2, "c", &replace(1, 1, "[1]")));
    assert_eq!(history(&events).unwrap(), [r#"[{"type":"text","text":"c"}]"#]);
    events.push(user(3, "d", &replace(0, 0, "[0]")));
    let why = ReplaceError::NoSuchNodes { start: 0, end: 0 };
    assert_eq!(history(&events).unwrap_err(), RestoreError::Surface { seq: 3, why });
}

#[test]
fn what_cannot_take_a_place_is_refused_with_the_reason() {
    let no_such = |start, end| ReplaceError::NoSuchNodes { start, end };
    let sources = |start, end, seq| ReplaceError::Sources { start, end, seq };
    let unnamed = |start, end, hidden| ReplaceError::Unnamed { start, end, hidden };
    let not_its = |start, end| ReplaceError::NotItsResult { start, end };
    for (event, why) in [
        (user(4, "x", &replace(2, 1, "[1,2]")), no_such(2, 1)),
        (user(4, "x", &replace(2, 0, "[0,1,2]")), no_such(2, 0)),
        (user(4, "x", &replace(0, 4, "[0]")), no_such(0, 4)),
        (user(4, "x", &replace(9, 9, "[9]")), no_such(9, 9)),
        (user(4, "x", &replace(0, 2, "[0,2]")), unnamed(0, 2, 1)),
        (user(4, "x", &replace(0, 0, "[]")), unnamed(0, 0, 0)),
        (user(4, "x", &replace(0, 0, "[0,4]")), sources(0, 0, 4)),
        (user(4, "x", &replace(0, 1, "[0,1,0]")), sources(0, 1, 0)),
        // Another result, a flag that changed, a message, and more than one node.
        (result(4, "other", "s", false, &replace(3, 3, "[3]")), not_its(3, 3)),
        (result(4, "r", "s", true, &replace(3, 3, "[3]")), not_its(3, 3)),
        (result(4, "m2", "s", false, &replace(2, 2, "[2]")), not_its(2, 2)),
        (result(4, "r", "s", false, &replace(2, 3, "[2,3]")), not_its(2, 3)),
    ] {
        let error = behind(Arc::clone(&event)).unwrap_err();
        assert_eq!(error, RestoreError::Surface { seq: 4, why }, "{event}");
        assert!(error.to_string().starts_with("corrupt session log: event at seq 4: "), "{error}");
    }
}

#[test]
fn a_message_says_how_it_joins_the_surface() {
    for more in [
        r#""ignorable":false"#,
        r#""surfaceOp":"prepend""#,
        r#""surfaceOp":{"op":"insert","start":0,"end":0}"#,
        r#""surfaceOp":{"op":"replace","start":0}"#,
        r#""surfaceOp":{"op":"replace","start":0,"end":0,"more":0}"#,
    ] {
        let error = behind(user(4, "x", more)).unwrap_err();
        assert!(matches!(error, RestoreError::Unparsable { seq: 4, .. }), "{more}: {error}");
    }
}

#[test]
fn a_context_that_was_hidden_counts_as_absent() {
    // L-96.
    let context = |seq: u64, form: Value, more: &str| {
        let mut source = json!({ "kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt" });
        source.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
        let data = json!({
            "role": "user", "content": [{ "type": "text", "text": "ctx" }], "source": source,
            "id": format!("m{seq}"),
        });
        line(seq, "user/message", &data, more)
    };
    let sections = json!({ "form": "snapshot", "sections": [
        { "name": "a", "text": "one" }, { "name": "b", "text": "two" },
    ] });
    let mut events = vec![user(0, "u", APPEND), context(1, sections, APPEND)];
    let told = |events: &[Arc<str>]| restore(header(), events, 9).unwrap().log.context;
    assert_eq!(told(&events), Some((1, "one\n\ntwo".to_owned())));
    events.push(user(2, "sum", &replace(0, 0, "[0]")));
    assert_eq!(told(&events), Some((1, "one\n\ntwo".to_owned())), "it is still there");
    events.push(context(3, json!({}), APPEND));
    assert_eq!(told(&events), Some((3, String::new())), "none applies");
    events.push(user(4, "sum", &replace(2, 3, "[1,2,3]")));
    assert_eq!(told(&events), None);
}
