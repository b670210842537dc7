//! The probe (P-58): each wall is put up in a throw-away process, which then tries what must be refused and what must
//! go on working. A wall counts only if all of it went as it must.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::geteuid;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tracing::{debug, warn};

use crate::{
    command::Command,
    confine::{
        Confined, Launcher, capabilities, files,
        network::{self, SessionNetwork},
        plan::{Attempt, LauncherFailed, Layers, Plan, Task, Width},
        prepare,
        report::Report,
        system,
    },
    own::OwnDirectory,
    places::{Confinement, Network, Places},
    spawner::Spawner,
};

/// How long all trials together may take. What is not proven by then does not count.
const PROBE_MS_MAX: Duration = Duration::from_millis(2_000);

/// Roots that every session has (P-44).
const STANDARD_ROOTS: [&str; 2] = ["/tmp", "/dev/shm"];

/// Where the trials take place if Transom has no home, and the temporary directory is too full to hide something in.
const SPARE: &str = "/var/tmp";

pub(crate) async fn run(
    settings: &Confinement,
    launcher: &Launcher,
    spawner: &Spawner,
) -> (Layers, Report) {
    let found = if settings.off {
        Found::default()
    } else {
        let places = candidates(settings);
        match away(move || Ground::prepare(&places)).await.flatten() {
            Ok(ground) => {
                let trials = Trials { launcher, spawner, ground };
                let found = trials.found().await;
                let ground = trials.ground;
                // It fails only while the runtime shuts down; then the place is removed here.
                let _ = away(move || drop(ground)).await;
                found
            }
            Err(error) => {
                warn!(%error, "no place to try a confiner in");
                let why = format!("no confiner could be tried: {error}");
                Found { layers: Layers::default(), untried: vec![(None, why)] }
            }
        }
    };
    let standard: Vec<_> =
        STANDARD_ROOTS.iter().map(PathBuf::from).chain(settings.temp.clone()).collect();
    let absent = away(move || standard.into_iter().filter(|root| !root.is_dir()).collect()).await;
    let absent = absent.unwrap_or_default();
    let mut report = Report::new(&found.layers, settings, geteuid().is_root(), absent);
    for (gap, why) in found.untried {
        report.explain(gap, &why);
    }
    (found.layers, report)
}

/// What the trials came to.
#[derive(Debug, Default)]
struct Found {
    layers: Layers,
    /// Walls that this kernel has and that could not be put up all the same, by the names of their gaps, and why.
    /// Without a name: all of them.
    untried: Vec<(Option<&'static str>, String)>,
}

/// Where the trials may take place, the best place first. In the host's own directory something has to be hidden for
/// every command anyhow; a temporary directory may hold anything, and as much of it as anybody likes.
fn candidates(settings: &Confinement) -> Vec<PathBuf> {
    let temp = settings.temp.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
    settings.run.clone().into_iter().chain([temp, PathBuf::from(SPARE)]).collect()
}

/// Looks at files away from the runtime's workers.
async fn away<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    spawn_blocking(look).await.map_err(io::Error::other)
}

/// A directory to try things in. It is removed in the end.
struct Ground {
    /// Held for its end.
    _own: OwnDirectory,
    directory: PathBuf,
}

impl Ground {
    /// Stands in the first of these places where it can, and where something can be hidden. If there is none of the
    /// second kind, in the first: the trial then says what is in the way.
    fn prepare(places: &[PathBuf]) -> io::Result<Ground> {
        let (roomy, full): (Vec<_>, Vec<_>) = places.iter().partition(|place| files::hides(place));
        let mut first = None;
        for place in roomy.into_iter().chain(full) {
            match Ground::stand(place) {
                Ok(ground) => return Ok(ground),
                Err(error) => {
                    debug!(%error, directory = %place.display(), "no confiner can be tried here");
                    let text = format!("{}: {error}", place.display());
                    first.get_or_insert(io::Error::new(error.kind(), text));
                }
            }
        }
        Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn stand(place: &Path) -> io::Result<Ground> {
        // What the host keeps its sessions' directories in is made with the first of them.
        DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        let own = OwnDirectory::new(place, "transom-probe-")?;
        let directory = fs::canonicalize(own.path())?;
        let ground = Ground { _own: own, directory };
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
    async fn found(&self) -> Found {
        let deadline = Instant::now() + PROBE_MS_MAX;
        let user = !capabilities::administers();
        let abi = system::landlock_abi();
        let (landlock, seccomp, mounts, loopback) = tokio::join!(
            timeout_at(deadline, self.landlock(abi)),
            timeout_at(deadline, self.seccomp()),
            timeout_at(deadline, self.mounts(abi, user)),
            timeout_at(deadline, self.loopback(user)),
        );
        let landlock = landlock.unwrap_or_else(|_| {
            Err(format!("its trial took longer than {} ms", PROBE_MS_MAX.as_millis()))
        });
        let mut untried = Vec::new();
        if let (Some(abi), Err(error)) = (abi, &landlock) {
            warn!(error, abi, "this kernel has Landlock, which failed in a trial");
            let why = format!("this kernel has Landlock, which failed in a trial: {error}");
            untried.push((Some("landlock"), why));
        }
        let layers = Layers {
            landlock: abi.filter(|_| landlock.is_ok()),
            seccomp: seccomp == Ok(true),
            mounts: mounts == Ok(true),
            loopback: loopback == Ok(true),
            user,
        };
        Found { layers, untried }
    }

    /// Where there is one, and it does not hold: why.
    async fn landlock(&self, abi: Option<u32>) -> Result<(), String> {
        let places = self.ground.places("outside/hidden");
        let path = |name| self.ground.path(name);
        let layers = Layers { landlock: abi, ..Layers::default() };
        let trials = [
            (Attempt::Write(path("inside/new")), Must::Succeed),
            (Attempt::Write(path("outside/new")), Must::FailWith(libc::EACCES)),
            (Attempt::Write(path("outside/plain")), Must::FailWith(libc::EACCES)),
            (Attempt::Read(path("outside/plain")), Must::Succeed),
            (Attempt::Read(path("outside/hidden/file")), Must::FailWith(libc::EACCES)),
        ];
        if abi.is_none() {
            return Err("there is none".to_owned());
        }
        let width = Width::WorkspaceWrite;
        self.tried("landlock", &layers, width, &places, None, &trials).await
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
        let places = self.ground.places(hidden);
        self.tried(layer, layers, width, &places, network, trials).await.is_ok()
    }

    /// If it does not go as it must: why not, in words.
    async fn tried(
        &self,
        layer: &str,
        layers: &Layers,
        width: Width,
        places: &Places,
        network: Option<&SessionNetwork>,
        trials: &[(Attempt, Must)],
    ) -> Result<(), String> {
        let mut plan = Plan::new(layers, Network::Deny, Network::Deny, width, places);
        plan.task = Task::Try(trials.iter().map(|(attempt, _)| attempt.clone()).collect());
        match self.results(plan, network).await {
            Ok(results) => {
                let well = results.len() == trials.len()
                    && results.iter().zip(trials).all(|(errno, (_, must))| must.admits(*errno));
                if well {
                    return Ok(());
                }
                debug!(layer, ?trials, ?results, "a wall does not hold");
                Err("it does not hold".to_owned())
            }
            Err(error) => {
                debug!(%error, layer, "a wall cannot be put up");
                Err(error.to_string())
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
        serde_json::from_str(&text).map_err(|_| match serde_json::from_str(&text) {
            Ok(failed) => io::Error::other::<LauncherFailed>(failed),
            Err(_) => io::Error::other(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::{Confinement, Ground, candidates, files};

    /// P-58: what lies in the temporary directory does not decide what confines.
    #[test]
    fn the_trials_stand_where_something_can_be_hidden() {
        let directory = tempfile::tempdir().unwrap();
        let (temp, run) = (directory.path().join("temp"), directory.path().join("home/run"));
        fs::create_dir(&temp).unwrap();
        for number in 0..5_000 {
            File::create(temp.join(number.to_string())).unwrap();
        }
        assert!(!files::hides(&temp));
        let settings =
            |run| Confinement { run, temp: Some(temp.clone()), ..Confinement::default() };
        let stands = |settings| {
            let ground = Ground::prepare(&candidates(&settings)).unwrap();
            assert!(ground.path("outside/hidden/file").is_file());
            ground.directory.parent().unwrap().to_owned()
        };
        let spare = fs::canonicalize("/var/tmp").unwrap();
        let full = fs::canonicalize(&temp).unwrap();
        // The test's own directory lies in one that may be full itself; the order then stays.
        if files::hides(directory.path()) {
            assert_eq!(stands(settings(Some(run.clone()))), fs::canonicalize(&run).unwrap());
        }
        if files::hides(&spare) {
            assert_eq!(stands(settings(None)), spare);
        }
        // Where nothing is better, the trial has to say what is in the way.
        let ground = Ground::prepare(std::slice::from_ref(&temp)).unwrap();
        assert_eq!(ground.directory.parent().unwrap(), full);
    }
}
