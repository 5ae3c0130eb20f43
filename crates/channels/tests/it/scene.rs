//! A folder with an inbox and an outbox, and a sink that answers as a test wants.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_channels::local::{Local, LocalSettings};
use tidegate_protocol::{Connector as _, ConnectorError, Inbound, InboundSink, Scope, SinkError};
use tidegate_runtime::{Clock, Task, TaskEnd, spawn};
use tokio::sync::Notify;

/// Nothing here takes longer unless it is broken.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) const NOW: i64 = 1_771_866_451_120;

struct Frozen;

impl Clock for Frozen {
    fn now_ms(&self) -> i64 {
        NOW
    }
}

pub(crate) struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    /// Inside folders that do not exist yet.
    pub(crate) fn inbox(&self) -> PathBuf {
        self.root.path().join("in/deep/inbox.jsonl")
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.root.path().join("out/outbox.jsonl")
    }

    pub(crate) fn local(&self) -> Arc<Local> {
        let settings = LocalSettings {
            account: "work".to_owned(),
            inbox: self.inbox(),
            outbox: self.outbox(),
            poll: Duration::from_millis(10),
        };
        let scope = Scope::personal("main".parse().unwrap());
        Arc::new(Local::new(settings, Arc::new(Frozen), scope.tenant, scope.workspace))
    }

    pub(crate) fn write(&self, content: &str) {
        fs::create_dir_all(self.inbox().parent().unwrap()).unwrap();
        fs::write(self.inbox(), content).unwrap();
    }

    pub(crate) fn append(&self, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().append(true).open(self.inbox()).unwrap();
        file.write_all(bytes).unwrap();
    }
}

/// How the sink answers an offer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Retry,
    /// The commit went through and its answer was lost.
    KeepAndRetry,
    Close,
}

/// Keeps messages and cursor together, as a store does; an id that it has is dropped.
#[derive(Default)]
pub(crate) struct Sink {
    held: Mutex<Held>,
    changed: Notify,
}

#[derive(Default)]
struct Held {
    /// What the next offers are answered; none left means kept.
    answers: VecDeque<Answer>,
    cursor: Option<String>,
    kept: Vec<Inbound>,
    /// The ids of every offer, kept or not.
    offers: Vec<Vec<String>>,
}

impl Sink {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn answer(&self, answers: &[Answer]) {
        self.held.lock().unwrap().answers.extend(answers);
    }

    pub(crate) fn set_cursor(&self, cursor: &str) {
        self.held.lock().unwrap().cursor = Some(cursor.to_owned());
    }

    pub(crate) fn kept(&self) -> Vec<Inbound> {
        self.held.lock().unwrap().kept.clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.kept().into_iter().map(|inbound| inbound.message.id).collect()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.kept().into_iter().map(|inbound| inbound.message.text).collect()
    }

    pub(crate) fn offers(&self) -> Vec<Vec<String>> {
        self.held.lock().unwrap().offers.clone()
    }

    /// Waits for this many messages.
    pub(crate) async fn kept_at_least(&self, count: usize) {
        self.wait("messages", || self.kept().len() >= count).await;
    }

    pub(crate) async fn offered_at_least(&self, count: usize) {
        self.wait("offers", || self.offers().len() >= count).await;
    }

    async fn wait(&self, what: &str, reached: impl Fn() -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if reached() {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, waiting).await;
        waited.unwrap_or_else(|_| panic!("not enough {what}: {:?} kept, {:?}", self.texts(), self.offers()));
    }
}

#[async_trait]
impl InboundSink for Sink {
    async fn cursor(&self) -> Result<Option<String>, SinkError> {
        Ok(self.held.lock().unwrap().cursor.clone())
    }

    async fn accept(&self, messages: Vec<Inbound>, cursor: Option<String>) -> Result<(), SinkError> {
        let mut held = self.held.lock().unwrap();
        held.offers.push(messages.iter().map(|inbound| inbound.message.id.clone()).collect());
        let answer = held.answers.pop_front();
        if matches!(answer, None | Some(Answer::KeepAndRetry)) {
            for message in messages {
                if held.kept.iter().all(|kept| kept.message.id != message.message.id) {
                    held.kept.push(message);
                }
            }
            held.cursor = cursor;
        }
        drop(held);
        self.changed.notify_one();
        match answer {
            None => Ok(()),
            Some(Answer::Retry | Answer::KeepAndRetry) => Err(SinkError::Retry("busy".to_owned())),
            Some(Answer::Close) => Err(SinkError::Closed),
        }
    }
}

/// A connector that receives until it is dropped.
pub(crate) struct Receiving {
    task: Task<Option<Result<(), ConnectorError>>>,
    stop: Arc<Notify>,
}

impl Receiving {
    pub(crate) fn start(folder: &Folder, sink: &Arc<Sink>) -> Self {
        let (local, sink, stop) = (folder.local(), Arc::clone(sink), Arc::new(Notify::new()));
        let stopped = Arc::clone(&stop);
        let task = spawn("receive", async move {
            tokio::select! {
                ended = local.receive(sink) => Some(ended),
                () = stopped.notified() => None,
            }
        });
        Self { task, stop }
    }

    /// Drops the future, as a supervisor does that shuts down.
    pub(crate) async fn stop(self) {
        self.stop.notify_one();
        assert!(self.joined().await.unwrap().is_none(), "it had ended by itself");
    }

    /// Waits until it ends by itself.
    pub(crate) async fn end(self) -> Result<(), ConnectorError> {
        self.joined().await.unwrap().unwrap()
    }

    async fn joined(self) -> Result<Option<Result<(), ConnectorError>>, TaskEnd> {
        tokio::time::timeout(DEADLINE, self.task.join()).await.expect("it ends")
    }
}
