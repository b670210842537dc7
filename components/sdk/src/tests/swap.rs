//! The packed state. That a swap is never noticed, every other test shows too: `play_in` swaps between all inputs.

use transom_guest::{Machine, Outputs};

use super::*;
use crate::{
    message::RequestId,
    state::{Life, Memory, Pending, STATE_FORMAT, Session, Stage, Subscription, Use},
    translate::Handshake,
};

fn request(id: &str) -> RequestId {
    RequestId(id.into())
}

fn handshake() -> Handshake {
    Handshake { cwd: "/src 你".into(), route: r#"{"provider":"p","model":"m"}"#.into() }
}

/// One of everything that a conversation can remember.
fn everything(stage: Stage) -> Memory {
    let session = |opening, life| Session { opening, life };
    Memory {
        stage,
        subscription: Subscription::Asked(vec![
            (request("1"), handshake()),
            (request("\"\""), handshake()),
        ]),
        sessions: [
            ("a".into(), session(3, Life::Opening)),
            ("".into(), session(u64::MAX, Life::Open)),
            ("c/你".into(), session(127, Life::Removed)),
        ]
        .into(),
        pending: [
            (1, Pending::Check { request: request("1"), handshake: handshake() }),
            (2, Pending::Subscribe),
            (128, Pending::Open { session: "a".into() }),
            (16_384, Pending::Resume { request: request("\"r\""), session: "a".into() }),
            (
                20_000,
                Pending::Use {
                    request: request("2"),
                    session: "a".into(),
                    opening: 3,
                    what: Use::Prompt,
                },
            ),
            (
                20_001,
                Pending::Use {
                    request: request("3"),
                    session: "a".into(),
                    opening: 3,
                    what: Use::Wait,
                },
            ),
            (
                20_002,
                Pending::Use {
                    request: request("4"),
                    session: "a".into(),
                    opening: 3,
                    what: Use::Directory,
                },
            ),
            (u64::MAX, Pending::Shutdown { request: request("-3.5") }),
        ]
        .into(),
        held: vec![r#"{"id":1}"#.to_owned()],
        asked: u64::MAX,
    }
}

#[test]
fn everything_survives_packing() {
    for stage in [
        Stage::Fresh,
        Stage::Ready(handshake()),
        Stage::Closing { failed: false },
        Stage::Closing { failed: true },
        Stage::Ending { failed: true },
        Stage::Closed,
    ] {
        let memory = everything(stage);
        assert_eq!(Memory::unpack(&memory.pack()), Ok(memory));
    }
    assert_eq!(Memory::unpack(&Memory::new().pack()), Ok(Memory::new()));
}

#[test]
fn a_damaged_state_is_refused_and_never_believed() {
    let state = everything(Stage::Ready(handshake())).pack();
    for length in 0..state.len() {
        let refused = Memory::unpack(&state[..length]).expect_err("a state that was cut off");
        assert!(
            refused.detail.starts_with("state of format 1 is damaged at byte "),
            "{}",
            refused.detail
        );
    }
    let mut longer = state.clone();
    longer.push(0);
    assert!(Memory::unpack(&longer).is_err());
    // Whatever a byte becomes, the result is a refusal or a state that packs to what was read.
    for at in 0..state.len() {
        for value in [0, 1, 5, 0x7f, 0x80, 0xff] {
            let mut damaged = state.clone();
            damaged[at] = value;
            if let Ok(memory) = Memory::unpack(&damaged) {
                assert_eq!(Memory::unpack(&memory.pack()), Ok(memory));
            }
        }
    }
}

#[test]
fn a_state_of_another_format_is_refused() {
    let refused =
        Conversation::resume(setup(), STATE_FORMAT + 1, &[]).expect_err("a format that is unknown");
    assert_eq!(refused.detail, "state of format 2 cannot be resumed, only 1");
}

#[test]
fn a_changed_option_takes_effect_with_a_swap() {
    // Decision 53.
    let mut out = Outputs::default();
    let state = Conversation::open(&mut out, setup()).expect("a setup that is accepted").suspend();
    assert!(
        Conversation::resume(with_options(r#"{"maxTokensAsSuccess":true}"#), STATE_FORMAT, &state)
            .is_ok()
    );
    assert!(
        Conversation::resume(with_options(r#"{"maxTokens":true}"#), STATE_FORMAT, &state).is_err()
    );
}

#[test]
fn the_manifest_names_what_is_spoken_and_asked() {
    let manifest = Conversation::describe();
    assert_eq!(manifest.protocol, "sdk");
    assert_eq!(manifest.framings, [Framing::Lines]);
    assert_eq!(manifest.resumes, [manifest.state_format]);
    assert!(manifest.sends.is_sorted());
}
