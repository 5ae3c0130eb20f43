//! The one way to start something: it keeps the caller's span, has a name, and a panic in it is reported, not lost.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle as ThreadHandle;

use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

/// A started task. Whoever holds it joins it; dropping it detaches the task.
#[derive(Debug)]
pub struct Task<T> {
    name: &'static str,
    handle: JoinHandle<T>,
}

/// Why a task gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEnd {
    Panicked { task: &'static str, message: String },
    Cancelled { task: &'static str },
}

impl std::fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Panicked { task, message } => write!(f, "task {task} panicked: {message}"),
            Self::Cancelled { task } => write!(f, "task {task} was cancelled"),
        }
    }
}

impl std::error::Error for TaskEnd {}

impl<T> Task<T> {
    pub async fn join(self) -> Result<T, TaskEnd> {
        self.handle.await.map_err(|error| task_end(self.name, error))
    }
}

fn task_end(task: &'static str, error: JoinError) -> TaskEnd {
    match error.try_into_panic() {
        Ok(payload) => {
            let message = panic_message(payload.as_ref());
            tracing::error!(task, message, "task panicked");
            TaskEnd::Panicked { task, message }
        }
        Err(_) => TaskEnd::Cancelled { task },
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Starts an asynchronous task.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn<F>(name: &'static str, future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Task { name, handle: tokio::spawn(future.in_current_span()) }
}

/// Runs blocking work off the asynchronous threads.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Task<T> {
    let span = tracing::Span::current();
    Task { name, handle: tokio::task::spawn_blocking(move || span.in_scope(work)) }
}

/// Starts a named thread of its own, for work that lives as long as the program.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn_thread(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<ThreadHandle<Result<(), TaskEnd>>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
            let message = panic_message(payload.as_ref());
            tracing::error!(task = name, message, "thread panicked");
            TaskEnd::Panicked { task: name, message }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_task_reaches_whoever_joins_it() {
        let end = spawn("doomed", async { panic!("no way") }).join().await.unwrap_err();
        assert_eq!(end, TaskEnd::Panicked { task: "doomed", message: "no way".into() });
    }

    #[test]
    fn a_panic_in_a_thread_reaches_whoever_joins_it() {
        let end = spawn_thread("doomed", || panic!("no way")).unwrap().join().unwrap();
        assert_eq!(end, Err(TaskEnd::Panicked { task: "doomed", message: "no way".into() }));
    }
}
