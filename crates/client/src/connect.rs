//! Reaching the gateway: one connection a call, over the control socket or the port.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tidegate_runtime::{socket, spawn};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::ClientError;

/// The token of a gateway's home. It is never shown.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A connection, whichever way it goes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A gateway to call.
#[derive(Debug, Clone)]
pub struct Client {
    target: Target,
}

#[derive(Debug, Clone)]
enum Target {
    /// The file's mode is the authentication.
    Control(PathBuf),
    Port(SocketAddr, Token),
}

impl Client {
    /// The gateway that serves the home with this control socket.
    pub fn control(path: impl Into<PathBuf>) -> Self {
        Self { target: Target::Control(path.into()) }
    }

    /// A gateway by its address.
    pub fn http(address: SocketAddr, token: Token) -> Self {
        Self { target: Target::Port(address, token) }
    }

    /// How errors name the gateway.
    pub(crate) fn at(&self) -> String {
        match &self.target {
            Target::Control(path) => path.display().to_string(),
            Target::Port(address, _) => address.to_string(),
        }
    }

    /// Sends a request and returns once the head of its answer is there.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.send_with(method, path, body, &[]).await
    }

    /// The same with more headers.
    pub(crate) async fn send_with(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(&'static str, String)],
    ) -> Result<Response<Incoming>, ClientError> {
        let mut connection = self.connect().await.map_err(|cause| self.unreachable(&cause))?;
        let request = self.request(method, path, body, headers)?;
        // A connection that ends before the head of the answer is what a closing gateway looks like.
        connection.send_request(request).await.map_err(|error| {
            if error.is_parse() {
                self.protocol(error.to_string())
            } else {
                ClientError::Closing { at: self.at() }
            }
        })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(&'static str, String)],
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let (host, proof) = self.credentials();
        request = request.header(HOST, host);
        if let Some(proof) = proof {
            request = request.header(AUTHORIZATION, proof);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        // Not the error's own text: it could quote the token.
        request
            .body(body)
            .map_err(|_| self.protocol("the path or the token cannot be part of a request".to_owned()))
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        shake(self.stream().await?).await
    }

    /// A bare connection.
    #[expect(clippy::disallowed_types, reason = "the operator's own gateway, not an address somebody chose")]
    pub(crate) async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        match &self.target {
            Target::Control(path) => Ok(Box::new(socket::connect(path).await?)),
            Target::Port(address, _) => {
                let stream = tokio::net::TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }

    /// Whose name goes into a request, and what proves that it may be made.
    pub(crate) fn credentials(&self) -> (String, Option<String>) {
        match &self.target {
            Target::Control(_) => ("localhost".to_owned(), None),
            Target::Port(address, token) => (address.to_string(), Some(format!("Bearer {}", token.0))),
        }
    }

    pub(crate) fn unreachable(&self, cause: &io::Error) -> ClientError {
        match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::Nobody { at: self.at() }
            }
            // Taken from the queue and dropped again, or the queue is full.
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::WouldBlock => {
                ClientError::Closing { at: self.at() }
            }
            _ => self.protocol(cause.to_string()),
        }
    }

    pub(crate) fn protocol(&self, what: String) -> ClientError {
        ClientError::Protocol { at: self.at(), what }
    }
}

/// The connection ends with its handle: dropping what a call returned hangs up.
async fn shake<S>(stream: S) -> io::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    spawn("client.connection", async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the gateway ended");
        }
    });
    Ok(sender)
}
