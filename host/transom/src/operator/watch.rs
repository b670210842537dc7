//! Files that are swapped in when they change (`watch = true`). They are looked at twice a second: whoever writes a component
//! waits longer than that for the compiler.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use std::os::unix::fs::MetadataExt as _;

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use super::{HostOperator, whole};

const LOOK: Duration = Duration::from_millis(500);

/// What tells one content from another without reading it: number, size and time of the file.
type Mark = (u64, u64, i64, i64);

/// Watches until `stop` turns true.
pub(crate) async fn keep_watch(operator: Arc<HostOperator>, mut stop: watch::Receiver<bool>) {
    let mut known: HashMap<(String, PathBuf), Seen> = HashMap::new();
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        let watched = operator.watched().await;
        known.retain(|key, _| watched.contains(key));
        for key in watched {
            let Some(mark) = mark(&key.1).await else { continue };
            let Some(seen) = known.get_mut(&key) else {
                known.insert(key, Seen { served: mark, last: mark });
                continue;
            };
            let rested = seen.last == mark;
            seen.last = mark;
            // A file that still grows is looked at again.
            if seen.served == mark || !rested {
                continue;
            }
            seen.served = mark;
            let (component, source) = key;
            info!(component, source = %source.display(), "changed file is swapped in");
            if let Err(error) = operator.swap(&component, &source).await {
                warn!(component, error = whole(&error), "changed file is not swapped in");
            }
        }
    }
}

struct Seen {
    /// What was loaded, or refused.
    served: Mark,
    last: Mark,
}

async fn mark(path: &std::path::Path) -> Option<Mark> {
    let file = tokio::fs::metadata(path).await.ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

impl HostOperator {
    /// Components of doors whose files are watched, with their files.
    async fn watched(&self) -> Vec<(String, PathBuf)> {
        let state = self.state.lock().await;
        let components = state.manifest.components.iter();
        components
            .filter(|(_, component)| component.watch)
            .filter(|(name, _)| self.serving(name).is_ok())
            .map(|(name, component)| (name.clone(), component.source.clone()))
            .collect()
    }
}
