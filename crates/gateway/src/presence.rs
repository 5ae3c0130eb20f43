//! Whether somebody still waits for a run. A caller that hangs up ends the run it waited for.

use tidegate_engine::{Request, Submitted};
use tidegate_protocol::{ErrorCode, RunId};
use tidegate_runtime::{fault, spawn};
use tokio::sync::oneshot;

use crate::answer::Refusal;
use crate::gate::Gate;

/// What becomes of a run whose caller goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It goes on: the answer is read elsewhere.
    GoesOn,
    /// It ends.
    Aborts,
}

/// Somebody waits. Dropping it before the run ended aborts the run.
pub(crate) struct Presence {
    gate: Gate,
    run: Option<RunId>,
}

impl Gate {
    /// Accepts a request, also when the caller hangs up meanwhile: an accepted run must get its turn, and one that
    /// nobody waits for must end.
    pub(crate) async fn submit(
        &self,
        request: Request,
        leaving: Leaving,
    ) -> Result<(Submitted, Presence), Refusal> {
        let (sender, receiver) = oneshot::channel();
        let gate = self.clone();
        let task = async move {
            let outcome = gate.engine().submit(request).await;
            fault::pause("gateway.submit.accepted").await;
            let outcome = outcome.map(|submitted| {
                let presence = gate.presence(&submitted, leaving);
                (submitted, presence)
            });
            // Nobody there: what comes back is dropped, and the presence in it aborts the run.
            let _ = sender.send(outcome);
        };
        spawn("gateway.submit", self.shared.tasks.track_future(task));
        let gone = |_| Refusal::new(ErrorCode::Internal, "the request could not be accepted");
        Ok(receiver.await.map_err(gone)??)
    }

    fn presence(&self, submitted: &Submitted, leaving: Leaving) -> Presence {
        // The first to send a key began the run, and the run is the first one's to end.
        let aborts = leaving == Leaving::Aborts && !submitted.replayed;
        Presence { gate: self.clone(), run: aborts.then_some(submitted.run) }
    }
}

impl Presence {
    /// The run has ended; there is nothing to abort any more.
    pub(crate) fn over(&mut self) {
        self.run = None;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let gate = self.gate.clone();
        let tasks = gate.shared.tasks.clone();
        spawn(
            "gateway.abort",
            tasks.track_future(async move {
                if let Err(error) = gate.engine().abort(&gate.principal(), run).await {
                    tracing::warn!(%error, %run, "a run that nobody waits for could not be ended");
                }
            }),
        );
    }
}
