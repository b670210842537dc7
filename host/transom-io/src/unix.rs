//! Carrier `unix`: a door on a socket file that only its owner may open.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsFd as _,
        unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixSocket, UnixStream},
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::sleep,
};
use tracing::{info, warn};

use transom_process::descends_from_here;

use crate::{
    agents::Host,
    connection::{serve, told_to_stop},
    door::{OpenDoor, PeerFacts},
};

/// Between two tries to accept after one failed. The peer still waits, so the next try fails as well
/// until somebody gives something back: without a pause that is a busy loop that floods the log.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Of socket files.
const MODE: u32 = 0o600;

/// Peers that wait to be accepted. Systems have a bound of their own, which is seldom higher.
const WAITING_MAX: u32 = 4_096;

/// A bound socket. Dropping it removes the file.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file, by which it is told from a successor's.
    file: (u64, u64),
}

/// Why a socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody answers there already.
    #[error("{0} is in use by a running process; stop it, or let the door listen elsewhere")]
    InUse(PathBuf),
    /// Something other than a socket stands there.
    #[error("{0} exists and is not a socket; remove it, or let the door listen elsewhere")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot listen on {path}: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Socket {
    /// Binds `path` with mode 0600, replacing a socket file that nobody answers at. A missing
    /// directory is made, with mode 0700.
    pub fn bind(path: &Path) -> Result<Socket, BindError> {
        let fail = |error| BindError::Io { path: path.to_owned(), error };
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(fail)?;
        }
        if !is_free(path)? {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(BindError::InUse(path.to_owned()));
            }
            fs::remove_file(path).map_err(fail)?;
        }
        let listener = listen(path).map_err(fail)?;
        // A mask of the process may have taken more from the owner than from others.
        fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(fail)?;
        let file = identity(path).map_err(fail)?;
        Ok(Socket { listener, path: path.to_owned(), file })
    }

    /// The next peer.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    /// What to wait for after accepting failed.
    pub(crate) async fn pause() {
        sleep(ACCEPT_PAUSE).await;
    }

    /// Serves peers until `stop` turns true and the last of them has ended.
    pub async fn serve(self, host: Host, door: OpenDoor, stop: watch::Receiver<bool>) {
        let door = Arc::new(door);
        let mut connections = JoinSet::new();
        let mut stopping = stop.clone();
        loop {
            tokio::select! {
                () = told_to_stop(&mut stopping) => break,
                accepted = self.accept() => match accepted {
                    Ok(stream) if connections.len() >= most(&door) => {
                        let most = most(&door);
                        // On a line carrier the refusal is the end of output (decision 56).
                        warn!(door = %door.name, limit = "connections-max", most, "connection refused");
                        drop(stream);
                    }
                    Ok(stream) => {
                        let (host, door, stop) = (host.clone(), Arc::clone(&door), stop.clone());
                        connections.spawn(async move { one(&host, &door, stream, stop).await });
                    }
                    // Out of descriptors, most likely: others will be given back.
                    Err(error) => {
                        warn!(door = %door.name, %error, "accepting failed");
                        Socket::pause().await;
                    }
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        info!(door = %door.name, connections = connections.len(), "door closing");
        while connections.join_next().await.is_some() {}
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The file may be gone, or be that of a host that came after this one.
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// How many connections the door may have now.
fn most(door: &OpenDoor) -> usize {
    usize::try_from(door.slot.active().policy.limits.connections_max).unwrap_or(usize::MAX)
}

/// Whether nothing is at a path; an error if something is that is no socket, or nobody can tell.
pub fn is_free(path: &Path) -> Result<bool, BindError> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => Ok(false),
        Ok(_) => Err(BindError::NotASocket(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(BindError::Io { path: path.to_owned(), error }),
    }
}

/// A listening socket whose file is its owner's from its first moment: the system makes it with the mode that the socket
/// has by then, less what the process masks.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    let file = File::from(socket.as_fd().try_clone_to_owned()?);
    file.set_permissions(fs::Permissions::from_mode(MODE))?;
    socket.bind(path)?;
    socket.listen(WAITING_MAX)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

async fn one(host: &Host, door: &OpenDoor, stream: UnixStream, stop: watch::Receiver<bool>) {
    let peer = match stream.peer_cred() {
        Ok(peer) => {
            let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
            let descends = match pid {
                Some(pid) => spawn_blocking(move || descends_from_here(pid)).await.unwrap_or(true),
                None => false,
            };
            if descends {
                // What its own tools start must not speak for the people behind a session (P-43).
                warn!(door = %door.name, pid, "connection refused: a tool process cannot be a peer");
                return;
            }
            format!("uid {} pid {}", peer.uid(), peer.pid().unwrap_or_default())
        }
        Err(_) => "unknown".to_owned(),
    };
    let peer = PeerFacts { carrier: "unix", peer, owns_process: false };
    let (reader, writer) = stream.into_split();
    serve(host, door, &peer, reader, writer, stop).await;
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::listen;

    #[tokio::test]
    async fn a_socket_file_is_its_owners_before_anybody_can_set_its_mode() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new.sock");
        let _listener = listen(&path).unwrap();
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
