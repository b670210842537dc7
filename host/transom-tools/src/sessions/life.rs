//! One life of a session: what its commands share from the first call until the session is forgotten. Whatever comes
//! later, for example a call that was slow to end, finds it over, so that nothing of a gone session is made anew.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::OnceCell;
use transom_frame::SessionId;
use transom_process::{Confinement, Confiner, Mark, SessionNetwork, SpillDirectory};

use super::Table;
use crate::fence::Fence;

/// One life of a session.
pub(crate) struct Life {
    session: SessionId,
    /// All that its commands have started carries it, so that it can be ended with the session (P-41).
    mark: Mark,
    /// Made with the first command that needs it (P-54).
    network: OnceCell<Option<SessionNetwork>>,
    state: Mutex<State>,
    sessions: Weak<Mutex<Table>>,
    fence: Fence,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// In the session's own directory.
    spills: Option<SpillDirectory>,
}

/// The session's own directory (P-44).
pub(crate) struct Own {
    pub(crate) directory: PathBuf,
    pub(crate) spills: SpillDirectory,
}

impl Life {
    pub(super) fn new(
        session: &SessionId,
        sessions: Weak<Mutex<Table>>,
        fence: Fence,
    ) -> Arc<Life> {
        Arc::new(Life {
            session: session.clone(),
            mark: Mark::unique(),
            network: OnceCell::new(),
            state: Mutex::default(),
            sessions,
            fence,
        })
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Whether the session has been forgotten.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// The network of the session's commands.
    pub(crate) async fn network(&self, confiner: &Confiner) -> io::Result<Option<SessionNetwork>> {
        self.network.get_or_try_init(|| confiner.network()).await.cloned()
    }

    /// Makes the session's own directory, where it is missing and the session is not over; `None` where sessions have
    /// none. Long outputs share the budget of `spills`. Blocks on the file system.
    pub(crate) fn own(
        &self,
        confinement: &Confinement,
        spills: &SpillDirectory,
    ) -> io::Result<Option<Own>> {
        let mut state = self.lock();
        if state.is_over {
            return Err(io::Error::other("the session is over"));
        }
        let Some(directory) = confinement.make_own(self.session.as_str())? else { return Ok(None) };
        let there = state.spills.as_ref().filter(|spills| spills.path() == directory).cloned();
        let spills = match there {
            Some(spills) => spills,
            None => spills.beside(&directory)?,
        };
        state.spills = Some(spills.clone());
        Ok(Some(Own { directory, spills }))
    }

    /// Ends it. Gives where the session's own directory is now, to be removed.
    pub(crate) fn end(&self, confinement: &Confinement) -> Option<PathBuf> {
        let mut state = self.lock();
        state.is_over = true;
        state.spills = None;
        confinement.set_aside(self.session.as_str())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Its last calls may have looked at the session's workspace after it was forgotten.
        let Some(sessions) = self.sessions.upgrade() else { return };
        let table = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if !table.lives(&self.session) {
            self.fence.forget(self.session.as_str());
        }
    }
}

/// The files of a job's streams in a session's own directory, by the job's id alone: what an earlier host has left
/// there is found, too (P-78). Blocks on the file system.
pub(crate) fn job_files(confinement: &Confinement, session: &SessionId, id: &str) -> Vec<PathBuf> {
    let Some(directory) = confinement.own_directory(session.as_str()) else { return Vec::new() };
    let Ok(directory) = directory.canonicalize() else { return Vec::new() };
    let files = ["stdout", "stderr"].map(|stream| directory.join(format!("{id}.{stream}.txt")));
    // Commands may write there, too: a link is not what a host has left.
    let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    files.into_iter().filter(|path| is_file(path)).collect()
}
