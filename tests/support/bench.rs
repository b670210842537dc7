//! One running program with a model behind it and a client in front: what tests of the real binary start from.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    client::Client,
    model_server::{ModelServer, Piece, Reply, delta, event},
    place::{Place, text},
    process::{Launch, Process, workspace},
    vector::parse,
};

/// A program under test and its surroundings.
pub struct Bench {
    pub client: Client<Process>,
    pub model: ModelServer,
    pub place: Place,
}

/// A configuration of launch form A.
pub fn configuration(name: &str) -> PathBuf {
    workspace().join("tests/vectors/sdk/launch").join(name)
}

/// Launch form A, as the published client of the baseline does it (S-178).
pub fn form_a(place: &Place, model: &ModelServer) -> Launch {
    Launch::default()
        .directory(&place.cwd)
        .env("HOME", place.root())
        .env("DSH_CORDIS_CONFIG", configuration("shell.yml"))
        .env("DSH_SESSION_ROOT", place.sessions())
        .env("DSH_CWD", &place.cwd)
        .env("DEEPSEEK_BASE_URL", model.base_url())
        .env("DEEPSEEK_API_KEY", "sk-mock")
}

/// The store that form A leaves behind.
pub fn store(place: &Place) -> PathBuf {
    place.sessions()
}

impl Bench {
    /// A program whose client has not shaken hands.
    pub fn fresh() -> Bench {
        Bench::launched(|launch| launch)
    }

    /// A program whose client has shaken hands.
    pub fn ready() -> Bench {
        let mut bench = Bench::fresh();
        bench.shake_hands();
        bench
    }

    /// A program started by form A with changes.
    pub fn launched(change: impl FnOnce(Launch) -> Launch) -> Bench {
        let (place, model) = (Place::new(), ModelServer::start());
        model.on("SLOW", slow());
        let client = Client::new(change(form_a(&place, &model)).start());
        Bench { client, model, place }
    }

    /// Another process on the same places, after the end of this one.
    pub fn restarted(self) -> Bench {
        let Bench { client, model, place } = self;
        drop(client);
        let client = Client::new(form_a(&place, &model).start());
        Bench { client, model, place }
    }

    pub fn shake_hands(&mut self) {
        let answer = self.client.initialize(text(&self.place.cwd));
        assert!(answer.get("result").is_some(), "{answer}");
    }

    /// A turn that has begun to stream and will not end by itself.
    pub fn begin_slow_turn(&mut self, session: &str) {
        self.client.prompt("slow", session, "PROMPT: SLOW");
        let is_last = |frame: &Value| {
            frame.pointer("/params/event/data/chunk/text").is_some_and(|text| text == "tick2 ")
        };
        self.client.until(is_last);
    }

    /// The stored log of a session as `transom export` prints it: header, then events. The program must have ended.
    pub fn exported(&self, session: &str) -> Vec<String> {
        export(&self.place, session)
    }

    /// The events of that log.
    pub fn stored(&self, session: &str) -> Vec<Value> {
        self.exported(session)
            .iter()
            .skip(1)
            .map(|line| parse(line).expect("events are JSON"))
            .collect()
    }
}

/// The log of a session in the store of form A.
pub fn export(place: &Place, session: &str) -> Vec<String> {
    let finished = Launch::new(["export", session, "--store", text(&store(place))])
        .env("HOME", place.root())
        .run("");
    assert_eq!(finished.code, 0, "{finished:?}");
    finished.stdout.lines().map(str::to_owned).collect()
}

/// Three ticks at once, and then nothing until the client goes.
pub fn slow() -> Reply {
    let mut pieces: Vec<_> = (0..3)
        .map(|n| event(&delta(serde_json::json!({"content": format!("tick{n} ")})).to_string()))
        .collect();
    pieces.push(Piece::Silence);
    Reply::pieces(pieces)
}
