//! Real commands behind real walls. What a machine cannot do is not skipped: the report must then name the gap, and
//! that is what is asserted.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod confine {
    mod files;
    mod launcher;
    mod machines;
    mod network;
    mod privileges;
}

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tokio::{io::AsyncReadExt, runtime::Handle};
use transom_process::{
    Command, Confined, Confinement, Confiner, Exit, Launcher, LauncherFailed, Network, Places,
    Process, Profile, SessionNetwork, Spawner, Width, denial,
};

/// The program of `tests/programs`.
const REHEARSAL: &str = env!("CARGO_BIN_EXE_transom-rehearsal");

/// A machine with a workspace, a place outside it, and a host whose files are hidden.
struct House {
    directory: TempDir,
    settings: Confinement,
    spawner: Spawner,
    confiner: Confiner,
    network: Option<SessionNetwork>,
}

/// What became of a command.
#[derive(Debug)]
struct Ran {
    exit: Exit,
    stdout: String,
    stderr: String,
}

impl House {
    async fn new() -> House {
        House::with(|_| {}).await
    }

    /// With other settings than the default ones.
    async fn with(change: impl FnOnce(&mut Confinement)) -> House {
        // Not in the temporary directory: how many others keep something there must not matter.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["workspace", "outside", "home/store"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for name in ["workspace/file", "outside/file", "home/credentials", "home/store/log"] {
            fs::write(directory.path().join(name), "before\n").unwrap();
        }
        // The temporary directory is where all of this lies, so it must not be a root.
        let mut settings = Confinement {
            shared_temp: false,
            private: vec![directory.path().join("home")],
            ..Confinement::default()
        };
        change(&mut settings);
        let spawner = Spawner::new(Handle::current()).unwrap();
        let launcher = Launcher::program(Path::new(REHEARSAL), Vec::new()).unwrap();
        let confiner = Confiner::probe(&settings, launcher, &spawner).await;
        let network = confiner.network().await.unwrap();
        House { directory, settings, spawner, confiner, network }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn places(&self) -> Places {
        self.settings.places("session", &self.path("workspace")).unwrap()
    }

    fn profile(&self, width: Width) -> Profile {
        Profile { width, places: self.places(), network: self.network.clone() }
    }

    /// In the script `$D` is where everything lies, `$W`, `$O` and `$H` are workspace, outside and home, `$T` the program of the tests.
    fn bash(&self, script: &str) -> Command {
        let variables = [
            ("PATH", PathBuf::from("/usr/local/bin:/usr/bin:/bin")),
            ("D", self.path("")),
            ("W", self.path("workspace")),
            ("O", self.path("outside")),
            ("H", self.path("home")),
            ("T", PathBuf::from(REHEARSAL)),
        ];
        let variables =
            variables.map(|(name, value)| (name.to_owned(), value.display().to_string()));
        Command {
            arguments: vec!["-c".to_owned(), script.to_owned()],
            directory: Some(self.path("workspace")),
            environment: variables.to_vec(),
            ..Command::new("bash")
        }
    }

    async fn start(&self, command: Command, profile: &Profile) -> Result<Process, LauncherFailed> {
        let Confined { command, verdict } = self.confiner.confine(command, profile).unwrap();
        let process = self.spawner.spawn(command).await.unwrap();
        verdict.read().await.unwrap().map(|()| process)
    }

    async fn run(&self, width: Width, script: &str) -> Ran {
        let process = self.start(self.bash(script), &self.profile(width)).await.unwrap();
        ran(process).await
    }

    /// Fails, and looks like a denial to whoever reads its error output.
    async fn denied(&self, width: Width, script: &str) {
        let ran = self.run(width, script).await;
        let line = denial(width.name(), ran.exit, &ran.stderr, Network::Deny, false);
        let expected = format!("[sandbox: file access denied under {} mode]", width.name());
        assert_eq!(line.as_deref(), Some(expected.as_str()), "{script}: {ran:?}");
    }

    async fn allowed(&self, width: Width, script: &str) -> String {
        let ran = self.run(width, script).await;
        assert_eq!(ran.exit, Exit::Code(0), "{script}: {ran:?}");
        ran.stdout
    }

    fn has_gap(&self, name: &str) -> bool {
        self.confiner.report().gaps.iter().any(|gap| gap.name == name)
    }
}

async fn ran(mut process: Process) -> Ran {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let (mut out, mut err) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
    let (read, read_too) =
        tokio::join!(out.read_to_string(&mut stdout), err.read_to_string(&mut stderr));
    read.and(read_too).unwrap();
    Ran { exit: process.wait().await.unwrap(), stdout, stderr }
}
