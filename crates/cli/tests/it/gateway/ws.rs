//! A client of the WebSocket protocol, on a thread of its own: it says who it is, asks, and reads what it is told.
#![expect(clippy::disallowed_types, reason = "a test speaks to its own gateway")]

use std::collections::VecDeque;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, HandshakeError, Message, WebSocket, client};

use super::live::Live;

/// How long something that must come may take.
const PATIENCE: Duration = Duration::from_secs(45);

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Read {
    Frame(Value),
    /// With the code of the close frame; 0 without one.
    Closed(u16),
}

pub(super) struct Ws {
    socket: WebSocket<TcpStream>,
    /// Events that came while an answer was waited for.
    events: VecDeque<Value>,
    next: u64,
}

impl Ws {
    /// A client that was let in.
    pub(super) fn enter(live: &Live) -> Self {
        Self::try_enter(&live.address, &live.token).expect("the gateway lets us in")
    }

    /// The same where it may be turned away: 401 by the handshake, else by the status of the upgrade; 0 without one.
    pub(super) fn try_enter(address: &str, token: &str) -> Result<Self, u16> {
        let Ok(stream) = TcpStream::connect(address) else { return Err(0) };
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        let socket = match client(format!("ws://{address}/"), stream) {
            Ok((socket, _)) => socket,
            Err(HandshakeError::Failure(Error::Http(answer))) => return Err(answer.status().as_u16()),
            Err(_) => return Err(0),
        };
        let mut client = Self { socket, events: VecDeque::new(), next: 1 };
        let Read::Frame(challenge) = client.read() else { return Err(0) };
        assert_eq!(challenge["event"], "connect.challenge");
        let hello = client.call(
            "connect",
            &json!({
                "minProtocol": 3, "maxProtocol": 4, "role": "operator", "scopes": ["operator.admin"],
                "client": { "id": "cli", "version": "dev", "platform": "linux", "mode": "ui" },
                "auth": { "token": token },
            }),
        );
        if hello["ok"] == true { Ok(client) } else { Err(401) }
    }

    pub(super) fn read(&mut self) -> Read {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    return Read::Frame(serde_json::from_str(&text).expect("a frame is JSON"));
                }
                Ok(Message::Close(frame)) => return Read::Closed(frame.map_or(0, |frame| frame.code.into())),
                Ok(_) => {}
                Err(_) => return Read::Closed(0),
            }
        }
    }

    /// The answer to a request; `Null` when the socket closed before it came.
    pub(super) fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = format!("q{}", self.next);
        self.next += 1;
        let request = json!({ "type": "req", "id": id, "method": method, "params": params });
        if self.socket.send(Message::text(request.to_string())).is_err() {
            return Value::Null;
        }
        loop {
            match self.read() {
                Read::Frame(frame) if frame["type"] == "res" && frame["id"] == id => return frame,
                Read::Frame(frame) => self.events.push_back(frame),
                Read::Closed(_) => return Value::Null,
            }
        }
    }

    pub(super) fn payload(&mut self, method: &str, params: &Value) -> Value {
        let mut answer = self.call(method, params);
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer["payload"].take()
    }

    /// The next event that is wanted; `None` when the socket closed before it came. Others are left out.
    pub(super) fn event(&mut self, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            let frame = match self.events.pop_front() {
                Some(frame) => frame,
                None => match self.read() {
                    Read::Frame(frame) => frame,
                    Read::Closed(_) => return None,
                },
            };
            if frame["type"] == "event" && wanted(&frame) {
                return Some(frame);
            }
        }
    }

    /// Everything until the socket closes, and how it did.
    pub(super) fn heard_out(mut self) -> (Vec<Value>, u16) {
        let mut told = Vec::from(std::mem::take(&mut self.events));
        loop {
            match self.read() {
                Read::Frame(frame) => told.push(frame),
                Read::Closed(code) => return (told, code),
            }
        }
    }
}
