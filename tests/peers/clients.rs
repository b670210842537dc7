//! Installs the published clients, once for all tests, and lets their drivers play scenarios with the
//! program. What a scenario shows is judged in `main.rs`.

use std::{
    collections::BTreeSet,
    env, fs,
    fs::File,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::model_server::{ModelServer, Recorded, Reply, delta, finish, usage};

/// Bounds a hang: a scenario takes seconds, on the slowest machine a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// A published client and the form in which it launches the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drive {
    /// Python 0.1.0rc6: `runtime_bin`, with the default configuration of its own release.
    Baseline,
    /// Python 0.2.1rc2: `dsh_bin` and a profile.
    Later,
    /// TypeScript 0.0.1-rc.1 with a configuration file.
    ScriptA,
    /// TypeScript 0.0.1-rc.1 with a profile.
    ScriptB,
}

impl Drive {
    pub(crate) const ALL: [Drive; 4] =
        [Drive::Baseline, Drive::Later, Drive::ScriptA, Drive::ScriptB];
    pub(crate) const PYTHON: [Drive; 2] = [Drive::Baseline, Drive::Later];
    pub(crate) const SCRIPT: [Drive; 2] = [Drive::ScriptA, Drive::ScriptB];

    /// How complaints call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Drive::Baseline => "python 0.1.0rc6",
            Drive::Later => "python 0.2.1rc2",
            Drive::ScriptA => "typescript 0.0.1-rc.1, form A",
            Drive::ScriptB => "typescript 0.0.1-rc.1, form B",
        }
    }

    /// Python tells the finish reason of a run, TypeScript has no such member (S-163).
    pub(crate) fn tells_finish_reason(self) -> bool {
        Drive::PYTHON.contains(&self)
    }

    /// What this client calls an error reply.
    pub(crate) fn error_class(self) -> &'static str {
        if self.tells_finish_reason() { "JsonRpcError" } else { "JsonRpcResponseError" }
    }

    fn command(self) -> Command {
        let script = |name: &str| here().join(name);
        match self {
            Drive::Baseline => {
                let mut command = Command::new(BASELINE.join("bin/python"));
                command.arg(script("python_0_1_0rc6.py"));
                command
            }
            Drive::Later => {
                let mut command = Command::new(LATER.join("bin/python"));
                command.arg(script("python_0_2_1rc2.py"));
                command
            }
            Drive::ScriptA | Drive::ScriptB => {
                let mut command = Command::new("node");
                command.arg(script("typescript.mjs"));
                command
            }
        }
    }

    fn settings(self, model: &str, work: &Path) -> Value {
        let mut settings = json!({"model": model, "work": work, "ids": ODD_IDS});
        match self {
            Drive::Baseline => settings["config"] = json!(*PACKAGED_CONFIGURATION),
            Drive::Later => {}
            Drive::ScriptA | Drive::ScriptB => {
                settings["client"] = json!(*SCRIPT);
                settings["config"] = json!(here().join("cordis.yml"));
                settings["form"] = json!(if self == Drive::ScriptA { "a" } else { "b" });
            }
        }
        settings
    }
}

/// Session ids that a careless host would take for paths, headers or patterns (S-57).
pub(crate) const ODD_IDS: [&str; 12] = [
    "a/b..c",
    "../../escape",
    "/etc/escape",
    "with space",
    "你好🦀",
    "quote\"back\\slash",
    "%2e%2e%2fescape",
    ".",
    "CON",
    "line\nbreak",
    "tab\tand nul\0",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

/// What a scenario showed.
pub(crate) struct Shown {
    pub(crate) drive: Drive,
    /// The driver's JSON object.
    pub(crate) value: Value,
    /// What reached the model server.
    pub(crate) requests: Vec<Recorded>,
    /// Paths below the work directory, relative to it, that are not the store's.
    pub(crate) files: BTreeSet<String>,
    /// The clients' working directory.
    pub(crate) workspace: PathBuf,
}

/// Plays a scenario: a fresh model server, fresh directories, one driver process.
pub(crate) fn play(drive: Drive, scenario: &str) -> Result<Shown, String> {
    let model = ModelServer::start();
    model.on("GATE", command("cat gate"));
    model.on("WHERE", command("pwd -P"));
    let scratch = TempDir::new().expect("a scratch directory");
    let work = scratch.path().canonicalize().expect("the scratch directory's true path");
    let workspace = work.join("workspace");
    for directory in [&workspace, &work.join("home")] {
        fs::create_dir(directory).expect("a directory");
    }

    let mut driver = drive.command();
    driver
        .arg(drive.settings(&model.base_url(), &work).to_string())
        .arg(scenario)
        .current_dir(&work)
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("HOME", work.join("home"))
        .env("LANG", "C.UTF-8")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("XDG_CACHE_HOME", &*CACHE)
        .env("TRANSOM_BIN", &*PROGRAM);
    let output = finished(driver)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = || {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("the driver ended with {}\nstdout: {text}\nstderr: {errors}", output.status)
    };
    if !output.status.success() {
        return Err(complaint());
    }
    let value: Value = text
        .lines()
        .next()
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or_else(complaint)?;
    if let Some(left) = process_in(&workspace) {
        return Err(format!("a process outlived the runtime: {left}"));
    }
    let mut files = BTreeSet::new();
    list(&work, &work, &mut files);
    Ok(Shown { drive, value, requests: model.requests(), files, workspace })
}

/// A model reply that calls `bash`.
fn command(line: &str) -> Reply {
    let arguments = json!({"command": line, "description": "Show a line"}).to_string();
    Reply::events(&[
        delta(json!({"role": "assistant", "content": null})),
        delta(json!({"tool_calls": [{
            "index": 0, "id": "call_mock_1", "type": "function",
            "function": {"name": "bash", "arguments": arguments},
        }]})),
        finish("tool_calls"),
        usage(),
    ])
}

/// Runs a driver to its end, or ends it with everything it started.
fn finished(mut driver: Command) -> Result<Output, String> {
    let child = driver
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| {
            let program = driver.get_program().to_owned();
            format!("{program:?} did not start: {error}; install Python 3.10 or later and Node.js 20 or later")
        })?;
    let group = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    let (done, waited) = mpsc::sync_channel(1);
    thread::spawn(move || {
        // Nobody waits any more when the patience is over.
        let _ = done.send(child.wait_with_output());
    });
    match waited.recv_timeout(PATIENCE) {
        Ok(output) => Ok(output.expect("the driver's output")),
        Err(_) => {
            // It may have ended in this moment.
            let _ = killpg(group, Signal::SIGKILL);
            let output = waited.recv().expect("the waiting thread").expect("the driver's output");
            Err(format!(
                "the driver took more than {PATIENCE:?}; stderr: {}",
                String::from_utf8_lossy(&output.stderr)
            ))
        }
    }
}

/// A process whose directory is in this one; none where the system does not tell.
fn process_in(directory: &Path) -> Option<String> {
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(cwd) = fs::read_link(entry.path().join("cwd")) else { continue };
        if cwd.starts_with(directory) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            return Some(format!("{:?}: {}", entry.file_name(), String::from_utf8_lossy(&line)));
        }
    }
    None
}

fn list(root: &Path, directory: &Path, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory to read").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).expect("a path below the root").display().to_string();
        if name == "store" {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(root, &path, files);
        }
        files.insert(name);
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Where installed clients live: below the build directory, so that they are thrown away with it.
fn installed() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    workspace.join("target/peers")
}

pub(crate) static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let program = env::var_os("TRANSOM_BIN").map_or_else(
        || {
            let test = env::current_exe().expect("this test's own path");
            let profile = test.parent().and_then(Path::parent).expect("the build directory");
            profile.join("transom")
        },
        PathBuf::from,
    );
    assert!(
        program.is_file(),
        "{} is not there: build it with `cargo build -p transom`, or name it in TRANSOM_BIN",
        program.display()
    );
    program
});

/// One cache of compiled components for all runs, filled before the first: clients give a runtime one
/// second to answer, and compiling is no part of what they ask.
static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
    let cache = installed().join("cache");
    fs::create_dir_all(&cache).expect("a cache directory");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).expect("a private directory");
    let home = TempDir::new().expect("a home");
    run(
        "the program has to end well when its input is empty",
        Command::new(&*PROGRAM)
            .args(["--profile", "sdk"])
            .current_dir(home.path())
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path())
            .env("DSH_HOME", home.path())
            .env("XDG_CACHE_HOME", &cache),
    );
    cache
});

static BASELINE: LazyLock<PathBuf> = LazyLock::new(|| python("0_1_0rc6"));
static LATER: LazyLock<PathBuf> = LazyLock::new(|| python("0_2_1rc2"));

static PACKAGED_CONFIGURATION: LazyLock<PathBuf> = LazyLock::new(|| {
    let pin = here().join("packaged-configuration.txt");
    let python = BASELINE.join("bin/python");
    let place = once("packaged-configuration", &[&pin], |place| {
        // Any platform's wheel has the same file; this one exists for every release.
        run(
            "needs the package index the first time",
            Command::new(&python)
                .args([
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                ])
                .args(["--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--dest"])
                .arg(place)
                .arg("--requirement")
                .arg(&pin),
        );
        run(
            "the wheel has no default configuration",
            Command::new(&python)
                .arg("-c")
                .arg(
                    "import glob, os, sys, zipfile\n\
                     wheel, = glob.glob(sys.argv[1] + '/*.whl')\n\
                     text = zipfile.ZipFile(wheel).read('deepseek_harness_runtime/runtime/cordis.yml')\n\
                     open(sys.argv[1] + '/cordis.yml', 'wb').write(text)\n\
                     os.remove(wheel)",
                )
                .arg(place),
        );
    });
    place.join("cordis.yml")
});

static SCRIPT: LazyLock<PathBuf> = LazyLock::new(|| {
    let pins = ["package.json", "package-lock.json", ".npmrc"].map(|name| here().join(name));
    once("typescript", &pins.each_ref(), |place| {
        for pin in &pins {
            fs::copy(pin, place.join(pin.file_name().expect("a file"))).expect("a copy");
        }
        run(
            "install Node.js 20 or later with npm; the first time, it needs the package registry",
            Command::new("npm").args(["ci", "--ignore-scripts"]).current_dir(place),
        );
    })
});

fn python(release: &str) -> PathBuf {
    let pins = here().join(format!("requirements-{release}.txt"));
    once(&format!("python-{release}"), &[&pins], |place| {
        run(
            "install Python 3.10 or later with the venv module",
            Command::new("python3").args(["-m", "venv"]).arg(place),
        );
        run(
            "needs the package index the first time",
            Command::new(place.join("bin/python"))
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                ])
                .arg("--requirement")
                .arg(&pins),
        );
    })
}

/// Installs into a directory unless the same pins were installed there before. Other test processes
/// wait for the one that does it.
pub(crate) fn once(name: &str, pins: &[&PathBuf], install: impl FnOnce(&Path)) -> PathBuf {
    let root = installed();
    fs::create_dir_all(&root).expect("a directory for the clients");
    let lock = File::create(root.join(format!("{name}.lock"))).expect("a lock file");
    lock.lock().expect("the lock");
    let wanted: String = pins
        .iter()
        .map(|pin| {
            fs::read_to_string(pin).unwrap_or_else(|error| panic!("{}: {error}", pin.display()))
        })
        .collect();
    let place = root.join(name);
    let mark = place.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return place;
    }
    if place.exists() {
        fs::remove_dir_all(&place).expect("the older installation can be removed");
    }
    fs::create_dir(&place).expect("a directory for the client");
    install(&place);
    fs::write(&mark, wanted).expect("the mark of a complete installation");
    place
}

pub(crate) fn run(remedy: &str, command: &mut Command) {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{:?} did not start: {error}; {remedy}", command.get_program()),
    };
    assert!(
        output.status.success(),
        "{command:?} failed; {remedy}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
