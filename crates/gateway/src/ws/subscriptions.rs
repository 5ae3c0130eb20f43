//! The conversations that one client follows, each by a task that ends with its place here.

use std::sync::{Mutex, PoisonError};

use tokio_util::sync::{CancellationToken, DropGuard};

/// Conversations that one client may follow at once.
pub(crate) const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Names are never used twice on a connection: an event under way belongs to one subscription only.
    named: u64,
    open: Vec<(u64, DropGuard)>,
    /// The client is gone.
    closed: bool,
}

impl Subscriptions {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new place: its number, and what tells that it was given up. `None` when there are too many.
    pub(crate) fn open(&self) -> Option<(u64, CancellationToken)> {
        self.with(|inner| {
            if inner.closed || inner.open.len() >= MOST {
                return None;
            }
            inner.named += 1;
            let token = CancellationToken::new();
            inner.open.push((inner.named, token.clone().drop_guard()));
            Some((inner.named, token))
        })
    }

    /// `false` when there is none of that number.
    pub(crate) fn close(&self, number: u64) -> bool {
        self.with(|inner| {
            let before = inner.open.len();
            inner.open.retain(|(known, _)| *known != number);
            inner.open.len() < before
        })
    }

    /// Ends all of them for good.
    pub(crate) fn close_all(&self) {
        self.with(|inner| {
            inner.open = Vec::new();
            inner.closed = true;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_given_up_ends_its_task_and_its_number_never_comes_again() {
        let subscriptions = Subscriptions::default();
        let (first, token) = subscriptions.open().unwrap();
        assert!(subscriptions.close(first) && !subscriptions.close(first));
        assert!(token.is_cancelled());
        let tokens: Vec<_> = (0..MOST).map(|_| subscriptions.open().unwrap()).collect();
        assert!(tokens.iter().all(|(number, _)| *number != first));
        assert!(subscriptions.open().is_none(), "there is an end to it");
        subscriptions.close_all();
        assert!(tokens.iter().all(|(_, token)| token.is_cancelled()));
        assert!(subscriptions.open().is_none(), "nobody is there any more");
    }
}
