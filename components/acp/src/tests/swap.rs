//! The packed state. That a swap is never noticed, every other test shows too: `said` swaps between all inputs.

use transom_guest::{Machine, Outputs, jsonrpc::RequestId};

use super::*;
use crate::{
    choices::Selection,
    desk::{Desk, Held, Image, Opening, Tail},
    options::Surface,
    slot::{Ending, Fact, Slot, Stage, Stop},
    state::{Memory, Pending, Permission, STATE_FORMAT, Session, Subscription, Wanted},
};

fn request(id: &str) -> RequestId {
    RequestId(id.into())
}

fn session(slot: Option<Stage>) -> Session {
    let slot = slot.map(|stage| Slot { stage, ..Slot::new(request("\"r\""), 300) });
    Session { removed: slot.is_none(), slot, prompt_turn: Some(u64::MAX), desk: None }
}

/// One of everything that a conversation can remember.
fn everything(subscription: Subscription) -> Memory {
    let early = vec![
        Fact::Claimed { turn: 1, messages: vec!["a".into(), "".into()] },
        Fact::Failed { message: "你".to_owned(), messages: vec![] },
        Fact::Ended { turn: 2, ending: Ending::Stopped(Stop::EndTurn) },
        Fact::Ended { turn: 3, ending: Ending::Failed("why".to_owned()) },
        Fact::Rested,
        Fact::Began { turn: 4 },
    ];
    let claimed = |ending| Stage::Claimed { message: "m".into(), turn: 9, ending };
    let sessions = [
        ("a", session(Some(Stage::Asked { early }))),
        ("b", session(Some(Stage::Queued { message: "m".into(), failure: None }))),
        ("c", session(Some(Stage::Queued { message: "m".into(), failure: Some("f".to_owned()) }))),
        ("d", session(Some(claimed(None)))),
        ("e", session(Some(claimed(Some(Ending::Stopped(Stop::Cancelled)))))),
        ("e2", session(Some(claimed(Some(Ending::Failed("f".to_owned())))))),
        ("f", session(None)),
        ("g/你", Session::default()),
        ("h", standard(Desk::default())),
        ("i", standard(desk())),
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
            (2, Pending::Open { request: Some(request("1.5")), resumes: None }),
            (128, Pending::Open { request: None, resumes: Some("s".into()) }),
            (129, Pending::Models { session: Some("s".into()) }),
            (130, Pending::Models { session: None }),
            (131, Pending::Route { session: "s".into() }),
            (132, Pending::List { request: Some(request("7")) }),
            (133, Pending::List { request: None }),
            (134, Pending::Settle { session: "s".into(), prompt: Some(3) }),
            (135, Pending::Settle { session: "s".into(), prompt: None }),
            (136, Pending::Close { session: "s".into() }),
            (137, Pending::Image { session: "s".into(), attachment: "sha256:0".into() }),
            (16_384, Pending::Prompt { session: "a".into() }),
            (20_000, Pending::Check { request: request("\"i\"") }),
            (u64::MAX, Pending::Rest { session: "a".into(), prompt: 16_384 }),
        ]
        .into(),
        permissions: [(0, permission)].into(),
        asked: u64::MAX,
        requested: 1,
        surface: Surface::Standard,
        catalogue: Some("{}".into()),
    }
}

fn standard(desk: Desk) -> Session {
    let stage = Stage::Claimed {
        message: "m".into(),
        turn: 1,
        ending: Some(Ending::Stopped(Stop::MaxTokens)),
    };
    let slot = Slot {
        stage,
        patient: true,
        cancelled: true,
        undelivered: Some("why".to_owned()),
        ..Slot::new(request("1"), 1)
    };
    Session { slot: Some(slot), desk: Some(Box::new(desk)), ..Session::default() }
}

fn desk() -> Desk {
    let images = [
        ("a".into(), Image::Read { data: "\"\"".into(), media_type: "\"image/png\"".into() }),
        ("b".into(), Image::Failed("gone".into())),
    ];
    let held = [
        Held::Notice { name: "session/status".into(), body: "{}".into() },
        Held::Settle { prompt: Some(1) },
        Held::Settle { prompt: None },
    ];
    Desk {
        cwd: "/w".into(),
        opening: Some(Opening { request: None, resumes: true, route: "{}".into() }),
        running: true,
        selection: Some(Selection {
            provider: "p".to_owned(),
            model: "m".to_owned(),
            effort: Some("high".to_owned()),
            chosen: true,
        }),
        window: Some(9),
        closing: vec![request("1"), request("\"2\"")],
        tail: Some(Tail {
            event: "{}".into(),
            missing: 1,
            images: images.into(),
            held: held.into(),
        }),
    }
}

#[test]
fn everything_survives_packing() {
    let waiting = vec![
        Wanted { request: request("null"), cwd: "/w 你".into(), resumes: None },
        Wanted { request: request("2"), cwd: "/".into(), resumes: Some("s".into()) },
    ];
    for subscription in [Subscription::None, Subscription::Asked(waiting), Subscription::Made] {
        let memory = everything(subscription);
        assert_eq!(Memory::unpack(STATE_FORMAT, &memory.pack()), Ok(memory));
    }
    let closed = Memory { closed: true, ..Memory::new(Surface::Automation) };
    assert_eq!(Memory::unpack(STATE_FORMAT, &closed.pack()), Ok(closed));
}

#[test]
fn a_damaged_state_is_refused_and_never_believed() {
    let state = everything(Subscription::Made).pack();
    for length in 0..state.len() {
        let refused =
            Memory::unpack(STATE_FORMAT, &state[..length]).expect_err("a state that was cut off");
        let words = "state of format 2 is damaged at byte ";
        assert!(refused.detail.starts_with(words), "{}", refused.detail);
    }
    let mut longer = state.clone();
    longer.push(0);
    assert!(Memory::unpack(STATE_FORMAT, &longer).is_err());
    // Whatever a byte becomes, the result is a refusal or a state that packs to what was read.
    for at in 0..state.len() {
        for value in [0, 1, 5, 0x7f, 0x80, 0xff] {
            let mut damaged = state.clone();
            damaged[at] = value;
            if let Ok(memory) = Memory::unpack(STATE_FORMAT, &damaged) {
                assert_eq!(Memory::unpack(STATE_FORMAT, &memory.pack()), Ok(memory));
            }
        }
    }
}

#[test]
fn a_state_of_another_format_is_refused() {
    let refused =
        Conversation::resume(setup(), STATE_FORMAT + 1, &[]).expect_err("a format that is unknown");
    assert_eq!(refused.detail, "state of format 3 cannot be resumed, only [1, 2]");
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
    assert_eq!((manifest.state_format, &*manifest.resumes), (2, &[1, 2][..]));
    assert!(manifest.sends.is_sorted());
}

/// What the first format was written as, for a session with a prompt in flight whose turn has ended.
const FIRST: &[u8] = &[
    // Not closed, no images, subscribed; one session `s`, not removed.
    0, 0, 2, 1, 1, b's',
    0, // Its prompt: request 7, frame 3, claimed as `m` by turn 1, which has ended well.
    1, 1, b'7', 3, 2, 1, b'm', 1, 1, 0, // Turn 1 had a prompt.
    1,
    1, // A session on its way for request 8; nobody is asked; four frames, no permission request.
    1, 4, 1, 1, 1, b'8', 0, 4, 0,
];

#[test]
fn a_state_of_the_first_format_goes_on() {
    let memory = Memory::unpack(1, FIRST).expect("a state");
    assert_eq!(memory.surface, Surface::Automation);
    let mut codec = Conversation::resume(setup(), 1, FIRST).expect("a state");
    let mut out = Outputs::default();
    let body = r#"{"status":"idle"}"#;
    let rested = transom_guest::Frame::notice("session/status", Some("s"), body);
    codec.handle(&mut out, 0, transom_guest::Input::Frame(rested)).expect("no fault");
    let said = out.into_vec();
    let [transom_guest::Output::Unit(unit)] = said.as_slice() else { panic!("{said:?}") };
    let expected = r#"{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn"}}"#;
    assert_eq!(String::from_utf8_lossy(&unit.bytes), expected);
}

#[test]
fn whoever_is_connected_keeps_the_surface() {
    let state = Conversation::open(&mut Outputs::default(), setup()).expect("a setup").suspend();
    let standard = with_options(r#"{"surface":"standard"}"#);
    let mut codec = Conversation::resume(standard, STATE_FORMAT, &state).expect("a state");
    let mut out = Outputs::default();
    let unit = transom_guest::Unit {
        lane: 0,
        form: transom_guest::Form::Text,
        bytes: br#"{"id":1,"method":"session/list"}"#.to_vec(),
    };
    codec.handle(&mut out, 0, transom_guest::Input::Unit(unit)).expect("no fault");
    let said = format!("{:?}", out.into_vec());
    assert!(said.contains("request-refused"), "{said}");
}
