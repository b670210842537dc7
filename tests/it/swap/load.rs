//! Swaps while a thousand peers talk: every answer is the next one, every event the one behind the last, and what the host has
//! stored is what was said to it.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{House, manifest, program, renamed, says};
use crate::support::{
    client::{prompt, route},
    control::Control,
    frames::Frames,
    place::text,
    process::built,
    socket::Socket,
};

/// Raises this process's own bound, which the host inherits.
fn many_descriptors() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a bound");
    if soft < 4096 {
        setrlimit(Resource::RLIMIT_NOFILE, 4096.min(hard), hard).expect("a higher bound");
    }
}

const CONNECTIONS: usize = 1000;

fn is_slow() -> bool {
    env::var_os("RUN_SLOW_TESTS").is_some()
}

/// 200 where `RUN_SLOW_TESTS` is set.
fn swaps() -> usize {
    if is_slow() { 200 } else { 20 }
}

/// One of many peers: asks without end, and every answer must be the next one.
async fn ask_on(path: PathBuf, stop: Arc<AtomicBool>) -> u64 {
    let stream = UnixStream::connect(&path).await.expect("the door is open");
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut asked = 0u64;
    let mut answered = 0u64;
    while !stop.load(Ordering::Relaxed) || answered < asked {
        // Two on their way at a time, so that one is always there when the connection moves.
        while asked < answered + 2 && !stop.load(Ordering::Relaxed) {
            asked += 1;
            writer.write_all(format!("u{asked}\n").as_bytes()).await.expect("it is taken");
        }
        if answered == asked {
            break;
        }
        let line = lines.next_line().await.expect("readable").expect("the connection goes on");
        answered += 1;
        assert_eq!(line, format!("{answered} u{answered}"), "lost, doubled or out of order");
    }
    answered
}

#[test]
fn a_thousand_connections_live_through_every_swap() {
    many_descriptors();
    let mut house = House::new("counts.wasm", "");
    let files = [
        house.place.file("second.wasm", renamed(program("counts"), "second")),
        house.place.root().join("counts.wasm"),
    ];
    let mut witness = house.peer("other");

    let stop = Arc::new(AtomicBool::new(false));
    let (path, stopping) = (house.socket("counts"), Arc::clone(&stop));
    let peers = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let peers: Vec<_> = (0..CONNECTIONS)
                .map(|_| tokio::spawn(ask_on(path.clone(), Arc::clone(&stopping))))
                .collect();
            let mut answered = Vec::new();
            for peer in peers {
                answered.push(peer.await.expect("no peer failed"));
            }
            answered
        })
    });
    house.until("counts", |row| row["connections"] == CONNECTIONS);
    let mut moved = 0;
    let swaps = swaps();
    for round in 0..swaps {
        let answer = house.swap("counts", &files[round % 2]).expect("it is swapped");
        let row = &answer["doors"][0];
        assert_eq!((&row["stayed"], &row["lost"]), (&json!(0), &json!(0)), "{row}");
        moved += row["moved"].as_u64().expect("a number");
        if round % 5 == 0 {
            says(&mut witness, "w", &format!("{} w", round / 5 + 1));
        }
    }
    stop.store(true, Ordering::Relaxed);
    let answered = peers.join().expect("every answer was the next one");
    assert_eq!(answered.len(), CONNECTIONS);
    assert!(answered.iter().all(|count| *count > 0), "everybody was served");
    assert!(moved > (CONNECTIONS * swaps / 2) as u64, "{moved} moves are too few to show anything");
    let row = house.control.door("counts");
    assert_eq!(
        (&row["traps"], &row["faults"], &row["rollbacks"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let other = house.control.door("other");
    assert_eq!((&other["connections"], &other["swaps"]), (&json!(1), &json!(0)), "no disconnect");
}

/// What a peer of the SDK door saw of its session.
struct Seen {
    session: String,
    /// Prompts that were put.
    prompts: u64,
    /// The number of the first event that this wire shows.
    first: usize,
    /// Type of each event from there on.
    events: Vec<String>,
}

/// A peer of the SDK door.
struct Peer {
    session: String,
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    seen: Seen,
    /// Requests without an answer, by their numbers: those that the codec answers itself, and prompts.
    probes: BTreeSet<u64>,
    receipts: BTreeSet<u64>,
    asked: u64,
    /// Turns that have ended.
    turns: u64,
}

impl Peer {
    async fn new(path: &Path, cwd: &str, session: String) -> Peer {
        let stream = UnixStream::connect(path).await.expect("the door is open");
        let (reader, writer) = stream.into_split();
        let seen = Seen { session: session.clone(), prompts: 0, first: 0, events: Vec::new() };
        let mut peer = Peer {
            session,
            lines: BufReader::new(reader).lines(),
            writer,
            seen,
            probes: BTreeSet::new(),
            receipts: BTreeSet::new(),
            asked: 0,
            turns: 0,
        };
        peer.say(json!("init"), "initialize", route(cwd)).await;
        let answer = peer.frame().await;
        assert_eq!(answer["id"], "init", "{answer}");
        peer
    }

    async fn say(&mut self, id: Value, method: &str, params: Value) {
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.writer.write_all(format!("{frame}\n").as_bytes()).await.expect("it is taken");
    }

    async fn frame(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("readable").expect("the connection goes on");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Asks something that the codec knows the answer to.
    async fn probe(&mut self) {
        self.asked += 1;
        self.probes.insert(self.asked);
        self.say(json!(self.asked), "no/such/method", json!({})).await;
    }

    /// Puts the next prompt, whose text is its number.
    async fn prompt(&mut self) {
        self.asked += 1;
        self.seen.prompts += 1;
        self.receipts.insert(self.asked);
        let text = format!("p{}", self.seen.prompts);
        self.say(json!(self.asked), "session/prompt", prompt(&self.session, &text)).await;
    }

    /// Takes the next frame and judges it.
    async fn hear(&mut self) {
        let frame = self.frame().await;
        if let Some(id) = frame["id"].as_u64() {
            // Each of the two kinds is answered in its order.
            let waiting = match frame.get("error") {
                Some(error) => {
                    assert_eq!(error["code"], -32603, "{frame}");
                    &mut self.probes
                }
                None => &mut self.receipts,
            };
            assert_eq!(waiting.pop_first(), Some(id), "lost, doubled or out of order: {frame}");
            return;
        }
        assert_eq!(frame["params"]["sessionId"], self.session, "somebody else's: {frame}");
        if frame["method"] == "session.event" {
            let event = &frame["params"]["event"];
            let seq = event["seq"].as_u64().expect("a number") as usize;
            if self.seen.events.is_empty() {
                self.seen.first = seq;
            }
            let next = self.seen.first + self.seen.events.len();
            assert_eq!(seq, next, "lost, doubled or out of order");
            let kind = event["type"].as_str().expect("a type");
            self.seen.events.push(kind.to_owned());
            self.turns += u64::from(kind == "turn/end");
        }
    }

    /// Talks until it is told to stop, and then until everything is answered.
    async fn run(mut self, stop: Arc<AtomicBool>) -> Peer {
        loop {
            let stopping = stop.load(Ordering::Relaxed);
            // A turn is under way, and something is asked, whenever the connection moves.
            if !stopping && self.turns == self.seen.prompts {
                self.prompt().await;
            }
            if !stopping && self.probes.len() < 2 {
                self.probe().await;
            }
            let answered = self.probes.is_empty() && self.receipts.is_empty();
            if answered && self.turns == self.seen.prompts {
                return self;
            }
            self.hear().await;
        }
    }
}

/// Serves many peers on a thread of its own until `stop`.
fn peers(
    path: PathBuf,
    cwd: String,
    count: usize,
    stop: Arc<AtomicBool>,
) -> thread::JoinHandle<Vec<Peer>> {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut peers = Vec::new();
            for number in 0..count {
                peers.push(Peer::new(&path, &cwd, format!("s{number}")).await);
            }
            let running: Vec<_> =
                peers.into_iter().map(|peer| tokio::spawn(peer.run(Arc::clone(&stop)))).collect();
            let mut done = Vec::new();
            for peer in running {
                done.push(peer.await.expect("no peer failed"));
            }
            done
        })
    })
}

/// The events of a session as the host has stored them, and the prompts among them.
fn stored(door: &mut Frames<Socket>, session: &str) -> (Vec<String>, Vec<String>) {
    let (mut kinds, mut prompts) = (Vec::new(), Vec::new());
    loop {
        let asked = door.ask("session/read", session, json!({"from": kinds.len(), "limit": 1000}));
        let page = loop {
            let frame = door.next();
            if frame["id"] == *asked {
                break frame;
            }
        };
        // Nothing of it is looked for again.
        door.seen.clear();
        door.lines.clear();
        let events = page["body"]["events"].as_array().expect("a list").clone();
        if events.is_empty() {
            return (kinds, prompts);
        }
        for event in events {
            assert_eq!(event["seq"], kinds.len(), "{session}");
            kinds.push(event["type"].as_str().expect("a type").to_owned());
            let message = &event["data"];
            if event["type"] == "user/message" && message["source"]["kind"] == "user" {
                prompts.push(message["content"][0]["text"].as_str().expect("text").to_owned());
            }
        }
    }
}

/// 1,000 connections and 200 swaps where `RUN_SLOW_TESTS` is set: turns of a thousand agents take a machine of two
/// processors a while without optimisation.
#[test]
fn peers_of_the_sdk_door_notice_nothing_of_swaps_back_and_forth() {
    many_descriptors();
    let (count, swaps) = if is_slow() { (CONNECTIONS, 200) } else { (100, 20) };
    let mut text_of =
        manifest("counts.wasm", "", "").replace("connections-max = 64", "connections-max = 1100");
    text_of.push_str(
        "[door.frames]\ncomponent = \"frames\"\ncarrier = \"unix\"\nlisten = \"frames.sock\"\n\
         [model]\nprovider = \"scripted\"\n",
    );
    let mut house = House::under(&text_of);
    let sdk = fs::read(built("components/sdk.wasm")).expect("a component");
    let files =
        [house.place.file("sdk-2.wasm", renamed(sdk, "2")), house.place.root().join("sdk.wasm")];

    // Two doors that nobody swaps, under traffic all the while.
    let stop = Arc::new(AtomicBool::new(false));
    let others = ["counts", "other"].map(|door| {
        let (path, stop) = (house.socket(door), Arc::clone(&stop));
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(ask_on(path, stop))
        })
    });
    let cwd = text(&house.place.cwd).to_owned();
    let peers = peers(house.socket("sdk"), cwd, count, Arc::clone(&stop));
    house.until("sdk", |row| row["connections"] == count);

    let mut moved = 0;
    for round in 0..swaps {
        let answer = house.swap("sdk", &files[round % 2]).expect("it is swapped");
        let row = &answer["doors"][0];
        assert_eq!((&row["stayed"], &row["lost"]), (&json!(0), &json!(0)), "{row}");
        moved += row["moved"].as_u64().expect("a number");
    }
    stop.store(true, Ordering::Relaxed);
    let peers = peers.join().expect("every frame was the next one");
    let answered = others.map(|other| other.join().expect("nobody was disconnected"));
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
    assert!(moved > (count * swaps / 2) as u64, "{moved} moves are too few to show anything");
    assert!(
        peers.iter().map(|peer| peer.seen.prompts).sum::<u64>() > count as u64,
        "they went on talking"
    );

    // The other end: what the host holds is what was said, once each and in order.
    let mut door = Frames::new(Socket::connect(&house.socket("frames")));
    // The sessions are there for as long as their peers.
    for Peer { seen: Seen { session, prompts, first, events }, .. } in &peers {
        let (kinds, texts) = stored(&mut door, session);
        assert_eq!(texts, (1..=*prompts).map(|number| format!("p{number}")).collect::<Vec<_>>());
        assert_eq!(kinds[*first..first + events.len()], *events, "{session}");
    }
    // The operator was silent for longer than operators may be.
    house.control = Control::connect(&house.place.root().join("control.sock"));
    for (door, swapped) in [("sdk", swaps), ("counts", 0), ("other", 0)] {
        let row = house.control.door(door);
        assert_eq!(row["swaps"], swapped, "{row}");
        assert_eq!(
            (&row["traps"], &row["faults"], &row["rollbacks"]),
            (&json!(0), &json!(0), &json!(0))
        );
    }
    assert_eq!(house.control.door("counts")["opened"], 1, "no disconnect");
}
