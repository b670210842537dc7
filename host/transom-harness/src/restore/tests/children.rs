//! What a continued session is, and which children it has (L-67, L-72); a fork has neither.

use super::{jobs::log, *};
use crate::{event::SubagentMode, header::Origin, subagents::ToolFilter};

fn descriptor() -> (&'static str, String) {
    let data = json!({
        "version": 2, "mode": "continuable", "provider": "spawn", "label": "l", "agentModel": "m",
        "persona": "p", "toolFilter": { "allow": ["read"] },
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

    // Whoever is not delegated to is nobody's child, whatever was copied.
    assert!(restore(header(), &events, 9).unwrap().log.descriptor().is_none());
    let copied = restore(delegated(Some(4)), &events, 9).unwrap();
    assert!(copied.log.descriptor().is_none() && copied.log.children().is_empty());
}
