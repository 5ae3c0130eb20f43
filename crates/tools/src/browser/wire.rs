//! The conversation with a browser: messages of its debugging protocol over two pipes, each ended by a zero byte.
//!
//! No port is opened, so nobody else on the machine or in a sandbox can speak to it. What comes is cut into messages as
//! it comes; a message that is larger than anything we ask for ends the browser, whatever a page made it write.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_policy::{RunError, Running, Sink, Stream};
use tokio::sync::{mpsc, oneshot};

use crate::tool::ToolFailure;
use crate::truncate::tail_bytes;

/// One message, and everything of one that did not end yet.
const LONGEST: usize = 64 << 20;
/// Events that nobody looked at yet.
const MOST_EVENTS: usize = 8192;
/// What it wrote on its error stream that is kept.
const KEPT_ERRORS: usize = 4 << 10;

/// Something that happened in the browser.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) method: String,
    pub(super) params: Value,
    /// The page or frame it happened in; absent for the browser itself.
    pub(super) session: Option<String>,
}

/// Why a browser did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error("the browser ended ({0}); the next call starts a new one")]
    Ended(String),
    #[error("the page did not answer within {0} s; it may be busy: close its tab, or wait and try again")]
    Silent(u64),
    /// Its own words, never a page's.
    #[error("the browser refused: {0}")]
    Refused(String),
}

impl From<WireError> for ToolFailure {
    fn from(error: WireError) -> Self {
        Self::execution(error.to_string())
    }
}

type Answer = Result<Value, WireError>;

/// What a browser wrote, taken apart.
struct Inbox {
    /// The beginning of a message.
    begun: Vec<u8>,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    /// Absent once it has ended.
    events: Option<mpsc::Sender<Event>>,
    ended: Option<String>,
    errors: String,
}

/// Where its output goes.
pub(super) struct Mouth(Mutex<Inbox>);

impl Mouth {
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<Event>) {
        let (events, received) = mpsc::channel(MOST_EVENTS);
        let inbox = Inbox {
            begun: Vec::new(),
            waiting: HashMap::new(),
            events: Some(events),
            ended: None,
            errors: String::new(),
        };
        (Arc::new(Self(Mutex::new(inbox))), received)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Mouth {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut inbox = self.inbox();
        match stream {
            Stream::Stderr => inbox.note_errors(bytes),
            Stream::Stdout => inbox.take(bytes),
        }
    }
}

impl Inbox {
    fn note_errors(&mut self, bytes: &[u8]) {
        self.errors.push_str(&String::from_utf8_lossy(bytes));
        if self.errors.len() > 2 * KEPT_ERRORS {
            self.errors = tail_bytes(&self.errors, KEPT_ERRORS).to_owned();
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            let mut message = std::mem::take(&mut self.begun);
            message.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.message(&message);
        }
        if self.ended.is_some() {
            return;
        }
        self.begun.extend_from_slice(bytes);
        if self.begun.len() > LONGEST {
            self.end("it wrote a message that is too large");
        }
    }

    fn message(&mut self, bytes: &[u8]) {
        let Ok(mut message) = serde_json::from_slice::<Value>(bytes) else { return };
        if let Some(id) = message["id"].as_u64() {
            let Some(waiting) = self.waiting.remove(&id) else { return };
            let answer = match message["error"]["message"].as_str() {
                Some(refusal) => Err(WireError::Refused(refusal.to_owned())),
                None => Ok(message["result"].take()),
            };
            let _ = waiting.send(answer);
            return;
        }
        let event = Event {
            method: message["method"].as_str().unwrap_or_default().to_owned(),
            session: message["sessionId"].as_str().map(str::to_owned),
            params: message["params"].take(),
        };
        let Some(events) = &self.events else { return };
        if let Err(mpsc::error::TrySendError::Full(_)) = events.try_send(event) {
            self.end("it has more to say than anybody can listen to");
        }
    }

    /// Whoever waits is told; whoever attends to it sees the end of the events and kills it.
    fn end(&mut self, why: &str) {
        if self.ended.is_none() {
            self.ended = Some(why.to_owned());
        }
        self.begun = Vec::new();
        self.events = None;
        self.waiting.clear();
    }
}

/// Our end.
pub(super) struct Wire {
    running: Box<dyn Running>,
    mouth: Arc<Mouth>,
    next: AtomicU64,
    /// One message after the other.
    writing: tokio::sync::Mutex<()>,
    patience: Duration,
}

impl Wire {
    pub(super) fn new(running: Box<dyn Running>, mouth: Arc<Mouth>, patience: Duration) -> Self {
        Self { running, mouth, next: AtomicU64::new(1), writing: tokio::sync::Mutex::default(), patience }
    }

    /// Has the browser, or one page of it, do something.
    pub(super) async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer_to, answer) = oneshot::channel();
        {
            let mut inbox = self.mouth.inbox();
            if let Some(why) = &inbox.ended {
                return Err(WireError::Ended(why.clone()));
            }
            inbox.waiting.insert(id, answer_to);
        }
        let asked = async {
            self.send(id, session, method, params).await?;
            answer.await.unwrap_or_else(|_| Err(WireError::Ended(self.why_ended())))
        };
        let answered = tokio::time::timeout(self.patience, asked).await;
        self.mouth.inbox().waiting.remove(&id);
        answered.unwrap_or_else(|_| Err(WireError::Silent(self.patience.as_secs())))
    }

    /// Asks for something and does not wait for the answer.
    pub(super) async fn tell(&self, session: Option<&str>, method: &str, params: Value) -> bool {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let sent = tokio::time::timeout(self.patience, self.send(id, session, method, params)).await;
        matches!(sent, Ok(Ok(())))
    }

    async fn send(
        &self,
        id: u64,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<(), WireError> {
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let _one = self.writing.lock().await;
        let written = self.running.write(&bytes).await;
        written.map_err(|error: RunError| {
            WireError::Ended(self.mouth.inbox().ended.clone().unwrap_or(error.to_string()))
        })
    }

    /// Returns once nothing of it is left.
    pub(super) async fn ended(&self) {
        let exit = self.running.wait().await;
        self.mouth.inbox().end(&exit.told("agents.defaults.sandbox.limits"));
    }

    pub(super) fn kill(&self) {
        self.mouth.inbox().end("it was closed");
        self.running.kill();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.mouth.inbox().ended.is_some()
    }

    fn why_ended(&self) -> String {
        self.mouth.inbox().ended.clone().unwrap_or_else(|| "it is gone".to_owned())
    }

    /// The end of what it wrote on its error stream.
    pub(super) fn last_words(&self) -> String {
        tail_bytes(&self.mouth.inbox().errors, KEPT_ERRORS).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_zero_bytes_wherever_they_are_torn() {
        let (mouth, mut events) = Mouth::new();
        let (to, mut answer) = oneshot::channel();
        mouth.inbox().waiting.insert(7, to);
        let text = b"{\"method\":\"A.b\",\"params\":{\"x\":1}}\0{\"id\":7,\"result\":{\"y\":2}}\0{\"method\":\"C.d\",\"sessionId\":\"s\"}\0not json\0";
        for byte in text {
            mouth.write(Stream::Stdout, &[*byte]);
        }
        assert_eq!(answer.try_recv().unwrap(), Ok(json!({ "y": 2 })));
        let first = events.try_recv().unwrap();
        assert_eq!((first.method.as_str(), &first.params["x"], first.session), ("A.b", &json!(1), None));
        assert_eq!(events.try_recv().unwrap().session.as_deref(), Some("s"));
        assert!(events.try_recv().is_err());
    }

    #[test]
    fn a_message_without_an_end_is_not_kept_forever() {
        let (mouth, mut events) = Mouth::new();
        let (to, mut answer) = oneshot::channel();
        mouth.inbox().waiting.insert(1, to);
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..65 {
            mouth.write(Stream::Stdout, &piece);
        }
        let inbox = mouth.inbox();
        assert!(inbox.ended.is_some() && inbox.begun.is_empty());
        drop(inbox);
        assert!(matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert!(matches!(events.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
    }

    #[test]
    fn more_events_than_anybody_can_take_end_it() {
        let (mouth, _events) = Mouth::new();
        for _ in 0..=MOST_EVENTS {
            mouth.write(Stream::Stdout, b"{\"method\":\"A.b\"}\0");
        }
        assert!(mouth.inbox().ended.is_some());
    }
}
