//! A client of the gateway's WebSocket protocol, as cheap as can be: it looks for words in frames and parses none.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::http::Stream;
use super::turns::Target;
use crate::store::Fallible;

/// A frame that takes longer does not come.
const PATIENCE: Duration = Duration::from_mins(1);
/// Ten thousand of them live in one driver.
const READ_BUFFER: usize = 4096;

pub(crate) struct Socket {
    stream: WebSocketStream<Stream>,
    next: u64,
}

impl Socket {
    /// Comes in and says who it is.
    pub(crate) async fn enter(target: &Target) -> Fallible<Self> {
        let mut socket = Self::open(target.address).await?;
        socket.until(|frame| frame.contains("connect.challenge")).await?;
        let connect = json!({
            "minProtocol": 3, "maxProtocol": 4,
            "client": { "id": "gateway-client", "version": "1", "platform": "linux", "mode": "backend" },
            "role": "operator", "scopes": ["operator.read", "operator.write"], "caps": [],
            "auth": { "token": target.token },
        });
        socket.ask("connect", &connect).await?;
        Ok(socket)
    }

    async fn open(address: SocketAddr) -> Fallible<Self> {
        let stream = Stream::connect(address).await?;
        stream.set_nodelay(true)?;
        let request = format!("ws://{address}/").into_client_request()?;
        let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER).write_buffer_size(0);
        let (stream, _) = client_async_with_config(request, stream, Some(config)).await?;
        Ok(Self { stream, next: 1 })
    }

    /// Sends a request and waits until it was answered well.
    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Fallible<String> {
        let id = self.send(method, params).await?;
        let mark = format!(r#""id":"{id}""#);
        let answer = self.until(|frame| frame.contains(r#""type":"res""#) && frame.contains(&mark)).await?;
        if answer.contains(r#""ok":true"#) { Ok(answer) } else { Err(format!("{method}: {answer}").into()) }
    }

    /// Sends a request; answers its id.
    pub(crate) async fn send(&mut self, method: &str, params: &Value) -> Fallible<String> {
        let id = self.next.to_string();
        self.next += 1;
        let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
        self.stream.send(Message::text(frame.to_string())).await?;
        Ok(id)
    }

    /// Reads until a frame is the one that is waited for.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&str) -> bool) -> Fallible<String> {
        loop {
            let frame = self.frame().await?;
            if wanted(&frame) {
                return Ok(frame);
            }
        }
    }

    pub(crate) async fn frame(&mut self) -> Fallible<String> {
        timeout(PATIENCE, self.quiet_frame()).await.map_err(|_| "no frame came within a minute")?
    }

    /// The next frame, however long that takes.
    pub(crate) async fn quiet_frame(&mut self) -> Fallible<String> {
        let message = self.stream.next().await;
        match message.ok_or("the socket ended")?? {
            Message::Text(text) => Ok(text.as_str().to_owned()),
            Message::Close(frame) => Err(format!("the socket was closed: {frame:?}").into()),
            _ => Ok(String::new()),
        }
    }
}
