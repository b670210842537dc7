//! Approvals, settings, jobs and descriptors (P-2, P-7, P-14, P-15, P-23, P-30, P-66, P-78, L-61, L-67).

use super::*;

#[test]
fn every_ask_is_decided_once_in_its_turn() {
    let begun = "@called c; call c";
    let check = |script: &str, expected: &str| bad(script, &format!("{expected} (P-2)"));
    for outcome in ["rejected", "cancelled", "unavailable"] {
        good(&format!("{begun}; ask q c; decide q {outcome}; failed-result c"));
    }
    good(&format!("{begun}; ask q c; decide q allowed-once; result c"));
    assert_eq!(good(&format!("{begun}; ask q c")).open_approvals, ["q"]);
    check("ask q c", "seq 0: approval/asked outside a turn");
    check(
        "turn; decide q rejected",
        "seq 1: approval/decided \"q\" without an open approval/asked",
    );
    check(
        &format!("{begun}; ask q c; decide q rejected; decide q rejected"),
        "seq 15: approval/decided \"q\" without an open approval/asked",
    );
    check(
        &format!("{begun}; ask q c; decide r rejected"),
        "seq 14: approval/decided \"r\" without an open approval/asked",
    );
    check(
        &format!("{begun}; ask q c; result c"),
        "seq 14: tool/result before the approval/decided of \"q\"",
    );
    check(
        "@called c1 c2; call c1; ask q c1; decide q allowed-once; call c2; ask q c2",
        "seq 19: a second approval/asked \"q\"",
    );

    // An ask about no call.
    let ask = r#"{"type":"approval/asked","data":{"id":"q","toolName":"t"}}"#;
    good(&format!("in a; turn; claim turn; {ask}; decide q rejected; turn-end aborted"));
    check(
        &format!("in a; turn; claim turn; {ask}; turn-end aborted"),
        "seq 4: turn/end before the approval/decided of \"q\"",
    );
}

#[test]
fn an_ask_is_about_a_call_that_is_under_way() {
    let not = |at: u64, call: &str| {
        format!("seq {at}: approval/asked about call \"{call}\", which is not under way (P-15)")
    };
    bad("turn; ask q c", &not(1, "c"));
    bad("@called c; ask q c", &not(12, "c"));
    bad("@called c; call c; ask q d", &not(13, "d"));
    bad("@called c; call c; result c; ask q c", &not(14, "c"));
    // Of two calls with one id the ask is about the one that began last.
    let first = stories::result_of("c", 18, "\"append\"", "[15]", "x", false);
    good(&format!(
        "@called c c; call c; call c; ask q c; {first}; decide q allowed-once; result c"
    ));
    let other = r#"{"type":"approval/asked","data":{"id":"q","toolName":"u","callId":"c"}}"#;
    bad(
        &format!("@called c; call c; {other}"),
        "seq 13: toolName must be that of call \"c\", t (P-15)",
    );
    bad(
        "@called c; call c; ask q c; decide q allowed-once; ask r c",
        "seq 15: a second approval/asked about call \"c\" (P-30)",
    );
}

#[test]
fn a_call_that_was_not_allowed_has_failed() {
    for outcome in ["rejected", "cancelled", "unavailable"] {
        bad(
            &format!("@called c; call c; ask q c; decide q {outcome}; result c"),
            "seq 15: call \"c\" was not allowed, and has a result that is no error (L-62)",
        );
    }
}

#[test]
fn under_never_nobody_is_consulted() {
    let under = "policy never; @called c; call c; ask q c";
    good(&format!("{under}; decide q rejected"));
    good(&format!("{under}; decide q cancelled"));
    bad(
        &format!("{under}; decide q allowed-once"),
        "seq 15: outcome allowed-once under the approval policy never (L-61)",
    );
    bad(
        &format!("{under}; decide q unavailable"),
        "seq 15: outcome unavailable under the approval policy never (L-61)",
    );
    // What runs already keeps what it started with (P-11).
    good("@called c; call c; policy never; ask q c; decide q allowed-once; result c");
    good("@called c; call c; ask q c; policy never; decide q allowed-once; result c");
}

#[test]
fn settings_may_change_at_any_time() {
    let mode = r#"{"type":"sandbox/mode","data":{"mode":"read-only"}}"#;
    good(&format!(
        "{mode}; @called c; {mode}; call c; {mode}; result c; step-end; {mode}; turn-end aborted; {mode}"
    ));
    bad(
        r#"{"type":"permission/preset","data":{"preset":"custom"}}"#,
        "seq 0: preset \"custom\" means that none matches, and is never logged (P-7)",
    );
}

#[test]
fn delegation_settles_a_child_before_its_first_turn() {
    let mode = r#"{"type":"sandbox/mode","data":{"mode":"read-only","source":"delegation"}}"#;
    let policy = r#"{"type":"approval/policy","data":{"policy":"never","source":"delegation"}}"#;
    let only = "with source delegation, which only a delegated session has, before its first turn or to become narrower (P-23)";
    good_for(&child(), &format!("{mode}; {policy}; @turn"));
    bad(mode, &format!("seq 0: sandbox/mode {only}"));
    bad_for(&child(), &format!("@turn; {policy}"), &format!("seq 15: approval/policy {only}"));
    // A parent that becomes narrower takes it along, and never the other way.
    let write =
        r#"{"type":"sandbox/mode","data":{"mode":"workspace-write","source":"delegation"}}"#;
    good_for(&child(), &format!("{write}; {policy}; @turn; {mode}"));
    good_for(&child(), &format!("@turn; {mode}"));
    for wrong in [mode, write] {
        let script = format!("{mode}; {policy}; @turn; {wrong}");
        bad_for(&child(), &script, &format!("seq 17: sandbox/mode {only}"));
    }
    // A copy of a child's log keeps what it says.
    good_for(&fork(2), &format!("{mode}; {policy}; end-seed"));
    bad_for(&fork(0), &format!("end-seed; {mode}"), &format!("seq 1: sandbox/mode {only}"));
}

#[test]
fn a_descriptor_stands_before_the_first_step() {
    let descriptor = r#"{"type":"subagent/descriptor","data":{"version":2,"mode":"one-shot","provider":"spawn"}}"#;
    let place = "subagent/descriptor must stand in a turn, before its first step/start (L-67)";
    let open = "in m1; turn; claim turn";
    good_for(&child(), &format!("{open}; {descriptor}; step"));
    bad_for(&child(), descriptor, &format!("seq 0: {place}"));
    bad_for(&child(), &format!("{open}; step; {descriptor}"), &format!("seq 4: {place}"));
    bad_for(&child(), &format!("@said; step-end; {descriptor}"), &format!("seq 14: {place}"));
    bad(
        &format!("{open}; {descriptor}"),
        "seq 3: subagent/descriptor in a session whose header has no origin subagent (L-67)",
    );
    bad_for(
        &child(),
        &format!("{open}; {descriptor}; {descriptor}"),
        "seq 4: a second subagent/descriptor of one session (L-67)",
    );
    let seed = format!("{open}; {descriptor}; turn-end aborted");
    good_for(&fork(5), &format!("{seed}; end-seed"));
}

#[test]
fn jobs_are_counted_by_kind_and_start_right_before_their_result() {
    let begun = "@called c1 c2; call c1; call c2";
    let summary = good(&format!("{begun}; job bash-1 c1; result c1; job subagent-1 c2; result c2"));
    assert_eq!(summary.running_jobs(), ["bash-1", "subagent-1"]);
    good(&format!("{begun}; job bash-1 c1; result c1; job bash-2 c2; result c2"));
    // Calls that overlap take their numbers as they start.
    good(&format!("{begun}; job bash-2 c1; result c1; job bash-1 c2; result c2"));
    let check = |script: &str, expected: &str| {
        bad(&format!("{begun}; {script}"), &format!("{expected} (P-66)"));
    };
    let first = "job bash-1 c1; result c1";
    let due = "jobId must be a new one, \"bash-2\", got";
    check(&format!("{first}; job bash-1 c2"), &format!("seq 19: {due} \"bash-1\""));
    check(&format!("{first}; job bash-3 c2"), &format!("seq 19: {due} \"bash-3\""));
    check(&format!("{first}; job bash-02 c2"), &format!("seq 19: {due} \"bash-02\""));
    check(&format!("{first}; job bash-x c2"), &format!("seq 19: {due} \"bash-x\""));
    let most = "jobId must be a new one, \"bash-1\", at most \"bash-2\", got";
    check("job bash-3 c1", &format!("seq 17: {most} \"bash-3\""));
    check("job bash-0 c1", &format!("seq 17: {most} \"bash-0\""));
    let not_due = |at: u64, call: &str| {
        format!("seq {at}: job/registered by call \"{call}\", whose tool/result is not due (P-78)")
    };
    bad("job bash-1 c", &not_due(0, "c"));
    bad("@called c; job bash-1 c", &not_due(12, "c"));
    bad(&format!("{begun}; job bash-1 c2"), &not_due(17, "c2"));
    let between = "between job/registered and the tool/result of call \"c1\" (P-78)";
    bad(
        &format!("{begun}; job bash-1 c1; step-in x"),
        &format!("seq 18: agent/inbox/spliced {between}"),
    );
    bad(
        &format!("{begun}; job bash-1 c1; settled bash-1 killed kill"),
        &format!("seq 18: job/settled {between}"),
    );
}

#[test]
fn a_job_ends_once() {
    let begun = "@called c; call c; job bash-1 c; result c";
    let summary = good(&format!("{begun}; settled bash-1 killed kill"));
    assert!(summary.running_jobs().is_empty());
    bad(
        "settled bash-1 killed kill",
        "seq 0: job/settled of \"bash-1\", which this session has not started (P-78)",
    );
    bad(
        &format!("{begun}; settled bash-1 killed kill; settled bash-1 completed producer"),
        "seq 16: a second job/settled of \"bash-1\" (P-78)",
    );
    bad(
        &format!("{begun}; settled bash-1 failed lost"),
        "seq 15: job \"bash-1\" is lost inside a turn, and only a resume finds that out (P-78)",
    );
    let lost = "step-end; turn-end aborted; end-seed; settled bash-1 failed lost";
    good(&format!("{begun}; {lost}; step-in n +"));
    bad(
        &format!("{begun}; {}", lost.replace("failed", "killed")),
        "seq 18: job/settled: \"status\" must be \"failed\", got \"killed\" (L-17)",
    );
    // Numbers go on after a resume (P-66).
    let again = "in b; turn; claim turn; step; user b; header resume; calls d; call d";
    good(&format!("{begun}; {lost}; {again}; job bash-2 d; result d"));
}

#[test]
fn l72_a_child_is_in_the_catalog_once() {
    let entry = |child: &str| {
        format!(
            r#"{{"type":"subagent/catalog","ignorable":true,"data":{{"version":0,"childId":"{child}","childCreatedAt":1,"mode":"continuable","label":"l"}}}}"#
        )
    };
    let (one, two) = (entry("one"), entry("two"));
    good(&format!("{one}; {two}"));
    bad(&format!("{one}; {two}; {one}"), "seq 2: the child one is in the catalog already (L-72)");
}
