//! A model vendor on this machine that gives the same answer to every call, and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_runtime::spawn_thread;

/// What it sends back.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Status, more header lines, body.
    Http(u16, &'static str, String),
    /// Nothing, for as long as the caller waits.
    Silence,
}

impl Reply {
    /// One word, streamed as Anthropic does.
    pub(crate) fn ok() -> Self {
        let events = [
            r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m1","content":[],"stop_reason":null,"usage":{"input_tokens":12,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let name = |event: &str| event.split('"').nth(3).unwrap_or_default().to_owned();
        let lines = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event)));
        Self::Http(200, "content-type: text/event-stream\r\n", lines.collect::<Vec<_>>().concat())
    }

    /// A refusal in Anthropic's form.
    pub(crate) fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::limited(status, kind, message, "content-type: application/json\r\n")
    }

    pub(crate) fn limited(status: u16, kind: &str, message: &str, headers: &'static str) -> Self {
        let body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#);
        Self::Http(status, headers, body)
    }
}

/// It answers until the test ends.
pub(crate) struct Vendor {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    pub(crate) fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let _ = spawn_thread("vendor", move || {
            for stream in listener.incoming().flatten() {
                let (reply, kept) = (reply.clone(), Arc::clone(&kept));
                let _ = spawn_thread("vendor call", move || answer(stream, &reply, &kept));
            }
        });
        Self { port, seen }
    }

    /// The requests as they came, head and body.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no test panics with it").clone()
    }

    /// A configuration in which it is the provider `mock`, without repetitions.
    pub(crate) fn config(&self) -> String {
        config_at(&format!("http://127.0.0.1:{}", self.port))
    }
}

/// The provider `mock` at an address.
pub(crate) fn config_at(url: &str) -> String {
    format!(
        "// mine\n{{\n  models: {{\n    retries: 0, idleTimeoutSeconds: 1, connectTimeoutSeconds: 5,\n    \
         providers: {{ mock: {{ api: 'anthropic-messages', baseUrl: '{url}', // why\n      \
         models: [{{ id: 'm1', cost: {{ input: 3, output: 15 }} }}] }} }},\n  }},\n}}\n"
    )
}

fn answer(stream: impl Read + Write, reply: &Reply, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    seen.lock().expect("no test panics with it").push(head + &String::from_utf8_lossy(&body));
    let mut stream = reader.into_inner();
    match reply {
        Reply::Silence => std::thread::sleep(Duration::from_secs(30)),
        Reply::Http(status, headers, body) => {
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(text.as_bytes());
        }
    }
}
