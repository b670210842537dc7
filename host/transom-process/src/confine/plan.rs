//! What one launcher is told: a plan, as plain data. It is made by the host, travels as JSON on an inherited
//! descriptor, and is carried out by `launch.rs` without asking anybody else.

use std::{
    fs,
    os::fd::RawFd,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::places::{Network, Places};

/// How far a confined command reaches. There is no third: what is not confined needs no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Width {
    /// No file can be changed.
    ReadOnly,
    /// Files below the roots can be changed.
    WorkspaceWrite,
}

impl Width {
    /// The name of the mode (P-1).
    pub fn name(self) -> &'static str {
        match self {
            Width::ReadOnly => "read-only",
            Width::WorkspaceWrite => "workspace-write",
        }
    }
}

/// Which walls this machine has, as found out by `probe.rs`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Layers {
    pub(crate) landlock: Option<u32>,
    pub(crate) seccomp: bool,
    pub(crate) mounts: bool,
    /// A session can have a network of its own.
    pub(crate) loopback: bool,
    /// Namespaces are to be had inside a user namespace only.
    pub(crate) user: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) task: Task,
    pub(crate) width: Width,
    /// Must be there; everything else may have gone meanwhile.
    pub(crate) workspace: PathBuf,
    /// Writable, outermost first.
    pub(crate) writable: Vec<PathBuf>,
    /// Readable although something above them is hidden.
    pub(crate) shown: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) guarded: Vec<PathBuf>,
    pub(crate) landlock: Option<u32>,
    pub(crate) seccomp: bool,
    pub(crate) mounts: bool,
    pub(crate) user: bool,
    /// The session's own network, to be joined.
    pub(crate) join: Option<Join>,
    /// Nothing outside may be reached.
    pub(crate) offline: bool,
    /// Sockets in the file system may be connected to.
    pub(crate) unix_sockets: bool,
}

/// What the launcher does once everything is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Becomes the command.
    Run,
    /// Applies nothing, but makes the network of a session and shows it until input ends.
    Network,
    /// Tries these, and reports how each went.
    Try(Vec<Attempt>),
}

/// Something that a wall must refuse or let pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Attempt {
    Write(PathBuf),
    Read(PathBuf),
    Chmod(PathBuf),
    /// An internet socket.
    Internet,
    /// A pair of Unix sockets.
    Pair,
    /// Listening on 127.0.0.1 and being heard there.
    Loopback,
    /// A datagram to an address that belongs to nobody.
    Outside,
}

/// The numbers under which the namespaces are inherited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Join {
    pub(crate) user: Option<RawFd>,
    pub(crate) network: RawFd,
}

/// Why a launcher did not run its command. Written on the second descriptor as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the confiner failed ({stage}): {error}")]
pub struct LauncherFailed {
    /// What it was about: `profile`, `namespaces`, `mounts`, `capabilities`, `landlock`, `seccomp`, `exec`.
    pub stage: String,
    /// What the system said.
    pub error: String,
}

impl Plan {
    /// The plan for commands of one session, as its places are now.
    pub(crate) fn new(
        layers: &Layers,
        network: Network,
        unix_sockets: Network,
        width: Width,
        places: &Places,
    ) -> Plan {
        let mut roots = places.roots.clone();
        roots.extend(places.own.clone().filter(|own| own.is_dir()));
        let roots = sorted(roots);
        let hidden =
            places.private.iter().chain(&places.secrets).filter(|path| exists(path)).cloned();
        let hidden = sorted(hidden.collect());
        let below_hidden = |path: &&PathBuf| hidden.iter().any(|hidden| path.starts_with(hidden));
        let (writable, shown, guarded) = match width {
            Width::ReadOnly => {
                let mut shown: Vec<_> = roots.iter().filter(below_hidden).cloned().collect();
                shown.dedup();
                (Vec::new(), shown, Vec::new())
            }
            Width::WorkspaceWrite => {
                let guarded = guarded(places, &roots);
                (roots, Vec::new(), guarded)
            }
        };
        Plan {
            task: Task::Run,
            width,
            workspace: places.workspace.clone(),
            writable,
            shown,
            hidden,
            guarded,
            landlock: layers.landlock,
            seccomp: layers.seccomp,
            mounts: layers.mounts,
            user: layers.user,
            join: None,
            offline: network == Network::Deny,
            unix_sockets: unix_sockets == Network::Allow,
        }
    }

    /// The plan of a process that does nothing but hold a network.
    pub(crate) fn of_network(user: bool) -> Plan {
        Plan {
            task: Task::Network,
            width: Width::ReadOnly,
            workspace: PathBuf::from("/"),
            writable: Vec::new(),
            shown: Vec::new(),
            hidden: Vec::new(),
            guarded: Vec::new(),
            landlock: None,
            seccomp: false,
            mounts: false,
            user,
            join: None,
            offline: true,
            unix_sockets: false,
        }
    }
}

/// What shells find guarded (P-46): the host's and the operator's files, and of version control what decides which
/// programs run. The rest of `.git` stays writable, so that commits work.
fn guarded(places: &Places, roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut guarded = places.guarded.clone();
    if places.guard_git {
        for root in roots {
            guarded.extend(["hooks", "config"].map(|name| root.join(".git").join(name)));
        }
    }
    // What a link leads to is what can be mounted.
    let guarded = guarded.into_iter().filter_map(|path| fs::canonicalize(path).ok());
    let below_root = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
    sorted(guarded.filter(below_root).collect())
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// By components, so that what contains something comes before it.
fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    paths
}
