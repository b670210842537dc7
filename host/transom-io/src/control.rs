//! The control socket: line-framed JSON-RPC 2.0 for the operator of a running host. What is asked is read and bounded here;
//! doing it is the program's, through [`Operator`].

pub mod status;

use std::{fmt, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixStream, unix::OwnedReadHalf},
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tracing::{info, warn};
use transom_framing::{Bounds, Cut, Lines};
use transom_process::descends_from_here;

use crate::{connection::told_to_stop, unix::Socket};

/// Bytes of a request. The longest holds a path and a name.
pub const REQUEST_BYTES_MAX: u64 = 64 * 1024;

/// How deep a request may nest: it is an object with an object in it.
const NESTING_MAX: u64 = 16;

/// Operators at a time: people, their scripts and what watches over the host.
const OPERATORS_MAX: usize = 16;

/// How long an operator may say nothing, or take nothing.
const SILENCE_MAX: Duration = Duration::from_secs(60);

const READ_BYTES: usize = 4096;

/// What an operator may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// How every component at every door is.
    Status,
    /// The connections of now, of one door or of all.
    Connections {
        /// The door's name.
        door: Option<String>,
    },
    /// Make another file the active version of a component.
    Swap {
        /// The component's name.
        component: String,
        /// An absolute path.
        source: PathBuf,
    },
    /// Make the version before active again.
    Rollback {
        /// The component's name.
        component: String,
    },
    /// Ask every connection of a door to end.
    Drain {
        /// The door's name.
        door: String,
    },
    /// Read the configuration again.
    Reload,
    /// Choose what is logged from now on.
    Log {
        /// For example `info` or `transom_io=debug`.
        level: String,
    },
    /// Show what a session may do, or switch it to another preset.
    Permissions {
        /// The session's id.
        session: String,
        /// The preset's name.
        set: Option<String>,
    },
    /// End a background job.
    KillJob {
        /// The session's id.
        session: String,
        /// The job's id.
        job: String,
    },
}

/// Why nothing came of a request. The text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Does what is asked for at the control socket.
pub trait Operator: Send + Sync + 'static {
    /// Does it. Requests of several peers may overlap.
    fn perform(&self, request: Request) -> impl Future<Output = Result<Value, Refused>> + Send;
}

/// Serves operators until `stop` turns true.
pub async fn serve<O: Operator>(socket: Socket, operator: Arc<O>, stop: watch::Receiver<bool>) {
    let mut operators = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        tokio::select! {
            () = told_to_stop(&mut stopping) => break,
            accepted = socket.accept() => match accepted {
                Ok(stream) if operators.len() >= OPERATORS_MAX => {
                    warn!(limit = OPERATORS_MAX, "operator refused: too many at a time");
                    refuse(stream);
                }
                Ok(stream) => {
                    let operator = Arc::clone(&operator);
                    operators.spawn(async move { one(stream, operator.as_ref()).await });
                }
                Err(error) => {
                    warn!(%error, "accepting an operator failed");
                    Socket::pause().await;
                }
            },
            Some(_) = operators.join_next(), if !operators.is_empty() => {}
        }
    }
    // An answer that is under way is not worth a longer teardown.
    operators.shutdown().await;
}

/// Says why, and hangs up. What does not fit into a new socket is not worth waiting for.
fn refuse(stream: UnixStream) {
    let why = format!("{OPERATORS_MAX} operators are connected already; try again");
    let line = format!("{}\n", error(Value::Null, REFUSED, &why));
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(line.as_bytes());
    }
}

async fn one<O: Operator>(stream: UnixStream, operator: &O) {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let child = match pid.and_then(|pid| u32::try_from(pid).ok()) {
        Some(pid) => spawn_blocking(move || descends_from_here(pid)).await.unwrap_or(true),
        None => false,
    };
    let (mut reader, mut writer) = stream.into_split();
    let mut lines =
        Lines::new(Bounds { unit_bytes_max: REQUEST_BYTES_MAX, nesting_max: NESTING_MAX });
    let mut cuts = Vec::new();
    while let Some(()) = read(&mut reader, &mut lines, &mut cuts).await {
        for cut in cuts.drain(..) {
            let answer = match cut {
                // P-43: no wall against a command of the same user, but against accident.
                _ if child => {
                    Some(error(Value::Null, REFUSED, "a tool process cannot control the host"))
                }
                Cut::Line(line) => answer(operator, &line).await,
                Cut::Unfinished(_) => None,
                Cut::Skipped { .. } => {
                    Some(error(Value::Null, INVALID_REQUEST, "the request is too long or too deep"))
                }
            };
            let Some(answer) = answer else { continue };
            let line = format!("{answer}\n");
            let written = timeout(SILENCE_MAX, writer.write_all(line.as_bytes())).await;
            if child || !matches!(written, Ok(Ok(()))) {
                return;
            }
        }
    }
}

async fn read(reader: &mut OwnedReadHalf, lines: &mut Lines, cuts: &mut Vec<Cut>) -> Option<()> {
    let mut bytes = [0; READ_BYTES];
    let count = timeout(SILENCE_MAX, reader.read(&mut bytes)).await.ok()?.ok()?;
    let read = bytes.get(..count).filter(|read| !read.is_empty())?;
    lines.push(cuts, read);
    Some(())
}

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
/// The operator's own refusals.
const REFUSED: i64 = -32000;

fn error(id: Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// The answer to a line; none to a notification.
async fn answer<O: Operator>(operator: &O, line: &[u8]) -> Option<Value> {
    let asked: Value = match serde_json::from_slice(line) {
        Ok(asked) => asked,
        Err(wrong) => return Some(error(Value::Null, PARSE_ERROR, &wrong.to_string())),
    };
    let Value::Object(asked) = asked else {
        return Some(error(Value::Null, INVALID_REQUEST, "a request is a JSON object"));
    };
    let id = match asked.get("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => id.clone(),
        Some(_) => return Some(error(Value::Null, INVALID_REQUEST, "`id` is text or a number")),
        // Nobody could be told what came of it.
        None => return None,
    };
    let Some(method) = asked.get("method").and_then(Value::as_str) else {
        return Some(error(id, INVALID_REQUEST, "`method` is missing"));
    };
    let none = Map::new();
    let params = match asked.get("params") {
        None => &none,
        Some(Value::Object(params)) => params,
        Some(_) => return Some(error(id, INVALID_PARAMS, "`params` is an object")),
    };
    let request = match request(method, params) {
        Ok(Some(request)) => request,
        Ok(None) => {
            let message = format!("unknown method `{method}`; there are {}", METHODS.join(", "));
            return Some(error(id, UNKNOWN_METHOD, &message));
        }
        Err(wrong) => return Some(error(id, INVALID_PARAMS, &wrong)),
    };
    match &request {
        Request::Status | Request::Connections { .. } | Request::Permissions { set: None, .. } => {}
        told => info!(request = ?told, "operator"),
    }
    Some(match operator.perform(request).await {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Refused(message)) => error(id, REFUSED, &message),
    })
}

const METHODS: [&str; 9] = [
    "connections",
    "drain",
    "jobs.kill",
    "log",
    "permissions",
    "reload",
    "rollback",
    "status",
    "swap",
];

fn request(method: &str, params: &Map<String, Value>) -> Result<Option<Request>, String> {
    let params = Params { method, params };
    Ok(Some(match method {
        "status" => params.only(&[]).map(|()| Request::Status)?,
        "connections" => {
            params.only(&["door"])?;
            Request::Connections { door: params.maybe("door")? }
        }
        "swap" => {
            params.only(&["component", "source"])?;
            let source = PathBuf::from(params.text("source")?);
            if !source.is_absolute() {
                return Err(format!("`source` is {source:?}; it must be an absolute path"));
            }
            Request::Swap { component: params.text("component")?, source }
        }
        "rollback" => {
            params.only(&["component"])?;
            Request::Rollback { component: params.text("component")? }
        }
        "drain" => {
            params.only(&["door"])?;
            Request::Drain { door: params.text("door")? }
        }
        "reload" => params.only(&[]).map(|()| Request::Reload)?,
        "log" => {
            params.only(&["level"])?;
            Request::Log { level: params.text("level")? }
        }
        "permissions" => {
            params.only(&["session", "set"])?;
            Request::Permissions { session: params.text("session")?, set: params.maybe("set")? }
        }
        "jobs.kill" => {
            params.only(&["session", "job"])?;
            Request::KillJob { session: params.text("session")?, job: params.text("job")? }
        }
        _ => return Ok(None),
    }))
}

struct Params<'a> {
    method: &'a str,
    params: &'a Map<String, Value>,
}

impl Params<'_> {
    fn only(&self, known: &[&str]) -> Result<(), String> {
        match self.params.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(format!("`{}` takes no `{key}`", self.method)),
            None => Ok(()),
        }
    }

    fn maybe(&self, key: &str) -> Result<Option<String>, String> {
        match self.params.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` is text that is not empty")),
        }
    }

    fn text(&self, key: &str) -> Result<String, String> {
        self.maybe(key)?.ok_or_else(|| format!("`{}` needs `{key}`", self.method))
    }
}

#[cfg(test)]
mod tests;
