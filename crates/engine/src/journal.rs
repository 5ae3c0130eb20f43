//! A run's journal that waits for room: what was accepted is not lost to a full disk.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tidegate_protocol::JoinMode;
use tidegate_storage::{
    Absorb, Absorbed, Context, ContextLimits, Journal, Lease, NewCompaction, Result, Step, StoreError,
    ToolRunRow,
};

use crate::start::Core;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The store's own journal, tried again for as long as the disk is full. A full disk wrote nothing, so nothing is written
/// twice; every other error is the run's.
pub(crate) struct PatientJournal<'a>(pub(crate) &'a Core);

impl Core {
    /// Writes once there is room.
    pub(crate) async fn with_room<'w, T>(
        &self,
        mut write: impl FnMut() -> BoxFuture<'w, Result<T>> + Send,
    ) -> Result<T> {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match write().await {
                Err(error @ StoreError::Full(_)) => error,
                done => return done,
            };
            self.watch(&error);
            if !self.may_get_room() {
                return Err(error);
            }
            tracing::warn!(%error, "a run waits for room on the disk");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether room may come: from the ballast, or because the process stays.
    pub(crate) fn may_get_room(&self) -> bool {
        (self.ballast.free() || self.stays) && !self.stopped.is_requested()
    }
}

#[async_trait]
impl Journal for PatientJournal<'_> {
    async fn step(&self, lease: &Lease, step: Step) -> Result<i64> {
        self.0.with_room(|| self.0.store.step(lease, step.clone())).await
    }

    async fn context(&self, lease: &Lease, limits: ContextLimits) -> Result<Context> {
        self.0.store.context(lease, limits).await
    }

    async fn steps(&self, lease: &Lease) -> Result<Vec<ToolRunRow>> {
        self.0.store.steps(lease).await
    }

    async fn compact(&self, lease: &Lease, compaction: NewCompaction) -> Result<i64> {
        self.0.with_room(|| self.0.store.compact(lease, compaction.clone())).await
    }

    async fn absorb(&self, lease: &Lease, absorb: Absorb) -> Result<Vec<Absorbed>> {
        self.0.with_room(|| self.0.store.absorb(lease, absorb.clone())).await
    }

    async fn is_joined(&self, lease: &Lease, mode: JoinMode) -> Result<bool> {
        self.0.store.is_joined(lease, mode).await
    }

    async fn note_flush(&self, lease: &Lease, now: i64) -> Result<bool> {
        self.0.with_room(|| self.0.store.note_flush(lease, now)).await
    }
}
