//! Everything that is stored about one run.

use tidegate_engine::Settings;
use tidegate_policy::approval::Approval;
use tidegate_protocol::{Entry, ErrorCode, Message, RunId, TenantId};
use tidegate_storage::{
    ApprovalFilter, AuditRow, NewCall, OutboxRow, RunFilter, RunLookup, RunRow, Store, ToolRunRow,
};

use crate::app::{App, home_of};
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
        Ok(Self {
            entries,
            calls: store.calls_of(tenant, run.id).await?,
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
