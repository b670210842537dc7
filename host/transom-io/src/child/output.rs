//! What an agent writes, until it is gone: a descendant that holds the pipe open does not keep the conversation open.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that are still read once the agent is gone: what a pipe holds at most. More comes from somebody else.
const REST_BYTES_MAX: usize = 1 << 20;

/// An agent's output. It ends with the pipe, or once the agent is gone and what it has written is read.
pub(super) struct Output<R> {
    pipe: R,
    gone: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Once the agent is gone: how much more is read.
    rest: usize,
}

impl<R> Output<R> {
    /// `gone` ends when the agent has ended.
    pub(super) fn new(pipe: R, gone: impl Future<Output = ()> + Send + 'static) -> Output<R> {
        Output { pipe, gone: Some(Box::pin(gone)), rest: REST_BYTES_MAX }
    }

    /// The pipe alone, with whatever comes there.
    pub(super) fn into_pipe(self) -> R {
        self.pipe
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Output<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(gone) = &mut self.gone
            && gone.as_mut().poll(context).is_ready()
        {
            self.gone = None;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.pipe).poll_read(context, buffer);
        if self.gone.is_some() {
            return read;
        }
        match read {
            // Nobody who is meant will write any more.
            Poll::Pending => Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) => {
                let count = buffer.filled().len().saturating_sub(before);
                if count > self.rest {
                    buffer.set_filled(before);
                }
                self.rest = self.rest.saturating_sub(count);
                Poll::Ready(Ok(()))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, repeat};

    use super::{Output, REST_BYTES_MAX};

    #[tokio::test]
    async fn what_an_agent_has_written_is_read_and_who_holds_its_pipe_is_not_waited_for() {
        let (mut held, pipe) = duplex(64);
        held.write_all(b"last words").await.unwrap();
        let mut said = String::new();
        Output::new(pipe, ready(())).read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "last words");
    }

    #[tokio::test]
    async fn who_goes_on_writing_for_an_agent_that_is_gone_is_cut_off() {
        let mut said = Vec::new();
        Output::new(repeat(b'x'), ready(())).read_to_end(&mut said).await.unwrap();
        assert!(said.len() <= REST_BYTES_MAX && !said.is_empty());
    }

    #[tokio::test]
    async fn an_agent_that_lives_is_read_to_its_end() {
        let mut said = Vec::new();
        let long = repeat(b'x').take(3 * REST_BYTES_MAX as u64);
        Output::new(long, pending()).read_to_end(&mut said).await.unwrap();
        assert_eq!(said.len(), 3 * REST_BYTES_MAX);
    }
}
