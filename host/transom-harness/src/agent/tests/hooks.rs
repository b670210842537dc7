//! Hooks: what they are asked, in which order, and what becomes of their answers (L-31, L-35, L-44, L-55, L-58).

use super::*;
use crate::{
    agent::{Partial, Permissions},
    hooks::{CallVerdict, Context, HookAbout, HookPoints, StepVerdict, Verdict},
    permissions::{
        Access, ApprovalPolicy, Mode, Outcome,
        presets::{Defaults, PRESETS},
    },
    ports::Wanted,
};

const NONE: HookPoints = HookPoints {
    pre_step: false,
    pre_execute: false,
    post_execute: false,
    turn_stopping: false,
    result: false,
};

fn play(hooks: HookPoints) -> Play {
    let permissions = Permissions {
        defaults: Defaults::of(&PRESETS[1]),
        pins: false,
        confines: false,
        approvals: true,
        children: ApprovalPolicy::Never,
    };
    let config = AgentConfig {
        hooks,
        permissions,
        prolonged_max: 2,
        steps_per_turn_max: 9,
        ..AgentConfig::default()
    };
    Play::with(AgentConfig { runtime_context: false, ..config })
}

fn told(text: &str) -> Vec<Context> {
    vec![Context { from: "hook:one".to_owned(), text: text.to_owned() }]
}

fn proceed() -> Verdict {
    Verdict::Step(StepVerdict::Proceed { contexts: Vec::new() })
}

/// A turn whose model has asked for these calls, all of them exclusive unless `parallel`.
fn with_calls(hooks: HookPoints, ids: &[&str], parallel: bool) -> Play {
    let mut play = play(hooks);
    play.strict = true;
    play.prompt("go").assemble();
    for (index, id) in ids.iter().enumerate() {
        play.call(u32::try_from(index).unwrap(), id, "t");
    }
    play.finish(Finish::ToolCalls).plan(&vec![parallel; ids.len()]);
    play.told();
    play
}

fn judged(hooks: HookPoints) -> Play {
    let mut play = with_calls(hooks, &["c"], false);
    play.judge(Judgement::Run);
    play
}

#[test]
fn a_hook_that_rejects_a_step_blocks_the_turn() {
    // Row 11: no step, and the second prompt waits for the next waking send.
    let mut play = play(HookPoints { pre_step: true, ..NONE });
    play.prompt("one").prompt("two");
    play.told();
    play.assemble();
    assert_eq!(play.told(), "", "the decision comes before step/start (L-34)");
    let HookAbout::PreStep { messages } = &play.hooks[0].1.about else { panic!("not a step") };
    assert_eq!(messages[0].content, [Block::text("one")]);
    assert_eq!((play.hooks[0].1.turn, play.hooks[0].1.step), (1, 1));
    play.hook(Verdict::Step(StepVerdict::Reject));
    let expected = "4 hook/result pre-step one said\n5 turn/end 1 {\"kind\":\"blocked\"}\nidle";
    assert_eq!(play.told(), expected);
    assert_eq!(play.agent.inbox().len(), 1);
}

#[test]
fn contexts_of_a_hook_enter_behind_what_was_claimed() {
    let mut play = play(HookPoints { pre_step: true, ..NONE });
    play.prompt("one").assemble();
    play.told();
    play.hook(Verdict::Step(StepVerdict::Proceed { contexts: told("mind this") }));
    let said = play.told();
    let expected = "3 hook/result pre-step one said\n4 step/start 1.1\n5 user/message \"one\"\n6 user/message \"mind this\"\n7 session/title";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(play.events[6]["data"]["source"]["plugin"], "hook:one");
}

#[test]
fn every_step_is_decided_on_its_own() {
    let mut play = play(HookPoints { pre_step: true, ..NONE });
    play.prompt("one").assemble().hook(proceed());
    play.call(0, "c", "t").finish(Finish::ToolCalls).plan(&[false]);
    play.tool("c", ToolOutcome::text("ok")).assemble();
    play.told();
    play.hook(Verdict::Step(StepVerdict::Reject));
    assert!(play.told().contains("turn/end 1 {\"kind\":\"blocked\"}"), "also a later one");
}

#[test]
fn a_cancel_does_not_wait_for_a_hook() {
    for (hooks, expected) in [
        (HookPoints { pre_step: true, ..NONE }, 0),
        (HookPoints { turn_stopping: true, ..NONE }, 1),
    ] {
        let mut play = play(hooks);
        play.prompt("one").assemble();
        if hooks.turn_stopping {
            play.answer("done");
        }
        play.told();
        play.cancel(InboxFate::Clear);
        assert!(play.hooks.is_empty(), "it is told that nobody waits");
        let steps = play.events.iter().filter(|event| event["type"] == "step/end").count();
        assert_eq!(steps, expected);
        assert!(
            play.told().ends_with("{\"kind\":\"aborted\",\"reason\":{\"kind\":\"user\"}}\nidle")
        );
    }
}

#[test]
fn a_hook_narrows_what_the_rules_let_through() {
    let hooks = HookPoints { pre_execute: true, ..NONE };

    let mut play = judged(hooks);
    assert!(play.tools.is_empty(), "not before the hook has said so");
    assert_eq!(play.hooks[0].1.about.point(), "pre-execute");
    play.hook(Verdict::Call(CallVerdict::Allow));
    assert_eq!(play.tools.len(), 1);

    let mut play = judged(hooks);
    play.told();
    play.hook(Verdict::Call(CallVerdict::Deny { reason: "not on Fridays".to_owned() }));
    let said = play.told();
    assert!(said.contains("tool/result \"c\" \"Error: not on Fridays\" null"), "{said}");
    assert!(play.tools.is_empty());

    // A person decides, and a rejection has the usual words (L-62).
    let mut play = judged(hooks);
    play.hook(Verdict::Call(CallVerdict::Ask { reason: Some("a Friday".to_owned()) }));
    assert_eq!(play.asks[0].reason.as_deref(), Some("a Friday"));
    let approval = play.asks[0].id.clone();
    play.happen(Happened::Decided { approval, outcome: Outcome::Rejected });
    assert!(play.told().contains("Error: the user rejected tool \\\"t\\\""));
}

#[test]
fn a_hook_allows_nothing_that_the_rules_do_not() {
    let hooks = HookPoints { pre_execute: true, ..NONE };

    let mut play = with_calls(hooks, &["c"], false);
    play.judge(Judgement::Refuse(ToolOutcome::error("denied", None)));
    assert!(play.hooks.is_empty(), "what is denied is not asked about");

    let wanted = Wanted {
        reason: Some("outside".to_owned()),
        granted: Access { mode: Mode::DangerFullAccess, ..Access::FULL },
        rejected: ToolOutcome::error("rejected", None),
        cancelled: ToolOutcome::error("cancelled", None),
        unavailable: ToolOutcome::error("unavailable", None),
        begun: true,
    };
    let mut play = with_calls(hooks, &["c"], false);
    play.judge(Judgement::Ask(Box::new(wanted.clone())));
    play.hook(Verdict::Call(CallVerdict::Allow));
    assert_eq!(play.asks[0].reason.as_deref(), Some("outside"), "a person is asked all the same");

    let mut play = with_calls(hooks, &["c"], false);
    play.judge(Judgement::Ask(Box::new(wanted)));
    play.hook(Verdict::Call(CallVerdict::Ask { reason: Some("a Friday".to_owned()) }));
    assert_eq!(play.asks.len(), 1, "once");
    assert_eq!(play.asks[0].reason.as_deref(), Some("outside; a Friday"));
    let approval = play.asks[0].id.clone();
    play.happen(Happened::Decided { approval, outcome: Outcome::AllowedOnce });
    assert_eq!(play.tools[0].1.access.mode, Mode::DangerFullAccess, "as the rules granted it");
}

#[test]
fn where_nobody_can_be_asked_a_hook_that_asks_denies() {
    // L-62.
    for (reason, text) in [
        (Some("a Friday"), "Error: a Friday"),
        (None, "Error: tool \\\"t\\\" requires approval (not yet supported)"),
    ] {
        let mut play = Play::with(AgentConfig {
            hooks: HookPoints { pre_execute: true, ..NONE },
            ..AgentConfig::default()
        });
        play.prompt("go").assemble().call(0, "c", "t").finish(Finish::Stop).plan(&[false]);
        play.told();
        play.hook(Verdict::Call(CallVerdict::Ask { reason: reason.map(str::to_owned) }));
        let said = play.told();
        assert!(said.contains(text) && !said.contains("approval/asked"), "{said}");
    }
}

#[test]
fn an_answer_to_another_question_is_a_refusal() {
    let mut play = judged(HookPoints { pre_execute: true, ..NONE });
    play.hook(proceed());
    assert!(play.tools.is_empty());
    assert!(play.told().contains("Error: a hook gave no answer to what it was asked"));
}

#[test]
fn results_are_reviewed_in_the_order_of_the_calls() {
    // L-57: bodies overlap, policies do not.
    let mut play = with_calls(HookPoints { post_execute: true, ..NONE }, &["a", "b"], true);
    play.judge(Judgement::Run).judge(Judgement::Run);
    play.tool("b", ToolOutcome::text("two"));
    assert!(play.hooks.is_empty(), "the first one's result is due first");
    play.tool("a", ToolOutcome::text("one"));
    assert_eq!(play.hooks.len(), 1);
    play.told();
    let other = ToolOutcome::text("changed");
    play.hook(Verdict::Outcome(Box::new(other)));
    let said = play.told();
    assert!(said.contains("tool/result \"a\" \"changed\" null"), "{said}");
    let HookAbout::PostExecute { call, outcome } = &play.hooks[0].1.about else {
        panic!("no result")
    };
    assert_eq!((call.id.as_str(), &outcome.content), ("b", &vec![Block::text("two")]));
    let blocked =
        ToolOutcome::text("two").replaced(vec![Block::text("keep this to yourself")], None);
    play.hook(Verdict::Outcome(Box::new(blocked)));
    let said = play.told();
    assert!(said.contains("tool/result \"b\" \"keep this to yourself\" null"), "{said}");
    assert!(said.ends_with("step/end 1.1"));
}

#[test]
fn what_nobody_has_reviewed_is_not_shown_when_the_turn_is_cancelled() {
    let mut play = judged(HookPoints { post_execute: true, ..NONE });
    play.tool("c", ToolOutcome::text("a secret"));
    play.cancel(InboxFate::Clear);
    let said = play.told();
    assert!(said.contains("tool/result \"c\" \"Error: tool call aborted\" \"ABORTED\""), "{said}");
    assert!(!said.contains("secret"));
}

#[test]
fn a_failure_that_nobody_has_reviewed_keeps_its_text_when_the_turn_is_cancelled() {
    // L-49: under review when the cancel comes, or told after it.
    let post_execute = HookPoints { post_execute: true, ..NONE };
    let failed = || ToolOutcome::error("no such file", Some(("FsError", "FS_NOT_FOUND")));
    let expected = "tool/result \"c\" \"Error: no such file\" \"FS_NOT_FOUND\"";
    let mut play = judged(post_execute);
    play.tool("c", failed()).cancel(InboxFate::Clear);
    let said = play.told();
    assert!(said.contains(expected), "{said}");

    let mut play = judged(post_execute);
    play.cancel(InboxFate::Clear).tool("c", failed());
    let said = play.told();
    assert!(said.contains(expected), "{said}");
}

#[test]
fn those_who_watch_see_every_result_that_stands_in_the_log() {
    let mut play = with_calls(HookPoints { result: true, ..NONE }, &["a", "b"], false);
    play.judge(Judgement::Refuse(ToolOutcome::error("denied", None)));
    play.judge(Judgement::Run);
    play.tool("b", ToolOutcome::text("ok"));
    let seen = play.observed.iter().map(|seen| match &seen.about {
        HookAbout::Result { call, outcome } => (call.id.as_str(), outcome.is_error),
        other => panic!("{other:?}"),
    });
    assert_eq!(seen.collect::<Vec<_>>(), [("a", true), ("b", false)]);
}

#[test]
fn contexts_of_a_result_enter_with_the_next_step() {
    // L-58.
    let mut play = with_calls(NONE, &["c"], false);
    play.judge(Judgement::Run);
    play.told();
    play.tool("c", ToolOutcome { contexts: told("and this"), ..ToolOutcome::text("ok") });
    let said = play.told();
    let expected = "\
12 tool/result \"c\" \"ok\" null
13 agent/inbox/spliced next-step -null +1
14 step/end 1.1
15 agent/inbox/spliced next-step -1 +0
claimed by 1: 1";
    assert_eq!(said, expected);
    play.assemble();
    assert!(play.told().starts_with("16 step/start 1.2\n17 user/message \"and this\""));
}

#[test]
fn a_cancelled_turn_leaves_no_contexts_behind() {
    let mut play = with_calls(NONE, &["a", "b"], true);
    play.judge(Judgement::Run).judge(Judgement::Run);
    play.tool("b", ToolOutcome { contexts: told("and this"), ..ToolOutcome::text("ok") });
    play.cancel(InboxFate::Clear);
    play.tool("a", ToolOutcome::error("late", None));
    assert!(play.agent.inbox().is_empty());
}

#[test]
fn a_hook_prolongs_a_turn_so_often_and_no_more() {
    let mut play = play(HookPoints { turn_stopping: true, ..NONE });
    play.prompt("go").assemble();
    for round in 0..2 {
        play.answer("done");
        let about = HookAbout::TurnStopping { limit_hit: false, prolonged: round };
        assert_eq!(play.hooks[0].1.about, about);
        play.hook(Verdict::Stop(told("not yet"))).assemble();
    }
    play.told();
    play.answer("done");
    assert!(play.hooks.is_empty(), "it has had its say twice");
    assert!(play.told().ends_with("turn/end 1 {\"kind\":\"completed\"}\nidle"));
    let steps = play.events.iter().filter(|event| event["type"] == "step/start").count();
    assert_eq!(steps, 3);
}

#[test]
fn a_turn_that_hooks_let_go_ends_as_it_would() {
    let mut play = play(HookPoints { turn_stopping: true, ..NONE });
    play.prompt("go").assemble().text("cut").finish(Finish::MaxTokens);
    play.told();
    play.hook(Verdict::Stop(Vec::new()));
    assert!(play.told().contains("turn/end 1 {\"kind\":\"max-tokens\"}"));

    // Input that comes while a hook thinks keeps the turn open (L-32).
    play.prompt("again").assemble().answer("done");
    play.send("wait", Delivery::Steer).unwrap();
    play.hook(Verdict::Stop(Vec::new()));
    assert_eq!(play.assembling.len(), 1);
}

#[test]
fn nobody_is_asked_to_prolong_a_turn_that_may_take_no_step_more() {
    let mut play = play(HookPoints { turn_stopping: true, ..NONE });
    play.prompt("go").assemble();
    for step in 1..9 {
        let id = format!("c{step}");
        play.call(0, &id, "t").finish(Finish::ToolCalls).plan(&[false]);
        play.tool(&id, ToolOutcome::text("ok")).assemble();
    }
    play.told();
    play.answer("done");
    assert!(play.told().contains("turn/end 1 {\"kind\":\"completed\"}"));
}

#[test]
fn a_plan_that_fails_ends_the_turn_without_results() {
    // L-58: nothing has begun, and nothing is made up.
    let mut play = play(NONE);
    play.prompt("go").assemble().call(0, "c", "t").finish(Finish::ToolCalls);
    play.told();
    play.plan(&[]);
    let said = play.told();
    assert!(!said.contains("tool/"), "{said}");
    let end = r#"turn/end 1 {"kind":"error","error":{"message":"0 of 1 tool calls were planned","code":"UNKNOWN"}}"#;
    assert!(said.contains("step/end 1.1\nerror UNKNOWN") && said.contains(end), "{said}");
}

#[test]
fn what_runs_is_waited_for_when_the_scheduler_fails() {
    // L-58: the first call's result stands, the second has none, the third does not begin.
    let mut play = with_calls(NONE, &["a", "b", "c"], true);
    play.judge(Judgement::Run);
    let (token, _) = play.judging.remove(0);
    play.told();
    play.happen(Happened::CallsFailed(token, "the judge is gone".to_owned()));
    assert_eq!(play.told(), "", "the first still runs");
    assert!(play.stopped.is_empty(), "and is not told to stop");
    play.tool("a", ToolOutcome::text("one"));
    let said = play.told();
    assert_eq!(said.matches("tool/result").count(), 1, "{said}");
    assert!(!said.contains("tool/call"), "{said}");
    assert!(said.contains("the judge is gone") && said.ends_with("idle"), "{said}");

    // Models refuse calls that nothing answers: the next request says of each that it has no result.
    play.prompt("again").assemble();
    let request = play.requests.last().unwrap();
    let said =
        request.messages.iter().flat_map(|message| &message.content).map(|block| match block {
            Block::Text { text } => text.clone(),
            Block::ToolCall { id, .. } => format!("call {id}"),
            Block::ToolResult { tool_call_id, content, is_error } => {
                format!("{tool_call_id} {content:?} {is_error}")
            }
            other => panic!("{other:?}"),
        });
    let none = [Block::text("Error: the tool call has no result")];
    let expected = [
        "go".to_owned(),
        "call a".to_owned(),
        "call b".to_owned(),
        "call c".to_owned(),
        format!("a {:?} false", [Block::text("one")]),
        format!("b {none:?} true"),
        format!("c {none:?} true"),
        "again".to_owned(),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    let log = play.events.iter().filter(|event| event["type"] == "tool/result");
    assert_eq!(log.count(), 1, "and the log says nothing of that");
}

#[test]
fn a_cancel_settles_what_a_failed_scheduler_has_left() {
    let mut play = with_calls(NONE, &["a", "b"], true);
    play.judge(Judgement::Run);
    let (token, _) = play.judging.remove(0);
    play.happen(Happened::CallsFailed(token, "gone".to_owned()));
    play.cancel(InboxFate::Clear);
    play.tool("a", ToolOutcome::error("stopped", None));
    let said = play.told();
    assert_eq!(said.matches("tool/result").count(), 2, "one for each call (L-49): {said}");
}

#[test]
fn what_a_later_step_could_not_begin_with_goes_back() {
    // L-33: the steered message waits on; the first step's is gone, as S-109 has it.
    let failing = || Assembly {
        served: Err(transom_frame::Failure::new(transom_frame::Code::NoAdapter, "no model")),
        ..assembly()
    };
    let mut play = play(NONE);
    play.prompt("go").assemble();
    play.send("first", Delivery::Steer).unwrap();
    play.answer("done");
    play.send("second", Delivery::Steer).unwrap();
    play.told();
    let token = play.assembling.remove(0);
    play.happen(Happened::Assembled(token, failing()));
    let said = play.told();
    assert!(said.contains("agent/inbox/spliced next-step -null +1"), "{said}");
    let waiting: Vec<_> = play
        .agent
        .inbox()
        .list(crate::event::Target::NextStep)
        .iter()
        .map(|message| message.content[0].clone())
        .collect();
    assert_eq!(waiting, [Block::text("first"), Block::text("second")], "at the front");

    let mut play = self::play(NONE);
    play.prompt("go");
    let token = play.assembling.remove(0);
    play.told();
    play.happen(Happened::Assembled(token, failing()));
    assert!(!play.told().contains("spliced"));
    assert!(play.agent.inbox().is_empty());
}

#[test]
fn a_cut_answer_is_kept_where_the_session_wants_it() {
    // L-48, decision 42.
    for (partial, kept) in [(Partial::Drop, false), (Partial::Commit, true)] {
        let mut play = play(NONE);
        play.agent.set_partial(partial);
        play.prompt("go").assemble().text("half an ans").call(1, "c", "t");
        play.cancel(InboxFate::Clear);
        let answers: Vec<_> =
            play.events.iter().filter(|event| event["type"] == "assistant/message").collect();
        assert_eq!(!answers.is_empty(), kept);
        if let [answer] = answers[..] {
            let message = &answer["data"]["message"];
            assert_eq!(message["source"]["partial"], true);
            let content = serde_json::json!([{ "type": "text", "text": "half an ans" }]);
            assert_eq!(message["content"], content, "and never half a call");
        }
        assert_eq!(play.agent.log().history().len(), if kept { 2 } else { 1 });
    }

    // Nothing was said.
    let mut play = play(NONE);
    play.agent.set_partial(Partial::Commit);
    play.prompt("go").assemble().call(0, "c", "t").cancel(InboxFate::Clear);
    assert!(!play.told().contains("assistant/message"));
}
