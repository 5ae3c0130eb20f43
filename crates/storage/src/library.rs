//! Reading: what people and programs ask about state. Nothing here waits for a writer.

use async_trait::async_trait;
use serde_json::Value;
use tidegate_protocol::{
    AgentId, AuditId, ChannelName, Entry, ErrorBody, JoinMode, Message, OutboxId, ReplyTarget, RunId,
    RunSpec, RunState, SessionId, SessionKey, SessionSettings, TenantId, ToolRunId, ToolRunState, Usage,
};

use crate::budget::{BudgetFilter, BudgetRow};
use crate::error::Result;
use crate::ledger::{NewCall, UsageFilter, UsageRow};
use crate::outbox::OutboxState;

#[async_trait]
pub trait Library: Send + Sync {
    /// Conversations, the most recently used first: those that are their key's current one, or all.
    async fn sessions(&self, tenant: &TenantId, filter: SessionFilter) -> Result<Vec<SessionRow>>;

    /// The current conversation of a key.
    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>>;

    /// A conversation by its id or alias, also when it is no longer its key's current one.
    async fn session_by_name(&self, tenant: &TenantId, name: &str) -> Result<Option<SessionRow>>;

    /// Entries after `after_seq`, oldest first; those a fork shares with its parent are read there.
    async fn entries(
        &self,
        tenant: &TenantId,
        session: SessionId,
        after_seq: i64,
        limit: u32,
    ) -> Result<Vec<Entry>>;

    /// Runs, the newest first.
    async fn runs(&self, tenant: &TenantId, filter: RunFilter) -> Result<Vec<RunRow>>;

    async fn run(&self, tenant: &TenantId, lookup: &RunLookup) -> Result<Option<RunRow>>;

    /// The runs that a run started, and those they started, that have not ended.
    async fn descendants(&self, tenant: &TenantId, run: RunId) -> Result<Vec<RunId>>;

    /// How many runs that the runs of a conversation started have not ended, however many others there are. Those in
    /// the conversation `except` are left out.
    async fn started_by(&self, key: &SessionKey, except: &SessionKey) -> Result<u64>;

    /// The model calls of a run, in the order they began.
    async fn calls_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<NewCall>>;

    /// A run's tool executions in the order they were intended.
    async fn tool_runs(&self, tenant: &TenantId, run: RunId) -> Result<Vec<ToolRunRow>>;

    /// Outgoing parts, the newest first.
    async fn outbox(&self, tenant: &TenantId, filter: OutboxFilter) -> Result<Vec<OutboxRow>>;

    /// A run's outgoing parts in order.
    async fn outbox_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<OutboxRow>>;

    /// Audit rows, the newest first.
    async fn audit(&self, tenant: &TenantId, limit: u32) -> Result<Vec<AuditRow>>;

    /// What the audit trail has about a run, its tools and its questions, the oldest first.
    async fn audit_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<AuditRow>>;

    /// What model calls used, added up by day (ascending) or by something else (the dearest first).
    async fn usage(&self, tenant: &TenantId, filter: UsageFilter) -> Result<Vec<UsageRow>>;

    /// What budgets have seen, by scope and period.
    async fn budgets(&self, tenant: &TenantId, filter: BudgetFilter) -> Result<Vec<BudgetRow>>;

    async fn status(&self, tenant: &TenantId) -> Result<StoreStatus>;
}

#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    pub agent: Option<AgentId>,
    /// Also those that were begun anew since, and those that never became current.
    pub all: bool,
    pub limit: u32,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub key: SessionKey,
    pub id: SessionId,
    pub alias: Option<String>,
    /// Whether the key points at it now.
    pub current: bool,
    pub head_seq: i64,
    /// A title somebody gave it, or the beginning of its first message.
    pub title: Option<String>,
    /// The log it was forked from, and the last line they share.
    pub parent: Option<(SessionId, i64)>,
    /// How often it was summed up.
    pub compactions: u32,
    /// When the agent was last asked to write its notes.
    pub flushed_at: Option<i64>,
    /// What all its runs used.
    pub usage: Usage,
    /// How much of the model's window it filled at the last call.
    pub context_tokens: u64,
    pub settings: SessionSettings,
    pub route: Option<String>,
    pub provider: Option<String>,
    pub profile_id: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
}

#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub state: Option<RunState>,
    pub session: Option<SessionKey>,
    /// Only those this run started.
    pub parent: Option<RunId>,
    pub limit: u32,
}

/// How a person names a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunLookup {
    Id(RunId),
    /// The caller's own key; the newest run that has it.
    ClientKey(String),
    /// The run that an idempotency key stands for at a time.
    Idempotency {
        /// As in [`Idempotency`](crate::Idempotency): its SHA-256 in hex.
        key: String,
        now: i64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    pub id: RunId,
    pub client_key: Option<String>,
    pub key: SessionKey,
    /// Absent until the run was claimed.
    pub session: Option<SessionId>,
    pub state: RunState,
    pub attempt: u32,
    pub actor: String,
    pub spec: RunSpec,
    pub input: Message,
    pub reply: ReplyTarget,
    pub join: Option<JoinMode>,
    /// The run that took its message in.
    pub joined: Option<RunId>,
    /// The run that started it.
    pub parent: Option<RunId>,
    pub error: Option<ErrorBody>,
    pub usage: Usage,
    /// First and last log position the run wrote; absent when it wrote none.
    pub entries: Option<(i64, i64)>,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub finished_at: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolRunRow {
    pub id: ToolRunId,
    pub call_id: String,
    pub tool_name: String,
    pub args: Value,
    pub result: Option<Value>,
    pub state: ToolRunState,
    pub created_at: i64,
}

#[derive(Debug, Clone, Default)]
pub struct OutboxFilter {
    /// Only these states; all when empty.
    pub states: Vec<OutboxState>,
    pub channel: Option<ChannelName>,
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    pub id: OutboxId,
    pub run: RunId,
    pub channel: ChannelName,
    pub account_id: String,
    pub part: u32,
    pub lane: String,
    pub body: String,
    pub state: OutboxState,
    pub attempt: u32,
    /// When it may go out, while it waits.
    pub retry_at: i64,
    /// The network's id of what was sent.
    pub remote_id: Option<String>,
    pub reason: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    pub id: AuditId,
    pub actor: String,
    pub action: String,
    pub resource_type: String,
    pub resource_id: String,
    pub metadata: Value,
    pub created_at: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    pub backend: String,
    pub schema: u32,
    pub sessions: u64,
    /// Runs by state, sorted by state.
    pub runs: Vec<(String, u64)>,
    /// Outgoing parts by state, sorted by state.
    pub outbox: Vec<(String, u64)>,
    /// Bytes on disk, where the backend knows them.
    pub bytes: Option<u64>,
}
