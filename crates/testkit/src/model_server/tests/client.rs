//! A plain HTTP client: one connection a request, the body as it arrives.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::model_server::{Format, ModelServer};

/// An answer on its way.
pub(super) struct Coming {
    pub(super) head: Response<()>,
    body: Incoming,
    /// Dropping it closes the connection.
    connection: tokio::task::AbortHandle,
}

/// An answer as far as it came.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) pieces: Vec<Bytes>,
    /// Whether the body came to its proper end.
    pub(super) whole: bool,
    /// What the connection ended with instead.
    pub(super) error: String,
}

impl Came {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Coming {
    /// The next piece of the body; `None` at its end.
    pub(super) async fn piece(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame())
            .await
            .expect("a piece in time")?;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }

    pub(super) async fn all(mut self) -> Came {
        let mut came = Came {
            status: self.head.status().as_u16(),
            content_type: self.head.headers()["content-type"].to_str().unwrap().to_owned(),
            pieces: Vec::new(),
            whole: true,
            error: String::new(),
        };
        while let Some(piece) = self.piece().await {
            match piece {
                Ok(piece) => came.pieces.push(piece),
                Err(error) => {
                    came.whole = false;
                    came.error = format!("{error:?}");
                    break;
                }
            }
        }
        came
    }
}

#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a client that sees every byte")]
pub(super) async fn send(server: &ModelServer, request: Request<Full<Bytes>>) -> hyper::Result<Coming> {
    let address = server.base_url().strip_prefix("http://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection).abort_handle();
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Coming { head: Response::from_parts(head, ()), body, connection })
}

pub(super) async fn post(server: &ModelServer, path: &str, body: &Value) -> Coming {
    let request = Request::post(path).header("host", "played").header("content-type", "application/json");
    send(server, request.body(Full::from(body.to_string())).unwrap()).await.unwrap()
}

pub(super) async fn get(server: &ModelServer, path: &str) -> Came {
    let request = Request::get(path).header("host", "played").body(Full::default()).unwrap();
    send(server, request).await.unwrap().all().await
}

/// Where a format is asked, and with what: `model` is the model, `stream` whether it streams.
pub(super) fn question(format: Format, model: &str, stream: bool) -> (String, Value) {
    let messages = json!([{"role": "user", "content": "hi"}]);
    match format {
        Format::Anthropic => (
            "/v1/messages".into(),
            json!({"model": model, "max_tokens": 9, "messages": messages, "stream": stream}),
        ),
        Format::Completions => (
            "/v1/chat/completions".into(),
            json!({
                "model": model, "messages": messages, "stream": stream, "stream_options": {"include_usage": true},
            }),
        ),
        Format::Responses => {
            ("/v1/responses".into(), json!({"model": model, "input": messages, "stream": stream}))
        }
        Format::Codex => (
            "/backend-api/codex/responses".into(),
            json!({"model": model, "input": messages, "stream": stream}),
        ),
        Format::Google => {
            let verb = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
            (
                format!("/v1beta/models/{model}:{verb}"),
                json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
            )
        }
        Format::Ollama => {
            ("/api/chat".into(), json!({"model": model, "messages": messages, "stream": stream}))
        }
        Format::Bedrock => {
            let verb = if stream { "converse-stream" } else { "converse" };
            (
                format!("/model/{model}/{verb}"),
                json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}),
            )
        }
    }
}

/// Asks and gives the answer while it comes.
pub(super) async fn begin(server: &ModelServer, format: Format) -> Coming {
    let (path, body) = question(format, "m", true);
    post(server, &path, &body).await
}

/// Asks for a stream and reads it to its end.
pub(super) async fn ask(server: &ModelServer, format: Format) -> Came {
    begin(server, format).await.all().await
}

/// Asks for a whole answer.
pub(super) async fn ask_whole(server: &ModelServer, format: Format) -> Came {
    let (path, body) = question(format, "m", false);
    post(server, &path, &body).await.all().await
}
