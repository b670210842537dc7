//! Whatever happens in whatever order, the log keeps its invariants (sections 2 to 9).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Move {
    Prompt,
    Steer,
    Inject,
    Cancel(bool),
    Assemble,
    Text,
    Call,
    Stop,
    Limit,
    Fail(bool),
    Plan(bool),
    Hook(u8),
    EndTool(usize, bool),
    Ring(usize),
    Dispose,
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Prompt),
        1 => Just(Move::Steer),
        1 => Just(Move::Inject),
        1 => any::<bool>().prop_map(Move::Cancel),
        6 => Just(Move::Assemble),
        4 => Just(Move::Text),
        3 => Just(Move::Call),
        4 => Just(Move::Stop),
        1 => Just(Move::Limit),
        1 => any::<bool>().prop_map(Move::Fail),
        6 => any::<bool>().prop_map(Move::Plan),
        10 => any::<u8>().prop_map(Move::Hook),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(at, ok)| Move::EndTool(at, ok)),
        2 => any::<usize>().prop_map(Move::Ring),
        1 => Just(Move::Dispose),
    ]
}

fn play(hooked: bool, moves: &[Move]) -> Play {
    let mut play = lives::play(hooked);
    play.strict = false;
    let mut calls = 0;
    for one in moves {
        let speaks = !play.calling.is_empty();
        match one {
            Move::Prompt => drop(play.send("p", Delivery::Followup)),
            Move::Steer => drop(play.send("s", Delivery::Steer)),
            Move::Inject => drop(play.send("i", Delivery::Inject)),
            Move::Cancel(true) => drop(play.cancel(InboxFate::Clear)),
            Move::Cancel(false) => drop(play.cancel(InboxFate::Keep)),
            Move::Assemble if !play.assembling.is_empty() => drop(play.assemble()),
            Move::Text if speaks => drop(play.text("t")),
            Move::Call if speaks => {
                calls += 1;
                play.call(calls, &format!("c{calls}"), "t");
            }
            Move::Stop if speaks => drop(play.finish(Finish::Stop)),
            Move::Limit if speaks => drop(play.finish(Finish::MaxTokens)),
            Move::Fail(again) if speaks => drop(play.fail(if *again { "SERVER" } else { "AUTH" })),
            Move::Plan(parallel) if !play.planning.is_empty() => {
                let count = play.planning[0].1;
                play.plan(&vec![*parallel; count]);
            }
            Move::Hook(how) if !play.hooks.is_empty() => {
                let verdict = lives::verdict(*how, &play.hooks[0].1.about);
                play.hook(verdict);
            }
            Move::EndTool(at, ok) if !play.tools.is_empty() => {
                let id = play.tools[at % play.tools.len()].1.call_id.clone();
                let outcome =
                    if *ok { ToolOutcome::text("ok") } else { ToolOutcome::error("no", None) };
                play.tool(&id, outcome);
            }
            Move::Ring(at) if !play.timers.is_empty() => {
                let at = at % play.timers.len();
                play.timers.swap(0, at);
                play.ring();
            }
            Move::Dispose => drop(play.dispose()),
            _ => {}
        }
    }
    play
}

/// Checks a log from its first event; the last turn may be open.
fn check(events: &[Value]) {
    let (mut turn, mut open_turn, mut step, mut open_step) = (0, false, 0, false);
    let mut calls: BTreeMap<u64, String> = BTreeMap::new();
    let mut wanted: Vec<String> = Vec::new();
    let mut answered: BTreeSet<String> = BTreeSet::new();
    let mut pending: BTreeMap<&str, usize> = BTreeMap::from([("next-turn", 0), ("next-step", 0)]);
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], at, "seqs are contiguous from 0 (L-5)");
        let data = &event["data"];
        let kind = event["type"].as_str().unwrap();
        let inside =
            matches!(kind, "assistant/chunk" | "assistant/message" | "tool/call" | "tool/result");
        if inside || kind == "user/message" {
            assert!(open_step, "{kind} stands inside a step (S-112)");
        }
        if inside {
            assert_eq!((&data["turn"], &data["step"]), (&Value::from(turn), &Value::from(step)));
        }
        let surface = matches!(kind, "user/message" | "assistant/message" | "tool/result");
        assert_eq!(event.get("surfaceOp").is_some(), surface, "{kind} (L-8)");
        match kind {
            "turn/start" => {
                assert!(!open_turn);
                turn += 1;
                assert_eq!(data["turn"], turn, "turns count from 1");
                (open_turn, step) = (true, 0);
            }
            "turn/end" => {
                assert!(open_turn && !open_step, "a turn ends behind its steps");
                assert_eq!(data["turn"], turn);
                open_turn = false;
            }
            "step/start" => {
                assert!(open_turn && !open_step);
                step += 1;
                assert_eq!(data["step"], step, "steps count from 1 in each turn");
                open_step = true;
                wanted.clear();
                answered.clear();
                calls.clear();
            }
            "step/end" => {
                assert!(open_step);
                let all: BTreeSet<_> = wanted.iter().cloned().collect();
                assert_eq!(all, answered, "every call has one result (L-49)");
                open_step = false;
            }
            "assistant/message" => {
                let blocks = data["message"]["content"].as_array().unwrap();
                let ids = blocks.iter().filter(|block| block["type"] == "tool-call");
                wanted = ids.map(|block| block["id"].as_str().unwrap().to_owned()).collect();
                for source in event["sourceEventSeqs"].as_array().unwrap() {
                    let source = &events[usize::try_from(source.as_u64().unwrap()).unwrap()];
                    assert_eq!(source["type"], "assistant/chunk", "sources are chunks (S-82)");
                }
            }
            "tool/call" => {
                let id = data["callId"].as_str().unwrap().to_owned();
                assert_eq!(Some(&id), wanted.get(calls.len()), "calls start in model order (L-57)");
                calls.insert(u64::try_from(at).unwrap(), id);
            }
            "tool/result" => {
                let source = event["sourceEventSeqs"][0].as_u64().unwrap();
                let id = calls.get(&source).unwrap().clone();
                assert_eq!(data["message"]["source"]["callId"], *id);
                assert_eq!(wanted.get(answered.len()), Some(&id), "results in model order (L-57)");
                assert!(answered.insert(id), "one result a call");
            }
            "agent/inbox/spliced" => {
                let list = pending.get_mut(data["target"].as_str().unwrap()).unwrap();
                let removed = usize::try_from(data["removedCount"].as_u64().unwrap_or(0)).unwrap();
                let inserted = data["inserted"].as_array().unwrap().len();
                assert!(
                    removed + inserted > 0,
                    "a splice that changes nothing is not logged (L-21)"
                );
                *list = list.checked_sub(removed).unwrap() + inserted;
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_leaves_a_sound_log(
        hooked in any::<bool>(),
        moves in prop::collection::vec(any_move(), 0..120),
    ) {
        let mut play = play(hooked, &moves);
        check(&play.events);

        // Whatever was going on, disposal brings it to an end once its tools are given up.
        play.dispose();
        while !play.disposed {
            prop_assert!(!play.timers.is_empty(), "nothing is left that could end it");
            play.ring();
        }
        check(&play.events);
        let starts = play.events.iter().filter(|event| event["type"] == "turn/start").count();
        let ends = play.events.iter().filter(|event| event["type"] == "turn/end").count();
        prop_assert_eq!(starts, ends);
    }

    #[test]
    fn the_same_moves_give_the_same_log(
        hooked in any::<bool>(),
        moves in prop::collection::vec(any_move(), 0..60),
    ) {
        prop_assert_eq!(play(hooked, &moves).events, play(hooked, &moves).events);
    }
}
