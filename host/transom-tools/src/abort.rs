//! The signal by which a call is asked to end early.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells a tool that nobody wants its result any more.
#[derive(Debug, Clone)]
pub struct Abort {
    receiver: watch::Receiver<bool>,
}

/// Sets the signal. All clones are the same signal.
#[derive(Debug, Clone)]
pub(crate) struct AbortSource {
    sender: Arc<watch::Sender<bool>>,
}

impl AbortSource {
    pub(crate) fn new() -> AbortSource {
        AbortSource { sender: Arc::new(watch::Sender::new(false)) }
    }

    pub(crate) fn abort(&self) {
        self.sender.send_replace(true);
    }

    pub(crate) fn signal(&self) -> Abort {
        Abort { receiver: self.sender.subscribe() }
    }
}

impl Abort {
    /// For work that looks from time to time.
    pub fn is_set(&self) -> bool {
        *self.receiver.borrow()
    }

    /// For work that waits. Ends when the signal is set.
    pub async fn set(&self) {
        let mut receiver = self.receiver.clone();
        if receiver.wait_for(|set| *set).await.is_err() {
            // Without a source the signal will never be set.
            std::future::pending::<()>().await;
        }
    }
}
