//! The one writer: a thread that turns what queued into one transaction.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tidegate_runtime::{TaskEnd, fault, spawn_thread};
use tidegate_storage::{Result, StoreError};
use tokio::sync::oneshot;

use crate::error::{full_or_failed, store_error};
use crate::open::io_error;
use crate::wal::Wal;

/// Most verbs in one commit: a bound on how long the first one waits.
const BATCH: usize = 64;
/// Verbs that may wait before callers are held back.
const QUEUE: usize = 1024;

/// A verb's name and its fault points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verb {
    pub(crate) before_commit: fault::Name,
    pub(crate) after_commit: fault::Name,
}

macro_rules! verb {
    ($name:literal) => {
        $crate::writer::Verb {
            before_commit: ::tidegate_runtime::fault::Name::new(concat!("storage.", $name, ".before_commit")),
            after_commit: ::tidegate_runtime::fault::Name::new(concat!("storage.", $name, ".after_commit")),
        }
    };
}
pub(crate) use verb;

/// Tells a caller how its verb ended, once the batch is committed or lost.
type Reply = Box<dyn FnOnce(Result<()>) + Send>;

/// A verb with its caller.
trait Work: Send {
    /// Runs inside the transaction. An error was already told to the caller; its writes are to be undone.
    fn run(self: Box<Self>, connection: &Connection) -> Result<Reply>;

    /// Tells the caller that the verb was not run.
    fn refuse(self: Box<Self>, error: StoreError);
}

struct Call<T, F> {
    work: F,
    answer: oneshot::Sender<Result<T>>,
}

impl<T, F> Work for Call<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T> + Send,
{
    fn run(self: Box<Self>, connection: &Connection) -> Result<Reply> {
        let Self { work, answer } = *self;
        match work(connection) {
            Ok(value) => Ok(Box::new(move |commit| {
                let _ = answer.send(commit.map(|()| value));
            })),
            Err(error) => {
                let _ = answer.send(Err(error.clone()));
                Err(error)
            }
        }
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        let _ = self.answer.send(Err(error));
    }
}

/// So long nobody may have written before the log is grown.
const QUIET: Duration = Duration::from_millis(200);

struct Job {
    verb: Verb,
    work: Box<dyn Work>,
}

#[derive(Default)]
struct Counts {
    commits: AtomicU64,
    verbs: AtomicU64,
}

pub(crate) struct Writer {
    /// Dropped first on the way out: the thread ends when no sender is left.
    jobs: Mutex<Option<mpsc::SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<std::result::Result<(), TaskEnd>>>>,
    counts: Arc<Counts>,
}

impl Writer {
    pub(crate) fn start(mut connection: Connection, path: &Path, warm: bool) -> Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let wal = Wal::watch(&mut connection, path)?;
        let shared = Arc::clone(&counts);
        let thread = spawn_thread("sqlite-writer", move || {
            Batches { connection, jobs: receiver, counts: shared, wal, cold: warm, broken: None }.run();
        })
        .map_err(|error| io_error(&error))?;
        Ok(Self { jobs: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), counts })
    }

    pub(crate) async fn call<T: Send + 'static>(
        &self,
        verb: Verb,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job = Job { verb, work: Box::new(Call { work, answer }) };
        self.submit(job).await?;
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::Internal("the writer ended without an answer".to_owned())))
    }

    async fn submit(&self, mut job: Job) -> Result<()> {
        let sender = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(sender) = sender else {
            return Err(StoreError::Internal("the writer has ended".to_owned()));
        };
        loop {
            match sender.try_send(job) {
                Ok(()) => return Ok(()),
                Err(mpsc::TrySendError::Full(back)) => {
                    job = back;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(mpsc::TrySendError::Disconnected(_)) => {
                    return Err(StoreError::Internal("the writer has ended".to_owned()));
                }
            }
        }
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts.commits.load(Ordering::Relaxed), self.counts.verbs.load(Ordering::Relaxed))
    }
}

impl Drop for Writer {
    /// Waits for what was queued: a store that is gone has written everything it took.
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

/// How one verb of a batch ended.
enum Savepoint {
    Kept(Reply),
    /// Its caller was told; the batch goes on without it.
    Undone,
    /// The transaction cannot be trusted any more: every verb of the batch is lost.
    Lost(StoreError),
}

struct Batches {
    connection: Connection,
    jobs: mpsc::Receiver<Job>,
    counts: Arc<Counts>,
    wal: Wal,
    /// The log is still to be grown, at the first moment in which nobody waits.
    cold: bool,
    /// Set after a failed sync: what is durable is unknown, so nothing more is written.
    broken: Option<StoreError>,
}

impl Batches {
    fn run(mut self) {
        while let Some(first) = self.next() {
            if let Some(error) = &self.broken {
                first.work.refuse(error.clone());
                continue;
            }
            if let Err(error) = self.batch(first)
                && error.is_fatal()
            {
                tracing::error!(%error, "the disk failed under a commit; nothing more is written");
                self.broken = Some(error);
            }
        }
        self.wal.close();
    }

    /// The next job; `None` when nobody can send one any more. A start is quicker when the log grows after it.
    fn next(&mut self) -> Option<Job> {
        if self.cold && self.broken.is_none() {
            match self.jobs.recv_timeout(QUIET) {
                Ok(job) => return Some(job),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => self.warm(),
            }
        }
        self.jobs.recv().ok()
    }

    /// Growing the log saves time and nothing else: where it fails, the next commit finds out whether the disk is to blame.
    fn warm(&mut self) {
        self.cold = false;
        if let Err(error) = self.wal.warm() {
            tracing::warn!(%error, "the write-ahead log could not be grown");
        }
    }

    fn batch(&mut self, first: Job) -> Result<()> {
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            first.work.refuse(error.clone());
            return Err(error);
        }
        let mut verbs = Vec::with_capacity(BATCH);
        let mut replies: Vec<Reply> = Vec::with_capacity(BATCH);
        let mut next = Some(first);
        let mut lost = None;
        let mut tried = 0;
        while let Some(job) = next.take() {
            tried += 1;
            let verb = job.verb;
            match self.savepoint(job) {
                Savepoint::Kept(reply) => {
                    verbs.push(verb);
                    replies.push(reply);
                }
                Savepoint::Undone => {}
                Savepoint::Lost(error) => {
                    lost = Some(error);
                    break;
                }
            }
            if tried < BATCH {
                next = self.jobs.try_recv().ok();
            }
        }
        let outcome = match lost {
            Some(error) => {
                self.roll_back();
                Err(error)
            }
            None => self.commit(&verbs),
        };
        let outcome = outcome.map_err(|error| full_or_failed(error, self.wal.database()));
        for reply in replies {
            reply(outcome.clone());
        }
        self.wal.after_commit(&self.connection);
        outcome
    }

    /// Runs one verb so that its failure leaves nothing behind.
    fn savepoint(&self, job: Job) -> Savepoint {
        if let Err(error) = self.execute("SAVEPOINT verb") {
            job.work.refuse(error.clone());
            return Savepoint::Lost(error);
        }
        let done = job.work.run(&self.connection);
        let end = match &done {
            Ok(_) => self.execute("RELEASE verb"),
            // SQLite may have rolled the whole transaction back itself: a full disk does that.
            Err(error) if self.connection.is_autocommit() || error.is_fatal() => Err(error.clone()),
            Err(_) => self.execute("ROLLBACK TO verb").and_then(|()| self.execute("RELEASE verb")),
        };
        match (done, end) {
            (Ok(reply), Ok(())) => Savepoint::Kept(reply),
            (Ok(reply), Err(error)) => {
                reply(Err(error.clone()));
                Savepoint::Lost(error)
            }
            (Err(_), Ok(())) => Savepoint::Undone,
            (Err(_), Err(error)) => Savepoint::Lost(error),
        }
    }

    /// Ends a transaction of which nothing may stay.
    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn commit(&self, verbs: &[Verb]) -> Result<()> {
        for verb in verbs {
            fault::point(verb.before_commit);
        }
        if let Err(error) = self.execute("COMMIT") {
            self.roll_back();
            return Err(error);
        }
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        self.counts.verbs.fetch_add(verbs.len() as u64, Ordering::Relaxed);
        for verb in verbs {
            fault::point(verb.after_commit);
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.raw_execute().map(drop))
            .map_err(store_error)
    }
}
