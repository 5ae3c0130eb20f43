//! What happens in the conversation without this terminal: what a subagent found is answered, somebody writes from elsewhere.
//!
//! It is read from the store, which whoever holds the home writes: so it makes no difference who that is.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{AnnouncedEnd, announced, said};
use tidegate_protocol::{ErrorBody, RunId, RunState, SessionKey};
use tidegate_runtime::catalogue::Language;
use tidegate_storage::{RunFilter, Store, StoreError};
use tokio::sync::mpsc;

use super::host::Back;
use crate::commands::gist::shortened;
use crate::texts::chat as words;

/// How often one looks.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// The newest runs of a conversation that are looked at.
const NEWEST: u32 = 50;
/// Runs under way that are looked at for those of subagents.
const UNDER_WAY: u32 = 200;
/// Characters that are shown of what was asked elsewhere.
const SHOWN: usize = 200;

/// What came of a run that was not started here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Elsewhere {
    pub(crate) run: RunId,
    pub(crate) asked: String,
    /// What it said, unless it chose to say nothing.
    pub(crate) said: Option<String>,
    pub(crate) error: Option<ErrorBody>,
}

impl Elsewhere {
    /// Where it came from, in one line.
    pub(crate) fn heading(&self, language: Language) -> String {
        about_subagent(language, &self.asked).unwrap_or_else(|| {
            let first = self.asked.trim().lines().next().unwrap_or_default();
            words::FROM_ELSEWHERE.fill(language, &[("text", &shortened(first, SHOWN))])
        })
    }
}

/// That a subagent has ended, if the message is about that.
pub(super) fn about_subagent(language: Language, message: &str) -> Option<String> {
    let (label, end) = announced(message)?;
    let text = match end {
        AnnouncedEnd::Completed => words::SUBAGENT_FINISHED,
        AnnouncedEnd::OutOfTime => words::SUBAGENT_LATE,
        AnnouncedEnd::Aborted => words::SUBAGENT_ENDED,
        AnnouncedEnd::Failed => words::SUBAGENT_FAILED,
    };
    Some(text.fill(language, &[("label", &shortened(&label, SHOWN))]))
}

/// Whether a run came to an end of its own. What another run took in is told by that one.
fn has_ended(state: &RunState, at: Option<i64>, since: i64) -> bool {
    state.is_terminal() && *state != RunState::Joined && at.is_some_and(|at| at >= since)
}

/// Looks at a conversation again and again.
pub(crate) struct Watch {
    store: Arc<dyn Store>,
    key: SessionKey,
    since: i64,
    /// Runs that ended since and were told.
    told: HashSet<RunId>,
}

impl Watch {
    /// Of what ends from `since` on, in milliseconds since the epoch.
    pub(crate) fn new(store: Arc<dyn Store>, key: SessionKey, since: i64) -> Self {
        Self { store, key, since, told: HashSet::new() }
    }

    /// This one needs not be told.
    pub(crate) fn knows(&mut self, run: RunId) {
        self.told.insert(run);
    }

    /// Everything that ended and was not told yet, the oldest first.
    pub(crate) async fn look(&mut self) -> Result<Vec<Elsewhere>, StoreError> {
        let tenant = &self.key.scope.tenant;
        let filter = RunFilter { session: Some(self.key.clone()), limit: NEWEST, ..RunFilter::default() };
        let mut rows = self.store.runs(tenant, filter).await?;
        rows.retain(|row| has_ended(&row.state, row.finished_at, self.since) && !self.told.contains(&row.id));
        let mut ended = Vec::new();
        for row in rows.iter().rev() {
            let said = match row.state {
                RunState::Completed => said(self.store.as_ref(), tenant, row).await?,
                _ => None,
            };
            let (run, asked) = (row.id, row.input.text());
            ended.push(Elsewhere { run, asked, said, error: row.error.clone() });
        }
        self.told.extend(ended.iter().map(|one| one.run));
        Ok(ended)
    }

    /// How many subagents work for the conversation.
    async fn at_work(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        for state in [RunState::Queued, RunState::Running] {
            let filter = RunFilter { state: Some(state), limit: UNDER_WAY, ..RunFilter::default() };
            let rows = self.store.runs(&self.key.scope.tenant, filter).await?;
            count += rows.iter().filter(|row| row.reply.announces_to(&self.key)).count();
        }
        Ok(count)
    }

    /// Tells what changes, until nobody listens.
    pub(super) async fn report(mut self, back: &mpsc::Sender<Back>) {
        let mut known = 0;
        loop {
            tokio::time::sleep(LOOK).await;
            // A store that cannot be read now may be the next time.
            let looked = async { Ok::<_, StoreError>((self.at_work().await?, self.look().await?)) }.await;
            let (at_work, ended) = match looked {
                Ok(looked) => looked,
                Err(error) => {
                    tracing::debug!(%error, "the conversation cannot be looked at");
                    continue;
                }
            };
            if ended.is_empty() && at_work == known {
                continue;
            }
            known = at_work;
            if back.send(Back::Elsewhere { ended, at_work }).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_run_took_in_or_what_was_over_before_is_not_told() {
        assert!(has_ended(&RunState::Completed, Some(5), 5) && has_ended(&RunState::Failed, Some(6), 5));
        assert!(!has_ended(&RunState::Joined, Some(6), 5));
        assert!(!has_ended(&RunState::Completed, Some(4), 5) && !has_ended(&RunState::Running, None, 5));
    }
}
