//! `kill -9` in the middle of a turn: whatever a client was shown is in the store (design §2, rule 5), the store is
//! whole, and the next process goes on with it.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::{Value, json};

use crate::support::{
    bench::{Bench, configuration, export},
    client::{error, event_text},
    model_server::{Piece, Reply, delta, event, finish, usage},
    place::text,
    vector::parse,
    wire::PATIENCE,
};

#[test]
fn what_was_streamed_survives_the_end_of_the_process() {
    let mut bench = Bench::ready();
    // Far more than is read before the kill, so that it falls in the middle of writing.
    let ticks =
        (0..4_000).map(|n| event(&delta(json!({"content": format!("tick{n} ")})).to_string()));
    bench.model.on("SLOW", Reply::pieces(ticks.chain([Piece::Silence]).collect()));
    bench.client.prompt("p", "main", "PROMPT: SLOW");
    for _ in 0..300 {
        bench.client.next();
    }
    killed(bench, 250);
}

#[test]
fn a_call_that_was_shown_survives_the_end_of_the_process_and_its_children_do_not() {
    let mut bench = Bench::ready();
    let fifo = bench.place.root().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a fifo");
    // The shell and what it starts hold the fifo open; it ends when the last of them is gone.
    let command = format!("exec 3>{0}; echo started >&3; sleep 1000 & sleep 1000", fifo.display());
    let arguments = json!({"command": command, "description": "Waits"}).to_string();
    let call = json!({"tool_calls": [{
        "index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": arguments},
    }]});
    bench.model.on("TOOL", Reply::events(&[delta(call), finish("tool_calls"), usage()]));
    let (heard, hears) = mpsc::sync_channel(2);
    thread::spawn(move || {
        let mut fifo = File::open(fifo).expect("the fifo");
        let mut word = [0; 8];
        heard.send(fifo.read_exact(&mut word).map(|()| word.to_vec())).expect("a listener");
        let mut rest = Vec::new();
        heard.send(fifo.read_to_end(&mut rest).map(|_| rest)).expect("a listener");
    });

    bench.client.prompt("p", "main", "PROMPT: TOOL");
    bench.client.until(|frame| frame["params"]["event"]["type"] == "tool/call");
    let started = hears.recv_timeout(PATIENCE).expect("the shell starts").expect("its word");
    assert_eq!(started, b"started\n");
    killed(bench, 10);
    let rest = hears
        .recv_timeout(PATIENCE)
        .expect("no child outlives the process")
        .expect("the end of the fifo");
    assert_eq!(rest, b"");
}

/// Kills the program; the log of `main` must hold at least what was shown, byte for byte, and a new process must
/// respect it.
fn killed(mut bench: Bench, shown_min: usize) {
    bench.client.wire.kill();
    let mut lines = std::mem::take(&mut bench.client.lines);
    lines.extend(bench.client.wire.last_words());
    let shown: Vec<_> = lines.iter().filter_map(|line| event_text(line, "main")).collect();
    assert!(shown.len() >= shown_min, "only {} events were shown", shown.len());

    let stored = export(&bench.place, "main");
    assert!(
        stored.len() > shown.len(),
        "{} lines are stored, {} events were shown",
        stored.len(),
        shown.len()
    );
    for (seq, (stored, shown)) in stored.iter().skip(1).zip(&shown).enumerate() {
        assert_eq!(stored, shown, "seq {seq}");
    }

    let mut bench = bench.restarted();
    bench.shake_hands();
    bench.client.prompt("again", "main", "PROMPT: PLAIN");
    assert_eq!(error(&bench.client.next()), "-32603 session \"main\" already exists");
    bench.client.turn("other", "PROMPT: PLAIN");
    assert_eq!(bench.client.shut_down(), 0);
    assert_eq!(export(&bench.place, "main"), stored, "nobody touched it");
    assert!(export(&bench.place, "other").len() > 1);
}

/// S-217, L-85: what a client can read below the session root when the program has ended.
#[test]
fn form_a_leaves_a_log_for_each_session() {
    let mut bench = Bench::ready();
    let arguments = json!({"command": "printf %s \"$DSH_SESSION_JSONL\"", "description": "Where"});
    let call = json!({"tool_calls": [{
        "index": 0, "id": "call_1", "type": "function",
        "function": {"name": "bash", "arguments": arguments.to_string()},
    }]});
    bench.model.on("TOOL", Reply::events(&[delta(call), finish("tool_calls"), usage()]));
    bench.client.turn("a/b", "PROMPT: TOOL");
    assert_eq!(bench.client.shut_down(), 0);

    let logs = logs(&bench.place.sessions());
    let [log] = &logs[..] else { panic!("one session has one log: {logs:?}") };
    let directory = log.parent().and_then(Path::file_name).expect("a directory");
    assert_eq!(directory, "a~002Fb");
    let bytes = fs::read(log).expect("the log");
    assert_eq!(bytes[..4], [0x28, 0xb5, 0x2f, 0xfd], "it is compressed");
    let events = bench.client.events("a/b");
    let result = events.iter().find(|event| event["type"] == "tool/result").expect("a result");
    assert_eq!(
        result["data"]["message"]["content"][0]["content"][0]["text"],
        text(log),
        "commands are told where it is"
    );

    let configuration = configuration("coding.yml");
    let mut bench = Bench::launched(|form| form.env("DSH_CORDIS_CONFIG", configuration));
    bench.shake_hands();
    bench.client.turn("main", "PROMPT: PLAIN");
    assert_eq!(bench.client.shut_down(), 0);
    let logs = self::logs(&bench.place.sessions());
    let [log] = &logs[..] else { panic!("one session has one log: {logs:?}") };
    assert!(log.ends_with("main/session.jsonl"), "{log:?}");
    let lines: Vec<Value> = fs::read_to_string(log)
        .expect("it is not compressed")
        .lines()
        .map(|line| parse(line).expect("records are JSON"))
        .collect();
    assert_eq!(
        (&lines[0]["type"], &lines[0]["id"], &lines[0]["cwd"]),
        (&"session".into(), &"main".into(), &text(&bench.place.cwd).into())
    );
    assert_eq!(lines[1..], bench.client.events("main"), "two deltas are not packed");
}

/// All logs below a session root.
fn logs(root: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
    };
    let sessions = entries(root).into_iter().flat_map(|project| entries(&project));
    let files = sessions.flat_map(|session| fs::read_dir(session).expect("a directory"));
    files.map(|file| file.expect("a file").path()).collect()
}
