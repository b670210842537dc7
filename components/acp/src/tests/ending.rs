//! How a conversation ends (A-39, A-88 to A-93).

use super::*;

#[test]
fn row_45_what_is_in_flight_is_cancelled_and_nothing_follows() {
    for (ending, reason) in [
        ("9 end", "end of input"),
        ("9 drain shutdown", "shutdown"),
        (r#"9 frame notice stream/lagged {"subscription":"e1"}"#, "lagged"),
        (r#"9 frame notice stream/ended {"subscription":"e1"}"#, "stream ended"),
    ] {
        let said = said_after(
            &claimed(),
            &[
                ending.to_owned(),
                turn_ends(1, r#"{"kind":"completed"}"#),
                status("idle"),
                prompt(8, "x"),
                "9 end".to_owned(),
                "9 drain shutdown".to_owned(),
            ],
        );
        assert_eq!(said, [stopped("7", "cancelled"), format!("close {reason}")], "{ending}");
    }
}

#[test]
fn prompts_are_answered_in_the_order_in_which_they_came() {
    let said = said_after(
        &OPENED,
        &[
            r#"1 unit {"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#.to_owned(),
            "1 frame reply session/open session=a id=3 {}".to_owned(),
            prompt(7, "x"),
            r#"1 unit {"id":8,"method":"session/prompt","params":{"sessionId":"a","prompt":[{"type":"text","text":"y"}]}}"#.to_owned(),
            "2 end".to_owned(),
        ],
    );
    assert_eq!(
        said[4..],
        [stopped("7", "cancelled"), stopped("8", "cancelled"), "close end of input".to_owned()]
    );
}

#[test]
fn a_39_a_session_on_its_way_is_refused() {
    let message = "Internal error: connection closed during session/new";
    let both = [refused("1", -32603, message), "close end of input".to_owned()];
    assert_eq!(said_after(&OPENED[..1], &["1 end"]), both);
    assert_eq!(said_after(&OPENED[..2], &["1 end", OPENED[2]]), both);
}

#[test]
fn a_broken_wire_is_told_nothing() {
    assert_eq!(said_after(&claimed(), &["9 end broken exit 3"]), ["close end of input"]);
}

#[test]
fn an_idle_connection_just_closes() {
    // A-7, A-90.
    assert_eq!(said(&["0 end"]), ["close end of input"]);
    assert_eq!(said_opened(&["1 drain shutdown", "1 drain shutdown", "2 end"]), ["close shutdown"]);
}

#[test]
fn a_9_the_last_line_is_answered_behind_the_end_of_the_line() {
    let line = r#"0 unfinished {"id":120,"method":"authenticate","params":{"methodId":"x"}}"#;
    assert_eq!(said(&[line, "0 end"]), [answered("120", "{}"), "close end of input".to_owned()]);
}

#[test]
fn a_replaced_version_finishes_what_it_has() {
    // Decision 26.
    let said = said_after(
        &claimed(),
        &[
            "3 drain replaced".to_owned(),
            turn_ends(1, r#"{"kind":"completed"}"#),
            status("idle"),
            prompt(8, "on"),
        ],
    );
    assert_eq!(said[0], stopped("7", "end_turn"));
    assert!(said[1].starts_with("frame request session/prompt"), "{}", said[1]);
}
