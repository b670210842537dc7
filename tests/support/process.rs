//! The program as a child process with three pipes. Which arguments and environment mean what is left to the
//! tests.

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::{fd::AsRawFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, RecvTimeoutError, TryRecvError},
    },
    thread,
};

use nix::{
    sys::signal::{self, Signal as Number},
    unistd::Pid,
};

use super::wire::{PATIENCE, Signal, Wire, checked_line};

/// Lines that wait to be read by the test. A program that says more waits until its pipe has room.
const LINES_MAX: usize = 65_536;

/// The root of the checkout.
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the tests lie in a workspace").to_owned()
}

/// The program under test.
///
/// # Panics
///
/// When it is not there: a test that skipped itself would look like one that passed.
pub fn binary() -> PathBuf {
    let path = match env::var_os("TRANSOM_BIN") {
        Some(path) => PathBuf::from(path),
        None => workspace().join("target/debug/transom"),
    };
    assert!(path.is_file(), "the program is not at {}; run `cargo xtask test`", path.display());
    path
}

/// A component or hostile program that `cargo xtask` builds, as a path below `target`.
///
/// # Panics
///
/// When it is not there.
pub fn built(below_target: &str) -> PathBuf {
    let path = workspace().join("target").join(below_target);
    assert!(path.is_file(), "{} was not built; run `cargo xtask test`", path.display());
    path
}

/// How the program is to be started. Of this process's environment it inherits `PATH` alone.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    arguments: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    directory: Option<PathBuf>,
    /// Standard error takes nothing, like a log on a full disk.
    mute: bool,
}

impl Launch {
    /// With these arguments.
    pub fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Launch {
        Launch { arguments: arguments.into_iter().map(Into::into).collect(), ..Launch::default() }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Launch {
        self.arguments.push(argument.into());
        self
    }

    /// With this variable, in place of an earlier value.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Launch {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Without this variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Launch {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// In this directory.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Launch {
        self.directory = Some(directory.to_owned());
        self
    }

    /// With a standard error on which nothing can be written, as if its disk were full.
    #[must_use]
    pub fn mute(mut self) -> Launch {
        self.mute = true;
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(binary());
        if self.mute {
            command = Command::new("/bin/sh");
            command.args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"]).arg(binary());
        }
        command.args(&self.arguments).env_clear();
        if let Some(path) = env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Starts it.
    pub fn start(&self) -> Process {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let shown = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        Process::new(child)
    }

    /// Runs it to its end with this input.
    pub fn run(&self, input: &str) -> Finished {
        let mut process = self.start();
        process.write(input.as_bytes());
        process.close_input();
        process.finish()
    }
}

/// A program that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// Everything at once, as a snapshot shows it, with these texts replaced.
    pub fn shown(&self, replaced: &[(&str, &str)]) -> String {
        let mut shown = format!("exit {}\n", self.code);
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let mut text = text.clone();
            for (from, to) in replaced {
                text = text.replace(from, to);
            }
            for line in text.lines() {
                writeln!(shown, "{name}: {line}").expect("a string takes everything");
            }
        }
        shown
    }
}

/// A running program. Dropping it kills it.
pub struct Process {
    pid: Pid,
    input: Option<ChildStdin>,
    lines: Option<Receiver<Vec<u8>>>,
    errors: Arc<Mutex<Vec<u8>>>,
    errors_end: Receiver<()>,
    exit: Receiver<ExitStatus>,
    ended: Option<ExitStatus>,
    /// What the system calls the pipes of the wire, for example `pipe:[4711]`.
    pub pipes: [String; 2],
}

impl Process {
    fn new(mut child: Child) -> Process {
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        let input = child.stdin.take();
        let called = |descriptor: i32| {
            let name =
                fs::read_link(format!("/proc/self/fd/{descriptor}")).expect("an open descriptor");
            name.to_string_lossy().into_owned()
        };
        let pipes = [
            called(input.as_ref().expect("a piped input").as_raw_fd()),
            called(child.stdout.as_ref().expect("a piped output").as_raw_fd()),
        ];
        let (line, lines) = mpsc::sync_channel(LINES_MAX);
        let output = child.stdout.take().expect("a piped output");
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut bytes = Vec::new();
                match output.read_until(b'\n', &mut bytes) {
                    Ok(0) | Err(_) => return,
                    // Whoever closed the output wants the other end to notice: this drops the pipe.
                    Ok(_) if line.send(bytes).is_err() => return,
                    Ok(_) => {}
                }
            }
        });

        let errors = Arc::new(Mutex::new(Vec::new()));
        let (end, errors_end) = mpsc::sync_channel(1);
        let kept = Arc::clone(&errors);
        let mut said = child.stderr.take().expect("a piped error output");
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = said.read(&mut bytes) {
                kept.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
            let _ = end.send(());
        });

        let (status, exit) = mpsc::sync_channel(1);
        thread::spawn(move || {
            if let Ok(ended) = child.wait() {
                let _ = status.send(ended);
            }
        });
        Process { pid, input, lines: Some(lines), errors, errors_end, exit, ended: None, pipes }
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Stops listening. The pipe breaks once the program has written something more.
    pub fn close_output(&mut self) {
        self.lines = None;
    }

    /// Waits for the end with all that was said on the way to it.
    pub fn finish(&mut self) -> Finished {
        let mut stdout = String::new();
        while let Some(line) = self.line() {
            stdout.push_str(&line);
            stdout.push('\n');
        }
        let code = self.exit();
        Finished { code, stdout, stderr: self.diagnostics() }
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::Kill);
        assert_eq!(self.exit(), -9, "a killed process ends by that signal");
    }

    fn status(&mut self) -> ExitStatus {
        if let Some(ended) = self.ended {
            return ended;
        }
        match self.exit.recv_timeout(PATIENCE) {
            Ok(ended) => *self.ended.insert(ended),
            Err(_) => panic!("the program did not end in {PATIENCE:?}\n{}", self.diagnostics()),
        }
    }

    /// The lines that were written before it was killed; one that was cut off was never said.
    pub fn last_words(&mut self) -> Vec<String> {
        let lines = self.lines.take().expect("the output is open");
        let mut whole = Vec::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(bytes) => {
                    let line = bytes.strip_suffix(b"\n").map(<[u8]>::to_vec);
                    whole.extend(line.and_then(|line| String::from_utf8(line).ok()));
                }
                Err(RecvTimeoutError::Disconnected) => return whole,
                Err(RecvTimeoutError::Timeout) => panic!("somebody holds the output open"),
            }
        }
    }

    /// From now on no file that the program writes may grow: what a full disk looks like.
    pub fn fill_disk(&self) {
        let status =
            Command::new("prlimit").args(["--pid", &self.pid.to_string(), "--fsize=0:0"]).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "`prlimit` of util-linux limits the program's files"
        );
    }

    /// The processes below this one that are alive now.
    pub fn children(&self) -> Vec<i32> {
        let tasks = format!("/proc/{0}/task/{0}/children", self.pid);
        let listed = fs::read_to_string(tasks).unwrap_or_default();
        listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Wire for Process {
    fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        // A program that has ended already is found out by its exit.
        if let Err(error) = input.write_all(bytes).and_then(|()| input.flush()) {
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
        }
    }

    fn close_input(&mut self) {
        self.input = None;
    }

    fn signal(&mut self, signal: Signal) {
        let number = match signal {
            Signal::Interrupt => Number::SIGINT,
            Signal::Kill => Number::SIGKILL,
            Signal::Terminate => Number::SIGTERM,
        };
        // It may be gone: signals race with an end of its own.
        let _ = signal::kill(self.pid, number);
    }

    fn line(&mut self) -> Option<String> {
        let lines = self.lines.as_ref().expect("the output is open");
        match lines.recv_timeout(PATIENCE) {
            Ok(bytes) => Some(checked_line(bytes)),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("no line in {PATIENCE:?}; standard error says:\n{}", self.diagnostics())
            }
        }
    }

    fn exit(&mut self) -> i32 {
        let status = self.status();
        // What it said last is still on its way; a child that outlives it may keep the pipe, so not for ever.
        let _ = self.errors_end.recv_timeout(std::time::Duration::from_secs(1));
        status.code().unwrap_or_else(|| -status.signal().unwrap_or_default())
    }

    fn diagnostics(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().unwrap()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() && matches!(self.exit.try_recv(), Err(TryRecvError::Empty)) {
            let _ = signal::kill(self.pid, Number::SIGKILL);
        }
    }
}
