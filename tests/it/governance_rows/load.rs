//! Too much of everything: jobs, processes, output, asks.

use std::{collections::HashMap, fs, path::Path, time::Instant};

use serde_json::{Value, json};

use super::bench::{Answer, Host, Site, Turn, bash_with, is_idle, on, tool, word};
use crate::support::{frames::is_event, wire::PATIENCE};

fn job(command: &str) -> Value {
    bash_with(command, &json!({"run_in_background": true}))
}

/// The living processes whose working directory is this one.
fn processes_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("a directory").flatten();
    let inside = entries
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == directory));
    inside.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn wait_empty(directory: &Path, host: i32) {
    let begun = Instant::now();
    loop {
        // The host itself stands there, and its guard.
        let ours = |pid: &String| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let is_hosts = *pid == host.to_string() || stat.contains(&format!(" S {host} "));
            !is_hosts
                || fs::read_to_string(format!("/proc/{pid}/environ"))
                    .is_ok_and(|env| env.contains("DSH_SESSION_ID"))
        };
        let left: Vec<_> = processes_in(directory).into_iter().filter(ours).collect();
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "still there: {left:?}");
        std::thread::yield_now();
    }
}

/// P-66, P-68, P-78: every start has its end, its number and its two events, however many there are.
#[test]
fn a_thousand_quick_jobs_are_all_accounted_for() {
    const TURNS: usize = 8;
    const STARTS: usize = 125;
    let site = Site::new()
        .tables("[jobs]\ndelivery = \"quiet\"\nper-session-max = 1000\nhost-max = 1000\n")
        .script([
            on("many", (0..STARTS).map(|_| job("true"))),
            on("list", [tool("job_list", json!({}))]),
        ]);
    let mut host = site.start();
    host.open("main");
    let mut frames = Vec::new();
    for _ in 0..TURNS {
        frames.extend(host.turn("main", "many").frames);
    }
    let mut told = Turn { frames };
    while told.events("job/settled").len() < TURNS * STARTS {
        let frame = host.next();
        told.frames.push(frame);
    }
    let results = told.results();
    assert_eq!(results.len(), TURNS * STARTS);
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.went_well(), format!("started background job bash-{}", number + 1));
    }
    let mut ends: HashMap<String, usize> = HashMap::new();
    for event in told.events("job/settled") {
        assert_eq!(event["data"]["status"], "completed", "{event}");
        *ends.entry(word(&event["data"]["jobId"])).or_default() += 1;
    }
    assert_eq!(ends.len(), TURNS * STARTS);
    assert!(ends.values().all(|count| *count == 1));
    assert_eq!(told.events("job/registered").len(), TURNS * STARTS);
    // P-68: the last hundred are kept.
    let list = host.turn("main", "list").result();
    assert_eq!(list.went_well().lines().count(), 100, "{list:?}");
    host.stop();
}

/// P-71, P-85: what is kept of a job's output is bounded, whatever it writes.
#[test]
fn gigabytes_of_output_cost_no_memory() {
    let flood = "head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo the end";
    let wait = tool("job_output", json!({"job_id": "bash-1", "wait": true, "timeout_ms": 600_000}));
    let site = Site::new().script([on(
        "flood",
        [job(flood), wait, bash_with(flood, &json!({"timeoutMs": 600_000}))],
    )]);
    let mut host = site.start();
    host.open("main");
    let results = host.turn("main", "flood").results();
    for result in &results[1..] {
        let text = result.went_well();
        assert!(text.contains("the end"), "the tail is kept: {}", text.len());
        assert!(text.len() < 200_000, "{}", text.len());
    }
    assert!(
        results[1]
            .text
            .contains("[some output was dropped from memory; full output: (unavailable)]"),
        "{}",
        tail(&results[1].text)
    );
    let status =
        fs::read_to_string(format!("/proc/{}/status", host.peer.wire.id())).expect("it lives");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 512 * 1024, "the host has grown to {kib} KiB");
    host.stop();
}

fn tail(text: &str) -> String {
    let reversed: String = text.chars().rev().take(300).collect();
    reversed.chars().rev().collect()
}

/// P-75: who is deaf to a request is killed after the grace.
#[test]
fn a_job_that_ignores_requests_is_killed() {
    let site = Site::new().script([
        on("start", [job("trap '' TERM INT HUP; touch up; while :; do sleep 1000; done")]),
        on("kill", [tool("job_kill", json!({"job_id": "bash-1"}))]),
        on("look", [tool("job_output", json!({"job_id": "bash-1"}))]),
    ]);
    let mut host = site.start();
    host.open("main");
    host.turn("main", "start");
    let begun = Instant::now();
    while !site.cwd.join("up").exists() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    let turn = host.turn("main", "kill");
    assert_eq!(turn.result().went_well(), "requested cancellation of job bash-1");
    if turn.events("job/settled").is_empty() {
        host.until(|frame| is_event(frame, "main", "job/settled"));
    }
    let result = host.turn("main", "look").result();
    assert!(result.went_well().ends_with("[status: killed, signal: SIGKILL]"), "{result:?}");
    wait_empty(&site.cwd, host.peer.wire.id());
    host.stop();
}

/// L-85: a call ends with all the processes that it began, also where they grow while they are being ended. The
/// tree doubles seven times and no more, so that nothing but the call has to hold it.
#[test]
fn a_fork_bomb_ends_with_its_call() {
    let bomb = "trap '' TERM; f() { if [ $1 = 0 ]; then echo x >> leaves; exec sleep 1000; fi; f $(($1 - 1)) & f $(($1 - 1)) & wait; }; f 7";
    let site =
        Site::new().script([on("bomb", [bash_with(bomb, &json!({}))]), on("job", [job(bomb)])]);
    let mut host = site.start();
    host.open("main");
    let leaves = site.cwd.join("leaves");
    let wait_leaves = || {
        let begun = Instant::now();
        while fs::read_to_string(&leaves).unwrap_or_default().lines().count() < 128 {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        fs::remove_file(&leaves).expect("a file");
    };
    host.prompt("main", "bomb");
    wait_leaves();
    host.send("session/cancel", Some("main"), &json!({"inbox": "clear"}));
    host.rest("main");
    wait_empty(&site.cwd, host.peer.wire.id());

    host.turn("main", "job");
    wait_leaves();
    host.call("session/close", "main", &json!({}));
    wait_empty(&site.cwd, host.peer.wire.id());
    host.stop();
}

/// Sessions that all ask for the same, with the asks that are open.
fn asking(site: &Site, count: usize) -> (Host, HashMap<String, Value>) {
    let mut host = site.start();
    host.watch_all();
    for number in 0..count {
        host.open_unwatched(&format!("s{number}"), "new", &json!({"owner": "connection"}));
    }
    let mut asks = HashMap::new();
    let mut waiting = Vec::new();
    for number in 0..count {
        waiting.extend(host.prompt(&format!("s{number}"), "ask").frames);
    }
    while asks.len() < count {
        let frame = match waiting.is_empty() {
            true => host.next(),
            false => waiting.remove(0),
        };
        if frame["name"] == "ask/opened" {
            asks.insert(word(&frame["session"]), frame);
        }
    }
    (host, asks)
}

fn escalated(command: &str) -> Value {
    bash_with(
        command,
        &json!({"sandbox_permissions": "danger-full-access", "justification": "the test wants it"}),
    )
}

/// P-14, P-15: many asks are open at once, and each answer is that of its own.
#[test]
fn two_hundred_asks_are_each_answered_once() {
    const COUNT: usize = 200;
    let site = Site::new().script([on("ask", [escalated("echo $DSH_SESSION_ID")])]);
    let (mut host, asks) = asking(&site, COUNT);
    let answer =
        |number: usize| if number.is_multiple_of(3) { Answer::Reject } else { Answer::Allow };
    for number in (0..COUNT).rev() {
        host.answer(&asks[&format!("s{number}")], answer(number));
    }
    let mut results = HashMap::new();
    let mut idle = 0;
    while idle < COUNT {
        let frame = host.next();
        let session = word(&frame["session"]);
        if is_event(&frame, &session, "tool/result") {
            results.insert(session.clone(), super::bench::Outcome::of(&frame["body"]));
        }
        if is_idle(&frame, &session) {
            idle += 1;
        }
    }
    for number in 0..COUNT {
        let session = format!("s{number}");
        match answer(number) {
            Answer::Reject => results[&session]
                .failed("the user rejected escalating this command to \"danger-full-access\""),
            _ => assert_eq!(results[&session].went_well(), format!("{session}\n")),
        }
    }
    // A second answer comes too late, and changes nothing.
    let id = host.answer(&asks["s0"], Answer::Allow);
    let late = host.until(|frame| frame["id"] == *id);
    assert_eq!(
        late.frames[late.frames.len() - 1]["body"]["receipt"],
        "not-pending",
        "{:?}",
        late.frames
    );
    host.stop();
}

/// P-14: an answer and a cancel that meet leave one decision, and a call that agrees with it.
#[test]
fn answers_race_with_cancels() {
    const COUNT: usize = 60;
    let site = Site::new().script([on("ask", [escalated("touch $DSH_SESSION_ID")])]);
    let (mut host, asks) = asking(&site, COUNT);
    let mut receipts = HashMap::new();
    for number in 0..COUNT {
        let session = format!("s{number}");
        let cancel = |host: &mut Host| {
            host.send("session/cancel", Some(&session), &json!({"inbox": "clear"}));
        };
        if number.is_multiple_of(2) {
            cancel(&mut host);
        }
        receipts.insert(host.answer(&asks[&session], Answer::Allow), session.clone());
        if !number.is_multiple_of(2) {
            cancel(&mut host);
        }
    }
    let (mut idle, mut given) = (0, HashMap::new());
    while idle < COUNT || given.len() < COUNT {
        let frame = host.next();
        if let Some(session) = receipts.get(&word(&frame["id"])) {
            given.insert(session.clone(), word(&frame["body"]["receipt"]));
        }
        if is_idle(&frame, &word(&frame["session"])) {
            idle += 1;
        }
    }
    for number in 0..COUNT {
        let session = format!("s{number}");
        let log = host.log(&session);
        let of = |kind: &str| log.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        assert_eq!((of("approval/asked").len(), of("approval/decided").len()), (1, 1), "{session}");
        assert_eq!((of("tool/call").len(), of("tool/result").len()), (1, 1), "{session}");
        let outcome = word(&of("approval/decided")[0]["data"]["outcome"]);
        match given[&session].as_str() {
            "accepted" => assert_eq!(outcome, "allowed-once", "{session}"),
            _ => {
                assert_eq!(outcome, "cancelled", "{session}");
                assert!(!site.cwd.join(&session).exists(), "{session}");
            }
        }
    }
    host.stop();
}
