//! Reading for people and programs.

use async_trait::async_trait;
use rusqlite::{Connection, Params, Row, params};
use tidegate_protocol::{
    ChannelName, Entry, JoinMode, RunId, RunState, SessionId, SessionKey, SessionSettings, TenantId,
    ToolRunState,
};
use tidegate_storage::{
    AuditRow, BudgetFilter, BudgetRow, Library, NewCall, OutboxFilter, OutboxRow, OutboxState, Result,
    RunFilter, RunLookup, RunRow, SessionFilter, SessionRow, StoreStatus, ToolRunRow, UsageFilter, UsageRow,
};

use crate::abort::descendants;
use crate::chain::segments;
use crate::error::unreadable;
use crate::migrate::{has_schema, stored_version};
use crate::open::SqliteStore;
use crate::rows::{
    collect, column, first, json, json_or_none, later, parsed, parsed_or_none, to_json, unsigned, usage,
};
use crate::{budget, ledger};

/// A log is its key's current one exactly when the key says so; the stored state is for people. Of two columns of one
/// name the first is read.
const SESSION: &str = "SELECT s.*, k.*, k.session_id IS s.id AS is_current FROM sessions s
    LEFT JOIN session_keys k ON k.tenant_id = s.tenant_id AND k.session_key = s.session_key ";

#[async_trait]
impl Library for SqliteStore {
    async fn sessions(&self, tenant: &TenantId, filter: SessionFilter) -> Result<Vec<SessionRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                &format!(
                    "{SESSION} WHERE s.tenant_id = ?1 AND (is_current OR ?4) AND s.state <> 'shared' AND (?2 IS NULL OR s.agent_id = ?2)
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
                &format!(
                    "{SESSION} WHERE s.tenant_id = ?1 AND (s.id = ?2 OR s.alias = ?2) AND s.state <> 'shared'"
                ),
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
            let mut entries = Vec::new();
            for segment in segments(connection, tenant.as_str(), session, after_seq)?.into_iter().rev() {
                let room = limit.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
                entries.extend(segment.oldest(connection, tenant.as_str(), room)?);
            }
            Ok(entries)
        })
        .await
    }

    async fn runs(&self, tenant: &TenantId, filter: RunFilter) -> Result<Vec<RunRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            let is_new = has_schema(connection, 6)?;
            if filter.parent.is_some() && !is_new {
                return Ok(Vec::new());
            }
            collect(
                connection,
                &runs_sql(&filter, is_new),
                params![
                    tenant.as_str(),
                    filter.state.as_ref().map(|state| state.as_str().to_owned()),
                    filter.session.as_ref().map(ToString::to_string),
                    filter.limit,
                    filter.parent.map(|parent| parent.to_string())
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
            RunLookup::Idempotency { key, now } => first(
                connection,
                "SELECT * FROM runs WHERE tenant_id = ?1 AND id = (SELECT run_id FROM idempotency
                   WHERE tenant_id = ?1 AND key_hash = ?2 AND expires_at > ?3)",
                params![tenant.as_str(), key, now],
                run,
            ),
        })
        .await
    }

    async fn tool_runs(&self, tenant: &TenantId, run: RunId) -> Result<Vec<ToolRunRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| tool_runs(connection, &tenant, run)).await
    }

    async fn descendants(&self, tenant: &TenantId, run: RunId) -> Result<Vec<RunId>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            if !has_schema(connection, 6)? {
                return Ok(Vec::new());
            }
            descendants(connection, &tenant, run)
        })
        .await
    }

    async fn started_by(&self, key: &SessionKey, except: &SessionKey) -> Result<u64> {
        let (tenant, key, except) = (key.scope.tenant.clone(), key.to_string(), except.to_string());
        self.read(move |connection| {
            if !has_schema(connection, 6)? {
                return Ok(0);
            }
            // From the runs that are open, of which there are few.
            let count = first(
                connection,
                "SELECT count(*) AS started FROM runs c INDEXED BY runs_open
                 CROSS JOIN runs p ON p.tenant_id = ?1 AND p.id = c.parent_run
                 WHERE c.tenant_id = ?1 AND c.state IN ('queued', 'running') AND p.session_key = ?2
                   AND c.session_key <> ?3",
                params![tenant.as_str(), key, except],
                |row| unsigned(row, "started"),
            )?;
            Ok(count.unwrap_or(0))
        })
        .await
    }

    async fn calls_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<NewCall>> {
        let tenant = tenant.clone();
        self.read(move |connection| ledger::calls_of(connection, &tenant, run)).await
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

    async fn audit_of(&self, tenant: &TenantId, run: RunId) -> Result<Vec<AuditRow>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            collect(
                connection,
                "SELECT * FROM audit_logs
                 WHERE tenant_id = ?1 AND (resource_id = ?2 OR instr(metadata_json, ?2) > 0) ORDER BY ord",
                params![tenant.as_str(), run.to_string()],
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

pub(crate) fn tool_runs(connection: &Connection, tenant: &TenantId, run: RunId) -> Result<Vec<ToolRunRow>> {
    collect(
        connection,
        "SELECT * FROM tool_runs WHERE tenant_id = ?1 AND run_id = ?2 ORDER BY step",
        params![tenant.as_str(), run.to_string()],
        tool_run,
    )
}

/// What was chosen for a conversation. A choice of a newer release that this one cannot read is none.
pub(crate) fn settings(row: &Row<'_>) -> Result<SessionSettings> {
    let chosen: Option<String> = later(row, "settings_json")?;
    Ok(chosen.and_then(|chosen| serde_json::from_str(&chosen).ok()).unwrap_or_default())
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

/// The log that a log was forked from, and the last line they share.
pub(crate) fn parent_of(row: &Row<'_>) -> Result<Option<(SessionId, i64)>> {
    Ok(match (later::<String>(row, "parent_id")?, later(row, "fork_seq")?) {
        (Some(_), Some(seq)) => Some((parsed(row, "parent_id")?, seq)),
        _ => None,
    })
}

fn session(row: &Row<'_>) -> Result<SessionRow> {
    Ok(SessionRow {
        key: parsed(row, "session_key")?,
        id: parsed(row, "id")?,
        alias: column(row, "alias")?,
        current: column(row, "is_current")?,
        head_seq: column(row, "head_seq")?,
        title: later(row, "title")?,
        parent: parent_of(row)?,
        compactions: later(row, "compactions")?.unwrap_or(0),
        flushed_at: later(row, "flushed_at")?,
        usage: usage(row)?,
        context_tokens: u64::try_from(later::<i64>(row, "context_tokens")?.unwrap_or(0)).unwrap_or(0),
        settings: settings(row)?,
        route: column(row, "route")?,
        provider: column(row, "provider")?,
        profile_id: column(row, "profile_id")?,
        created_at: column(row, "created_at")?,
        updated_at: column(row, "updated_at")?,
    })
}

/// The statement for a filter. Each way to look has its index; one that serves all of them reads every run.
fn runs_sql(filter: &RunFilter, is_new: bool) -> String {
    let is_open = matches!(filter.state, Some(RunState::Queued | RunState::Running));
    let index = match (filter.parent, &filter.session) {
        _ if !is_new => "",
        (Some(_), _) => "INDEXED BY runs_by_parent",
        // Few are open, and a conversation may have had very many.
        (None, _) if is_open => "INDEXED BY runs_open",
        (None, Some(_)) => "INDEXED BY runs_by_session",
        (None, None) => "",
    };
    let state = match &filter.state {
        None => "?2 IS NULL",
        // In the words of the index.
        Some(_) if is_open => "state IN ('queued', 'running') AND state = ?2",
        Some(_) => "state = ?2",
    };
    let session = if filter.session.is_some() { "session_key = ?3" } else { "?3 IS NULL" };
    let parent = if filter.parent.is_some() { "parent_run = ?5" } else { "?5 IS NULL" };
    format!(
        "SELECT * FROM runs {index} WHERE tenant_id = ?1 AND {state} AND {session} AND {parent}
         ORDER BY created_at DESC, id DESC LIMIT ?4"
    )
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
        join: later::<String>(row, "join_mode")?.as_deref().and_then(JoinMode::parse),
        joined: run_named(row, "joined_run")?,
        parent: run_named(row, "parent_run")?,
        error: json_or_none(row, "error_json")?,
        usage: usage(row)?,
        entries: first_seq.zip(last_seq),
        created_at: column(row, "created_at")?,
        started_at: column(row, "started_at")?,
        finished_at: column(row, "finished_at")?,
    })
}

/// A run that another one names; data of an older release has no such column.
fn run_named(row: &Row<'_>, name: &str) -> Result<Option<RunId>> {
    let id: Option<String> = later(row, name)?;
    id.map(|id| id.parse().map_err(|error| unreadable(name, error))).transpose()
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
