//! The probe (P-58): each wall is put up in a throw-away process, which then tries what must be refused and what must
//! go on working. A wall counts only if all of it went as it must.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::{geteuid, mkdtemp};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tracing::debug;

use crate::{
    command::Command,
    confine::{
        Confined, Launcher, capabilities,
        network::{self, SessionNetwork},
        plan::{Attempt, Layers, Plan, Task, Width},
        prepare,
        report::Report,
        system,
    },
    places::{Confinement, Network, Places},
    spawner::Spawner,
};

/// How long all trials together may take. What is not proven by then does not count.
const PROBE_MS_MAX: Duration = Duration::from_millis(2_000);

/// Roots that every session has (P-44).
const STANDARD_ROOTS: [&str; 2] = ["/tmp", "/dev/shm"];

pub(crate) async fn run(
    settings: &Confinement,
    launcher: &Launcher,
    spawner: &Spawner,
) -> (Layers, Report) {
    let layers = if settings.off {
        Layers::default()
    } else {
        let temp = settings.temp.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
        let place = temp.clone();
        match away(move || Ground::prepare(&place)).await.flatten() {
            Ok(ground) => {
                let trials = Trials { launcher, spawner, ground };
                let layers = trials.layers().await;
                let ground = trials.ground;
                // It fails only while the runtime shuts down; then the place is removed here.
                let _ = away(move || drop(ground)).await;
                layers
            }
            Err(error) => {
                debug!(%error, directory = %temp.display(), "no place to try a confiner in");
                Layers::default()
            }
        }
    };
    let standard: Vec<_> =
        STANDARD_ROOTS.iter().map(PathBuf::from).chain(settings.temp.clone()).collect();
    let absent = away(move || standard.into_iter().filter(|root| !root.is_dir()).collect()).await;
    let absent = absent.unwrap_or_default();
    let report = Report::new(&layers, settings, geteuid().is_root(), absent);
    (layers, report)
}

/// Looks at files away from the runtime's workers.
async fn away<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    spawn_blocking(look).await.map_err(io::Error::other)
}

/// A directory to try things in. It is removed in the end.
struct Ground {
    directory: PathBuf,
}

impl Ground {
    fn prepare(temp: &Path) -> io::Result<Ground> {
        let directory = mkdtemp(&temp.join("transom-probe-XXXXXX"))?;
        // From here on it is removed, whatever fails.
        let ground = Ground { directory: fs::canonicalize(directory)? };
        for name in ["inside/hidden", "outside/hidden"] {
            fs::create_dir_all(ground.path(name))?;
        }
        for name in [
            "inside/guarded",
            "inside/hidden/file",
            "inside/plain",
            "outside/plain",
            "outside/hidden/file",
        ] {
            fs::write(ground.path(name), "plain")?;
        }
        fs::set_permissions(ground.path("outside/plain"), Permissions::from_mode(0o600))?;
        Ok(ground)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn places(&self, hidden: &str) -> Places {
        Places {
            workspace: self.path("inside"),
            roots: vec![self.path("inside")],
            own: None,
            private: vec![self.path(hidden)],
            secrets: Vec::new(),
            guarded: vec![self.path("inside/guarded")],
            guard_git: false,
            absent: Vec::new(),
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            debug!(%error, directory = %self.directory.display(), "the place of the trials is left behind");
        }
    }
}

struct Trials<'a> {
    launcher: &'a Launcher,
    spawner: &'a Spawner,
    ground: Ground,
}

/// What a trial must come to.
#[derive(Debug, Clone, Copy)]
enum Must {
    Succeed,
    FailWith(i32),
    Fail,
}

impl Must {
    fn admits(self, errno: i32) -> bool {
        match self {
            Must::Succeed => errno == 0,
            Must::FailWith(expected) => errno == expected,
            Must::Fail => errno != 0,
        }
    }
}

impl Trials<'_> {
    async fn layers(&self) -> Layers {
        let deadline = Instant::now() + PROBE_MS_MAX;
        let user = !capabilities::administers();
        let abi = system::landlock_abi();
        let (landlock, seccomp, mounts, loopback) = tokio::join!(
            timeout_at(deadline, self.landlock(abi)),
            timeout_at(deadline, self.seccomp()),
            timeout_at(deadline, self.mounts(abi, user)),
            timeout_at(deadline, self.loopback(user)),
        );
        Layers {
            landlock: abi.filter(|_| landlock == Ok(true)),
            seccomp: seccomp == Ok(true),
            mounts: mounts == Ok(true),
            loopback: loopback == Ok(true),
            user,
        }
    }

    async fn landlock(&self, abi: Option<u32>) -> bool {
        let path = |name| self.ground.path(name);
        let layers = Layers { landlock: abi, ..Layers::default() };
        let trials = [
            (Attempt::Write(path("inside/new")), Must::Succeed),
            (Attempt::Write(path("outside/new")), Must::FailWith(libc::EACCES)),
            (Attempt::Write(path("outside/plain")), Must::FailWith(libc::EACCES)),
            (Attempt::Read(path("outside/plain")), Must::Succeed),
            (Attempt::Read(path("outside/hidden/file")), Must::FailWith(libc::EACCES)),
        ];
        abi.is_some()
            && self
                .went_well(
                    "landlock",
                    &layers,
                    Width::WorkspaceWrite,
                    "outside/hidden",
                    None,
                    &trials,
                )
                .await
    }

    async fn seccomp(&self) -> bool {
        let layers = Layers { seccomp: true, ..Layers::default() };
        let trials = [
            (Attempt::Internet, Must::FailWith(libc::ENETUNREACH)),
            (Attempt::Pair, Must::Succeed),
            (Attempt::Chmod(self.ground.path("outside/plain")), Must::FailWith(libc::EACCES)),
            (Attempt::Read(self.ground.path("outside/plain")), Must::Succeed),
        ];
        self.went_well("seccomp", &layers, Width::ReadOnly, "outside/hidden", None, &trials).await
    }

    /// Without Landlock, if there is none: then the mounts have to hide the devices, too.
    async fn mounts(&self, landlock: Option<u32>, user: bool) -> bool {
        let path = |name| self.ground.path(name);
        let layers = Layers { mounts: true, landlock, user, ..Layers::default() };
        let read_only = if landlock.is_some() { Must::Fail } else { Must::FailWith(libc::EROFS) };
        let trials = [
            (Attempt::Write(path("inside/new-too")), Must::Succeed),
            (Attempt::Write(path("outside/new-too")), read_only),
            (Attempt::Write(path("inside/guarded")), Must::FailWith(libc::EROFS)),
            (Attempt::Read(path("inside/guarded")), Must::Succeed),
            (Attempt::Chmod(path("outside/plain")), Must::FailWith(libc::EROFS)),
            (Attempt::Read(path("inside/hidden/file")), Must::Fail),
            (Attempt::Write(PathBuf::from("/dev/null")), Must::Succeed),
        ];
        self.went_well("mounts", &layers, Width::WorkspaceWrite, "inside/hidden", None, &trials)
            .await
    }

    async fn loopback(&self, user: bool) -> bool {
        let network = match network::make(self.launcher, self.spawner, user).await {
            Ok(network) => network,
            Err(error) => {
                debug!(%error, layer = "network", "a wall cannot be put up");
                return false;
            }
        };
        let layers = Layers { user, ..Layers::default() };
        let trials = [
            (Attempt::Loopback, Must::Succeed),
            (Attempt::Outside, Must::FailWith(libc::ENETUNREACH)),
        ];
        self.went_well(
            "network",
            &layers,
            Width::ReadOnly,
            "outside/hidden",
            Some(&network),
            &trials,
        )
        .await
    }

    async fn went_well(
        &self,
        layer: &str,
        layers: &Layers,
        width: Width,
        hidden: &str,
        network: Option<&SessionNetwork>,
        trials: &[(Attempt, Must)],
    ) -> bool {
        let mut plan =
            Plan::new(layers, Network::Deny, Network::Deny, width, &self.ground.places(hidden));
        plan.task = Task::Try(trials.iter().map(|(attempt, _)| attempt.clone()).collect());
        match self.results(plan, network).await {
            Ok(results) => {
                let well = results.len() == trials.len()
                    && results.iter().zip(trials).all(|(errno, (_, must))| must.admits(*errno));
                if !well {
                    debug!(layer, ?trials, ?results, "a wall does not hold");
                }
                well
            }
            Err(error) => {
                debug!(%error, layer, "a wall cannot be put up");
                false
            }
        }
    }

    async fn results(&self, plan: Plan, network: Option<&SessionNetwork>) -> io::Result<Vec<i32>> {
        let Confined { command, verdict } =
            prepare(self.launcher, plan, network, Command::new("/"))?;
        // Dropped, and with that ended, only after it was heard.
        let _process = self.spawner.spawn(command).await.map_err(io::Error::other)?;
        let text = verdict.text().await?;
        // Not a list: a launcher that failed says why, and that is the error's text.
        serde_json::from_str(&text).map_err(|_| io::Error::other(text))
    }
}
