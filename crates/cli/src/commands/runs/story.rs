//! Everything that is stored about one run.

use tidegate_engine::Settings;
use tidegate_policy::approval::Approval;
use tidegate_protocol::{Entry, ErrorCode, Message, RunId, RunState, TenantId};
use tidegate_storage::{
    ApprovalFilter, AuditRow, NewCall, OutboxRow, RunFilter, RunLookup, RunRow, Store, ToolRunRow,
};

use crate::app::{App, home_of, now_ms};
use crate::arguments::Parsed;
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::store::open_existing;
use crate::texts;

/// Rows of one kind that are read for a story.
const MOST: u32 = 1000;

pub(super) struct Story {
    pub(super) run: RunRow,
    pub(super) entries: Vec<Entry>,
    pub(super) calls: Vec<NewCall>,
    pub(super) tools: Vec<ToolRunRow>,
    pub(super) approvals: Vec<Approval>,
    pub(super) audit: Vec<AuditRow>,
    /// Runs whose messages this one took in.
    pub(super) joined: Vec<RunRow>,
    /// Runs that this one started, the oldest first.
    pub(super) children: Vec<RunRow>,
    pub(super) parts: Vec<OutboxRow>,
    /// Its last call of a model was given up just now, and what it used is not written down yet.
    pub(super) counting: bool,
}

/// How long after its end, in milliseconds, a run's last call may still be counted.
const COUNTED: i64 = 30_000;

/// Whether what an aborted run used is still to be written down. That it ended is written first.
fn is_counting(run: &RunRow, calls: &[NewCall], now: i64) -> bool {
    let just_now = run.finished_at.is_some_and(|end| now - end < COUNTED);
    let asked = run.started_at.is_some() && run.spec.command.is_none();
    run.state == RunState::Aborted && asked && just_now && calls.is_empty()
}

impl Story {
    pub(super) fn answer(&self) -> Option<String> {
        let messages = self.entries.iter().rev().filter_map(|entry| entry.body.message());
        messages.filter(|message| matches!(message, Message::Assistant { .. })).map(Message::text).next()
    }

    async fn read(store: &dyn Store, tenant: &TenantId, run: RunRow) -> Result<Self, Failure> {
        let entries = match (run.session, run.entries) {
            (Some(session), Some((first, last))) => {
                let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
                store.entries(tenant, session, first - 1, limit).await?
            }
            _ => Vec::new(),
        };
        let asked = ApprovalFilter { states: Vec::new(), run: Some(run.id), limit: MOST };
        let mut approvals = store.approvals(tenant, asked).await?;
        approvals.reverse();
        let started = RunFilter { parent: Some(run.id), limit: MOST, ..RunFilter::default() };
        let mut children = store.runs(tenant, started).await?;
        children.reverse();
        let beside = RunFilter { session: Some(run.key.clone()), limit: MOST, ..RunFilter::default() };
        let mut joined = store.runs(tenant, beside).await?;
        joined.retain(|other| other.joined == Some(run.id));
        joined.reverse();
        let calls = store.calls_of(tenant, run.id).await?;
        Ok(Self {
            entries,
            counting: is_counting(&run, &calls, now_ms()),
            calls,
            tools: store.tool_runs(tenant, run.id).await?,
            approvals,
            audit: store.audit_of(tenant, run.id).await?,
            joined,
            children,
            parts: store.outbox_of(tenant, run.id).await?,
            run,
        })
    }
}

/// The story of the run that the words name. Those of another tenant do not exist here.
pub(super) fn read(app: &App, parsed: &Parsed) -> Result<Story, Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let wanted = &parsed.arguments[0];
    let not_found = || {
        let message = texts::NO_SUCH_RUN.with(&[("name", &wanted), ("program", &app.program)]);
        Failure::new(ErrorCode::NotFound, message)
    };
    block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else { return Err(not_found()) };
        let lookup = match wanted.parse::<RunId>() {
            Ok(id) => RunLookup::Id(id),
            Err(_) => RunLookup::ClientKey(wanted.clone()),
        };
        let run = store.run(&tenant, &lookup).await?.ok_or_else(not_found)?;
        Story::read(store.as_ref(), &tenant, run).await
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_protocol::{Id as _, Limits, ReplyTarget, RunSpec, Scope, SessionKey, Usage};

    use super::*;

    #[test]
    fn an_aborted_run_is_counted_until_its_call_is_written_down_and_not_for_ever() {
        let input = json!({"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0});
        let run = RunRow {
            id: RunId::from_parts(1, [0; 10]),
            client_key: None,
            key: SessionKey::named(Scope::personal("main".parse().unwrap()), "main"),
            session: None,
            state: RunState::Aborted,
            attempt: 1,
            actor: String::new(),
            spec: RunSpec::new("", Vec::new(), Limits::new(1, 1)),
            input: serde_json::from_value(input).unwrap(),
            reply: ReplyTarget::Caller,
            join: None,
            joined: None,
            parent: None,
            error: None,
            usage: Usage::default(),
            entries: None,
            created_at: 0,
            started_at: Some(1_000),
            finished_at: Some(2_000),
        };
        assert!(is_counting(&run, &[], 2_500));
        assert!(!is_counting(&run, &[], 100_000), "it is given up");
        assert!(!is_counting(&RunRow { started_at: None, ..run.clone() }, &[], 2_500), "nothing was asked");
        assert!(!is_counting(&RunRow { state: RunState::Completed, ..run }, &[], 2_500));
    }
}
