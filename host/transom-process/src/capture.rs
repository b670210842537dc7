//! Reading a child's output without end and without growing: a bounded tail in memory, and the
//! whole stream in a spill file as soon as the tail is not the whole.

use std::{io, path::Path, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    runtime::Handle,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

use crate::spill::{Spill, Spilled};

const READ_BYTES: usize = 64 << 10;

/// How often a pipe is read after reading was stopped. A pipe holds 64 KiB, and at most 1 MiB.
const LAST_READS_MAX: u32 = 16;

/// Sees output as it comes: the new bytes, and the file that holds everything up to them, if there is one. A stream
/// of which the file has lost something has none.
pub type Observer = Box<dyn FnMut(&[u8], Option<&Path>) + Send>;

/// Output that is being read. Dropping it stops the reading.
#[derive(Debug)]
pub struct Capture {
    task: JoinHandle<Captured>,
    stop: oneshot::Sender<()>,
}

/// Output that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// The last bytes of the stream.
    pub tail: Vec<u8>,
    /// How many bytes the stream had.
    pub bytes: u64,
    /// The file with the whole stream, if the tail is not the whole and a file could be written.
    pub spill: Option<Spilled>,
}

impl Capture {
    /// Begins to read. `tail_bytes_max` bytes stay in memory.
    pub fn start<R>(runtime: &Handle, reader: R, tail_bytes_max: usize, spill: Spill) -> Capture
    where
        R: AsyncRead + Unpin + Send + 'static,
    {
        Capture::start_observed(runtime, reader, tail_bytes_max, spill, Box::new(|_, _| {}))
    }

    /// Begins to read, and tells of what comes.
    pub fn start_observed<R>(
        runtime: &Handle,
        reader: R,
        tail_bytes_max: usize,
        spill: Spill,
        observer: Observer,
    ) -> Capture
    where
        R: AsyncRead + Unpin + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let reading = Reading { captured: Captured::default(), tail_bytes_max, spill, observer };
        let task = runtime.spawn(read(reader, reading, stopped));
        Capture { task, stop }
    }

    /// Waits for the end of the stream, but only this long: a descendant that inherited the pipe
    /// must not keep its reader waiting. Returns what has come until then.
    pub async fn finish(mut self, patience: Duration) -> Captured {
        if let Ok(result) = timeout(patience, &mut self.task).await {
            return result.unwrap_or_default();
        }
        // The task may have ended just now; then there is nobody to tell.
        let _ = self.stop.send(());
        self.task.await.unwrap_or_default()
    }
}

impl Captured {
    /// Whether the tail is not the whole.
    pub fn is_cut(&self) -> bool {
        self.bytes > self.tail.len() as u64
    }

    /// The tail as text. What is not UTF-8 becomes U+FFFD; a character cut in two at the front is
    /// left out.
    pub fn text(&self) -> String {
        let mut tail = self.tail.as_slice();
        if self.is_cut() {
            // A character has at most three continuation bytes.
            let cut = tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
            tail = tail.get(cut..).unwrap_or_default();
        }
        String::from_utf8_lossy(tail).into_owned()
    }
}

async fn read<R: AsyncRead + Unpin>(
    mut reader: R,
    mut reading: Reading,
    mut stopped: oneshot::Receiver<()>,
) -> Captured {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = tokio::select! {
            biased;
            _ = &mut stopped => break,
            count = reader.read(&mut buffer) => count,
        };
        match count {
            Ok(0) => return reading.close().await,
            Ok(count) => reading.take(buffer.get(..count).unwrap_or_default()).await,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "output of a child could not be read to its end");
                return reading.close().await;
            }
        }
    }
    // What was written before the stop is in the pipe; what comes later is not waited for.
    for _ in 0..LAST_READS_MAX {
        match timeout(Duration::ZERO, reader.read(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => {
                reading.take(buffer.get(..count).unwrap_or_default()).await
            }
            Ok(_) | Err(_) => break,
        }
    }
    reading.close().await
}

struct Reading {
    captured: Captured,
    tail_bytes_max: usize,
    spill: Spill,
    observer: Observer,
}

impl Reading {
    async fn take(&mut self, bytes: &[u8]) {
        let captured = &mut self.captured;
        let was_cut = captured.is_cut();
        captured.bytes += bytes.len() as u64;
        if was_cut {
            self.spill.write(bytes).await;
        } else if captured.bytes > self.tail_bytes_max as u64 {
            // From here on the tail is not the whole, so the file gets it all.
            self.spill.write(&captured.tail).await;
            self.spill.write(bytes).await;
        }
        captured.tail.extend_from_slice(bytes);
        let excess = captured.tail.len().saturating_sub(self.tail_bytes_max);
        captured.tail.drain(..excess);
        (self.observer)(bytes, self.spill.whole());
    }

    async fn close(self) -> Captured {
        let Reading { mut captured, spill, .. } = self;
        captured.spill = spill.close().await;
        captured
    }
}
