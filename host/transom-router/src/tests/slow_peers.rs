//! Peers that do not keep up: their cursor rests, and too far behind they are let go (decision 21).

use super::*;

#[test]
fn a_resting_peer_is_shown_everything_later_from_the_store() {
    let mut house = House::with_session();
    house.happen(Event::Rest { connection: ConnectionId(1), resting: true });
    house.prompt("main", "hi");
    house.commit();
    house.answer("a long answer");
    house.commit();
    assert_eq!(house.told(), "", "nothing is pushed at a peer that rests");
    house.happen(Event::Rest { connection: ConnectionId(1), resting: false });
    let told = house.told();
    let seqs: Vec<_> = told
        .lines()
        .filter_map(|line| line.strip_prefix("1 event main "))
        .map(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap())
        .collect();
    assert_eq!(seqs, (0..seqs.len()).collect::<Vec<_>>(), "no gap, nothing twice");
    assert!(told.ends_with("1 idle main"), "{told}");
    let receipt = told.find("reply session/prompt").unwrap();
    assert!(told.find("event main 2").unwrap() < receipt, "order is kept: {told}");
    assert!(receipt < told.find("event main 3").unwrap(), "{told}");
}

#[test]
fn a_peer_that_handles_nothing_gets_no_more_after_a_while() {
    let mut house = House::new();
    house.connect(1, Facts { live_notices_max: 1000, ..facts(Reach::Owned) });
    for _ in 0..600 {
        house.ask(1, "host/describe", None, json!({}));
    }
    let given = house.lines.len();
    assert_eq!(given, 512, "so many are pushed at a peer that handles none");
    house.told();
    house.happen(Event::Handled { connection: ConnectionId(1), frames: given });
    assert!(!house.told().is_empty(), "what was handled makes room");
}

#[test]
fn a_peer_that_falls_too_far_behind_is_told_and_let_go() {
    let mut house = House::with_session();
    house.happen(Event::Rest { connection: ConnectionId(1), resting: true });
    for _ in 0..20 {
        house.ask(1, "host/describe", None, json!({}));
    }
    assert_eq!(house.told(), "1 stream/lagged");
    house.happen(Event::Rest { connection: ConnectionId(1), resting: false });
    house.prompt("main", "hello?");
    house.commit();
    assert_eq!(house.told(), "", "whoever lags is told nothing any more");
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    house.commit();
    assert_eq!(house.quiesced.len(), 1);
}

#[test]
fn events_alone_never_make_a_peer_lag() {
    // They are in the store; only what is not is bounded.
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.happen(Event::Rest { connection: ConnectionId(1), resting: true });
    house.told();
    for _ in 0..1000 {
        house.chunk(Chunk::TextDelta { index: 0, text: "x".to_owned() });
    }
    house.commit();
    assert_eq!(house.told(), "");
    house.happen(Event::Rest { connection: ConnectionId(1), resting: false });
    loop {
        let given = house.lines.iter().filter(|line| line.contains("assistant/chunk")).count();
        if given == 1000 {
            break;
        }
        let before = house.lines.len();
        house.happen(Event::Handled { connection: ConnectionId(1), frames: 512 });
        assert!(house.lines.len() > before, "stuck at {given}");
    }
    assert!(!house.told().contains("stream/lagged"));
}
