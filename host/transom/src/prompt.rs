//! `transom prompt`: the smallest client. It speaks frames, one JSON object a line, with the `frames` door
//! of a running host, or with a private host that it starts for this one prompt.

mod asks;
mod client;
mod plain;
mod show;

pub(crate) use self::plain::one_line;

use std::path::Path;

use anyhow::{Context as _, bail};
use tokio::{io::duplex, net::UnixStream, sync::watch};
use transom_config::manifest::{Carrier, Door, Manifest};
use transom_io::{PeerFacts, serve};

use self::{
    asks::{Asks, Step},
    client::Client,
    show::Show,
};
use crate::{
    chosen,
    cli::{self, Held},
    deployment::{self, Extras},
    ending,
    environment::Environment,
};

/// Bytes that may be on their way between the client and its private host.
const PIPE_BYTES: usize = 64 * 1024;

/// What DeepSeek's own clients ask for.
const DEEPSEEK_MODEL: &str = "deepseek-v4-flash";

pub(crate) fn run(command: &cli::Prompt, environment: &Environment) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(ask(command, environment));
    runtime.shutdown_background();
    status
}

async fn ask(command: &cli::Prompt, environment: &Environment) -> anyhow::Result<u8> {
    let deployment =
        chosen::deployment(&command.which, &Held::default(), &command.host, environment)?;
    let usual = frames(&deployment.manifest).find_map(|(_, door)| match &door.carrier {
        Carrier::Unix { listen } => Some(environment.absolute(listen)),
        Carrier::Stdio => None,
    });
    let wants_private = command.host.store.is_some() || command.host.model_script.is_some();
    match (&command.connect, usual) {
        (Some(socket), _) => {
            let stream = connect(socket).await?;
            converse(command, environment, Client::new(stream)).await
        }
        (None, Some(usual)) if !wants_private => match UnixStream::connect(&usual).await {
            Ok(stream) => converse(command, environment, Client::new(stream)).await,
            Err(_) => with_private_host(command, environment, deployment.manifest).await,
        },
        (None, _) => with_private_host(command, environment, deployment.manifest).await,
    }
}

async fn connect(socket: &Path) -> anyhow::Result<UnixStream> {
    UnixStream::connect(socket).await.with_context(|| {
        format!("no host answers at {}; is `transom run` running?", socket.display())
    })
}

/// Doors at which the host's own language is spoken.
fn frames(manifest: &Manifest) -> impl Iterator<Item = (&String, &Door)> {
    let native = |name: &str| name == "frames" && !manifest.components.contains_key(name);
    manifest.doors.iter().filter(move |(_, door)| native(&door.component))
}

async fn with_private_host(
    command: &cli::Prompt,
    environment: &Environment,
    mut manifest: Manifest,
) -> anyhow::Result<u8> {
    // One door is enough, that of the manifest where it has one: its policy and limits hold.
    let own = frames(&manifest).next().map(|(name, door)| (name.clone(), door.clone()));
    let (name, door) =
        own.unwrap_or_else(|| ("frames".to_owned(), deployment::stdio_door("frames")));
    manifest.components.remove(&door.component);
    manifest.doors = [(name, door)].into();
    let running = deployment::start(&manifest, &Extras::default(), environment)?;
    let Some((door, _)) = running.doors.first() else { bail!("there is no frames door") };
    let (ours, theirs) = duplex(PIPE_BYTES);
    let (reader, writer) = tokio::io::split(theirs);
    let (stop, stopping) = watch::channel(false);
    let peer = PeerFacts { carrier: "stdio", peer: "this process".to_owned(), owns_process: false };

    let served = serve(&running.host, door, &peer, reader, writer, stopping);
    let asked = async {
        let status = tokio::select! {
            status = converse(command, environment, Client::new(ours)) => status,
            _ = tokio::signal::ctrl_c() => Ok(ending::INTERRUPTED),
        };
        // The client's end is gone, and the connection ends with it.
        drop(stop);
        status
    };
    let (status, _) = tokio::join!(asked, served);
    let failures = ending::bring_to_an_end(&running).await;
    if !failures.is_empty() {
        tracing::error!(?failures, "the private host did not end in order");
    }
    status
}

async fn converse<S>(
    command: &cli::Prompt,
    environment: &Environment,
    mut client: Client<S>,
) -> anyhow::Result<u8>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let text = command.text.join(" ");
    let has_key = environment.given("DEEPSEEK_API_KEY").is_some();
    let provider = match &command.provider {
        Some(provider) => provider.as_str(),
        None if has_key => "deepseek-official",
        None => "scripted",
    };
    let model = match (&command.model, provider) {
        (Some(model), _) => model.as_str(),
        (None, "deepseek-official") => DEEPSEEK_MODEL,
        (None, _) => "scripted",
    };
    let route = serde_json::json!({ "provider": provider, "model": model });
    if provider == "deepseek-official" && !has_key && command.connect.is_none() {
        bail!("no key: set DEEPSEEK_API_KEY, or use `--provider scripted`, which needs none");
    }
    client.request("models/check", None, &route).await?;

    let mut open = serde_json::json!({
        "want": "any",
        "cwd": environment.directory.display().to_string(),
        "route": route,
        "owner": "connection",
    });
    if command.session.is_none() {
        open["mint"] = "uuid".into();
    }
    let opened = client.request("session/open", command.session.as_deref(), &open).await?;
    let session = opened.session.context("the host opened a session without a name")?;
    // Sessions that work for this one may ask too, where the operator lets them (P-24).
    for (scope, topics) in [("session", &["events", "status", "errors"][..]), ("tree", &["asks"])] {
        let subscribe = serde_json::json!({ "scope": scope, "topics": topics });
        client.request("events/subscribe", Some(&session), &subscribe).await?;
    }
    let content = serde_json::json!({ "content": [{ "type": "text", "text": text }] });
    client.send("session/prompt", Some(&session), &content).await?;

    let mut show = Show::new(command.json, environment.wants_colour(), provider, &session);
    let mut asks = Asks::new(command.asks, command.json);
    while !show.is_over() {
        let step = tokio::select! {
            frame = client.receive() => {
                let frame = frame?;
                show.frame(&frame)?;
                match frame.name.as_str() {
                    "ask/opened" | "ask/closed" => asks.frame(frame),
                    _ => Step::Nothing,
                }
            }
            line = asks.line(), if asks.is_waiting() => asks.answered(line),
        };
        match step {
            Step::Show(lines) => show.ask(&lines),
            Step::Send(words) => {
                for word in words {
                    client.send(word.frame, Some(&session), &word.body).await?;
                }
            }
            Step::Nothing => {}
        }
    }
    show.end()
}
