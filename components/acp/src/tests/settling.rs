//! Which outcome a prompt gets: its own, whatever else the session does (A-66 to A-77).

use super::*;

#[test]
fn a_67_the_table_of_endings() {
    for (reason, stop) in [
        (r#"{"kind":"completed"}"#, "end_turn"),
        (r#"{"kind":"max-tokens"}"#, "end_turn"),
        (r#"{"kind":"aborted","reason":{"kind":"hook","reason":"r"}}"#, "end_turn"),
        (r#"{"kind":"blocked"}"#, "end_turn"),
        (r#"{"kind":"later"}"#, "end_turn"),
        (r#"{"kind":"interrupted"}"#, "cancelled"),
    ] {
        let said = said_after(&claimed(), &[turn_ends(1, reason), status("idle")]);
        assert_eq!(said, [stopped("7", stop)], "{reason}");
    }
}

#[test]
fn a_66_a_prompt_waits_until_the_agent_rests() {
    let ended = [claimed(), vec![turn_ends(1, r#"{"kind":"completed"}"#)]].concat();
    assert_eq!(said_after(&claimed(), &ended[claimed().len()..]), Vec::<String>::new());
    let more = [turn_claims(2, "x"), turn_ends(2, r#"{"kind":"max-tokens"}"#)];
    assert_eq!(said_after(&ended, &more), Vec::<String>::new());
    let all = [&ended[..], &more[..]].concat();
    assert_eq!(said_after(&all, &[status("idle")]), [stopped("7", "end_turn")]);
}

#[test]
fn row_39_a_failure_is_told_at_once_and_once() {
    // A-69: ahead of the rest; the notice that explains it comes ahead of the event.
    let failed = refused("7", -32603, "Internal error: turn failed: bad key");
    let end = turn_ends(
        1,
        r#"{"kind":"error","error":{"message":"bad key","code":"AUTH","status":401}}"#,
    );
    let told = [fails(1, "bad key", r#"["m7"]"#), end.clone(), status("idle")];
    assert_eq!(said_after(&claimed(), &told).join("\n"), failed);
    assert_eq!(said_after(&claimed(), &[end]), [failed]);
}

#[test]
fn the_next_prompt_is_taken_as_soon_as_a_failure_is_told() {
    let said = said_after(
        &claimed(),
        &[
            fails(1, "bad key", r#"["m7"]"#),
            prompt(8, "again"),
            turn_ends(1, r#"{"kind":"error","error":{"message":"bad key","code":"AUTH"}}"#),
            status("idle"),
            status("running"),
            turn_claims(2, "m8"),
            r#"4 frame reply session/prompt session=s id=4 {"messageId":"m8"}"#.to_owned(),
            turn_ends(2, r#"{"kind":"completed"}"#),
            status("idle"),
        ],
    );
    // A-76: the late end of the first turn settles nothing.
    assert_eq!(
        said,
        [
            refused("7", -32603, "Internal error: turn failed: bad key"),
            r#"frame request session/prompt session=s id=4 {"content":[{"type":"text","text":"again"}]}"#.to_owned(),
            stopped("8", "end_turn"),
        ]
    );
}

#[test]
fn a_71_a_failure_of_another_turn_is_not_the_prompts() {
    // A competing turn between the prompt's own end and rest.
    let said = said_after(
        &claimed(),
        &[
            turn_ends(1, r#"{"kind":"completed"}"#),
            turn_claims(2, "job"),
            fails(2, "boom", r#"["job"]"#),
            turn_ends(2, r#"{"kind":"error","error":{"message":"boom","code":"X"}}"#),
            status("idle"),
        ],
    );
    assert_eq!(said, [stopped("7", "end_turn")]);
}

/// A prompt that is queued behind a turn that nobody prompted.
fn behind_another() -> Vec<String> {
    let mut inputs: Vec<String> = OPENED.map(str::to_owned).to_vec();
    inputs.extend([
        status("running"),
        turn_claims(1, "job"),
        prompt(7, "hi"),
        r#"1 frame reply session/prompt session=s id=3 {"messageId":"m7"}"#.to_owned(),
    ]);
    inputs
}

#[test]
fn a_74_a_turn_that_was_running_settles_nothing() {
    let said = said_after(
        &behind_another(),
        &[
            turn_ends(1, r#"{"kind":"completed"}"#),
            turn_claims(2, "m7"),
            turn_ends(2, r#"{"kind":"completed"}"#),
            status("idle"),
        ],
    );
    assert_eq!(said, [stopped("7", "end_turn")]);
}

const LOOK: &str = "frame request session/describe session=s id=4 {}";

#[test]
fn a_71_a_driver_that_stops_over_a_waiting_message_fails_it_with_what_stopped_it() {
    let said = said_after(
        &behind_another(),
        &[
            fails(1, "boom", r#"["job"]"#),
            turn_ends(1, r#"{"kind":"error","error":{"message":"boom","code":"X"}}"#),
            status("idle"),
            r#"5 frame reply session/describe session=s id=4 {"sessionId":"s","running":false}"#
                .to_owned(),
        ],
    );
    assert_eq!(
        said,
        [
            LOOK,
            // A-83: it has its answer, so it never runs later.
            r#"frame request session/queue session=s id=5 {"itemId":"m7","action":{"kind":"remove"}}"#,
            &refused("7", -32603, "Internal error: turn failed: boom"),
        ]
    );
}

#[test]
fn a_67_a_message_that_no_turn_claims_is_cancelled() {
    let said = said_after(
        &behind_another(),
        &[
            turn_ends(1, r#"{"kind":"aborted","reason":{"kind":"user"}}"#),
            status("idle"),
            r#"5 frame reply session/describe session=s id=4 {"running":false}"#.to_owned(),
        ],
    );
    assert_eq!(said[2], stopped("7", "cancelled"));
}

#[test]
fn a_79_a_message_behind_an_abort_waits_for_the_agent_to_wake() {
    // The agent rests for a moment, and wakes at once for what was sent meanwhile.
    let said = said_after(
        &behind_another(),
        &[
            turn_ends(1, r#"{"kind":"aborted","reason":{"kind":"user"}}"#),
            status("idle"),
            status("running"),
            turn_claims(2, "m7"),
            r#"5 frame reply session/describe session=s id=4 {"running":true}"#.to_owned(),
            turn_ends(2, r#"{"kind":"completed"}"#),
            status("idle"),
        ],
    );
    assert_eq!(said, [LOOK.to_owned(), stopped("7", "end_turn")]);
}

#[test]
fn a_look_that_comes_late_concerns_no_other_prompt() {
    let said = said_after(
        &behind_another(),
        &[
            status("idle"),
            status("running"),
            turn_claims(2, "m7"),
            turn_ends(2, r#"{"kind":"completed"}"#),
            status("idle"),
            prompt(8, "next"),
            r#"5 frame reply session/prompt session=s id=5 {"messageId":"m8"}"#.to_owned(),
            r#"5 frame reply session/describe session=s id=4 {"running":false}"#.to_owned(),
        ],
    );
    assert_eq!(said[..2], [LOOK.to_owned(), stopped("7", "end_turn")]);
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn what_was_told_before_the_message_was_named_counts() {
    // A whole turn fits in between.
    let turn = |reason: &str| {
        said_opened(&[
            prompt(7, "hi"),
            status("running"),
            turn_claims(1, "m7"),
            turn_ends(1, reason),
            status("idle"),
            r#"2 frame reply session/prompt session=s id=3 {"messageId":"m7"}"#.to_owned(),
        ])
    };
    assert_eq!(turn(r#"{"kind":"completed"}"#)[1], stopped("7", "end_turn"));
    let failed = refused("7", -32603, "Internal error: turn failed: no");
    assert_eq!(turn(r#"{"kind":"error","error":{"message":"no"}}"#)[1], failed);
}

#[test]
fn a_rest_from_before_the_message_settles_nothing() {
    let said = said_opened(&[
        prompt(7, "hi"),
        fails(1, "old", r#"["x"]"#),
        turn_ends(1, r#"{"kind":"error","error":{"message":"old"}}"#),
        status("idle"),
        status("running"),
        turn_claims(2, "m7"),
        r#"2 frame reply session/prompt session=s id=3 {"messageId":"m7"}"#.to_owned(),
    ]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn what_is_told_before_the_message_is_named_is_kept_within_a_bound() {
    let mut inputs: Vec<String> = OPENED.map(str::to_owned).to_vec();
    inputs.push(prompt(7, "hi"));
    inputs.extend((0..500).map(|turn| turn_claims(turn, "other")));
    inputs.push(turn_claims(500, "m7"));
    inputs.push(r#"2 frame reply session/prompt session=s id=3 {"messageId":"m7"}"#.to_owned());
    inputs.push(turn_ends(500, r#"{"kind":"completed"}"#));
    inputs.push(status("idle"));
    assert_eq!(said(&inputs).last(), Some(&stopped("7", "end_turn")));
}

#[test]
fn a_reply_without_a_message_is_a_failure_to_queue() {
    let said = said_opened(&[
        prompt(7, "hi"),
        "2 frame reply session/prompt session=s id=3 {}".to_owned(),
    ]);
    let message = "Internal error: prompt was not queued: the host's reply names no message";
    assert_eq!(said[1], refused("7", -32603, message));
}
