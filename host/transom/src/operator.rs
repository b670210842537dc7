//! What the operator of a running host may do: the requests of the control socket, SIGHUP, and files that are watched.
//! The socket itself, and what is counted, are `transom-io`'s.

mod exposure;
mod policies;
mod reload;
mod sessions;
mod watch;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::sleep};
use transom_config::manifest::Manifest;
use transom_frame::SessionId;
use transom_harness::ports::Store;
use transom_io::{
    Host, OpenDoor,
    control::{self, Refused, Request, status},
    slot::Swapped,
};
use transom_policy::Policy;

use crate::{
    background,
    bundle::Unpacked,
    chosen::{self, Deployment},
    deployment::{Extras, Running},
    doors::{self, Loader, Origin, Version},
    live::Switches,
    lock::Pins,
    telemetry::Log,
    tooling::Tooling,
};

pub(crate) use watch::keep_watch;

/// How long an answer waits until every live connection has been moved. The moves go on without it.
const MOVES_WAIT: Duration = Duration::from_secs(5);

/// From here on a move takes too long: the connection is in the middle of a call.
const MOVES_REST: Duration = Duration::from_millis(20);

/// Between two looks at that. A move takes less than a tenth of a millisecond.
const MOVES_LOOK: Duration = Duration::from_millis(2);

/// Runs a host that others run by.
pub(crate) struct HostOperator {
    host: Host,
    doors: Vec<OpenDoor>,
    loader: Arc<Loader>,
    tooling: Arc<Tooling>,
    switches: Arc<Switches>,
    store: Arc<dyn Store>,
    extras: Extras,
    log: Log,
    origin: chosen::Origin,
    /// Where sessions without a directory of their own work.
    directory: PathBuf,
    /// For how many connections each door had room when the host started, by door.
    rooms: HashMap<Arc<str>, u64>,
    /// Held for as long as anything is changed: one change at a time.
    state: Mutex<State>,
    /// It was said that files of the operator can be changed by sessions.
    exposure_told: AtomicBool,
    started: Instant,
}

struct State {
    /// What the host runs by.
    manifest: Manifest,
    /// What components are held to.
    pins: Pins,
    /// Bundles whose files it names; they are there for as long as this.
    unpacked: Vec<Arc<Unpacked>>,
    /// Components that were swapped or rolled back by hand: a reload leaves them as they are.
    by_hand: BTreeSet<String>,
}

impl HostOperator {
    pub(crate) fn new(
        running: &Running,
        deployment: &Deployment,
        extras: Extras,
        log: Log,
        origin: chosen::Origin,
    ) -> HostOperator {
        let room = |door: &OpenDoor| {
            (Arc::clone(&door.name), door.slot.active().policy.limits.connections_max)
        };
        // Those at which the host itself calls are looked after like all others.
        let all = || running.doors.iter().map(|(door, _)| door).chain(&running.agents);
        let state = State {
            manifest: deployment.manifest.clone(),
            pins: deployment.pins.clone(),
            unpacked: deployment.unpacked.iter().cloned().collect(),
            by_hand: BTreeSet::new(),
        };
        HostOperator {
            rooms: all().map(room).collect(),
            host: running.host.clone(),
            doors: all().cloned().collect(),
            loader: Arc::clone(&running.loader),
            tooling: Arc::clone(&running.tooling),
            switches: Arc::clone(&running.switches),
            store: Arc::clone(&running.store),
            directory: origin
                .environment
                .absolute(extras.directory.as_deref().unwrap_or(&origin.environment.directory)),
            extras,
            log,
            origin,
            state: Mutex::new(state),
            exposure_told: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    async fn answer(&self, request: Request) -> anyhow::Result<Value> {
        match request {
            Request::Status => Ok(self.status().await),
            Request::Connections { door } => self.connections(door.as_deref()),
            Request::Swap { component, source } => self.swap(&component, &source).await,
            Request::Rollback { component } => self.rollback(&component).await,
            Request::Drain { door } => {
                let asked = self.door(&door)?.slot.drain();
                Ok(json!({ "door": door, "asked": asked }))
            }
            Request::Reload => self.reload().await,
            Request::Log { level } => {
                self.log.choose(&level)?;
                Ok(json!({ "level": level }))
            }
            Request::Permissions { session, set } => self.permissions(&session, set).await,
            Request::KillJob { session, job } => {
                self.tooling.tools.kill_job(&SessionId::from(session.as_str()), &job)?;
                Ok(json!({ "session": session, "job": job, "asked": true }))
            }
        }
    }

    async fn status(&self) -> Value {
        let (sessions, jobs) = match self.sessions().await {
            Ok(live) => (Some(live.sessions.len()), Some(live.jobs)),
            // The loop is busy or about to end; the rest is known all the same.
            Err(error) => {
                tracing::warn!(error = whole(&error), "live sessions are not known");
                (None, None)
            }
        };
        let rows: Vec<_> = self.doors.iter().map(|door| status::door(&door.slot)).collect();
        json!({
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_ms": u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "doors": rows,
            "sessions": sessions,
            "jobs": jobs,
            "confiner": self.tooling.report(),
        })
    }

    fn connections(&self, door: Option<&str>) -> anyhow::Result<Value> {
        let doors = match door {
            None => self.doors.iter().collect(),
            Some(name) => vec![self.door(name)?],
        };
        let rows: Vec<_> = doors.iter().flat_map(|door| status::connections(&door.slot)).collect();
        Ok(json!({ "connections": rows }))
    }

    fn door(&self, name: &str) -> anyhow::Result<&OpenDoor> {
        if let Some(door) = self.doors.iter().find(|door| &*door.name == name) {
            return Ok(door);
        }
        let known: Vec<_> = self.doors.iter().map(|door| &*door.name).collect();
        bail!("unknown door `{name}`; there are {}", known.join(", "));
    }

    /// The doors at which a component serves.
    fn serving(&self, component: &str) -> anyhow::Result<Vec<&OpenDoor>> {
        let doors: Vec<_> =
            self.doors.iter().filter(|door| &**door.slot.component() == component).collect();
        if doors.is_empty() {
            let mut known: Vec<_> =
                self.doors.iter().map(|door| &**door.slot.component()).collect();
            known.dedup();
            bail!("no door uses a component `{component}`; there are {}", known.join(", "));
        }
        Ok(doors)
    }

    /// Fetches, checks, compiles and tries a file, then makes it the active version.
    async fn swap(&self, component: &str, source: &Path) -> anyhow::Result<Value> {
        let doors = self.serving(component)?;
        if component == "frames" {
            bail!("`frames` is the host's own language and has no component that could be swapped");
        }
        let mut state = self.state.lock().await;
        let mut versions = Vec::new();
        for door in &doors {
            let origin = Origin::File(source.to_owned());
            versions.push(self.load(&state, door, origin).await?);
        }
        let rows = self.commit(&state.manifest, &doors, versions).await;
        state.by_hand.insert(component.to_owned());
        Ok(json!({ "component": component, "source": source, "doors": rows }))
    }

    /// A version that has been found to fit its door. Nothing has changed yet.
    async fn load(
        &self,
        state: &State,
        door: &OpenDoor,
        origin: Origin,
    ) -> anyhow::Result<Version> {
        self.load_with(&state.manifest, &state.pins, door, origin).await.map(|(_, version)| version)
    }

    /// The same, and the policy as its file has it, which may want more than there is room for.
    async fn load_with(
        &self,
        manifest: &Manifest,
        pins: &Pins,
        door: &OpenDoor,
        origin: Origin,
    ) -> anyhow::Result<(Arc<Policy>, Version)> {
        let room = self.rooms.get(&door.name).copied().unwrap_or(u64::MAX);
        let (loader, door) = (Arc::clone(&self.loader), door.clone());
        let (manifest, pins) = (manifest.clone(), pins.clone());
        // Compiling takes a second and more, and peers are served meanwhile.
        let loaded = background::run(move || {
            let mut version = loader.version(&manifest, &pins, &door.name, origin)?;
            doors::fits(&door, &version)?;
            let wanted = Arc::clone(&version.policy);
            // Room for connections was set aside when the host started.
            if wanted.limits.connections_max > room {
                Arc::make_mut(&mut version.policy).limits.connections_max = room;
            }
            anyhow::Ok((wanted, version))
        });
        loaded.await.context("loading the component failed")?
    }

    async fn commit(
        &self,
        manifest: &Manifest,
        doors: &[&OpenDoor],
        versions: Vec<Version>,
    ) -> Vec<Value> {
        let mut swapped = Vec::new();
        for (door, Version { source, options, policy }) in doors.iter().zip(versions) {
            let leftovers = doors::leftovers(manifest, door.slot.component());
            swapped.push((*door, door.slot.swap(source, options, policy, leftovers)));
        }
        moved(&swapped).await
    }

    async fn rollback(&self, component: &str) -> anyhow::Result<Value> {
        let doors = self.serving(component)?;
        let mut state = self.state.lock().await;
        let mut swapped = Vec::new();
        for door in doors {
            if let Ok(one) = door.slot.rollback() {
                swapped.push((door, one));
            }
        }
        if swapped.is_empty() {
            bail!("there is no version of `{component}` before this one to go back to");
        }
        state.by_hand.insert(component.to_owned());
        Ok(json!({ "component": component, "doors": moved(&swapped).await }))
    }
}

impl control::Operator for HostOperator {
    async fn perform(&self, request: Request) -> Result<Value, Refused> {
        self.answer(request).await.map_err(|error| Refused(whole(&error)))
    }
}

/// An error with everything that it comes from, as the program itself would say it.
pub(crate) fn whole(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Waits until live connections have been moved, and says what became of them.
async fn moved(swapped: &[(&OpenDoor, Arc<Swapped>)]) -> Vec<Value> {
    let end = Instant::now() + MOVES_WAIT;
    let mut rows = Vec::new();
    for (door, swapped) in swapped {
        let (mut left, mut since) = (usize::MAX, Instant::now());
        while door.slot.active().number == swapped.version && Instant::now() < end {
            let unheard = door.slot.unheard();
            if unheard == 0 {
                break;
            }
            if unheard < left {
                (left, since) = (unheard, Instant::now());
            } else if since.elapsed() > MOVES_REST {
                since = Instant::now();
                door.slot.hurry();
            }
            sleep(MOVES_LOOK).await;
        }
        let mut row = status::swap(swapped);
        if let Value::Object(row) = &mut row {
            row.insert("door".to_owned(), json!(&*door.name));
            row.insert("behind".to_owned(), json!(behind(door, swapped)));
        }
        rows.push(row);
    }
    rows
}

/// How many connections another version serves.
fn behind(door: &OpenDoor, swapped: &Swapped) -> u64 {
    let connections = door.slot.connections();
    let behind = |version: u64| version != swapped.version;
    connections.iter().filter(|one| behind(one.version.load(Ordering::Relaxed))).count() as u64
}
