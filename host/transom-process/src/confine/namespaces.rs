//! The namespaces of a launcher: which it joins and which it makes (P-54). What is mounted in them is `mounts.rs`.

use std::{fs, io, os::fd::OwnedFd};

use nix::{
    errno::Errno,
    sched::{CloneFlags, setns, unshare},
    unistd::{getegid, geteuid},
};

use crate::confine::{plan::Plan, system};

/// Enters what the plan asks for. Needs a process with one thread.
pub(crate) fn enter(plan: &Plan) -> io::Result<()> {
    if let Some(join) = plan.join {
        if let Some(user) = join.user {
            setns(system::adopt(user)?, CloneFlags::CLONE_NEWUSER)?;
        }
        let network: OwnedFd = system::adopt(join.network)?;
        setns(network, CloneFlags::CLONE_NEWNET)?;
    } else if plan.user && plan.mounts {
        become_own_user()?;
    }
    if plan.mounts {
        // With System V queues of its own, where the kernel has that: memory that outlives a command is shared by
        // nobody (P-56).
        match unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC) {
            Err(Errno::EINVAL) => unshare(CloneFlags::CLONE_NEWNS)?,
            done => done?,
        }
    }
    Ok(())
}

/// Makes the network of a session: a loopback, and nothing else.
pub(crate) fn make_network(user: bool) -> io::Result<()> {
    if user {
        become_own_user()?;
    }
    unshare(CloneFlags::CLONE_NEWNET)?;
    system::raise_loopback()
}

/// A user namespace in which this user is itself and may make the other namespaces.
fn become_own_user() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // Without this the kernel lets nobody unprivileged map groups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))
}
