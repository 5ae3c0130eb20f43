//! Reading for people and programs.

use async_trait::async_trait;
use rusqlite::{Connection, Params, Row, params};
use tidegate_protocol::{
    ChannelName, Cost, Entry, RunId, RunState, SessionId, SessionKey, TenantId, ToolRunState, Usage,
};
use tidegate_storage::{
    AuditRow, BudgetFilter, BudgetRow, Library, OutboxFilter, OutboxRow, OutboxState, Result, RunFilter,
    RunLookup, RunRow, SessionFilter, SessionRow, StoreStatus, ToolRunRow, UsageFilter, UsageRow,
};

use crate::journal::entry;
use crate::migrate::{has_schema, stored_version};
use crate::open::SqliteStore;
use crate::rows::{collect, column, first, json, json_or_none, parsed, parsed_or_none, to_json, unsigned};
use crate::{budget, ledger};

/// A log is its key's current one exactly when the key says so; the stored state is for people.
const SESSION: &str = "SELECT s.*, k.session_id IS s.id AS is_current FROM sessions s
    LEFT JOIN session_keys k ON k.tenant_id = s.tenant_id AND k.session_key = s.session_key ";

#[async_trait]
impl Library for SqliteStore {
    async fn sessions(&self, tenant: &TenantId, filter: SessionFilter) -> Result<Vec<SessionRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                &format!(
                    "{SESSION} WHERE s.tenant_id = ?1 AND (is_current OR ?4) AND (?2 IS NULL OR s.agent_id = ?2)
                     ORDER BY s.updated_at DESC, s.id DESC LIMIT ?3"
                ),
                params![
                    tenant.as_str(),
                    filter.agent.as_ref().map(|agent| agent.as_str().to_owned()),
                    filter.limit, filter.all
                ],
                session,
            )
        })
        .await
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        let key = key.clone();
        self.read(move |connection| {
            first(
                connection,
                &format!("{SESSION} WHERE s.tenant_id = ?1 AND s.session_key = ?2 AND is_current"),
                params![key.scope.tenant.as_str(), key.to_string()],
                session,
            )
        })
        .await
    }

    async fn session_by_name(&self, tenant: &TenantId, name: &str) -> Result<Option<SessionRow>> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.read(move |connection| {
            first(
                connection,
                &format!("{SESSION} WHERE s.tenant_id = ?1 AND (s.id = ?2 OR s.alias = ?2)"),
                params![tenant.as_str(), name],
                session,
            )
        })
        .await
    }

    async fn entries(
        &self,
        tenant: &TenantId,
        session: SessionId,
        after_seq: i64,
        limit: u32,
    ) -> Result<Vec<Entry>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                "SELECT * FROM entries WHERE tenant_id = ?1 AND session_id = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4",
                params![tenant.as_str(), session.to_string(), after_seq, limit],
                entry,
            )
        })
        .await
    }

    async fn runs(&self, tenant: &TenantId, filter: RunFilter) -> Result<Vec<RunRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                "SELECT * FROM runs WHERE tenant_id = ?1 AND (?2 IS NULL OR state = ?2)
                   AND (?3 IS NULL OR session_key = ?3)
                 ORDER BY created_at DESC, id DESC LIMIT ?4",
                params![
                    tenant.as_str(),
                    filter.state.as_ref().map(|state| state.as_str().to_owned()),
                    filter.session.as_ref().map(ToString::to_string),
                    filter.limit
                ],
                run,
            )
        })
        .await
    }

    async fn run(&self, tenant: &TenantId, lookup: &RunLookup) -> Result<Option<RunRow>> {
        let (tenant, lookup) = (tenant.clone(), lookup.clone());
        self.read(move |connection| match lookup {
            RunLookup::Id(id) => first(
                connection,
                "SELECT * FROM runs WHERE tenant_id = ?1 AND id = ?2",
                params![tenant.as_str(), id.to_string()],
                run,
            ),
            RunLookup::ClientKey(key) => first(
                connection,
                "SELECT * FROM runs WHERE tenant_id = ?1 AND client_key = ?2
                 ORDER BY created_at DESC, id DESC LIMIT 1",
                params![tenant.as_str(), key],
                run,
            ),
        })
        .await
    }

    async fn tool_runs(&self, tenant: &TenantId, run: RunId) -> Result<Vec<ToolRunRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                "SELECT * FROM tool_runs WHERE tenant_id = ?1 AND run_id = ?2 ORDER BY step",
                params![tenant.as_str(), run.to_string()],
                tool_run,
            )
        })
        .await
    }

    async fn outbox(&self, tenant: &TenantId, filter: OutboxFilter) -> Result<Vec<OutboxRow>> {
        let tenant = tenant.clone();
        let states: Vec<&str> = filter.states.iter().map(OutboxState::as_str).collect();
        let states = to_json(&states)?;
        self.read(move |connection| {
            outbox_rows(
                connection,
                "o.tenant_id = ?1 AND (?2 = '[]' OR o.state IN (SELECT value FROM json_each(?2)))
                   AND (?3 IS NULL OR to_channel = ?3)
                 ORDER BY o.ord DESC LIMIT ?4",
                params![
                    tenant.as_str(),
                    states,
                    filter.channel.as_ref().map(ChannelName::as_str),
                    filter.limit
                ],
            )
        })
        .await
    }

    async fn outbox_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<OutboxRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            outbox_rows(
                connection,
                "o.tenant_id = ?1 AND o.run_id = ?2 ORDER BY o.part",
                params![tenant.as_str(), run.to_string()],
            )
        })
        .await
    }

    async fn audit(&self, tenant: &TenantId, limit: u32) -> Result<Vec<AuditRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                "SELECT * FROM audit_logs WHERE tenant_id = ?1 ORDER BY ord DESC LIMIT ?2",
                params![tenant.as_str(), limit],
                audit_row,
            )
        })
        .await
    }

    async fn usage(&self, tenant: &TenantId, filter: UsageFilter) -> Result<Vec<UsageRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| ledger::usage(connection, &tenant, &filter)).await
    }

    async fn budgets(&self, tenant: &TenantId, filter: BudgetFilter) -> Result<Vec<BudgetRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| budget::rows(connection, &tenant, &filter)).await
    }

    async fn status(&self, tenant: &TenantId) -> Result<StoreStatus> {
        let tenant = tenant.clone();
        let bytes = std::fs::metadata(self.path()).ok().map(|file| file.len());
        self.read(move |connection| {
            let sessions = first(
                connection,
                "SELECT count(*) AS n FROM session_keys WHERE tenant_id = ?1 AND session_id IS NOT NULL",
                params![tenant.as_str()],
                |row| unsigned(row, "n"),
            )?;
            Ok(StoreStatus {
                backend: "sqlite".to_owned(),
                schema: stored_version(connection)?.map_or(0, |version| version.schema),
                sessions: sessions.unwrap_or(0),
                runs: by_state(connection, "runs", &tenant)?,
                outbox: if has_schema(connection, 2)? {
                    by_state(connection, "outbox", &tenant)?
                } else {
                    Vec::new()
                },
                bytes,
            })
        })
        .await
    }
}

/// Outgoing parts. A reader may meet the data of schema 1, which had none, and of schema 2, where only the run knew the
/// channel; a part that nobody knows a channel of is not shown.
pub(crate) fn outbox_rows(
    connection: &Connection,
    condition: &str,
    params: impl Params,
) -> Result<Vec<OutboxRow>> {
    if !has_schema(connection, 2)? {
        return Ok(Vec::new());
    }
    let (channel, account) = if has_schema(connection, 3)? {
        ("o.channel", "o.account_id")
    } else {
        (
            "(SELECT coalesce(json_extract(reply_json, '$.channel'), '') FROM runs
               WHERE tenant_id = o.tenant_id AND id = o.run_id AND json_valid(reply_json))",
            "(SELECT json_extract(reply_json, '$.accountId') FROM runs WHERE tenant_id = o.tenant_id AND id = o.run_id AND json_valid(reply_json))",
        )
    };
    let sql = format!(
        "SELECT o.*, {channel} AS to_channel, {account} AS to_account FROM outbox o
         WHERE to_channel <> '' AND {condition}"
    );
    collect(connection, &sql, params, outbox_row)
}

fn by_state(connection: &Connection, table: &str, tenant: &TenantId) -> Result<Vec<(String, u64)>> {
    collect(
        connection,
        &format!(
            "SELECT state, count(*) AS n FROM {table} WHERE tenant_id = ?1 GROUP BY state ORDER BY state"
        ),
        params![tenant.as_str()],
        |row| Ok((column(row, "state")?, unsigned(row, "n")?)),
    )
}

fn session(row: &Row<'_>) -> Result<SessionRow> {
    Ok(SessionRow {
        key: parsed(row, "session_key")?,
        id: parsed(row, "id")?,
        alias: column(row, "alias")?,
        current: column(row, "is_current")?,
        head_seq: column(row, "head_seq")?,
        route: column(row, "route")?,
        provider: column(row, "provider")?,
        profile_id: column(row, "profile_id")?,
        created_at: column(row, "created_at")?,
        updated_at: column(row, "updated_at")?,
    })
}

fn run(row: &Row<'_>) -> Result<RunRow> {
    let first_seq: Option<i64> = column(row, "first_seq")?;
    let last_seq: Option<i64> = column(row, "last_seq")?;
    Ok(RunRow {
        id: parsed(row, "id")?,
        client_key: column(row, "client_key")?,
        key: parsed(row, "session_key")?,
        session: parsed_or_none(row, "session_id")?,
        state: RunState::parse(&column::<String>(row, "state")?),
        attempt: column(row, "attempt")?,
        actor: column(row, "actor")?,
        spec: json(row, "spec_json")?,
        input: json(row, "input_json")?,
        reply: json(row, "reply_json")?,
        error: json_or_none(row, "error_json")?,
        usage: Usage {
            input: unsigned(row, "token_input")?,
            output: unsigned(row, "token_output")?,
            cache_read: unsigned(row, "token_cache_read")?,
            cache_write: unsigned(row, "token_cache_write")?,
            cost: Cost(unsigned(row, "cost")?),
        },
        entries: first_seq.zip(last_seq),
        created_at: column(row, "created_at")?,
        started_at: column(row, "started_at")?,
        finished_at: column(row, "finished_at")?,
    })
}

fn tool_run(row: &Row<'_>) -> Result<ToolRunRow> {
    Ok(ToolRunRow {
        id: parsed(row, "id")?,
        call_id: column(row, "call_id")?,
        tool_name: column(row, "tool_name")?,
        args: json(row, "args_json")?,
        result: json_or_none(row, "result_json")?,
        state: ToolRunState::parse(&column::<String>(row, "status")?),
        created_at: column(row, "created_at")?,
    })
}

fn outbox_row(row: &Row<'_>) -> Result<OutboxRow> {
    Ok(OutboxRow {
        id: parsed(row, "id")?,
        run: parsed(row, "run_id")?,
        channel: parsed(row, "to_channel")?,
        account_id: column(row, "to_account")?,
        part: column(row, "part")?,
        lane: column(row, "lane")?,
        body: column(row, "body")?,
        state: OutboxState::parse(&column::<String>(row, "state")?),
        attempt: column(row, "attempt")?,
        retry_at: column(row, "retry_at")?,
        remote_id: column(row, "remote_id")?,
        reason: column(row, "reason")?,
        created_at: column(row, "created_at")?,
        updated_at: column(row, "updated_at")?,
    })
}

fn audit_row(row: &Row<'_>) -> Result<AuditRow> {
    Ok(AuditRow {
        id: parsed(row, "id")?,
        actor: column(row, "actor")?,
        action: column(row, "action")?,
        resource_type: column(row, "resource_type")?,
        resource_id: column(row, "resource_id")?,
        metadata: json(row, "metadata_json")?,
        created_at: column(row, "created_at")?,
    })
}
