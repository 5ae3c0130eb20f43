//! Money: what a run may need is reserved before it begins, what its calls used is written down however it ends.

use tidegate_models::{CallOutcome, CallRecord};
use tidegate_policy::Reservation;
use tidegate_protocol::{AgentId, CallId, RunId, RunSpec, SessionKey, Usage};
use tidegate_runtime::{RandomnessError, new_id};
use tidegate_storage::{Meter, NewCall, RunFilter, StoreError};

use crate::error::EngineError;
use crate::execute::Work;
use crate::start::Core;

/// On whose account a call is.
pub(crate) struct Account<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) session: Option<&'a SessionKey>,
    pub(crate) purpose: &'static str,
}

impl<'a> Account<'a> {
    pub(crate) fn of(work: &'a Work) -> Self {
        Self { agent: &work.key.scope.agent, session: Some(&work.key), purpose: "turn" }
    }
}

impl Core {
    /// What a run asks of its budgets; nothing where there are none.
    pub(crate) async fn reservation(
        &self,
        key: &SessionKey,
        spec: &RunSpec,
        text: &str,
    ) -> Result<Option<Reservation>, StoreError> {
        let now = self.clock.now_ms();
        if self.settings.budget_lines(&key.scope, now).is_empty() {
            return Ok(None);
        }
        // What the last run sent and got comes before the new question.
        let last = RunFilter { session: Some(key.clone()), limit: 1, ..RunFilter::default() };
        let last = self.store.runs(&self.tenant, last).await?;
        let history = last.first().map_or(0, |run| run.usage.total());
        Ok(self.settings.reservation(&key.scope, spec, history.saturating_add(generous(text)), now))
    }

    /// Calls as the ledger keeps them.
    pub(crate) fn calls(
        &self,
        account: &Account<'_>,
        calls: Vec<CallRecord>,
    ) -> Result<Vec<NewCall>, RandomnessError> {
        let call = |call: CallRecord| {
            let id: CallId = new_id(self.clock.as_ref())?;
            let outcome = match call.outcome {
                CallOutcome::Answered => "ok",
                CallOutcome::Failed(kind) => kind.as_str(),
                CallOutcome::Dropped => "dropped",
            };
            Ok(NewCall {
                id,
                agent: account.agent.clone(),
                session: account.session.cloned(),
                purpose: account.purpose.to_owned(),
                provider: call.model.provider,
                model: call.model.model,
                profile_id: call.profile_id,
                usage: call.usage,
                estimated: call.estimated,
                outcome: outcome.to_owned(),
                started_at: call.started_at,
                day: self.settings.zone().day(call.started_at),
            })
        };
        calls.into_iter().map(call).collect()
    }

    /// Writes down calls whose run somebody else ended, or that belong to none.
    pub(crate) async fn meter(
        &self,
        run: Option<RunId>,
        account: &Account<'_>,
        calls: Vec<CallRecord>,
    ) -> Result<(), EngineError> {
        if calls.is_empty() {
            return Ok(());
        }
        let meter = Meter { run, calls: self.calls(account, calls)?, now: self.clock.now_ms() };
        self.store.meter(&self.tenant, meter).await?;
        Ok(())
    }
}

/// What calls used together.
pub(crate) fn total(calls: &[NewCall]) -> Usage {
    calls.iter().fold(Usage::default(), |mut sum, call| {
        sum += call.usage;
        sum
    })
}

/// Tokens a text may be counted as, rather too many: three letters a token, and more than one for each sign of other
/// scripts.
fn generous(text: &str) -> u64 {
    let (mut ascii, mut other) = (0_u64, 0_u64);
    for character in text.chars() {
        if character.is_ascii() { ascii += 1 } else { other += 1 }
    }
    ascii.div_ceil(3).saturating_add(other.saturating_mul(3).div_ceil(2))
}
