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
use crate::doors::Origin;

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
            // It may have changed since it was loaded, before anybody looked.
            let unknown = Seen { tried: None, last: mark };
            let seen = known.entry(key.clone()).or_insert(unknown);
            let rested = seen.last == mark;
            seen.last = mark;
            // A file that still grows is looked at again.
            if seen.tried == Some(mark) || !rested {
                continue;
            }
            if operator.may_be_exposed().await {
                continue;
            }
            let first = seen.tried.replace(mark).is_none();
            let (component, source) = key;
            match operator.refresh(&component, first).await {
                Ok(Some(0)) => {}
                // It is looked at again once nobody could have written it.
                Ok(None) => seen.tried = None,
                Ok(Some(_)) => {
                    info!(component, source = %source.display(), "changed file swapped in")
                }
                Err(error) => {
                    warn!(component, error = whole(&error), "changed file is not swapped in");
                }
            }
        }
    }
}

struct Seen {
    /// What was loaded, or refused.
    tried: Option<Mark>,
    last: Mark,
}

async fn mark(path: &std::path::Path) -> Option<Mark> {
    let file = tokio::fs::metadata(path).await.ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

impl HostOperator {
    /// Swaps in the manifest's file of a component where it is another than what serves. At the first look a component that
    /// somebody chose by hand stays. Gives at how many doors there was a swap; none where a session that began meanwhile could have
    /// written what was read (P-34).
    async fn refresh(&self, component: &str, first: bool) -> anyhow::Result<Option<usize>> {
        let mut state = self.state.lock().await;
        if first && state.by_hand.contains(component) {
            return Ok(Some(0));
        }
        let (mut doors, mut versions) = (Vec::new(), Vec::new());
        for door in self.serving(component)? {
            let version = self.load(&state, door, Origin::Manifest).await?;
            if version.source.identity() != door.slot.active().source.identity() {
                doors.push(door);
                versions.push(version);
            }
        }
        if !doors.is_empty() {
            if self.is_exposed(&state.manifest).await? {
                return Ok(None);
            }
            self.commit(&state.manifest, &doors, versions).await;
            state.by_hand.remove(component);
        }
        Ok(Some(doors.len()))
    }

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
