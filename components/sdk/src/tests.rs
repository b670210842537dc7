//! Conversations as stories, tables of the wire, and the recorded vectors. Every story is played twice: straight, and
//! with the codec suspended and resumed between every two inputs.

mod bounds;
mod ending;
mod handshake;
mod prompts;
mod reading;
mod sessions;
mod swap;
mod vectors;

use transom_guest::{
    Framing, Setup,
    testing::{play_with, play_with_swaps},
};

use crate::Conversation;

/// A client that owns the process, as `transom stdio sdk` serves it.
fn setup() -> Setup {
    Setup {
        framing: Framing::Lines,
        seed: (1, 2),
        options: "{}".to_owned(),
        facts: vec![
            ("owns-process".to_owned(), "true".to_owned()),
            ("directory".to_owned(), "/home/ada".to_owned()),
        ],
    }
}

/// A client at a shared carrier.
fn shared() -> Setup {
    let mut setup = setup();
    setup.facts.retain(|(name, _)| name != "owns-process");
    setup
}

fn with_options(options: &str) -> Setup {
    Setup { options: options.to_owned(), ..setup() }
}

/// The transcript of a conversation; the same with a swap between every two inputs.
fn play_in(setup: Setup, inputs: &[&str]) -> String {
    let straight = play_with::<Conversation>(setup.clone(), inputs);
    assert_eq!(
        straight,
        play_with_swaps::<Conversation>(setup, inputs),
        "a swap must not be noticed"
    );
    straight
}

fn play(inputs: &[&str]) -> String {
    play_in(setup(), inputs)
}

/// A handshake that succeeds; it uses the frame numbers 1 and 2.
const HANDSHAKE: [&str; 3] = [
    r#"0 unit {"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"cwd":"/src","provider":"deepseek-official","model":"deepseek-v4-flash"}}"#,
    r#"0 frame reply models/check id=1 {"route":{"provider":"deepseek-official"},"images":false}"#,
    r#"0 frame reply events/subscribe id=2 {"subscription":"s1","sessions":[],"asks":[],"queues":[],"jobs":[]}"#,
];

/// What follows a successful handshake.
fn ready_in(setup: Setup, inputs: &[&str]) -> String {
    let before = play_in(setup.clone(), &HANDSHAKE);
    let all = play_in(setup, &[HANDSHAKE.as_slice(), inputs].concat());
    all.strip_prefix(&before).expect("the handshake comes first").to_owned()
}

fn ready(inputs: &[&str]) -> String {
    ready_in(setup(), inputs)
}

/// Only what the codec put out.
fn outputs(transcript: &str) -> Vec<String> {
    transcript.lines().filter_map(|line| line.strip_prefix("< ")).map(str::to_owned).collect()
}
