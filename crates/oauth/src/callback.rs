//! The loopback page at which the browser ends: it takes the code from the address and says that all is well.
//!
//! Anything may knock at an open port, so only a request with this login's state counts; the rest is answered and
//! forgotten.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tidegate_secrets::Secret;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::LoginError;
use crate::paste::{Expected, State, code_of_query};

const PATH: &str = "/auth/callback";
/// Browsers open connections ahead of time and leave them silent.
const CONNECTIONS: usize = 32;
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
const HEAD_LIMIT: usize = 16 << 10;

/// The page at which the browser ends.
pub struct Callback {
    listener: TcpListener,
}

impl Callback {
    /// On this machine only. A port that is taken is an error; then there is still pasting.
    pub async fn listen(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { listener: TcpListener::bind(address).await? })
    }

    pub fn port(&self) -> Option<u16> {
        self.listener.local_addr().ok().map(|address| address.port())
    }

    /// The address to which the browser is sent with the code.
    pub fn redirect(port: u16) -> String {
        format!("http://localhost:{port}{PATH}")
    }

    /// Waits for the browser. The caller says for how long.
    pub(crate) async fn code(self, expected: Expected<'_>) -> Result<Secret, LoginError> {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(outcome) = open.next(), if !open.is_empty() => match outcome {
                    // A page of somebody else's ends nothing.
                    None | Some(Err(LoginError::WrongState | LoginError::WrongIssuer | LoginError::NoCode)) => {}
                    Some(outcome) => return outcome,
                },
                accepted = self.listener.accept(), if open.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => open.push(serve(stream, expected)),
                    // Out of descriptors, most likely; the next one may fare better.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
            }
        }
    }
}

/// Answers one request. `None` when it was not for us.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    expected: Expected<'_>,
) -> Option<Result<Secret, LoginError>> {
    let head = tokio::time::timeout(REQUEST_PATIENCE, read_head(&mut stream)).await.ok().flatten()?;
    let outcome = outcome_of(&head, expected);
    let (status, text) = match &outcome {
        None => ("404 Not Found", "There is nothing here."),
        Some(Ok(_)) => ("200 OK", "You are logged in. You can close this page and go back to Tidegate."),
        Some(Err(LoginError::Denied)) => ("200 OK", "The login was declined. You can close this page."),
        Some(Err(LoginError::Refused { .. })) => {
            ("200 OK", "The login was refused. You can close this page and go back to Tidegate.")
        }
        Some(Err(_)) => ("400 Bad Request", "This page belongs to another login. Begin again in Tidegate."),
    };
    let page = page(status, text);
    // The code is there, whether or not the browser still wants to hear about it.
    let _ = tokio::time::timeout(REQUEST_PATIENCE, stream.write_all(page.as_bytes())).await;
    let _ = stream.shutdown().await;
    outcome
}

async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    let mut chunk = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut chunk).await.ok()?;
        if read == 0 || head.len() + read > HEAD_LIMIT {
            return None;
        }
        head.extend_from_slice(&chunk[..read]);
    }
    String::from_utf8(head).ok()
}

fn outcome_of(head: &str, expected: Expected<'_>) -> Option<Result<Secret, LoginError>> {
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (method == "GET" && path == PATH).then(|| code_of_query(query, expected, State::Required))
}

fn page(status: &str, text: &str) -> String {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Tidegate</title>\
         <body style=\"font: 1.1rem/1.6 system-ui, sans-serif; margin: 20vh auto; max-width: 32rem; padding: 0 1rem\">\
         <h1>Tidegate</h1><p>{text}</p></body></html>"
    );
    // No referrer and no copy: the address of this page holds the code.
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::login_server::browse;

    use super::*;

    async fn visited(targets: &[&str]) -> (Vec<String>, Result<Secret, LoginError>) {
        let callback = Callback::listen(0).await.unwrap();
        let port = callback.port().unwrap();
        let visits = async {
            let mut pages = Vec::new();
            for target in targets {
                pages.push(browse(port, target).await);
            }
            pages
        };
        let (pages, code) = tokio::join!(
            visits,
            tokio::time::timeout(Duration::from_secs(20), callback.code(Expected::state("st")))
        );
        (pages, code.unwrap())
    }

    #[tokio::test]
    async fn the_browser_brings_the_code_and_gets_a_page() {
        let (pages, code) = visited(&["/auth/callback?code=c%2F1&state=st"]).await;
        assert_eq!(code, Ok(Secret::new("c/1")));
        assert!(pages[0].starts_with("HTTP/1.1 200 OK") && pages[0].contains("You are logged in"));
        assert!(!pages[0].contains("c/1"));
    }

    #[tokio::test]
    async fn whoever_does_not_know_the_state_ends_nothing() {
        let (pages, code) = visited(&[
            "/favicon.ico",
            "/auth/callback?code=evil&state=xx",
            "/auth/callback?code=evil",
            "/auth/callback?error=access_denied",
            "/auth/callback?code=good&state=st",
        ])
        .await;
        assert_eq!(code, Ok(Secret::new("good")));
        let statuses: Vec<_> = pages.iter().map(|page| &page[9..12]).collect();
        assert_eq!(statuses, ["404", "400", "400", "400", "200"]);
    }

    #[tokio::test]
    async fn a_declined_login_is_told() {
        let (_, code) = visited(&["/auth/callback?error=access_denied&state=st"]).await;
        assert_eq!(code, Err(LoginError::Denied));
    }

    #[tokio::test]
    async fn a_silent_connection_does_not_keep_the_browser_waiting() {
        let callback = Callback::listen(0).await.unwrap();
        let port = callback.port().unwrap();
        let silent = tidegate_testkit::login_server::connect(port).await;
        let (_, code) = tokio::join!(
            browse(port, "/auth/callback?code=c&state=st"),
            tokio::time::timeout(REQUEST_PATIENCE / 2, callback.code(Expected::state("st")))
        );
        assert_eq!(code.unwrap(), Ok(Secret::new("c")));
        drop(silent);
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error() {
        let first = Callback::listen(0).await.unwrap();
        assert!(Callback::listen(first.port().unwrap()).await.is_err());
    }
}
