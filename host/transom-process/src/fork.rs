//! What a child does to itself between `fork` and `exec`.
//!
//! SAFETY, for all blocks: between `fork` and `exec` the child of a process with several threads
//! may do only what is async-signal-safe, because any lock may be held for ever by a thread that
//! does not exist there. The closures make plain system calls (`setsid`, `prctl`, `getppid`,
//! `getpid`, `signal`, `write`, `close_range`, `fcntl`), keep their captures by value, allocate
//! nothing, take no lock and cannot panic; errors are made from numbers.

#![expect(unsafe_code, reason = "`pre_exec` is the only way to act in the child; see SAFETY above")]

use std::{
    io::{self, Write},
    os::{fd::RawFd, unix::process::CommandExt},
    process::Command,
};

use nix::unistd::setsid;

/// `+ `, the longest number, a line feed.
const LINE_BYTES_MAX: usize = 13;

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

/// Lets the child tell the guard of its group (`+ <group>`), once it leads one and before it runs. `ear` must
/// be open until the child has been spawned.
pub(crate) fn announce(command: &mut Command, ear: RawFd) {
    // SAFETY: see the head of this file.
    unsafe {
        command.pre_exec(move || {
            // Formatting a number into a buffer allocates nothing.
            let mut line = [0; LINE_BYTES_MAX];
            let mut room = line.as_mut_slice();
            writeln!(room, "+ {}", std::process::id())?;
            let length = LINE_BYTES_MAX - room.len();
            // A guard that has gone must not take the child with it.
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            // Short enough to be written whole; a guard that does not hear it is told again by the host.
            libc::write(ear, line.as_ptr().cast(), length);
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            Ok(())
        });
    }
}

/// Lets the child's program have these descriptors, under the numbers they have here, and of all others only
/// standard input, output and error, however carelessly they were opened (P-42).
pub(crate) fn keep_only(command: &mut Command, descriptors: Vec<RawFd>) {
    // SAFETY: see the head of this file.
    unsafe {
        command.pre_exec(move || {
            // Kernels before 5.11 refuse; there every descriptor must have been opened well.
            #[cfg(target_os = "linux")]
            libc::syscall(
                libc::SYS_close_range,
                3 as libc::c_uint,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
            );
            for descriptor in &descriptors {
                if libc::fcntl(*descriptor, libc::F_SETFD, 0) == -1 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

/// Elsewhere only the guard (`guard.rs`) protects from orphans.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent(_command: &mut Command) {}
