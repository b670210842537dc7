//! Sessions that begin with events of another: what they take over, and what they do not (L-10, L-11).

use super::*;
use crate::{agent::InboxFate, event::Target, restore::fork};

/// The header of a session that begins with so many events of `main`.
fn forked(seed: usize) -> Header {
    Header {
        id: "fork".into(),
        parent_session: Some("main".into()),
        seed_length: Some(seed as u64),
        ..header()
    }
}

/// A log of one turn that has ended, while another message waited and a job ran.
fn busy() -> Vec<Arc<str>> {
    let mut agent = agent();
    let mut effects = Vec::new();
    for text in ["one", "two"] {
        let content = vec![Block::text(text)];
        agent.prompt(&mut effects, 5, content, Source::user(), Delivery::Followup).unwrap();
    }
    let mut events = run(&mut agent, effects);
    let first = events.iter().position(|text| parsed(text)["type"] == "turn/end").unwrap();
    events.truncate(first);
    let job = r#"{"jobId":"bash-1","kind":"bash","label":"make","startedAt":5,"toolCall":{"callId":"c0"}}"#;
    for (kind, data) in
        [("job/registered", job), ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#)]
    {
        events.push(event(events.len(), kind, data));
    }
    events
}

fn event(seq: usize, kind: &str, data: &str) -> Arc<str> {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":5,"data":{data}}}"#).into()
}

/// The log as it is once the closers are stored.
fn with(events: &[Arc<str>], closers: &[crate::event::Event]) -> Vec<Arc<str>> {
    let closers = closers.iter().map(|event| Arc::clone(&event.text));
    events.iter().cloned().chain(closers).collect()
}

#[test]
fn a_fork_takes_the_conversation_and_nothing_that_is_under_way() {
    // L-11, P-78.
    let events = busy();
    let source = restore(header(), &events, 9).unwrap();
    assert_eq!((source.inbox.len(), source.log.jobs.len()), (2, 1), "a message and a lost job");
    let restored = fork(forked(events.len()), &events, 9).unwrap();
    assert_eq!(kinds(&restored.closers), ["session/end-seed"], "L-10");
    assert_eq!(restored.closers[0].seq, events.len() as u64);
    assert!(restored.inbox.is_empty());
    assert!(restored.log.jobs.is_empty());
    assert_eq!(restored.log.last_turn, 1);
    assert_eq!(restored.log.history(), source.log.history());
}

#[test]
fn a_fork_does_not_begin_inside_a_turn() {
    // L-11, `OPEN_TURN`.
    let events = busy();
    for cut in 2..events.len() {
        let open = parsed(&events[cut - 1])["type"] != "turn/end";
        let made = fork(forked(cut), &events[..cut], 9);
        assert_eq!(made.is_err(), open, "{cut}");
        if let Err(error) = made {
            assert_eq!(error, RestoreError::OpenTurn { turn: 1, seq: cut as u64 - 1 });
        }
    }
    // Before the first turn there is nothing open.
    assert!(fork(forked(1), &events[..1], 9).is_ok());
    assert!(fork(forked(0), &[], 9).unwrap().log.history().is_empty());
}

#[test]
fn a_fork_that_is_resumed_still_has_nothing_of_its_source() {
    // Whether or not the end of the seed had been stored.
    let events = busy();
    let made = fork(forked(events.len()), &events, 9).unwrap();
    for log in [events.clone(), with(&events, &made.closers)] {
        let restored = restore(forked(events.len()), &log, 10).unwrap();
        assert!(restored.inbox.is_empty(), "{} events", log.len());
        assert!(restored.log.jobs.is_empty());
        let added = usize::from(log.len() == events.len());
        assert_eq!(restored.closers.len(), added, "{:?}", kinds(&restored.closers));
    }
}

#[test]
fn what_waits_in_a_fork_itself_waits_after_a_resume() {
    let events = busy();
    let config = Arc::new(AgentConfig::default());
    let header = forked(events.len());
    let (mut agent, closers) =
        Agent::fork(header.clone(), &events, Route::default(), config, Chance::new([4; 32]), 9)
            .unwrap();
    let mut effects = Vec::new();
    for text in ["mine", "mine too"] {
        let content = vec![Block::text(text)];
        agent.prompt(&mut effects, 11, content, Source::user(), Delivery::Followup).unwrap();
    }
    agent.cancel(&mut effects, 12, crate::event::Cause::User, InboxFate::Keep);
    let more: Vec<Arc<str>> = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Append(event) => Some(event.text),
            _ => None,
        })
        .collect();
    let turn = more.iter().find(|text| parsed(text)["type"] == "turn/start").unwrap();
    assert_eq!(parsed(turn)["data"]["turn"], 2, "numbers go on");
    let mut log = with(&events, &closers);
    log.extend(more);
    let restored = restore(header, &log, 20).unwrap();
    let [waits] = restored.inbox.list(Target::NextTurn) else { panic!("{:?}", restored.inbox) };
    assert_eq!(waits.content, [Block::text("mine too")]);
    assert!(restored.inbox.list(Target::NextStep).is_empty());
}

#[test]
fn a_fork_of_a_fork_leaves_both_behind() {
    let first = busy();
    let made = fork(forked(first.len()), &first, 9).unwrap();
    let mut log = with(&first, &made.closers);
    let message = r#"{"role":"user","content":[],"source":{"kind":"user"},"id":"m"}"#;
    let splice = format!(r#"{{"target":"next-turn","start":0,"inserted":[{message}]}}"#);
    log.push(event(log.len(), "agent/inbox/spliced", &splice));
    assert_eq!(restore(forked(first.len()), &log, 10).unwrap().inbox.len(), 1);
    let again = fork(forked(log.len()), &log, 11).unwrap();
    assert!(again.inbox.is_empty());
    let closed = with(&log, &again.closers);
    assert!(restore(forked(log.len()), &closed, 12).unwrap().inbox.is_empty());
}

#[test]
fn a_fork_whose_copy_is_not_whole_is_not_continued() {
    // It was cut before anybody could see it.
    let events = busy();
    let error = restore(forked(events.len() + 1), &events, 9).unwrap_err();
    let (expected, got) = (events.len() as u64 + 1, events.len() as u64);
    assert_eq!(error, RestoreError::Seed { expected, got });
    assert!(error.to_string().starts_with("corrupt session log: "), "{error}");
}
