//! Reading for people and programs. A reader may meet the data of an older release: what that one did not have yet
//! reads as empty.
//!
//! Queries name their columns: Postgres refuses to run a prepared `SELECT *` again once a newer release, starting
//! beside this one, has added a column.

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};
use tidegate_protocol::{
    AgentId, ChannelName, Entry, JoinMode, RunId, RunState, SessionId, SessionKey, SessionSettings, TenantId,
    ToolRunState,
};
use tidegate_storage::{
    AuditRow, BudgetFilter, BudgetRow, Library, NewCall, OutboxFilter, OutboxRow, OutboxState, Result,
    RunFilter, RunLookup, RunRow, SessionFilter, SessionRow, StoreStatus, ToolRunRow, UsageFilter, UsageRow,
};

use crate::abort::descendants;
use crate::chain::{Segment, segments};
use crate::error::TxResult;
use crate::migrate::stored_version;
use crate::open::{AGENT, DELIVERY, ENGINE, PostgresStore};
use crate::rows::{
    collect, column, error_or_none, json, json_or_none, parsed, parsed_or_none, text, text_or_none, unsigned,
    usage,
};
use crate::text::store;
use crate::transaction::Open;
use crate::{budget, ledger};

/// What [`session`] reads, for data that has it all.
const SESSION: &str = "SELECT s.session_key, s.id, s.alias, s.head_seq, s.route, s.provider, s.profile_id, s.created_at,
    s.updated_at, s.title, s.parent_id, s.fork_seq, s.compactions, s.flushed_at, s.token_input, s.token_output,
    s.token_cache_read, s.token_cache_write, s.cost, s.context_tokens, k.settings_json,
    k.session_id IS NOT DISTINCT FROM s.id AS is_current";
/// The same for data of a release before forks.
const OLDER_SESSION: &str = "SELECT s.session_key, s.id, s.alias, s.head_seq, s.route, s.provider, s.profile_id,
    s.created_at, s.updated_at, NULL::text AS title, NULL::text AS parent_id, 0::bigint AS fork_seq,
    0::bigint AS compactions, NULL::bigint AS flushed_at, 0::bigint AS token_input, 0::bigint AS token_output,
    0::bigint AS token_cache_read, 0::bigint AS token_cache_write, 0::bigint AS cost, 0::bigint AS context_tokens,
    NULL::text AS settings_json, k.session_id IS NOT DISTINCT FROM s.id AS is_current";

/// What [`run`] reads, for data that has it all.
const RUN: &str = "SELECT id, client_key, session_key, session_id, state, attempt, actor, spec_json, input_json, reply_json,
    error_json, token_input, token_output, token_cache_read, token_cache_write, cost, first_seq, last_seq, created_at,
    started_at, finished_at, join_mode, joined_run, parent_run FROM runs";
/// The same for data of a release before runs joined or started others.
const OLDER_RUN: &str = "SELECT id, client_key, session_key, session_id, state, attempt, actor, spec_json, input_json,
    reply_json, error_json, token_input, token_output, token_cache_read, token_cache_write, cost, first_seq, last_seq,
    created_at, started_at, finished_at, NULL::text AS join_mode, NULL::text AS joined_run, NULL::text AS parent_run
    FROM runs";

/// What [`outbox_row`] reads.
macro_rules! outbox_columns {
    () => {
        "id, run_id, channel, account_id, part, lane, body, state, attempt, retry_at, remote_id, reason, created_at,
         updated_at"
    };
}
pub(crate) use outbox_columns;

#[async_trait]
impl Library for PostgresStore {
    async fn sessions(&self, tenant: &TenantId, filter: SessionFilter) -> Result<Vec<SessionRow>> {
        let agent = filter.agent.as_ref().map(AgentId::as_str);
        let sql = format!(
            "{} FROM sessions s
             LEFT JOIN session_keys k ON k.tenant_id = s.tenant_id AND k.session_key = s.session_key
             WHERE s.tenant_id = $1 AND ($4 OR k.session_id = s.id) AND ($2::text IS NULL OR s.agent_id = $2)
               AND s.state <> 'shared'
             ORDER BY s.updated_at DESC, s.id DESC LIMIT $3",
            self.session_select()
        );
        let rows = self.rows(tenant, || {
            sqlx::query(AssertSqlSafe(sql.clone()))
                .bind(tenant.as_str())
                .bind(agent)
                .bind(i64::from(filter.limit))
                .bind(filter.all)
        });
        collect(&rows.await?, session)
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        let tenant = &key.scope.tenant;
        let sql = format!(
            "{} FROM session_keys k JOIN sessions s ON s.tenant_id = k.tenant_id AND s.id = k.session_id
             WHERE k.tenant_id = $1 AND k.session_key = $2",
            self.session_select()
        );
        let rows = self.rows(tenant, || {
            sqlx::query(AssertSqlSafe(sql.clone())).bind(tenant.as_str()).bind(key.to_string())
        });
        rows.await?.first().map(session).transpose()
    }

    async fn session_by_name(&self, tenant: &TenantId, name: &str) -> Result<Option<SessionRow>> {
        // The key says which log is current; the stored state is for people.
        let sql = format!(
            "{} FROM sessions s
             LEFT JOIN session_keys k ON k.tenant_id = s.tenant_id AND k.session_key = s.session_key
             WHERE s.tenant_id = $1 AND (s.id = $2 OR s.alias = $2) AND s.state <> 'shared'",
            self.session_select()
        );
        let rows = self
            .rows(tenant, || sqlx::query(AssertSqlSafe(sql.clone())).bind(tenant.as_str()).bind(store(name)));
        rows.await?.first().map(session).transpose()
    }

    async fn entries(
        &self,
        tenant: &TenantId,
        session: SessionId,
        after_seq: i64,
        limit: u32,
    ) -> Result<Vec<Entry>> {
        self.read(tenant, |Open { transaction, .. }| {
            Box::pin(self.lines(transaction, tenant.as_str(), session, after_seq, limit))
        })
        .await
    }

    async fn runs(&self, tenant: &TenantId, filter: RunFilter) -> Result<Vec<RunRow>> {
        let of_parent = match filter.parent {
            Some(_) if self.version() < AGENT => return Ok(Vec::new()),
            Some(_) => "parent_run = $5",
            None => "$5::text IS NULL",
        };
        // Each way to look has its index; a statement that serves all of them would read every run.
        let of_state = match &filter.state {
            None => "$2::text IS NULL",
            Some(RunState::Queued) => "state = 'queued' AND $2::text IS NOT NULL",
            Some(RunState::Running) => "state = 'running' AND $2::text IS NOT NULL",
            Some(_) => "state = $2",
        };
        let of_session = if filter.session.is_some() { "session_key = $3" } else { "$3::text IS NULL" };
        let sql = format!(
            "{} WHERE tenant_id = $1 AND {of_state} AND {of_session} AND {of_parent}
             ORDER BY created_at DESC, id DESC LIMIT $4",
            self.run_select()
        );
        let rows = self.rows(tenant, || {
            sqlx::query(AssertSqlSafe(sql.clone()))
                .bind(tenant.as_str())
                .bind(filter.state.as_ref().map(|state| store(state.as_str())))
                .bind(filter.session.as_ref().map(ToString::to_string))
                .bind(i64::from(filter.limit))
                .bind(filter.parent.map(|parent| parent.to_string()))
        });
        collect(&rows.await?, run)
    }

    async fn run(&self, tenant: &TenantId, lookup: &RunLookup) -> Result<Option<RunRow>> {
        let (condition, name) = match lookup {
            RunLookup::Id(id) => ("id = $2", id.to_string()),
            RunLookup::ClientKey(key) => {
                ("client_key = $2 ORDER BY created_at DESC, id DESC LIMIT 1", store(key).into_owned())
            }
            RunLookup::Idempotency { key, .. } => (
                "id = (SELECT run_id FROM idempotency
                   WHERE tenant_id = $1 AND key_hash = $2 AND expires_at > $3)",
                key.clone(),
            ),
        };
        let sql = format!("{} WHERE tenant_id = $1 AND {condition}", self.run_select());
        let rows = self.rows(tenant, || {
            let query = sqlx::query(AssertSqlSafe(sql.clone())).bind(tenant.as_str()).bind(&name);
            match lookup {
                RunLookup::Idempotency { now, .. } => query.bind(*now),
                RunLookup::Id(_) | RunLookup::ClientKey(_) => query,
            }
        });
        rows.await?.first().map(run).transpose()
    }

    async fn descendants(&self, tenant: &TenantId, run: RunId) -> Result<Vec<RunId>> {
        if self.version() < AGENT {
            return Ok(Vec::new());
        }
        self.read(tenant, |Open { transaction, .. }| Box::pin(descendants(transaction, tenant, run))).await
    }

    async fn started_by(&self, key: &SessionKey, except: &SessionKey) -> Result<u64> {
        if self.version() < AGENT {
            return Ok(0);
        }
        let tenant = &key.scope.tenant;
        let rows = self.rows(tenant, || {
            sqlx::query(
                "SELECT count(*) AS started FROM runs c JOIN runs p ON p.tenant_id = $1 AND p.id = c.parent_run
                 WHERE c.tenant_id = $1 AND c.state IN ('queued', 'running') AND p.session_key = $2
                   AND c.session_key <> $3",
            )
            .bind(tenant.as_str())
            .bind(key.to_string())
            .bind(except.to_string())
        });
        rows.await?.first().map_or(Ok(0), |row| unsigned(row, "started"))
    }

    async fn calls_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<NewCall>> {
        ledger::calls_of(self, tenant, run).await
    }

    async fn tool_runs(&self, tenant: &TenantId, run: RunId) -> Result<Vec<ToolRunRow>> {
        let rows = self.rows(tenant, || {
            sqlx::query(
                "SELECT id, call_id, tool_name, args_json, result_json, status, created_at FROM tool_runs
                 WHERE tenant_id = $1 AND run_id = $2 ORDER BY step",
            )
            .bind(tenant.as_str())
            .bind(run.to_string())
        });
        collect(&rows.await?, tool_run)
    }

    async fn outbox(&self, tenant: &TenantId, filter: OutboxFilter) -> Result<Vec<OutboxRow>> {
        if self.version() < DELIVERY {
            return Ok(Vec::new());
        }
        let states: Vec<&str> = filter.states.iter().map(OutboxState::as_str).collect();
        let channel = filter.channel.as_ref().map(ChannelName::as_str);
        let sql = format!(
            "{} AND (cardinality($2::text[]) = 0 OR state = ANY($2)) AND ($3::text IS NULL OR channel = $3)
             ORDER BY ord DESC LIMIT $4",
            self.outbox_select()
        );
        let rows = self.rows(tenant, || {
            sqlx::query(AssertSqlSafe(sql.clone()))
                .bind(tenant.as_str())
                .bind(states.clone())
                .bind(channel)
                .bind(i64::from(filter.limit))
        });
        collect(&rows.await?, outbox_row)
    }

    async fn outbox_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<OutboxRow>> {
        if self.version() < DELIVERY {
            return Ok(Vec::new());
        }
        let sql = format!("{} AND run_id = $2 ORDER BY part", self.outbox_select());
        let rows = self.rows(tenant, || {
            sqlx::query(AssertSqlSafe(sql.clone())).bind(tenant.as_str()).bind(run.to_string())
        });
        collect(&rows.await?, outbox_row)
    }

    async fn audit(&self, tenant: &TenantId, limit: u32) -> Result<Vec<AuditRow>> {
        // The ids begin with the time they were made.
        let rows = self.rows(tenant, || {
            sqlx::query(
                "SELECT id, actor, action, resource_type, resource_id, metadata_json, created_at FROM audit_logs
                 WHERE tenant_id = $1 ORDER BY ord DESC LIMIT $2",
            )
            .bind(tenant.as_str())
            .bind(i64::from(limit))
        });
        collect(&rows.await?, audit_row)
    }

    async fn audit_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<AuditRow>> {
        let rows = self.rows(tenant, || {
            sqlx::query(
                "SELECT id, actor, action, resource_type, resource_id, metadata_json, created_at FROM audit_logs
                 WHERE tenant_id = $1 AND (resource_id = $2 OR position($2 in metadata_json) > 0) ORDER BY ord",
            )
            .bind(tenant.as_str())
            .bind(run.to_string())
        });
        collect(&rows.await?, audit_row)
    }

    async fn usage(&self, tenant: &TenantId, filter: UsageFilter) -> Result<Vec<UsageRow>> {
        ledger::usage(self, tenant, &filter).await
    }

    async fn budgets(&self, tenant: &TenantId, filter: BudgetFilter) -> Result<Vec<BudgetRow>> {
        budget::rows(self, tenant, &filter).await
    }

    async fn status(&self, tenant: &TenantId) -> Result<StoreStatus> {
        self.read(tenant, |Open { transaction, .. }| Box::pin(self.count(transaction, tenant))).await
    }
}

impl PostgresStore {
    fn session_select(&self) -> &'static str {
        if self.version() < AGENT { OLDER_SESSION } else { SESSION }
    }

    fn run_select(&self) -> &'static str {
        if self.version() < AGENT { OLDER_RUN } else { RUN }
    }

    /// Lines of a conversation, those of its parents too.
    async fn lines(
        &self,
        transaction: &mut PgConnection,
        tenant: &str,
        session: SessionId,
        after: i64,
        limit: u32,
    ) -> TxResult<Vec<Entry>> {
        let chain = if self.version() < AGENT {
            vec![Segment { session, after, upto: i64::MAX }]
        } else {
            segments(transaction, tenant, session, after).await?
        };
        let mut entries = Vec::new();
        for segment in chain.iter().rev() {
            let room = limit.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
            entries.extend(segment.oldest(transaction, tenant, room).await?);
        }
        Ok(entries)
    }

    /// Parts of a tenant. In the data of schema 2 only the run knew the channel; a part that nobody knows a channel of
    /// is not shown.
    fn outbox_select(&self) -> &'static str {
        if self.version() < ENGINE {
            concat!(
                "SELECT ",
                outbox_columns!(),
                " FROM (SELECT o.*, coalesce(substring(r.reply_json FROM '\"channel\":\"([^\"\\\\]*)\"'), '') AS channel,
                     coalesce(substring(r.reply_json FROM '\"accountId\":\"([^\"\\\\]*)\"'), '') AS account_id
                   FROM outbox o JOIN runs r ON r.tenant_id = o.tenant_id AND r.id = o.run_id) parts
                 WHERE tenant_id = $1 AND channel <> ''"
            )
        } else {
            concat!("SELECT ", outbox_columns!(), " FROM outbox WHERE tenant_id = $1 AND channel <> ''")
        }
    }

    async fn count(&self, transaction: &mut PgConnection, tenant: &TenantId) -> TxResult<StoreStatus> {
        let sessions = sqlx::query(
            "SELECT count(*) AS n FROM session_keys WHERE tenant_id = $1 AND session_id IS NOT NULL",
        )
        .bind(tenant.as_str())
        .fetch_one(&mut *transaction)
        .await?;
        let bytes = sqlx::query(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS n FROM pg_class c
             WHERE c.relkind = 'r' AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)",
        )
        .bind(self.schema())
        .fetch_one(&mut *transaction)
        .await?;
        let outbox = match self.version() {
            ..DELIVERY => Vec::new(),
            DELIVERY.. => by_state(transaction, "outbox", tenant).await?,
        };
        Ok(StoreStatus {
            backend: "postgres".to_owned(),
            schema: stored_version(transaction, self.schema()).await?.map_or(0, |version| version.schema),
            sessions: unsigned(&sessions, "n")?,
            runs: by_state(transaction, "runs", tenant).await?,
            outbox,
            bytes: Some(unsigned(&bytes, "n")?),
        })
    }
}

async fn by_state(
    transaction: &mut PgConnection,
    table: &'static str,
    tenant: &TenantId,
) -> TxResult<Vec<(String, u64)>> {
    let sql = format!(
        "SELECT state, count(*) AS n FROM {table} WHERE tenant_id = $1 GROUP BY state ORDER BY state COLLATE \"C\""
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(tenant.as_str()).fetch_all(transaction).await?;
    Ok(collect(&rows, |row| Ok((column(row, "state")?, unsigned(row, "n")?)))?)
}

/// What was chosen for a conversation. A choice of a newer release that this one cannot read is none.
pub(crate) fn settings(row: &PgRow) -> Result<SessionSettings> {
    let chosen: Option<&str> = column(row, "settings_json")?;
    Ok(chosen.and_then(|chosen| serde_json::from_str(chosen).ok()).unwrap_or_default())
}

/// The log that a log was forked from, and the last line they share.
pub(crate) fn parent_of(row: &PgRow) -> Result<Option<(SessionId, i64)>> {
    Ok(match parsed_or_none(row, "parent_id")? {
        Some(parent) => Some((parent, column(row, "fork_seq")?)),
        None => None,
    })
}

fn session(row: &PgRow) -> Result<SessionRow> {
    Ok(SessionRow {
        key: parsed(row, "session_key")?,
        id: parsed(row, "id")?,
        alias: text_or_none(row, "alias")?,
        current: column(row, "is_current")?,
        head_seq: column(row, "head_seq")?,
        title: text_or_none(row, "title")?,
        parent: parent_of(row)?,
        compactions: unsigned(row, "compactions")?,
        flushed_at: column(row, "flushed_at")?,
        usage: usage(row)?,
        context_tokens: unsigned(row, "context_tokens")?,
        settings: settings(row)?,
        route: text_or_none(row, "route")?,
        provider: text_or_none(row, "provider")?,
        profile_id: text_or_none(row, "profile_id")?,
        created_at: column(row, "created_at")?,
        updated_at: column(row, "updated_at")?,
    })
}

fn run(row: &PgRow) -> Result<RunRow> {
    let first_seq: Option<i64> = column(row, "first_seq")?;
    let last_seq: Option<i64> = column(row, "last_seq")?;
    Ok(RunRow {
        id: parsed(row, "id")?,
        client_key: text_or_none(row, "client_key")?,
        key: parsed(row, "session_key")?,
        session: parsed_or_none(row, "session_id")?,
        state: RunState::parse(column(row, "state")?),
        attempt: unsigned(row, "attempt")?,
        actor: text(row, "actor")?,
        spec: json(row, "spec_json")?,
        input: json(row, "input_json")?,
        reply: json(row, "reply_json")?,
        join: column::<Option<&str>>(row, "join_mode")?.and_then(JoinMode::parse),
        joined: parsed_or_none(row, "joined_run")?,
        parent: parsed_or_none(row, "parent_run")?,
        error: error_or_none(row, "error_json")?,
        usage: usage(row)?,
        entries: first_seq.zip(last_seq),
        created_at: column(row, "created_at")?,
        started_at: column(row, "started_at")?,
        finished_at: column(row, "finished_at")?,
    })
}

fn tool_run(row: &PgRow) -> Result<ToolRunRow> {
    Ok(ToolRunRow {
        id: parsed(row, "id")?,
        call_id: text(row, "call_id")?,
        tool_name: text(row, "tool_name")?,
        args: json(row, "args_json")?,
        result: json_or_none(row, "result_json")?,
        state: ToolRunState::parse(column(row, "status")?),
        created_at: column(row, "created_at")?,
    })
}

pub(crate) fn outbox_row(row: &PgRow) -> Result<OutboxRow> {
    Ok(OutboxRow {
        id: parsed(row, "id")?,
        run: parsed(row, "run_id")?,
        channel: parsed(row, "channel")?,
        account_id: text(row, "account_id")?,
        part: unsigned(row, "part")?,
        lane: text(row, "lane")?,
        body: text(row, "body")?,
        state: OutboxState::parse(column(row, "state")?),
        attempt: unsigned(row, "attempt")?,
        retry_at: column(row, "retry_at")?,
        remote_id: text_or_none(row, "remote_id")?,
        reason: text_or_none(row, "reason")?,
        created_at: column(row, "created_at")?,
        updated_at: column(row, "updated_at")?,
    })
}

fn audit_row(row: &PgRow) -> Result<AuditRow> {
    Ok(AuditRow {
        id: parsed(row, "id")?,
        actor: text(row, "actor")?,
        action: column(row, "action")?,
        resource_type: column(row, "resource_type")?,
        resource_id: column(row, "resource_id")?,
        metadata: json(row, "metadata_json")?,
        created_at: column(row, "created_at")?,
    })
}
