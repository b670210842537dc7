//! `bash`: one command in the foreground (L-97). What it may see, how its output is bounded and how
//! it ends are `transom-process`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tokio::runtime::Handle;
use transom_harness::ports::{ToolOutcome, ToolSpec};
use transom_process::{Capture, Captured, Command, Exit, Process, Spawner, SpillDirectory};

use crate::tool::{Call, Running, Tool, ToolError};

/// The longest deadline a call can have (L-102).
const TIMEOUT_MS_MAX: u64 = 600_000;

/// What is kept of each stream (L-97).
const TAIL_BYTES_MAX: usize = 64_000;

/// Between `SIGTERM` and `SIGKILL` (L-85).
const GRACE: Duration = Duration::from_millis(3_000);

/// How long what a command leaves running may take to end by itself: the shell does not wait for
/// its process substitutions.
const SETTLE: Duration = Duration::from_millis(300);

/// How long output is waited for when everything that could write it should be gone.
const DRAIN: Duration = Duration::from_millis(300);

/// The tool.
pub(crate) struct Bash {
    shell: Arc<Shell>,
}

struct Shell {
    spawner: Spawner,
    spills: SpillDirectory,
    environment: Vec<(String, String)>,
    timeout_ms: u64,
}

impl Bash {
    pub(crate) fn new(
        spawner: Spawner,
        spills: SpillDirectory,
        environment: Vec<(String, String)>,
        timeout_ms: u64,
    ) -> Bash {
        Bash { shell: Arc::new(Shell { spawner, spills, environment, timeout_ms }) }
    }
}

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "bash".to_owned(),
            description: format!(
                "Runs a command with bash and returns what it writes. Every call is a new shell in the \
                 working directory, without a terminal and without input. A non-zero exit code is reported \
                 and is not a failure of the tool. The command, with everything it has started, is ended \
                 when its time is over ({} ms unless timeoutMs says otherwise); what it leaves running is \
                 ended with it. Of long output the end is shown, and a file that holds all of it is named.",
                self.shell.timeout_ms
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The command line." },
                    "description": {
                        "type": "string",
                        "description": "What the command is for, in a few words, for the people who watch."
                    },
                    "timeoutMs": {
                        "type": "integer",
                        "description": "Deadline in milliseconds; at most 600000."
                    },
                    "workdir": {
                        "type": "string",
                        "description": "Where to run it, instead of the working directory."
                    }
                },
                "required": ["command", "description"]
            }),
        }
    }

    fn run(&self, call: Call) -> Running {
        let shell = self.shell.clone();
        Box::pin(async move { shell.run(call).await })
    }
}

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Itself,
    Deadline,
    Abort,
}

/// What became of a command.
struct Report {
    stdout: Captured,
    stderr: Captured,
    /// `None` if the kernel could not end it.
    exit: Option<Exit>,
    timed_out_ms: Option<u64>,
}

impl Shell {
    async fn run(&self, call: Call) -> Result<ToolOutcome, ToolError> {
        let command = call.filled_text("command")?;
        call.filled_text("description")?;
        let timeout_ms = self.timeout(&call)?;
        let directory = match call.optional_text("workdir") {
            Some(_) => call.path(call.filled_text("workdir")?),
            None => call.directory.clone(),
        };
        let command = self.command(command, directory, &call);
        if call.abort.is_set() {
            return Err(ToolError::aborted());
        }
        let mut process =
            self.spawner.spawn(command).await.map_err(|error| ToolError::new(error.to_string()))?;
        // Whenever the abort comes, before this line or after, it is seen below.
        let runtime = Handle::current();
        call.ticket.add_tree(&runtime, process.tree());

        let spill = |stream: &str| self.spills.spill(&format!("{}.{stream}", call.call_id));
        let stdout = process.stdout.take();
        let stdout =
            stdout.map(|pipe| Capture::start(&runtime, pipe, TAIL_BYTES_MAX, spill("stdout")));
        let stderr = process.stderr.take();
        let stderr =
            stderr.map(|pipe| Capture::start(&runtime, pipe, TAIL_BYTES_MAX, spill("stderr")));

        let end = self.wait(&mut process, &call, timeout_ms).await;
        let exit = tokio::time::timeout(DRAIN, process.wait()).await.ok().and_then(Result::ok);
        let (stdout, stderr) = tokio::join!(finish(stdout), finish(stderr));
        for path in [&stdout, &stderr].into_iter().filter_map(|captured| captured.spill.as_ref()) {
            if let Some(evicted) = call.ticket.add_spill(path.path.clone()) {
                self.spills.remove(&evicted);
            }
        }
        let timed_out_ms = (end == End::Deadline).then_some(timeout_ms);
        Ok(ToolOutcome::text(Report { stdout, stderr, exit, timed_out_ms }.text()))
    }

    fn timeout(&self, call: &Call) -> Result<u64, ToolError> {
        let Some(value) = call.arguments.get("timeoutMs") else { return Ok(self.timeout_ms) };
        match value.as_f64() {
            Some(number) if number >= 1.0 => Ok(TIMEOUT_MS_MAX.min(number as u64)),
            _ => Err(ToolError::new(format!(
                "invalid timeoutMs: expected a positive number of milliseconds, got {value}"
            ))),
        }
    }

    fn command(&self, command: &str, directory: PathBuf, call: &Call) -> Command {
        let mut environment = self.environment.clone();
        // Last, so that nothing set elsewhere can pretend to be these (L-85).
        environment.retain(|(name, _)| name != "DSH_SHELL" && name != "DSH_SESSION_ID");
        environment.push(("DSH_SHELL".to_owned(), "1".to_owned()));
        environment.push(("DSH_SESSION_ID".to_owned(), call.session.to_string()));
        Command {
            arguments: vec!["-c".to_owned(), command.to_owned()],
            directory: Some(directory),
            environment,
            ..Command::new("bash")
        }
    }

    /// Waits for the command, or for a reason to end it; either way nothing of it runs afterwards.
    async fn wait(&self, process: &mut Process, call: &Call, timeout_ms: u64) -> End {
        let tree = process.tree();
        let work = async {
            // An error means that the child is gone without a word about how.
            let _ = process.wait().await;
            tree.gone_within(SETTLE).await;
        };
        let end = tokio::select! {
            biased;
            () = work => End::Itself,
            () = call.abort.set() => End::Abort,
            () = tokio::time::sleep(Duration::from_millis(timeout_ms)) => End::Deadline,
        };
        if tree.end(GRACE).await == transom_process::Ending::Survived {
            tracing::warn!(session = %call.session, "a command could not be ended");
        }
        end
    }
}

async fn finish(capture: Option<Capture>) -> Captured {
    match capture {
        Some(capture) => capture.finish(DRAIN).await,
        None => Captured::default(),
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text = stream_text(&self.stdout);
        let stderr = stream_text(&self.stderr);
        if !stderr.is_empty() {
            begin_line(&mut text);
            text.push_str("[stderr]\n");
            text.push_str(&stderr);
        }
        if text.is_empty() {
            text.push_str("(no output)");
        }
        let mut marker = |line: String| {
            begin_line(&mut text);
            text.push_str(&line);
        };
        if let Some(ms) = self.timed_out_ms {
            marker(format!("[timed out after {ms}ms]"));
        }
        match self.exit {
            Some(Exit::Code(0)) => {}
            Some(Exit::Code(code)) => marker(format!("[exit code: {code}]")),
            Some(exit @ Exit::Signal(_)) => {
                marker(format!("[killed by signal: {}]", exit.signal_name().unwrap_or_default()));
            }
            None => marker("[still running: the system could not end the command]".to_owned()),
        }
        text
    }
}

fn stream_text(captured: &Captured) -> String {
    let mut text = captured.text();
    if captured.is_cut() {
        begin_line(&mut text);
        match &captured.spill {
            Some(spill) => {
                text.push_str(&format!(
                    "[output truncated; full output: {}]",
                    spill.path.display()
                ));
            }
            None => text.push_str("[output truncated; full output: (unavailable)]"),
        }
    }
    text
}

fn begin_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
