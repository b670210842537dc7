//! `transom run`: every door of a manifest, until a signal ends it.

use std::io::{self, Write as _};

use anyhow::bail;
use tokio::{sync::watch, task::JoinSet};
use transom_config::manifest::Carrier;
use transom_io::unix::Socket;

use crate::{
    cli,
    deployment::{self, Extras},
    ending,
    environment::Environment,
};

pub(crate) fn run(command: &cli::Run, environment: &Environment) -> anyhow::Result<u8> {
    let manifest = deployment::manifest(&command.manifest, &command.host, environment)?;
    for (name, door) in &manifest.doors {
        if door.carrier == Carrier::Stdio {
            let files =
                command.manifest.iter().map(|file| format!(" --manifest {}", file.display()));
            let files: String = files.collect();
            bail!(
                "door `{name}` has the carrier `stdio`; start it with `transom stdio {name}{files}`"
            );
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let extras = Extras { pooled: true, ..Extras::default() };
        let mut running = deployment::start(&manifest, &extras, environment)?;
        let (stop, stopping) = watch::channel(false);
        let mut signals = tokio::spawn(ending::signalled(stop)?);

        // All addresses are taken before the first peer is served.
        let mut sockets = Vec::new();
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
        say("ready; stop with Ctrl-C or SIGTERM");

        let interrupted = (&mut signals).await.unwrap_or(false);
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

/// This command's standard output is for people, and they may have stopped reading.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
