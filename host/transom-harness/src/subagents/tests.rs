//! Filters, capabilities, and what a parent is told (L-67, L-69, P-80).

use serde_json::json;

use super::{Capabilities, Nature, ToolFilter, WORDS_BYTES_MAX, settled};
use crate::block::Block;

#[test]
fn l67_a_filter_admits_what_it_allows_and_does_not_deny() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let filter = |allow: Option<&[&str]>, deny: &[&str]| ToolFilter {
        allow: allow.map(names),
        deny: names(deny),
    };
    for (filter, tool, admitted) in [
        (filter(None, &[]), "bash", true),
        (filter(None, &["bash"]), "bash", false),
        (filter(None, &["bash"]), "read", true),
        (filter(Some(&["read"]), &[]), "bash", false),
        (filter(Some(&[]), &[]), "read", false),
        (filter(Some(&["job_*"]), &["job_kill"]), "job_list", true),
        (filter(Some(&["job_*"]), &["job_kill"]), "job_kill", false),
    ] {
        assert_eq!(filter.admits(tool), admitted, "{filter:?} {tool}");
    }
}

#[test]
fn l69_what_is_lacking_is_named() {
    let all = Nature {
        persona: Some("p".to_owned()),
        tools: Some(ToolFilter::default()),
        output_schema: Some(json!({})),
        depth_max: Some(1),
        ..Nature::default()
    }
    .needs();
    assert_eq!(all, Capabilities::ALL);
    assert_eq!(Capabilities::ALL.lack(all), None);
    assert_eq!(Capabilities::default().lack(Nature::default().needs()), None);
    for (lacking, name) in [
        (Capabilities { output_schema: false, ..all }, "outputSchema"),
        (Capabilities { depth_limit: false, ..all }, "depthLimit"),
        (Capabilities { tool_filter: false, ..all }, "toolFilter"),
        (Capabilities { persona: false, ..all }, "persona"),
    ] {
        assert_eq!(lacking.lack(all), Some(name));
    }
}

#[test]
fn p80_the_notice_names_the_child_says_how_it_ended_and_what_it_said() {
    let call = Block::ToolCall { id: "c".into(), name: "t".into(), arguments: "{}".into() };
    for (stop_reason, output, expected) in [
        ("completed", vec![Block::text("done")], "subagent k has finished.|Its last words:|done"),
        ("aborted", vec![], "subagent k was stopped.|It has left no closing message."),
        (
            "max-tokens",
            vec![Block::text("a"), Block::text("b")],
            "subagent k ran out of room before it had finished.|Its last words:|a|b",
        ),
        ("refusal", vec![call], "subagent k has declined.|It has left no closing message."),
        ("error", vec![], "subagent k has failed.|It has left no closing message."),
    ] {
        let (source, content) = settled(&"k".into(), "look", stop_reason, &output, 0);
        let texts: Vec<_> = content
            .iter()
            .map(|block| match block {
                Block::Text { text } => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts.join("|"), expected);
        let source = serde_json::to_value(source).unwrap();
        assert_eq!(
            (&source["kind"], &source["form"]),
            (&json!("subagent-settled"), &json!("notice"))
        );
        assert_eq!(source["senderSessionId"], "k");
        assert!(source["summary"].as_str().unwrap().starts_with("look "));
    }
    let (source, _) = settled(&"k".into(), &"x".repeat(500), "completed", &[], 0);
    let summary = serde_json::to_value(source).unwrap()["summary"].as_str().unwrap().to_owned();
    assert_eq!(summary.chars().count(), 120);
    for (waiting, rest) in [
        (1, ", and 1 message waits there until the next one is sent."),
        (2, ", and 2 messages wait there until the next one is sent."),
    ] {
        let (_, content) = settled(&"k".into(), "look", "aborted", &[], waiting);
        assert_eq!(content[0], Block::text(format!("subagent k was stopped{rest}")));
    }
}

#[test]
fn what_a_parent_is_told_of_last_words_has_a_bound() {
    let told = |output: &[Block]| {
        let (_, content) = settled(&"k".into(), "look", "completed", output, 0);
        content
            .into_iter()
            .skip(2)
            .map(|block| match block {
                Block::Text { text } => text,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    let full = "x".repeat(WORDS_BYTES_MAX);
    assert_eq!(told(&[Block::text(&*full)]), [&*full]);
    // One byte before the bound, a character of two.
    let long = format!("{}é", &full[1..]);
    let marker = |bytes: u32| format!("[last words cut here: {bytes} more bytes were left out]");
    assert_eq!(told(&[Block::text(long), Block::text("yz")]), [&full[1..], &marker(4)]);
    assert_eq!(told(&[Block::text(&*full), Block::text("yz")]), [&*full, &marker(2)]);
}
