//! `bash`: one command, waited for or in the background (L-97, P-69). How it is run and ended is `shell.rs`, what
//! becomes of a job `jobs.rs`.

use std::{path::PathBuf, pin::pin, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use transom_harness::{
    jobs::{JobKind, JobStatus},
    permissions::Mode,
    ports::{ToolOutcome, ToolSpec},
};
use transom_process::{Exit, SpillDirectory, Spilled};

use crate::{
    jobs::{End, Jobs, KILL_GRACE, Which, Work},
    output::Output,
    report::{self, Report},
    shell::{Finished, LaunchError, Line, Observers, Running, Shell, runner_failed, unavailable},
    tool::{self, Call, Tool, ToolError, background, check_background, filled, given},
};

/// The longest argument that Linux passes on, without the zero at its end.
const COMMAND_BYTES_MAX: usize = 131_071;

/// The longest deadline a call can have (L-102).
const TIMEOUT_MS_MAX: u64 = 600_000;

/// How long a start may take at least, however short the command's own deadline is: that is about the command, and a
/// busy machine is not its fault.
const START_MS_MIN: u64 = 1_000;

/// How long the start of a command that nobody wants any more is waited for, so that it is known to be gone.
const BIRTH: Duration = Duration::from_millis(300);

/// The tool.
pub(crate) struct Bash {
    shell: Arc<Shell>,
    jobs: Option<Jobs>,
    timeout_ms: u64,
}

impl Bash {
    pub(crate) fn new(shell: Arc<Shell>, jobs: Option<Jobs>, timeout_ms: u64) -> Bash {
        Bash { shell, jobs, timeout_ms }
    }
}

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        let mut parameters = json!({
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
        });
        if self.jobs.is_some() {
            background(
                &mut parameters,
                "Return at once and let the command run on as a job, without a deadline; you will be told of its end.",
            );
        }
        ToolSpec {
            name: "bash".to_owned(),
            description: format!(
                "Runs a command with bash and returns what it writes. Every call is a new shell in the \
                 working directory, without a terminal and without input. A non-zero exit code is reported \
                 and is not a failure of the tool. The command, with everything it has started, is ended \
                 when its time is over ({} ms unless timeoutMs says otherwise); what it leaves running is \
                 ended with it. Of long output the end is shown, and a file that holds all of it is named.",
                self.timeout_ms
            ),
            parameters,
        }
    }

    fn output(&self) -> Output {
        Output::as_text(report::schema(), report::text)
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        passable(filled(arguments, "command")?)?;
        filled(arguments, "description")?;
        timeout(arguments, self.timeout_ms)?;
        if arguments.contains_key("workdir") {
            filled(arguments, "workdir")?;
        }
        check_background(arguments, self.jobs.is_some())
    }

    fn run(&self, call: Call) -> tool::Running {
        let (shell, jobs, timeout_ms) = (self.shell.clone(), self.jobs.clone(), self.timeout_ms);
        Box::pin(async move {
            let line = Line {
                session: call.session.clone(),
                life: call.ticket.life().clone(),
                job: None,
                call_id: call.call_id.clone(),
                command: call.filled_text("command")?.to_owned(),
                directory: match call.optional_text("workdir") {
                    Some(_) => call.path(call.filled_text("workdir")?),
                    None => call.directory.clone(),
                },
                workspace: call.directory.clone(),
                root: call.root.clone(),
                confined: call.confined,
            };
            let timeout_ms = timeout(&call.arguments, timeout_ms)?;
            match jobs.filter(|_| call.flag("run_in_background")) {
                Some(jobs) => {
                    let label = line.command.clone();
                    let run = move |work| in_background(shell, line, work);
                    let job = jobs.start(&call, JobKind::Bash, &label, run)?;
                    let value = json!({ "job": job.id });
                    Ok(ToolOutcome { job: Some(job), ..given(value) })
                }
                None => in_foreground(&shell, &line, &call, timeout_ms).await,
            }
        })
    }
}

fn timeout(arguments: &Map<String, Value>, default_ms: u64) -> Result<u64, ToolError> {
    let Some(value) = arguments.get("timeoutMs") else { return Ok(default_ms) };
    match value.as_f64() {
        Some(number) if number >= 1.0 => Ok(TIMEOUT_MS_MAX.min(number as u64)),
        _ => Err(ToolError::new(format!(
            "invalid timeoutMs: expected a positive number of milliseconds, got {value}"
        ))),
    }
}

async fn in_foreground(
    shell: &Shell,
    line: &Line,
    call: &Call,
    timeout_ms: u64,
) -> Result<ToolOutcome, ToolError> {
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let start_ms = timeout_ms.max(START_MS_MIN);
    let born_by = Instant::now() + Duration::from_millis(start_ms);
    let mut launch = pin!(shell.launch(line, Observers::none()));
    let given_up = tokio::select! {
        biased;
        launched = &mut launch => Ok(launched),
        () = call.abort.set() => Err(ToolError::aborted()),
        () = sleep_until(born_by) => Err(ToolError::new(format!(
            "the command could not be started within {start_ms}ms"
        ))),
    };
    let launched = match given_up {
        Ok(launched) => launched,
        Err(error) => {
            give_up(launch).await;
            return Err(error);
        }
    };
    let mut running = match launched {
        Ok(running) => running,
        Err(LaunchError::Spawn(error)) => return Err(ToolError::new(error.to_string())),
        Err(LaunchError::Unconfinable(_)) if call.abort.is_set() || line.life.is_over() => {
            return Err(ToolError::aborted());
        }
        Err(LaunchError::Unconfinable(why)) => return Ok(unconfinable(line.confined, &why)),
    };
    // Whenever the abort comes, before this line or after, it is seen below.
    call.ticket.add_tree(&Handle::current(), running.tree());
    let timed_out_ms = tokio::select! {
        biased;
        () = running.ended() => None,
        () = call.abort.set() => None,
        () = sleep(Duration::from_millis(timeout_ms)) => Some(timeout_ms),
    };
    let Finished { stdout, stderr, exit, unconfinable: failure, spills } =
        running.finish(KILL_GRACE).await;
    let evicted = [&stdout.spill, &stderr.spill]
        .into_iter()
        .flatten()
        .filter_map(|Spilled { path, .. }| call.ticket.add_spill(path.clone()));
    remove(spills, evicted.collect()).await;
    if let Some(why) = failure {
        return Ok(unconfinable(line.confined, &why));
    }
    let denial = shell.denial(line.confined, exit, &stderr.tail);
    let sandbox = line.confined.map(|mode| sandbox(shell, mode, denial.is_some()));
    Ok(given(Report { stdout, stderr, exit, timed_out_ms, denial, sandbox }.value()))
}

/// Ends a command that is only just being started. What still comes after that is ended as it comes, by the spawner.
async fn give_up(launch: impl Future<Output = Result<Running, LaunchError>>) {
    if let Ok(Ok(running)) = timeout_at(Instant::now() + BIRTH, launch).await {
        running.finish(Duration::ZERO).await;
    }
}

/// Removes files of long outputs, away from the runtime's workers.
async fn remove(spills: SpillDirectory, files: Vec<PathBuf>) {
    if !files.is_empty() {
        // It fails only while the runtime shuts down.
        let _ = spawn_blocking(move || files.iter().for_each(|file| spills.remove(file))).await;
    }
}

/// The command did not run, and its value says so besides.
fn unconfinable(confined: Option<Mode>, why: &str) -> ToolOutcome {
    let mode = confined.unwrap_or(Mode::ReadOnly);
    let value = Some(Box::new(report::runner_failed(mode.as_str())));
    ToolOutcome { value, ..unavailable(mode, why).into() }
}

/// How a command was held back (P-59).
fn sandbox(shell: &Shell, mode: Mode, denied: bool) -> Value {
    let mut sandbox = json!({ "mode": mode.as_str(), "denied": denied });
    if let (Some(enforcement), Some(members)) = (shell.enforcement(), sandbox.as_object_mut()) {
        members.insert("enforcement".to_owned(), json!(enforcement));
    }
    sandbox
}

async fn in_background(shell: Arc<Shell>, mut line: Line, work: Work) -> End {
    if work.order().is_some() {
        return killed_unseen();
    }
    line.job = Some(work.id().to_owned());
    let observers = Observers {
        stdout: work.output.observer(Which::Stdout),
        stderr: work.output.observer(Which::Stderr),
    };
    let mut launch = pin!(shell.launch(&line, observers));
    let launched = tokio::select! {
        biased;
        launched = &mut launch => launched,
        // Born or not, it is told below. What still comes after that is ended as it comes, by the spawner.
        _ = work.ordered() => match timeout_at(Instant::now() + BIRTH, launch).await {
            Ok(launched) => launched,
            Err(_) => return killed_unseen(),
        },
    };
    let mut running = match launched {
        Ok(running) => running,
        Err(LaunchError::Unconfinable(_)) if work.order().is_some() => return killed_unseen(),
        Err(LaunchError::Spawn(error)) => return End::failed(format!("spawn failed: {error}")),
        Err(LaunchError::Unconfinable(why)) => return runner_failure(&work, line.confined, &why),
    };
    // Whenever the order comes, before this line or after, it is seen below or reaches the tree.
    work.set_tree(running.tree(), running.spills());
    let grace = tokio::select! {
        biased;
        () = running.ended() => KILL_GRACE,
        order = work.ordered() => order.grace,
    };
    let Finished { stdout, stderr, exit, unconfinable: failure, spills } =
        running.finish(grace).await;
    let mut broken = Vec::new();
    for (which, captured) in [(Which::Stdout, &stdout), (Which::Stderr, &stderr)] {
        // Half a file would pass for the whole (P-71).
        if let Some(Spilled { path, .. }) =
            captured.spill.as_ref().filter(|spill| spill.missing > 0)
        {
            work.output.drop_file(which);
            broken.push(path.clone());
        }
    }
    remove(spills, broken).await;
    if let Some(why) = failure {
        return runner_failure(&work, line.confined, &why);
    }
    if let Some(denial) = shell.denial(line.confined, exit, &stderr.tail) {
        work.output.remark(denial);
    }
    match exit {
        Some(Exit::Code(code)) => {
            End { status: JobStatus::Completed, detail: Some(format!("exit code: {code}")) }
        }
        Some(exit @ Exit::Signal(_)) => {
            let signal = exit.signal_name().unwrap_or_default();
            End { status: JobStatus::Killed, detail: Some(format!("signal: {signal}")) }
        }
        None => killed_unseen(),
    }
}

fn killed_unseen() -> End {
    End { status: JobStatus::Killed, detail: Some("killed before exit".to_owned()) }
}

fn runner_failure(work: &Work, confined: Option<Mode>, why: &str) -> End {
    tracing::warn!(why, "a background command could not be confined");
    let line = runner_failed(confined.unwrap_or(Mode::ReadOnly));
    work.output.remark(line.clone());
    End::failed(line)
}

/// What the system passes to a program as one argument: no more bytes, and none of them zero.
fn passable(command: &str) -> Result<(), ToolError> {
    if command.len() > COMMAND_BYTES_MAX {
        return Err(ToolError::new(format!(
            "invalid command: it has {} bytes, and the system passes {COMMAND_BYTES_MAX} at most; write it to a file \
             and run that",
            command.len()
        )));
    }
    if command.contains('\0') {
        return Err(ToolError::new(
            "invalid command: it contains a zero byte, which no command can; print one with printf '\\0'",
        ));
    }
    Ok(())
}
