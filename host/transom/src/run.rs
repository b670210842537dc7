//! `transom run`: every door of a manifest, until a signal ends it.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context as _, bail};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use transom_config::manifest::{Carrier, Manifest};
use transom_io::{control, metrics::Metrics, unix::Socket};

use crate::{
    chosen, cli,
    deployment::{self, Extras},
    ending::{self, Hangup},
    environment::Environment,
    operator::{HostOperator, keep_watch, whole},
    remote,
    telemetry::Log,
};

pub(crate) fn run(command: &cli::Run, environment: &Environment, log: &Log) -> anyhow::Result<u8> {
    let deployment = chosen::deployment(&command.which, &command.held, &command.host, environment)?;
    let manifest = &deployment.manifest;
    for (name, door) in &manifest.doors {
        if door.carrier == Carrier::Stdio {
            let files = command.which.manifests.iter();
            let files = files.map(|file| format!(" --manifest {}", file.display()));
            let files: String = files.collect();
            bail!(
                "door `{name}` has the carrier `stdio`; start it with `transom stdio {name}{files}`"
            );
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let extras = Extras { pooled: true, pins: deployment.pins.clone(), ..Extras::default() };
        let mut running = deployment::start(manifest, &extras, environment)?;
        let (stop, stopping) = watch::channel(false);
        let (hangup, hangups) = mpsc::channel(1);
        let loader = Arc::clone(&running.loader);
        let signals = ending::hear_signals(stop, Hangup::Reload(hangup), move || loader.cut_off())?;
        let origin = chosen::Origin {
            which: command.which.clone(),
            held: command.held.clone(),
            options: command.host.clone(),
            environment: environment.clone(),
        };
        let operator = HostOperator::new(&running, &deployment, extras, log.clone(), origin);
        let operator = Arc::new(operator);

        // All addresses are taken before the first peer is served.
        let mut sockets = Vec::new();
        let control = control(manifest, environment)?;
        let served = running.doors.iter().map(|(door, _)| door).chain(&running.agents);
        let slots = served.map(|door| Arc::clone(&door.slot)).collect();
        let metrics =
            match manifest.metrics.listen {
                Some(address) => Some(Metrics::bind(address).await.with_context(|| {
                    format!("cannot listen on {address}, which [metrics] names")
                })?),
                None => None,
            };
        for (door, carrier) in running.doors.drain(..) {
            match carrier {
                Carrier::Stdio => bail!("door `{}` has the carrier `stdio`", door.name),
                Carrier::Unix { listen } => {
                    let listen = environment.absolute(&listen);
                    sockets.push((door, Socket::bind(&listen)?, listen));
                }
            }
        }
        let mut doors = JoinSet::new();
        for (door, socket, listen) in sockets {
            say(&format!("door {} listens on {}", door.name, listen.display()));
            doors.spawn(socket.serve(running.host.clone(), door, stopping.clone()));
        }
        if let Some((socket, listen)) = control {
            say(&format!("control listens on {}", listen.display()));
            let serving = control::serve(socket, Arc::clone(&operator), stopping.clone());
            doors.spawn(serving);
        }
        if let Some(metrics) = metrics {
            say(&format!("metrics are at http://{}/metrics", metrics.address()?));
            doors.spawn(metrics.serve(slots, stopping.clone()));
        }
        doors.spawn(keep_watch(Arc::clone(&operator), stopping.clone()));
        doors.spawn(reload(operator, hangups, stopping.clone()));
        say("ready; stop with Ctrl-C or SIGTERM");

        let interrupted = signals.await.unwrap_or(false);
        while doors.join_next().await.is_some() {}
        let failures = ending::bring_to_an_end(&running).await;
        if !failures.is_empty() {
            tracing::error!(?failures, "the host did not end in order");
        }
        Ok(match (failures.is_empty(), interrupted) {
            (false, _) => 1,
            (true, true) => ending::INTERRUPTED,
            (true, false) => 0,
        })
    });
    runtime.shutdown_background();
    status
}

/// Where the host is told what to do. The usual place may be another host's, or nowhere; a place that was asked for must be had.
fn control(
    manifest: &Manifest,
    environment: &Environment,
) -> anyhow::Result<Option<(Socket, PathBuf)>> {
    if manifest.control.off {
        return Ok(None);
    }
    if let Some(listen) = &manifest.control.listen {
        let listen = environment.absolute(listen);
        return Ok(Some((Socket::bind(&listen)?, listen)));
    }
    let Ok(home) = environment.state_directory() else { return Ok(None) };
    let listen = home.join(remote::SOCKET);
    match Socket::bind(&listen) {
        Ok(socket) => Ok(Some((socket, listen))),
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "transom: this host cannot be controlled: {error}; name another place with [control] listen"
            );
            Ok(None)
        }
    }
}

/// Reads the configuration again at every SIGHUP.
async fn reload(
    operator: Arc<HostOperator>,
    mut hangups: mpsc::Receiver<()>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            hangup = hangups.recv() => if hangup.is_none() { return },
        }
        match operator.hangup().await {
            Ok(Some(answer)) => tracing::info!(%answer, "reloaded"),
            Ok(None) => {}
            Err(error) => tracing::error!(error = whole(&error), "not reloaded"),
        }
    }
}

/// This command's standard output is for people, and they may have stopped reading.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
