//! What a person sees of a turn: the answer as it streams, tools and their results in brief.

use std::io::{self, IsTerminal, Write};

use anyhow::bail;
use serde_json::Value;

use super::{
    client::{Received, message},
    plain::plain,
};

/// Characters of a tool's arguments or result that are shown.
const BRIEF_CHARS: usize = 200;

pub(super) struct Show {
    json: bool,
    colour: bool,
    /// Whether the answer goes to a terminal, which must not be driven by it.
    terminal: bool,
    over: bool,
    /// Whether the line on the screen is still open.
    open_line: bool,
    reasoning: bool,
    /// How the turn ended.
    end: Option<Value>,
}

impl Show {
    pub(super) fn new(json: bool, colour: bool, provider: &str, session: &str) -> Show {
        let show = Show {
            json,
            colour,
            terminal: io::stdout().is_terminal(),
            over: false,
            open_line: false,
            reasoning: false,
            end: None,
        };
        show.aside(&format!("{provider}, session {session}"));
        show
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn frame(&mut self, frame: &Received) -> anyhow::Result<()> {
        if self.json {
            let Received { kind, session, id, name, body } = frame;
            let mut line = serde_json::json!({ "kind": kind });
            for (member, value) in [("session", session), ("id", id)] {
                if let Some(value) = value {
                    line[member] = value.as_str().into();
                }
            }
            line["name"] = name.as_str().into();
            line["body"] = body.clone();
            writeln!(io::stdout().lock(), "{line}")?;
        }
        match (frame.kind.as_str(), frame.name.as_str()) {
            // An answer that does not fit leaves its ask open, and the turn goes on.
            ("failure", "ask/answer") => self.aside(&message(&frame.body)),
            ("failure", _) => bail!("{}", message(&frame.body)),
            ("notice", "session/event") => self.event(&frame.body)?,
            ("notice", "session/status") => self.over = frame.body["status"] == "idle",
            ("notice", "stream/lagged") => {
                bail!("the host's output came faster than it could be shown")
            }
            _ => {}
        }
        Ok(())
    }

    /// What a person is asked stands out, and on lines of its own.
    pub(super) fn ask(&mut self, lines: &[String]) {
        let _ = self.close_line();
        for line in lines {
            let line = plain(line);
            let _ = match self.colour {
                true => writeln!(io::stderr(), "\x1b[1m{line}\x1b[0m"),
                false => writeln!(io::stderr(), "{line}"),
            };
        }
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let data = &event["data"];
        match event["type"].as_str().unwrap_or_default() {
            "assistant/chunk" => match data["chunk"]["type"].as_str().unwrap_or_default() {
                "text-delta" => {
                    self.text(data["chunk"]["text"].as_str().unwrap_or_default(), false)?
                }
                "reasoning-delta" => {
                    self.text(data["chunk"]["text"].as_str().unwrap_or_default(), true)?
                }
                _ => {}
            },
            "assistant/message" => self.close_line()?,
            "tool/call" => {
                let name = data["name"].as_str().unwrap_or_default();
                self.aside(&format!(
                    "> {name} {}",
                    brief(data["arguments"].as_str().unwrap_or_default())
                ));
            }
            "tool/result" => {
                let text = data["message"]["content"][0]["content"][0]["text"]
                    .as_str()
                    .unwrap_or_default();
                self.aside(&format!("< {}", brief(text)));
            }
            "llm/retry" => {
                self.close_line()?;
                let why = data["failure"]["message"].as_str().unwrap_or_default();
                self.aside(&format!(
                    "the model failed ({why}); trying again in {} ms",
                    data["delayMs"]
                ));
            }
            "turn/end" => self.end = Some(data["reason"].clone()),
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str, reasoning: bool) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if self.open_line && self.reasoning != reasoning {
            self.close_line()?;
        }
        self.reasoning = reasoning;
        self.open_line = true;
        if reasoning {
            // Not the answer: beside it, so that the answer can be piped on.
            let text = plain(text);
            let mut err = io::stderr().lock();
            match self.colour {
                true => write!(err, "\x1b[2m{text}\x1b[0m")?,
                false => write!(err, "{text}")?,
            }
            err.flush()
        } else {
            let mut out = io::stdout().lock();
            match self.terminal {
                true => write!(out, "{}", plain(text))?,
                false => write!(out, "{text}")?,
            }
            out.flush()
        }
    }

    fn close_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.open_line) {
            if self.reasoning {
                writeln!(io::stderr().lock())?;
            } else {
                writeln!(io::stdout().lock())?;
            }
        }
        Ok(())
    }

    /// What is not the answer goes beside it. Where nobody takes that, the answer still comes.
    fn aside(&self, text: &str) {
        let text = plain(text);
        let _ = match (self.json, self.colour) {
            (true, _) => Ok(()),
            (false, true) => writeln!(io::stderr(), "\x1b[2m{text}\x1b[0m"),
            (false, false) => writeln!(io::stderr(), "{text}"),
        };
    }

    /// The exit status: 0 when the turn is complete, 1 when it failed.
    pub(super) fn end(mut self) -> anyhow::Result<u8> {
        self.close_line()?;
        let Some(reason) = self.end.take() else { bail!("the turn ended without saying how") };
        match reason["kind"].as_str().unwrap_or_default() {
            "completed" => Ok(0),
            "max-tokens" => {
                self.aside("the answer was cut at the model's output limit");
                Ok(0)
            }
            "error" => bail!(
                "{} ({})",
                message(&reason["error"]),
                reason["error"]["code"].as_str().unwrap_or("?")
            ),
            other => bail!("the turn ended as {other}"),
        }
    }
}

fn brief(text: &str) -> String {
    let line = text.trim().replace('\n', " ⏎ ");
    match line.char_indices().nth(BRIEF_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
