//! What the command line asks of a running host: one request over its control socket, and the answer as a table for people or
//! as JSON for programs.

mod table;

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use self::table::{Table, amount, bytes, short};
use crate::{
    cli::{self, ControlOptions, JobsCommand},
    environment::Environment,
};

/// The control socket in the state directory.
pub(crate) const SOCKET: &str = "control.sock";

/// How long a host may take. A swap compiles, which takes a second for each mebibyte.
const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// Bytes of an answer: thousands of connections.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn status(command: &cli::Status, environment: &Environment) -> anyhow::Result<u8> {
    let answer = ask(&command.control, environment, "status", json!({}))?;
    show(&command.control, &answer, |out, answer| {
        let uptime = answer["uptime_ms"].as_u64().unwrap_or_default() / 1000;
        let (pid, version) = (&answer["pid"], text(&answer["version"]));
        writeln!(out, "transom {version}, process {pid}, up {uptime} s\n")?;
        let mut doors = Table::new([
            "DOOR",
            "COMPONENT",
            "STATE",
            "VERSION",
            "CONNECTIONS",
            "UNITS IN",
            "UNITS OUT",
            "CALLS",
            "CODEC",
            "TRAPS",
            "FAULTS",
            "WAITING",
            "UNWRITTEN",
            "MEMORY",
            "SWAPS",
        ]);
        for row in rows(&answer["doors"]) {
            let state = match (text(&row["state"]), row["probation"].as_bool()) {
                ("serving", Some(true)) => "probation",
                (state, _) => state,
            };
            let behind = row["behind"].as_u64().filter(|behind| *behind > 0);
            let connections = match behind {
                Some(behind) => format!("{} ({behind} behind)", amount(&row["connections"])),
                None => amount(&row["connections"]),
            };
            doors.row([
                text(&row["door"]).to_owned(),
                text(&row["component"]).to_owned(),
                state.to_owned(),
                short(text(&row["identity"])),
                connections,
                amount(&row["units_in"]),
                amount(&row["units_out"]),
                amount(&row["calls"]),
                format!("{:.0} ms", row["codec_ms"].as_f64().unwrap_or_default()),
                amount(&row["traps"]),
                amount(&row["faults"]),
                amount(&row["frames_waiting"]),
                bytes(&row["unwritten_bytes"]),
                bytes(&row["memory_bytes"]),
                amount(&row["swaps"]),
            ]);
        }
        doors.print(out)?;
        let mut swaps = swap_table();
        for row in rows(&answer["doors"]) {
            for swap in rows(&row["history"]) {
                swap_row(&mut swaps, text(&row["door"]), swap);
            }
        }
        if !swaps.is_empty() {
            writeln!(out)?;
            swaps.print(out)?;
        }
        let mut jobs = Table::new(["SESSION", "JOB", "KIND", "STATUS", "LABEL"]);
        for session in rows(&answer["jobs"]) {
            for job in rows(&session["jobs"]) {
                let cell = |key: &str| text(&job[key]).to_owned();
                let session = text(&session["sessionId"]).to_owned();
                jobs.row([session, cell("id"), cell("kind"), cell("status"), cell("label")]);
            }
        }
        if !jobs.is_empty() {
            writeln!(out)?;
            jobs.print(out)?;
        }
        writeln!(out)?;
        if let Some(sessions) = answer["sessions"].as_u64() {
            writeln!(out, "live sessions  {sessions}")?;
        }
        confiner(out, &answer["confiner"])
    })
}

/// What holds shells back on this machine (P-58).
fn confiner(out: &mut dyn io::Write, report: &Value) -> io::Result<()> {
    let Some(enforcement) = report["enforcement"].as_str() else {
        return writeln!(out, "confiner       not found out yet");
    };
    writeln!(out, "confiner       {enforcement}")?;
    for gap in rows(&report["gaps"]) {
        writeln!(out, "  gap {}", text(gap))?;
    }
    Ok(())
}

pub(crate) fn connections(
    command: &cli::Connections,
    environment: &Environment,
) -> anyhow::Result<u8> {
    let params = match &command.door {
        Some(door) => json!({ "door": door }),
        None => json!({}),
    };
    let answer = ask(&command.control, environment, "connections", params)?;
    show(&command.control, &answer, |out, answer| {
        let mut table = Table::new([
            "CONNECTION",
            "DOOR",
            "VERSION",
            "UNITS IN",
            "UNITS OUT",
            "PENDING",
            "WAITING",
            "UNWRITTEN",
            "MEMORY",
            "PEER",
        ]);
        for row in rows(&answer["connections"]) {
            table.row([
                amount(&row["connection"]),
                text(&row["door"]).to_owned(),
                short(text(&row["identity"])),
                amount(&row["units_in"]),
                amount(&row["units_out"]),
                amount(&row["pending"]),
                amount(&row["frames_waiting"]),
                bytes(&row["unwritten_bytes"]),
                bytes(&row["memory_bytes"]),
                text(&row["peer"]).to_owned(),
            ]);
        }
        table.print(out)
    })
}

pub(crate) fn swap(command: &cli::Swap, environment: &Environment) -> anyhow::Result<u8> {
    let source = environment.absolute(&command.file);
    let params = json!({ "component": command.component, "source": source });
    let answer = ask(&command.control, environment, "swap", params)?;
    show(&command.control, &answer, show_swaps)
}

pub(crate) fn rollback(command: &cli::Rollback, environment: &Environment) -> anyhow::Result<u8> {
    let params = json!({ "component": command.component });
    let answer = ask(&command.control, environment, "rollback", params)?;
    show(&command.control, &answer, show_swaps)
}

pub(crate) fn drain(command: &cli::Drain, environment: &Environment) -> anyhow::Result<u8> {
    let answer = ask(&command.control, environment, "drain", json!({ "door": command.door }))?;
    show(&command.control, &answer, |out, answer| {
        writeln!(out, "{} connections are asked to end", amount(&answer["asked"]))
    })
}

pub(crate) fn reload(command: &cli::Reload, environment: &Environment) -> anyhow::Result<u8> {
    let answer = ask(&command.control, environment, "reload", json!({}))?;
    show(&command.control, &answer, |out, answer| {
        let changes = rows(&answer["changes"]);
        if changes.is_empty() && rows(&answer["swaps"]).is_empty() {
            return writeln!(out, "nothing has changed");
        }
        let shown = |value: &Value| value.as_str().unwrap_or("nothing").to_owned();
        let mut table = Table::new(["KEY", "BEFORE", "NOW", "REACHES THE HOST"]);
        for row in changes {
            let (old, new) = (shown(&row["old"]), shown(&row["new"]));
            table.row([shown(&row["path"]), old, new, shown(&row["effect"])]);
        }
        if !changes.is_empty() {
            table.print(out)?;
        }
        let mut swaps = swap_table();
        for swap in rows(&answer["swaps"]) {
            swap_row(&mut swaps, text(&swap["door"]), swap);
        }
        if !swaps.is_empty() {
            swaps.print(out)?;
        }
        Ok(())
    })
}

pub(crate) fn log(command: &cli::Log, environment: &Environment) -> anyhow::Result<u8> {
    let answer = ask(&command.control, environment, "log", json!({ "level": command.level }))?;
    show(&command.control, &answer, |out, answer| writeln!(out, "logs {}", text(&answer["level"])))
}

pub(crate) fn jobs(command: &cli::Jobs, environment: &Environment) -> anyhow::Result<u8> {
    let JobsCommand::Kill(command) = &command.command;
    let params = json!({ "session": command.session, "job": command.job });
    let answer = ask(&command.control, environment, "jobs.kill", params)?;
    show(&command.control, &answer, |out, answer| {
        writeln!(out, "{} is asked to end", text(&answer["job"]))
    })
}

/// `transom permissions --session <id> --set <preset>`.
pub(crate) fn permissions(
    command: &cli::Permissions,
    preset: &str,
    environment: &Environment,
) -> anyhow::Result<u8> {
    let control = ControlOptions { control: command.control.clone(), json: command.json };
    let params = json!({ "session": command.session, "set": preset });
    let answer = ask(&control, environment, "permissions", params)?;
    show(&control, &answer, |out, answer| {
        let session = command.session.as_deref().unwrap_or_default();
        writeln!(out, "session {session} has the preset {}", text(&answer["current"]))
    })
}

fn ask(
    options: &ControlOptions,
    environment: &Environment,
    method: &str,
    params: Value,
) -> anyhow::Result<Value> {
    let socket = match &options.control {
        Some(socket) => environment.absolute(socket),
        None => environment.state_directory()?.join(SOCKET),
    };
    let line = request(&socket, method, params)?;
    let mut answer: Value = serde_json::from_str(&line)
        .with_context(|| format!("{} does not speak as a host does", socket.display()))?;
    if let Some(message) = answer.pointer("/error/message").and_then(Value::as_str) {
        bail!("{message}");
    }
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => bail!("{} gave no answer", socket.display()),
    }
}

fn request(socket: &PathBuf, method: &str, params: Value) -> anyhow::Result<String> {
    let shown = |what: &str| format!("{what} {}", Path::display(socket));
    let mut stream = UnixStream::connect(socket).with_context(|| {
        format!("no host answers at {}; is `transom run` running?", socket.display())
    })?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    // A host that hangs up at once has said why.
    let written = stream.write_all(format!("{asked}\n").as_bytes());
    let mut line = String::new();
    let read = BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut line);
    // As texts: a broken pipe here is not one of standard output, about which nobody is told.
    match (written, read) {
        (_, Ok(_)) if !line.is_empty() => {}
        (Err(error), _) => bail!("{}: {error}", shown("cannot write to")),
        (Ok(()), Err(error)) => bail!("{}: {error}", shown("no answer came from")),
        (Ok(()), Ok(_)) => {}
    }
    if line.is_empty() {
        bail!("the host at {} closed the connection without an answer", socket.display());
    }
    Ok(line)
}

fn show(
    options: &ControlOptions,
    answer: &Value,
    table: impl FnOnce(&mut dyn io::Write, &Value) -> io::Result<()>,
) -> anyhow::Result<u8> {
    let mut out = io::stdout().lock();
    match options.json {
        true => writeln!(out, "{answer:#}")?,
        false => table(&mut out, answer)?,
    }
    Ok(0)
}

fn show_swaps(out: &mut dyn io::Write, answer: &Value) -> io::Result<()> {
    let mut table = swap_table();
    for swap in rows(&answer["doors"]) {
        swap_row(&mut table, text(&swap["door"]), swap);
    }
    table.print(out)
}

fn swap_table() -> Table<7> {
    Table::new(["DOOR", "CAUSE", "FROM", "TO", "MOVED", "STAYED", "LOST"])
}

fn swap_row(table: &mut Table<7>, door: &str, swap: &Value) {
    table.row([
        door.to_owned(),
        text(&swap["cause"]).to_owned(),
        short(text(&swap["from"])),
        short(text(&swap["to"])),
        amount(&swap["moved"]),
        amount(&swap["stayed"]),
        amount(&swap["lost"]),
    ]);
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
