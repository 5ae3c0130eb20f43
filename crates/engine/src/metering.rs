//! Money: what a run may need is reserved before it begins, what its calls used is written down however it ends.

use tidegate_models::{CallOutcome, CallRecord};
use tidegate_policy::{BudgetLine, Reservation};
use tidegate_protocol::{
    AgentId, Block, Brought, CallId, Cost, Entry, EntryBody, Message, RunId, RunSpec, Scope, SessionKey,
};
use tidegate_runtime::{RandomnessError, new_id};
use tidegate_storage::{BudgetFilter, Meter, NewCall, SessionChoice, StoreError};

use crate::error::EngineError;
use crate::execute::Work;
use crate::sessions::asks_a_model;
use crate::start::Core;

/// Lines that are looked through for the last answer of a model that counts.
const LOOKED_AT: u32 = 500;
/// What an image is taken for.
const IMAGE_TOKENS: u64 = 1_600;

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

/// What hard limits leave.
struct Left {
    tokens: Option<u64>,
    cost: Option<Cost>,
}

impl Left {
    fn fits(&self, asked: &Reservation) -> bool {
        self.tokens.is_none_or(|left| asked.tokens <= left) && self.cost.is_none_or(|left| asked.cost <= left)
    }
}

impl Core {
    /// What a run asks of its budgets; nothing where there are none. Where little is left, the run's limits become
    /// smaller: a short answer is better than none. Whether there still is room is decided in ACCEPT.
    pub(crate) async fn reservation(
        &self,
        key: &SessionKey,
        session: SessionChoice,
        spec: &mut RunSpec,
        text: &str,
    ) -> Result<Option<Reservation>, StoreError> {
        let now = self.clock.now_ms();
        let lines = self.settings.budget_lines(&key.scope, now);
        if lines.is_empty() || !asks_a_model(spec) {
            return Ok(None);
        }
        let before = match session {
            SessionChoice::Current | SessionChoice::Since(_) => {
                self.said_before(key, spec.limits.history).await?
            }
            SessionChoice::Fresh => 0,
        };
        let brought = spec.brought.as_deref().map_or(0, generous_brought);
        let input = before.saturating_add(generous(text)).saturating_add(brought);
        let asked = self.settings.reservation(&key.scope, spec, input, now);
        let Some(left) =
            self.left(&lines).await?.filter(|left| asked.as_ref().is_some_and(|asked| !left.fits(asked)))
        else {
            return Ok(asked);
        };
        let shorter = self.settings.shortened(spec, input, left.tokens, left.cost);
        if let Some(limits) = shorter {
            spec.limits = limits;
        }
        Ok(self.settings.reservation(&key.scope, spec, input, now))
    }

    /// Whether the hard budgets have room for one call besides the runs: with this text, and so many tokens more.
    pub(crate) async fn has_room(
        &self,
        scope: &Scope,
        spec: &RunSpec,
        text: &str,
        more: u64,
    ) -> Result<bool, StoreError> {
        let now = self.clock.now_ms();
        let input = generous(text).saturating_add(more);
        let Some(asked) = self.settings.reservation(scope, spec, input, now) else { return Ok(true) };
        let left = self.left(&asked.lines).await?;
        Ok(left.is_none_or(|left| left.fits(&asked)))
    }

    /// The least that the hard lines have left.
    async fn left(&self, lines: &[BudgetLine]) -> Result<Option<Left>, StoreError> {
        let filter = BudgetFilter {
            scopes: lines.iter().map(|line| line.scope.clone()).collect(),
            periods: lines.iter().map(|line| line.period.clone()).collect(),
            limit: 100,
        };
        let rows = self.store.budgets(&self.tenant, filter).await?;
        let mut left = Left { tokens: None, cost: None };
        for line in lines.iter().filter(|line| line.hard) {
            let row = rows.iter().find(|row| row.key.scope == line.scope && row.key.period == line.period);
            let used = row.map(|row| row.used).unwrap_or_default();
            let tokens =
                line.max_tokens.map(|most| most.saturating_sub(used.tokens_spent + used.tokens_reserved));
            let cost =
                line.max_cost.map(|most| most.0.saturating_sub(used.cost_spent.0 + used.cost_reserved.0));
            left.tokens = [left.tokens, tokens].into_iter().flatten().min();
            left.cost = [left.cost, cost.map(Cost)].into_iter().flatten().min();
        }
        Ok((left.tokens.is_some() || left.cost.is_some()).then_some(left))
    }

    /// Tokens of the conversation as the model will be shown it.
    async fn said_before(&self, key: &SessionKey, shown: u32) -> Result<u64, StoreError> {
        let Some(session) = self.store.session(key).await? else { return Ok(0) };
        // What the last answer came to, its instructions and tools with it.
        if session.context_tokens > 0 {
            return Ok(session.context_tokens);
        }
        let shown = shown.min(LOOKED_AT);
        let from = session.head_seq.saturating_sub(i64::from(shown)).max(0);
        Ok(counted(&self.store.entries(&self.tenant, session.id, from, shown).await?))
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
        // A run that was ended before its first call counts as all it reserved until that is told.
        if calls.is_empty() && run.is_none() {
            return Ok(());
        }
        let meter = Meter { run, calls: self.calls(account, calls)?, now: self.clock.now_ms() };
        self.store.meter(&self.tenant, meter).await?;
        Ok(())
    }
}

/// What the call behind the last answer sent and got, and whatever was said since. Runs that failed or were refused are
/// not in the log, so they do not hide how long it is.
fn counted(entries: &[Entry]) -> u64 {
    let mut since = 0_u64;
    for entry in entries.iter().rev() {
        let EntryBody::Message(message) = &entry.body else { continue };
        if let Message::Assistant { usage, .. } = message
            && usage.total() > 0
        {
            return since.saturating_add(usage.total());
        }
        since = since.saturating_add(generous(&message.text()));
    }
    since
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

/// The same for what came with a question.
fn generous_brought(brought: &Brought) -> u64 {
    let messages = brought.before.iter().chain(&brought.input);
    let said = messages.flat_map(Message::content).map(|block| match block {
        Block::Text { text, .. } | Block::Thinking { thinking: text, .. } => generous(text),
        Block::Image { .. } => IMAGE_TOKENS,
        Block::ToolCall { arguments, .. } => generous(&arguments.to_string()),
    });
    let tools = brought.tools.iter().map(|tool| {
        generous(&tool.name) + generous(&tool.description) + generous(&tool.parameters.to_string())
    });
    let instructions = brought.instructions.as_deref().map_or(0, generous);
    said.chain(tools).fold(instructions, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{Block, Origin, StopReason, Usage};
    use tidegate_runtime::SystemClock;

    use super::*;

    fn entry(message: Message) -> Entry {
        let clock = &SystemClock;
        Entry {
            session_id: new_id(clock).unwrap(),
            seq: 1,
            id: new_id(clock).unwrap(),
            parent_id: None,
            run_id: new_id(clock).unwrap(),
            created_at: 0,
            body: EntryBody::Message(message),
        }
    }

    fn answer(usage: Usage) -> Entry {
        entry(Message::Assistant {
            content: vec![Block::text("yes yes")],
            origin: Origin {
                api: "offline".to_owned(),
                provider: "offline".to_owned(),
                model: "echo".to_owned(),
                profile_id: None,
                route: "echo".to_owned(),
                stage: "adapter.stub.echo".to_owned(),
            },
            usage,
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp: 0,
        })
    }

    fn question() -> Entry {
        entry(Message::user("what is it?", 0))
    }

    #[test]
    fn a_conversation_is_as_long_as_its_last_call_said() {
        let usage = |input, output| Usage { input, output, cache_read: 5, ..Usage::default() };
        let log = [question(), answer(usage(7, 3)), question(), answer(usage(900, 100))];
        assert_eq!(counted(&log), 1_005);
        // What came after it is counted by its letters.
        assert_eq!(counted(&log[..3]), 15 + 4);
    }

    #[test]
    fn without_a_count_its_letters_are_counted() {
        assert_eq!(counted(&[question(), answer(Usage::default())]), 4 + 3);
        assert_eq!(counted(&[]), 0);
    }
}
