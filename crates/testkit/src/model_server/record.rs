//! What the server saw: every request whole, who went away before the end, and how many were there at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    pub method: String,
    /// As it was sent, without the query; not decoded.
    pub path: String,
    /// Decoded.
    pub query: BTreeMap<String, String>,
    /// Names in lower case. Of a name that came twice, the values with a comma between.
    pub headers: BTreeMap<String, String>,
    /// JSON as it is, a form as an object, anything else as text; `null` without a body.
    pub body: Value,
    /// The body as it came, to the byte where it is text.
    pub raw: String,
}

impl Recorded {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({"method": self.method, "path": self.path, "query": self.query, "headers": self.headers, "body": self.body})
    }
}

/// The log of one server.
#[derive(Debug, Default)]
pub(crate) struct Log {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Recorded>,
    /// How many of them [`Log::next`] has given out.
    given: usize,
    dropped: usize,
    active: usize,
    peak: usize,
    file: Option<File>,
}

impl Log {
    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked while it looked has changed nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Also writes each request to this file, a JSON line each.
    pub(crate) fn write_to(&self, file: File) {
        self.state().file = Some(file);
    }

    /// Notes a request. Whoever answers it keeps the [`Presence`] until the answer is out.
    pub(crate) fn note(self: &Arc<Self>, request: Recorded) -> Presence {
        let mut state = self.state();
        if let Some(file) = &mut state.file {
            writeln!(file, "{}", request.to_json()).expect("the record can be written");
        }
        state.requests.push(request);
        state.active += 1;
        state.peak = state.peak.max(state.active);
        drop(state);
        self.changed.notify_waiters();
        Presence { log: self.clone(), answered: false }
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.state().requests.clone()
    }

    pub(crate) fn last(&self) -> Option<Recorded> {
        self.state().requests.last().cloned()
    }

    pub(crate) async fn next(&self) -> Recorded {
        let next = self.until(|state| {
            let next = state.requests.get(state.given).cloned()?;
            state.given += 1;
            Some(next)
        });
        next.await.expect("a request comes within 20 s")
    }

    pub(crate) fn dropped(&self) -> usize {
        self.state().dropped
    }

    pub(crate) async fn until_dropped(&self, count: usize) {
        let enough = self.until(|state| (state.dropped >= count).then_some(()));
        enough.await.expect("the connection is dropped within 20 s");
    }

    pub(crate) fn active(&self) -> usize {
        self.state().active
    }

    pub(crate) fn peak(&self) -> usize {
        self.state().peak
    }

    async fn until<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let seen = look(&mut self.state());
                if let Some(seen) = seen {
                    return seen;
                }
                changed.await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.ok()
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Presence {
    log: Arc<Log>,
    /// The answer is out, or it was us who broke it.
    answered: bool,
}

impl Presence {
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.log.state();
        state.active -= 1;
        state.dropped += usize::from(!self.answered);
        drop(state);
        self.log.changed.notify_waiters();
    }
}
