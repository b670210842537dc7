//! What a continued session is, and which children it has (L-67, L-72); a fork has neither.

use super::{jobs::log, *};
use crate::{
    event::{SubagentMode, Target},
    header::Origin,
    message::{Message, Source},
    subagents::ToolFilter,
};

fn descriptor() -> (&'static str, String) {
    let data = json!({
        "version": 2, "mode": "continuable", "provider": "spawn", "label": "l", "agentModel": "m",
        "persona": "p", "toolFilter": { "allow": ["read"] },
        "inheritedToolFilters": [{ "deny": ["bash"] }],
    });
    ("subagent/descriptor", data.to_string())
}

fn catalog(child: &str, mode: &str) -> (&'static str, String) {
    let data = json!({
        "version": 0, "childId": child, "childCreatedAt": 1, "mode": mode, "label": "l",
    });
    ("subagent/catalog", data.to_string())
}

fn delegated(seed_length: Option<u64>) -> Header {
    Header {
        parent_session: Some("above".into()),
        origin: Some(Origin::Subagent),
        delegation_depth: 1,
        seed_length,
        ..header()
    }
}

#[test]
fn l72_a_continued_session_is_what_it_was_and_has_its_children() {
    let odd = ("subagent/catalog", r#"{"version":1,"children":[]}"#.to_owned());
    let events =
        log(&[descriptor(), catalog("one", "continuable"), catalog("two", "one-shot"), odd]);
    let restored = restore(delegated(None), &events, 9).unwrap();
    let own = restored.log.descriptor().unwrap();
    assert_eq!((own.mode, own.persona.as_deref()), (SubagentMode::Continuable, Some("p")));
    let filter = ToolFilter { allow: Some(vec!["read".to_owned()]), deny: Vec::new() };
    assert_eq!((own.tool_filter.as_ref(), own.agent_model.as_deref()), (Some(&filter), Some("m")));
    let children: Vec<_> =
        restored.log.children().iter().map(|kept| (kept.child.as_str(), &*kept.label)).collect();
    assert_eq!(children, [("one", "l")], "those that can be written to");

    let above = ToolFilter { allow: None, deny: vec!["bash".to_owned()] };
    let filters = [above, filter];
    assert_eq!(restored.log.tool_filters, filters);

    // Whoever is not delegated to is nobody's child, whatever was copied, and has no tools that its source lacked.
    let own = restore(header(), &events, 9).unwrap();
    assert!(own.log.descriptor().is_none() && own.log.tool_filters.is_empty());
    for header in [delegated(Some(4)), Header { origin: None, ..delegated(Some(4)) }] {
        for copied in [restore(header.clone(), &events, 9), super::super::fork(header, &events, 9)]
        {
            let log = copied.unwrap().log;
            assert!(log.descriptor().is_none() && log.children().is_empty());
            assert_eq!(log.tool_filters, filters);
        }
    }
}

#[test]
fn l67_a_child_that_goes_on_is_served_as_it_was_and_else_as_it_is_told() {
    let header = json!({
        "header": {
            "config": { "provider": "q", "model": "n", "maxTokens": 7, "reasoningEffort": "low" },
            "adapterDefaults": { "reasoningEffort": true },
        },
        "reason": "initial",
    });
    let context = json!({ "provider": "q", "model": "n" });
    let served = [("request/header", header.to_string()), ("request/context", context.to_string())];
    let told = Route {
        provider: Some("p".to_owned()),
        model: Some("m".to_owned()),
        max_tokens: Some(9),
        reasoning_effort: Some("high".to_owned()),
    };
    let goes_on = |events: &[Arc<str>]| {
        let (config, chance) = (Arc::new(AgentConfig::default()), Chance::new([1; 32]));
        let (mut agent, _) =
            Agent::restore(delegated(None), events, Route::default(), config, chance, 9).unwrap();
        agent.keep_own_route(told.clone());
        agent.route().clone()
    };
    assert_eq!(goes_on(&[]), told);
    let own = Route {
        provider: Some("q".to_owned()),
        model: Some("n".to_owned()),
        max_tokens: Some(7),
        reasoning_effort: None,
    };
    assert_eq!(goes_on(&log(&served)), own, "its effort was its provider's default");
}

fn writes(call: &str, child: &str) -> (&'static str, String) {
    let arguments = json!({ "subagent_id": child, "message": "more" }).to_string();
    let data = json!({
        "turn": 1, "step": 1, "callId": call, "name": "send_message", "arguments": arguments,
    });
    ("tool/call", data.to_string())
}

fn told(child: &str) -> (&'static str, String) {
    let source = json!({
        "kind": "subagent-settled", "form": "notice", "summary": "l", "senderSessionId": child,
    });
    let message = json!({ "id": "m", "role": "user", "content": [], "source": source });
    let data = json!({ "target": "next-turn", "start": 0, "inserted": [message] });
    ("agent/inbox/spliced", data.to_string())
}

/// The result of a call, as an event on the surface.
fn answered(seq: usize, call: &str, is_error: bool) -> Arc<str> {
    let block =
        json!({ "type": "tool-result", "toolCallId": call, "content": [], "isError": is_error });
    let message = json!({
        "id": format!("r{seq}"), "role": "user", "content": [block],
        "source": { "kind": "tool", "callId": call },
    });
    let data = json!({ "turn": 1, "step": 1, "message": message });
    format!(r#"{{"type":"tool/result","seq":{seq},"time":5,"data":{data},"surfaceOp":"append"}}"#)
        .into()
}

/// Of which children a parent with this log is told when it is continued.
fn lost(events: &[Arc<str>]) -> Vec<String> {
    let restored = restore(header(), events, 9).unwrap();
    let waiting = restored.inbox.list(Target::NextStep).iter();
    let of = |message: &Arc<Message>| match &message.source {
        Source::SubagentSettled { sender_session_id, .. } => sender_session_id.clone(),
        other => panic!("{other:?}"),
    };
    waiting.map(of).collect()
}

#[test]
fn p80_a_parent_is_told_once_of_each_child_that_ended_with_the_host() {
    let events = log(&[
        catalog("one", "continuable"),
        catalog("two", "continuable"),
        told("two"),
        catalog("three", "continuable"),
    ]);
    let restored = restore(header(), &events, 9).unwrap();
    let splice = "agent/inbox/spliced";
    assert_eq!(kinds(&restored.closers), [splice, splice, "session/end-seed"]);
    let data = parsed(&restored.closers[0].text)["data"].clone();
    assert_eq!((&data["target"], &data["start"]), (&json!("next-step"), &json!(0)), "no wake");
    let message = &data["inserted"][0];
    let text = "subagent one was interrupted: the host stopped before it had finished.";
    assert_eq!(message["content"][0]["text"], text);
    let source = json!({
        "kind": "subagent-settled", "form": "notice", "summary": "l was interrupted",
        "senderSessionId": "one",
    });
    assert_eq!(message["source"], source);
    assert_eq!(lost(&events), ["one", "three"]);

    let mut more = events.clone();
    more.extend(restored.closers.iter().map(|event| Arc::clone(&event.text)));
    let again = restore(header(), &more, 9).unwrap();
    assert!(again.closers.is_empty(), "{:?}", kinds(&again.closers));
    let fork = Header { parent_session: Some("s".into()), seed_length: Some(4), ..header() };
    let restored = restore(fork, &events, 9).unwrap();
    assert!(restored.inbox.is_empty(), "a fork has none of those children");
    // One that took no task has said so ahead of the catalogue.
    assert_eq!(lost(&log(&[told("one"), catalog("one", "continuable")])), [""; 0]);
}

#[test]
fn p80_a_child_that_was_written_to_works_until_its_parent_hears_of_it() {
    let born = [catalog("one", "continuable"), told("one")];
    let with = |more: &[(&'static str, String)]| log(&[&born, more].concat());
    let then = |mut events: Vec<Arc<str>>, is_error: bool| {
        events.push(answered(events.len(), "w", is_error));
        events
    };
    let none = [""; 0];
    assert_eq!(lost(&with(&[])), none);
    assert_eq!(lost(&with(&[writes("w", "one")])), ["one"], "the call may have been carried out");
    assert_eq!(lost(&then(with(&[writes("w", "one")]), false)), ["one"]);
    assert_eq!(lost(&then(with(&[writes("w", "one")]), true)), none, "it was refused");
    let quick = with(&[writes("w", "one"), told("one")]);
    assert_eq!(lost(&then(quick, false)), none, "it has finished before the call had its result");
    let busy = with(&[writes("v", "one"), writes("w", "one"), told("one")]);
    assert_eq!(lost(&then(busy, false)), ["one"], "what it was sent last it has yet to do");
    assert_eq!(lost(&with(&[writes("w", "other")])), none, "no child of this session");
}
