//! One program that was started: what it wrote, whether it runs, and the task that watches it to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_policy::{Exit, Requester, RunError, Running};
use tidegate_protocol::Scope;
use tidegate_runtime::Task;
use tokio::sync::{Notify, watch};

use super::collect::Collector;
use super::processes::Processes;

/// How long something that was killed may take to be gone before it is given up.
const GRACE: Duration = Duration::from_secs(5);

/// How long an answer to the cursor's question may take to be read.
const ANSWERING: Duration = Duration::from_millis(500);

/// What a terminal says when it is asked where its cursor is: top left.
const CURSOR_ANSWER: &[u8] = b"\x1b[1;1R";

/// Whose process it is. Nobody else sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) scope: Scope,
    pub(crate) session: String,
}

impl Owner {
    pub(crate) fn of(requester: &Requester) -> Self {
        Self { scope: requester.scope.clone(), session: requester.session.clone() }
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) timed_out: bool,
    pub(crate) took: Duration,
    pub(crate) at: Instant,
}

/// A program that was started. The registry holds it while it runs; the task that watches it holds it too, so it lives
/// until it has ended, whoever else lets go.
pub(crate) struct Started {
    pub(crate) name: String,
    pub(crate) owner: Owner,
    /// As it was asked for, for people who read lists.
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) pty: bool,
    /// Whether it can be written to.
    pub(crate) input: bool,
    /// Milliseconds since the epoch.
    pub(crate) began_at: i64,
    pub(crate) since: Instant,
    pub(crate) output: Arc<Collector>,
    pub(crate) running: Box<dyn Running>,
    /// Rung when somebody wants it killed, so that the watcher stops waiting for ever.
    pub(crate) killed: Notify,
    /// Whether it outlives the call that started it. Changed under the registry's lock only.
    pub(crate) in_background: AtomicBool,
    pub(crate) ended: watch::Sender<Option<Ended>>,
    /// Joined when the registry closes.
    pub(crate) watcher: Mutex<Option<Task<()>>>,
}

impl Started {
    /// Which process it is, once and for all: names are used again.
    pub(crate) fn identity(&self) -> String {
        format!("{} {} {}", self.name, self.running.pid(), self.began_at)
    }

    pub(crate) fn end(&self) -> Option<Ended> {
        self.ended.borrow().clone()
    }

    pub(crate) fn is_in_background(&self) -> bool {
        self.in_background.load(Ordering::Acquire)
    }

    /// Waits for the end.
    pub(crate) async fn wait(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        // The sender lives in `self`, so the channel cannot close while this waits.
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        end.unwrap_or_else(|| self.given_up())
    }

    pub(crate) fn kill(&self) {
        self.running.kill();
        self.killed.notify_one();
    }

    /// Kills it and waits until it is gone.
    pub(crate) async fn stop(&self) -> Ended {
        self.kill();
        self.wait().await
    }

    pub(crate) fn runs_for(&self) -> Duration {
        self.end().map_or_else(|| self.since.elapsed(), |end| end.took)
    }

    fn given_up(&self) -> Ended {
        self.ending(Exit::Failed(RunError::Supervisor("it does not end".to_owned())), false)
    }

    fn ending(&self, exit: Exit, timed_out: bool) -> Ended {
        Ended { exit, timed_out, took: self.since.elapsed(), at: Instant::now() }
    }

    pub(crate) fn keep_watcher(&self, task: Task<()>) {
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    pub(crate) fn take_watcher(&self) -> Option<Task<()>> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Brings it to its end: kills it when its time is over, answers for the terminal, and tells the registry.
pub(crate) async fn watch_to_its_end(started: Arc<Started>, timeout: Duration, registry: Weak<Processes>) {
    let end = bring_to_its_end(&started, timeout).await;
    started.output.finish();
    match registry.upgrade() {
        Some(registry) => registry.finish(&started, end),
        None => drop(started.ended.send_replace(Some(end))),
    }
}

async fn bring_to_its_end(started: &Started, timeout: Duration) -> Ended {
    let wait = started.running.wait();
    tokio::pin!(wait);
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let timed_out = loop {
        tokio::select! {
            biased;
            exit = &mut wait => return started.ending(exit, false),
            () = &mut deadline => break true,
            () = started.killed.notified() => break false,
            // A program without a terminal has no cursor: what it reads is somebody's input, and nothing of ours.
            queries = started.output.cursor_queries(), if started.pty => {
                let answers = CURSOR_ANSWER.repeat(queries.min(16));
                // Whoever asks and does not read the answer, or has ended meanwhile, goes without.
                let _ = tokio::time::timeout(ANSWERING, started.running.write(&answers)).await;
            }
        }
    };
    started.running.kill();
    match tokio::time::timeout(GRACE, &mut wait).await {
        Ok(exit) => started.ending(exit, timed_out),
        Err(_) => Ended { timed_out, ..started.given_up() },
    }
}
