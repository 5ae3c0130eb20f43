//! Ending everything that is under way at once, and what waits behind it if that is wanted.

use futures_util::future::join_all;
use tidegate_policy::Principal;
use tidegate_protocol::{AgentId, RunState, SessionKey, TenantId};
use tidegate_storage::{AbortOutcome, Library, RunFilter, RunRow, Store, StoreError};

use crate::error::EngineError;
use crate::start::Engine;

/// Runs that are looked at in one go.
const MOST: u32 = 10_000;
/// How often it is looked again: what waited may have begun while it was being ended.
const LOOKS: usize = 5;

/// What waits goes first: else it would take the place of what was under way.
const STATES: [RunState; 2] = [RunState::Queued, RunState::Running];

/// Which runs to end.
#[derive(Debug, Clone, Default)]
pub struct StopFilter {
    /// Only those of this conversation.
    pub session: Option<SessionKey>,
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Also those that wait for their turn.
    pub waiting: bool,
}

impl Engine {
    /// Ends runs, and whatever they started. Answers those it ended, as they stood before.
    pub async fn stop_all(
        &self,
        principal: &Principal,
        filter: &StopFilter,
    ) -> Result<Vec<RunRow>, EngineError> {
        let mut stopped = Vec::new();
        for _ in 0..filter.looks() {
            let mut found = false;
            for state in STATES {
                let rows = filter.find(self.library(), self.tenant(), state).await?;
                found |= !rows.is_empty();
                let ends = join_all(rows.iter().map(|row| self.abort_quietly(principal, row.id))).await;
                for (row, end) in rows.into_iter().zip(ends) {
                    if is_aborted(&end?) {
                        stopped.push(row);
                    }
                }
            }
            if !found {
                break;
            }
        }
        Ok(stopped)
    }
}

/// The same where no engine runs: the caller holds the home, and nothing is begun only to be ended.
pub async fn stop_stored(
    store: &dyn Store,
    principal: &Principal,
    filter: &StopFilter,
    now: i64,
) -> Result<Vec<RunRow>, StoreError> {
    let mut stopped = Vec::new();
    for state in STATES {
        for row in filter.find(store, principal.tenant(), state).await? {
            if is_aborted(&store.abort(principal, row.id, now).await?) {
                stopped.push(row);
            }
        }
    }
    Ok(stopped)
}

/// One that its parent took with it was ended as well.
fn is_aborted(end: &AbortOutcome) -> bool {
    matches!(end, AbortOutcome::Aborted | AbortOutcome::AlreadyEnded(RunState::Aborted))
}

impl StopFilter {
    fn looks(&self) -> usize {
        if self.waiting { LOOKS } else { 1 }
    }

    async fn find(
        &self,
        library: &(impl Library + ?Sized),
        tenant: &TenantId,
        state: RunState,
    ) -> Result<Vec<RunRow>, StoreError> {
        if self.session.is_none() && !self.waiting && state == RunState::Queued {
            return Ok(Vec::new());
        }
        let filter = RunFilter { state: Some(state), limit: MOST, ..RunFilter::default() };
        let mut rows = library.runs(tenant, filter).await?;
        rows.retain(|row| self.is_meant(row));
        Ok(rows)
    }

    /// A conversation's own, and whatever works for it; that is meant also where it waits for its turn.
    fn is_meant(&self, row: &RunRow) -> bool {
        let may_wait = self.waiting || row.state != RunState::Queued;
        let is_of_session = self
            .session
            .as_ref()
            .map_or(may_wait, |key| (row.key == *key && may_wait) || row.reply.announces_to(key));
        is_of_session && self.agent.as_ref().is_none_or(|agent| row.key.scope.agent == *agent)
    }
}
