//! What goes on beside the runs for as long as the engine does: one task each, ended and joined by the engine.

use std::sync::Arc;
use std::time::Duration;

use tidegate_runtime::{Task, spawn};
use tidegate_storage::{StoreError, Sweep};
use tokio::time::Instant;

use crate::start::Core;
use crate::{connectors, deliver, lanes, schedule, service};

/// How often an owner says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often somebody looks whether a full disk has room again.
const ROOM: Duration = Duration::from_secs(1);
/// Between two sweeps; the next piece follows at once while there is more.
const SWEEP: Duration = Duration::from_mins(1);
const SWEEP_ROWS: u32 = 500;
/// A part that failed and that nobody came to hear about.
const UNTOLD: Duration = Duration::from_hours(90 * 24);
/// Model calls: reports of a year, and of the month a year ago, still find theirs.
const MODEL_CALLS: Duration = Duration::from_hours(400 * 24);
/// Between two looks for questions whose time has passed.
const EXPIRE: Duration = Duration::from_secs(5);
const EXPIRE_ROWS: u32 = 100;
/// Audit rows wait this long for company before they are sealed.
const SEAL: Duration = Duration::from_millis(500);
const SEAL_ROWS: u32 = 1000;
/// Log entries wait this long for company before they are written to transcripts.
const MIRROR: Duration = Duration::from_millis(200);
/// After a store that did not answer.
const MIRROR_AGAIN: Duration = Duration::from_secs(5);

pub(crate) fn start(core: &Arc<Core>) -> Vec<Task<()>> {
    let mut services = vec![
        spawn("heartbeat", heartbeat(Arc::clone(core))),
        spawn("scheduler", schedule::run(Arc::clone(core))),
        spawn("refill", schedule::refill(Arc::clone(core))),
        spawn("lanes", lanes::watch(Arc::clone(core))),
        spawn("sealer", seal(Arc::clone(core))),
        spawn("mirror", mirror(Arc::clone(core))),
    ];
    if core.stays {
        services.push(spawn("suspects", schedule::one_by_one(Arc::clone(core))));
        services.push(spawn("sweeper", sweep(Arc::clone(core))));
        services.push(spawn("approvals", expire(Arc::clone(core))));
        services.push(spawn("deliver", deliver::run(Arc::clone(core))));
    }
    for service in &core.companions {
        services.push(spawn("service", service::supervise(Arc::clone(core), Arc::clone(service))));
    }
    for supervised in &core.connectors {
        services.push(spawn("connector", connectors::supervise(Arc::clone(core), Arc::clone(supervised))));
    }
    services
}

/// Says that we live until somebody else took our place. A store that does not answer now may answer the next time.
async fn heartbeat(core: Arc<Core>) {
    while core.until_heartbeat().await {
        match core.store.heartbeat(&core.owner, core.clock.now_ms()).await {
            Ok(()) => core.note_store(true),
            Err(StoreError::StaleFence) => return core.superseded(),
            Err(error) => {
                core.watch(&error);
                core.note_store(false);
                tracing::warn!(%error, "no heartbeat");
            }
        }
    }
}

async fn seal(core: Arc<Core>) {
    loop {
        core.seal_all().await;
        tokio::select! {
            () = core.unsealed.notified() => {}
            () = core.stopped.requested() => return,
        }
        if !core.goes_on(SEAL).await {
            return;
        }
    }
}

async fn mirror(core: Arc<Core>) {
    loop {
        tokio::select! {
            () = core.mirroring.notified() => {}
            () = core.stopped.requested() => return,
        }
        if !core.goes_on(MIRROR).await {
            return;
        }
        if let Err(error) = core.flush_transcripts().await {
            tracing::warn!(%error, "transcripts lag");
            if !core.goes_on(MIRROR_AGAIN).await {
                return;
            }
            core.mirroring.notify();
        }
    }
}

/// Ends questions that nobody answered in time, also those of a process that is gone.
async fn expire(core: Arc<Core>) {
    while core.goes_on(EXPIRE).await {
        if let Err(error) = core.expire(core.clock.now_ms(), EXPIRE_ROWS).await {
            tracing::warn!(%error, "questions were not ended");
        }
    }
}

async fn sweep(core: Arc<Core>) {
    // Here and not before the start: its megabytes would stand in the way of whoever waits for the gateway.
    core.lay_ballast().await;
    let mut pause = SWEEP;
    loop {
        if !core.goes_on(pause).await {
            return;
        }
        core.lay_ballast().await;
        pause = match core.store.sweep(&core.tenant, core.to_sweep()).await {
            Ok(swept) => {
                if !swept.expired.is_empty() {
                    tracing::warn!(
                        parts = swept.expired.len(),
                        "replies waited too long and were given up; see `outbox list`"
                    );
                }
                if swept.more { Duration::from_millis(100) } else { SWEEP }
            }
            Err(error) => {
                core.watch(&error);
                tracing::warn!(%error, "nothing swept");
                SWEEP
            }
        };
    }
}

impl Core {
    /// Waits for the time of the next heartbeat; `false` when the engine stops meanwhile. Whoever made room on a full disk
    /// is not kept waiting that long.
    async fn until_heartbeat(&self) -> bool {
        let until = Instant::now() + HEARTBEAT;
        loop {
            let (left, full) = (until - Instant::now(), self.stays && self.ballast.is_spent());
            if !self.goes_on(if full { left.min(ROOM) } else { left }).await {
                return false;
            }
            if self.stays && self.ballast.is_spent() {
                self.lay_ballast().await;
            }
            if Instant::now() >= until {
                return true;
            }
        }
    }

    /// Waits; `false` when the engine stops meanwhile.
    async fn goes_on(&self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.stopped.requested() => false,
        }
    }

    /// Seals every row there is.
    pub(crate) async fn seal_all(&self) {
        loop {
            match self.store.seal(&self.tenant, SEAL_ROWS, self.clock.now_ms()).await {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => {
                    self.watch(&error);
                    // A full disk is told where it matters; sealing can wait.
                    tracing::warn!(%error, "audit rows are not sealed yet");
                    return;
                }
            }
        }
    }

    fn to_sweep(&self) -> Sweep {
        let now = self.clock.now_ms();
        let before = |age: Duration| now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        Sweep {
            now,
            settled_before: before(self.retention.settled),
            untold_before: before(UNTOLD),
            pending_before: before(self.retention.outbox),
            ephemeral_before: before(self.retention.ephemeral),
            calls_before: before(MODEL_CALLS),
            limit: SWEEP_ROWS,
        }
    }
}
