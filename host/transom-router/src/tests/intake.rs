//! What happens to a session while the images of a prompt are on their way in (design §4, rule 4; L-47).

use super::{
    images::{KEPT, SEEN, admitted, house, look},
    *,
};

/// A session into whose inbox a prompt with an image is on its way, and the story is in between.
fn under_way(images: Images) -> House {
    let mut house = house(images);
    house.sight = Some(true);
    house.held = Some(VecDeque::new());
    house.ask(1, "session/prompt", Some("main"), look());
    house
}

fn text(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn cancel(house: &mut House, fate: &str) {
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": fate }));
}

/// The lists into which prompts were put, in order.
fn targets(house: &House) -> Vec<Value> {
    let spliced = house.log.iter().filter(|append| &*append.kind == "agent/inbox/spliced");
    let events = spliced.map(|append| serde_json::from_str::<Value>(&append.text).unwrap());
    let inserted = events.filter(|event| event.pointer("/data/inserted/0").is_some());
    inserted.map(|event| event["data"]["target"].clone()).collect()
}

const CANCELLED: &str =
    "failure session/prompt cancelled: the prompt was cancelled before it entered the inbox";

/// L-47, A-131: whether it is still asked if the model takes images, or these are being kept already.
#[test]
fn a_cancel_that_clears_withdraws_the_prompt_under_way_and_those_behind_it() {
    for images in [SEEN, KEPT] {
        let mut house = under_way(images);
        house.prompt("main", "second");
        house.ask(1, "session/rename", Some("main"), json!({ "title": "t" }));
        house.ask(1, "session/prompt", Some("main"), look());
        cancel(&mut house, "clear");
        let refused = ["1", "1", "1"].map(|peer| format!("{peer} {CANCELLED}")).join("\n");
        assert_eq!(house.told(), format!("{refused}\n1 reply session/cancel"), "{images:?}");
        // S-108: nothing of them was pending, and an idle agent has nothing to say.
        assert_eq!(house.kinds("main").last().unwrap(), "session/title", "what else waited begins");
        // Too late to matter.
        house.answer_held();
        house.commit();
        assert_eq!(admitted(&house), [] as [Value; 0], "{images:?}");
        assert!(house.told().ends_with("reply session/rename"));
        assert!(house.calls.is_empty(), "no turn began");
        house.prompt("main", "later");
        assert_eq!(admitted(&house), [text("later")], "{images:?}");
    }
}

#[test]
fn a_late_answer_does_not_let_anybody_pass_the_next_prompt() {
    let mut house = under_way(KEPT);
    cancel(&mut house, "clear");
    house.ask(1, "session/prompt", Some("main"), look());
    house.prompt("main", "behind");
    let late = house.held.as_mut().and_then(VecDeque::pop_front).unwrap();
    house.happen(late);
    assert_eq!(admitted(&house), [] as [Value; 0], "both wait for the second answer");
    house.answer_held();
    assert_eq!(admitted(&house), [text("kept"), text("behind")]);
}

#[test]
fn a_cancel_that_keeps_lets_them_enter_in_order() {
    let mut house = under_way(KEPT);
    house.prompt("main", "second");
    cancel(&mut house, "keep");
    assert_eq!(house.told(), "1 reply session/cancel");
    house.answer_held();
    assert_eq!(admitted(&house), [text("kept"), text("second")]);
    house.commit();
    in_order(&house.told(), &["running main", "reply session/prompt", "reply session/prompt"]);
}

/// A directory is looked at whatever becomes of prompts.
#[test]
fn a_cancel_that_clears_withdraws_prompts_behind_a_look_at_a_directory_and_nothing_else() {
    let mut house = house(KEPT);
    house.held = Some(VecDeque::new());
    house.ask(1, "session/directory", Some("main"), json!({ "set": "/w" }));
    house.prompt("main", "words");
    house.ask(1, "session/rename", Some("main"), json!({ "title": "t" }));
    cancel(&mut house, "clear");
    assert_eq!(house.told(), format!("1 {CANCELLED}\n1 reply session/cancel"));
    house.answer_held();
    house.commit();
    in_order(&house.told(), &["reply session/directory", "reply session/rename"]);
    assert!(!admitted(&house).contains(&text("words")));
}

#[test]
fn a_steer_with_an_image_enters_the_running_turn_ahead_of_one_behind_it() {
    let mut house = house(KEPT);
    house.prompt("main", "go");
    house.held = Some(VecDeque::new());
    let mut steer = look();
    steer["mode"] = "steer".into();
    house.ask(1, "session/prompt", Some("main"), steer);
    let words = json!({ "content": text("and"), "mode": "steer" });
    house.ask(1, "session/prompt", Some("main"), words);
    house.answer_held();
    assert_eq!(admitted(&house), [text("go"), text("kept"), text("and")]);
    assert_eq!(targets(&house), ["next-turn", "next-step", "next-step"]);
}

/// An edit takes words only, whenever it comes (B-153).
#[test]
fn an_edit_that_carries_an_image_waits_its_turn_and_is_refused() {
    let mut house = house(KEPT);
    house.watch_all(1, "owned", None);
    house.prompt("main", "go");
    house.prompt("main", "waits");
    house.commit();
    let item = house.queue()[0].clone();
    house.held = Some(VecDeque::new());
    house.ask(1, "session/prompt", Some("main"), look());
    house.told();
    let edit = json!({ "kind": "edit", "content": look()["content"] });
    let change = json!({ "itemId": item["id"], "action": edit });
    house.ask(1, "session/queue", Some("main"), change);
    assert_eq!(house.told(), "", "it waits");
    house.answer_held();
    house.commit();
    let text = "invalid: a message that waits can be edited to text blocks only";
    assert!(house.told().contains(&format!("1 failure session/queue {text}")));
    assert_eq!(house.queue()[0], item);
    assert_eq!(house.kept.len(), 1, "of the prompt's own images only");
}

#[test]
fn a_fork_that_is_asked_for_meanwhile_has_the_turns_before_it() {
    let mut house = house(KEPT);
    house.prompt("main", "one");
    house.commit();
    house.answer("one");
    house.commit();
    house.held = Some(VecDeque::new());
    house.ask(1, "session/prompt", Some("main"), look());
    house.ask(1, "session/fork", Some("main"), json!({}));
    house.told();
    house.answer_held();
    house.commit();
    in_order(&house.told(), &["reply session/prompt", "reply session/fork"]);
    let (_, frame) =
        house.frames.iter().rev().find(|(_, frame)| &*frame.name == "session/fork").unwrap();
    let fork = frame.session.clone().unwrap();
    let copied = house.log.iter().filter(|append| append.session == fork);
    let copied: Vec<_> = copied.map(|append| &*append.text).collect();
    assert!(copied.iter().any(|text| text.contains("\"one\"")), "{copied:?}");
    assert!(!copied.iter().any(|text| text.contains("\"kept\"")), "{copied:?}");
}

/// `frames.md`, column C: a prompt runs to completion, whoever has asked.
#[test]
fn a_prompt_whose_peer_leaves_still_enters_a_session_that_stays() {
    let mut house = house(KEPT);
    house.connect(2, facts(Reach::All));
    house.held = Some(VecDeque::new());
    house.ask(2, "session/prompt", Some("main"), look());
    house.happen(Event::Disconnected { connection: ConnectionId(2) });
    house.connected.retain(|connection| *connection != 2);
    house.answer_held();
    assert_eq!(admitted(&house), [text("kept")]);
}

#[test]
fn everybody_who_waits_is_told_when_the_owner_leaves() {
    let mut house = house(KEPT);
    house.connect(2, facts(Reach::All));
    house.held = Some(VecDeque::new());
    for _ in 0..2 {
        house.ask(2, "session/prompt", Some("main"), look());
    }
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    house.connected.retain(|connection| *connection != 1);
    house.commit();
    house.answer_held();
    let refused = "2 failure session/prompt session-disposed: session \"main\" was disposed";
    assert_eq!(house.told(), format!("{refused}\n{refused}"));
    assert_eq!(admitted(&house), [] as [Value; 0]);
}

#[test]
fn a_close_that_is_asked_for_meanwhile_waits_for_the_prompt_and_cancels_it() {
    let mut house = under_way(KEPT);
    house.ask(1, "session/close", Some("main"), json!({}));
    house.commit();
    assert_eq!(house.told(), "", "it does not overtake");
    house.answer_held();
    house.commit();
    let expected = ["reply session/prompt", "session/removed main", "reply session/close"];
    in_order(&house.told(), &expected);
    assert_eq!(admitted(&house), [text("kept")]);
    let end = house.log.iter().rfind(|append| &*append.kind == "turn/end").unwrap();
    assert!(end.text.contains("disposed"), "L-51: {}", end.text);
}

/// L-70: a run that nobody wants any more is cancelled as a person would cancel it.
#[test]
fn a_delegation_that_is_stopped_withdraws_what_was_on_its_way_to_the_child() {
    let mut house = house(KEPT);
    house.prompt("main", "go");
    house.delegate(1, "main");
    house.commit();
    let child = house.child(1);
    house.connect(2, facts(Reach::All));
    house.held = Some(VecDeque::new());
    house.ask(2, "session/prompt", Some(&child), look());
    house.told();
    house.happen(Event::StopDelegation { run: RunId(1) });
    assert_eq!(house.told(), format!("2 {CANCELLED}"));
    house.answer_held();
    assert!(!admitted(&house).contains(&text("kept")));
}
