//! The other end of a line door, the SDK's for most, as plain as it gets: JSON lines to a host that was started for it. What is asked is left to the measurements.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Longer than any answer here takes on a busy machine; a host that is silent this long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Lines read ahead of the measurement. A host that is faster waits.
const LINES_AHEAD: usize = 4096;

/// A process that ends with the measurement, whatever became of it.
#[derive(Debug)]
pub struct Host(Child);

impl Host {
    pub fn start(command: &mut Command) -> Result<Host> {
        let program = command.get_program().display().to_string();
        let child = command
            .spawn()
            .with_context(|| format!("{program} cannot be started: is it built?"))?;
        Ok(Host(child))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended by itself, and how.
    pub fn ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        Ok(self.0.try_wait()?)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may be gone already, and a measurement has nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One conversation with a host.
pub struct Peer {
    input: Box<dyn Write>,
    lines: Receiver<String>,
    /// Notifications that came while an answer was waited for, in order.
    waiting: VecDeque<Value>,
    asked: u64,
    host: Option<Host>,
}

impl Peer {
    /// Starts a host that serves the SDK door on its own standard streams, with a log of its own below `folder`.
    pub fn spawn(program: &Path, folder: &Path) -> Result<Peer> {
        Peer::spawn_at("sdk", program, folder)
    }

    /// The same for a door of this name.
    pub fn spawn_at(door: &str, program: &Path, folder: &Path) -> Result<Peer> {
        let mut command = Command::new(program);
        command.args(["stdio", door, "--store"]).arg(folder.join("log.sqlite")).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut host = Host::start(&mut command)?;
        let input: ChildStdin = host.0.stdin.take().context("the host has no standard input")?;
        let output = host.0.stdout.take().context("the host has no standard output")?;
        Ok(Peer { host: Some(host), ..Peer::over(Box::new(input), output) })
    }

    /// Speaks to a host that runs already.
    pub fn connect(socket: &Path) -> Result<Peer> {
        let stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
        Ok(Peer::over(Box::new(stream.try_clone()?), stream))
    }

    fn over(input: Box<dyn Write>, output: impl Read + Send + 'static) -> Peer {
        let (sender, lines) = sync_channel(LINES_AHEAD);
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Peer { input, lines, waiting: VecDeque::new(), asked: 0, host: None }
    }

    /// The process id of the host that this peer started.
    pub fn host(&self) -> Result<u32> {
        self.host.as_ref().map(Host::id).context("this peer started no host")
    }

    /// Introduces itself.
    pub fn initialize(&mut self) -> Result<()> {
        let route =
            json!({ "cwd": "/tmp", "provider": "deepseek-official", "model": "deepseek-v4-flash" });
        self.request("initialize", route).map(drop)
    }

    /// Puts a prompt into a session; the answer is the receipt, not the turn.
    pub fn prompt(&mut self, session: &str) -> Result<()> {
        let blocks = json!([{ "type": "text", "text": "hello" }]);
        self.request("session/prompt", json!({ "sessionId": session, "contentBlocks": blocks }))
            .map(drop)
    }

    /// Asks and waits for the answer.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let asked = self.send(method, params)?;
        loop {
            let mut message = self.message()?;
            if message.get("id").and_then(Value::as_u64) != Some(asked) {
                self.waiting.push_back(message);
                continue;
            }
            if let Some(error) = message.get("error") {
                bail!("the host refuses `{method}`: {error}");
            }
            return message
                .get_mut("result")
                .map(Value::take)
                .with_context(|| format!("the answer to `{method}` has no result"));
        }
    }

    /// Waits until as many requests as this, which were sent before, have their results. What else comes is passed over.
    pub fn answered(&mut self, requests: usize) -> Result<()> {
        let mut answered = 0;
        while answered < requests {
            let message = self.message()?;
            if let Some(error) = message.get("error") {
                bail!("the host refuses a request: {error}");
            }
            if message.get("result").is_some() {
                answered += 1;
            }
        }
        Ok(())
    }

    /// Asks and waits for nothing. Gives the id of the request.
    pub fn send(&mut self, method: &str, params: Value) -> Result<u64> {
        self.asked += 1;
        let asked = self.asked;
        let mut line = json!({ "jsonrpc": "2.0", "id": asked, "method": method, "params": params })
            .to_string();
        line.push('\n');
        self.input
            .write_all(line.as_bytes())
            .with_context(|| format!("the host does not take `{method}`"))?;
        self.input.flush()?;
        Ok(asked)
    }

    /// Waits until as many sessions as this have come to rest.
    pub fn idle(&mut self, sessions: usize) -> Result<()> {
        let mut rested = 0;
        while rested < sessions {
            let message = match self.waiting.pop_front() {
                Some(message) => message,
                None => self.message()?,
            };
            if is_idle(&message) {
                rested += 1;
            }
        }
        Ok(())
    }

    fn message(&mut self) -> Result<Value> {
        match self.lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => serde_json::from_str(&line)
                .with_context(|| format!("the host wrote what is no JSON: {line}")),
            Err(RecvTimeoutError::Timeout) => {
                bail!("the host was silent for {} s", SILENCE_MAX.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.host.as_mut().and_then(|host| host.ended().ok().flatten());
                bail!(
                    "the host has closed its output{}",
                    status.map_or_else(String::new, |status| format!(" and ended with {status}"))
                )
            }
        }
    }
}

fn is_idle(message: &Value) -> bool {
    message.get("method").and_then(Value::as_str) == Some("session.status")
        && message.pointer("/params/status").and_then(Value::as_str) == Some("idle")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that says these lines whatever it is asked.
    fn peer(lines: &'static str) -> Peer {
        Peer::over(Box::new(std::io::sink()), lines.as_bytes())
    }

    #[test]
    fn notifications_that_overtake_an_answer_are_kept() {
        let mut peer = peer(
            "{\"method\":\"session.status\",\"params\":{\"sessionId\":\"a\",\"status\":\"running\"}}\n\
             {\"method\":\"session.status\",\"params\":{\"sessionId\":\"a\",\"status\":\"idle\"}}\n\
             {\"id\":1,\"result\":{\"messageId\":\"m\"}}\n\
             {\"method\":\"session.status\",\"params\":{\"sessionId\":\"b\",\"status\":\"idle\"}}\n",
        );
        peer.prompt("a").expect("it is answered");
        peer.idle(2).expect("two sessions rest");
        assert_eq!(
            peer.idle(1).expect_err("no third").to_string(),
            "the host has closed its output"
        );
    }

    #[test]
    fn a_refusal_is_an_error_with_its_words() {
        let error = peer("{\"id\":1,\"error\":{\"code\":-32603,\"message\":\"no\"}}\n")
            .initialize()
            .expect_err("refused")
            .to_string();
        assert_eq!(error, "the host refuses `initialize`: {\"code\":-32603,\"message\":\"no\"}");
    }

    #[test]
    fn answers_are_counted_and_notifications_passed_over() {
        let mut peer = peer(
            "{\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n\
             {\"method\":\"session/update\",\"params\":{}}\n\
             {\"id\":1,\"result\":{\"stopReason\":\"end_turn\"}}\n\
             {\"id\":3,\"error\":{\"code\":-32603}}\n",
        );
        peer.answered(2).expect("two of them");
        let error = peer.answered(1).expect_err("refused").to_string();
        assert_eq!(error, "the host refuses a request: {\"code\":-32603}");
    }

    #[test]
    fn words_that_are_no_json_are_shown() {
        let error = peer("panic!\n").initialize().expect_err("no JSON").to_string();
        assert_eq!(error, "the host wrote what is no JSON: panic!");
    }
}
