//! System calls for which no crate has a safe face. Each is one small function; what they are for stands with their
//! callers.

#![expect(unsafe_code, reason = "plain system calls; each block says why its arguments are sound")]

use std::{
    ffi::CString,
    io, mem,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path},
    ptr,
};

use nix::{
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
};

/// Takes everything mounted below along.
const AT_RECURSIVE: libc::c_uint = 0x8000;
const AT_EMPTY_PATH: libc::c_uint = 0x1000;
const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOUNT_ATTR_RDONLY: u64 = 1;
const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;

/// User id 0 brings no capabilities at `exec`, changing user ids neither, none is kept or becomes ambient; and the
/// same bits again, shifted, so that none of it can be taken back.
const SECUREBITS: libc::c_ulong = {
    let (noroot, no_setuid_fixup, keep_caps, no_ambient_raise) = (1, 1 << 2, 1 << 4, 1 << 6);
    let bits: libc::c_ulong = noroot | no_setuid_fixup | no_ambient_raise;
    bits | (bits | keep_caps) << 1
};

/// As the kernel declares it.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path contains a zero byte"))
}

/// Takes over a descriptor that was inherited under this number, and passes it on no further.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: sets a flag of a descriptor by number; a number that is none is an error.
    checked(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }.into())?;
    // SAFETY: it is open, as was just seen, and the caller was started with it to be its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The newest Landlock that this kernel knows.
pub(crate) fn landlock_abi() -> Option<u32> {
    // SAFETY: with this flag the kernel reads no memory and creates nothing.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// A handle on what is at a resolved path. No link is followed on the way: since the path was resolved, a command may
/// have put one anywhere, and it may lead anywhere.
pub(crate) fn reach(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut here = open("/", flags, Mode::empty())?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            // In a link there is nothing to be opened.
            here = openat(&here, name, flags, Mode::empty())?;
        }
    }
    Ok(here)
}

/// A copy of what is mounted at a resolved path and below, not yet visible anywhere.
pub(crate) fn copy_tree(path: &Path) -> io::Result<OwnedFd> {
    let place = reach(path)?;
    let flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE | libc::O_CLOEXEC.cast_unsigned();
    // SAFETY: the path is empty and ends with a zero byte; the descriptor is open and outlives the call.
    let number = checked(unsafe {
        libc::syscall(libc::SYS_open_tree, place.as_raw_fd(), c"".as_ptr(), flags)
    })?;
    let number = RawFd::try_from(number).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Mounts such a copy at `path`.
pub(crate) fn attach_tree(tree: impl AsFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let tree = tree.as_fd().as_raw_fd();
    // SAFETY: both paths end with a zero byte and outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree,
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    checked(result).map(drop)
}

/// Makes a copy read-only, with everything mounted in it.
pub(crate) fn seal_tree(tree: impl AsFd) -> io::Result<()> {
    make_read_only(tree.as_fd().as_raw_fd(), c"", AT_EMPTY_PATH | AT_RECURSIVE)
}

/// Makes what is mounted at `path` read-only, with everything below it.
pub(crate) fn seal_below(path: &Path) -> io::Result<()> {
    make_read_only(libc::AT_FDCWD, &c_path(path)?, AT_RECURSIVE)
}

/// Makes what is mounted at `path` read-only, and nothing else.
pub(crate) fn seal_only(path: &Path) -> io::Result<()> {
    make_read_only(libc::AT_FDCWD, &c_path(path)?, 0)
}

fn make_read_only(at: RawFd, path: &std::ffi::CStr, flags: libc::c_uint) -> io::Result<()> {
    let attributes =
        MountAttributes { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: path and attributes outlive the call, and the size is that of the attributes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    checked(result).map(drop)
}

/// Switches the loopback interface of this network namespace on.
pub(crate) fn raise_loopback() -> io::Result<()> {
    // SAFETY: opens a descriptor.
    let number = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    checked(number.into())?;
    // SAFETY: the kernel has just opened it for us.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    // The only flag that can be set here; the others of a loopback are the kernel's own.
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request outlives the call and is of the type that this call takes.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    checked(result.into()).map(drop)
}

/// Gives up one capability for this process and all its descendants. `false`: the kernel has none of this number.
pub(crate) fn drop_from_bounding_set(capability: libc::c_ulong) -> io::Result<bool> {
    // SAFETY: plain numbers.
    let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    match checked(result.into()) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// From now on no user id brings capabilities.
pub(crate) fn lock_securebits() -> io::Result<()> {
    // SAFETY: plain numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0) }.into()).map(drop)
}

/// Marks every descriptor but standard input, output and error as not to be inherited.
pub(crate) fn close_all_on_exec() -> io::Result<()> {
    // SAFETY: sets a flag of descriptors, whichever of these numbers are open.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        )
    };
    checked(result).map(drop)
}

/// Opens a socket, or a pair of them, and says only whether that was possible.
pub(crate) fn try_socket(domain: libc::c_int, kind: libc::c_int, pair: bool) -> io::Result<()> {
    let mut numbers = [-1; 2];
    // SAFETY: opens descriptors; the array has room for two and outlives the call.
    let result = unsafe {
        if pair {
            libc::socketpair(domain, kind, 0, numbers.as_mut_ptr())
        } else {
            let number = libc::socket(domain, kind, 0);
            numbers = [number, -1];
            number
        }
    };
    checked(result.into())?;
    for number in numbers.into_iter().filter(|number| *number >= 0) {
        // SAFETY: the kernel has just opened it for us.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(())
}
