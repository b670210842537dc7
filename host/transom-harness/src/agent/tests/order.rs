//! The order of a plain turn, of queued prompts, and of what is added meanwhile (L-20 to L-34).

use super::*;

#[test]
fn a_prompt_on_an_idle_agent_is_claimed_before_it_is_answered() {
    // Row 1, L-24: what stands here happens inside the send.
    let mut play = Play::new();
    play.prompt("hi");
    let expected = "\
0 agent/inbox/spliced next-turn -null +1
running
1 turn/start 1
2 agent/inbox/spliced next-turn -1 +0
claimed by 1: 1";
    assert_eq!(play.told(), expected);
    assert_eq!(play.agent.status(), Status::Running);
}

#[test]
fn a_plain_answer_is_one_step_and_one_pair_of_statuses() {
    // Row 2, S-96, S-101: the title stands behind the first words of a person.
    let mut play = Play::new();
    play.prompt("hi").assemble().answer("yes");
    let told = play.told();
    let expected = "\
3 step/start 1.1
4 user/message \"hi\"
5 session/title
6 request/header \"initial\"
7 request/context
8 assistant/chunk block-start
9 assistant/chunk text-delta
10 assistant/chunk usage
11 assistant/chunk finish
12 assistant/message [{\"type\":\"text\",\"text\":\"yes\"}] from [8,9,10,11]
13 step/end 1.1
14 turn/end 1 {\"kind\":\"completed\"}
idle";
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn a_second_turn_says_nothing_twice() {
    // S-100: no header, no context, no title.
    let mut play = Play::new();
    play.prompt("hi").assemble().answer("yes").told();
    play.prompt("again").assemble().answer("yes");
    let told = play.told();
    for absent in ["session/title", "request/header", "request/context"] {
        assert!(!told.contains(absent), "{told}");
    }
    assert!(told.contains("turn/start 2"), "{told}");
}

#[test]
fn queued_prompts_share_one_activity() {
    // Row 3, S-110.
    let mut play = Play::new();
    play.prompt("a").prompt("b").prompt("c");
    for _ in 0..3 {
        play.assemble().answer("ok");
    }
    let told = play.told();
    assert_eq!(told.matches("running").count(), 1, "{told}");
    assert_eq!(told.matches("idle").count(), 1, "{told}");
    let starts: Vec<_> = told.lines().filter(|line| line.contains("turn/start")).collect();
    assert_eq!(starts.len(), 3, "{told}");
    assert!(told.ends_with("turn/end 3 {\"kind\":\"completed\"}\nidle"), "{told}");
}

#[test]
fn injected_input_waits_for_somebody_elses_wake() {
    // Row 9.
    let mut play = Play::new();
    play.send("context", Delivery::Inject).unwrap();
    assert_eq!(play.told(), "0 agent/inbox/spliced next-step -null +1");
    play.prompt("go").assemble();
    let told = play.told();
    let context = told.find("user/message \"context\"").unwrap();
    assert!(context < told.find("user/message \"go\"").unwrap(), "{told}");
    assert!(!told.contains("turn/start 2"), "{told}");
}

#[test]
fn steering_after_the_last_word_makes_another_step_of_the_same_turn() {
    // Row 10, L-32.
    let mut play = Play::new();
    play.prompt("go").assemble().text("done");
    play.send("wait", Delivery::Steer).unwrap();
    play.finish(Finish::Stop).assemble().answer("well");
    let told = play.told();
    assert!(told.contains("step/start 1.2"), "{told}");
    assert!(told.contains("user/message \"wait\""), "{told}");
    assert!(!told.contains("turn/start 2"), "{told}");
}

#[test]
fn a_pending_id_is_not_taken_twice() {
    // Row 7.
    let mut play = Play::new();
    play.prompt("running");
    let message = || crate::message::Message {
        id: "same".into(),
        role: crate::message::Role::User,
        content: vec![Block::text("x")],
        source: Source::user(),
    };
    play.act(|agent, out, now| agent.send(out, now, message(), Delivery::Followup)).unwrap();
    let refused = play.act(|agent, out, now| agent.send(out, now, message(), Delivery::Followup));
    assert_eq!(refused.unwrap_err().message, "message \"same\" is already pending");
}

#[test]
fn a_full_inbox_is_refused_and_says_so() {
    let mut play = Play::with(AgentConfig { inbox_messages_max: 1, ..AgentConfig::default() });
    play.prompt("claimed").prompt("waiting");
    let refused = play.send("one more", Delivery::Followup).unwrap_err();
    assert_eq!(refused, "session \"main\" has 1 messages waiting, the most it may have");
}

#[test]
fn what_a_peer_sent_stands_in_the_log_to_the_letter() {
    // S-52: member order, numbers and escapes are the peer's.
    let raw = r#"{"text":"\u00e9","type":"text","extra":1e3}"#;
    let block: Block = serde_json::from_str(raw).unwrap();
    let mut play = Play::new();
    play.act(|agent, out, now| {
        agent.prompt(out, now, vec![block], Source::user(), Delivery::Followup)
    })
    .unwrap();
    play.assemble();
    let mut effects = Vec::new();
    let event = play.events.iter().find(|event| event["type"] == "user/message").unwrap();
    assert_eq!(event["data"]["content"][0]["text"], "é");
    play.agent.cancel(&mut effects, 0, Cause::User, InboxFate::Clear);
    let texts = play.agent.log().history();
    assert_eq!(serde_json::to_string(&texts[0].content[0]).unwrap(), raw);
}
