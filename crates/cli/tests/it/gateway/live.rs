//! A gateway that runs: started as a person or a service manager would, and never left behind.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::http::{self, Answer};
use crate::home::Home;
use crate::process::{Call, Done, Running};

/// How long something that must happen may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(45);

/// Waits until a condition holds. The message says what never came.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The gateway of a home. Killed when it is dropped.
pub(crate) struct Live {
    process: Option<Running>,
    /// Host and port.
    pub(crate) address: String,
    pub(crate) link: String,
    pub(crate) token: String,
}

impl Live {
    pub(crate) fn start(home: &Home) -> Self {
        Self::with(home.call(&["up", "--json", "--port", "0"]), home.root())
    }

    /// Starts it as the call says, which has the words `up --json --port 0`.
    pub(crate) fn with(call: Call, root: &Path) -> Self {
        let running = call.start();
        match Self::opened(running, root) {
            Ok(live) => live,
            Err(done) => panic!("the gateway did not start: {done:?}"),
        }
    }

    /// The same for one that may die while it starts.
    pub(crate) fn opened(mut running: Running, root: &Path) -> Result<Self, Done> {
        let line = running.line();
        let Ok(told) = serde_json::from_str::<Value>(&line) else { return Err(running.wait()) };
        assert_eq!(told["pid"], running.pid(), "{line}");
        let text = |name: &str| told[name].as_str().expect("the line names it").to_owned();
        let token = fs::read_to_string(root.join("credentials/local-token")).expect("there is a token");
        Ok(Self {
            process: Some(running),
            address: text("url").strip_prefix("http://").expect("a plain address").to_owned(),
            link: text("link"),
            token: token.trim().to_owned(),
        })
    }

    fn process(&self) -> &Running {
        self.process.as_ref().expect("it was not waited for yet")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process().pid()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    pub(crate) fn is_there(&mut self) -> bool {
        self.process.as_mut().expect("it was not waited for yet").is_there()
    }

    /// Waits for its end, however it comes.
    pub(crate) fn wait(mut self) -> Done {
        self.process.take().expect("it was not waited for yet").wait()
    }

    /// Ends it in good order; answers what it had said.
    pub(crate) fn end(self) -> Done {
        self.signal(Signal::TERM);
        let done = self.wait();
        assert_eq!((done.code, done.signal), (Some(0), None), "{done:?}");
        done
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// A request with the token.
    pub(crate) fn try_http(&self, method: &str, path: &str, body: &Value) -> Option<Answer> {
        let bearer = format!("Bearer {}", self.token);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        http::request(&self.address, method, path, &[("Authorization", &bearer)], &body)
    }

    pub(crate) fn http(&self, method: &str, path: &str, body: &Value) -> Answer {
        let answer = self.try_http(method, path, body);
        answer.unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// Asks as a program does that speaks the OpenAI dialect.
    pub(crate) fn chat(&self, text: &str) -> Answer {
        let body = json!({ "model": "offline", "messages": [{ "role": "user", "content": text }] });
        self.http("POST", "/v1/chat/completions", &body)
    }

    /// Puts a message into a conversation; its answer is read later.
    pub(crate) fn post(&self, session: &str, text: &str, key: &str) -> Option<Answer> {
        let body = json!({ "text": text, "key": key });
        self.try_http("POST", &format!("/api/v1/sessions/{session}/messages"), &body)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            if process.is_there() {
                process.signal(Signal::KILL);
            }
            process.wait();
        }
    }
}
