//! A local model server that speaks chat completions over server-sent events, well or badly, as the
//! prompt asks: `PROMPT: PLAIN` and the other words of `vectors/sdk/README.md`, or replies that a
//! test brings itself. What a client makes of them is the test's matter.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test support, compiled into several test binaries, each of which uses a part of it"
)]

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, oneshot},
    time::sleep,
};

/// How long a test waits for the server to notice something, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest request that the server reads.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A running server. Dropping it ends it, whatever is still being streamed.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
    replies: Mutex<HashMap<String, Reply>>,
    answers: Mutex<Option<Answers>>,
}

/// Replies to requests by what they hold.
type Answers = Box<dyn Fn(&Recorded) -> Reply + Send>;

#[derive(Default)]
struct Seen {
    requests: Vec<Recorded>,
    abandoned: usize,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, String)>,
    /// The body's bytes as text.
    pub text: String,
    /// The body as JSON, or null.
    pub body: Value,
}

impl Recorded {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the server answers.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub pieces: Vec<Piece>,
}

/// What happens on the connection, in order.
#[derive(Debug, Clone)]
pub enum Piece {
    /// One write of the body: one chunk of the transfer coding.
    Write(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// One text delta after the other, with pauses, until the client goes. `{n}` is the count.
    Ticks(String, Duration),
    /// The same bytes again and again, as fast as the client takes them, until it goes.
    Flood(Vec<u8>),
    /// Sends nothing until the client goes. As the first piece: not even a head.
    Silence,
    /// Goes on once it is notified, or ends with the client.
    Gate(Arc<Notify>),
    /// Breaks the connection off.
    Drop,
}

impl Reply {
    /// A stream of these events and then `[DONE]`.
    pub fn events(payloads: &[Value]) -> Reply {
        let mut reply =
            Reply::pieces(payloads.iter().map(|payload| event(&payload.to_string())).collect());
        reply.pieces.push(event("[DONE]"));
        reply
    }

    /// A successful event stream of these pieces.
    pub fn pieces(pieces: Vec<Piece>) -> Reply {
        Reply {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            pieces,
        }
    }

    /// A successful event stream with this body, in one write.
    pub fn raw(body: &str) -> Reply {
        Reply::pieces(vec![Piece::Write(body.as_bytes().to_vec())])
    }

    /// A refusal with a JSON body.
    pub fn refusal(status: u16, body: &Value) -> Reply {
        Reply {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            pieces: vec![Piece::Write(body.to_string().into_bytes())],
        }
    }

    /// The same reply with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// One event of the stream, in one write.
pub fn event(data: &str) -> Piece {
    Piece::Write(format!("data: {data}\n\n").into_bytes())
}

/// A payload with one choice.
pub fn delta(delta: Value) -> Value {
    json!({
        "id": "mock", "object": "chat.completion.chunk", "created": 0, "model": "mock",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
    })
}

/// The payload that ends a choice.
pub fn finish(reason: &str) -> Value {
    json!({
        "id": "mock", "object": "chat.completion.chunk", "created": 0, "model": "mock",
        "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
    })
}

/// The payload with the usage: 11 tokens in, 5 out.
pub fn usage() -> Value {
    json!({
        "id": "mock", "object": "chat.completion.chunk", "created": 0, "model": "mock",
        "choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
    })
}

impl ModelServer {
    /// Starts a server on a free port of the loopback.
    pub fn start() -> ModelServer {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a non-blocking listener");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            // Leaving the runtime drops every connection.
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, serving) => {}
                }
            });
        });
        ModelServer { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// To be used as `DEEPSEEK_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers prompts that name this word with this reply, instead of any built-in behaviour.
    pub fn on(&self, word: &str, reply: Reply) {
        self.shared.replies.lock().unwrap().insert(word.to_owned(), reply);
    }

    /// Answers every request like this, instead of looking for `PROMPT:`.
    pub fn answer(&self, answers: impl Fn(&Recorded) -> Reply + Send + 'static) {
        *self.shared.answers.lock().unwrap() = Some(Box::new(answers));
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.seen().requests.clone()
    }

    /// Waits until there are this many requests, and returns all.
    pub fn wait_requests(&self, count: usize) -> Vec<Recorded> {
        self.shared.wait(|seen| seen.requests.len() >= count).requests.clone()
    }

    /// How many replies were left by their client before they were complete.
    pub fn abandoned(&self) -> usize {
        self.shared.seen().abandoned
    }

    /// Waits until this many replies have been left.
    pub fn wait_abandoned(&self, count: usize) {
        drop(self.shared.wait(|seen| seen.abandoned >= count));
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended by itself; then nobody listens.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen());
        self.changed.notify_all();
    }

    fn wait(&self, reached: impl Fn(&Seen) -> bool) -> MutexGuard<'_, Seen> {
        let (seen, waited) =
            self.changed.wait_timeout_while(self.seen(), PATIENCE, |seen| !reached(seen)).unwrap();
        assert!(!waited.timed_out(), "the model server waited {PATIENCE:?} in vain");
        seen
    }

    fn reply(&self, request: &Recorded) -> Reply {
        if (request.method.as_str(), request.path.as_str()) != ("POST", "/chat/completions") {
            return Reply::refusal(404, &json!({"error": {"message": "mock has no such path"}}));
        }
        if let Some(answers) = &*self.answers.lock().unwrap() {
            return answers(request);
        }
        let Some(scene) = Scene::read(&request.body) else {
            return said(&["plain ", "answer"], "stop");
        };
        let replies = self.replies.lock().unwrap();
        match scene.words.iter().find_map(|word| replies.get(*word)) {
            Some(reply) if !scene.answered => reply.clone(),
            _ => builtin(&scene),
        }
    }
}

/// What the request asks for.
struct Scene<'a> {
    /// Words of the prompt behind `PROMPT:`.
    words: Vec<&'a str>,
    /// A tool has answered since.
    answered: bool,
}

impl<'a> Scene<'a> {
    /// Other user messages may follow the prompt, a context snapshot for one: the last with the mark
    /// counts.
    fn read(body: &'a Value) -> Option<Scene<'a>> {
        let mut scene = None;
        for message in body.get("messages")?.as_array()? {
            match message.get("role")?.as_str()? {
                "user" => {
                    let prompt = message.get("content").and_then(Value::as_str).unwrap_or_default();
                    if let Some((_, words)) = prompt.split_once("PROMPT:") {
                        let words =
                            words.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
                        scene = Some(Scene { words, answered: false });
                    }
                }
                "tool" => {
                    if let Some(scene) = &mut scene {
                        scene.answered = true;
                    }
                }
                _ => {}
            }
        }
        scene
    }
}

fn builtin(scene: &Scene) -> Reply {
    if scene.answered {
        return said(&["tool said: ", "tool-proof"], "stop");
    }
    for word in &scene.words {
        return match *word {
            "PLAIN" => said(&["plain ", "answer"], "stop"),
            "THINK" => Reply::events(&[
                delta(json!({"role": "assistant", "content": "", "reasoning_content": ""})),
                delta(json!({"reasoning_content": "let me "})),
                delta(json!({"reasoning_content": "think"})),
                delta(json!({"content": "answer"})),
                finish("stop"),
                usage(),
            ]),
            "UTF8" => split_characters(said(&["你好 ", "🦀\u{2028}end"], "stop")),
            "TOOL" => called(&[
                json!({"index": 0, "id": "call_mock_1", "type": "function", "function": {"name": "bash", "arguments": ""}}),
                json!({"index": 0, "function": {"arguments": "{\"command\": \"echo tool-proof\", \"d"}}),
                json!({"index": 0, "function": {"arguments": "escription\": \"Echo a proof line\"}"}}),
            ]),
            "NOSUCH" => called(&[json!({
                "index": 0, "id": "call_mock_x", "type": "function",
                "function": {"name": "no_such_tool", "arguments": "{\"a\":1}"},
            })]),
            "SUBAGENT" => called(&[json!({
                "index": 0, "id": "call_mock_sub", "type": "function",
                "function": {
                    "name": "subagent",
                    "arguments": "{\"description\": \"Child task\", \"prompt\": \"PROMPT: child PLAIN\"}",
                },
            })]),
            "MAXTOK" => said(&["cut of"], "length"),
            "SLOW" => {
                Reply::pieces(vec![Piece::Ticks("tick{n} ".to_owned(), Duration::from_millis(100))])
            }
            "ERR500" => {
                Reply::refusal(500, &json!({"error": {"message": "mock upstream failure"}}))
            }
            "ERR400" => Reply::refusal(400, &json!({"error": {"message": "mock bad request"}})),
            "ERR401" => Reply::refusal(401, &json!({"error": {"message": "mock bad key"}})),
            _ => continue,
        };
    }
    said(&["plain ", "answer"], "stop")
}

fn said(deltas: &[&str], reason: &str) -> Reply {
    let mut payloads = vec![delta(json!({"role": "assistant", "content": ""}))];
    payloads.extend(deltas.iter().map(|text| delta(json!({"content": text}))));
    payloads.extend([finish(reason), usage()]);
    Reply::events(&payloads)
}

fn called(entries: &[Value]) -> Reply {
    let mut payloads = vec![delta(json!({"role": "assistant", "content": null}))];
    payloads.extend(entries.iter().map(|entry| delta(json!({"tool_calls": [entry]}))));
    payloads.extend([finish("tool_calls"), usage()]);
    Reply::events(&payloads)
}

/// The same bytes, with every write cut before each byte that continues a character.
fn split_characters(reply: Reply) -> Reply {
    let mut pieces = Vec::new();
    for piece in reply.pieces {
        let Piece::Write(bytes) = piece else {
            pieces.push(piece);
            continue;
        };
        let mut write = Vec::new();
        for byte in bytes {
            if (0x80..0xc0).contains(&byte) {
                pieces.push(Piece::Write(std::mem::take(&mut write)));
            }
            write.push(byte);
        }
        pieces.push(Piece::Write(write));
    }
    Reply { pieces, ..reply }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A client that goes away is not the server's failure.
            let _ = serve(stream, &shared).await;
        });
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    while let Some(request) = read(&mut stream, &mut unread).await? {
        let reply = shared.reply(&request);
        shared.change(|seen| seen.requests.push(request));
        match write(&mut stream, &reply).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                shared.change(|seen| seen.abandoned += 1);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The next request of a connection, or `None` where it ends.
async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> std::io::Result<Option<Recorded>> {
    let end = loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(unread).await? == 0 || unread.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
    };
    let rest = unread.split_off(end + 4);
    let head = String::from_utf8_lossy(unread).into_owned();
    *unread = rest;
    let mut lines = head.lines();
    let mut start = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| {
            value.parse::<usize>().expect("a client of this server says how long its body is")
        });
    while unread.len() < length {
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
    let rest = unread.split_off(length);
    let text = String::from_utf8_lossy(unread).into_owned();
    *unread = rest;
    Ok(Some(Recorded {
        method: start.next().unwrap_or_default(),
        path: start.next().unwrap_or_default(),
        headers,
        body: serde_json::from_str(&text).unwrap_or_default(),
        text,
    }))
}

/// Writes a reply; the answer tells whether the connection lives on.
async fn write(stream: &mut TcpStream, reply: &Reply) -> std::io::Result<bool> {
    if !matches!(reply.pieces.first(), Some(Piece::Silence)) {
        let mut head = format!("HTTP/1.1 {} Mock\r\n", reply.status);
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // These have no body by definition.
        if matches!(reply.status, 204 | 304) {
            head.push_str("\r\n");
            stream.write_all(head.as_bytes()).await?;
            return Ok(true);
        }
        head.push_str("transfer-encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
    }
    for piece in &reply.pieces {
        match piece {
            Piece::Write(bytes) => chunk(stream, bytes).await?,
            Piece::Wait(time) => sleep(*time).await,
            Piece::Ticks(text, pause) => {
                for count in 0_u64.. {
                    let payload =
                        delta(json!({"content": text.replace("{n}", &count.to_string())}));
                    chunk(stream, format!("data: {payload}\n\n").as_bytes()).await?;
                    left(stream, Some(*pause)).await?;
                }
            }
            Piece::Flood(bytes) => loop {
                chunk(stream, bytes).await?;
            },
            Piece::Silence => left(stream, None).await?,
            Piece::Gate(gate) => tokio::select! {
                () = gate.notified() => {}
                gone = left(stream, None) => gone?,
            },
            Piece::Drop => return Ok(false),
        }
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

/// Passes the time and fails as soon as the client has gone; without a time, waits for that.
async fn left(stream: &mut TcpStream, time: Option<Duration>) -> std::io::Result<()> {
    let mut byte = [0];
    let gone = async {
        match stream.read(&mut byte).await {
            Ok(0) => Err(std::io::ErrorKind::ConnectionReset.into()),
            Ok(_) => Err(std::io::Error::other("a client of this server waits for its answer")),
            Err(error) => Err(error),
        }
    };
    match time {
        Some(time) => tokio::time::timeout(time, gone).await.unwrap_or(Ok(())),
        None => gone.await,
    }
}

async fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut frame = format!("{:x}\r\n", bytes.len()).into_bytes();
    frame.extend_from_slice(bytes);
    frame.extend_from_slice(b"\r\n");
    stream.write_all(&frame).await
}
