//! Logs read back: whole ones, ones cut by a crash at any event, and damaged ones.

mod children;
mod forks;
mod jobs;
mod surface;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{RestoreError, restore};
use crate::{
    agent::{Agent, AgentConfig, Delivery, Effect, Happened},
    block::Block,
    chance::Chance,
    chunk::{Chunk, Finish},
    header::Header,
    message::Source,
    ports::{Judgement, RetryPolicy, Route, Served, ToolOutcome},
};

fn header() -> Header {
    Header::main()
}

fn assembly() -> crate::agent::Assembly {
    crate::agent::Assembly {
        served: Ok(Served {
            provider: "p".to_owned(),
            model: "m".to_owned(),
            max_tokens: None,
            reasoning_effort: None,
            max_tokens_is_default: false,
            reasoning_effort_is_default: false,
            context_window: Some(10),
            images: false,
        }),
        tools: Arc::from(Vec::new()),
        retry: RetryPolicy::default(),
    }
}

/// Answers everything that an agent asks for: first with a call of two tools, then with a word. Gives its
/// events.
fn run(agent: &mut Agent, mut effects: Vec<Effect>) -> Vec<Arc<str>> {
    let mut events = Vec::new();
    let mut called = false;
    while !effects.is_empty() {
        let mut next = Vec::new();
        for effect in effects {
            let happened = match effect {
                Effect::Append(event) => {
                    events.push(event.text);
                    continue;
                }
                Effect::Assemble { token, .. } => Happened::Assembled(token, assembly()),
                Effect::CallModel { token, .. } if called => {
                    let text = Chunk::TextDelta { index: 0, text: "done".to_owned() };
                    agent.handle(&mut next, 5, Happened::Chunk(token, text));
                    Happened::Chunk(token, Chunk::Finish { reason: Finish::Stop })
                }
                Effect::CallModel { token, .. } => {
                    called = true;
                    for index in 0..2 {
                        let call = Chunk::ToolCallDelta {
                            index,
                            id: format!("c{index}"),
                            name: Some("t".to_owned()),
                            arguments_delta: "{}".to_owned(),
                        };
                        agent.handle(&mut next, 5, Happened::Chunk(token, call));
                    }
                    Happened::Chunk(token, Chunk::Finish { reason: Finish::ToolCalls })
                }
                Effect::PlanCalls { token, calls } => {
                    Happened::Planned(token, vec![false; calls.len()])
                }
                Effect::Judge { token, .. } => Happened::Judged(token, Judgement::Run),
                Effect::RunTool { token, .. } => {
                    Happened::ToolEnded(token, ToolOutcome::text("ok"))
                }
                _ => continue,
            };
            agent.handle(&mut next, 5, happened);
        }
        effects = next;
    }
    events
}

fn agent() -> Agent {
    Agent::new(header(), Route::default(), Arc::new(AgentConfig::default()), Chance::new([2; 32]))
}

fn prompt(agent: &mut Agent, text: &str) -> Vec<Arc<str>> {
    let mut effects = Vec::new();
    agent
        .prompt(&mut effects, 5, vec![Block::text(text)], Source::user(), Delivery::Followup)
        .unwrap();
    run(agent, effects)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn kinds(closers: &[crate::event::Event]) -> Vec<String> {
    let name = |event: &crate::event::Event| {
        let value = parsed(&event.text);
        match value["data"]["error"]["code"].as_str() {
            Some(code) => format!("{} {code}", event.kind),
            None => event.kind.to_string(),
        }
    };
    closers.iter().map(name).collect()
}

#[test]
fn a_whole_log_goes_on_where_it_ended() {
    // L-80, S-61: numbers go on, the next header says `resume`, nothing is said twice.
    let mut first = agent();
    let events = prompt(&mut first, "hello");
    let config = Arc::new(AgentConfig::default());
    let (mut second, closers) =
        Agent::restore(header(), &events, Route::default(), config, Chance::new([3; 32]), 9)
            .unwrap();
    assert_eq!(kinds(&closers), ["session/end-seed"]);
    assert_eq!(closers[0].seq, events.len() as u64);
    assert_eq!(second.log().history(), first.log().history());

    let more = prompt(&mut second, "again");
    let all: Vec<_> = more.iter().map(|text| parsed(text)).collect();
    assert_eq!(all[0]["seq"], json!(events.len() + 1));
    let of = |kind: &str| all.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert_eq!(of("turn/start")[0]["data"]["turn"], 2);
    assert_eq!(of("request/header")[0]["data"]["reason"], "resume");
    assert!(of("request/context").is_empty() && of("session/title").is_empty());
}

#[test]
fn a_log_cut_anywhere_is_closed_once() {
    // L-79: whatever was stored last, the turn has an end and every call a result; doing it again adds nothing.
    let events = prompt(&mut agent(), "hello");
    for cut in 0..=events.len() {
        let mut restored = restore(header(), &events[..cut], 9).unwrap();
        let mut log: Vec<Arc<str>> = events[..cut].to_vec();
        log.extend(restored.closers.iter().map(|event| Arc::clone(&event.text)));
        let count = |kind: &str| log.iter().filter(|text| parsed(text)["type"] == kind).count();
        assert_eq!(count("turn/start"), count("turn/end"), "cut at {cut}");
        assert_eq!(count("step/start"), count("step/end"), "cut at {cut}");
        for (at, text) in log.iter().enumerate() {
            assert_eq!(parsed(text)["seq"], json!(at), "cut at {cut}");
        }
        let calls =
            restored.log.history().iter().map(|message| super::calls(message).len()).sum::<usize>();
        assert_eq!(calls, count("tool/result"), "cut at {cut}");
        restored.closers.clear();
        let again = restore(header(), &log, 10).unwrap();
        assert!(again.closers.is_empty(), "cut at {cut}: {:?}", kinds(&again.closers));
        assert_eq!(again.log.history(), restored.log.history(), "cut at {cut}");
    }
}

#[test]
fn a_call_that_ran_is_told_apart_from_one_that_did_not() {
    // Rows 33 and 34.
    let events = prompt(&mut agent(), "hello");
    let at = events.iter().position(|text| parsed(text)["type"] == "tool/call").unwrap();
    let restored = restore(header(), &events[..=at], 9).unwrap();
    let expected = [
        "tool/result TOOL_OUTCOME_UNKNOWN",
        "tool/result TOOL_NOT_STARTED",
        "step/end",
        "turn/end",
        "session/end-seed",
    ];
    assert_eq!(kinds(&restored.closers), expected);
    let ran = parsed(&restored.closers[0].text);
    assert_eq!(ran["sourceEventSeqs"], json!([at]));
    assert_eq!(ran["time"], 5, "the time of the last event");
    assert_eq!(ran["data"]["message"]["id"], format!("interrupted-tool-result-c0-{}", at + 1));
    assert_eq!(parsed(&restored.closers[1].text).get("sourceEventSeqs"), None);
    assert_eq!(
        parsed(&restored.closers[3].text)["data"]["reason"],
        json!({ "kind": "interrupted" })
    );
}

#[test]
fn what_waited_still_waits() {
    // L-27: nothing wakes by itself.
    let mut first = agent();
    let mut effects = Vec::new();
    for text in ["one", "two"] {
        first
            .prompt(&mut effects, 5, vec![Block::text(text)], Source::user(), Delivery::Followup)
            .unwrap();
    }
    let events: Vec<Arc<str>> = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Append(event) => Some(event.text),
            _ => None,
        })
        .collect();
    let restored = restore(header(), &events, 9).unwrap();
    assert_eq!(restored.inbox.len(), 1);
}

#[test]
fn damage_is_named_with_its_place() {
    let events = prompt(&mut agent(), "hello");
    let with = |at: usize, text: &str| {
        let mut damaged = events.clone();
        damaged[at] = text.into();
        restore(header(), &damaged, 9).unwrap_err()
    };
    assert!(matches!(with(3, "{"), RestoreError::Unparsable { seq: 3, .. }));
    assert_eq!(
        with(3, r#"{"type":"turn/start","seq":4,"time":1,"data":{"turn":1}}"#),
        RestoreError::Gap { expected: 3, got: 4 }
    );
    let kind = "new/thing".to_owned();
    assert_eq!(
        with(3, r#"{"type":"new/thing","seq":3,"time":1,"data":{}}"#),
        RestoreError::UnknownType { kind, seq: 3 }
    );
    let splice = r#"{"type":"agent/inbox/spliced","seq":3,"time":1,"data":{"target":"next-turn","start":0,"removedCount":5,"inserted":[]}}"#;
    assert_eq!(with(3, splice), RestoreError::Splice { seq: 3 });
}

#[test]
fn what_may_be_ignored_is() {
    // Row 36.
    let event = |ignorable: bool| {
        let text = format!(
            r#"{{"type":"new/thing","seq":0,"time":1,"data":{{}},"ignorable":{ignorable}}}"#
        );
        restore(header(), &[text.into()], 9)
    };
    assert!(event(true).is_ok());
    assert!(event(false).is_err());
}

#[test]
fn a_header_of_another_format_is_refused() {
    // L-78.
    assert_eq!(Header::parse(&header().to_json()).unwrap(), header());
    let other = header().to_json().replace("\"version\":0", "\"version\":1");
    let error = Header::parse(&other).unwrap_err();
    assert!(
        error.starts_with("session \"main\" uses log format v1, but this harness reads only v0: ")
    );
    assert!(
        Header::parse("{}")
            .unwrap_err()
            .starts_with("corrupt session log: first line is not a session header")
    );
}

#[test]
fn a_chosen_effort_goes_on_with_its_model_and_a_default_does_not() {
    // L-36.
    let stored = |defaults: &str| -> Vec<Arc<str>> {
        let config = r#"{"provider":"p","model":"m","reasoningEffort":"max"}"#;
        let data = format!(r#"{{"header":{{"config":{config}{defaults}}},"reason":"initial"}}"#);
        vec![format!(r#"{{"type":"request/header","seq":0,"time":1,"data":{data}}}"#).into()]
    };
    let effort = |defaults: &str, model: &str| {
        let route = Route {
            provider: Some("p".to_owned()),
            model: Some(model.to_owned()),
            ..Route::default()
        };
        let chance = Chance::new([1; 32]);
        let restored = Agent::restore(
            header(),
            &stored(defaults),
            route,
            Arc::new(AgentConfig::default()),
            chance,
            5,
        );
        restored.unwrap().0.route().reasoning_effort.clone()
    };
    assert_eq!(effort("", "m").as_deref(), Some("max"));
    assert_eq!(effort("", "other"), None);
    assert_eq!(effort(r#","adapterDefaults":{"reasoningEffort":true}"#, "m"), None);
}
