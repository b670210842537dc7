//! The player itself: what it takes for equal, what it objects to, and that it can fail.

use serde_json::{Value, json};

use crate::support::{
    departures::{self, Departure},
    play::{Binding, Player},
    vector::{Bindings, Line, What},
    wire::{Signal, Wire},
};

const ID: [&str; 2] =
    ["0b0e1a52-5d0c-4a57-9f53-1c2f5b7e0a01", "0b0e1a52-5d0c-4a57-9f53-1c2f5b7e0a02"];

/// Compares pairs in order with the same bindings; gives the first difference.
fn compared(pairs: &[(Value, Value)]) -> Result<(), String> {
    let mut bindings = Bindings::new(&[("<cwd>", "/somewhere")]);
    pairs.iter().try_for_each(|(expected, found)| {
        bindings.compare(expected, found).map_err(|difference| difference.to_string())
    })
}

#[test]
fn placeholders_stand_for_what_they_name() {
    for (expected, found) in [
        (json!("<ts>"), json!(1_796_026_619_244_u64)),
        (json!("<ms>"), json!(0)),
        (json!("<cwd>/sub"), json!("/somewhere/sub")),
        (json!("<id:1>"), json!(ID[0])),
        (json!("job bash-<id:1>"), json!("job bash-0123456789abcdef")),
        (json!("<system-prompt>"), json!("anything at all")),
        (json!({"parameters": "<parameters>"}), json!({"parameters": {"type": "object"}})),
        (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1})),
    ] {
        assert_eq!(compared(&[(expected.clone(), found)]), Ok(()), "{expected}");
    }
    for (expected, found) in [
        (json!("<ts>"), json!("1796026619244")),
        (json!("<ts>"), json!(12)),
        (json!("<ms>"), json!(1.5)),
        (json!("<id:1>"), json!("not an id")),
        (json!("<system-prompt>"), json!("")),
        (json!({"a": 1}), json!({"a": 1, "b": 2})),
        (json!({"a": 1, "b": 2}), json!({"a": 1})),
        (json!([1, 2]), json!([1])),
        (json!("<parameters>"), json!("text")),
    ] {
        assert!(compared(&[(expected.clone(), found)]).is_err(), "{expected}");
    }
}

#[test]
fn an_id_is_one_value_and_no_other_is() {
    let first = (json!("<id:1>"), json!(ID[0]));
    assert_eq!(compared(&[first.clone(), first.clone()]), Ok(()));
    assert!(compared(&[first.clone(), (json!("<id:1>"), json!(ID[1]))]).is_err());
    assert!(compared(&[first, (json!("<id:2>"), json!(ID[0]))]).is_err());
}

#[test]
fn a_difference_names_its_place() {
    let expected = json!({"params": {"event": {"data": [1, {"turn": 1}]}}});
    let found = json!({"params": {"event": {"data": [1, {"turn": 2}]}}});
    assert_eq!(
        compared(&[(expected, found)]),
        Err("at /params/event/data/1/turn\n  expected 1\n  found    2".to_owned())
    );
}

/// A wire on which these lines have been said already.
struct Said(Vec<String>);

impl Wire for Said {
    fn write(&mut self, _bytes: &[u8]) {}

    fn close_input(&mut self) {}

    fn signal(&mut self, _signal: Signal) {}

    fn line(&mut self) -> Option<String> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    fn exit(&mut self) -> i32 {
        0
    }

    fn diagnostics(&self) -> String {
        String::new()
    }
}

fn answer(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {}})
}

fn event(session: &str, seq: u64) -> Value {
    let event = json!({"type": "turn/start", "seq": seq, "time": 1_796_026_619_244_u64, "data": {"turn": 1}});
    json!({"jsonrpc": "2.0", "method": "session.event", "params": {"sessionId": session, "event": event}})
}

/// Plays requests that were sent at once and the frames recorded behind them against the frames that come.
/// Gives the departures that were not needed.
fn played(
    requests: u64,
    recorded: &[Value],
    said: &[Value],
    departures: &str,
) -> Result<Vec<usize>, String> {
    let departures: Vec<Departure> = departures::parse(departures).expect("departures");
    let ask = |id| format!("{{\"id\":{id},\"method\":\"m\"}}\n").into_bytes();
    let mut what: Vec<_> = (1..=requests).map(|id| What::Send(vec![ask(id)])).collect();
    what.extend(recorded.iter().cloned().map(What::Receive));
    what.extend([What::OutputEnded, What::Exit(0)]);
    let lines: Vec<_> = what
        .into_iter()
        .enumerate()
        .map(|(index, what)| Line { number: index + 1, what })
        .collect();
    let player =
        Player { file: "test.jsonl", binding: Binding::Full, departures: &departures, known: &[] };
    let mut wire = Said(said.iter().map(Value::to_string).collect());
    player.play(&lines, &mut wire).map(|played| played.unneeded)
}

#[test]
fn order_is_free_only_behind_several_requests() {
    let (a, b) = (answer(1), event("main", 0));
    assert_eq!(
        played(1, &[a.clone(), b.clone()], &[a.clone(), b.clone()], "departure = []"),
        Ok(vec![])
    );
    assert!(played(1, &[a.clone(), b.clone()], &[b.clone(), a.clone()], "departure = []").is_err());
    let both = [a, answer(2), b, event("main", 1), event("other", 0)];
    let mixed = [event("other", 0), event("main", 0), answer(2), event("main", 1), answer(1)];
    assert_eq!(played(2, &both, &mixed, "departure = []"), Ok(vec![]));
    let swapped = [event("main", 1), event("main", 0), answer(2), answer(1), event("other", 0)];
    let wrong =
        played(2, &both, &swapped, "departure = []").expect_err("a session keeps its order");
    assert!(wrong.contains("seq"), "{wrong}");
}

#[test]
fn one_frame_more_or_less_is_noticed() {
    let frames = [answer(1), event("main", 0)];
    assert!(played(1, &frames, &frames[..1], "departure = []").is_err());
    let more = [answer(1), event("main", 0), event("main", 1)];
    assert!(played(1, &frames, &more, "departure = []").is_err());
    let gap = [answer(1), event("main", 0), event("main", 2)];
    assert!(
        played(1, &gap, &gap, "departure = []").is_err(),
        "a gap in seq is one even if it was recorded"
    );
}

#[test]
fn a_departure_is_followed_and_must_be_needed() {
    let lines = |instead: &Value| {
        format!(
            "[[departure]]\nrule = \"S-0\"\nbecause = \"a test\"\nfile = \"test.jsonl\"\nlines = [2, 2]\ninstead = ['''{instead}''']\n"
        )
    };
    let refusal = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}});
    assert_eq!(
        played(1, &[answer(1)], std::slice::from_ref(&refusal), &lines(&refusal)),
        Ok(vec![])
    );
    assert!(
        played(1, &[answer(1)], &[answer(1)], &lines(&refusal)).is_err(),
        "the recorded frame came"
    );
    assert_eq!(
        played(1, &[answer(1)], &[answer(1)], &lines(&answer(1))),
        Ok(vec![0]),
        "not needed"
    );

    let place = |instead: &str| {
        format!(
            "[[departure]]\nrule = \"S-0\"\nbecause = \"a test\"\nfile = \"test*\"\nevent = \"turn/start\"\npath = \"/params/event/data/turn\"\ninstead = ['{instead}']\n"
        )
    };
    let mut other = event("main", 0);
    other["params"]["event"]["data"]["turn"] = json!(7);
    assert_eq!(played(1, &[event("main", 0)], &[other], &place("7")), Ok(vec![]));
    assert_eq!(played(1, &[event("main", 0)], &[event("main", 0)], &place("1")), Ok(vec![0]));
}
