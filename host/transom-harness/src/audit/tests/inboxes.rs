//! Splices, claims, and messages that enter a turn (L-20 to L-22, L-27, L-31, L-32).

use super::*;

fn splice(target: &str, rest: &str) -> String {
    format!(r#"{{"type":"agent/inbox/spliced","data":{{"target":"{target}",{rest}}}}}"#)
}

fn queued(id: &str) -> String {
    format!(r#"{{"id":"{id}","role":"user","content":[],"source":{{"kind":"user"}}}}"#)
}

#[test]
fn splices_change_the_lists_they_fit() {
    let edit =
        splice("next-turn", &format!(r#""start":0,"removedCount":1,"inserted":[{}]"#, queued("a")));
    let remove =
        splice("next-turn", r#""start":0,"removedCount":2,"inserted":[],"outcome":"canceled""#);
    let front = splice("next-turn", &format!(r#""start":0,"inserted":[{}]"#, queued("z")));
    assert_eq!(good(&format!("in a; in b; {edit}; {front}")).next_turn, ["z", "a", "b"]);
    assert!(good(&format!("in a; in b; {remove}")).next_turn.is_empty());

    let twins = splice("next-turn", &format!(r#""start":0,"inserted":[{0},{0}]"#, queued("a")));
    let past = splice("next-step", &format!(r#""start":1,"inserted":[{}]"#, queued("a")));
    let other =
        splice("next-turn", &format!(r#""start":0,"removedCount":1,"inserted":[{}]"#, queued("b")));
    let nothing = splice("next-turn", r#""start":0,"inserted":[]"#);
    let discards_nothing = splice(
        "next-turn",
        &format!(r#""start":0,"inserted":[{}],"outcome":"canceled""#, queued("b")),
    );
    let check = |script: String, expected: &str| bad(&script, expected);
    check("in a; in a".to_owned(), "seq 1: message \"a\" is already pending (L-21)");
    check("in a; step-in a".to_owned(), "seq 1: message \"a\" is already pending (L-21)");
    check(twins, "seq 0: message \"a\" is already pending (L-21)");
    check(past, "seq 0: splices 1..1 of a next-step list of 0 (L-27)");
    check(format!("in a; {remove}"), "seq 1: splices 0..2 of a next-turn list of 1 (L-27)");
    check(nothing, "seq 0: a splice that changes nothing (L-21)");
    check(discards_nothing, "seq 0: outcome canceled on a splice that discards nothing (L-21)");
    check(
        format!("in a; {other}"),
        "seq 1: messages are replaced by others without the outcome canceled (L-21)",
    );
}

#[test]
fn a_message_moves_to_the_next_step_in_two_splices() {
    let out = splice("next-turn", r#""start":1,"removedCount":1,"inserted":[]"#);
    let summary = good(&format!("@asked; in a; in b; {out}; step-in b"));
    assert_eq!(
        (summary.next_turn, summary.next_step),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );

    let lost =
        r#"["b"] leave next-turn neither claimed nor discarded, and do not enter next-step (L-21)"#;
    bad(&format!("@asked; in a; in b; {out}; says"), &format!("seq 10: {lost}"));
    bad(&format!("@asked; in a; in b; {out}; step-in c"), &format!("seq 10: {lost}"));
    let back = splice("next-turn", &format!(r#""start":1,"inserted":[{}]"#, queued("b")));
    bad(&format!("@asked; in a; in b; {out}; {back}"), &format!("seq 10: {lost}"));
    // Only a crash stands between the two.
    good(&format!("@asked; in a; in b; {out}; step-end; turn-end interrupted; end-seed"));
    let asked = "@called c; call c; ask q c; in a; in b";
    good(&format!("{asked}; {out}; decide q cancelled; lost-result c TOOL_OUTCOME_UNKNOWN"));
}

#[test]
fn claims_take_all_of_next_step_and_then_one_of_next_turn() {
    let two = splice("next-turn", r#""start":0,"removedCount":2,"inserted":[]"#);
    let second = splice("next-turn", r#""start":1,"removedCount":1,"inserted":[]"#);
    let one_of_step = splice("next-step", r#""start":0,"removedCount":1,"inserted":[]"#);
    let check = |script: &str, expected: &str| bad(script, expected);
    check(
        "step-in a; in b; turn; claim turn",
        "seq 3: next-turn is claimed before next-step (L-22)",
    );
    check(
        &format!("in a; in b; turn; {two}"),
        "seq 3: a claim of next-turn must take its first message alone (L-22)",
    );
    check(
        &format!("in a; in b; turn; {second}"),
        "seq 3: a claim of next-turn must take its first message alone (L-22)",
    );
    check(
        &format!("step-in a; step-in b; turn; {one_of_step}"),
        "seq 3: a claim of next-step must take the whole list (L-22)",
    );
    check(
        "step-in a; claim step",
        "seq 1: next-step is claimed where no step is about to start (L-22)",
    );
    check(
        "@asked; step-in a; claim step",
        "seq 8: next-step is claimed where no step is about to start (L-22)",
    );
    check(
        "in b; turn; claim turn; step-in a; claim step",
        "seq 4: next-step is claimed where no step is about to start (L-22)",
    );
    check(
        "@said; step-in a; step-end; claim step; step-in b; claim step",
        "seq 17: a second claim of next-step, or one behind that of next-turn (L-22)",
    );
}

#[test]
fn what_waits_is_claimed_before_the_step() {
    let check = |script: &str, expected: &str| bad(script, expected);
    check("in a; turn; step", "seq 2: \"a\" waited for the next turn and was not claimed (L-22)");
    check(
        "step-in a; turn; step",
        "seq 2: \"a\" waited for the next step and was not claimed (L-22)",
    );
    check(
        "in a; turn; turn-end completed",
        "seq 2: \"a\" waited for the next turn and was not claimed (L-22)",
    );
    check(
        "@called c; call c; result c; step-in a; step-end; step",
        "seq 16: \"a\" waited for the next step and was not claimed (L-22)",
    );
    // What comes while the step is prepared waits for the one after it.
    good("@called c; call c; result c; step-end; step-in a; step; says; answer");
}

#[test]
fn a_turn_does_not_end_before_what_waits_for_its_step() {
    let expected = "the turn ends although \"a\" waits for its next step (L-32)";
    bad("@said; step-in a; step-end; turn-end completed", &format!("seq 15: {expected}"));
    bad(
        "@asked; finish max-tokens; answer; step-in a; step-end; turn-end max-tokens",
        &format!("seq 11: {expected}"),
    );
    good("@asked; step-in a; failed AUTH; step-end; turn-end error AUTH");
    good("@asked; step-in a; step-end; turn-end aborted");
}

#[test]
fn messages_enter_as_they_were_claimed() {
    let open = "step-in a; step-in b; in c; turn; claim step; claim turn; step";
    let check = |script: String, expected: &str| bad(&script, expected);
    good(&format!(
        "{open}; user a; user b; user c; snapshot s; header initial; context; says; answer"
    ));
    check(
        format!("{open}; user b"),
        "seq 7: user/message \"b\" before \"a\", which was claimed before it (L-31)",
    );
    check(
        format!("{open}; user z"),
        "seq 7: user/message \"z\", which this turn has not claimed (L-31)",
    );
    check(
        format!("{open}; user a; user a"),
        "seq 8: user/message \"a\", which this turn has not claimed (L-31)",
    );
    check(
        format!("{open}; user a; snapshot s"),
        "seq 8: user/message \"s\" before the claimed message \"b\" (L-96)",
    );
    check(
        format!("{open}; user a; user b; header initial"),
        "seq 9: request/header before the user/message of \"c\", which was claimed (L-31)",
    );
    check(
        "in a; turn; claim turn; turn-end completed".to_owned(),
        "seq 3: a turn that has claimed messages is completed without a step (L-31)",
    );
    check("@asked; user z".to_owned(), "seq 7: user/message behind the request of its step (L-34)");
    check(
        "in a; turn; claim turn; user a".to_owned(),
        "seq 3: user/message outside a step (S-112)",
    );
    check("@turn; user a".to_owned(), "seq 15: user/message outside a step (S-112)");
}

#[test]
fn a_step_needs_a_message_or_results_of_tools() {
    let check = |script: &str, expected: &str| bad(script, expected);
    check(
        "turn; step; header initial",
        "seq 2: request/header in a step that neither a message nor a tool has led to (L-31)",
    );
    check(
        "@said; step-end; step; says",
        "seq 15: assistant/chunk in a step that neither a message nor a tool has led to (L-31)",
    );
    good("@called c; call c; result c; step-end; step; says; answer");
    good("@said; step-in a; step-end; claim step; step; user a; says; answer");
}

#[test]
fn a_title_is_made_of_a_persons_words() {
    let open = "in m1; turn; claim turn; step; user m1";
    let expected = "a fallback title must name one message of a person, in the step that it enters, before the request \
                    (L-18)";
    good(&format!("{open}; snapshot s; title 4; header initial"));
    bad(&format!("{open}; snapshot s; title 5"), &format!("seq 6: {expected}"));
    bad(&format!("{open}; title 0"), &format!("seq 5: {expected}"));
    bad(&format!("{open}; header initial; title 4"), &format!("seq 6: {expected}"));
    bad(
        &format!("{open}; title 4; title 4"),
        "seq 6: a fallback title in a session that has a title (L-18)",
    );
    bad(&format!("{open}; title 5"), "seq 5: messageSeqs must name earlier events (L-18)");
}
