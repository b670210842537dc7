//! Giving up what root may do beyond other users (P-50). Landlock and the mounts hold only without it.

use std::io;

use caps::{CapSet, Capability, errors::CapsError};

use crate::confine::system;

/// More than any kernel has.
const CAPABILITIES_MAX: libc::c_ulong = 64;

/// Whether this process may make namespaces and mounts.
pub(crate) fn administers() -> bool {
    caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).unwrap_or(false)
}

/// Empties every set of capabilities for good. The bounding set of an ordinary user stays as it is: nothing can
/// be gained from it once no new privileges are to be had.
pub(crate) fn give_up() -> io::Result<()> {
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).map_err(failed)? {
        // By number, because a kernel may know more of them than any list here.
        for capability in 0..CAPABILITIES_MAX {
            if !system::drop_from_bounding_set(capability)? {
                break;
            }
        }
        system::lock_securebits()?;
    }
    for set in [CapSet::Ambient, CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: CapsError) -> io::Error {
    io::Error::other(error.to_string())
}
