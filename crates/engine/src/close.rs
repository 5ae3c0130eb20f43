//! Ending in good order: nothing new is taken, what is under way ends or is given back, then the home is free.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_protocol::{ErrorBody, ErrorCode};
use tidegate_runtime::fault;

use crate::live::Cancel;
use crate::start::Engine;

/// After runs were told to stop.
const GIVE_BACK: Duration = Duration::from_secs(3);

/// How often somebody who waits for work to end looks.
const LOOK: Duration = Duration::from_millis(5);

/// How an engine is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// Everything accepted comes to its end first.
    Everything,
    /// What is under way may take this long; the rest is given back for the next start.
    Within(Duration),
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Runs that were given back and go on at the next start.
    pub given_back: usize,
}

impl Engine {
    /// Takes nothing new from now on.
    pub fn stop_accepting(&self) {
        self.core.closing.request();
        self.core.end_mcp();
    }

    /// Returns once nothing is under way but what callers wait for. Until then everybody may still come: what works on its
    /// own can take long, and somebody may want to end it.
    pub async fn settled(&self) {
        let core = &self.core;
        while !core.closing.is_requested()
            && (!core.scheduler.is_idle() || core.work.len() > core.live.answering())
        {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends the engine. The home is free once the last clone is dropped.
    pub async fn close(&self, drain: Drain) -> Drained {
        let core = &self.core;
        core.closing.request();
        core.end_mcp();
        fault::pause("engine.close.begun").await;
        core.work.close();
        match drain {
            Drain::Everything => self.until_nothing_waits().await,
            Drain::Within(budget) => {
                self.interrupt_waiting().await;
                if tokio::time::timeout(budget, core.work.wait()).await.is_err() {
                    self.give_back().await;
                }
            }
        }
        core.toolbox.close().await;
        core.browsers.close().await;
        core.stopped.request();
        for service in core.take_services() {
            let _ = service.join().await;
        }
        if let Err(error) = core.flush_transcripts().await {
            tracing::warn!(%error, "transcripts lag; the next start writes them");
        }
        core.seal_all().await;
        fault::pause("engine.close.done").await;
        Drained { given_back: core.given_back.load(Ordering::Relaxed) }
    }

    /// Waits until no run that somebody waits for here is left.
    async fn until_nothing_waits(&self) {
        let core = &self.core;
        loop {
            core.work.wait().await;
            if core.scheduler.is_idle() && !core.live.has_callers() && core.work.is_empty() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends the runs that wait for their turn and whose callers wait here: it will not come to them.
    async fn interrupt_waiting(&self) {
        for (run, live) in self.core.live.all() {
            if live.is_started() || !live.has_caller() {
                continue;
            }
            let error = ErrorBody::new(ErrorCode::Closing, "shutting down; the request was not begun");
            if let Err(error) = self.core.abort_queued(run, error).await {
                tracing::warn!(%error, %run, "a waiting run could not be ended; the next start does");
            }
        }
    }

    async fn give_back(&self) {
        for (_, live) in self.core.live.all() {
            live.cancel(Cancel::Release);
        }
        let _ = tokio::time::timeout(GIVE_BACK, self.core.work.wait()).await;
    }
}
