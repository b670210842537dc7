//! Conversations as stories, tables of the wire, and the recorded vectors. Every story is played twice: straight, and
//! with the codec suspended and resumed between every two inputs.

mod cancel;
mod dice;
mod ending;
mod handshake;
mod images;
mod permissions;
mod prompts;
mod reading;
mod sessions;
mod settling;
mod standard;
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

/// What the codec puts out, without notes: they are for the log.
fn said_in<S: AsRef<str>>(setup: Setup, inputs: &[S]) -> Vec<String> {
    let inputs: Vec<&str> = inputs.iter().map(AsRef::as_ref).collect();
    let straight = play_with::<Conversation>(setup.clone(), &inputs);
    let swapped = play_with_swaps::<Conversation>(setup, &inputs);
    assert_eq!(straight, swapped, "a swap must not be noticed");
    let said = straight.lines().filter_map(|line| {
        assert!(!line.starts_with("! "), "nothing that a client says is a fault: {line}");
        line.strip_prefix("< ").filter(|line| !line.starts_with("note "))
    });
    said.map(str::to_owned).collect()
}

fn said<S: AsRef<str>>(inputs: &[S]) -> Vec<String> {
    said_in(setup(), inputs)
}

/// The notes of a conversation.
fn notes(inputs: &[&str]) -> Vec<String> {
    let played = play_with::<Conversation>(setup(), inputs);
    played.lines().filter_map(|line| line.strip_prefix("< note ")).map(str::to_owned).collect()
}

/// Opens the session `s`; uses the frame numbers 1 and 2.
const OPENED: [&str; 3] = [
    r#"0 unit {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
    r#"0 frame reply events/subscribe id=1 {"subscription":"e1","sessions":[],"asks":[],"queues":[],"jobs":[]}"#,
    r#"0 frame reply session/open session=s id=2 {"created":true,"lastSeq":-1,"cwd":"/w","route":{}}"#,
];

/// A prompt of `text` to `s`.
fn prompt(id: u64, text: &str) -> String {
    format!(
        r#"1 unit {{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}

/// The prompt 7, in flight and claimed by turn 1 as message `m7`; uses the frame number 3.
fn claimed() -> Vec<String> {
    let mut inputs: Vec<String> = OPENED.map(str::to_owned).to_vec();
    inputs.extend([
        prompt(7, "hi"),
        status("running"),
        turn_claims(1, "m7"),
        r#"1 frame reply session/prompt session=s id=3 {"messageId":"m7"}"#.to_owned(),
    ]);
    inputs
}

fn status(status: &str) -> String {
    format!(r#"2 frame notice session/status session=s {{"status":"{status}"}}"#)
}

fn turn_claims(turn: u64, message: &str) -> String {
    format!(
        r#"2 frame notice inbox/claimed session=s {{"turn":{turn},"messageIds":["{message}"]}}"#
    )
}

fn turn_ends(turn: u64, reason: &str) -> String {
    format!(
        r#"2 frame notice session/event session=s {{"type":"turn/end","seq":9,"time":1,"data":{{"turn":{turn},"reason":{reason}}}}}"#
    )
}

fn fails(turn: u64, message: &str, ids: &str) -> String {
    format!(
        r#"2 frame notice agent/error session=s {{"turn":{turn},"step":1,"message":"{message}","code":"AUTH","messageIds":{ids}}}"#
    )
}

fn message(turn: u64, id: &str, content: &str) -> String {
    format!(
        r#"2 frame notice session/event session=s {{"type":"assistant/message","seq":8,"time":1,"data":{{"turn":{turn},"step":1,"message":{{"role":"assistant","content":{content},"source":{{"kind":"model"}},"id":"{id}"}}}}}}"#
    )
}

/// What is said from the input behind `before` on.
fn said_after<S: AsRef<str>, T: AsRef<str>>(before: &[S], inputs: &[T]) -> Vec<String> {
    let first: Vec<&str> = before.iter().map(AsRef::as_ref).collect();
    let all: Vec<&str> = first.iter().copied().chain(inputs.iter().map(AsRef::as_ref)).collect();
    let count = said(&first).len();
    said(&all).split_off(count)
}

/// What is said once `s` is open.
fn said_opened<S: AsRef<str>>(inputs: &[S]) -> Vec<String> {
    said_after(&OPENED, inputs)
}

fn answered(id: &str, result: &str) -> String {
    format!(r#"unit {{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn refused(id: &str, code: i32, message: &str) -> String {
    let message = serde_json::Value::from(message);
    format!(r#"unit {{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
}

fn stopped(id: &str, reason: &str) -> String {
    answered(id, &format!(r#"{{"stopReason":"{reason}"}}"#))
}

/// The code and message of the only answer, whatever its `data`.
fn refusal(said: &[String]) -> (i64, String) {
    let [only] = said else { panic!("one answer, not {said:?}") };
    let unit: serde_json::Value =
        serde_json::from_str(only.strip_prefix("unit ").expect("a unit")).expect("JSON");
    let code = unit["error"]["code"].as_i64().expect("an error");
    (code, unit["error"]["message"].as_str().expect("a message").to_owned())
}

/// The `data` of the only answer.
fn data(said: &[String]) -> serde_json::Value {
    let [only] = said else { panic!("one answer, not {said:?}") };
    let unit: serde_json::Value =
        serde_json::from_str(only.strip_prefix("unit ").expect("a unit")).expect("JSON");
    unit["error"]["data"].clone()
}
