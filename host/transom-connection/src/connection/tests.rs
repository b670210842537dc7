//! Stories of a connection: what it is told, and every effect of it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use insta::assert_snapshot;
use transom_policy::Policy;

use crate::{
    Connection, REFUSALS_PER_EVENT_MAX,
    codec::{CodecSource, Framing, Manifest},
    script::{POLICY, Player, Script, play, serving, setup},
};

fn script() -> Arc<dyn CodecSource> {
    Arc::new(Script::default())
}

/// Plays a story with the ordinary script and policy.
fn tell(story: &[&str]) -> String {
    play(&script(), POLICY, story)
}

/// Plays one unit on another kind of carrier.
fn tell_on(framing: Framing, commands: &str) -> String {
    let mut player = Player::open(script(), framing, POLICY);
    player.play(&format!("1 unit {commands}"));
    player.transcript
}

// Conversations.

#[test]
fn what_the_codec_puts_out_is_done_in_its_order() {
    assert_snapshot!(tell(&[
        "1 unit say a; request 1 session/open; deadline 30; note word {}; say b; notice session/note; end; close 1000 done"
    ]), @r#"
    > 1 unit say a; request 1 session/open; deadline 30; note word {}; say b; notice session/note; end; close 1000 done
    < write a
    < request session/open 1 {}
    < deadline 30
    < info: word {}
    < write b
    < notice session/note {}
    < end output
    < close Some(1000) "done"
    "#);
}

#[test]
fn a_request_is_answered_once_and_a_late_answer_is_dropped() {
    assert_snapshot!(tell(&[
        "1 unit request 1 session/open; request 2 session/prompt",
        r#"2 frame reply 2 session/prompt {"messageId":"m"}"#,
        "3 frame reply 1 session/prompt",
        "4 frame failure 1 session/open no",
        "5 frame reply 1 session/open",
        "6 frame failure 7 session/open",
        "7 unit request 1 session/open",
    ]), @r#"
    > 1 unit request 1 session/open; request 2 session/prompt
    < request session/open 1 {}
    < request session/prompt 2 {}
    > 2 frame reply 2 session/prompt {"messageId":"m"}
    < write 2 heard reply session/prompt 2 {"messageId":"m"}
    > 3 frame reply 1 session/prompt
    < warn: answer to nothing dropped {"frame":"session/prompt","kind":"reply","id":"1"}
    > 4 frame failure 1 session/open no
    < write 3 heard failure session/open 1 {"code":"unexpected","message":"no","details":{}}
    > 5 frame reply 1 session/open
    < warn: answer to nothing dropped {"frame":"session/open","kind":"reply","id":"1"}
    > 6 frame failure 7 session/open
    < warn: answer to nothing dropped {"frame":"session/open","kind":"failure","id":"7"}
    > 7 unit request 1 session/open
    < request session/open 1 {}
    "#);
}

#[test]
fn a_request_of_the_host_is_answered_once_and_whatever_else_is_dropped() {
    assert_snapshot!(tell(&[
        "1 frame request q tools/call",
        "2 frame request q tools/call",
        "3 unit reply q tools/list; reply r tools/call",
        "4 unit reply q tools/call; reply q tools/call",
        "5 frame request q tools/call",
    ]), @r#"
    > 1 frame request q tools/call
    < write 1 heard request tools/call q {}
    > 2 frame request q tools/call
    < error: request without an id of its own dropped {"frame":"tools/call","kind":"request","id":"q"}
    > 3 unit reply q tools/list; reply r tools/call
    < warn: answer to nothing dropped {"frame":"tools/list","kind":"reply","id":"q"}
    < warn: answer to nothing dropped {"frame":"tools/call","kind":"reply","id":"r"}
    > 4 unit reply q tools/call; reply q tools/call
    < reply tools/call q {}
    < warn: answer to nothing dropped {"frame":"tools/call","kind":"reply","id":"q"}
    > 5 frame request q tools/call
    < write 4 heard request tools/call q {}
    "#);
}

#[test]
fn input_may_end_and_the_conversation_goes_on_until_the_codec_closes() {
    // Decision 15.
    assert_snapshot!(tell(&[
        "1 unit request 1 session/wait",
        "2 end",
        "3 unit say never",
        "4 too-long 99",
        "5 frame notice session/event",
        "6 frame reply 1 session/wait",
    ]), @"
    > 1 unit request 1 session/wait
    < request session/wait 1 {}
    > 2 end
    < write 2 End(Ending { lane: 0, broken: None })
    > 3 unit say never
    < error: input behind its end dropped {}
    > 4 too-long 99
    < error: input behind its end dropped {}
    > 5 frame notice session/event
    < write 3 heard notice session/event {}
    > 6 frame reply 1 session/wait
    < write 4 heard reply session/wait 1 {}
    ");
}

#[test]
fn a_broken_wire_gets_no_more_bytes_and_the_conversation_still_ends_in_order() {
    // S-36
    assert_snapshot!(tell(&[
        "1 unit on-failure say unheard; end; close 1000 done",
        "2 unit request 1 session/wait",
        "3 broken EPIPE",
        "4 frame failure 1 session/wait",
    ]), @r#"
    > 1 unit on-failure say unheard; end; close 1000 done
    > 2 unit request 1 session/wait
    < request session/wait 1 {}
    > 3 broken EPIPE
    > 4 frame failure 1 session/wait
    < close Some(1000) "done"
    "#);
    assert_snapshot!(tell(&["1 end", "2 broken EPIPE", "3 frame notice session/event"]), @"
    > 1 end
    < write 1 End(Ending { lane: 0, broken: None })
    > 2 broken EPIPE
    > 3 frame notice session/event
    ");
}

#[test]
fn a_drain_says_why() {
    // Decision 26.
    assert_snapshot!(tell(&["1 replaced", "2 shutdown"]), @"
    > 1 replaced
    < write 1 Drain(Replaced)
    > 2 shutdown
    < write 2 Drain(Shutdown)
    ");
}

#[test]
fn a_unit_over_a_bound_is_told_and_logged_once() {
    // S-9, decision 23: the codec decides what follows.
    assert_snapshot!(tell(&[
        "1 too-long 167772161",
        "2 too-deep 1026",
        "3 unfinished rest",
        "4 unit say on"
    ]), @r#"
    > 1 too-long 167772161
    < warn: unit skipped {"limit":"unit-bytes-max","bytes":167772161}
    < write 1 Skipped(Skipped { lane: 0, why: TooLong, bytes: 167772161 })
    > 2 too-deep 1026
    < warn: unit skipped {"limit":"nesting-max","bytes":1026}
    < write 2 Skipped(Skipped { lane: 0, why: TooDeep, bytes: 1026 })
    > 3 unfinished rest
    < write 3 Unit(Unit { lane: 0, form: Unfinished, bytes: [114, 101, 115, 116] })
    > 4 unit say on
    < write on
    "#);
}

#[test]
fn a_deadline_replaces_the_earlier_one_and_a_stale_timer_is_ignored() {
    assert_snapshot!(tell(&[
        "1 unit deadline 30",
        "2 unit deadline 50",
        "30 deadline",
        "50 deadline",
        "51 deadline",
        "52 unit deadline 60",
        "53 unit deadline none",
        "60 deadline",
    ]), @"
    > 1 unit deadline 30
    < deadline 30
    > 2 unit deadline 50
    < deadline 50
    > 30 deadline
    > 50 deadline
    < write 3 deadline at 50
    > 51 deadline
    > 52 unit deadline 60
    < deadline 60
    > 53 unit deadline none
    < deadline none
    > 60 deadline
    ");
}

#[test]
fn time_never_runs_back() {
    assert_snapshot!(tell(&["40 unit deadline 30", "20 deadline"]), @"
    > 40 unit deadline 30
    < deadline 30
    > 20 deadline
    < write 2 deadline at 40
    ");
}

#[test]
fn after_the_close_no_call_reaches_the_codec() {
    assert_snapshot!(tell(&[
        "1 unit close 1000 bye; say late; say later",
        "2 unit say x",
        "3 end",
        "4 unwritten 9999"
    ]), @r#"
    > 1 unit close 1000 bye; say late; say later
    < warn: outputs behind the close dropped {"outputs":2}
    < close Some(1000) "bye"
    > 2 unit say x
    > 3 end
    > 4 unwritten 9999
    "#);
}

#[test]
fn a_greeting_is_put_out_by_open() {
    let source: Arc<dyn CodecSource> = Arc::new(Script {
        greeting: "say hello; deadline 5; request 1 host/shutdown; request 2 session/list",
        ..Script::default()
    });
    assert_snapshot!(play(&source, POLICY, &["5 deadline"]), @r#"
    < write hello
    < deadline 5
    < warn: request refused {"frame":"host/shutdown","reason":"frames.allow does not name host/shutdown"}
    < request session/list 2 {}
    < write 1 heard failure host/shutdown 1 {"code":"denied","message":"this door may not send host/shutdown","details":{"frame":"host/shutdown"}}
    > 5 deadline
    < write 2 deadline at 5
    "#);
}

// The policy about frames.

#[test]
fn a_refused_request_is_answered_at_once_in_order_and_never_leaves() {
    // `host/shutdown` is declared and not allowed, `host/describe` allowed and not declared.
    assert_snapshot!(tell(&[
        "1 unit request 1 host/shutdown; request 2 session/open; request 3 host/describe; say end of call",
        "2 unit request 1 session/prompt",
    ]), @r#"
    > 1 unit request 1 host/shutdown; request 2 session/open; request 3 host/describe; say end of call
    < warn: request refused {"frame":"host/shutdown","reason":"frames.allow does not name host/shutdown"}
    < request session/open 2 {}
    < warn: request refused {"frame":"host/describe","reason":"the component does not declare host/describe"}
    < write end of call
    < write 2 heard failure host/shutdown 1 {"code":"denied","message":"this door may not send host/shutdown","details":{"frame":"host/shutdown"}}
    < write 3 heard failure host/describe 3 {"code":"denied","message":"this door may not send host/describe","details":{"frame":"host/describe"}}
    > 2 unit request 1 session/prompt
    < request session/prompt 1 {}
    "#);
}

#[test]
fn a_refused_notice_is_dropped_and_logged() {
    assert_snapshot!(tell(&[
        "1 unit notice tools/progress; notice tools/offer; notice agent/output; say on"
    ]), @r#"
    > 1 unit notice tools/progress; notice tools/offer; notice agent/output; say on
    < notice tools/progress {}
    < warn: notice refused {"frame":"tools/offer","reason":"frames.allow does not name tools/offer"}
    < warn: notice refused {"frame":"agent/output","reason":"the component does not declare agent/output"}
    < write on
    "#);
}

#[test]
fn an_id_is_not_used_again_while_its_refusal_is_on_the_way() {
    assert_snapshot!(tell(&["1 unit request 1 host/shutdown; request 1 session/open"]), @r#"
    > 1 unit request 1 host/shutdown; request 1 session/open
    < warn: request refused {"frame":"host/shutdown","reason":"frames.allow does not name host/shutdown"}
    < faulted script 1: misuse: the id 1 of session/open is still pending
    < close Some(1011) "the door failed" failed
    "#);
}

#[test]
fn refusals_that_lead_to_refusals_come_to_an_end() {
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    player.play("1 unit on-failure request again host/shutdown");
    player.play("2 unit request again host/shutdown");
    let refused = player.transcript.lines().filter(|line| line.contains("request refused")).count();
    assert_eq!(refused as u64, REFUSALS_PER_EVENT_MAX + 1);
    assert!(
        player.transcript.ends_with(
            "< faulted script 1: limit refusals-per-event: 1025 is over the allowed 1024\n\
             < close Some(1011) \"the door failed\" failed\n"
        ),
        "{}",
        player.transcript
    );
}

// Limits.

#[test]
fn a_request_too_many_fails_as_overloaded_and_the_next_one_may_go() {
    assert_snapshot!(tell(&[
        "1 unit request 1 session/a; request 2 session/b; request 3 session/c",
        "2 frame reply 1 session/a",
        "3 unit request 3 session/c",
    ]), @r#"
    > 1 unit request 1 session/a; request 2 session/b; request 3 session/c
    < request session/a 1 {}
    < request session/b 2 {}
    < write 2 heard failure session/c 3 {"code":"overloaded","message":"too many requests wait for their answer","details":{"limit":"pending-requests-max"}}
    > 2 frame reply 1 session/a
    < write 3 heard reply session/a 1 {}
    > 3 unit request 3 session/c
    < request session/c 3 {}
    "#);
}

#[test]
fn what_is_under_way_can_be_taken_back_when_nothing_more_may_begin() {
    assert_snapshot!(tell(&[
        "1 unit request 1 session/a; request 2 session/b; request 3 session/cancel; request 4 session/queue; request 5 session/close"
    ]), @r#"
    > 1 unit request 1 session/a; request 2 session/b; request 3 session/cancel; request 4 session/queue; request 5 session/close
    < request session/a 1 {}
    < request session/b 2 {}
    < request session/cancel 3 {}
    < request session/queue 4 {}
    < write 2 heard failure session/close 5 {"code":"overloaded","message":"too many requests wait for their answer","details":{"limit":"pending-requests-max"}}
    "#);
}

#[test]
fn a_request_of_the_host_too_many_fails_as_overloaded() {
    assert_snapshot!(tell(&[
        "1 frame request 1 tools/call",
        "2 frame request 2 tools/call",
        "3 frame request 3 tools/call",
        "4 unit reply 1 tools/call",
        "5 frame request 3 tools/call",
    ]), @r#"
    > 1 frame request 1 tools/call
    < write 1 heard request tools/call 1 {}
    > 2 frame request 2 tools/call
    < write 2 heard request tools/call 2 {}
    > 3 frame request 3 tools/call
    < failure tools/call 3 {"code":"overloaded","message":"too many requests wait for their answer","details":{"limit":"pending-requests-max"}}
    > 4 unit reply 1 tools/call
    < reply tools/call 1 {}
    > 5 frame request 3 tools/call
    < write 4 heard request tools/call 3 {}
    "#);
}

#[test]
fn an_id_has_a_length() {
    let right = "i".repeat(256);
    let wrong = "i".repeat(257);
    let transcript = tell(&[&format!("1 unit request {right} session/open")]);
    assert!(
        transcript.ends_with(&format!("< request session/open {right} {{}}\n")),
        "{transcript}"
    );
    let transcript = tell(&[&format!("1 unit request {wrong} session/open")]);
    assert!(
        transcript.contains("limit frame-id-bytes-max: 257 is over the allowed 256"),
        "{transcript}"
    );
}

#[test]
fn at_the_first_mark_notices_rest_and_at_the_second_reading_does() {
    // Decision 21. Each goes on at half of its mark.
    assert_snapshot!(tell(&[
        "1 unwritten 99",
        "2 unwritten 100",
        "3 unwritten 60",
        "4 unwritten 199",
        "5 unwritten 200",
        "6 unwritten 150",
        "7 unwritten 101",
        "8 unwritten 100",
        "9 unwritten 51",
        "10 unwritten 50",
        "11 unwritten 0",
        "12 unwritten 500",
        "13 unwritten 0",
    ]), @"
    > 1 unwritten 99
    > 2 unwritten 100
    < notices false
    > 3 unwritten 60
    > 4 unwritten 199
    > 5 unwritten 200
    < reading false
    > 6 unwritten 150
    > 7 unwritten 101
    > 8 unwritten 100
    < reading true
    > 9 unwritten 51
    > 10 unwritten 50
    < notices true
    > 11 unwritten 0
    > 12 unwritten 500
    < notices false
    < reading false
    > 13 unwritten 0
    < reading true
    < notices true
    ");
}

#[test]
fn while_reading_rests_what_was_read_and_answers_still_pass() {
    // A-20: a cancel is heard.
    assert_snapshot!(tell(&[
        "1 unit request 1 session/prompt",
        "2 unwritten 200",
        "3 unit request 2 session/cancel",
        "4 frame reply 1 session/prompt",
    ]), @"
    > 1 unit request 1 session/prompt
    < request session/prompt 1 {}
    > 2 unwritten 200
    < notices false
    < reading false
    > 3 unit request 2 session/cancel
    < request session/cancel 2 {}
    > 4 frame reply 1 session/prompt
    < write 3 heard reply session/prompt 1 {}
    ");
}

// Codecs that misbehave.

#[test]
fn a_fault_ends_the_connection_with_its_own_words() {
    assert_snapshot!(tell(&[
        "1 unit say a",
        "2 unit fault no greeting within 30000 ms",
        "3 unit say b"
    ]), @r#"
    > 1 unit say a
    < write a
    > 2 unit fault no greeting within 30000 ms
    < faulted script 1: malformed: no greeting within 30000 ms
    < close Some(1011) "no greeting within 30000 ms" failed
    > 3 unit say b
    "#);
}

#[test]
fn a_trap_ends_the_connection_and_tells_the_peer_nothing_of_it() {
    // Without moves: the version before a move would be asked too.
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    player.play("1 unit trap");
    player.play("2 unit say b");
    assert_snapshot!(player.transcript, @r#"
    > 1 unit trap
    < faulted script 1: trap: wasm trap: unreachable
    < close Some(1011) "the door failed" failed
    > 2 unit say b
    "#);
}

/// How a misuse is named, and that it ends the connection.
fn check_misuse(framing: Framing, commands: &str, expected: &str) {
    let transcript = tell_on(framing, commands);
    assert!(
        transcript.ends_with(&format!(
            "< faulted script 1: misuse: {expected}\n< close Some(1011) \"the door failed\" failed\n"
        )),
        "{commands}: {transcript}"
    );
}

#[test]
fn what_the_contract_does_not_allow_ends_the_connection() {
    let check = |commands, expected| check_misuse(Framing::Lines, commands, expected);
    check("say-on-lane-1 x", "lane 1 is used, and the carrier has none but 0");
    check("end 2", "lane 2 is used, and the carrier has none but 0");
    check("abort 2", "lane 2 is used, and the carrier has none but 0");
    check("head", "the carrier has no heads");
    check("abort", "lines cannot be broken off; close ends them");
    check("say-binary x", "a line is put out as binary");
    check("say-unfinished x", "a unit is put out unfinished");
    check(
        r"say {}\n{}",
        "the unit holds a line feed at byte 2, which would end its line; escape it or leave it out",
    );
    check("end; say x", "a unit is put out behind the end of the output");
    check("end; end", "the output is ended a second time");
    check("request-without-id session/open", "the request session/open has no id");
    check("notice-with-id session/x", "the notice session/x has an id");
    check("request 1 session/a; request 1 session/b", "the id 1 of session/b is still pending");
    check_misuse(Framing::Messages, "head", "the carrier has no heads");
}

#[test]
fn carriers_without_lines_take_what_lines_cannot() {
    assert_snapshot!(tell_on(Framing::Chunks, r"say a\nb; say-binary c; abort; say unheard"), @r#"
    > 1 unit say a\nb; say-binary c; abort; say unheard
    < write a\nb
    < write c
    < abort output
    "#);
}

#[test]
fn an_unknown_output_of_a_later_version_is_ignored() {
    assert_snapshot!(tell(&["1 unit other priority {}; say on"]), @r#"
    > 1 unit other priority {}; say on
    < debug: unknown output ignored {"output":"priority"}
    < write on
    "#);
}

// Opening.

#[test]
fn a_connection_that_does_not_open_puts_nothing_out() {
    let check = |script: Script, framing, expected: &str| {
        let policy = Arc::new(Policy::parse("test.toml", POLICY).expect("a policy"));
        let alive = script.alive.clone();
        let mut out = Vec::new();
        let error = Connection::open(&mut out, serving(Arc::new(script), policy), setup(framing))
            .err()
            .expect("the connection does not open");
        assert_eq!(error.to_string(), expected);
        assert_eq!(out, []);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "the instance is gone");
    };
    let with = |greeting| Script { greeting, ..Script::default() };
    check(with("fault too old"), Framing::Lines, "malformed: too old");
    check(with("say hello; head"), Framing::Lines, "misuse: the carrier has no heads");
    check(
        Script::default(),
        Framing::Outbound,
        "misuse: framing Outbound, but [Lines, Chunks, Messages] are spoken",
    );
    let manifest = Manifest { sends: vec!["*".to_owned()], ..Script::default().manifest };
    check(
        Script { manifest, ..Script::default() },
        Framing::Lines,
        "misuse: the manifest sends [\"*\"]; right would be one prefix an entry, such as \"session/*\"",
    );
}

#[test]
fn a_connection_may_close_as_it_opens() {
    let source = Arc::new(Script { greeting: "say sorry; close 1013 full", ..Script::default() });
    let mut player = Player::open(source, Framing::Lines, POLICY);
    assert!(player.connection.is_closed());
    player.play("1 unit say x");
    assert_eq!(player.transcript, "< write sorry\n< close Some(1013) \"full\"\n> 1 unit say x\n");
}

#[test]
fn an_instance_is_gone_with_the_close_of_its_connection() {
    let alive = Arc::new(AtomicU64::new(0));
    let source = Arc::new(Script { alive: alive.clone(), ..Script::default() });
    let mut player = Player::open(source, Framing::Lines, POLICY);
    player.play("1 unit request 1 session/open");
    let connection = &player.connection;
    assert_eq!(
        (connection.pending(), connection.memory_bytes(), connection.identity().as_deref()),
        (1, 4096, Some("script 1"))
    );
    assert_eq!(alive.load(Ordering::Relaxed), 1);

    player.play("2 unit close 1000 bye");
    let connection = &player.connection;
    assert_eq!(
        (connection.pending(), connection.memory_bytes(), connection.identity()),
        (0, 0, None)
    );
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}
