//! One WebSocket connection: made, greeted, and then texts both ways, each with a deadline.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::header::{AUTHORIZATION, HOST};
use serde_json::Value;
use tidegate_protocol::api::{Hello, RequestFrame, ServerFrame};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::call::within;
use crate::connect::{Client, Stream};
use crate::error::ClientError;

/// How long connecting may take, up to the hello.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// How long writing one frame may take.
const WRITE: Duration = Duration::from_secs(10);
const PATH: &str = "/api/v1/socket";

pub(super) struct Socket {
    client: Client,
    socket: WebSocketStream<Box<dyn Stream>>,
}

impl Socket {
    /// Connects, and reads the hello.
    pub(super) async fn open(client: &Client, patience: Duration) -> Result<(Self, Hello), ClientError> {
        within(patience, Self::enter(client)).await
    }

    async fn enter(client: &Client) -> Result<(Self, Hello), ClientError> {
        let stream = client.stream().await.map_err(|cause| client.unreachable(&cause))?;
        let (host, proof) = client.credentials();
        // Not the error's own text: it could quote the token.
        let unfit = || client.protocol("the address or the token cannot be part of a request".to_owned());
        let mut request = format!("ws://{host}{PATH}").into_client_request().map_err(|_| unfit())?;
        request.headers_mut().insert(HOST, host.parse().map_err(|_| unfit())?);
        if let Some(proof) = proof {
            request.headers_mut().insert(AUTHORIZATION, proof.parse().map_err(|_| unfit())?);
        }
        let (socket, _) = client_async(request, stream).await.map_err(|error| refused(client, error))?;
        let mut socket = Self { client: client.clone(), socket };
        match socket.next().await? {
            ServerFrame::Event { event, payload, .. } if event == "hello" => {
                let hello = serde_json::from_value(payload);
                let hello = hello.map_err(|error| client.protocol(error.to_string()))?;
                Ok((socket, hello))
            }
            _ => Err(client.protocol("the first frame is not `hello`".to_owned())),
        }
    }

    /// The next frame. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Result<ServerFrame, ClientError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frame = serde_json::from_str(&text);
                    return frame.map_err(|error| self.client.protocol(error.to_string()));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    return Err(ClientError::Closing { at: self.client.at() });
                }
            }
        }
    }

    pub(super) async fn ask(&mut self, id: u64, method: &str, params: Value) -> Result<(), ClientError> {
        let frame = RequestFrame { id: id.to_string(), method: method.to_owned(), params };
        let text = serde_json::to_string(&frame).map_err(|error| self.client.protocol(error.to_string()))?;
        let closing = || ClientError::Closing { at: self.client.at() };
        match tokio::time::timeout(WRITE, self.socket.send(Message::text(text))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(closing()),
        }
    }

    /// Says goodbye, if that can be done at once.
    pub(super) async fn close(mut self) {
        let _ = tokio::time::timeout(Duration::from_millis(200), self.socket.close(None)).await;
    }
}

/// Why a connection was not made.
fn refused(client: &Client, error: Error) -> ClientError {
    match error {
        Error::Http(answer) => client.refusal(answer.status(), answer.body().as_deref().unwrap_or_default()),
        Error::Io(cause) => client.unreachable(&cause),
        Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_) => {
            ClientError::Closing { at: client.at() }
        }
        other => client.protocol(other.to_string()),
    }
}
