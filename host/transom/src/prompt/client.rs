//! Frames as JSON lines, from the client's side.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf,
    WriteHalf,
};

/// Bytes of one frame: what the longest unit of a door may become.
const LINE_BYTES_MAX: u64 = 512 << 20;

/// Characters of a wrong line that are shown.
const QUOTED_CHARS: usize = 200;

/// One frame as it was received.
#[derive(Debug, Deserialize)]
pub(super) struct Received {
    pub(super) kind: String,
    pub(super) session: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) body: Value,
}

/// A native peer.
pub(super) struct Client<S> {
    reader: BufReader<ReadHalf<S>>,
    writer: WriteHalf<S>,
    asked: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn new(stream: S) -> Client<S> {
        let (reader, writer) = tokio::io::split(stream);
        Client { reader: BufReader::new(reader), writer, asked: 0 }
    }

    /// Sends a request without waiting for its answer. Gives its id.
    pub(super) async fn send(
        &mut self,
        name: &str,
        session: Option<&str>,
        body: &Value,
    ) -> anyhow::Result<String> {
        self.asked += 1;
        let id = self.asked.to_string();
        let mut frame = json!({ "kind": "request", "id": id, "name": name, "body": body });
        if let Some(session) = session {
            frame["session"] = session.into();
        }
        self.writer.write_all(format!("{frame}\n").as_bytes()).await.context("the host is gone")?;
        Ok(id)
    }

    /// Asks and waits for the answer. Nothing else is expected before it.
    pub(super) async fn request(
        &mut self,
        name: &str,
        session: Option<&str>,
        body: &Value,
    ) -> anyhow::Result<Received> {
        let id = self.send(name, session, body).await?;
        loop {
            let frame = self.receive().await?;
            if frame.id.as_ref() != Some(&id) {
                continue;
            }
            if frame.kind == "failure" {
                bail!("{}", message(&frame.body));
            }
            return Ok(frame);
        }
    }

    pub(super) async fn receive(&mut self) -> anyhow::Result<Received> {
        let mut line = String::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_line(&mut line).await?;
        if read == 0 {
            bail!("the host closed the connection");
        }
        serde_json::from_str(&line).with_context(|| {
            let begin: String = line.chars().take(QUOTED_CHARS).collect();
            format!("the host said something that is no frame: {begin}")
        })
    }
}

/// What a failure says.
pub(super) fn message(body: &Value) -> String {
    match body["message"].as_str() {
        Some(message) => message.to_owned(),
        None => body.to_string(),
    }
}
