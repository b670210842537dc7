//! The packed state. That a swap is never noticed, every other test shows too: `said` swaps between all inputs.

use transom_guest::{Machine, Outputs, jsonrpc::RequestId};

use super::*;
use crate::{
    slot::{Ending, Fact, Slot, Stage, Stop},
    state::{Memory, Pending, Permission, STATE_FORMAT, Session, Subscription, Wanted},
};

fn request(id: &str) -> RequestId {
    RequestId(id.into())
}

fn session(slot: Option<Stage>) -> Session {
    let slot = slot.map(|stage| Slot { request: request("\"r\""), number: 300, stage });
    Session { removed: slot.is_none(), slot, prompt_turn: Some(u64::MAX) }
}

/// One of everything that a conversation can remember.
fn everything(subscription: Subscription) -> Memory {
    let early = vec![
        Fact::Claimed { turn: 1, messages: vec!["a".into(), "".into()] },
        Fact::Failed { message: "你".to_owned(), messages: vec![] },
        Fact::Ended { turn: 2, ending: Ending::Stopped(Stop::EndTurn) },
        Fact::Ended { turn: 3, ending: Ending::Failed("why".to_owned()) },
        Fact::Rested,
    ];
    let claimed = |ending| Stage::Claimed { message: "m".into(), turn: 9, ending };
    let sessions = [
        ("a", session(Some(Stage::Asked { early }))),
        ("b", session(Some(Stage::Queued { message: "m".into(), failure: None }))),
        ("c", session(Some(Stage::Queued { message: "m".into(), failure: Some("f".to_owned()) }))),
        ("d", session(Some(claimed(None)))),
        ("e", session(Some(claimed(Some(Stop::Cancelled))))),
        ("f", session(None)),
        ("g/你", Session::default()),
    ];
    let permission = Permission {
        session: "a".into(),
        child: Some("c".into()),
        ask: "q".into(),
        approval: "approval".into(),
    };
    Memory {
        closed: false,
        images: true,
        subscription,
        sessions: sessions.into_iter().map(|(id, session)| (id.into(), session)).collect(),
        pending: [
            (1, Pending::Subscribe),
            (2, Pending::Open { request: Some(request("1.5")) }),
            (128, Pending::Open { request: None }),
            (16_384, Pending::Prompt { session: "a".into() }),
            (20_000, Pending::Check { request: request("\"i\"") }),
            (u64::MAX, Pending::Rest { session: "a".into(), prompt: 16_384 }),
        ]
        .into(),
        permissions: [(0, permission)].into(),
        asked: u64::MAX,
        requested: 1,
    }
}

#[test]
fn everything_survives_packing() {
    let waiting = vec![
        Wanted { request: request("null"), cwd: "/w 你".into() },
        Wanted { request: request("2"), cwd: "/".into() },
    ];
    for subscription in [Subscription::None, Subscription::Asked(waiting), Subscription::Made] {
        let memory = everything(subscription);
        assert_eq!(Memory::unpack(&memory.pack()), Ok(memory));
    }
    let closed = Memory { closed: true, ..Memory::new() };
    assert_eq!(Memory::unpack(&closed.pack()), Ok(closed));
}

#[test]
fn a_damaged_state_is_refused_and_never_believed() {
    let state = everything(Subscription::Made).pack();
    for length in 0..state.len() {
        let refused = Memory::unpack(&state[..length]).expect_err("a state that was cut off");
        let words = "state of format 1 is damaged at byte ";
        assert!(refused.detail.starts_with(words), "{}", refused.detail);
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
    let state = Conversation::open(&mut Outputs::default(), setup()).expect("a setup").suspend();
    let renamed = with_options(r#"{"agentName":"other"}"#);
    assert!(Conversation::resume(renamed, STATE_FORMAT, &state).is_ok());
    assert!(Conversation::resume(with_options(r#"{"x":1}"#), STATE_FORMAT, &state).is_err());
}

#[test]
fn the_manifest_names_what_is_spoken_and_asked() {
    let manifest = Conversation::describe();
    assert_eq!((manifest.protocol.as_str(), &*manifest.framings), ("acp", &[Framing::Lines][..]));
    assert_eq!(manifest.resumes, [manifest.state_format]);
    assert!(manifest.sends.is_sorted());
}
