//! Speaking HTTP by hand, where a client would be too polite.

use std::path::Path;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate_runtime::{socket, spawn};

use crate::house::{House, LONG};

/// A request to be sent; nothing is added but what is given and a `Host`.
#[derive(Clone)]
pub(crate) struct Call {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    door: Door,
}

#[derive(Clone)]
enum Door {
    Port(std::net::SocketAddr),
    Socket(std::path::PathBuf),
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The error code, in whichever dialect.
    pub(crate) fn code(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl House {
    /// A call through the port, without any proof of who sends it.
    pub(crate) fn call(&self, method: &'static str, path: &str) -> Call {
        Call {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            door: Door::Port(self.address()),
        }
    }

    /// A call through the control socket.
    pub(crate) fn control_call(&self, method: &'static str, path: &str) -> Call {
        Call { door: Door::Socket(self.socket.clone()), ..self.call(method, path) }
    }

    /// A call with the token.
    pub(crate) fn owner(&self, method: &'static str, path: &str) -> Call {
        self.call(method, path).with("authorization", &self.bearer())
    }
}

impl Call {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = serde_json::to_vec(body).unwrap();
        self.with("content-type", "application/json")
    }

    pub(crate) fn bytes(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// Sends it and returns with the head of the answer; the body is read as the test wants.
    pub(crate) async fn open(self) -> Response<Incoming> {
        let host = match &self.door {
            Door::Port(address) => address.to_string(),
            Door::Socket(_) => "localhost".to_owned(),
        };
        let mut request = Request::builder().method(self.method).uri(&self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", host);
        }
        for (name, value) in self.headers.iter().filter(|(_, value)| value != "(none)") {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(self.body))).unwrap();
        let answer = async {
            match &self.door {
                Door::Port(address) => shake(connect(*address).await, request).await,
                Door::Socket(path) => shake(unix(path).await, request).await,
            }
        };
        tokio::time::timeout(LONG, answer).await.expect("the gateway answers")
    }

    pub(crate) async fn send(self) -> Reply {
        let answer = self.open().await;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = tokio::time::timeout(LONG, answer.into_body().collect()).await.expect("the body ends");
        Reply { status, headers, body: body.unwrap().to_bytes().to_vec() }
    }
}

#[expect(clippy::disallowed_types, reason = "a test speaks to its own gateway")]
pub(crate) async fn connect(address: std::net::SocketAddr) -> tokio::net::TcpStream {
    tokio::net::TcpStream::connect(address).await.expect("the port is open")
}

async fn unix(path: &Path) -> tokio::net::UnixStream {
    socket::connect(path).await.expect("the socket is open")
}

async fn shake<S>(stream: S, request: Request<Full<Bytes>>) -> Response<Incoming>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    spawn("test.connection", async move {
        let _ = connection.await;
    });
    sender.send_request(request).await.expect("the gateway answers")
}

/// Reads server-sent events one by one.
pub(crate) struct EventReader {
    body: Incoming,
    unread: Vec<u8>,
}

impl EventReader {
    pub(crate) fn new(answer: Response<Incoming>) -> Self {
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { body: answer.into_body(), unread: Vec::new() }
    }

    /// Name and data of the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.unread.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().trim_start().to_owned()
                };
                return Some((field("event:"), field("data:")));
            }
            let frame =
                tokio::time::timeout(LONG, self.body.frame()).await.expect("the next event comes")?.unwrap();
            self.unread.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// The next event, which must have this name, as JSON.
    pub(crate) async fn expect(&mut self, name: &str) -> Value {
        let (event, data) = self.next().await.expect("the stream goes on");
        assert_eq!(event, name, "{data}");
        serde_json::from_str(&data).unwrap()
    }
}
