//! Model calls that nobody watches: what they may use is held before each of them, as for those that answer.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_models::{Failure, FailureKind, Model, Request};
use tidegate_storage::{Lease, Step, StoreError};

use super::ask::{Heard, overhear};
use super::room::fixed;
use super::{Parts, Run};
use crate::context::estimate;
use crate::desk::Afford;

/// Who is asked, and who pays for it.
pub(crate) struct Quiet<'a> {
    model: &'a dyn Model,
    purse: Option<Purse<'a>>,
    asked: AtomicBool,
}

struct Purse<'a> {
    parts: Parts<'a>,
    lease: &'a Lease,
    purpose: &'static str,
}

impl<'a> Quiet<'a> {
    pub(crate) fn new(parts: Parts<'a>, lease: &'a Lease, purpose: &'static str) -> Self {
        let purse = Some(Purse { parts, lease, purpose });
        Self { model: parts.model, purse, asked: AtomicBool::new(false) }
    }

    /// Of which nobody counts what it uses.
    #[cfg(test)]
    pub(crate) fn free(model: &'a dyn Model) -> Self {
        Self { model, purse: None, asked: AtomicBool::new(false) }
    }

    /// Whether the model was asked at all.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// One call. Where there is nothing left for it, it fails like any other.
    pub(crate) async fn ask(&self, mut request: Request) -> Result<Heard, Failure> {
        if let Some(purse) = &self.purse {
            purse.open(&mut request).await?;
        }
        self.asked.store(true, Ordering::Relaxed);
        overhear(self.model, request).await
    }
}

impl Purse<'_> {
    async fn open(&self, request: &mut Request) -> Result<(), Failure> {
        let Parts { desk, .. } = self.parts;
        if !desk.is_limited() {
            return Ok(());
        }
        // Of the calls before this one, also of one that took too long.
        desk.charge(self.purpose);
        let unavailable = |error: StoreError| Failure::new(FailureKind::Broken, error.to_string());
        self.book().await.map_err(unavailable)?;
        let messages = request.messages.iter().map(estimate).sum::<u64>();
        let tokens = fixed(&request.system, &request.tools).saturating_add(messages);
        match desk.afford(tokens).await.map_err(unavailable)? {
            Afford::Whole => Ok(()),
            Afford::Short(most) => {
                let wanted = request.options.max_tokens;
                request.options.max_tokens = Some(wanted.map_or(most, |wanted| wanted.min(most)));
                Ok(())
            }
            Afford::No(error) => Err(Failure::new(FailureKind::Broken, error.message)),
        }
    }

    /// Every call before the next one is in a commit.
    async fn book(&self) -> Result<(), StoreError> {
        let Parts { desk, journal, clock, .. } = self.parts;
        let calls = desk.calls();
        if calls.is_empty() {
            return Ok(());
        }
        let step = Step { calls: calls.clone(), now: clock.now_ms(), ..Step::default() };
        journal.step(self.lease, step).await?;
        desk.booked(&calls);
        Ok(())
    }
}

impl<'a> Run<'a> {
    pub(super) fn quiet(&self, purpose: &'static str) -> Quiet<'a> {
        Quiet::new(self.parts, &self.turn.lease, purpose)
    }

    /// What was reserved with the run is used up once anything was asked; what comes next needs its own.
    pub(super) fn note_asked(&mut self, quiet: &Quiet<'_>) {
        self.has_asked |= quiet.has_asked();
    }
}
