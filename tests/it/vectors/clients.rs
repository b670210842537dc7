//! What published clients were seen to send must be accepted: every request gets its result, every notification
//! and stray response is ignored, and the end is theirs to choose.

use serde_json::Value;

use super::{Start, Way, launch, open};
use crate::support::{
    client::{Client, is_idle},
    model_server::ModelServer,
    place::{Place, text},
    vector::{self, Bindings, What},
    wire::Wire,
};

#[test]
fn python_of_the_baseline() {
    play(
        "client.python-sdk-0.1.0rc6.jsonl",
        &["initialize", "session/prompt", "session/prompt", "shutdown"],
        &[],
    );
}

#[test]
fn python_of_a_later_release() {
    play(
        "client.python-sdk-0.2.1rc2.jsonl",
        &[
            "initialize",
            "session/prompt",
            "session/prompt",
            "session/working-directory/get",
            "session/working-directory/set",
            "shutdown",
        ],
        &[],
    );
}

#[test]
fn typescript() {
    play(
        "client.typescript-0.0.1-rc.1.jsonl",
        &["initialize", "session/prompt", "nope", "shutdown"],
        &["nope"],
    );
}

/// Plays what a client sent. `methods` are its requests in order; only `refused` ones may get an error.
fn play(file: &str, methods: &[&str], refused: &[&str]) {
    for way in Way::ALL {
        let asked = play_one(file, way, refused);
        assert_eq!(asked, methods, "{file}, {way:?}");
    }
}

fn play_one(file: &str, way: Way, refused: &[&str]) -> Vec<String> {
    let lines = vector::read(file);
    let model = ModelServer::start();
    let place = Place::new();
    let start: Start = launch(file, &lines, &place, &model);
    let mut bindings = Bindings::new(&[("<cwd>", text(&place.cwd)), ("<home>", text(&place.home))]);
    for id in 1..=9 {
        // A version 4 UUID with hyphens for Python, 32 hex digits for TypeScript (S-27).
        let (bare, hyphens) = (format!("{id:032x}"), format!("{id:08x}-0000-4000-8000-{id:012x}"));
        let typescript = file.contains("typescript");
        bindings.bind(&format!("<id:{id}>"), if typescript { &bare } else { &hyphens });
    }

    let mut asked = Vec::new();
    let mut client = Client::new(open(way, &place, &model, &start));
    for line in &lines {
        match &line.what {
            What::Meta { .. } => {}
            What::Send(pieces) => {
                let sent = bindings
                    .fill(std::str::from_utf8(&pieces.concat()).expect("clients send UTF-8"));
                client.wire.write(sent.as_bytes());
                let sent: Value = vector::parse(&sent).expect("clients send JSON");
                if let Some(method) = sent["method"].as_str().filter(|_| sent.get("id").is_some()) {
                    asked.push(method.to_owned());
                    let response = client.response(sent["id"].clone());
                    let accepted = response.get("result").is_some();
                    assert_eq!(
                        accepted,
                        !refused.contains(&method),
                        "{file}:{}, {way:?}: {response}",
                        line.number
                    );
                    if method == "session/prompt" {
                        let session = sent["params"]["sessionId"].as_str().expect("a session");
                        client.until(|frame| is_idle(frame, session));
                    }
                }
            }
            What::InputClosed => client.wire.close_input(),
            What::Signal(signal) => client.wire.signal(*signal),
            What::Exit(code) => {
                assert_eq!(
                    client.rest(),
                    Vec::<Value>::new(),
                    "{file}, {way:?}: nothing comes after the end"
                );
                assert_eq!(
                    client.wire.exit(),
                    *code,
                    "{file}, {way:?}: {}",
                    client.wire.diagnostics()
                );
            }
            What::Receive(_) | What::OutputEnded => {
                panic!("{file}:{}: not a client's line", line.number)
            }
        }
    }
    asked
}
