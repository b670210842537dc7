//! Moving a connection to another version, and back.

use std::sync::Arc;

use insta::assert_snapshot;
use transom_policy::Policy;

use super::ReplaceError;
use crate::{
    codec::{CodecError, CodecSource, Framing, Manifest},
    script::{POLICY, Player, Script},
};

fn script() -> Arc<dyn CodecSource> {
    Arc::new(Script::default())
}

fn version_two() -> Script {
    Script { version: "2", ..Script::default() }
}

#[test]
fn a_move_keeps_requests_deadline_and_state() {
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    player.play("1 unit request 1 session/wait; deadline 30");
    assert_eq!(player.replace(Arc::new(version_two())), Ok(()));
    player.play("2 unit say call $n; request 2 session/prompt; request 3 session/prompt");
    player.play("3 frame reply 1 session/wait");
    player.play("30 deadline");
    assert_eq!(player.connection.identity().as_deref(), Some("script 2"));
    assert_snapshot!(player.transcript, @r#"
    > 1 unit request 1 session/wait; deadline 30
    < request session/wait 1 {}
    < deadline 30
    > replace
    < info: codec moved {"from":"script 1","component":"script 2"}
    > 2 unit say call $n; request 2 session/prompt; request 3 session/prompt
    < write call 2
    < request session/prompt 2 {}
    < write 3 heard failure session/prompt 3 {"code":"overloaded","message":"too many requests wait for their answer","details":{"limit":"pending-requests-max"}}
    > 3 frame reply 1 session/wait
    < write 4 heard reply session/wait 1 {}
    > 30 deadline
    < write 5 deadline at 30
    "#);
}

#[test]
fn the_new_version_sends_what_it_declares_itself() {
    let manifest =
        Manifest { sends: vec!["host/describe".to_owned()], ..Script::default().manifest };
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    assert_eq!(player.replace(Arc::new(Script { manifest, ..version_two() })), Ok(()));
    player.play("1 unit request 1 host/describe; request 2 session/open");
    assert_snapshot!(player.transcript, @r#"
    > replace
    < info: codec moved {"from":"script 1","component":"script 2"}
    > 1 unit request 1 host/describe; request 2 session/open
    < request host/describe 1 {}
    < warn: request refused {"frame":"session/open","reason":"the component does not declare session/open"}
    < write 2 heard failure session/open 2 {"code":"denied","message":"this door may not send session/open","details":{"frame":"session/open"}}
    "#);
}

#[test]
fn a_refused_move_leaves_the_connection_where_it_was() {
    let check = |script: Script, expected: &str| {
        let mut player = Player::open(self::script(), Framing::Lines, POLICY);
        player.play("1 unit say call $n");
        let refused = player.replace(Arc::new(script)).expect_err("refused");
        assert_eq!(refused.to_string(), format!("the new version does not resume: {expected}"));
        player.play("2 unit say call $n");
        assert_eq!(player.connection.identity().as_deref(), Some("script 1"));
        assert_eq!(
            player.transcript,
            "> 1 unit say call $n\n< write call 1\n> replace\n> 2 unit say call $n\n< write call 2\n"
        );
    };
    let with = |manifest| Script { manifest, ..version_two() };
    let manifest = || Script::default().manifest;
    check(Script { resumes: false, ..version_two() }, "unsupported: not this state");
    check(
        with(Manifest { resumes: vec![2, 3], ..manifest() }),
        "unsupported: state format 1, but [2, 3] are resumed",
    );
    check(
        with(Manifest { framings: vec![Framing::Messages], ..manifest() }),
        "misuse: framing Lines, but [Messages] are spoken",
    );
    check(
        with(Manifest { sends: vec!["A".to_owned()], ..manifest() }),
        "misuse: the manifest sends [\"A\"]; right would be words of lower-case letters, digits and hyphens with one `/` between them, such as \"session/open\"",
    );
}

#[test]
fn a_version_that_cannot_be_suspended_ends_its_connection() {
    let source = Arc::new(Script { suspends: false, ..Script::default() });
    let mut player = Player::open(source, Framing::Lines, POLICY);
    let trap = CodecError::Trap("suspend".to_owned());
    assert_eq!(player.replace(Arc::new(version_two())), Err(ReplaceError::Suspend(trap)));
    assert_eq!(player.replace(Arc::new(version_two())), Err(ReplaceError::Closed));
    assert_snapshot!(player.transcript, @r#"
    > replace
    < faulted script 1: trap: suspend
    < close Some(1011) "the door failed" failed
    > replace
    "#);
}

#[test]
fn the_first_call_of_a_version_that_traps_is_made_by_the_one_before() {
    // Decision 52.
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    player.play("1 unit say call $n");
    assert_eq!(player.replace(Arc::new(Script { calls_max: 0, ..version_two() })), Ok(()));
    player.play("2 unit say call $n");
    player.play("3 unit say call $n");
    assert_eq!(player.connection.identity().as_deref(), Some("script 1"));
    assert_snapshot!(player.transcript, @r#"
    > 1 unit say call $n
    < write call 1
    > replace
    < info: codec moved {"from":"script 1","component":"script 2"}
    > 2 unit say call $n
    < faulted script 2: trap: unreachable
    < warn: codec moved back {"component":"script 1"}
    < write call 2
    > 3 unit say call $n
    < write call 3
    "#);
}

#[test]
fn a_later_trap_of_a_new_version_ends_the_connection() {
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    assert_eq!(player.replace(Arc::new(Script { calls_max: 1, ..version_two() })), Ok(()));
    player.play("1 unit say call $n");
    player.play("2 unit say call $n");
    assert!(player.connection.is_closed());
    assert_snapshot!(player.transcript, @r#"
    > replace
    < info: codec moved {"from":"script 1","component":"script 2"}
    > 1 unit say call $n
    < write call 1
    > 2 unit say call $n
    < faulted script 2: trap: unreachable
    < close Some(1011) "the door failed" failed
    "#);
}

#[test]
fn a_fault_in_the_first_call_is_the_peers_and_moves_nothing_back() {
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    assert_eq!(player.replace(Arc::new(version_two())), Ok(()));
    player.play("1 unit fault bad greeting");
    assert_snapshot!(player.transcript, @r#"
    > replace
    < info: codec moved {"from":"script 1","component":"script 2"}
    > 1 unit fault bad greeting
    < faulted script 2: malformed: bad greeting
    < close Some(1011) "bad greeting" failed
    "#);
}

#[test]
fn a_version_that_has_heard_nothing_is_passed_over() {
    // Version 2 cannot even be suspended. It need not be: what version 1 wrote still says everything, and version 1 stays
    // the one to go back to.
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    player.play("1 unit say call $n");
    assert_eq!(player.replace(Arc::new(Script { suspends: false, ..version_two() })), Ok(()));
    let third = Script { version: "3", calls_max: 0, ..Script::default() };
    assert_eq!(player.replace(Arc::new(third)), Ok(()));
    player.play("2 unit say call $n");
    assert_snapshot!(player.transcript, @r#"
    > 1 unit say call $n
    < write call 1
    > replace
    < info: codec moved {"from":"script 1","component":"script 2"}
    > replace
    < info: codec moved {"from":"script 2","component":"script 3"}
    > 2 unit say call $n
    < faulted script 3: trap: unreachable
    < warn: codec moved back {"component":"script 1"}
    < write call 2
    "#);
}

#[test]
fn a_refused_move_behind_a_move_still_knows_the_way_back() {
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    assert_eq!(player.replace(Arc::new(Script { calls_max: 0, ..version_two() })), Ok(()));
    let refusing = Script { version: "3", resumes: false, ..Script::default() };
    assert!(matches!(player.replace(Arc::new(refusing)), Err(ReplaceError::Refused(_))));
    assert_eq!(player.connection.identity().as_deref(), Some("script 2"));
    player.play("1 unit say call $n");
    assert_eq!(player.connection.identity().as_deref(), Some("script 1"));
}

#[test]
fn options_that_a_version_refuses_leave_the_old_ones() {
    // Decision 53: other options are a swap to the same version.
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    player.options = r#"{"refuse":true}"#;
    assert!(matches!(player.replace(script()), Err(ReplaceError::Refused(_))));
    player.options = r#"{"other":true}"#;
    assert_eq!(player.replace(script()), Ok(()));
    player.play("1 unit say call $n");
    assert!(player.transcript.ends_with("< write call 1\n"), "{}", player.transcript);
}

#[test]
fn a_new_policy_holds_from_the_move_on() {
    let mut player = Player::open(script(), Framing::Lines, POLICY);
    player.play("1 unit request 1 session/open");
    let narrow = POLICY.replace("\"session/*\", ", "");
    player.policy = Arc::new(Policy::parse("narrow.toml", &narrow).expect("a policy"));
    assert_eq!(player.replace(script()), Ok(()));
    player.play("2 unit request 2 session/open");
    assert!(player.transcript.contains("< warn: request refused"), "{}", player.transcript);
}
