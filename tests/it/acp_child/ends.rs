//! Whatever ends the host, or the session that has delegated, ends its agents (A-160, decision 33).

use super::adverse::relaunched;
use crate::support::{
    agents::{Parent, Traces, agent, until},
    wire::{Signal, Wire as _},
};

/// Ten minutes: whoever waited for these would not pass.
const LONG: &str = "dispose-eof-grace-ms = 600000\ndispose-grace-ms = 600000";

/// A host with an agent at work that heeds nothing.
fn at_work() -> (Parent, Traces) {
    let mut parent = Parent::start(&[agent("ignore-everything", LONG)], "");
    parent.delegate("ignore-everything");
    let traces = parent.traces("ignore-everything");
    traces.wait("said");
    assert_eq!(traces.living().len(), 1);
    (parent, traces)
}

#[test]
fn a160_a_signal_to_the_host_ends_live_agents() {
    let (mut parent, traces) = at_work();
    parent.peer.wire.signal(Signal::Terminate);
    while parent.peer.frame().is_some() {}
    assert_eq!(parent.peer.wire.exit(), 0, "{}", parent.peer.wire.diagnostics());
    assert_eq!(traces.living(), Vec::<u32>::new());
}

#[test]
fn the_end_of_input_ends_live_agents() {
    let (mut parent, traces) = at_work();
    parent.peer.wire.close_input();
    while parent.peer.frame().is_some() {}
    assert_eq!(parent.peer.wire.exit(), 0, "{}", parent.peer.wire.diagnostics());
    assert_eq!(traces.living(), Vec::<u32>::new());
}

#[test]
fn an_agent_does_not_outlive_a_host_that_is_killed() {
    let (mut parent, traces) = at_work();
    parent.peer.wire.kill();
    traces.gone();
}

/// P-79: what has left the group of an agent is not ended with a host that is killed, and the next one finds it.
#[test]
fn what_a_killed_host_leaves_of_an_agent_is_ended_by_the_next_one() {
    let mut parent = Parent::start(&[agent("wanderer", LONG)], "");
    parent.delegate("wanderer");
    let traces = parent.traces("wanderer");
    traces.wait("said");
    let numbers = traces.read("pids");
    assert_eq!(numbers.len(), 3);
    parent.peer.wire.kill();
    let far: u32 = numbers[2].parse().expect("a number");
    until("the group is gone", || (traces.living() == [far]).then_some(()));
    let mut next = relaunched(parent);
    assert_eq!(traces.living(), Vec::<u32>::new(), "it is ended before anything is served");
    next.peer.wire.close_input();
    while next.peer.frame().is_some() {}
    assert_eq!(next.peer.wire.exit(), 0);
    let told = next.peer.wire.diagnostics();
    assert!(told.contains(&format!("ended process group {far} (sleep)")), "{told}");
}

#[test]
fn a_session_that_is_closed_takes_its_agent_with_it() {
    let (mut parent, traces) = at_work();
    parent.peer.call("session/close", "ignore-everything", serde_json::json!({}));
    traces.gone();
    parent.peer.wire.close_input();
    while parent.peer.frame().is_some() {}
    assert_eq!(parent.peer.wire.exit(), 0);
}
