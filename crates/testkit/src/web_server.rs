//! A web server on the loopback that answers as badly as a test wants: bytes as they are given, and then silence, a
//! flood or a drip. It keeps every request.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_runtime::{Shutdown, Task};
use tokio::net::TcpListener;

#[expect(clippy::disallowed_types, reason = "the server's side of a connection")]
type Stream = tokio::net::TcpStream;

/// Bytes of a request that are read at most.
const MOST: usize = 4 << 20;

/// What the server was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// Without the query.
    pub path: String,
    /// After the question mark, decoded, in order.
    pub query: Vec<(String, String)>,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Then {
    Close,
    /// The connection stays open, and nothing more comes.
    Stall,
    /// This again and again, as fast as it is taken.
    Flood(Vec<u8>),
    /// This again and again, with a pause before each.
    Drip(Vec<u8>, Duration),
}

impl Page {
    pub fn new(status: u16, kind: &str, body: impl AsRef<[u8]>) -> Self {
        Self::with_headers(status, &[("content-type", kind)], body)
    }

    pub fn with_headers(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status} Answer\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head = format!("{head}{name}: {value}\r\n");
        }
        let mut bytes = format!("{head}connection: close\r\n\r\n").into_bytes();
        bytes.extend_from_slice(body);
        Self::raw(bytes)
    }

    pub fn html(body: &str) -> Self {
        Self::new(200, "text/html; charset=utf-8", body)
    }

    pub fn redirect(status: u16, to: &str) -> Self {
        Self::with_headers(status, &[("location", to)], "")
    }

    /// These bytes and no others.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Close }
    }

    #[must_use]
    pub fn then_stall(self) -> Self {
        Self { then: Then::Stall, ..self }
    }

    #[must_use]
    pub fn then_flood(self, with: &[u8]) -> Self {
        Self { then: Then::Flood(with.to_owned()), ..self }
    }

    #[must_use]
    pub fn then_drip(self, with: &[u8], pause: Duration) -> Self {
        Self { then: Then::Drip(with.to_owned(), pause), ..self }
    }
}

type Handler = dyn Fn(&Asked) -> Page + Send + Sync;

/// A running server. Dropping it closes its port and every connection.
pub struct WebServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    shutdown: Shutdown,
    _serving: Task<()>,
}

impl WebServer {
    /// Serves pages by their paths; everything else is a 404.
    pub async fn of_pages(pages: impl IntoIterator<Item = (&str, Page)>) -> Self {
        let pages: BTreeMap<String, Page> =
            pages.into_iter().map(|(path, page)| (path.to_owned(), page)).collect();
        let missing = Page::new(404, "text/plain", "there is no such page");
        Self::answering(move |asked| pages.get(&asked.path).unwrap_or(&missing).clone()).await
    }

    /// Answers each request with what the handler makes of it.
    pub async fn answering(handler: impl Fn(&Asked) -> Page + Send + Sync + 'static) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port of the loopback");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (asked, shutdown) = (Arc::<Mutex<Vec<Asked>>>::default(), Shutdown::new());
        let serving = serve(listener, Arc::new(handler), asked.clone(), shutdown.clone());
        let serving = tidegate_runtime::spawn("web server", serving);
        Self { address, asked, shutdown, _serving: serving }
    }

    /// `127.0.0.1:port`, as a guard allows it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Everything it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.shutdown.request();
    }
}

async fn serve(
    listener: TcpListener,
    handler: Arc<Handler>,
    asked: Arc<Mutex<Vec<Asked>>>,
    shutdown: Shutdown,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.requested() => return,
        };
        let Ok((stream, _peer)) = accepted else { continue };
        let (handler, asked, shutdown) = (handler.clone(), asked.clone(), shutdown.clone());
        tidegate_runtime::spawn("web server connection", async move {
            tokio::select! {
                () = answer(stream, handler, asked) => {}
                () = shutdown.requested() => {}
            }
        });
    }
}

async fn answer(stream: Stream, handler: Arc<Handler>, log: Arc<Mutex<Vec<Asked>>>) {
    let Some(asked) = read(&stream).await else { return };
    log.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
    let page = handler(&asked);
    if !write(&stream, &page.bytes).await {
        return;
    }
    match page.then {
        Then::Close => {}
        Then::Stall => std::future::pending().await,
        Then::Flood(with) => while write(&stream, &with).await {},
        Then::Drip(with, pause) => loop {
            tokio::time::sleep(pause).await;
            if !write(&stream, &with).await {
                return;
            }
        },
    }
}

/// Writes everything, unless nobody reads any more.
async fn write(stream: &Stream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        if stream.writable().await.is_err() {
            return false;
        }
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}

async fn read(stream: &Stream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        if let Some(asked) = parse(&bytes) {
            return Some(asked);
        }
        stream.readable().await.ok()?;
        let mut piece = [0; 16 << 10];
        match stream.try_read(&mut piece) {
            Ok(0) => return None,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        assert!(bytes.len() <= MOST, "a request of a test is small");
    }
}

/// The request, once it is whole.
fn parse(bytes: &[u8]) -> Option<Asked> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?);
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let body = bytes[end + 4..].to_owned();
    if body.len() < length {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    });
    Some(Asked { method, path: path.to_owned(), query: query.collect(), headers, body })
}

/// Undoes percent signs and pluses.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let coded = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (first, coded.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
