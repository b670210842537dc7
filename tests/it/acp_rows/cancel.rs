//! Rows 28 to 33 and 40: cancelling, and what it leaves alone.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    sync::mpsc,
    thread,
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::{Value, json};

use crate::support::{
    acp::{Stage, chunks, error, prompt, request, stop},
    wire::{PATIENCE, Wire as _},
};

#[test]
fn row_28_a_cancel_answers_and_shows_nothing() {
    let mut stage = Stage::new();
    let session = stage.session();
    stage.client.prompt("p", &session, "[[HANG]]");
    stage.client.cancel(&session);
    let (updates, answer) = stage.client.until("p");
    assert_eq!((updates.len(), stop(&answer)), (0, "cancelled"));
    let (updates, answer) = stage.client.turn(&session, "[[PLAIN]]");
    assert_eq!((chunks(&updates), stop(&answer)), (vec!["hello there".to_owned()], "end_turn"));
}

#[test]
fn row_29_a_cancel_right_behind_its_prompt_counts() {
    let mut stage = Stage::new();
    let session = stage.session();
    let first = request("p", "session/prompt", prompt(&session, "[[PLAIN]] x"));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    stage.client.wire.write(format!("{first}\n{cancel}\n").as_bytes());
    let (updates, answer) = stage.client.until("p");
    assert_eq!((updates.len(), stop(&answer)), (0, "cancelled"));
    let (updates, answer) = stage.client.turn(&session, "[[PLAIN]] y");
    assert_eq!(
        (chunks(&updates), stop(&answer)),
        (vec!["hello there".to_owned()], "end_turn"),
        "exactly one"
    );
}

#[test]
fn row_30_a_prompt_right_behind_a_cancel_runs() {
    for mark in ["HANG", "SLOWTOOL"] {
        let mut stage = Stage::with("[permissions]\npreset = \"danger-full-access\"\n");
        let session = stage.session();
        let held = Held::new(&stage.place.cwd);
        stage.client.prompt("a", &session, &format!("[[{mark}]]"));
        if mark == "SLOWTOOL" {
            held.begun();
        }
        let cancel =
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
        let second = request("b", "session/prompt", prompt(&session, "[[PLAIN]] next"));
        stage.client.wire.write(format!("{cancel}\n{second}\n").as_bytes());
        assert_eq!(stop(&stage.client.next()), "cancelled", "{mark}");
        let (updates, answer) = stage.client.until("b");
        assert_eq!(
            (chunks(&updates), stop(&answer)),
            (vec!["hello there".to_owned()], "end_turn"),
            "{mark}"
        );
    }
}

#[test]
fn a_78_a_cancel_counts_behind_more_prompts_than_may_wait() {
    let mut stage = Stage::with("[door.acp.limits]\npending-requests-max = 4\n");
    let sessions = [(); 8].map(|()| stage.session());
    let [first, others @ ..] = &sessions;
    stage.client.prompt("hangs", first, "[[HANG]]");
    let busy = stage.client.call("busy", "session/prompt", prompt(first, "x"));
    assert!(error(&busy).ends_with("already in flight for this session"));
    let mut burst: String = others
        .iter()
        .map(|session| request("p", "session/prompt", prompt(session, "[[PLAIN]]")) + "\n")
        .collect();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": first}});
    burst.push_str(&format!("{cancel}\n"));
    stage.client.wire.write(burst.as_bytes());
    assert_eq!(stop(&stage.client.until("hangs").1), "cancelled");
    let turns = |seen: &[Value]| seen.iter().filter(|frame| frame["id"] == "p").count();
    while turns(&stage.client.seen) < others.len() {
        stage.client.next();
    }
    let overloaded = |frame: &&Value| {
        frame["error"]["message"].as_str().is_some_and(|why| why.contains("too many requests"))
    };
    assert!(stage.client.seen.iter().find(overloaded).is_some(), "the bound was met");
    // What was cancelled stands in nobody's way.
    let (updates, answer) = stage.client.turn(first, "[[PLAIN]]");
    assert_eq!((chunks(&updates), stop(&answer)), (vec!["hello there".to_owned()], "end_turn"));
}

#[test]
fn row_31_a_cancel_of_nothing_says_nothing() {
    let mut stage = Stage::new();
    let session = stage.session();
    stage.client.cancel("missing");
    stage.client.notify("session/cancel", json!({}));
    stage.client.say(r#"{"jsonrpc":"2.0","method":"session/cancel"}"#);
    stage.client.cancel(&session);
    let (updates, answer) = stage.client.turn(&session, "[[PLAIN]]");
    assert_eq!((chunks(&updates), stop(&answer)), (vec!["hello there".to_owned()], "end_turn"));
}

#[test]
fn row_32_a_cancel_with_an_id_is_no_method() {
    let mut stage = Stage::new();
    let session = stage.session();
    let answer = stage.client.call(3, "session/cancel", json!({"sessionId": session}));
    assert_eq!(error(&answer), "-32601 \"Method not found\": session/cancel");
}

/// A pipe with a name that the slow tool holds open as long as it, or anything that it began, is there.
pub(super) struct Held(mpsc::Receiver<()>);

impl Held {
    /// To be made before the tool is called.
    pub(super) fn new(cwd: &Path) -> Held {
        let path = cwd.join("held");
        mkfifo(&path, Mode::S_IRWXU).expect("a fifo");
        let (told, tells) = mpsc::sync_channel(2);
        thread::spawn(move || {
            // Opens once somebody opens it for writing, and ends with the last who has it.
            let mut lines = BufReader::new(File::open(&path).expect("the fifo")).lines();
            if lines.next().is_some_and(|line| line.is_ok()) && told.send(()).is_ok() {
                while lines.next().is_some() {}
                let _ = told.send(());
            }
        });
        Held(tells)
    }

    /// Waits until the tool runs.
    pub(super) fn begun(&self) {
        self.0.recv_timeout(PATIENCE).expect("the tool begins");
    }

    /// Waits until nothing of the tool is left.
    pub(super) fn gone(&self) {
        self.0.recv_timeout(PATIENCE).expect("the tool ends with all that it began");
    }
}

#[test]
fn row_33_a_cancelled_tool_is_gone_with_its_tree() {
    let mut stage = Stage::with("[permissions]\npreset = \"danger-full-access\"\n");
    let session = stage.session();
    let held = Held::new(&stage.place.cwd);
    stage.client.prompt("p", &session, "[[SLOWTOOL]]");
    held.begun();
    stage.client.cancel(&session);
    assert_eq!(stop(&stage.client.next()), "cancelled");
    held.gone();
}

#[test]
fn row_40_sessions_do_not_disturb_each_other() {
    let mut stage = Stage::new();
    let (one, two) = (stage.session(), stage.session());
    stage.client.prompt("one", &one, "[[HANG]]");
    let (updates, answer) = stage.client.turn(&two, "[[PLAIN]] B");
    assert_eq!((chunks(&updates), stop(&answer)), (vec!["hello there".to_owned()], "end_turn"));
    assert_eq!(updates[0]["params"]["sessionId"], two.as_str());
    stage.client.prompt("two", &two, "[[HANG]]");
    stage.client.cancel(&one);
    assert_eq!(stop(&stage.client.until("one").1), "cancelled");
    let busy = stage.client.call("busy", "session/prompt", prompt(&two, "x"));
    assert!(
        error(&busy).ends_with("already in flight for this session"),
        "the other one still runs"
    );
    stage.client.cancel(&two);
    assert_eq!(stop(&stage.client.until("two").1), "cancelled");
}

#[test]
fn a_85_a_prompt_can_be_taken_back_by_its_id() {
    let mut stage = Stage::new();
    let session = stage.session();
    stage.client.prompt(5, &session, "[[HANG]]");
    stage.client.notify("$/cancel_request", json!({"requestId": 5}));
    assert_eq!(stop(&stage.client.until(5).1), "cancelled");
    assert_eq!(stop(&stage.client.turn(&session, "[[PLAIN]]").1), "end_turn");
}
