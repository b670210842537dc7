//! Drives release 5.2.0 of the Rust client. Orders and reports are those of `../pipe.mjs`; what is asked is the test's.

use std::{
    collections::HashMap,
    env,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agent_client_protocol::{
    Agent, ByteStreams, Client, JsonRpcRequest, RequestCancellationHandle, UntypedMessage,
    v1::{
        ConnectionTo, Responder,
        schema::{
            AuthenticateRequest, CancelNotification, InitializeRequest, NewSessionRequest,
            PromptRequest, RequestPermissionRequest, RequestPermissionResponse,
            SessionNotification,
        },
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::Command,
};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// Longer than any agent takes to end that ends at all.
const PATIENCE: Duration = Duration::from_secs(10);

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Questions that the agent has put, by their number.
type Open = Arc<Mutex<HashMap<u64, Responder<RequestPermissionResponse>>>>;

/// Requests on their way, by their number.
type Flying = Arc<Mutex<HashMap<u64, RequestCancellationHandle>>>;

fn say(message: &Value) {
    println!("{message}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let told: Value = serde_json::from_str(&env::args().nth(1).ok_or("no settings")?)?;
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let mut command = Command::new(text("program"));
    for argument in told["args"].as_array().ok_or("no arguments")? {
        command.arg(argument.as_str().ok_or("an argument is a text")?);
    }
    command.current_dir(text("cwd")).env_clear().kill_on_drop(true);
    for (name, value) in told["env"].as_object().ok_or("no environment")? {
        command.env(name, value.as_str().ok_or("a variable is a text")?);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let input = child.stdin.take().ok_or("no standard input")?;
    let output = child.stdout.take().ok_or("no standard output")?;
    let mut errors = child.stderr.take().ok_or("no standard error")?;
    let errors = tokio::spawn(async move {
        let mut said = String::new();
        // What cannot be read was not said.
        let _ = errors.read_to_string(&mut said).await;
        said
    });

    let open = Open::default();
    let asked = Arc::new(AtomicU64::new(0));
    let questions = Arc::clone(&open);
    let pid = child.id();
    let transport = ByteStreams::new(input.compat_write(), output.compat());
    // The connection owns both streams, so its end is the agent's end of input.
    let connected = Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _cx| {
                say(&json!({"update": update}));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _cx| {
                let number = asked.fetch_add(1, Ordering::Relaxed) + 1;
                questions.lock().map_err(internal)?.insert(number, responder);
                say(&json!({"asked": number, "params": request}));
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(transport, async move |agent: ConnectionTo<Agent>| {
            say(&json!({"started": pid}));
            let flying = Flying::default();
            let mut orders = BufReader::new(tokio::io::stdin()).lines();
            while let Some(line) = orders.next_line().await.map_err(internal)? {
                let order: Value = serde_json::from_str(&line).map_err(internal)?;
                if order["close"] == true {
                    break;
                }
                obey(&agent, &open, &flying, order)?;
            }
            Ok(())
        })
        .await;
    if let Err(error) = connected {
        eprintln!("the connection failed: {error}");
    }

    let mut signals = Vec::new();
    let status = match tokio::time::timeout(PATIENCE, child.wait()).await {
        Ok(status) => status?,
        Err(_) => {
            signals.push("SIGKILL");
            child.kill().await?;
            child.wait().await?
        }
    };
    let signal =
        std::os::unix::process::ExitStatusExt::signal(&status).map(|it| format!("SIG{it}"));
    let ended = json!({"code": status.code(), "signal": signal, "signals": signals});
    say(&json!({"ended": ended, "stderr": errors.await?}));
    Ok(())
}

fn internal(error: impl std::fmt::Display) -> agent_client_protocol::Error {
    agent_client_protocol::Error::internal_error().data(error.to_string())
}

fn obey(
    agent: &ConnectionTo<Agent>,
    open: &Open,
    flying: &Flying,
    mut order: Value,
) -> Result<(), agent_client_protocol::Error> {
    let params = order["params"].take();
    if let Some(number) = order["ask"].as_u64() {
        let method = order["method"].as_str().unwrap_or_default();
        return match method {
            "initialize" => ask::<InitializeRequest>(agent, flying, number, params),
            "authenticate" => ask::<AuthenticateRequest>(agent, flying, number, params),
            "session/new" => ask::<NewSessionRequest>(agent, flying, number, params),
            "session/prompt" => ask::<PromptRequest>(agent, flying, number, params),
            other => {
                let message = UntypedMessage::new(other, params)?;
                send(agent, flying, number, message)
            }
        };
    }
    if order["tell"] == "session/cancel" {
        let cancel: CancelNotification = serde_json::from_value(params).map_err(internal)?;
        return agent.send_notification(cancel);
    }
    if let Some(number) = order["take_back"].as_u64() {
        let flying = flying.lock().map_err(internal)?;
        return flying.get(&number).map_or(Ok(()), RequestCancellationHandle::cancel);
    }
    if let Some(number) = order["decide"].as_u64() {
        let responder = open.lock().map_err(internal)?.remove(&number);
        let outcome = json!({"outcome": order["outcome"].take()});
        let response: RequestPermissionResponse =
            serde_json::from_value(outcome).map_err(internal)?;
        return responder.map_or(Ok(()), |responder| responder.respond(response));
    }
    Err(internal(format!("no such order: {order}")))
}

/// Reads the parameters as the client's own types and sends what they make of them.
fn ask<R>(
    agent: &ConnectionTo<Agent>,
    flying: &Flying,
    number: u64,
    params: Value,
) -> Result<(), agent_client_protocol::Error>
where
    R: JsonRpcRequest + serde::de::DeserializeOwned,
    R::Response: serde::Serialize + Send,
{
    send(agent, flying, number, serde_json::from_value::<R>(params).map_err(internal)?)
}

fn send<R>(
    agent: &ConnectionTo<Agent>,
    flying: &Flying,
    number: u64,
    request: R,
) -> Result<(), agent_client_protocol::Error>
where
    R: JsonRpcRequest,
    R::Response: serde::Serialize + Send,
{
    let sent = agent.send_request(request);
    flying.lock().map_err(internal)?.insert(number, sent.cancellation_handle());
    agent.spawn(async move {
        match sent.block_task().await {
            Ok(result) => say(&json!({"answered": number, "result": result})),
            Err(error) => say(&json!({"answered": number, "error": error})),
        }
        Ok(())
    })
}
