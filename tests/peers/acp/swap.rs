//! The component of the door is exchanged under published clients, which notice nothing (design §7). They start a relay as
//! their agent, because a host that can be controlled has its doors on sockets.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::{
    model,
    peer::{Peer, Place, Published},
    refused, stopped,
};
use crate::{
    clients::{CACHE, PROGRAM, here},
    model_server::ModelServer,
};

/// A host with the door on a socket.
struct House {
    root: Place,
    host: Child,
    model: ModelServer,
    swaps: usize,
}

impl House {
    fn new() -> House {
        let (root, model) = (Place::new(), model::server());
        let component = fs::read(component()).expect("the component of the door");
        // The same with another digest: a custom section at the end means nothing.
        let second = [component.as_slice(), b"\0\x0c\x04noteanother"].concat();
        fs::write(root.path("first.wasm"), component).expect("a component");
        fs::write(root.path("second.wasm"), second).expect("a component");
        let manifest = format!(
            "[component.acp]\nsource = \"first.wasm\"\n\
             [door.acp]\ncomponent = \"acp\"\ncarrier = \"unix\"\nlisten = \"acp.sock\"\n\
             options = {{ model = \"deepseek-v4-flash\" }}\n\
             [model]\nprovider = \"deepseek-official\"\nbase-url = \"{}\"\n\
             [permissions]\npreset = \"workspace-write\"\n\
             [store]\npath = \"store.db\"\n[control]\nlisten = \"control.sock\"\n",
            model.base_url()
        );
        let file = root.path("transom.toml");
        fs::write(&file, manifest).expect("a manifest");
        let mut host = Command::new(&*PROGRAM)
            .args(["run", "--manifest"])
            .arg(file)
            .current_dir(&root.workspace)
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", root.path("home"))
            .env("XDG_CACHE_HOME", &*CACHE)
            .env("DEEPSEEK_API_KEY", "sk-mock")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the host starts");
        let mut said = BufReader::new(host.stdout.take().expect("a piped output")).lines();
        let is_ready =
            |line: std::io::Result<String>| line.is_ok_and(|line| line.starts_with("ready"));
        if !said.any(is_ready) {
            let mut errors = String::new();
            let mut pipe = host.stderr.take().expect("a piped error output");
            pipe.read_to_string(&mut errors).expect("readable");
            panic!("the host did not start: {errors}");
        }
        House { root, host, model, swaps: 0 }
    }

    fn client(&self, published: Published) -> Peer {
        let relay = here().join("acp/relay.py");
        let socket = self.root.path("acp.sock");
        let arguments = [relay.to_str().expect("a path"), socket.to_str().expect("a path")];
        let mut peer = Peer::start(published, Place::new(), Path::new("python3"), &arguments, &[]);
        peer.initialize();
        peer
    }

    /// Makes the other version the active one, as an operator does. All connections go along.
    fn swap(&mut self, connections: usize) {
        let versions = ["second.wasm", "first.wasm"];
        let output = Command::new(&*PROGRAM)
            .args(["swap", "--json", "--control"])
            .arg(self.root.path("control.sock"))
            .arg("acp")
            .arg(self.root.path(versions[self.swaps % 2]))
            .output()
            .expect("the operator's command");
        let errors = String::from_utf8_lossy(&output.stderr);
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("no answer ({error}): {errors}"));
        let row = &answer["doors"][0];
        assert_eq!(
            (&row["moved"], &row["stayed"], &row["lost"]),
            (&json!(connections), &json!(0), &json!(0)),
            "{answer}"
        );
        self.swaps += 1;
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // It may be gone, and a test that fails has said why.
        let _ = self.host.kill();
        let _ = self.host.wait();
    }
}

/// The door's component as it was built for the program.
fn component() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let component = workspace.join("target/components/acp.wasm");
    assert!(
        component.is_file(),
        "{} was not built; run `cargo xtask components`",
        component.display()
    );
    component
}

#[test]
fn a_swap_between_prompts_and_during_one_is_noticed_by_no_client() {
    let mut house = House::new();
    let mut peers = Published::ALL.map(|published| house.client(published));
    let all = peers.len();
    let sessions = peers.each_mut().map(Peer::session);
    let told = |peers: &mut [Peer; 4], texts: &str| {
        for (peer, session) in peers.iter_mut().zip(&sessions) {
            assert_eq!(peer.said(session), [texts]);
        }
    };
    let each = |peers: &mut [Peer; 4], mark: &str| -> Vec<u64> {
        peers.iter_mut().zip(&sessions).map(|(peer, session)| peer.prompt(session, mark)).collect()
    };
    let ended = |peers: &mut [Peer; 4], asked: Vec<u64>, reason: &str| {
        for (peer, number) in peers.iter_mut().zip(asked) {
            stopped(&peer.answer(number), reason);
        }
    };

    // Between prompts.
    for mark in ["RED", "BLUE"] {
        let asked = each(&mut peers, &format!("[[{mark}]]"));
        ended(&mut peers, asked, "end_turn");
        told(&mut peers, &format!("{mark} answered"));
        house.swap(all);
    }
    // The model is silent, or streams; the place stays taken.
    let mut requests = 2 * all;
    for mark in ["[[HANG]]", "[[STREAM]]"] {
        let asked = each(&mut peers, mark);
        requests += all;
        drop(house.model.wait_requests(requests));
        house.swap(all);
        for (peer, session) in peers.iter_mut().zip(&sessions) {
            let second = peer.turn(session, "[[PLAIN]]");
            let message = "Invalid params: a prompt is already in flight for this session";
            refused(&second, -32602, message);
            peer.cancel(session);
        }
        ended(&mut peers, asked, "cancelled");
    }
    // A question is open.
    let asked = each(&mut peers, "[[ESCALATE]]");
    let questions = peers.each_mut().map(|peer| peer.permission().0);
    house.swap(all);
    for (peer, number) in peers.iter_mut().zip(questions) {
        peer.decide(number, json!({"outcome": "selected", "optionId": "allow-once"}));
    }
    ended(&mut peers, asked, "end_turn");
    told(&mut peers, "tool said: escalated");
    // A tool is at work.
    let asked = each(&mut peers, "[[GATE]]");
    for peer in &peers {
        peer.file("begun");
    }
    house.swap(all);
    for peer in &peers {
        fs::write(peer.place.workspace.join("go"), "").expect("a file");
    }
    ended(&mut peers, asked, "end_turn");
    told(&mut peers, "tool said: through");

    thread::scope(|scope| {
        for peer in peers {
            scope.spawn(|| peer.close_well());
        }
    });
    let pid = i32::try_from(house.host.id()).expect("a process id");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    assert!(house.host.wait().expect("its end").success());
}
