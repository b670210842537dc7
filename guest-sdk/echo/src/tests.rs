//! Transcripts: what the peer and the host say, and what comes back.

use insta::assert_snapshot;
use transom_guest::{
    FaultKind, Machine,
    testing::{play, play_with_swaps, setup},
};

use crate::Echo;

const CONVERSATION: &[&str] = &[
    r#"5 unit {"hello":1}"#,
    "6 binary 00ff10",
    "7 skipped too-long 70000",
    "8 frame notice session/status session=main {\"status\":\"idle\"}",
    "9 unit again",
    "10 unfinished {\"hel",
    "10 end",
];

#[test]
fn each_unit_comes_back_and_an_unfinished_one_does_not() {
    assert_snapshot!(play::<Echo>(CONVERSATION), @r#"
    > 5 unit {"hello":1}
    < unit {"hello":1}
    > 6 binary 00ff10
    < binary 00ff10
    > 7 skipped too-long 70000
    < note skipped {"why":"too-long","bytes":70000}
    > 8 frame notice session/status session=main {"status":"idle"}
    > 9 unit again
    < unit again
    > 10 unfinished {"hel
    > 10 end
    < note echoed {"units":3}
    < close
    "#);
}

#[test]
fn a_drained_echo_closes() {
    assert_snapshot!(play::<Echo>(&["3 unit a", "4 drain replaced"]), @r#"
    > 3 unit a
    < unit a
    > 4 drain replaced
    < note echoed {"units":1}
    < close
    "#);
}

#[test]
fn swapping_between_every_two_inputs_changes_nothing() {
    assert_eq!(play_with_swaps::<Echo>(setup(), CONVERSATION), play::<Echo>(CONVERSATION));
}

#[test]
fn a_foreign_state_is_refused() {
    for (format, state) in [(1, &[1u8, 2][..]), (1, &[]), (2, &[0; 8])] {
        let refused = Echo::resume(setup(), format, state).err().map(|fault| fault.kind);
        assert_eq!(refused, Some(FaultKind::Unsupported), "format {format}, {} bytes", state.len());
    }
}
