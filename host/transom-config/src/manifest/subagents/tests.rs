//! Kinds of children, and which tools follow from there being any that live on (L-67, L-72).

use std::path::Path;

use super::{CHILD_TOOLS, SubagentMode};
use crate::manifest::Manifest;

fn parsed(rest: &str) -> Result<Manifest, String> {
    let text = format!("{rest}\n[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n");
    let parsed = Manifest::parse(Path::new("transom.toml"), text.as_bytes());
    parsed.map_err(|errors| errors.to_string())
}

#[test]
fn l72_what_addresses_children_is_there_where_children_live_on() {
    let has = |text: &str| {
        let enabled = parsed(text).unwrap().tools.enabled;
        assert!(enabled.is_sorted());
        CHILD_TOOLS.iter().filter(|tool| enabled.contains(&(**tool).to_owned())).count()
    };
    assert_eq!(has(""), 0);
    assert_eq!(has("[tools]\nsubagent-mode = 'one-shot'"), 0);
    assert_eq!(has("[tools]\nsubagent-mode = 'continuable'"), 3);
    assert_eq!(has("[subagents.a]\ndescription = 'd'"), 0);
    assert_eq!(has("[subagents.a]\ndescription = 'd'\ncontinuable = true"), 3);
    let named = "[tools]\nsubagent-mode = 'continuable'\nenabled = ['subagent', 'send_message']";
    assert_eq!(has(named), 1);
    let idle = parsed("[tools]\nenabled = ['subagent', 'send_message']").unwrap_err();
    assert!(idle.contains("`send_message` is for children that take further messages"), "{idle}");
}

#[test]
fn l67_a_kind_is_read_whole_and_its_contradictions_are_refused() {
    let manifest = parsed(
        "[tools]\nsubagent-mode = 'continuable'\n[subagents.judge]\ndescription = 'judges'\npersona = 'p'\n\
         tools = ['read', 'mcp__a__*']\nwithout-tools = ['mcp__a__b']\nprovider = 'scripted'\nmodel = 'm'\n\
         depth-max = 1\noutput-schema = { type = 'object' }",
    )
    .unwrap();
    let judge = &manifest.subagents["judge"];
    assert_eq!(judge.tools.as_deref().unwrap(), ["read", "mcp__a__*"]);
    assert_eq!((judge.depth_max, judge.model.as_deref()), (Some(1), Some("m")));
    assert_eq!(judge.output_schema.as_ref().unwrap()["type"], "object");
    assert!(!judge.is_continuable(SubagentMode::Continuable), "its last words are its result");

    for (kind, complaint) in [
        ("persona = 'p'", "has no `description`"),
        ("description = 'd'\ntools = ['raed']", "unknown tool `raed`; did you mean `read`?"),
        ("description = 'd'\npersona = 'p'\npersona-file = 'f'", "keep one of them"),
        (
            "description = 'd'\ncontinuable = true\noutput-schema = {}",
            "it has no last words that `output-schema` could be for",
        ),
    ] {
        let refused = parsed(&format!("[subagents.a]\n{kind}")).unwrap_err();
        assert!(refused.contains(complaint), "{refused}");
    }
}
