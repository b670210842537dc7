//! What a continued session is, and which children it has (L-67, L-72); a fork has neither.

use super::{jobs::log, *};
use crate::{event::SubagentMode, header::Origin, subagents::ToolFilter};

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
