//! The body of an answer, and the connection under it: how it ends is what tests of clients are about.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use super::play::{Breakage, Piece};
use super::record::Presence;

/// What goes back to the client.
pub(crate) struct Reply {
    content: Content,
    /// Told when all of it is out; dropped before, the client went away.
    presence: Presence,
    reset: Arc<AtomicBool>,
}

enum Content {
    Whole(Option<Bytes>),
    Played(mpsc::Receiver<Piece>),
}

impl Reply {
    pub(crate) fn whole(bytes: Vec<u8>, mut presence: Presence, reset: Arc<AtomicBool>) -> Self {
        presence.answered();
        let content = Content::Whole((!bytes.is_empty()).then(|| bytes.into()));
        Self { content, presence, reset }
    }

    pub(crate) fn played(from: mpsc::Receiver<Piece>, presence: Presence, reset: Arc<AtomicBool>) -> Self {
        Self { content: Content::Played(from), presence, reset }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let played = match &mut self.content {
            Content::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Played(played) => played,
        };
        match std::task::ready!(played.poll_recv(cx)) {
            Some(Piece::Bytes(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Piece::Break(how)) => {
                self.presence.answered();
                self.reset.store(how == Breakage::Reset, Ordering::SeqCst);
                Poll::Ready(Some(Err(io::Error::other("broken as the turn says"))))
            }
            None => {
                self.presence.answered();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Played(_) => SizeHint::default(),
        }
    }
}

/// A connection that ends with a reset when it is told to.
#[expect(clippy::disallowed_types, reason = "the server's side of a connection")]
pub(crate) struct Connection {
    stream: tokio::net::TcpStream,
    reset: Arc<AtomicBool>,
}

#[expect(clippy::disallowed_types, reason = "the server's side of a connection")]
impl Connection {
    pub(crate) fn new(stream: tokio::net::TcpStream, reset: Arc<AtomicBool>) -> Self {
        Self { stream, reset }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.reset.load(Ordering::SeqCst) {
            // Closing without lingering is what makes the kernel send a reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset.load(Ordering::SeqCst) {
            // An orderly end before the reset would be what the client sees.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
