//! The unix carrier with a real host behind it: who may connect, what a slow peer costs, how it ends.

#[cfg(test)]
mod house;

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use serde_json::json;
use transom_io::unix::{BindError, Socket};

use crate::house::{House, idle};

const ECHO: &str = r#"{"rules": [{"answer": [{"text": "you said {{prompt}}"}]}]}"#;

#[test]
fn a_socket_belongs_to_its_owner_alone() {
    let house = House::new(ECHO, "");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.path), 0o600);
    assert_eq!(mode(house.path.parent().unwrap()), 0o700);
}

#[test]
fn an_address_is_taken_only_from_the_dead() {
    let house = House::new(ECHO, "");
    let _runtime = house.runtime.enter();
    assert!(matches!(Socket::bind(&house.path), Err(BindError::InUse(_))));

    let stale = house.path.with_file_name("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(Socket::bind(&stale).is_ok(), "nobody answers there any more");
    assert!(!stale.exists(), "and the file goes with the socket");

    let file = house.path.with_file_name("notes.txt");
    fs::write(&file, "keep me").unwrap();
    assert!(matches!(Socket::bind(&file), Err(BindError::NotASocket(_))));
    assert_eq!(fs::read_to_string(&file).unwrap(), "keep me");
}

#[test]
fn a_socket_leaves_its_successors_file_alone() {
    let house = House::new(ECHO, "");
    let _runtime = house.runtime.enter();
    let path = house.path.with_file_name("shared.sock");
    let first = Socket::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let second = Socket::bind(&path).unwrap();
    drop(first);
    assert!(path.exists(), "the second one still listens there");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_turn_is_shown_in_order() {
    let house = House::new(ECHO, "");
    let mut peer = house::Peer::connect(&house.path);
    peer.open("main");
    peer.prompt("main", "hi");
    let frames = peer.until(idle);
    let seqs: Vec<_> = frames
        .iter()
        .filter(|frame| frame["name"] == "session/event")
        .map(|frame| frame["body"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    let answer = frames.iter().find(|frame| frame["body"]["type"] == "assistant/message").unwrap();
    assert_eq!(answer["body"]["data"]["message"]["content"][0]["text"], "you said hi");
}

#[test]
fn one_connection_too_many_is_let_go_and_harms_nobody() {
    // Limit connections-max; on a line carrier the refusal is the end of output (decision 56).
    let house = House::new(ECHO, "connections-max = 2");
    let (mut one, mut two) = (house.peer(), house.peer());
    one.open("a");
    two.open("b");
    let mut refused = house.peer();
    assert_eq!(refused.next(), None);
    drop(two);
    one.prompt("a", "still here?");
    one.until(idle);
    // The place is free again once the host has seen the other one leave.
    let free = (0..1000).any(|_| {
        let mut next = house.peer();
        next.ask("host/describe", None, json!({}));
        next.next().is_some()
    });
    assert!(free, "a place that was left is given to the next");
}

#[test]
fn a_peer_that_does_not_read_misses_nothing_and_holds_up_nobody() {
    // Decision 21: its cursor rests, and goes on from the store.
    let house = House::new(
        r#"{"rules": [{"answer": [{"text": "{{prompt}}"}]}]}"#,
        "unwritten-bytes-rest = 4096\nunwritten-bytes-stop = 65536",
    );
    let (mut slow, mut quick) = (house.peer(), house.peer());
    slow.open("slow");
    quick.open("quick");
    // From a thread of its own: where the host stops reading, whoever writes has to wait.
    let mut stream = slow.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let content = json!({ "content": [{ "type": "text", "text": "x".repeat(20_000) }] });
        for number in 0..60 {
            let id = format!("prompt {number}");
            let prompt = json!({
                "kind": "request", "id": id, "name": "session/prompt", "session": "slow", "body": content,
            });
            stream.write_all(format!("{prompt}\n").as_bytes()).unwrap();
        }
    });
    for _ in 0..20 {
        quick.prompt("quick", "now");
        quick.until(idle);
    }
    let mut seqs = Vec::new();
    let mut receipts = 0;
    while receipts < 60 || seqs.last() != Some(&(seqs.len() as u64 - 1)) {
        let frame = slow.next().expect("a slow peer that reads again is not let go");
        if frame["name"] == "session/event" {
            seqs.push(frame["body"]["seq"].as_u64().unwrap());
        }
        receipts += usize::from(frame["name"] == "session/prompt");
    }
    writing.join().unwrap();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "no gap, nothing twice");
}

#[test]
fn a_peer_that_only_asks_is_not_read_for_ever() {
    // Limit unwritten-bytes-stop: reading rests when answers are not taken.
    let house = House::new(
        ECHO,
        "unwritten-bytes-rest = 4096\nunwritten-bytes-stop = 16384\nlive-notices-max = 64",
    );
    let peer = house.peer();
    let mut stream = peer.stream.try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let line =
        "{\"kind\":\"request\",\"id\":\"1\",\"name\":\"no such frame\",\"body\":{}}\n".repeat(100);
    let mut written = 0;
    let stopped = loop {
        match stream.write(line.as_bytes()) {
            Ok(bytes) => written += bytes,
            Err(_) => break true,
        }
        if written > 64 * 1024 * 1024 {
            break false;
        }
    };
    assert!(stopped, "the host read {written} bytes of requests whose answers nobody took");
    // What stopped is the reading, not the host: answers come as soon as somebody takes them, for every whole line.
    let mut peer = peer;
    let whole = written / (line.len() / 100);
    for _ in 0..whole {
        let answer = peer.next().expect("an answer for each request");
        assert_eq!(answer["kind"], "failure");
    }
}

#[test]
fn an_orderly_end_closes_every_connection_and_removes_the_file() {
    let mut house = House::new(ECHO, "");
    let mut peer = house::Peer::connect(&house.path);
    peer.open("main");
    house.end();
    let mut rest = Vec::new();
    peer.reader.read_to_end(&mut rest).unwrap();
    assert_eq!(String::from_utf8(rest).unwrap(), "", "an idle peer is told nothing but the end");
    assert!(!house.path.exists());
}

#[test]
fn a_line_that_is_too_long_costs_its_line_only() {
    // S-9, limit unit-bytes-max.
    let house = House::new(ECHO, "unit-bytes-max = 1000");
    let mut peer = house::Peer::connect(&house.path);
    let long = format!("{{\"kind\":\"request\",\"id\":\"1\",\"name\":\"{}\"}}\n", "x".repeat(2000));
    peer.stream.write_all(long.as_bytes()).unwrap();
    peer.ask("host/describe", None, json!({}));
    let frames = peer.until(|frame| frame["name"] == "host/describe");
    assert_eq!(frames.last().unwrap()["kind"], "reply");
}

#[test]
fn what_the_host_has_started_is_no_peer_of_it() {
    // P-43: whatever a tool can reach, it does not speak for the people behind a session.
    let house = House::new(ECHO, "");
    let code = "import socket, sys\n\
                peer = socket.socket(socket.AF_UNIX)\n\
                peer.connect(sys.argv[1])\n\
                try:\n    peer.sendall(b'{\"kind\":\"request\",\"id\":\"1\",\"name\":\"host/describe\",\"body\":{}}\\n')\n    heard = peer.recv(1000)\n\
                except OSError:\n    heard = b''\n\
                print(len(heard))\n";
    for wrapped in [&["python3"][..], &["setsid", "-w", "python3"]] {
        let output = std::process::Command::new(wrapped[0])
            .args(&wrapped[1..])
            .args(["-c", code])
            .arg(&house.path)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{output:?}");
    }
    // The host's own process is none of its children.
    let mut peer = house::Peer::connect(&house.path);
    peer.ask("host/describe", None, json!({}));
    assert!(peer.next().is_some());
}
