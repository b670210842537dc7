//! Published, unmodified clients drive the program against a local model server.
//!
//! Each test is one scenario, played by every client that has it; `scenarios.py` and
//! `typescript.mjs` say what the clients do. Which clients, and how they come here, is in
//! `clients.rs`. The rules are those of `sdk.md`: rows C-46 to C-48, and others seen from a client.
//! Clients of the ACP door and their stories are in `acp.rs`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is tests only"
)]

mod acp;
mod acp_child;
mod acp_standard;
mod claims;
mod clients;
#[path = "../support/model_server.rs"]
mod model_server;

use serde_json::{Value, json};

use crate::{
    claims::{Claims, Recording, at, events, every, items, kinds},
    clients::{Drive, ODD_IDS, Shown},
};

/// The run as the client shows it: the end of its last turn, and its text.
fn run_ended(claims: &mut Claims, shown: &Shown, what: &str, run: &Value, kind: &str, text: &str) {
    claims.equal(&format!("{what}: final response"), at(run, "/finalResponse"), text);
    let ends = events(run, "turn/end");
    let reason = ends.last().map_or(&Value::Null, |end| at(end, "/data/reason/kind"));
    claims.equal(&format!("{what}: reason of the last turn/end"), reason, kind);
    if shown.drive.tells_finish_reason() {
        claims.equal(&format!("{what}: finish reason"), at(run, "/finishReason"), kind);
    } else {
        // S-163: exactly these.
        let keys = json!(["events", "finalResponse", "notifications", "sessionId"]);
        claims.equal(&format!("{what}: members of the result"), at(run, "/keys"), &keys);
    }
}

fn answered(claims: &mut Claims, shown: &Shown, what: &str, run: &Value) {
    run_ended(claims, shown, what, run, "completed", "plain answer");
}

/// The client ended the process without force, and was told so in time (S-213, S-166, S-199).
fn closed(claims: &mut Claims, shown: &Shown, close: &Value) {
    ended(claims, close, 0);
    let sent = at(close, "/signalsSent");
    // The baseline sends SIGTERM as soon as it has closed the input; all others wait first.
    let allowed = shown.drive == Drive::Baseline && sent == &json!(["SIGTERM"]);
    claims.holds("close needed no signal", sent == &json!([]) || allowed, sent);
    for note in ["shutdown request failed", "stdin close failed"] {
        let failed = items(at(close, "/tail"))
            .iter()
            .any(|line| line.as_str().is_some_and(|line| line.starts_with(note)));
        claims.holds("close went by without a failure", !failed, at(close, "/tail"));
    }
}

/// The process ended by itself with this status, and without a trace of a crash.
fn ended(claims: &mut Claims, close: &Value, status: i64) {
    claims.equal("exit code", at(close, "/exitCode"), status);
    claims.equal("signal that ended it", at(close, "/signal"), &Value::Null);
    let killed = items(at(close, "/signalsSent")).contains(&json!("SIGKILL"));
    claims.holds("nothing was killed", !killed, at(close, "/signalsSent"));
    let tail = at(close, "/tail").to_string();
    claims.holds("no trace of a crash on stderr", !tail.contains("panicked at"), &tail);
}

/// The run was cut off: the client lost the runtime and saw no end of the turn (S-116, C-38, C-39).
fn cut_off(claims: &mut Claims, run: &Value) {
    claims.equal("the run's error", at(run, "/error/class"), "TransportClosedError");
    let seen = kinds(at(run, "/seen"));
    let late =
        seen.iter().any(|kind| ["turn/end", "step/end", "status idle"].contains(&kind.as_str()));
    claims.holds("nothing follows the end of the runtime", !late, &seen);
}

/// An error reply, as the client shows it: code -32603 and no data (S-25, C-6).
fn refused(claims: &mut Claims, shown: &Shown, what: &str, outcome: &Value, message: Option<&str>) {
    let error = at(outcome, "/error");
    claims.equal(&format!("{what}: class"), at(error, "/class"), shown.drive.error_class());
    claims.equal(&format!("{what}: code"), at(error, "/code"), -32603);
    claims.equal(&format!("{what}: data"), at(error, "/data"), &Value::Null);
    let has_data = at(error, "/hasData");
    claims.holds(&format!("{what}: no data member"), has_data != &json!(true), has_data);
    if let Some(message) = message {
        // A later Python client puts the last lines of stderr behind the message of a handshake.
        let found = at(error, "/message").as_str().unwrap_or_default();
        claims.equal(
            &format!("{what}: message"),
            found.lines().next().unwrap_or_default(),
            message,
        );
    }
}

/// C-19, C-23, C-25, C-26, C-28, C-29, C-46 to C-48.
#[test]
fn every_kind_of_answer_reaches_the_client() {
    const PLAIN: &str = "plain answer";
    #[rustfmt::skip]
    let table = [
        ("PLAIN",  "completed",  PLAIN,                        "prompt-plain"),
        ("THINK",  "completed",  "answer",                     "prompt-reasoning"),
        ("UTF8",   "completed",  "你好 🦀\u{2028}end",          "prompt-utf8"),
        ("TOOL",   "completed",  "tool said: tool-proof",      "prompt-tool-call"),
        ("ERR400", "error",      "",                           "prompt-http-400"),
        ("ERR401", "error",      "",                           "prompt-http-401"),
        ("ERR500", "error",      "",                           "prompt-http-500"),
        ("MAXTOK", "max-tokens", "cut of",                     "prompt-plain"),
    ];
    every(&Drive::ALL, "answers", |shown, claims| {
        for (word, kind, text, vector) in table {
            let run = at(&shown.value, &format!("/runs/{word}"));
            run_ended(claims, shown, word, run, kind, text);
            let recording = Recording::read(vector);
            let mut expected = recording.runs[0].clone();
            if word == "MAXTOK" {
                // The text comes in one piece instead of two.
                let chunk = expected.iter().position(|kind| kind == "assistant/chunk");
                expected.remove(chunk.expect("the recording has chunks"));
            } else {
                let ends = events(run, "turn/end");
                let end = ends.first().map_or(&Value::Null, |end| at(end, "/data"));
                claims.equal(&format!("{word}: turn/end"), end, &recording.ends[0]);
            }
            let notifications = at(run, "/notifications");
            claims.equal(&format!("{word}: notifications"), kinds(notifications), expected);
            let own = items(notifications)
                .iter()
                .all(|one| at(one, "/params/sessionId") == word.to_lowercase().as_str());
            claims.holds(&format!("{word}: all of its own session"), own, notifications);
        }
        let run = at(&shown.value, "/runs/TOOL");
        let (calls, results) = (events(run, "tool/call"), events(run, "tool/result"));
        claims.equal("TOOL: calls and results", (calls.len(), results.len()), (1, 1));
        if let ([call], [result]) = (calls.as_slice(), results.as_slice()) {
            claims.equal(
                "TOOL: the result's source",
                at(result, "/sourceEventSeqs/0"),
                at(call, "/seq"),
            );
            let text = result.to_string();
            claims.holds(
                "TOOL: the result is what the command printed",
                text.contains("tool-proof"),
                result,
            );
            claims.holds("TOOL: no error", !text.contains("\"isError\":true"), result);
        }
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-21, S-52: the second prompt arrives at the model as it was written, escaped on the wire or not.
#[test]
fn a_second_prompt_goes_on_where_the_first_ended() {
    every(&Drive::ALL, "two-turns", |shown, claims| {
        let recording = Recording::read("two-turns");
        let mut next = json!(0);
        for (number, name) in ["first", "second"].into_iter().enumerate() {
            let run = at(&shown.value, &format!("/{name}"));
            answered(claims, shown, name, run);
            let found = kinds(at(run, "/notifications"));
            claims.equal(&format!("{name}: notifications"), &found, &recording.runs[number]);
            let seqs: Vec<_> =
                items(at(run, "/events")).iter().map(|event| at(event, "/seq")).collect();
            if number > 0 || shown.drive == Drive::Baseline {
                claims.equal(&format!("{name}: first seq"), seqs.first().copied(), Some(&next));
            }
            let gapless = seqs.windows(2).all(|pair| {
                pair[0].as_u64().zip(pair[1].as_u64()).is_some_and(|(one, two)| two == one + 1)
            });
            claims.holds(&format!("{name}: no gap between events"), gapless, &seqs);
            next = json!(seqs.last().and_then(|seq| seq.as_u64()).map(|seq| seq + 1));
        }
        let prompt = "PROMPT: PLAIN 你好 🦀\u{2028}";
        let sent = shown.requests.last().map_or(&Value::Null, |request| &request.body);
        let arrived = items(at(sent, "/messages")).iter().any(|one| at(one, "/content") == prompt);
        claims.holds("the model reads the prompt as written", arrived, sent);
        let logged = events(at(&shown.value, "/second"), "user/message");
        let text = logged.first().map_or(&Value::Null, |event| at(event, "/data/content/0/text"));
        claims.equal("the log keeps the prompt as written", text, prompt);
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-22: one session queues, another does not wait, and there is one idle for two turns.
#[test]
fn a_prompt_during_a_turn_waits_for_the_next() {
    every(&Drive::ALL, "overlap", |shown, claims| {
        let first = at(&shown.value, "/first/value");
        let second = at(&shown.value, "/second/value");
        answered(claims, shown, "first", first);
        answered(claims, shown, "second", second);
        answered(claims, shown, "other", at(&shown.value, "/other"));
        let found = kinds(at(first, "/notifications"));
        for (kind, times) in
            [("status running", 1), ("status idle", 1), ("turn/start", 2), ("turn/end", 2)]
        {
            let count = found.iter().filter(|found| *found == kind).count();
            claims.equal(&format!("first: {kind}"), count, times);
        }
        let receipt = at(second, "/events/0");
        claims.equal("second: the receipt's target", at(receipt, "/data/target"), "next-turn");
        let before = found.iter().position(|kind| kind == "tool/result");
        let seqs =
            |run: &Value, kind: &str| events(run, kind).first().map(|one| at(one, "/seq").clone());
        let result = seqs(first, "tool/result").and_then(|seq| seq.as_u64());
        let queued = at(receipt, "/seq").as_u64();
        claims.holds(
            "second: queued while the tool ran",
            queued < result && before.is_some(),
            &(queued, result),
        );
        let strangers = items(at(first, "/notifications"))
            .iter()
            .any(|one| at(one, "/params/sessionId") == "other");
        claims.holds(
            "first: nothing of the other session",
            !strangers,
            at(first, "/notifications"),
        );
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// S-121: whoever comes first creates the session, and nobody's prompt is lost.
#[test]
fn prompts_at_once_share_three_sessions() {
    every(&Drive::ALL, "at-once", |shown, claims| {
        let runs = items(at(&shown.value, "/runs"));
        claims.equal("runs", runs.len(), 6);
        for run in runs {
            answered(claims, shown, "run", at(run, "/value"));
        }
        for session in ["red", "green", "blue"] {
            let mut turns: Vec<_> = runs
                .iter()
                .map(|run| at(run, "/value"))
                .filter(|run| at(run, "/sessionId") == session)
                .flat_map(|run| events(run, "turn/end"))
                .filter_map(|event| at(event, "/data/turn").as_u64())
                .collect();
            turns.sort_unstable();
            turns.dedup();
            claims.equal(&format!("{session}: turns"), turns, vec![1, 2]);
        }
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-8 to C-13, C-15, S-214.
#[test]
fn lines_that_are_no_requests_are_passed_over() {
    every(&Drive::ALL, "malformed-lines", |shown, claims| {
        let before = at(&shown.value, "/before").as_object();
        claims.equal("probes", before.map(serde_json::Map::len), Some(16));
        for (number, outcome) in before.into_iter().flatten() {
            let message = format!("unknown DeepSeek Harness SDK runtime method: probe/{number}");
            refused(claims, shown, &format!("after line {number}"), outcome, Some(&message));
        }
        let message = "unknown DeepSeek Harness SDK runtime method: probe/after";
        refused(claims, shown, "after all lines", at(&shown.value, "/after"), Some(message));
        claims.equal("notifications without a prompt", at(&shown.value, "/unasked"), &json!([]));
        answered(claims, shown, "run", at(&shown.value, "/run"));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-6, C-7, C-14, C-48, S-64.
#[test]
fn an_unknown_method_is_an_error_without_data() {
    every(&Drive::ALL, "unknown-method", |shown, claims| {
        for method in ["nope", "session/cancel", "session.prompt", "", "你好"] {
            let outcome = shown.value.get("answers").and_then(|answers| answers.get(method));
            let message = format!("unknown DeepSeek Harness SDK runtime method: {method}");
            refused(claims, shown, method, outcome.unwrap_or(&Value::Null), Some(&message));
        }
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-3, C-33: a refused request leaves no session behind.
#[test]
fn wrong_members_are_refused() {
    every(&Drive::ALL, "bad-requests", |shown, claims| {
        let answers = at(&shown.value, "/answers").as_object();
        claims.equal("requests", answers.map(serde_json::Map::len), Some(10));
        for (name, outcome) in answers.into_iter().flatten() {
            let message = name
                .starts_with("maxTokens")
                .then_some("initialize maxTokens must be a positive safe integer");
            refused(claims, shown, name, outcome, message);
        }
        claims.equal("notifications", at(&shown.value, "/unasked"), &json!([]));
        let run = at(&shown.value, "/run");
        answered(claims, shown, "run", run);
        let created = events(run, "request/header").len();
        claims.equal("the session begins with the run", created, 1);
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// S-60, S-138, S-140: the first request of a process may be its last.
#[test]
fn a_runtime_closes_before_any_handshake() {
    every(&Drive::ALL, "close-unused", |shown, claims| {
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-38, S-213.
#[test]
fn close_cuts_a_streaming_turn_off() {
    every(&Drive::ALL, "close-mid-turn", |shown, claims| {
        cut_off(claims, at(&shown.value, "/run"));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-38 with a process tree to end; that none is left is checked for every scenario.
#[test]
fn close_ends_a_running_command() {
    every(&Drive::ALL, "close-mid-tool", |shown, claims| {
        cut_off(claims, at(&shown.value, "/run"));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-39, C-40, S-139, S-140.
#[test]
fn end_of_input_and_signals_end_the_runtime() {
    #[rustfmt::skip]
    let table = [
        ("eof-idle",         0,   false),
        ("eof-mid-turn",     0,   true),
        ("eof-then-sigterm", 0,   true),
        ("sigterm-idle",     0,   false),
        ("sigterm-mid-turn", 0,   true),
        ("sigint-idle",      130, false),
    ];
    for (scenario, status, cut) in table {
        every(&Drive::ALL, scenario, |shown, claims| {
            let run = at(&shown.value, "/run");
            if cut {
                cut_off(claims, run);
            } else {
                answered(claims, shown, "run", run);
            }
            ended(claims, at(&shown.value, "/close"), status);
        });
    }
}

/// C-41, S-36.
#[test]
fn a_closed_output_ends_the_runtime_quietly() {
    every(&Drive::ALL, "closed-stdout", |shown, claims| {
        claims.equal(
            "the run's error",
            at(&shown.value, "/run/error/class"),
            "TransportClosedError",
        );
        ended(claims, at(&shown.value, "/close"), 0);
    });
}

/// S-158, S-194: the client reaps a runtime that refuses its handshake; the next one works.
#[test]
fn a_foreign_provider_fails_the_handshake() {
    every(&Drive::ALL, "foreign-provider", |shown, claims| {
        let message = "no adapter registered for provider \"private\"";
        refused(claims, shown, "handshake", at(&shown.value, "/refused"), Some(message));
        closed(claims, shown, at(&shown.value, "/reaped"));
        answered(claims, shown, "run", at(&shown.value, "/run"));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-4, S-45.
#[test]
fn a_refused_handshake_keeps_the_route() {
    every(&Drive::ALL, "kept-route", |shown, claims| {
        let message = "no adapter registered for provider \"private\"";
        refused(claims, shown, "second handshake", at(&shown.value, "/refused"), Some(message));
        answered(claims, shown, "run", at(&shown.value, "/run"));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-54.
#[test]
fn the_handshake_names_the_model_and_its_limit() {
    every(&Drive::ALL, "max-tokens", |shown, claims| {
        answered(claims, shown, "run", at(&shown.value, "/run"));
        let sent = shown.requests.last().map_or(&Value::Null, |request| &request.body);
        claims.equal("output cap", at(sent, "/max_tokens"), 1234);
        claims.equal("model", at(sent, "/model"), "deepseek-v4-pro");
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-27, S-207.
#[test]
fn a_missing_key_fails_the_turn_and_nothing_else() {
    every(&Drive::ALL, "missing-key", |shown, claims| {
        let run = at(&shown.value, "/run");
        run_ended(claims, shown, "run", run, "error", "");
        let ends = events(run, "turn/end");
        let code = ends.first().map_or(&Value::Null, |end| at(end, "/data/reason/error/code"));
        claims.equal("code", code, "MISSING_CREDENTIAL");
        let expected = &Recording::read("prompt-http-401").runs[0];
        claims.equal("notifications", &kinds(at(run, "/notifications")), expected);
        claims.equal("requests to the model", shown.requests.len(), 0);
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-34, S-57, S-120.
#[test]
fn any_characters_name_a_session() {
    every(&Drive::ALL, "odd-ids", |shown, claims| {
        let runs = items(at(&shown.value, "/runs"));
        claims.equal("runs", runs.len(), ODD_IDS.len());
        for (run, id) in runs.iter().zip(ODD_IDS) {
            answered(claims, shown, id, run);
            let verbatim = items(at(run, "/notifications"))
                .iter()
                .all(|notification| at(notification, "/params/sessionId") == id);
            claims.holds(&format!("{id:?} comes back as it is"), verbatim, run);
        }
        let escaped: Vec<_> = shown.files.iter().filter(|file| file.contains("escape")).collect();
        claims.holds("nothing was written outside the store", escaped.is_empty(), &escaped);
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-18, S-218; a departure from the baseline, which ran the prompt.
#[test]
fn a_prompt_before_the_handshake_is_refused() {
    every(&Drive::ALL, "prompt-before-initialize", |shown, claims| {
        let message = "SDK server is not initialized";
        refused(claims, shown, "early prompt", at(&shown.value, "/early"), Some(message));
        claims.equal("notifications", at(&shown.value, "/unasked"), &json!([]));
        answered(claims, shown, "run", at(&shown.value, "/run"));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// C-35, S-123.
#[test]
fn a_stored_session_is_not_begun_again() {
    every(&Drive::ALL, "restart", |shown, claims| {
        answered(claims, shown, "first life", at(&shown.value, "/first"));
        closed(claims, shown, at(&shown.value, "/firstClose"));
        let message = "session \"main\" already exists";
        refused(claims, shown, "same id", at(&shown.value, "/refused"), Some(message));
        answered(claims, shown, "another id", at(&shown.value, "/other"));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// S-194: a closed Python client starts again with a fresh process.
#[test]
fn a_closed_python_client_starts_again() {
    every(&Drive::PYTHON, "reuse", |shown, claims| {
        answered(claims, shown, "first", at(&shown.value, "/first"));
        closed(claims, shown, at(&shown.value, "/firstClose"));
        answered(claims, shown, "second", at(&shown.value, "/second"));
        ended(claims, at(&shown.value, "/close"), 0);
    });
}

/// S-179, S-200, S-219: the program in the place of the bundled runtime, with the shipped default
/// configuration where the release has one.
#[test]
fn the_program_replaces_a_bundled_runtime() {
    every(&Drive::PYTHON, "bundled", |shown, claims| {
        let run = at(&shown.value, "/run");
        run_ended(claims, shown, "run", run, "completed", "tool said: tool-proof");
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// S-137, S-203, S-204, S-215, C-43 to C-45: the client tells its user what is wrong.
#[test]
fn a_launch_that_cannot_work_says_why() {
    let why = |case: &str| match case {
        "no configuration" | "missing file" => "usage:",
        "broken file" => "broken.yml",
        "unknown package" => "@example/no-such-package",
        "unknown profile" => "nosuch",
        "missing patch" => "nowhere.yml",
        "unknown option" => "--nope",
        _ => "a case that this test knows",
    };
    every(&Drive::ALL, "misconfigured", |shown, claims| {
        let failures = at(&shown.value, "/failures").as_object();
        let count = match shown.drive {
            Drive::Baseline | Drive::ScriptA => 4,
            Drive::Later => 2,
            Drive::ScriptB => 3,
        };
        claims.equal("cases", failures.map(serde_json::Map::len), Some(count));
        for (case, failure) in failures.into_iter().flatten() {
            claims.equal(case, at(failure, "/error/class"), "TransportClosedError");
            ended(claims, at(failure, "/close"), 1);
            let tail = at(failure, "/close/tail").to_string();
            claims.holds(
                &format!("{case}: stderr has {:?}", why(case)),
                tail.contains(why(case)),
                &tail,
            );
        }
    });
}

/// C-47, S-63.
#[test]
fn a_session_works_in_the_directory_it_was_given() {
    every(&[Drive::Later], "working-directory", |shown, claims| {
        let steps = at(&shown.value, "/steps");
        let base = shown.workspace.display().to_string();
        #[rustfmt::skip]
        let table = [
            ("fresh",          base.clone()),
            ("relative",       format!("{base}/sub")),
            ("after relative", format!("{base}/sub")),
            ("absolute",       format!("{base}/sub/deeper")),
            ("after refusals", format!("{base}/sub/deeper")),
            ("other session",  base.clone()),
        ];
        for (step, directory) in table {
            claims.equal(step, at(steps, &format!("/{step}/value")), directory.as_str());
        }
        for (step, directory) in
            [("run in the first", base.clone()), ("run in the second", format!("{base}/sub"))]
        {
            let run = at(steps, &format!("/{step}"));
            run_ended(claims, shown, step, run, "completed", "tool said: tool-proof");
            let results = events(run, "tool/result");
            let printed = results.first().map(ToString::to_string).unwrap_or_default();
            let line = [format!("{directory}\""), format!("{directory}\\n")];
            let told = line.iter().any(|line| printed.contains(line.as_str()));
            claims.holds(&format!("{step}: the command tells {directory}"), told, &printed);
        }
        // The client promises that a directory which has gone gives way to the session's first.
        claims.equal("removed", at(steps, "/removed/value"), base.as_str());
        refused(claims, shown, "missing", at(steps, "/missing"), None);
        refused(claims, shown, "file", at(steps, "/file"), None);
        let path = "working-directory set requires a path string";
        refused(claims, shown, "no path", at(steps, "/no path"), Some(path));
        let session = "working-directory requests require a non-empty sessionId";
        refused(claims, shown, "no session", at(steps, "/no session"), Some(session));
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// S-204, S-219.
#[test]
fn the_minimal_profile_has_a_shell() {
    every(&[Drive::Later, Drive::ScriptB], "minimal-profile", |shown, claims| {
        let run = at(&shown.value, "/run");
        run_ended(claims, shown, "run", run, "completed", "tool said: tool-proof");
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// S-203, S-204: the first argument is a configuration path or the name of a profile.
#[test]
fn a_launch_by_position_works_the_same() {
    every(&Drive::SCRIPT, "positional", |shown, claims| {
        let run = at(&shown.value, "/run");
        run_ended(claims, shown, "run", run, "completed", "tool said: tool-proof");
        closed(claims, shown, at(&shown.value, "/close"));
    });
}

/// S-149, C-50.
#[test]
fn an_abandoned_wait_disturbs_nothing() {
    every(&Drive::SCRIPT, "abandoned-wait", |shown, claims| {
        claims.equal("the wait", at(&shown.value, "/waited/error/class"), "RequestTimeoutError");
        let run = at(&shown.value, "/run/value");
        run_ended(claims, shown, "run", run, "completed", "tool said: tool-proof");
        closed(claims, shown, at(&shown.value, "/close"));
    });
}
