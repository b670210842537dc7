//! What hooks wait for, what holds them back from now on, and the bounds of what they say and of how many watch.

use std::collections::BTreeSet;

use super::*;

/// Writes what session it is asked about to the FIFO `alive`, and stays.
const WATCHES: &str = "exec 3>alive; grep -o 'session-[0-9]*' >&3; sleep 600";

fn seen(bench: &Bench, number: usize) -> HookAsk {
    let about = HookAbout::Result { call: call(), outcome: Box::new(ToolOutcome::text("ok")) };
    HookAsk { session: session(number).as_str().into(), ..asked(bench, about) }
}

fn session(number: usize) -> String {
    format!("session-{number}")
}

#[tokio::test]
async fn p38_no_hook_starts_before_it_is_known_what_confines() {
    let bench = Bench::new();
    let text = "test -e known && echo '{\"decision\":\"allow\"}' || echo '{\"decision\":\"ask\"}'";
    let look = script("h", HookEvent::PreExecute, text);
    let (known, ready) = watch::channel(false);
    let waits = held_once(&bench, Mode::DangerFullAccess, ready, vec![look.clone()]);
    let (sender, late) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let sink = move |answer| drop(sender.lock().unwrap().take().unwrap().send(answer));
    let _stop = waits.ask(asked(&bench, before_call()), Box::new(sink));
    // Others that need not wait come and go meanwhile.
    for _ in 0..5 {
        let early = answer(&bench, vec![look.clone()], before_call()).await;
        assert_eq!(early.verdict, Verdict::Call(CallVerdict::Ask { reason: None }));
    }
    bench.put("known", "");
    known.send(true).unwrap();
    let late = tokio::time::timeout(PATIENCE, late).await.unwrap().unwrap();
    assert_eq!(late.verdict, Verdict::Call(CallVerdict::Allow));

    // Whoever was to find out is gone: nothing confines.
    let (gone, ready) = watch::channel(false);
    drop(gone);
    let waits = held_once(&bench, Mode::DangerFullAccess, ready, vec![look]);
    let answer = answer_of(&waits, asked(&bench, before_call())).await;
    assert_eq!(answer.verdict, Verdict::Call(CallVerdict::Allow));
}

#[tokio::test]
async fn p38_another_mode_holds_hooks_from_then_on() {
    let bench = Bench::with(|options| options.confinement.required = true);
    let allow = says("h", HookEvent::PreExecute, &json!({ "decision": "allow" }));
    let hooks = held(&bench, Mode::DangerFullAccess, vec![allow]);
    let allowed = async || {
        let answer = answer_of(&hooks, asked(&bench, before_call())).await;
        answer.verdict == Verdict::Call(CallVerdict::Allow)
    };
    assert!(allowed().await);
    for (mode, expected) in
        [(Mode::ReadOnly, false), (Mode::DangerFullAccess, true), (Mode::WorkspaceWrite, false)]
    {
        hooks.set_mode(mode);
        // Nothing here confines, and the operator demands it.
        assert_eq!(allowed().await, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn an_answer_has_so_many_messages_and_no_more() {
    let bench = Bench::new();
    for (count, expected) in [
        (16, ("h", "proceed", None)),
        (17, ("h", "failed", Some("`contexts` of its answer has more than 16 entries"))),
    ] {
        let contexts = json!({ "decision": "proceed", "contexts": vec!["mind the gap"; count] });
        let hook = says("h", HookEvent::PreStep, &contexts);
        let answer = answer(&bench, vec![hook], before_step()).await;
        let report = &answer.reports[0];
        let found = (report.hook.as_str(), report.decision.as_str(), report.reason.as_deref());
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn the_end_of_what_a_failed_hook_says_is_kept() {
    let bench = Bench::new();
    let text = "head -c 20000 /dev/zero | tr '\\0' x >&2; printf %s 'the end' >&2; exit 3";
    let answer = answer(&bench, vec![script("h", HookEvent::PreStep, text)], before_step()).await;
    let expected = format!("{}the end", "x".repeat(400 - "the end".len()));
    assert_eq!(answer.reports[0].stderr_summary.as_deref(), Some(expected.as_str()));
}

#[tokio::test]
async fn sixteen_watch_at_once_and_another_one_when_one_of_them_ends() {
    let bench = Bench::new();
    let mut alive = listen(&bench, "alive");
    let hooks = hooks(&bench, vec![script("w", HookEvent::Result, WATCHES)]);
    let mut waiting: BTreeSet<_> = (0..17).map(session).collect();
    for number in 0..17 {
        hooks.observe(seen(&bench, number));
    }
    let mut watching = Vec::new();
    for _ in 0..16 {
        let begun = alive.next().await.unwrap();
        assert!(waiting.remove(&begun), "{begun} began twice");
        watching.push(begun);
    }
    // Another program comes and goes; the last watcher could have begun meanwhile.
    answer(&bench, vec![script("h", HookEvent::PreExecute, "true")], before_call()).await;
    assert!(alive.lines.try_recv().is_err());
    hooks.end(&watching[0].as_str().into());
    assert_eq!(alive.next().await, waiting.pop_first());
    for number in 0..17 {
        hooks.end(&session(number).as_str().into());
    }
    assert_eq!(alive.next().await, None);
}

#[tokio::test]
async fn results_that_come_faster_than_they_can_be_watched_are_left_out() {
    let bench = Bench::new();
    let mut alive = listen(&bench, "alive");
    // Nobody begins yet, so that all of them wait.
    let (known, ready) = watch::channel(false);
    let watches = vec![script("w", HookEvent::Result, WATCHES)];
    let hooks = held_once(&bench, Mode::DangerFullAccess, ready, watches);
    for number in 0..257 {
        hooks.observe(seen(&bench, number));
    }
    for number in 0..255 {
        hooks.end(&session(number).as_str().into());
    }
    known.send(true).unwrap();
    assert_eq!(alive.next().await, Some(session(255)));
    // There is room again. Had the one before it been let in, it would come first.
    hooks.observe(seen(&bench, 257));
    assert_eq!(alive.next().await, Some(session(257)));
    for number in 255..258 {
        hooks.end(&session(number).as_str().into());
    }
    assert_eq!(alive.next().await, None);
}
