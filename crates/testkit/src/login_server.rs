//! A login server for tests, over a real socket, and a browser that visits an address.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidegate_runtime::spawn;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `POST /token`
    pub line: String,
    pub authorization: Option<String>,
    pub body: String,
}

impl Seen {
    pub fn field(&self, name: &str) -> Option<String> {
        tidegate_oauth::form::value(&self.body, name)
    }
}

pub struct Server {
    pub base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Answers each request with a status and a body. A text that is not JSON is sent as HTML.
    pub async fn start(answer: impl Fn(&Seen) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the test can be set up");
        let base = format!("http://{}", listener.local_addr().expect("the test can be set up"));
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&seen));
        spawn("fake login server", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                spawn("fake login answer", async move {
                    let mut stream = stream;
                    let Some(request) = request(&mut stream).await else { return };
                    log.lock().expect("the test can be set up").push(request.clone());
                    let (status, body) = answer(&request);
                    let json = serde_json::from_str::<Value>(&body).is_ok();
                    let kind = if json { "application/json" } else { "text/html" };
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all([head, body].concat().as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { base, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("the test can be set up").clone()
    }

    pub fn count(&self, path: &str) -> usize {
        self.seen().iter().filter(|seen| seen.line.ends_with(path)).count()
    }
}

async fn request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| {
                let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
                Some(line.split_once(": ")?.1.to_owned())
            };
            let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
                return Some(Seen { line, authorization: header("authorization"), body: body.to_owned() });
            }
        }
        let read = stream.read(&mut chunk).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..read]);
    }
}

#[expect(clippy::disallowed_types, reason = "a browser, played by a test")]
pub async fn connect(port: u16) -> tokio::net::TcpStream {
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the test can be set up")
}

/// Visits an address of the loopback page; answers the whole response.
pub async fn browse(port: u16, target: &str) -> String {
    let mut stream = connect(port).await;
    send(
        &mut stream,
        format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n").as_bytes(),
    )
    .await;
    let mut page = String::new();
    stream.read_to_string(&mut page).await.expect("the test can be set up");
    page
}

/// Opens an address as a browser does, wherever on this machine it is sent on to; answers the last response.
pub async fn walk(url: &str) -> String {
    let mut url = url.to_owned();
    for _ in 0..5 {
        let rest = url.strip_prefix("http://").expect("a plain address");
        let (host, target) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let port =
            host.rsplit(':').next().and_then(|port| port.parse().ok()).expect("an address with a port");
        let page = browse(port, target).await;
        let moved = page.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
        });
        match moved {
            Some(next) => url = next,
            None => return page,
        }
    }
    panic!("it goes round in circles")
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) {
    stream.write_all(bytes).await.expect("the test can be set up");
}

/// A port at which nobody listens.
pub async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .await
        .expect("the test can be set up")
        .local_addr()
        .expect("the test can be set up")
        .port()
}
