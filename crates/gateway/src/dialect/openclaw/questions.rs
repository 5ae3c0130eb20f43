//! Questions that programs outside put to people through the gateway (`exec.approval.request`), and who waits for the
//! answer. They live as long as whoever asked waits; the gateway's own questions are the engine's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::approvals::AskedFor;

/// Questions that may wait at once.
const MOST: usize = 256;

pub(crate) struct Waiting {
    pub(crate) request: AskedFor,
    pub(crate) created_at: i64,
    pub(crate) expires_at: i64,
    answer: oneshot::Sender<String>,
}

#[derive(Default)]
pub(crate) struct Questions {
    waiting: Mutex<HashMap<String, Waiting>>,
}

/// Why a question was not put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotPut {
    Pending,
    TooMany,
}

impl Questions {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Waiting>) -> T) -> T {
        work(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put(
        &self,
        id: &str,
        request: AskedFor,
        created_at: i64,
        expires_at: i64,
    ) -> Result<oneshot::Receiver<String>, NotPut> {
        self.with(|waiting| {
            waiting.retain(|_, question| question.expires_at > created_at && !question.answer.is_closed());
            if waiting.contains_key(id) {
                return Err(NotPut::Pending);
            }
            if waiting.len() >= MOST {
                return Err(NotPut::TooMany);
            }
            let (answer, receiver) = oneshot::channel();
            waiting.insert(id.to_owned(), Waiting { request, created_at, expires_at, answer });
            Ok(receiver)
        })
    }

    /// Answers; `false` when nobody asks that.
    pub(crate) fn answer(&self, id: &str, decision: &str) -> bool {
        let question = self.with(|waiting| waiting.remove(id));
        question.is_some_and(|question| question.answer.send(decision.to_owned()).is_ok())
    }

    pub(crate) fn forget(&self, id: &str) {
        self.with(|waiting| waiting.remove(id));
    }

    /// Those that wait, the oldest first.
    pub(crate) fn list(&self) -> Vec<(String, AskedFor, i64, i64)> {
        let mut list: Vec<_> = self.with(|waiting| {
            let told = |(id, question): (&String, &Waiting)| {
                (id.clone(), question.request.clone(), question.created_at, question.expires_at)
            };
            waiting.iter().map(told).collect()
        });
        list.sort_by_key(|(_, _, created_at, _)| *created_at);
        list
    }
}
