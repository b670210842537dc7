//! What may be done with messages that wait (L-21, decision 46).

use transom_frame::MessageId;

use super::*;
use crate::{agent::queue::QueueAction, event::Target};

fn busy() -> Play {
    let mut play = Play::new();
    play.prompt("one").assemble().text("...");
    play.prompt("two").prompt("three");
    play.told();
    play
}

fn waiting(play: &Play, at: usize) -> MessageId {
    play.agent.inbox().list(Target::NextTurn)[at].id.clone()
}

fn change(play: &mut Play, id: &MessageId, action: QueueAction) -> Result<(), String> {
    play.act(|agent, out, now| agent.change_queue(out, now, id, action))
        .map_err(|failure| failure.code.as_str().to_owned())
}

#[test]
fn an_edit_keeps_id_and_place() {
    let mut play = busy();
    let id = waiting(&play, 0);
    change(&mut play, &id, QueueAction::Edit(vec![Block::text("2")])).unwrap();
    assert_eq!(waiting(&play, 0), id);
    let event = play.events.last().unwrap();
    assert_eq!(event["data"]["start"], 0);
    assert_eq!(event["data"]["removedCount"], 1);
    assert_eq!(event["data"]["outcome"], "canceled");
    assert_eq!(event["data"]["inserted"][0]["id"], id.as_str());
    assert_eq!(event["data"]["inserted"][0]["content"][0]["text"], "2");
}

#[test]
fn a_removed_message_is_gone() {
    let mut play = busy();
    let id = waiting(&play, 1);
    change(&mut play, &id, QueueAction::Remove).unwrap();
    assert_eq!(play.agent.inbox().len(), 1);
    let told = play.told();
    assert!(told.contains("next-turn -1 +0 canceled") && told.contains("discarded 1"), "{told}");
    assert_eq!(change(&mut play, &id, QueueAction::Remove), Err("queue-item-not-found".to_owned()));
}

#[test]
fn a_steered_message_enters_the_running_turn() {
    let mut play = busy();
    let id = waiting(&play, 1);
    change(&mut play, &id, QueueAction::Steer).unwrap();
    assert!(play.told().contains("next-turn -1 +0\n"), "nothing is thrown away");
    play.finish(Finish::Stop).assemble();
    let told = play.told();
    assert!(told.contains("user/message \"three\"") && !told.contains("turn/end"), "{told}");
}

#[test]
fn only_a_running_turn_takes_what_is_steered() {
    let mut play = busy();
    let id = waiting(&play, 0);
    play.cancel(InboxFate::Keep);
    assert_eq!(change(&mut play, &id, QueueAction::Steer), Err("steer-unavailable".to_owned()));
}
