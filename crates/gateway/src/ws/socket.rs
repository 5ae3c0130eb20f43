//! A socket after its upgrade. Texts are written from where they lie, so that nothing of a large one stays behind.
//!
//! The layer below copies whatever it writes into a buffer that never shrinks: one hello of 30 KB would be kept for as long
//! as its client is there. It still reads, answers pings and says goodbye; only texts pass it by. A frame of a server is a
//! few bytes of head and then the text itself, which broadcasts share.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
pub(crate) use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
pub(crate) use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::LARGEST_FRAME;

/// The most that waits below: answers to pings and a goodbye.
const WRITE_BUFFER: usize = 64 * 1024;
/// What a socket reads at once; ten thousand of them wait most of the time.
const READ_BUFFER: usize = 2 * 1024;
/// The first byte of a text that is one whole frame.
const WHOLE_TEXT: u8 = 0x81;

/// A request for a socket that may be granted.
pub(crate) struct Upgrade {
    upgraded: OnUpgrade,
    accept: HeaderValue,
}

impl Upgrade {
    /// What a request asks for, or what is answered to one that does not ask well.
    pub(crate) async fn of(parts: &mut Parts) -> Result<Self, Response> {
        let upgraded = parts.extensions.get::<OnUpgrade>().cloned();
        // For its checks alone.
        if let Err(rejection) = WebSocketUpgrade::from_request_parts(parts, &()).await {
            return Err(rejection.into_response());
        }
        let key = parts.headers.get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
        let accept = key.and_then(|key| HeaderValue::try_from(key).ok());
        let granted = upgraded.zip(accept).map(|(upgraded, accept)| Self { upgraded, accept });
        granted.ok_or_else(|| StatusCode::UPGRADE_REQUIRED.into_response())
    }

    /// The answer that grants it, and the socket that follows once it was sent.
    pub(crate) fn grant(self) -> (Response, impl Future<Output = Option<Socket>> + Send + 'static) {
        let Self { upgraded, accept } = self;
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        let socket = async move { Some(Socket::over(TokioIo::new(upgraded.await.ok()?)).await) };
        (answer, socket)
    }
}

pub(crate) struct Socket<S = TokioIo<Upgraded>> {
    frames: WebSocketStream<S>,
    /// A text in the middle of which its writer was held up. Nothing else may be written before its end.
    rest: Option<Rest>,
}

/// What is left of a frame.
struct Rest {
    head: Head,
    text: Utf8Bytes,
    written: usize,
}

/// The first bytes of a frame.
struct Head {
    bytes: [u8; 10],
    len: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    async fn over(stream: S) -> Self {
        // The connection refuses frames above the bound itself, where it can say so; this ends those who send without end.
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE_BUFFER)
            .max_message_size(Some(LARGEST_FRAME * 2))
            .max_frame_size(Some(LARGEST_FRAME * 2));
        let frames = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        Self { frames, rest: None }
    }

    /// Writes a text. Whoever stops waiting leaves the rest of it to whatever is written or read next.
    pub(crate) async fn text(&mut self, text: impl Into<Utf8Bytes>) -> Result<(), Error> {
        self.finish().await?;
        // An answer to a ping may be under way.
        self.frames.flush().await?;
        let text = text.into();
        self.rest = Some(Rest { head: Head::of_text(text.len()), text, written: 0 });
        self.finish().await
    }

    /// Says goodbye. If the other side said it first, this fails; reading on sends the answer that is due.
    pub(crate) async fn close(&mut self, frame: CloseFrame) -> Result<(), Error> {
        self.finish().await?;
        self.frames.send(Message::Close(Some(frame))).await
    }

    pub(crate) async fn recv(&mut self) -> Option<Result<Message, Error>> {
        // Reading answers pings, and an answer in the middle of a text would spoil both.
        if let Err(error) = self.finish().await {
            return Some(Err(error));
        }
        self.frames.next().await
    }

    async fn finish(&mut self) -> Result<(), Error> {
        if let Some(rest) = &mut self.rest {
            let stream = self.frames.get_mut();
            poll_fn(|cx| rest.poll_write(stream, cx)).await?;
            self.rest = None;
        }
        Ok(())
    }
}

impl Rest {
    fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let head = &self.head.bytes[..self.head.len];
        let text = self.text.as_bytes();
        while self.written < head.len() + text.len() {
            let written = if let Some(after) = self.written.checked_sub(head.len()) {
                ready!(Pin::new(&mut *stream).poll_write(cx, &text[after..]))?
            } else {
                let both = [io::IoSlice::new(&head[self.written..]), io::IoSlice::new(text)];
                ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &both))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        Pin::new(stream).poll_flush(cx)
    }
}

impl Head {
    fn of_text(len: usize) -> Self {
        let mut bytes = [WHOLE_TEXT, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let head = match (u8::try_from(len), u16::try_from(len)) {
            (Ok(short @ ..=125), _) => {
                bytes[1] = short;
                2
            }
            (_, Ok(medium)) => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&medium.to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..].copy_from_slice(&(len as u64).to_be_bytes());
                10
            }
        };
        Self { bytes, len: head }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::io::{DuplexStream, ReadBuf, duplex};
    use tokio::time::timeout;

    use super::*;

    async fn client(stream: DuplexStream) -> WebSocketStream<DuplexStream> {
        WebSocketStream::from_raw_socket(stream, Role::Client, None).await
    }

    fn text(bytes: usize) -> Utf8Bytes {
        "é".repeat(bytes / 2 + 1)[..bytes & !1].into()
    }

    #[tokio::test]
    async fn texts_of_every_length_arrive_as_they_are() {
        let (ours, theirs) = duplex(1000);
        let (mut socket, mut client) = (Socket::over(ours).await, client(theirs).await);
        for len in [0, 2, 124, 126, 128, 65_534, 65_536, 65_538, 300_000] {
            let (sent, read) = tokio::join!(socket.text(text(len)), client.next());
            sent.unwrap();
            assert_eq!(read.unwrap().unwrap(), Message::Text(text(len)), "{len}");
        }
    }

    #[tokio::test]
    async fn what_follows_a_text_that_was_held_up_comes_after_its_end() {
        let (ours, theirs) = duplex(1000);
        let (mut socket, mut client) = (Socket::over(ours).await, client(theirs).await);
        client.send(Message::Ping(vec![7; 3].into())).await.unwrap();
        let held_up = timeout(Duration::from_millis(20), socket.text(text(5000))).await;
        assert!(held_up.is_err(), "nobody reads");
        let reads = async {
            assert_eq!(client.next().await.unwrap().unwrap(), Message::Text(text(5000)));
            assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong(vec![7; 3].into()));
            assert_eq!(client.next().await.unwrap().unwrap(), Message::Text("end".into()));
            assert!(matches!(client.next().await.unwrap().unwrap(), Message::Close(Some(_))));
        };
        let writes = async {
            assert_eq!(socket.recv().await.unwrap().unwrap(), Message::Ping(vec![7; 3].into()));
            socket.text("end").await.unwrap();
            socket.close(CloseFrame { code: 1008.into(), reason: "slow".into() }).await.unwrap();
        };
        tokio::join!(reads, writes);
    }

    /// Notes where the bytes lie that it is given.
    struct Noting(Arc<Mutex<Vec<usize>>>);

    impl AsyncRead for Noting {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Noting {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.lock().unwrap().push(bytes.as_ptr().addr());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_text_is_written_from_where_it_lies() {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let mut socket = Socket::over(Noting(Arc::clone(&noted))).await;
        let hello = text(30_000);
        socket.text(hello.clone()).await.unwrap();
        assert!(noted.lock().unwrap().contains(&hello.as_bytes().as_ptr().addr()), "it was copied");
        assert!(socket.rest.is_none(), "it is kept");
    }
}
