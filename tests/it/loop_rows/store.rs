//! Rows 35 to 38: logs of JSON lines, as launch form A leaves them and `transom export` reads them. What a resumed
//! session makes of such files stands beside the store.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{
    bench::{Bench, configuration, export, store},
    client::{event_text, route},
    model_server::{Piece, Reply, delta, event, finish, usage},
    place::{Place, text},
    process::{Finished, Launch},
};

/// A program of form A that writes plain lines.
fn plain() -> Bench {
    let configuration = configuration("coding.yml");
    Bench::launched(|form| form.env("DSH_CORDIS_CONFIG", configuration))
}

/// The log of the only session.
fn log(place: &Place) -> PathBuf {
    let only = |directory: &Path| {
        let entries = fs::read_dir(directory).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut below: Vec<_> = paths.filter(|path| path.is_dir()).collect();
        assert_eq!(below.len(), 1, "{below:?}");
        below.remove(0)
    };
    only(&only(&place.sessions())).join("session.jsonl")
}

/// A log of one turn, by its lines; the program has ended.
fn written() -> (Bench, PathBuf, Vec<String>) {
    let mut bench = plain();
    bench.shake_hands();
    bench.client.turn("main", "PROMPT: PLAIN");
    assert_eq!(bench.client.shut_down(), 0);
    let log = log(&bench.place);
    let lines = fs::read_to_string(&log).expect("a log").lines().map(str::to_owned).collect();
    (bench, log, lines)
}

fn attempt(place: &Place, session: &str) -> Finished {
    Launch::new(["export", session, "--store", text(&store(place))])
        .env("HOME", place.root())
        .run("")
}

/// Row 35. L-78: "The first bad line ends the valid prefix. If a `turn/end` is found after it, the log is corrupt and is
/// refused (`corrupt session log: unparsable committed event at line <k>` …); otherwise it is a torn tail: dropped".
#[test]
fn row_35_a_torn_tail_is_dropped_and_damage_before_an_end_is_refused() {
    let (bench, log, lines) = written();
    let (last, before) = lines.split_last().expect("lines");
    let half = &last[..last.len() / 2];
    fs::write(&log, format!("{}\n{half}", before.join("\n"))).expect("a torn log");
    assert_eq!(export(&bench.place, "main"), before);

    let (torn, whole) = before.split_last().expect("lines");
    let torn = &torn[..torn.len() / 2];
    let damaged = format!("{}\n{torn}\n{last}\n", whole.join("\n"));
    fs::write(&log, damaged).expect("a damaged log");
    let refused = attempt(&bench.place, "main");
    assert_eq!(refused.code, 1, "{refused:?}");
    let line = lines.len() - 1;
    let expected = format!("corrupt session log: unparsable committed event at line {line}");
    assert!(refused.stderr.contains(&expected), "{refused:?}");
}

/// Row 36. L-78: "`session "<id>" uses log format v<n>, but this harness reads only v0: …`". An unknown type is refused
/// where a session is resumed; an export shows it (decision 45).
#[test]
fn row_36_another_format_is_refused_by_its_number() {
    let (bench, log, mut lines) = written();
    lines[0] = lines[0].replacen("\"version\":0", "\"version\":1", 1);
    fs::write(&log, format!("{}\n", lines.join("\n"))).expect("a log of another version");
    let refused = attempt(&bench.place, "main");
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
    let expected = "session \"main\" uses log format v1, but this harness reads only v0: ";
    assert!(refused.stderr.contains(expected), "{refused:?}");
}

/// Row 37. L-76: "Packed rows (default on) replace runs of at least 3 consecutive delta events"; "`dt` holds successive
/// time differences, one fewer than members". How deltas fall into batches is a matter of time; so many at once have
/// runs, and whatever was packed loads to what was shown.
#[test]
fn row_37_packed_deltas_load_to_the_events_that_were_shown() {
    let mut bench = plain();
    bench.shake_hands();
    let mut burst = Vec::new();
    for n in 0..500 {
        let Piece::Write(bytes) = event(&delta(json!({"content": format!("w{n} ")})).to_string())
        else {
            panic!("an event is a write");
        };
        burst.extend(bytes);
    }
    let end = [finish("stop"), usage()].map(|payload| event(&payload.to_string()));
    let pieces = [Piece::Write(burst)].into_iter().chain(end).chain([event("[DONE]")]);
    bench.model.on("BURST", Reply::pieces(pieces.collect()));
    bench.client.turn("main", "PROMPT: BURST");
    assert_eq!(bench.client.shut_down(), 0);

    let text = fs::read_to_string(log(&bench.place)).expect("a log");
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let packed: Vec<_> = rows.iter().filter(|row| row["type"] == "text-chunks").collect();
    assert!(!packed.is_empty(), "500 deltas at once have no run of three in a batch");
    for row in packed {
        let count = |member: &str| row["data"][member].as_array().map_or(0, Vec::len);
        assert!(count("texts") >= 3, "{row}");
        assert_eq!(count("dt") + 1, count("texts"), "{row}");
    }
    let shown: Vec<_> =
        bench.client.lines.iter().filter_map(|line| event_text(line, "main")).collect();
    assert_eq!(export(&bench.place, "main")[1..], shown);
}

/// Row 38. L-75: "`[A-Za-z0-9._-]` kept; other UTF-16 units → `~` + 4 upper-case hex"; "`..` → `~002E~002E`".
#[test]
fn row_38_a_log_stands_where_directory_and_id_say() {
    let mut bench = plain();
    let cwd = bench.place.root().join("a b");
    fs::create_dir(&cwd).expect("a directory");
    let answer = bench.client.call("init", "initialize", route(text(&cwd)));
    assert!(answer.get("result").is_some(), "{answer}");
    bench.client.turn("..", "PROMPT: PLAIN");
    assert_eq!(bench.client.shut_down(), 0);
    let log = log(&bench.place);
    let below = log.strip_prefix(bench.place.sessions()).expect("below the root");
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    assert!(parts[0].starts_with("--") && parts[0].ends_with("-a~0020b--"), "{parts:?}");
    assert_eq!(parts[1], "~002E~002E");
    assert_eq!(export(&bench.place, "..").len(), bench.client.events("..").len() + 1);
}
