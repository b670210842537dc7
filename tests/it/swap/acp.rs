//! The component of the ACP door is exchanged between prompts and in the middle of them, and its clients notice nothing:
//! what was asked is answered once, numbers go on, and nobody is asked twice (design §7, A-16, A-64).

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use super::renamed;
use crate::support::{
    acp::{Acp, chunks, script, stop},
    control::Control,
    place::{Place, text},
    process::{Launch, Process, built},
    socket::Socket,
    wire::{PATIENCE, Signal, Wire},
};

/// A host with the ACP door and a control socket.
struct House {
    place: Place,
    client: Acp<Socket>,
    control: Control,
    versions: [PathBuf; 2],
    swaps: usize,
}

fn component() -> Vec<u8> {
    fs::read(built("components/acp.wasm")).expect("a component")
}

impl House {
    fn new(place: Place) -> House {
        let client = Acp::new(Socket::connect(&place.root().join("acp.sock")));
        let control = Control::connect(&place.root().join("control.sock"));
        let versions = [
            place.file("second.wasm", renamed(component(), "second")),
            place.root().join("acp.wasm"),
        ];
        House { place, client, control, versions, swaps: 0 }
    }

    /// Makes the other version the active one. Every connection goes along.
    fn swap(&mut self) {
        let source = &self.versions[self.swaps % 2];
        let answer = self.control.ask("swap", json!({"component": "acp", "source": source}));
        let answer = answer.expect("it is swapped");
        let row = &answer["doors"][0];
        assert_eq!(
            (&row["moved"], &row["stayed"], &row["lost"]),
            (&json!(1), &json!(0), &json!(0)),
            "{answer}"
        );
        self.swaps += 1;
    }

    fn session(&mut self) -> String {
        let cwd = text(&self.place.cwd).to_owned();
        self.client.session(&cwd)
    }

    fn tell(&mut self) {
        let before = self.client.call("i", "initialize", json!({"protocolVersion": 1}));
        let (one, two) = (self.session(), self.session());
        let plain = |(updates, end): (Vec<Value>, Value)| {
            assert_eq!(
                (chunks(&updates), stop(&end)),
                (vec!["hello there".to_owned()], "end_turn")
            );
        };

        // Between prompts.
        plain(self.client.turn(&one, "[[PLAIN]]"));
        self.swap();
        plain(self.client.turn(&one, "[[PLAIN]]"));
        plain(self.client.turn(&two, "[[PLAIN]]"));
        let after = self.client.call("i", "initialize", json!({"protocolVersion": 1}));
        assert_eq!(before, after);

        // The model is silent, and the place stays taken.
        self.client.prompt("hangs", &one, "[[HANG]]");
        self.swap();
        let second = self.client.turn(&one, "[[PLAIN]]").1;
        assert_eq!(second["error"]["code"], -32602, "{second}");
        plain(self.client.turn(&two, "[[PLAIN]]"));
        self.client.cancel(&one);
        let cancelled = self.client.next();
        assert_eq!((&cancelled["id"], stop(&cancelled)), (&json!("hangs"), "cancelled"));

        // A question is open: it is not put again, and its number counts.
        for (number, option, runs) in [(0, "allow-once", true), (1, "reject-once", false)] {
            self.client.prompt("asks", &one, "[[PERM]]");
            assert_eq!(self.client.next()["id"], number);
            self.swap();
            self.client.decide(number, json!({"outcome": "selected", "optionId": option}));
            let (updates, end) = self.client.until("asks");
            assert_eq!(chunks(&updates).concat() == "done: escalated", runs, "{updates:?}");
            assert_eq!(stop(&end), "end_turn");
        }

        // A tool is at work, and goes on; then another, and is stopped.
        self.client.prompt("works", &one, "[[GATE]]");
        self.begun();
        self.swap();
        fs::write(self.place.cwd.join("go"), "").expect("a file");
        let (updates, end) = self.client.until("works");
        assert_eq!(
            (chunks(&updates), stop(&end)),
            (vec!["gate says: through".to_owned()], "end_turn")
        );
        self.client.prompt("works", &one, "[[SLOWTOOL]]");
        self.begun();
        self.swap();
        self.client.cancel(&one);
        assert_eq!(stop(&self.client.next()), "cancelled");

        // And back.
        self.control.ask("rollback", json!({"component": "acp"})).expect("there is one before");
        plain(self.client.turn(&one, "[[PLAIN]]"));
    }

    /// Waits until the tool has begun, and lets the next begin anew.
    fn begun(&mut self) {
        let held = self.place.cwd.join("held");
        let end = Instant::now() + PATIENCE;
        while !fs::read(&held).is_ok_and(|bytes| !bytes.is_empty()) {
            assert!(Instant::now() < end, "{}", self.client.wire.diagnostics());
            thread::yield_now();
        }
        fs::remove_file(held).expect("the tool's file");
    }
}

/// A host with the door `acp` on a socket. `options` are further lines of the door.
fn served(place: &Place, options: &str) -> Process {
    place.file("acp.wasm", component());
    let manifest = format!(
        "[component.acp]\nsource = \"acp.wasm\"\n\
         [door.acp]\ncomponent = \"acp\"\ncarrier = \"unix\"\nlisten = \"acp.sock\"\n{options}\n\
         [model]\nprovider = \"scripted\"\n[permissions]\npreset = \"workspace-write\"\n\
         [store]\npath = \"store.db\"\n[control]\nlisten = \"control.sock\"\n"
    );
    let manifest = place.file("transom.toml", manifest);
    let script = place.file("script.json", script().to_string());
    let mut process = Launch::new(["run", "--manifest", text(&manifest), "--model-script"])
        .arg(&script)
        .directory(&place.cwd)
        .env("HOME", &place.home)
        .start();
    while let Some(line) = process.line() {
        if line.starts_with("ready") {
            return process;
        }
    }
    panic!("the host did not start:\n{}", process.diagnostics());
}

#[test]
fn an_acp_client_notices_no_swap() {
    let place = Place::new();
    let mut process = served(&place, "");
    let mut house = House::new(place);
    house.tell();
    // The end of input belongs to the version that is active then.
    let session = house.session();
    house.client.prompt("last", &session, "[[HANG]]");
    house.swap();
    house.client.wire.close_input();
    assert_eq!(stop(&house.client.next()), "cancelled");
    assert_eq!(house.client.frame(), None);
    process.signal(Signal::Terminate);
    assert_eq!(process.exit(), 0, "{}", process.diagnostics());
}

/// Clients that prompt without a pause while the component is exchanged again and again.
const CLIENTS: usize = 8;
const SWAPS: usize = 20;

#[test]
fn prompts_are_answered_once_and_in_order_through_every_swap() {
    let place = Place::new();
    let mut process = served(&place, "limits = { connections-max = 16 }");
    let mut control = Control::connect(&place.root().join("control.sock"));
    let versions =
        [place.file("second.wasm", renamed(component(), "second")), place.root().join("acp.wasm")];
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let prompting: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Acp::new(Socket::connect(&place.root().join("acp.sock")));
                    let session = client.session(text(&place.cwd));
                    let mut answered = 0;
                    while !done.load(Ordering::Relaxed) {
                        let (updates, end) = client.turn(&session, &format!("[[ECHO]] {answered}"));
                        let expected = format!("ECHO:[[ECHO]] {answered}");
                        assert_eq!((chunks(&updates), stop(&end)), (vec![expected], "end_turn"));
                        answered += 1;
                    }
                    answered
                })
            })
            .collect();
        let end = Instant::now() + PATIENCE;
        while control.door("acp")["connections"] != CLIENTS {
            assert!(Instant::now() < end, "{}", process.diagnostics());
            thread::yield_now();
        }
        for round in 0..SWAPS {
            let asked = json!({"component": "acp", "source": versions[round % 2]});
            let answer = control.ask("swap", asked).expect("it is swapped");
            let row = &answer["doors"][0];
            assert_eq!(
                (&row["moved"], &row["stayed"], &row["lost"]),
                (&json!(CLIENTS), &json!(0), &json!(0)),
                "{answer}"
            );
        }
        done.store(true, Ordering::Relaxed);
        for client in prompting {
            let answered = client.join().expect("no client noticed anything");
            assert!(answered > 0, "everybody was served");
        }
    });
    process.signal(Signal::Terminate);
    assert_eq!(process.exit(), 0, "{}", process.diagnostics());
}
