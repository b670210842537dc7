//! The network of one session (P-54): a loopback that its commands share and nobody else reaches. It lives as long as
//! somebody holds it open or runs in it.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

use tokio::{io::AsyncReadExt, net::unix::pipe};

use crate::{
    command::{Command, Inherited, Stdin},
    confine::{
        Confined, Launcher,
        launch::READY,
        plan::{Join, Plan},
        prepare,
    },
    spawner::Spawner,
};

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
    let plan = Plan::of_network(user);
    let command = Command { stdin: Stdin::Piped, ..Command::new("/") };
    let Confined { command, verdict } = prepare(launcher, plan, None, command)?;
    let process = spawner.spawn(command).await.map_err(io::Error::other)?;

    let mut said = String::new();
    let mut receiver = pipe::Receiver::from_owned_fd(verdict.descriptor)?;
    // It says more only if it failed, and then it ends, too.
    while said != READY {
        let mut piece = [0; 512];
        let length = receiver.read(&mut piece).await?;
        if length == 0 {
            return Err(io::Error::other(format!("no network of its own for a session: {said}")));
        }
        said.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap_or_default()));
    }
    let namespace = |name: &str| -> io::Result<Arc<OwnedFd>> {
        let file = File::open(format!("/proc/{}/ns/{name}", process.id()))?;
        Ok(Arc::new(OwnedFd::from(file)))
    };
    let user = if user { Some(namespace("user")?) } else { None };
    Ok(SessionNetwork { network: namespace("net")?, user })
}
