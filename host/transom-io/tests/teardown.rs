//! A connection ends while its teardown fails (C-56).

#[cfg(test)]
mod house;

use std::os::unix::net::UnixStream;

use tempfile::TempDir;
use tokio::sync::watch;
use transom_io::{PeerFacts, serve};

use crate::house::{PATIENCE, Peer, frames_door, start};

/// Streams for longer than any test lasts.
const SLOW: &str =
    r#"{"rules": [{"answer": [{"text": "a"}, {"delay_ms": 600000}, {"text": "b"}]}]}"#;

#[test]
fn c_56_a_door_that_is_unloaded_while_its_teardown_fails_closes_and_reports() {
    let directory = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let (stop, stopping) = watch::channel(false);
    let serving = runtime.spawn({
        let directory = directory.path().to_owned();
        async move {
            // Room for the schema and a few events; the end of the turn finds none left.
            let host = start(&directory, SLOW, Some(24));
            let stream = tokio::net::UnixStream::from_std(theirs).unwrap();
            let (reader, writer) = stream.into_split();
            let peer = PeerFacts { carrier: "unix", peer: "test".to_owned(), owns_process: false };
            serve(&host, &frames_door(""), &peer, reader, writer, stopping).await
        }
    });

    let mut peer = Peer::on(ours);
    peer.open("main");
    // Fills the disk while the turn runs.
    let long = "x".repeat(20_000);
    peer.prompt("main", "hi");
    let mut failed = false;
    while !failed {
        peer.prompt("main", &long);
        let answered =
            peer.until(|frame| frame["name"] == "session/prompt" && frame["kind"] != "notice");
        failed = answered.last().unwrap()["kind"] == "failure";
    }
    stop.send_replace(true);
    let ended =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, serving).await }).unwrap().unwrap();
    assert_eq!(ended.failures.len(), 1, "{ended:?}");
    assert!(ended.failures[0].starts_with("the session log could not be written"), "{ended:?}");
    assert!(!ended.stuck);
    // The transport is closed, so nothing that is said later can be answered.
    while peer.next().is_some() {}
}
