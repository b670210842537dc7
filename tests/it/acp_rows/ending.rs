//! Rows 45 and 46: how it ends.

use serde_json::json;

use super::cancel::Held;
use crate::support::{
    acp::{Stage, error, stop},
    wire::{Signal, Wire as _},
};

#[test]
fn row_45_the_end_of_input_cancels_what_is_in_flight() {
    let mut stage = Stage::new();
    let session = stage.session();
    stage.client.prompt("p", &session, "[[HANG]]");
    let (rest, code) = stage.client.end();
    assert_eq!((rest.len(), stop(&rest[0]), code), (1, "cancelled", 0));
}

#[test]
fn row_45_no_process_of_a_tool_is_left() {
    let mut stage = Stage::with("[permissions]\npreset = \"danger-full-access\"\n");
    let session = stage.session();
    let held = Held::new(&stage.place.cwd);
    stage.client.prompt("p", &session, "[[SLOWTOOL]]");
    held.begun();
    let (rest, code) = stage.client.end();
    assert_eq!((rest.len(), stop(&rest[0]), code), (1, "cancelled", 0));
    held.gone();
}

#[test]
fn row_46_signals_end_in_order() {
    let mut stage = Stage::new();
    let session = stage.session();
    stage.client.prompt("p", &session, "[[HANG]]");
    // The prompt has been read when the next request is answered.
    stage.client.call("q", "authenticate", json!({"methodId": "x"}));
    stage.client.wire.signal(Signal::Terminate);
    let (rest, code) = stage.client.rest();
    assert_eq!((rest.len(), stop(&rest[0]), code), (1, "cancelled", 0));

    let mut idle = Stage::new();
    idle.session();
    idle.client.wire.signal(Signal::Interrupt);
    assert_eq!(idle.client.rest(), (vec![], 130));
}

#[test]
fn a_7_an_immediate_end_is_an_end() {
    assert_eq!(Stage::new().client.end(), (vec![], 0));
}

#[test]
fn a_39_a_session_that_comes_too_late_is_refused() {
    let mut stage = Stage::new();
    let cwd = stage.place.cwd.display().to_string();
    stage.client.ask(1, "session/new", json!({"cwd": cwd, "mcpServers": []}));
    let (rest, code) = stage.client.end();
    let [only] = rest.as_slice() else { panic!("one answer: {rest:?}") };
    // Whichever was faster, the request has its one answer.
    let opened = only["result"]["sessionId"].is_string();
    assert!(
        opened || error(only) == "-32603 Internal error: connection closed during session/new",
        "{only}"
    );
    assert_eq!(code, 0);
}
