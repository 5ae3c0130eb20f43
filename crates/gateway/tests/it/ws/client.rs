//! A client of the protocol: sends texts, reads frames, signs as a device.
#![expect(clippy::disallowed_types, reason = "a test speaks to its own gateway")]

use std::collections::VecDeque;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::house::{House, LONG};

pub(super) struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Events that came while an answer was waited for.
    events: VecDeque<Value>,
    next: u64,
}

/// What a client read.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    Frame(Value),
    Closed(u16, String),
}

impl Client {
    pub(super) async fn open(house: &House, path: &str, headers: &[(&str, &str)]) -> Result<Self, Error> {
        let mut request = format!("ws://{}{path}", house.address()).into_client_request().unwrap();
        for (name, value) in headers {
            let name: hyper::header::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let (socket, _) = connect_async(request).await?;
        Ok(Self { socket, events: VecDeque::new(), next: 1 })
    }

    pub(super) async fn send(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.unwrap();
    }

    /// The same to somebody who may hang up meanwhile.
    pub(super) async fn try_send(&mut self, text: String) {
        let _ = self.socket.send(Message::text(text)).await;
    }

    pub(super) async fn read(&mut self) -> Read {
        loop {
            let message = timeout(LONG, self.socket.next()).await.expect("a frame comes");
            match message {
                Some(Ok(Message::Text(text))) => return Read::Frame(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => {
                    let frame = frame.expect("a close says why");
                    return Read::Closed(frame.code.into(), frame.reason.to_string());
                }
                Some(Ok(_)) => {}
                None | Some(Err(_)) => return Read::Closed(0, String::new()),
            }
        }
    }

    pub(super) async fn frame(&mut self) -> Value {
        match self.read().await {
            Read::Frame(frame) => frame,
            Read::Closed(code, reason) => panic!("closed with {code} {reason}"),
        }
    }

    /// Sends a request without waiting. Answers its id.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> String {
        let id = format!("q{}", self.next);
        self.next += 1;
        self.send(json!({ "type": "req", "id": id, "method": method, "params": params }).to_string()).await;
        id
    }

    /// The next response to a request; events are kept for later.
    pub(super) async fn answer(&mut self, id: &str) -> Value {
        loop {
            let frame = self.frame().await;
            if frame["type"] == "res" && frame["id"] == id {
                return frame;
            }
            self.events.push_back(frame);
        }
    }

    pub(super) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(&id).await
    }

    /// The payload of a call that goes well.
    pub(super) async fn payload(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer["payload"].clone()
    }

    /// The message of a call that does not.
    pub(super) async fn refusal(&mut self, method: &str, params: Value) -> (String, String) {
        let answer = self.call(method, params).await;
        assert_eq!(answer["ok"], false, "{method}: {answer}");
        let text = |name: &str| answer["error"][name].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }

    /// The next event that is wanted; others are left out.
    pub(super) async fn event(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = match self.events.pop_front() {
                Some(frame) => frame,
                None => self.frame().await,
            };
            if frame["type"] == "event" && wanted(&frame) {
                return frame;
            }
        }
    }

    /// Everything up to the event that is wanted.
    pub(super) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let event = self.event(|_| true).await;
            let last = wanted(&event);
            all.push(event);
            if last {
                return all;
            }
        }
    }
}

pub(super) fn named(name: &'static str) -> impl Fn(&Value) -> bool {
    move |frame| frame["event"] == name
}

pub(super) fn chat(state: &'static str) -> impl Fn(&Value) -> bool {
    move |frame| frame["event"] == "chat" && frame["payload"]["state"] == state
}

/// The parameters of a plain program with the token.
pub(super) fn program(house: &House, scopes: &[&str]) -> Value {
    json!({
        "minProtocol": 3, "maxProtocol": 4, "role": "operator", "scopes": scopes, "caps": ["tool-events"],
        "client": { "id": "cli", "version": "dev", "platform": "linux", "mode": "ui" },
        "auth": { "token": house.token },
    })
}

/// A client that has entered, and its hello.
pub(super) async fn entered(house: &House, params: Value) -> (Client, Value) {
    let mut client = Client::open(house, "/", &[]).await.unwrap();
    let challenge = client.frame().await;
    assert_eq!(challenge["event"], "connect.challenge");
    let hello = client.payload("connect", params).await;
    (client, hello)
}

pub(super) async fn operator(house: &House) -> Client {
    entered(house, program(house, &["operator.admin"])).await.0
}

/// A device with a key of its own.
pub(super) struct Device {
    pair: Ed25519KeyPair,
}

impl Device {
    pub(super) fn new(seed: u8) -> Self {
        Self { pair: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap() }
    }

    pub(super) fn id(&self) -> String {
        Sha256::digest(self.pair.public_key().as_ref())
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Puts the device and its signature into connect parameters. `form` is 1, 2 or 3.
    pub(super) fn sign(&self, mut params: Value, form: u8, nonce: &str, at: i64) -> Value {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let scopes: Vec<String> = params["scopes"].as_array().into_iter().flatten().map(text).collect();
        let client = &params["client"];
        let role = params["role"].as_str().unwrap_or("operator");
        let mut signed = format!(
            "v{form}|{}|{}|{}|{role}|{}|{at}|{}",
            self.id(),
            text(&client["id"]),
            text(&client["mode"]),
            scopes.join(","),
            text(&params["auth"]["token"]),
        );
        if form > 1 {
            signed = format!("{signed}|{nonce}");
        }
        if form > 2 {
            let plain = |name: &str| text(&client[name]).to_lowercase();
            signed = format!("{signed}|{}|{}", plain("platform"), plain("deviceFamily"));
        }
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let mut device = json!({
            "id": self.id(), "publicKey": encode(self.pair.public_key().as_ref()), "signedAt": at,
            "signature": encode(self.pair.sign(signed.as_bytes()).as_ref()),
        });
        if form > 1 {
            device["nonce"] = json!(nonce);
        }
        params["device"] = device;
        params
    }
}
