//! A gateway played by the test: it says exactly what the test says.

use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tidegate_client::{Client, Token};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// Longer than anything here may take.
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const SESSION: &str = "01890a5d-ac96-774b-bcce-b302099a8051";
pub(crate) const RUN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(LONG, what).await.expect("it comes")
}

pub(crate) struct Played {
    listener: TcpListener,
}

impl Played {
    pub(crate) async fn open() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn client(&self) -> Client {
        Client::http(self.listener.local_addr().unwrap(), Token::new("token"))
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Connection<impl AsyncRead + AsyncWrite + Unpin + use<>> {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        Connection { socket: soon(accept_async(stream)).await.unwrap() }
    }

    /// The next connection, greeted.
    pub(crate) async fn greet(
        &self,
        boot: &str,
        seq: u64,
        tick_ms: u64,
    ) -> Connection<impl AsyncRead + AsyncWrite + Unpin + use<>> {
        let mut connection = self.accept().await;
        connection.hello(boot, seq, tick_ms).await;
        connection
    }

    /// Turns the next one away.
    pub(crate) async fn refuse(&self, status: &str, code: &str) {
        let (mut stream, _) = soon(self.listener.accept()).await.unwrap();
        let body = json!({ "error": { "code": code, "message": "no" } }).to_string();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n{body}").as_bytes()).await.unwrap();
        let _ = stream.shutdown().await;
    }
}

pub(crate) struct Connection<S> {
    socket: WebSocketStream<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) async fn send(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn hello(&mut self, boot: &str, seq: u64, tick_ms: u64) {
        let hello = json!({
            "protocol": 1, "server": {"name": "played", "version": "0", "bootId": boot, "connId": "c"},
            "seq": seq, "me": {"name": "o", "version": "0", "agent": "main"}, "methods": [], "events": [],
            "policy": {"tickMs": tick_ms, "maxFrameBytes": 1, "maxQueuedBytes": 1, "maxRequests": 64},
        });
        self.send(json!({ "type": "event", "event": "hello", "payload": hello })).await;
    }

    /// The next request; `None` when the client hung up.
    pub(crate) async fn asked(&mut self) -> Option<Value> {
        loop {
            match soon(self.socket.next()).await {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// The next request, which is for this method.
    pub(crate) async fn asked_for(&mut self, method: &str) -> Value {
        let asked = self.asked().await.expect("a request");
        assert_eq!(asked["method"], method, "{asked}");
        asked
    }

    pub(crate) async fn answer(&mut self, asked: &Value, payload: Value) {
        self.send(json!({ "type": "res", "id": asked["id"], "ok": true, "payload": payload })).await;
    }

    /// Takes a subscription under this name, and answers what was asked for.
    pub(crate) async fn subscribed(&mut self, sub: &str) -> Value {
        let asked = self.asked_for("session.subscribe").await;
        self.answer(&asked, json!({ "sub": sub })).await;
        asked["params"].clone()
    }

    pub(crate) async fn told(&mut self, sub: &str, n: u64, event: &str, payload: Value) {
        self.send(json!({ "type": "event", "event": event, "payload": payload, "sub": sub, "n": n })).await;
    }

    pub(crate) async fn news(&mut self, seq: u64) {
        let payload = json!({ "number": seq });
        self.send(json!({ "type": "event", "event": "sessions.changed", "payload": payload, "seq": seq }))
            .await;
    }
}

pub(crate) fn lines(seqs: &[i64]) -> Vec<Value> {
    let line = |seq: &i64| json!({"seq": seq, "role": "user", "text": "", "at": 0, "runId": RUN});
    seqs.iter().map(line).collect()
}

pub(crate) fn snapshot(partial: bool, seqs: &[i64]) -> Value {
    json!({
        "session": "main", "sessionId": SESSION, "partial": partial, "messages": lines(seqs), "runs": [],
    })
}

pub(crate) fn done(seqs: &[i64]) -> Value {
    json!({ "runId": RUN, "sessionId": SESSION, "messages": lines(seqs) })
}

pub(crate) fn delta(seq: u64) -> Value {
    json!({ "runId": RUN, "attempt": 1, "seq": seq, "text": "x" })
}
