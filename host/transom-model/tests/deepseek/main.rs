//! `deepseek-official` against a server on the loopback: what is sent, what comes of every reply
//! (L-86 to L-94), and what a peer cannot do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../../../tests/support/model_server.rs"]
mod model_server;

mod answers;
mod cuts;
mod endings;
mod failures;
mod hostile;
mod requests;
mod stops;
mod wire;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    chunk::Chunk,
    message::{Message, Role, Source},
    ports::{ModelRequest, Models, Route, Stop, ToolSpec},
};
use transom_model::{
    DeepSeek, Providers,
    deepseek::{Credentials, Endpoint, ID, Key, Settings},
};

use crate::model_server::{ModelServer, Piece, Reply, delta, event, finish};

const KEY: &str = "sk-0123456789abcdef";

/// Nothing here takes this long; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Bench {
    server: ModelServer,
    providers: Providers,
    /// Last, so that attempts end before their runtime does.
    _runtime: Runtime,
}

struct Attempt {
    stop: Box<dyn Stop>,
    chunks: mpsc::Receiver<Chunk>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Settings::default())
    }

    fn with(settings: Settings) -> Bench {
        let server = ModelServer::start();
        let base = server.base_url();
        Bench::over(server, settings, move || endpoint(&base, KEY))
    }

    fn over(
        server: ModelServer,
        settings: Settings,
        credentials: impl Credentials + 'static,
    ) -> Bench {
        let (providers, runtime) = provide(settings, credentials);
        Bench { server, providers, _runtime: runtime }
    }

    fn request(&self, prompt: &str) -> ModelRequest {
        request(&self.providers, prompt)
    }

    fn begin(&self, request: ModelRequest) -> Attempt {
        begin(&self.providers, request)
    }

    /// The chunks of a whole attempt, as JSON.
    fn ask(&self, prompt: &str) -> Vec<Value> {
        self.begin(self.request(prompt)).all()
    }

    /// The failure of an attempt that fails.
    fn failure(&self, prompt: &str) -> Value {
        let last = self.ask(prompt).pop().unwrap();
        assert_eq!(last["reason"]["kind"], "error", "{last}");
        last["reason"]["failure"].clone()
    }

    /// The failure that a reply leads to.
    fn failure_of(&self, reply: Reply) -> Value {
        self.server.on("OWN", reply);
        self.failure("PROMPT: OWN")
    }
}

/// The provider alone in its table, and what it runs on.
fn provide(settings: Settings, credentials: impl Credentials + 'static) -> (Providers, Runtime) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let provider = DeepSeek::new(credentials, settings);
    (Providers::new(runtime.handle().clone()).with(ID, provider), runtime)
}

fn request(providers: &Providers, prompt: &str) -> ModelRequest {
    let route = Route {
        provider: Some(ID.into()),
        model: Some("deepseek-v4-flash".into()),
        ..Route::default()
    };
    ModelRequest {
        session: SessionId::from("main"),
        served: providers.serve(&route).unwrap(),
        system: None,
        messages: vec![user(vec![Block::text(prompt)])],
        tools: Arc::from([]),
    }
}

fn begin(providers: &Providers, request: ModelRequest) -> Attempt {
    let (sender, chunks) = mpsc::sync_channel(4096);
    let stop = providers.call(request, Box::new(move |chunk| drop(sender.send(chunk))));
    Attempt { stop, chunks }
}

impl Attempt {
    fn next(&self) -> Value {
        serde_json::to_value(self.chunks.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// Everything up to the end; and after the end there is nothing.
    fn all(self) -> Vec<Value> {
        let mut chunks = Vec::new();
        loop {
            let chunk = self.next();
            let is_last = chunk["type"] == "finish";
            chunks.push(chunk);
            if is_last {
                assert_eq!(
                    self.chunks.recv_timeout(PATIENCE),
                    Err(mpsc::RecvTimeoutError::Disconnected)
                );
                return chunks;
            }
        }
    }
}

fn endpoint(base: &str, key: &str) -> Endpoint {
    Endpoint { base_url: Some(base.to_owned()), key: Some(Key::new(key)) }
}

fn message(role: Role, source: Source, content: Vec<Block>) -> Arc<Message> {
    Arc::new(Message { id: "m".into(), role, content, source })
}

fn user(content: Vec<Block>) -> Arc<Message> {
    message(Role::User, Source::user(), content)
}

fn start(index: u32, block_type: &str) -> Value {
    json!({"type": "block-start", "index": index, "blockType": block_type})
}

fn text(index: u32, text: &str) -> Value {
    json!({"type": "text-delta", "index": index, "text": text})
}

fn call(index: u32, id: &str, name: &str, fragment: &str) -> Value {
    json!({"type": "tool-call-delta", "index": index, "id": id, "name": name, "argumentsDelta": fragment})
}

fn end(index: u32, block: Value) -> Value {
    json!({"type": "block-end", "index": index, "block": block})
}

fn end_text(index: u32, text: &str) -> Value {
    end(index, json!({"type": "text", "text": text}))
}

fn end_call(index: u32, id: &str, name: &str, arguments: &str) -> Value {
    end(index, json!({"type": "tool-call", "id": id, "name": name, "arguments": arguments}))
}

fn used() -> Value {
    json!({"type": "usage", "usage": {"inputTokens": 11, "outputTokens": 5}})
}

fn finished(kind: &str) -> Value {
    json!({"type": "finish", "reason": {"kind": kind}})
}
