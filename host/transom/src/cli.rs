//! The command line. What each command does stands in the file of its name; the drop-in launch forms of
//! published clients are looked at in `launch.rs`, after these.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

/// A protocol edge for agents: one loop, many doors, each codec in a sandbox.
#[derive(Debug, Parser)]
#[command(name = "transom", version, about, arg_required_else_help = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every door of a manifest; without one, the built-in manifest with the scripted model.
    Run(Run),
    /// Serve one door on standard input and output, for clients that own the process.
    Stdio(Stdio),
    /// Send one prompt and show the answer as it comes.
    Prompt(Prompt),
    /// Print a stored session as JSON lines: its header, then its events.
    Export(Export),
    /// Show what sessions may do, and what would become of a call, without running anything.
    Permissions(Permissions),
    /// Show what a component is, without running it.
    Inspect(Inspect),
    /// Show how every component at every door of a running host is.
    Status(Status),
    /// Show the connections of a running host.
    Connections(Connections),
    /// Make another file the active version of a component; live connections go on with it.
    Swap(Swap),
    /// Make the version before active again.
    Rollback(Rollback),
    /// Ask every connection of a door to end.
    Drain(Drain),
    /// Have a running host read its configuration again, as SIGHUP does.
    Reload(Reload),
    /// Choose what a running host logs.
    Log(Log),
    /// Look after background jobs of a running host.
    Jobs(Jobs),
    /// Look at a deployment without opening a door: components, pins, signatures, frames, limits.
    Check(Check),
    /// Write down which file each component of a deployment is, in the lock beside its manifest.
    Pin(Pin),
    /// Put a deployment into one file, for `run --bundle`.
    Bundle(Bundle),
}

/// Which running host is meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct ControlOptions {
    /// The control socket. By default `control.sock` in the state directory.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Connections {
    /// Those of one door alone.
    #[arg(long)]
    pub(crate) door: Option<String>,
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Swap {
    /// The component's name in the manifest.
    pub(crate) component: String,
    /// The file of the new version.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The component's name in the manifest.
    pub(crate) component: String,
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The door's name in the manifest.
    pub(crate) door: String,
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// What is logged, for example `info` or `transom_io=debug`.
    pub(crate) level: String,
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    pub(crate) command: JobsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// End a job. The session is told.
    Kill(KillJob),
}

#[derive(Debug, Args)]
pub(crate) struct KillJob {
    /// The session's id.
    pub(crate) session: String,
    /// The job's id.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) control: ControlOptions,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) held: Held,
    #[command(flatten)]
    pub(crate) host: HostOptions,
}

/// Which deployment is meant, and what is said instead of its manifests.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Which {
    /// A manifest; of several a later one lies above the earlier ones. Without one, the built-in manifest.
    #[arg(long = "manifest", value_name = "FILE")]
    pub(crate) manifests: Vec<PathBuf>,
    /// A value instead of the manifest's, for example `model.provider=scripted`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

/// What a deployment is held to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Held {
    /// Refuse to start without a lock beside the manifest, or with a component that is not in it.
    #[arg(long)]
    pub(crate) locked: bool,
    /// A deployment in one file, as `transom bundle` makes it. It is always held to the lock inside.
    #[arg(long, value_name = "FILE", conflicts_with = "manifests")]
    pub(crate) bundle: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Stdio {
    /// The door, for example `sdk`.
    pub(crate) door: String,
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) held: Held,
    #[command(flatten)]
    pub(crate) host: HostOptions,
}

/// What may be said on the command line instead of in the manifest.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HostOptions {
    /// The session store.
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// What the scripted model says (docs/scripted-model.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) model_script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// What to say.
    #[arg(required = true)]
    pub(crate) text: Vec<String>,
    /// The id of the session: a stored one goes on, another one begins. Without it a new one is minted.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The model provider: `scripted`, or `deepseek-official` (the default where DEEPSEEK_API_KEY is set).
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// The model of the provider.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Print every frame as a JSON line instead of the answer.
    #[arg(long)]
    pub(crate) json: bool,
    /// What is answered where a tool call needs approval. `ask` asks on the terminal; with `--json` it reads bodies of
    /// `ask/answer`, one JSON object a line, from standard input.
    #[arg(long, value_name = "WORD", value_enum, default_value = "ask")]
    pub(crate) asks: AnswerAsks,
    /// The `frames` socket of a running host. By default that of the built-in manifest is tried; where nobody
    /// answers, a private host is started for this prompt.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) connect: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) host: HostOptions,
}

/// What is answered where a tool call needs approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AnswerAsks {
    /// Whatever the person says.
    Ask,
    /// Every call is allowed, once each.
    Allow,
    /// Every call is refused.
    Reject,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session's id.
    pub(crate) session: String,
    /// The session store.
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Permissions {
    /// A manifest; of several a later one lies above the earlier ones. Without one, the built-in manifest.
    #[arg(long = "manifest", value_name = "FILE")]
    pub(crate) manifests: Vec<PathBuf>,
    /// A stored session, instead of a new one.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// A tool that would be called.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The arguments of the call, as JSON.
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "tool")]
    pub(crate) args: String,
    /// A value instead of the manifest's, as everywhere; or, with `--session`, the preset to which a live session of a
    /// running host is switched.
    #[arg(long = "set", value_name = "KEY=VALUE|PRESET")]
    pub(crate) sets: Vec<String>,
    /// With a preset: the control socket. By default `control.sock` in the state directory.
    #[arg(long, value_name = "SOCKET", requires = "sets")]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) host: HostOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The component.
    pub(crate) component: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) held: Held,
    /// Another version of a component, such as the one that runs now: what the manifest's version has beyond it is told.
    /// With several components, `<component>=<file>`.
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Vec<String>,
    /// Exit with 3 where there are warnings.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pin {
    /// A manifest; of several a later one lies above the earlier ones, and the lock is written beside the last one.
    #[arg(long = "manifest", value_name = "FILE", required = true)]
    pub(crate) manifests: Vec<PathBuf>,
    /// A value instead of the manifest's, for example `component.notes.source=next/notes.wasm`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// A component whose pin may change; one that the manifest no longer has is taken out.
    #[arg(long, value_name = "COMPONENT")]
    pub(crate) update: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bundle {
    /// A manifest; of several a later one lies above the earlier ones.
    #[arg(long = "manifest", value_name = "FILE", required = true)]
    pub(crate) manifests: Vec<PathBuf>,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What makes a command line this program's own. Written out, because a launch form should not pay for building the
/// commands; a test compares.
const OWN: [&str; 22] = [
    "run",
    "stdio",
    "prompt",
    "export",
    "permissions",
    "inspect",
    "status",
    "connections",
    "swap",
    "rollback",
    "drain",
    "reload",
    "log",
    "jobs",
    "check",
    "pin",
    "bundle",
    "help",
    "--help",
    "-h",
    "--version",
    "-V",
];

/// Whether a command line that begins like this is for [`Cli`] and no launch form.
pub(crate) fn owns(argument: &str) -> bool {
    OWN.contains(&argument)
}

/// An argument that is no file and nearly a command, with that command.
pub(crate) fn misspelt(argument: &str) -> Option<(&str, String)> {
    let word = argument.chars().all(|c| c.is_ascii_alphabetic()) && !Path::new(argument).exists();
    let meant = transom_policy::nearest(argument, OWN).filter(|_| word)?;
    Some((argument, meant.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{Cli, OWN, owns};

    #[test]
    fn every_command_is_known_before_it_is_parsed() {
        let command = Cli::command();
        let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(names.iter().all(|name| owns(name)), "{names:?}");
        // And nothing else but help and version.
        assert_eq!(OWN.len(), names.len() + 5);
    }
}
