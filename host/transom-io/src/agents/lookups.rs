//! What the router asks of the disk, away from the loop's own thread: where a directory stands, whose a session is.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use transom_frame::SessionId;
use transom_harness::ports::{Store, StoreError};
use transom_router::Claimed;

/// How long a claim waits for whoever has the session. A process that was killed while it started a child leaves its
/// locks to that child until the child begins its program: some hundred milliseconds on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);

/// The directory at `path`, without links.
pub(super) fn directory(path: &str) -> Option<String> {
    let found = Path::new(path).canonicalize().ok().filter(|found| found.is_dir())?;
    // It is held and compared, so an approximation of it would be of no use.
    found.into_os_string().into_string().ok()
}

/// Claims first and looks then, so that nobody can store the session in between.
pub(super) fn claim(store: &dyn Store, id: &SessionId) -> Result<Claimed, StoreError> {
    let since = Instant::now();
    while !store.claim(id)? {
        if since.elapsed() >= PATIENCE {
            return Ok(Claimed::Elsewhere);
        }
        thread::sleep(PATIENCE / 20);
    }
    store.find(id).map(Claimed::Here)
}
