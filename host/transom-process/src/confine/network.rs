//! The network of one session (P-54): a loopback that its commands share and nobody else reaches. It lives as long as
//! somebody holds it open or runs in it.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use tokio::{io::AsyncReadExt, net::unix::pipe, time::timeout};

use crate::{
    command::{Command, Inherited, Stdin},
    confine::{
        Confined, Launcher, Verdict,
        launch::READY,
        plan::{Join, Plan},
        prepare,
    },
    spawner::Spawner,
};

/// How long the making of a network may take. It takes milliseconds; only a holder that hangs takes longer.
const MAKING: Duration = Duration::from_secs(5);

/// A hold on the network of a session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionNetwork {
    network: Arc<OwnedFd>,
    /// The user namespace it belongs to, where only that made it possible.
    user: Option<Arc<OwnedFd>>,
}

impl SessionNetwork {
    pub(crate) fn pass_on(&self, inherited: &mut Inherited) -> Join {
        inherited.push(self.network.clone());
        if let Some(user) = &self.user {
            inherited.push(user.clone());
        }
        Join {
            user: self.user.as_ref().map(|user| user.as_raw_fd()),
            network: self.network.as_raw_fd(),
        }
    }
}

/// Lets a process make the network and takes hold of it before that process ends.
pub(crate) async fn make(
    launcher: &Launcher,
    spawner: &Spawner,
    user: bool,
) -> io::Result<SessionNetwork> {
    make_within(MAKING, launcher, spawner, user).await
}

pub(super) async fn make_within(
    patience: Duration,
    launcher: &Launcher,
    spawner: &Spawner,
    user: bool,
) -> io::Result<SessionNetwork> {
    let plan = Plan::of_network(user);
    let command = Command { stdin: Stdin::Piped, ..Command::new("/") };
    let Confined { command, verdict } = prepare(launcher, plan, None, command)?;
    let process = spawner.spawn(command).await.map_err(io::Error::other)?;

    let said = timeout(patience, said(verdict)).await.map_err(|_| {
        let ms = patience.as_millis();
        io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no network of its own for a session: its holder said nothing for {ms} ms"),
        )
    })??;
    if said != READY {
        return Err(io::Error::other(format!("no network of its own for a session: {said}")));
    }
    let namespace = |name: &str| -> io::Result<Arc<OwnedFd>> {
        let file = File::open(format!("/proc/{}/ns/{name}", process.id()))?;
        Ok(Arc::new(OwnedFd::from(file)))
    };
    let user = if user { Some(namespace("user")?) } else { None };
    Ok(SessionNetwork { network: namespace("net")?, user })
}

/// What the holder says: that it is ready, or all it says before it ends.
async fn said(verdict: Verdict) -> io::Result<String> {
    let mut said = String::new();
    let mut receiver = pipe::Receiver::from_owned_fd(verdict.descriptor)?;
    while said != READY {
        let mut piece = [0; 512];
        let length = receiver.read(&mut piece).await?;
        if length == 0 {
            break;
        }
        said.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap_or_default()));
    }
    Ok(said)
}
