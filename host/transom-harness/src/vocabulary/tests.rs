//! Every type with data that is right, and with data that is wrong in one place.

use serde_json::{Value, json, value::RawValue};

use super::{Class, NotJsonSafe, all, check, find, json_safe, numbers::lost_number};

fn checked(kind: &str, data: &str) -> Result<(), String> {
    check(kind, serde_json::from_str::<&RawValue>(data).unwrap())
}

/// Data of each type, with every member that the type names.
const WHOLE: &[(&str, &str)] = &[
    ("turn/start", r#"{"turn":1}"#),
    ("turn/end", r#"{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"hook","reason":"r"}}}"#),
    ("step/start", r#"{"turn":1,"step":2}"#),
    ("step/end", r#"{"turn":1,"step":2}"#),
    (
        "user/message",
        r#"{"id":"m","role":"user","content":[{"type":"odd","x":1}],"source":{"kind":"user","rpcId":"r","clientTimeZone":"z"}}"#,
    ),
    (
        "assistant/chunk",
        r#"{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":0,"id":"","name":"n","argumentsDelta":""}}"#,
    ),
    (
        "assistant/message",
        r#"{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"text","text":""},{"type":"later"}],"source":{"kind":"model","provider":"p","model":"m","replayState":1}},"usage":{"inputTokens":1,"outputTokens":2,"cacheReadTokens":3,"cacheWriteTokens":4,"reasoningTokens":5}}"#,
    ),
    ("tool/call", r#"{"turn":1,"step":1,"callId":"c","name":"","arguments":"no json"}"#),
    (
        "tool/result",
        r#"{"turn":1,"step":1,"message":{"id":"r","role":"user","content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"image","attachment":{"attachmentId":"a","mediaType":"image/png","bytes":1,"width":2,"height":3,"name":"n"}}],"isError":true}],"source":{"kind":"tool","callId":"c"}},"error":{"name":"E","code":"C"},"meta":[null]}"#,
    ),
    (
        "agent/inbox/spliced",
        r#"{"target":"next-step","start":0,"removedCount":1,"inserted":[],"outcome":"canceled"}"#,
    ),
    (
        "request/header",
        r#"{"header":{"config":{"provider":"p","model":"m","maxTokens":1,"reasoningEffort":"high","temperature":0.5,"stop":[]},"adapterDefaults":{"reasoningEffort":true,"maxTokens":true},"system":"s","tools":[{"name":"t","description":"","parameters":{}}]},"reason":"resume"}"#,
    ),
    ("request/context", r#"{"provider":"p","model":"m","contextWindow":9}"#),
    (
        "llm/retry",
        r#"{"retryId":"r","turn":1,"step":1,"provider":"p","mode":"normal","policyKey":"k","retry":1,"maxRetries":2,"delayMs":0,"failure":{"message":"","code":"SERVER","status":500,"providerRetryAfterMs":1,"requestId":"q"}}"#,
    ),
    ("llm/retry-started", r#"{"retryId":"r","turn":1,"step":1,"retry":1}"#),
    ("approval/asked", r#"{"id":"q","toolName":"t","callId":"c","reason":"r"}"#),
    ("approval/decided", r#"{"id":"q","outcome":"allowed-once"}"#),
    ("approval/policy", r#"{"policy":"never","source":"delegation"}"#),
    ("permission/preset", r#"{"preset":"mine"}"#),
    ("sandbox/mode", r#"{"mode":"read-only","source":"delegation"}"#),
    ("plan/mode", r#"{"active":false}"#),
    ("agent-preset/selected", r#"{"agentPreset":"p"}"#),
    (
        "subagent/descriptor",
        r#"{"version":2,"mode":"continuable","provider":"p","label":"l","agentProvider":"a","agentModel":"m","persona":"x","toolFilter":{"allow":["t"],"deny":[]}}"#,
    ),
    (
        "subagent/catalog",
        r#"{"version":0,"childId":"k","childCreatedAt":7,"mode":"continuable","label":"l"}"#,
    ),
    ("session/end-seed", "{}"),
    (
        "session/title",
        r#"{"title":"t","messageSeqs":[4],"source":{"kind":"provider","provider":"p","model":{"provider":"p","model":"m"}}}"#,
    ),
    (
        "session/title-llm-request",
        r#"{"titleProvider":"t","messageSeqs":[],"route":{"provider":"p","model":"m"},"system":"","messages":[{}],"maxTokens":9}"#,
    ),
    ("command/run", r#"{"commandId":"c","name":"n","args":"a","source":{"kind":"user"}}"#),
    ("command/done", r#"{"commandId":"c","kind":"error","text":"t","sourceEventSeq":0}"#),
    ("compaction/start", r#"{"compactionId":"c","sourceCommandId":"s","turn":null}"#),
    (
        "compaction/summary",
        r#"{"compactionId":"c","sourceCommandId":"s","summary":[{"type":"text","text":"t"}],"shadowedRange":{"start":1,"end":2},"shadowedSeqs":[1,2],"shadowedTokenCount":3,"provider":"p","model":"m","maxTokens":4,"usage":{"inputTokens":1,"outputTokens":2},"rawOutput":"x","llmStreamCall":true}"#,
    ),
    (
        "compaction/prune",
        r#"{"shadowedRange":{"start":1,"end":2},"shadowedSeqs":[1],"shadowedTokenCount":3}"#,
    ),
    ("compaction/end", r#"{"compactionId":"c","sourceCommandId":"s","turn":1,"error":"e"}"#),
    ("todo/write", r#"{"todos":[{"content":"c","status":"in_progress"}]}"#),
    (
        "goal/change",
        r#"{"kind":"goal/change","version":1,"operation":"block","goal":{"id":"g","revision":1,"objective":"o","phase":"blocked","blockedReason":{"code":"c","message":"m"},"maxGoalRounds":3},"roundsStarted":0,"createdAt":1,"updatedAt":2}"#,
    ),
    (
        "schedule/change",
        r#"{"version":1,"operation":"create","schedule":{"id":"s","kind":"every","prompt":"p","everySeconds":60,"scheduledAt":1}}"#,
    ),
    ("hook/invoked", r#"{"turn":1,"point":"p","dialect":"codex","matcher":"m","handlerId":"h"}"#),
    (
        "hook/result",
        r#"{"turn":1,"point":"p","handlerId":"h","decision":"d","exitCode":-1,"stderrSummary":"s","durationMs":3}"#,
    ),
    ("feedback/record", r#"{"text":"t"}"#),
    (
        "tool/code-dispatch-start",
        r#"{"rootCallId":"r","parentCallId":"p","subCallId":"p:code:1","name":"n","arguments":{}}"#,
    ),
    (
        "tool/code-dispatch",
        r#"{"rootCallId":"r","parentCallId":"p","subCallId":"p:code:1","name":"n","arguments":{},"isError":false,"content":[]}"#,
    ),
    ("tool-workflow/run-start", r#"{"runId":"r","name":"n"}"#),
    ("tool-workflow/run-end", r#"{"runId":"r","stopReason":"cancelled"}"#),
    ("tool-workflow/agent-start", r#"{"runId":"r","seq":0,"label":"l","phase":"p","childId":"c"}"#),
    ("tool-workflow/agent-end", r#"{"runId":"r","seq":0,"outcome":"failed"}"#),
    (
        "web/deepseek-search-llm-request",
        r#"{"endpoint":"e","apiVersion":"v","body":{"model":"m","max_tokens":1,"messages":[],"tools":[]}}"#,
    ),
    ("working-directory/change", r#"{"cwd":"/w"}"#),
    (
        "job/registered",
        r#"{"jobId":"bash-1","kind":"bash","label":"l","startedAt":1,"toolCall":{"callId":"c"}}"#,
    ),
    (
        "job/settled",
        r#"{"jobId":"bash-1","status":"failed","detail":"d","finishedAt":2,"cause":"lost"}"#,
    ),
];

#[test]
fn all_types_of_the_log_are_known() {
    // L-17 has 44; decision 3 makes the 45th, P-78 two that may be passed over, and L-103 one more.
    assert_eq!(all().len(), 48);
    let surface = ["user/message", "assistant/message", "tool/result"];
    let ignorable = ["job/registered", "job/settled", "subagent/catalog"];
    for (at, known) in all().iter().enumerate() {
        assert!(
            all()[..at].iter().all(|earlier| earlier.kind != known.kind),
            "{} once",
            known.kind
        );
        let class = match known.kind {
            kind if surface.contains(&kind) => Class::Surface,
            kind if ignorable.contains(&kind) => Class::Ignorable,
            _ => Class::LogOnly,
        };
        assert_eq!(known.class, class, "{}", known.kind);
        assert!(
            WHOLE.iter().any(|(kind, _)| *kind == known.kind),
            "{} is in the table",
            known.kind
        );
    }
    assert!(find("system/message").is_none());
    assert_eq!(checked("system/message", "{}").unwrap_err(), "kind \"system/message\" is unknown");
}

#[test]
fn right_data_passes_and_members_nobody_knows_are_passed_over() {
    for (kind, data) in WHOLE {
        checked(kind, data).unwrap_or_else(|wrong| panic!("{kind}: {wrong}"));
        let comma = if *data == "{}" { "" } else { "," };
        let more = format!(r#"{{"more":{{"x":[1]}}{comma}{}"#, &data[1..]);
        checked(kind, &more).unwrap_or_else(|wrong| panic!("{kind}: {wrong}"));
    }
}

/// Takes away, or spoils, one member at a time; whatever was not optional has to be missed.
#[test]
fn every_member_is_looked_at() {
    for (kind, data) in WHOLE {
        let whole: Value = serde_json::from_str(data).unwrap();
        for name in whole.as_object().unwrap().keys() {
            let mut spoilt = whole.clone();
            spoilt[name] = json!(-1.5);
            // Anything may stand in these.
            let any = matches!(name.as_str(), "meta" | "args" | "decision" | "rawOutput")
                || (name == "arguments" && kind.starts_with("tool/code"))
                || (*kind, name.as_str()) == ("compaction/end", "error");
            let wrong = checked(kind, &spoilt.to_string());
            assert_eq!(wrong.is_ok(), any, "{kind}: {name}: {wrong:?}");
            if let Err(wrong) = wrong {
                assert!(
                    wrong.contains(&format!("\"{name}")),
                    "{kind}: the message names {name}: {wrong}"
                );
            }
        }
    }
}

#[test]
fn messages_say_where_and_what_would_be_right() {
    let check = |kind: &str, data: &str, expected: &str| {
        assert_eq!(checked(kind, data).unwrap_err(), expected, "{kind} {data}");
    };
    check("turn/start", "[]", "data must be an object, got []");
    check("turn/start", "{}", "\"turn\" is missing, and must be an integer of at least 1");
    check("turn/start", r#"{"turn":0}"#, "\"turn\" must be an integer of at least 1, got 0");
    check("turn/start", r#"{"turn":1.0}"#, "\"turn\" must be an integer of at least 1, got 1.0");
    check(
        "turn/start",
        r#"{"turn":9007199254740992}"#,
        "\"turn\" must be an integer of at least 1, got 9007199254740992",
    );
    check(
        "request/context",
        r#"{"provider":"","model":"m"}"#,
        "\"provider\" must be a non-empty string, got \"\"",
    );
    check("plan/mode", r#"{"active":"true"}"#, "\"active\" must be true or false, got \"true\"");
    check(
        "working-directory/change",
        r#"{"cwd":"w"}"#,
        "\"cwd\" must be an absolute path, got \"w\"",
    );
    check(
        "command/done",
        r#"{"commandId":"c","kind":"success","sourceEventSeq":-0}"#,
        "\"sourceEventSeq\" must be an integer of at least 0, got -0",
    );
    check(
        "sandbox/mode",
        r#"{"mode":"all"}"#,
        "\"mode\" must be one of read-only, workspace-write, danger-full-access, got \"all\"",
    );
    check(
        "sandbox/mode",
        r#"{"mode":"read-only","source":"user"}"#,
        "\"source\" must be \"delegation\", got \"user\"",
    );
    check(
        "subagent/descriptor",
        r#"{"version":1,"mode":"one-shot","provider":"p"}"#,
        "\"version\" must be 2, got 1",
    );
    check(
        "subagent/descriptor",
        r#"{"version":2,"mode":"continuable","provider":"p"}"#,
        "\"label\" is missing, and must be a string",
    );
    check(
        "compaction/start",
        r#"{"compactionId":"c","turn":0}"#,
        "\"turn\" must be an integer of at least 1 or null, got 0",
    );
    check(
        "turn/end",
        r#"{"turn":1,"reason":{"kind":"error","error":{"message":"m"}}}"#,
        "\"reason.error.code\" is missing, and must be a non-empty string",
    );
    check(
        "turn/end",
        r#"{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"hook"}}}"#,
        "\"reason.reason.reason\" is missing, and must be a string",
    );
    check(
        "todo/write",
        r#"{"todos":[{"content":"c","status":"pending"},{"content":"c","status":"done"}]}"#,
        "\"todos[1].status\" must be one of pending, in_progress, completed, got \"done\"",
    );
    check(
        "todo/write",
        r#"{"todos":{"a":"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}}"#,
        "\"todos\" must be an array, got {\"a\":\"abcdefghijklmnopqrstuvwxyzabcdefgh…",
    );
    check(
        "llm/retry",
        r#"{"retryId":"r","turn":1,"step":1,"provider":"p","mode":"always","policyKey":"k","retry":1,"maxRetries":2,"delayMs":0,"failure":{"message":"","code":"C"}}"#,
        "\"maxRetries\" must be left out here",
    );
    check(
        "goal/change",
        r#"{"kind":"goal/change","version":1,"operation":"clear"}"#,
        "\"cleared\" is missing, and must be an object",
    );
    check(
        "schedule/change",
        r#"{"version":1,"operation":"delete"}"#,
        "\"id\" is missing, and must be a non-empty string",
    );
    let notice = r#"{"id":"m","role":"user","content":[],"source":{"kind":"plugin","plugin":"p","form":"notice"}}"#;
    check("user/message", notice, "\"source.summary\" is missing, and must be a string");
    let snapshot = notice.replace("notice", "snapshot");
    check("user/message", &snapshot, "\"source.sections\" is missing, and must be an array");
    let system = notice.replace(r#""role":"user""#, r#""role":"system""#);
    check("user/message", &system, "\"role\" must be \"user\", got \"system\"");
}

#[test]
fn kinds_that_may_come_later_are_no_mistake() {
    // L-45, L-12, S-85.
    assert!(checked("turn/end", r#"{"turn":1,"reason":{"kind":"later"}}"#).is_ok());
    assert!(
        checked(
            "user/message",
            r#"{"id":"m","role":"user","content":[],"source":{"kind":"later"}}"#
        )
        .is_ok()
    );
    // What peers gave is kept to the letter (S-52).
    assert!(
        checked(
            "user/message",
            r#"{"id":"m","role":"user","content":[{"type":"text"}],"source":{"kind":"user"}}"#
        )
        .is_ok()
    );
}

#[test]
fn a_result_answers_the_call_that_its_source_names() {
    let result = |content: &str| {
        let source = r#"{"kind":"tool","callId":"c"}"#;
        checked(
            "tool/result",
            &format!(
                r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"user","content":{content},"source":{source}}}}}"#
            ),
        )
    };
    let block = r#"{"type":"tool-result","toolCallId":"c","content":[]}"#;
    assert!(result(&format!("[{block}]")).is_ok());
    let one = "\"message.content\" must be exactly one tool-result block";
    assert_eq!(result("[]").unwrap_err(), one);
    assert_eq!(result(&format!("[{block},{block}]")).unwrap_err(), one);
    assert_eq!(result(r#"[{"type":"text","text":"x"}]"#).unwrap_err(), one);
    assert_eq!(
        result(&format!("[{}]", block.replace(r#""c""#, r#""d""#))).unwrap_err(),
        "\"message.content[0].toolCallId\" must be the source's callId \"c\", got \"d\""
    );
}

#[test]
fn blocks_in_blocks_have_a_bound() {
    let nested = |levels: usize| {
        let open = r#"{"type":"tool-result","toolCallId":"c","content":["#;
        let content = format!("{}{}", open.repeat(levels), "]}".repeat(levels));
        let data = format!(
            r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"user","content":[{content}],"source":{{"kind":"tool","callId":"c"}}}}}}"#
        );
        checked("tool/result", &data)
    };
    assert!(nested(200).is_ok());
    assert!(nested(400).unwrap_err().ends_with("stands deeper than 256 objects"));
}

#[test]
fn of_several_members_of_one_name_the_last_one_counts() {
    assert!(checked("turn/start", r#"{"turn":"x","turn":1}"#).is_ok());
    assert!(checked("turn/start", r#"{"turn":1,"t\u0075rn":"x"}"#).is_err());
}

/// Row 5 of the checklist, as far as a value can say it.
#[test]
fn minus_zero_is_refused_and_nothing_else_is() {
    let error = json_safe("tool/result", &json!({"a": [1, {"b": -0.0}]})).unwrap_err();
    assert_eq!(error, NotJsonSafe { kind: "tool/result".to_owned() });
    assert_eq!(
        error.to_string(),
        "session event \"tool/result\" carries non-JSON-serializable data"
    );
    assert!(json_safe("t", &serde_json::from_str("-0").unwrap()).is_err());
    assert!(
        json_safe("t", &json!({"a": [0, -1, 0.0, -0.5, 1e300, u64::MAX, "-0", null, true]}))
            .is_ok()
    );

    let mut deep = json!(-0.0);
    for _ in 0..100_000 {
        deep = Value::Array(vec![deep]);
    }
    assert!(json_safe("t", &deep).is_err(), "however deep it stands");
    // Dropping it would recurse.
    while let Value::Array(mut inner) = deep {
        deep = inner.pop().unwrap();
    }
}

#[test]
fn numbers_that_readers_would_lose_are_found_in_text() {
    let lost = |json: &str, number: Option<&str>| assert_eq!(lost_number(json), number, "{json}");
    lost("-0", Some("-0"));
    lost(r#"{"a":[1,-0.0e5]}"#, Some("-0.0e5"));
    lost("1e400", Some("1e400"));
    lost("-1e-400", Some("-1e-400"));
    lost(r#"["-0","\"-0","\\",-1,0,0.0,1e-400,12345678901234567890]"#, None);
    lost(r#"["\\",-0]"#, Some("-0"));
    lost(r#"["\\\"",1]"#, None);
}
