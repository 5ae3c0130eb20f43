//! Ending what is under way in a conversation, at once.

use tidegate_policy::Principal;
use tidegate_protocol::{RunId, RunState};
use tidegate_storage::{RunFilter, StoreError};

use super::plan::Writer;
use crate::error::EngineError;
use crate::start::{Core, Engine};

/// Waiting runs that are ended at once.
const MOST: u32 = 1_000;

/// What is to end, and how much of it a person would not see end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Unfinished {
    pub(super) runs: Vec<RunId>,
    /// Messages that wait for their turn.
    pub(super) waiting: usize,
    /// Subagents that work for the conversation.
    pub(super) helpers: usize,
}

impl Engine {
    /// Ends runs, with those they started, and tells nobody: whoever waits for them wished so. One that ended by itself
    /// meanwhile has what it wants.
    pub(crate) async fn end_all(&self, principal: &Principal, runs: Vec<RunId>) -> Result<(), EngineError> {
        for run in runs {
            self.abort_quietly(principal, run).await?;
        }
        Ok(())
    }
}

impl Core {
    /// What is under way in a conversation and for it, as far as the writer may end it; with `all` what waits too. That
    /// comes first: ending the run under way would let the next begin. What works for the conversation may have been
    /// started by a run that has ended long ago.
    pub(super) async fn unfinished(&self, writer: Writer<'_>, all: bool) -> Result<Unfinished, StoreError> {
        let mut found = Unfinished::default();
        for state in [RunState::Queued, RunState::Running] {
            let open = RunFilter { state: Some(state.clone()), limit: MOST, ..RunFilter::default() };
            let mut rows = self.store.runs(&self.tenant, open.clone()).await?;
            rows.retain(|row| row.reply.announces_to(writer.key));
            if all || state == RunState::Running {
                // By itself, however many wait elsewhere.
                let own = RunFilter { session: Some(writer.key.clone()), ..open };
                rows.extend(self.store.runs(&self.tenant, own).await?);
            }
            for row in rows.into_iter().filter(|row| writer.may_end(&row.actor)) {
                if found.runs.contains(&row.id) {
                    continue;
                }
                found.runs.push(row.id);
                match row.state {
                    _ if row.reply.announces_to(writer.key) => found.helpers += 1,
                    RunState::Queued => found.waiting += 1,
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}
