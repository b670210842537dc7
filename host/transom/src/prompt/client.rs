//! Frames as JSON lines, from the client's side.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf,
};

/// Bytes of one frame: what the longest unit of a door may become.
const LINE_BYTES_MAX: usize = 512 << 20;

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
    /// The line that is being received.
    line: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn new(stream: S) -> Client<S> {
        let (reader, writer) = tokio::io::split(stream);
        Client { reader: BufReader::new(reader), writer, asked: 0, line: Vec::new() }
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

    /// The next frame. May be given up at any moment and asked again: nothing is lost.
    pub(super) async fn receive(&mut self) -> anyhow::Result<Received> {
        loop {
            let bytes = self.reader.fill_buf().await?;
            if bytes.is_empty() {
                bail!("the host closed the connection");
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            self.line.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            self.reader.consume(taken);
            if self.line.len() > LINE_BYTES_MAX {
                bail!("the host sent a frame of more than {LINE_BYTES_MAX} bytes");
            }
            if end.is_some() {
                break;
            }
        }
        let line = std::mem::take(&mut self.line);
        serde_json::from_slice(&line).with_context(|| {
            let begin: String = String::from_utf8_lossy(&line).chars().take(QUOTED_CHARS).collect();
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
