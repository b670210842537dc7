//! Logs that were continued, and logs that begin with a copy of another (L-10, L-11, L-27, P-78).

use super::*;

#[test]
fn a_marker_stands_where_a_driver_begins() {
    good("@turn; end-seed; in b; end-seed; turn; claim turn");
    bad(
        "@turn; end-seed; end-seed",
        "seq 16: session/end-seed right behind another: a seed that ends with one gets none (L-10)",
    );
    bad("turn; end-seed", "seq 1: session/end-seed inside turn 1 (L-10)");
}

#[test]
fn what_is_pending_survives_a_resume() {
    assert_eq!(good("in a; end-seed; in b").next_turn, ["a", "b"]);
}

#[test]
fn a_marker_stands_behind_the_seed() {
    good_for(&fork(15), "@turn; end-seed; in b");
    good_for(&fork(16), "@turn; end-seed; in b");
    good_for(&fork(0), "end-seed; in b");
    bad_for(
        &fork(15),
        "@turn; in b",
        "seq 15: agent/inbox/spliced right behind the seed, where session/end-seed must stand (L-10)",
    );
    bad_for(
        &fork(0),
        "in b",
        "seq 0: agent/inbox/spliced right behind the seed, where session/end-seed must stand (L-10)",
    );
    bad_for(&fork(14), "@turn; end-seed", "seq 14: the seed ends inside turn 1 (L-11)");
}

#[test]
fn a_fork_does_not_inherit_what_is_pending() {
    let summary = good_for(&fork(2), "in a; in b; end-seed; forget; in a");
    assert_eq!(summary.next_turn, ["a"]);
    assert!(
        good_for(&fork(2), "in a; in b").next_turn.is_empty(),
        "what was copied is not its own"
    );
    let claim = r#"{"type":"agent/inbox/spliced","data":{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}}"#;
    bad_for(
        &fork(1),
        &format!("in a; end-seed; turn; {claim}"),
        "seq 3: splices 0..1 of a next-turn list of 0 (L-27)",
    );
}

/// Inside a seed the markers of resumes and of forks look the same, so both are possible.
#[test]
fn a_fork_of_a_fork_may_have_begun_with_an_empty_inbox() {
    let first = r#"{"type":"agent/inbox/spliced","data":{"target":"next-turn","start":0,"inserted":[{"id":"a","role":"user","content":[],"source":{"kind":"user"}}]}}"#;
    let second =
        first.replace(r#""start":0"#, r#""start":1"#).replace(r#""id":"a""#, r#""id":"b""#);
    let third = first.replace(r#""start":0"#, r#""start":2"#).replace(r#""id":"a""#, r#""id":"c""#);
    good_for(&fork(3), &format!("{first}; end-seed; {first}; end-seed"));
    good_for(&fork(3), &format!("{first}; end-seed; {second}; end-seed"));
    bad_for(
        &fork(3),
        &format!("{first}; end-seed; {third}"),
        "seq 2: splices 2..2 of a next-turn list of 1 (L-27)",
    );
    bad_for(
        &fork(4),
        &format!("{first}; end-seed; {second}; {first}"),
        "seq 3: message \"a\" is already pending (L-21)",
    );
}

#[test]
fn a_fork_inherits_numbers_of_turns_and_no_jobs() {
    let seed = "@called c; call c; job bash-1 c; result c; step-end; turn-end completed";
    let own = "in b; turn; claim turn; step; user b; header resume; calls d; call d";
    let summary = good_for(&fork(17), &format!("{seed}; end-seed; {own}; job bash-2 d; result d"));
    assert_eq!(
        (summary.running_jobs(), summary.bash_jobs, summary.last_turn),
        (vec!["bash-2"], 2, 2)
    );
    // A count of its own is as good: its ids name its own jobs.
    good_for(&fork(17), &format!("{seed}; end-seed; {own}; job bash-1 d; result d"));
    bad_for(
        &fork(17),
        &format!("{seed}; end-seed; settled bash-1 killed kill"),
        "seq 18: job/settled of \"bash-1\", which this session has not started (P-78)",
    );
}
