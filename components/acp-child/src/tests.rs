//! Runs as stories, tables of the wire, and the recorded vectors. Every story is played twice: straight, and with the
//! codec suspended and resumed between every two inputs.

mod dice;
mod ending;
mod permissions;
mod prompting;
mod reading;
mod starting;
mod swap;
mod vectors;

use transom_guest::{
    Framing, Setup,
    testing::{play_with, play_with_swaps},
};

use crate::Conversation;

fn setup() -> Setup {
    Setup { framing: Framing::Lines, seed: (1, 2), options: "{}".to_owned(), facts: Vec::new() }
}

fn with_options(options: &str) -> Setup {
    Setup { options: options.to_owned(), ..setup() }
}

/// What the codec puts out behind its greeting, without notes: they are for the log.
fn said<S: AsRef<str>>(inputs: &[S]) -> Vec<String> {
    let inputs: Vec<&str> = inputs.iter().map(AsRef::as_ref).collect();
    let straight = play_with::<Conversation>(setup(), &inputs);
    let swapped = play_with_swaps::<Conversation>(setup(), &inputs);
    assert_eq!(straight, swapped, "a swap must not be noticed");
    let said = straight.lines().filter_map(|line| {
        assert!(!line.starts_with("! "), "nothing that an agent says is a fault: {line}");
        line.strip_prefix("< ").filter(|line| !line.starts_with("note "))
    });
    let said: Vec<String> = said.map(str::to_owned).collect();
    let (greeting, rest) = said.split_at(2);
    assert_eq!(greeting, GREETING);
    rest.to_vec()
}

/// The notes of a run.
fn notes<S: AsRef<str>>(inputs: &[S]) -> Vec<String> {
    let inputs: Vec<&str> = inputs.iter().map(AsRef::as_ref).collect();
    let played = play_with::<Conversation>(setup(), &inputs);
    played.lines().filter_map(|line| line.strip_prefix("< note ")).map(str::to_owned).collect()
}

/// What every run begins with (A-148).
const GREETING: [&str; 2] = [
    r#"unit {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
    "deadline 60000",
];

const START: &str = r#"1 frame request agent/start id=s {"cwd":"/w"}"#;
const GREETED: &str = r#"2 unit {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}"#;
const OPENED: &str = r#"3 unit {"jsonrpc":"2.0","id":1,"result":{"sessionId":"c"}}"#;
const ASKED: &str = r#"4 frame request agent/prompt id=a {"content":[{"type":"text","text":"do it"}],"permission":"reject"}"#;
const ENDED: &str = r#"9 unit {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#;

/// Until the agent is at work.
const AT_WORK: [&str; 4] = [START, GREETED, OPENED, ASKED];

/// What is said from the input behind `before` on.
fn said_after<S: AsRef<str>, T: AsRef<str>>(before: &[S], inputs: &[T]) -> Vec<String> {
    let first: Vec<&str> = before.iter().map(AsRef::as_ref).collect();
    let all: Vec<&str> = first.iter().copied().chain(inputs.iter().map(AsRef::as_ref)).collect();
    let count = said(&first).len();
    said(&all).split_off(count)
}

/// What is said once the agent is at work.
fn at_work<S: AsRef<str>>(inputs: &[S]) -> Vec<String> {
    said_after(&AT_WORK, inputs)
}

/// An update of the agent's session.
fn update(update: &str) -> String {
    update_of("c", update)
}

fn update_of(session: &str, update: &str) -> String {
    format!(
        r#"5 unit {{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

/// A piece of a message.
fn chunk(text: &str) -> String {
    update(&format!(
        r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
    ))
}

/// The same of a message that has an id.
fn chunk_of(message: &str, text: &str) -> String {
    update(&format!(
        r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{message}","content":{{"type":"text","text":"{text}"}}}}"#
    ))
}

fn tool() -> String {
    update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"bash"}"#)
}

/// The body of the only reply to the prompt.
fn outcome(said: &[String]) -> serde_json::Value {
    let replies: Vec<_> = said
        .iter()
        .filter_map(|line| line.strip_prefix("frame reply agent/prompt id=a "))
        .collect();
    let [only] = replies.as_slice() else { panic!("one reply, not {said:?}") };
    serde_json::from_str(only).expect("JSON")
}
