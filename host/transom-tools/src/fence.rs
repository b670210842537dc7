//! How far a call's file tools reach: which files are hidden, which may be changed, and how a path is walked so that
//! nothing changes between check and use (`permissions-and-jobs.md` P-44 to P-48).
//!
//! Shells are held by the confiner, which takes its places from here, so that both know one workspace.

mod marks;
mod resolve;
mod walk;

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use transom_harness::permissions::Mode;
use transom_process::{Confinement, Places, escalation, file_denied};

use self::marks::Marks;
pub(crate) use self::{
    marks::{Id, Standing},
    walk::{Refusal, Spot, is_kernels},
};
use crate::{
    files::{Verb, cannot, refused},
    tool::{Call, ToolError},
};

/// What all sessions of a host have in common. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    confinement: RwLock<Arc<Confinement>>,
    /// The roots of sessions that came without one, by directory.
    late: Mutex<HashMap<PathBuf, Late>>,
}

/// A root that was found at a first call. All sessions that use the directory share it, so that one that works for
/// another does not find what commands of that one have put in its place.
#[derive(Debug)]
struct Late {
    root: PathBuf,
    /// Who uses it; without anybody it is forgotten.
    sessions: BTreeSet<String>,
}

impl Fence {
    /// The fence an operator has described.
    pub fn new(confinement: Confinement) -> Fence {
        let confinement = RwLock::new(Arc::new(confinement));
        Fence { shared: Arc::new(Shared { confinement, late: Mutex::default() }) }
    }

    /// What the operator has said.
    pub fn confinement(&self) -> Arc<Confinement> {
        self.shared.confinement.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it, from the next call on.
    pub fn set_confinement(&self, confinement: Confinement) {
        let mut current = self.shared.confinement.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(confinement);
    }

    /// The absolute path a text stands for, with all links followed, also where the end of it does not exist yet
    /// (P-48). A relative text stands in the directory, which is absolute. Blocks on the file system.
    pub fn resolve(&self, directory: &Path, text: &str) -> io::Result<PathBuf> {
        resolve::resolve(&directory.join(text))
    }

    /// The places of a session that works in a directory. Blocks on the file system.
    ///
    /// A confined shell may rename the workspace itself, where the directory above it is a root too, and leave a link
    /// in its place. So the session brings the `root` that was found when it was given its directory (P-5), and it is
    /// an error if the directory leads elsewhere by now. Without a root, because there was no directory then, the
    /// first call that finds one decides.
    pub fn places(
        &self,
        session: &str,
        directory: &Path,
        root: Option<&Path>,
    ) -> io::Result<Places> {
        let places = self.confinement().places(session, directory)?;
        match root {
            Some(root) => at(root, directory, places),
            None => at(&self.late(session, directory, &places.workspace), directory, places),
        }
    }

    /// The same for a look that is no call: it decides nothing for those that follow, and so leaves nothing behind, not
    /// even when the session is forgotten meanwhile.
    pub(crate) fn glance(
        &self,
        session: &str,
        directory: &Path,
        root: Option<&Path>,
    ) -> io::Result<Places> {
        let places = self.confinement().places(session, directory)?;
        let late = || {
            let late = self.shared.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.get(directory).map(|held| held.root.clone())
        };
        match root.map(Path::to_owned).or_else(late) {
            Some(root) => at(&root, directory, places),
            None => Ok(places),
        }
    }

    fn late(&self, session: &str, directory: &Path, found: &Path) -> PathBuf {
        let mut late = self.shared.late.lock().unwrap_or_else(PoisonError::into_inner);
        let held = late
            .entry(directory.to_owned())
            .or_insert_with(|| Late { root: found.to_owned(), sessions: BTreeSet::new() });
        held.sessions.insert(session.to_owned());
        held.root.clone()
    }

    /// Forgets a session that has ended.
    pub fn forget(&self, session: &str) {
        let mut late = self.shared.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain(|_, held| {
            held.sessions.remove(session);
            !held.sessions.is_empty()
        });
    }

    /// What one call may touch, as the file system is now.
    pub(crate) fn bounds(&self, call: &Call) -> Result<Bounds, ToolError> {
        let (directory, root) = (&call.directory, call.root.as_deref());
        let session = call.session.as_str();
        let places = self.places(session, directory, root);
        self.bounds_within(session, places, call.access.mode, call.confined)
    }

    /// What a look that is no call may show, under the narrowest mode.
    pub(crate) fn bounds_of_glance(
        &self,
        session: &str,
        directory: &Path,
        root: Option<&Path>,
    ) -> Result<Bounds, ToolError> {
        self.bounds_within(session, self.glance(session, directory, root), Mode::ReadOnly, None)
    }

    /// `confined` is the mode that holds changes back.
    fn bounds_within(
        &self,
        session: &str,
        places: io::Result<Places>,
        mode: Mode,
        confined: Option<Mode>,
    ) -> Result<Bounds, ToolError> {
        let places = match places {
            Ok(places) => Ok(places),
            Err(error) => {
                if confined.is_some() {
                    tracing::warn!(session, %error, "a session's workspace is no root");
                }
                // What is hidden does not depend on the workspace. But whoever has none changes nothing.
                let everywhere = self.confinement().places(session, Path::new("/"));
                everywhere.map(|mut places| {
                    places.roots.clear();
                    places
                })
            }
        };
        let places = places.map_err(|error| {
            ToolError::new(format!("what files may be used cannot be determined: {error}"))
        })?;
        let marks = Marks::new(&places, mode);
        Ok(Bounds { confined, escalates: true, places, marks })
    }
}

/// The places, if the directory still leads to the root.
fn at(root: &Path, directory: &Path, places: Places) -> io::Result<Places> {
    if root == places.workspace {
        return Ok(places);
    }
    Err(io::Error::other(format!(
        "\"{}\" was \"{}\" and now leads to \"{}\"",
        directory.display(),
        root.display(),
        places.workspace.display()
    )))
}

/// What one call may touch.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// The mode that holds changes back.
    confined: Option<Mode>,
    /// Whether the call could have asked for a wider mode.
    escalates: bool,
    places: Places,
    marks: Marks,
}

impl Bounds {
    /// The same for a tool whose calls cannot ask for a wider mode; its denials do not speak of that.
    pub(crate) fn without_escalation(self) -> Bounds {
        Bounds { escalates: false, ..self }
    }

    /// The first question about a change, before anything is looked at.
    pub(crate) fn may_change(&self, verb: Verb, shown: &Path) -> Result<(), ToolError> {
        match self.confined {
            Some(Mode::ReadOnly) => Err(self.tell(verb, shown, Refusal::Denied)),
            Some(Mode::WorkspaceWrite | Mode::DangerFullAccess) | None => Ok(()),
        }
    }

    /// Where a path leads, unless this call has no business there.
    pub(crate) fn resolve(&self, verb: Verb, shown: &Path) -> Result<PathBuf, ToolError> {
        let real = resolve::resolve(shown).map_err(|error| refused(verb, shown, &error))?;
        self.allow(verb, &real).map_err(|refusal| self.tell(verb, shown, refusal))?;
        Ok(real)
    }

    /// What can be said of a real path by itself. Whether it really is that path, only walking it can tell.
    fn allow(&self, verb: Verb, real: &Path) -> Result<(), Refusal> {
        if is_kernels(real) || self.marks.hide(real) {
            return Err(Refusal::Hidden);
        }
        if verb.changes() && self.is_confined() {
            let is_inside = self.places.roots.iter().any(|root| real.starts_with(root));
            if !is_inside || self.marks.guard(real) {
                return Err(Refusal::Denied);
            }
        }
        Ok(())
    }

    /// The same of a place that was walked to, whatever names led there.
    fn allow_standing(&self, verb: Verb, standing: &Standing) -> Result<(), Refusal> {
        if standing.is_hidden() {
            return Err(Refusal::Hidden);
        }
        if verb.changes() && self.is_confined() && standing.is_guarded() {
            return Err(Refusal::Denied);
        }
        Ok(())
    }

    /// The open directory a file stands in. With `create`, directories that are missing are made.
    pub(crate) fn reach(
        &self,
        verb: Verb,
        shown: &Path,
        real: &Path,
        create: bool,
    ) -> Result<Spot, ToolError> {
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(self.tell(verb, shown, Refusal::NotRegular));
        };
        let reached = || -> Result<Spot, Refusal> {
            let (directory, standing) = self.descend(parent, create)?;
            let spot = Spot { directory, standing, name: name.to_owned() };
            // Also what does not exist yet can be hidden or guarded by its name.
            self.allow_standing(verb, &self.marks.step(&spot.standing, name, spot.id()?))?;
            Ok(spot)
        };
        reached().map_err(|refusal| self.tell(verb, shown, refusal))
    }

    /// A refusal in the words of the tool.
    pub(crate) fn tell(&self, verb: Verb, shown: &Path, refusal: Refusal) -> ToolError {
        match refusal {
            Refusal::Hidden => {
                let ToolError { message, .. } = cannot(verb, shown, "hidden by this host");
                ToolError::coded(message, "FsError", "FS_PERMISSION_DENIED")
            }
            Refusal::Denied => self.denial(),
            // Somebody swaps files while we work; that is no accident (P-48).
            Refusal::Moved if verb.changes() && self.is_confined() => self.denial(),
            Refusal::Moved => cannot(verb, shown, "its path was changed meanwhile — retry"),
            Refusal::InTheWay if verb == Verb::Write => {
                cannot(verb, shown, "a file is where its directory should be")
            }
            Refusal::InTheWay => cannot(verb, shown, "not found"),
            Refusal::NotRegular => cannot(verb, shown, "not a regular file"),
            Refusal::Io(error) => refused(verb, shown, &error),
        }
    }

    /// Whether a mode holds changes back at all.
    fn is_confined(&self) -> bool {
        self.confined.is_some_and(|mode| mode != Mode::DangerFullAccess)
    }

    /// The text of a denial (P-21). It offers what the schema of the tool does (P-18).
    fn denial(&self) -> ToolError {
        let mode = self.confined.unwrap_or(Mode::DangerFullAccess).as_str();
        let mut text = file_denied(mode);
        if self.escalates {
            text = format!("{text}\n{}", escalation("operation"));
        }
        ToolError::coded(text, "FsError", "FS_SANDBOX_DENIED")
    }
}
