//! What a child does to itself between `fork` and `exec`. The only `unsafe` code of this crate.
//!
//! SAFETY, for both blocks: between `fork` and `exec` the child of a process with several threads
//! may do only what is async-signal-safe, because any lock may be held for ever by a thread that
//! does not exist there. The closures make plain system calls (`setsid`, `prctl`, `getppid`), keep
//! their captures by value, allocate nothing, take no lock and cannot panic; errors are made from
//! numbers.

#![expect(unsafe_code, reason = "`pre_exec` is the only way to act in the child; see SAFETY above")]

use std::{io, os::unix::process::CommandExt, process::Command};

use nix::unistd::setsid;

/// Makes the child the leader of a new session, and so of a new process group of the same number,
/// without a terminal: no signal of the host's terminal reaches it, no password prompt hangs on it,
/// and every descendant that does not itself ask for a session of its own can be found (L-85).
pub(crate) fn lead_session(command: &mut Command) {
    // SAFETY: see the head of this file.
    unsafe {
        command.pre_exec(|| setsid().map(drop).map_err(io::Error::from));
    }
}

/// Lets the kernel kill the child when the thread that forked it ends, be it by `kill -9`.
///
/// The signal is tied to that *thread*, not to the process: call this only for commands that are
/// spawned by a thread that lives as long as its children may.
#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent(command: &mut Command) {
    use nix::{
        errno::Errno,
        sys::{prctl::set_pdeathsig, signal::Signal},
        unistd::{getpid, getppid},
    };

    let parent = getpid();
    // SAFETY: see the head of this file.
    unsafe {
        command.pre_exec(move || {
            set_pdeathsig(Signal::SIGKILL)?;
            // A parent that died before the call above will send no signal.
            if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        });
    }
}

/// Elsewhere only the guard (`guard.rs`) protects from orphans.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent(_command: &mut Command) {}
