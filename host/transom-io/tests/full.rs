//! The disk is full in the middle of a turn: whoever waits for the session to rest hears of it (decision 1g).

#[cfg(test)]
mod house;

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use transom_io::{PeerFacts, serve};

use crate::house::{PATIENCE, Peer, frames_door, idle, start};

#[test]
fn a_turn_that_cannot_be_stored_ends_for_whoever_watches_it() {
    // Answers are long and prompts are short, so that it is a turn under way that finds no room.
    let text = "x".repeat(20_000);
    let script = json!({ "rules": [{ "answer": [{ "text": text }, { "text": text }] }] });
    let mut in_the_middle = 0;
    for pages in [24, 29, 34, 39] {
        let directory = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (stop, stopping) = watch::channel(false);
        let serving = runtime.spawn({
            let (directory, script) = (directory.path().to_owned(), script.to_string());
            async move {
                let host = start(&directory, &script, Some(pages));
                let stream = tokio::net::UnixStream::from_std(theirs).unwrap();
                let (reader, writer) = stream.into_split();
                let peer =
                    PeerFacts { carrier: "unix", peer: "test".to_owned(), owns_process: false };
                serve(&host, &frames_door(""), &peer, reader, writer, stopping).await
            }
        });

        let mut peer = Peer::on(ours);
        peer.open("main");
        let watch = json!({ "scope": "session", "topics": ["errors"] });
        peer.ask("events/subscribe", Some("main"), watch);
        let refused = |frame: &Value| frame["kind"] == "failure";
        let last = loop {
            peer.prompt("main", "hi");
            // Were nothing told, this would find the end of the patience.
            let seen = peer.until(|frame| idle(frame) || refused(frame));
            let named = |name: &str| seen.iter().any(|frame| frame["name"] == name);
            if named("agent/error") {
                assert!(idle(seen.last().unwrap()), "{seen:?}");
                in_the_middle += 1;
            }
            if let Some(refusal) = seen.into_iter().find(refused) {
                break refusal;
            }
        };
        assert_eq!(last["body"]["code"], "store-failed", "{last}");
        stop.send_replace(true);
        let ended = async { tokio::time::timeout(PATIENCE, serving).await };
        assert!(!runtime.block_on(ended).unwrap().unwrap().stuck);
    }
    assert!(in_the_middle > 0, "every host had room for its turns");
}
