//! How much a connection may send before anybody knows who it is: a stream that counts what was read from it.
//!
//! A socket's frames may be large once its client proved itself, and the layer that puts frames together knows only one
//! bound for all of them. So strangers are held here, where bytes come in.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const UNBOUNDED: u64 = u64::MAX;

/// What is left of a connection's bytes; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    pub(crate) fn unbounded() -> Self {
        Self(Arc::new(AtomicU64::new(UNBOUNDED)))
    }

    /// From now on so many bytes may come.
    pub(crate) fn bound(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }

    pub(crate) fn lift(&self) {
        self.0.store(UNBOUNDED, Ordering::Release);
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    fn spend(&self, bytes: usize) {
        let less = |left: u64| (left != UNBOUNDED).then(|| left.saturating_sub(bytes as u64));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }
}

/// A stream that is read within its allowance. What is asked of it at once may go past the end of it.
pub(crate) struct Bounded<S> {
    stream: S,
    allowance: Allowance,
}

impl<S> Bounded<S> {
    pub(crate) fn new(stream: S, allowance: Allowance) -> Self {
        Self { stream, allowance }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.allowance.is_spent() {
            return Poll::Ready(Err(io::Error::other("too much was sent before the handshake")));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.allowance.spend(buf.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn who_is_bounded_is_read_no_further_and_who_is_not_is() {
        let allowance = Allowance::unbounded();
        let mut stream = Bounded::new(&[7_u8; 100][..], allowance.clone());
        let mut ten = [0; 10];
        stream.read_exact(&mut ten).await.unwrap();
        allowance.bound(15);
        stream.read_exact(&mut ten).await.unwrap();
        stream.read_exact(&mut ten).await.unwrap();
        assert!(stream.read_exact(&mut ten).await.is_err(), "the allowance is spent");
        allowance.lift();
        let mut rest = Vec::new();
        assert_eq!(stream.read_to_end(&mut rest).await.unwrap(), 70);
    }
}
