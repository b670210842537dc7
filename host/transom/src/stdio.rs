//! `transom stdio <door>` and what the launch forms come to: one peer on standard input and output, and
//! the process ends with it (S-131 to S-140).

use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::sync::watch;
use transom_config::manifest::Manifest;
use transom_doors::Carrier;
use transom_io::{PeerFacts, serve, stdio};

use crate::{
    chosen, cli,
    deployment::{self, Extras, Running},
    ending,
    environment::Environment,
};

pub(crate) fn run(command: &cli::Stdio, environment: &Environment) -> anyhow::Result<u8> {
    let deployment = chosen::deployment(&command.which, &command.held, &command.host, environment)?;
    let mut manifest = deployment.manifest.clone();
    let door = match manifest.doors.remove(&command.door) {
        Some(door) => door,
        None if command.which.manifests.is_empty() && command.held.bundle.is_none() => {
            // Every built-in door can be had on standard input and output.
            let built_in = transom_doors::find(&command.door)?;
            if !built_in.carriers.contains(&Carrier::Stdio) {
                bail!(
                    "door `{}` is for agents that this host starts; describe one in [agent.<name>]",
                    built_in.name
                );
            }
            deployment::stdio_door(built_in.name)
        }
        None => {
            let known: Vec<_> = manifest.doors.keys().map(String::as_str).collect();
            bail!("unknown door `{}`; the manifest has {}", command.door, known.join(", "));
        }
    };
    manifest.doors.clear();
    manifest.doors.insert(command.door.clone(), door);
    let extras = Extras { pins: deployment.pins.clone(), ..Extras::default() };
    serve_one(&manifest, &extras, environment)
}

/// Serves the manifest's only door until its peer or a signal ends it. Gives the exit status.
pub(crate) fn serve_one(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
) -> anyhow::Result<u8> {
    // First of all: nothing that prints may reach the wire (S-136).
    let taken = stdio::take().context("cannot take standard input and output")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let running = deployment::start(manifest, extras, environment)?;
        let (reader, writer) =
            taken.open().context("cannot read standard input or write standard output")?;
        connected(&running, reader, writer).await
    });
    // Threads that still wait for input would otherwise be waited for.
    runtime.shutdown_background();
    status
}

async fn connected(
    running: &Running,
    reader: stdio::Reader,
    writer: stdio::Writer,
) -> anyhow::Result<u8> {
    let (stop, stopping) = watch::channel(false);
    let loader = Arc::clone(&running.loader);
    let mut signals = ending::hear_signals(stop, ending::Hangup::End, move || loader.cut_off())?;
    let Some((door, _)) = running.doors.first() else { bail!("there is no door to serve") };
    let peer =
        PeerFacts { carrier: "stdio", peer: "the parent process".to_owned(), owns_process: true };
    let ended = serve(&running.host, door, &peer, reader, writer, stopping).await;

    let mut failures = ended.failures;
    failures.extend(ending::bring_to_an_end(running).await);
    if ended.failed || ended.stuck || !failures.is_empty() {
        tracing::error!(reason = ended.reason, ?failures, "the door did not end in order");
        return Ok(1);
    }
    // A signal that came while the end was under way changes nothing (S-140), except how it is called.
    let interrupted = signals.try_recv().unwrap_or(false);
    Ok(if interrupted { ending::INTERRUPTED } else { 0 })
}
