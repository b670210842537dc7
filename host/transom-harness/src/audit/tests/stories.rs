//! Logs that are as they should be, whole and cut anywhere.

use super::*;
use crate::{
    audit::SurfaceNode,
    permissions::{ApprovalPolicy, Mode},
};

/// Something of everything.
const LONG: &str = r#"{"type":"permission/preset","data":{"preset":"workspace-write"}};
    {"type":"sandbox/mode","data":{"mode":"workspace-write"}}; policy ask;
    step-in i1 +; in m1; turn; claim step; claim turn; step; user i1 +; user m1; snapshot s1; title 10;
    header initial; context; failed SERVER; retry r 1 500; retried r 1; calls c1 c2;
    call c1; ask q1 c1; step-in n1 +; decide q1 allowed-once; call c2; job bash-1 c1; result c1; failed-result c2;
    in m2; settled bash-1 completed producer; step-in n2 +; step-end; claim step; step; user n1 +; user n2 +;
    says; answer; step-end; turn-end completed;
    turn; claim turn; step; user m2; header change m3; context; start 0 text; text 0 x; end 0 x;
    finish max-tokens; answer; step-end; turn-end max-tokens;
    in m4; {"type":"working-directory/change","data":{"cwd":"/elsewhere"}}; policy never"#;

#[test]
fn what_a_log_folds_to() {
    let summary = good(LONG);
    assert_eq!(summary.last_turn, 2);
    assert_eq!((summary.open_turn, summary.open_step), (None, None));
    assert_eq!(summary.last_end.as_deref(), Some("max-tokens"));
    assert_eq!(summary.next_turn, ["m4"]);
    assert!(summary.next_step.is_empty());
    assert_eq!(summary.title.as_deref(), Some("T"));
    assert_eq!(summary.cwd.as_deref(), Some("/elsewhere"));
    assert_eq!(summary.mode, Some(Mode::WorkspaceWrite));
    assert_eq!(summary.policy, Some(ApprovalPolicy::Never));
    assert_eq!(summary.preset.as_deref(), Some("workspace-write"));
    assert_eq!(summary.request_context, Some(("p".to_owned(), "m3".to_owned(), None)));
    assert_eq!(summary.jobs.len(), 1);
    assert!(summary.running_jobs().is_empty());
    assert_eq!((summary.bash_jobs, summary.subagent_jobs), (1, 0));
    let history = summary.history();
    assert_eq!(&history[..3], ["i1", "m1", "s1"]);
    assert_eq!(history.last(), Some(&"a60"));
}

#[test]
fn a_log_may_end_anywhere() {
    let log = log(LONG);
    for end in 0..=log.len() {
        let found = audit(&header(), log[..end].iter().map(String::as_str));
        assert_eq!(found.unwrap().events, u64::try_from(end).unwrap());
    }
}

/// Closers and marker of a log that was cut are what makes it whole again (L-79).
#[test]
fn what_a_crash_has_cut_off_can_be_closed() {
    let closed = |script: &str| {
        let summary = good(&format!("{script}; end-seed"));
        assert_eq!(summary.open_turn, None);
        assert_eq!(summary.last_end.as_deref(), Some("interrupted"));
        good(&format!(
            "{script}; end-seed; in z; turn; claim turn; step; user z; header resume; says; answer"
        ));
    };
    closed(
        "@asked; says; answer; step-end; turn-end completed; in b; turn; turn-end interrupted; end-seed; turn; \
            claim turn; turn-end interrupted",
    );
    closed("@asked; step-end; turn-end interrupted");
    closed("@asked; start 0 text; step-end; turn-end interrupted");
    closed("@asked; failed SERVER; retry r 1 500; step-end; turn-end interrupted");
    closed(
        "@called c1 c2; call c1; lost-result c1 TOOL_OUTCOME_UNKNOWN; lost-result c2 TOOL_NOT_STARTED; \
            step-end; turn-end interrupted",
    );
    closed(
        "@called c1; call c1; ask q c1; lost-result c1 TOOL_OUTCOME_UNKNOWN; step-end; turn-end interrupted",
    );
    // The end of a job that was lost is told of with the next turn (P-78).
    let lost = "@called c1; call c1; job bash-1 c1; lost-result c1 TOOL_OUTCOME_UNKNOWN; step-end; turn-end interrupted; \
                settled bash-1 failed lost; step-in n +; end-seed";
    let next =
        "in z; turn; claim step; claim turn; step; user n +; user z; header resume; says; answer";
    assert_eq!(good(lost).next_step, ["n"]);
    good(&format!("{lost}; {next}"));
}

#[test]
fn only_a_closed_log_has_no_open_turn() {
    let finish = |script: &str| {
        let mut auditor = Auditor::new(&header());
        for event in log(script) {
            auditor.push(&event).unwrap();
        }
        auditor.finish_closed().map_err(|finding| finding.to_string())
    };
    assert!(finish("@turn").is_ok());
    assert!(finish("").is_ok());
    assert_eq!(finish("in m1; turn").unwrap_err(), "seq 2: turn 1 has no turn/end (S-112)");

    let mut auditor = Auditor::new(&fork(5));
    auditor.push(&log("in m1")[0]).unwrap();
    assert_eq!(
        auditor.finish_closed().unwrap_err().to_string(),
        "seq 1: the header tells of a seed of 5 events, and there are 1 (L-11)"
    );
}

#[test]
fn turns_may_end_in_every_way_that_fits() {
    let asked = "@asked; failed AUTH; step-end";
    for script in [
        "turn; turn-end completed".to_owned(),
        "in m; turn; claim turn; turn-end blocked".to_owned(),
        "in m; turn; claim turn; turn-end aborted".to_owned(),
        "in m; turn; claim turn; turn-end error UNKNOWN".to_owned(),
        "in m; turn; claim turn; turn-end later-kind".to_owned(),
        format!("{asked}; turn-end error AUTH"),
        format!("{asked}; turn-end aborted"),
        "@asked; failed SERVER; retry r 1 500; step-end; turn-end aborted".to_owned(),
        "@asked; start 0 text; text 0 x; step-end; turn-end aborted".to_owned(),
        // A tool has concluded the turn.
        "@called c; call c; result c; step-end; turn-end completed".to_owned(),
        // The limit is sticky (L-44), and what was steered in is still answered (row 16).
        "@asked; finish max-tokens; answer; step-in s; step-end; claim step; step; user s; says; answer; step-end; \
         turn-end max-tokens"
            .to_owned(),
    ] {
        assert_eq!(good(&script).open_turn, None, "{script}");
    }
}

#[test]
fn an_answer_without_content_is_on_the_surface_and_not_in_the_history() {
    let summary = good("@asked; finish stop; answer; step-end; turn-end completed");
    let shown: Vec<_> = summary.surface.iter().map(|SurfaceNode { shown, .. }| *shown).collect();
    assert_eq!(shown, [true, false]);
    assert_eq!(summary.history(), ["m1"]);
}

#[test]
fn replacements_take_the_place_of_what_they_hide() {
    let replace = r#"{"type":"user/message","data":{"id":"sum","role":"user","content":[],"source":{"kind":"plugin","plugin":"c"}},"surfaceOp":{"op":"replace","start":4,"end":12},"sourceEventSeqs":[4,12]}"#;
    let summary = good(&format!("@turn; in b; turn; claim turn; step; user b; {replace}"));
    assert_eq!(summary.history(), ["sum", "b"]);
    assert_eq!(summary.surface[0].seq, 20);

    let pruned =
        result_of("c", 13, r#"{"op":"replace","start":13,"end":13}"#, "[13]", "gone", false);
    let summary = good(&format!("@called c; call c; result c; {pruned}"));
    assert_eq!(summary.history().len(), 3);
    assert_eq!(summary.surface[2].seq, 14);
}

/// A `tool/result` of turn 1, step 1, as an envelope.
pub(super) fn result_of(
    id: &str,
    of: u64,
    op: &str,
    sources: &str,
    text: &str,
    is_error: bool,
) -> String {
    format!(
        r#"{{"type":"tool/result","data":{{"turn":1,"step":1,"message":{{"id":"r{of}","role":"user","content":[{{"type":"tool-result","toolCallId":"{id}","content":[{{"type":"text","text":"{text}"}}],"isError":{is_error}}}],"source":{{"kind":"tool","callId":"{id}"}}}}}},"surfaceOp":{op},"sourceEventSeqs":{sources}}}"#
    )
}
