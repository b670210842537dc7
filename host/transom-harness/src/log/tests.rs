//! Messages that take the place of others on the surface, as they are appended (L-8).

use std::sync::Arc;

use serde_json::{Value, json};
use transom_frame::MessageId;

use super::{Log, ReplaceError};
use crate::{
    block::Block,
    event::Data,
    header::Header,
    message::{Message, Role, Source},
};

fn log() -> Log {
    let header = json!({
        "type": "session", "version": 0, "id": "main", "createdAt": 1, "delegationDepth": 0,
    });
    let mut log = Log::new(Header::parse(&header.to_string()).unwrap());
    for text in ["zero", "one", "two"] {
        let message = said(text);
        log.append_surface(5, &Data::UserMessage(&message), Arc::clone(&message), None);
    }
    let message = result("r", "long");
    log.append_surface(5, &data(&message), Arc::clone(&message), Some(&[0]));
    log
}

fn said(text: &str) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId::from(text),
        role: Role::User,
        content: vec![Block::text(text)],
        source: Source::user(),
    })
}

fn result(id: &str, text: &str) -> Arc<Message> {
    let content = vec![Block::text(text)];
    let block = Block::ToolResult { tool_call_id: "c".to_owned(), content, is_error: false };
    Arc::new(Message {
        id: id.into(),
        role: Role::User,
        content: vec![block],
        source: Source::Tool { call_id: "c".to_owned() },
    })
}

fn data(message: &Message) -> Data<'_> {
    match message.source {
        Source::Tool { .. } => {
            Data::ToolResult { turn: 1, step: 1, message, error: None, meta: None }
        }
        _ => Data::UserMessage(message),
    }
}

/// Replaces and gives the ids that are on the surface then.
fn replace(
    log: &mut Log,
    message: Arc<Message>,
    range: (u64, u64),
    sources: &[u64],
) -> Result<Vec<String>, ReplaceError> {
    let before = log.next_seq();
    let event = log.replace_surface(6, &data(&message), Arc::clone(&message), range, sources)?;
    assert_eq!(event.seq, before);
    let text: Value = serde_json::from_str(&event.text).unwrap();
    let (start, end) = range;
    assert_eq!(text["surfaceOp"], json!({ "op": "replace", "start": start, "end": end }));
    assert_eq!(text["sourceEventSeqs"], json!(sources));
    Ok(log.history().iter().map(|message| message.id.to_string()).collect())
}

#[test]
fn a_message_takes_the_place_of_one_or_several() {
    let mut log = log();
    assert_eq!(replace(&mut log, said("sum"), (1, 2), &[1, 2]).unwrap(), ["zero", "sum", "r"]);
    // Its place is named by its own seq from here on.
    assert_eq!(replace(&mut log, said("all"), (0, 3), &[0, 4, 3]).unwrap(), ["all"]);
    assert_eq!(log.next_seq(), 6);
}

#[test]
fn a_result_is_shortened_in_its_place() {
    let mut log = log();
    let expected = ["zero", "one", "two", "r"];
    assert_eq!(replace(&mut log, result("r", "short"), (3, 3), &[3]).unwrap(), expected);
    assert!(format!("{:?}", log.history()).contains("short"));
}

#[test]
fn what_is_not_allowed_changes_nothing() {
    let mut log = log();
    for (message, range, sources, expected) in [
        (said("x"), (2, 1), vec![1, 2], "does not name current surface nodes in order"),
        (said("x"), (0, 7), vec![0], "does not name current surface nodes in order"),
        (said("x"), (0, 2), vec![0, 1], "hides seq 2, which its sourceEventSeqs leave out"),
        (said("x"), (0, 0), vec![0, 4], "seq 4 of its sourceEventSeqs is not an earlier event"),
        (said("x"), (0, 0), vec![0, 0], "seq 0 of its sourceEventSeqs is not an earlier event"),
        (result("q", "x"), (3, 3), vec![3], "a tool result replaces exactly one tool result"),
        (result("zero", "x"), (0, 0), vec![0], "a tool result replaces exactly one tool result"),
        (result("r", "x"), (2, 3), vec![2, 3], "a tool result replaces exactly one tool result"),
    ] {
        let error = replace(&mut log, message, range, &sources).unwrap_err().to_string();
        assert!(error.contains(expected), "{range:?} {sources:?}: {error}");
        assert_eq!((log.next_seq(), log.history().len()), (4, 4));
    }
}

#[test]
fn an_answer_that_says_nothing_stands_on_the_surface_and_is_not_sent() {
    // L-9.
    let mut log = log();
    let empty = Arc::new(Message {
        id: "e".into(),
        role: Role::Assistant,
        content: Vec::new(),
        source: Source::Model { provider: "p".to_owned(), model: "m".to_owned(), partial: false },
    });
    let data = Data::AssistantMessage { turn: 1, step: 1, message: &empty, usage: None };
    log.append_surface(5, &data, Arc::clone(&empty), Some(&[]));
    assert_eq!(log.history().len(), 4);
    assert_eq!(replace(&mut log, said("sum"), (0, 4), &[0, 1, 2, 3, 4]).unwrap(), ["sum"]);
}
