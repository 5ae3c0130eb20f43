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
        request = match &self.target {
            Target::Control(_) => request.header(HOST, "localhost"),
            Target::Port(address, token) => {
                request.header(HOST, address.to_string()).header(AUTHORIZATION, format!("Bearer {}", token.0))
            }
        };
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        // Not the error's own text: it could quote the token.
        request
            .body(body)
            .map_err(|_| self.protocol("the path or the token cannot be part of a request".to_owned()))
    }

    #[expect(clippy::disallowed_types, reason = "the operator's own gateway, not an address somebody chose")]
    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        match &self.target {
            Target::Control(path) => shake(socket::connect(path).await?).await,
            Target::Port(address, _) => {
                let stream = tokio::net::TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                shake(stream).await
            }
        }
    }

    fn unreachable(&self, cause: &io::Error) -> ClientError {
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
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    spawn("client.connection", async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the gateway ended");
        }
    });
    Ok(sender)
}
