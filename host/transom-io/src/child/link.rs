//! The host's side of one connection to an agent: it asks the codec, and hears its answers and what the agent says
//! meanwhile. Serving the wire is `connection.rs`'s.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    process::{ChildStdin, ChildStdout},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use transom_frame::{Frame, FrameKind};
use transom_harness::block::Block;

use super::{Shared, body, body::Partial, output::Output};
use crate::{
    connection::{Ended, serve_apart},
    door::PeerFacts,
};

/// From the wish to end a connection until its last unit has to be written.
const FLUSH: Duration = Duration::from_millis(250);

/// The same for the driver to return; it only ever needs [`FLUSH`].
const OVER: Duration = Duration::from_secs(5);

/// A connection to an agent.
pub(super) struct Link {
    frames: mpsc::UnboundedSender<Frame>,
    heard: Arc<Heard>,
    stop: watch::Sender<bool>,
    served: JoinHandle<Served>,
}

/// The agent's pipes, when nothing is said there any more.
struct Served {
    ended: Ended,
    input: ChildStdin,
    output: Output<ChildStdout>,
}

/// What came from the codec.
#[derive(Default)]
struct Heard(Mutex<State>);

#[derive(Default)]
struct State {
    /// The connection is over: nothing is answered any more.
    over: Option<String>,
    waiting: HashMap<String, oneshot::Sender<Frame>>,
    partial: Partial,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in there is left half done by a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, frame: Frame) {
        let mut state = self.lock();
        match frame.kind {
            FrameKind::Reply | FrameKind::Failure => {
                let id = frame.id.as_ref().map(|id| id.as_str()).unwrap_or_default();
                if let Some(waiting) = state.waiting.remove(id) {
                    // Who has asked may have given up.
                    let _ = waiting.send(frame);
                }
            }
            FrameKind::Notice if &*frame.name == "agent/output" => state.partial.hear(&frame.body),
            // The policy of the door lets nothing else through; what a wider one does, nobody here serves.
            FrameKind::Notice | FrameKind::Request => {}
        }
    }

    fn end(&self, reason: &str) {
        let mut state = self.lock();
        state.over = Some(reason.to_owned());
        state.waiting.clear();
    }
}

impl Link {
    /// Opens the connection; the codec greets the agent at once.
    pub(super) fn open(
        shared: &Arc<Shared>,
        peer: String,
        mut input: ChildStdin,
        mut output: Output<ChildStdout>,
    ) -> Link {
        let heard = Arc::new(Heard::default());
        let (stop, stopping) = watch::channel(false);
        let hearing = Arc::clone(&heard);
        let (attached, frames) = shared.host.apart(Box::new(move |frame| hearing.hear(frame)));
        let (shared, told) = (Arc::clone(shared), Arc::clone(&heard));
        let served = tokio::spawn(async move {
            let peer = PeerFacts { carrier: "child", peer, owns_process: false };
            let wire = (&mut output, &mut input);
            let ended = serve_apart(attached, &shared.door, &peer, wire, stopping, FLUSH).await;
            told.end(&ended.reason);
            Served { ended, input, output }
        });
        Link { frames, heard, stop, served }
    }

    /// Asks the codec. The receiver is gone where no answer will come.
    pub(super) fn ask(&self, name: &str, id: &str, body: String) -> oneshot::Receiver<Frame> {
        let (answer, waiting) = oneshot::channel();
        {
            let mut state = self.heard.lock();
            if state.over.is_none() {
                state.waiting.insert(id.to_owned(), answer);
            }
        }
        let kind = FrameKind::Request;
        self.say(Frame {
            kind,
            session: None,
            id: Some(id.into()),
            name: name.into(),
            body: body.into(),
        });
        waiting
    }

    /// Takes a request back. Its answer comes all the same.
    pub(super) fn cancel(&self, id: &str) {
        let (kind, name) = (FrameKind::Notice, "agent/cancel".into());
        self.say(Frame { kind, session: None, id: None, name, body: body::cancel(id).into() });
    }

    fn say(&self, frame: Frame) {
        // A connection that is over answers nobody, and whoever waits is told so.
        let _ = self.frames.send(frame);
    }

    /// What the agent has said of its answer, as far as it came through.
    pub(super) fn partial(&self) -> Vec<Block> {
        self.heard.lock().partial.blocks()
    }

    /// Why the connection is over, if it is.
    pub(super) fn reason(&self) -> String {
        self.heard.lock().over.clone().unwrap_or_else(|| "it does not answer".to_owned())
    }

    /// Ends the connection: the last unit is written, and what was not by then is given up. Gives the agent's pipes, its
    /// input to be closed by dropping it; none where the driver had to be ended by force, which closed them.
    pub(super) async fn close(self) -> Option<(ChildStdin, ChildStdout)> {
        let Link { frames, stop, mut served, .. } = self;
        stop.send_replace(true);
        let over = timeout(OVER, &mut served).await;
        drop(frames);
        match over {
            Ok(Ok(Served { ended, input, output })) => {
                tracing::debug!(
                    reason = ended.reason,
                    failed = ended.failed,
                    "connection to an agent is over"
                );
                Some((input, output.into_pipe()))
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the driver of a connection to an agent failed");
                None
            }
            Err(_) => {
                served.abort();
                None
            }
        }
    }
}
