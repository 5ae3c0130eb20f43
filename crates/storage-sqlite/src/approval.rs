//! Approvals and saved rules on SQLite. There is one writer: whatever is read inside a verb stays so until its commit.

use async_trait::async_trait;
use rusqlite::{Connection, Params, Row, params};
use tidegate_protocol::{AllowRuleId, ApprovalId, RunId, RunState, Scope, TenantId};
use tidegate_storage::{
    APPROVAL_GRACE_MS, AllowMatch, AllowRule, Answered, Approval, ApprovalFilter, ApprovalState, Approvals,
    AuditEvent, AuditNote, Cancelled, DecideApproval, DecidedApproval, Digest, Principal, Result, StoreError,
    ToolRecord, UsedApproval, use_stored,
};

use crate::audit::{Audit, record};
use crate::migrate::has_schema;
use crate::open::SqliteStore;
use crate::rows::{collect, column, execute, first, json, parsed, parsed_or_none, to_json};
use crate::writer::verb;

/// The schema that brought approvals.
const APPROVALS: u32 = 5;

#[async_trait]
impl Approvals for SqliteStore {
    async fn request_approval(&self, approval: Approval) -> Result<()> {
        self.write(verb!("request_approval"), move |connection| request(connection, &approval)).await
    }

    async fn decide_approval(&self, decide: DecideApproval) -> Result<DecidedApproval> {
        self.write(verb!("decide_approval"), move |connection| {
            let tenant = decide.by.tenant();
            let Some(stored) = find(connection, tenant, decide.id)? else {
                return Ok(DecidedApproval::NotFound);
            };
            let deciding = decide.on(stored);
            if let Some(approval) = &deciding.write {
                change(connection, approval)?;
            }
            if let Some(rule) = &deciding.rule {
                insert_rule(connection, rule)?;
            }
            Ok(deciding.answer)
        })
        .await
    }

    async fn use_approval(
        &self,
        tenant: &TenantId,
        id: ApprovalId,
        digest: &Digest,
        now: i64,
    ) -> Result<UsedApproval> {
        let (tenant, digest) = (tenant.clone(), digest.clone());
        self.write(verb!("use_approval"), move |connection| {
            let Some(stored) = find(connection, &tenant, id)? else { return Ok(UsedApproval::NotFound) };
            let (write, answer) = use_stored(&stored, &digest, now);
            if let Some(approval) = &write {
                change(connection, approval)?;
            }
            Ok(answer)
        })
        .await
    }

    async fn cancel_approvals(&self, tenant: &TenantId, which: Cancelled, now: i64) -> Result<Vec<Approval>> {
        let tenant = tenant.clone();
        self.write(verb!("cancel_approvals"), move |connection| match which {
            Cancelled::One(id) => {
                let found = find(connection, &tenant, id)?;
                change_all(connection, found.and_then(|approval| approval.cancel(now)))
            }
            Cancelled::OfRun(run) => cancel_of_run(connection, &tenant, run, now),
        })
        .await
    }

    async fn expire_approvals(&self, tenant: &TenantId, now: i64, limit: u32) -> Result<Vec<Approval>> {
        let tenant = tenant.clone();
        self.write(verb!("expire_approvals"), move |connection| {
            let due = collect(
                connection,
                "SELECT * FROM approvals
                 WHERE tenant_id = ?1 AND state IN ('pending', 'approved') AND expires_at <= ?2
                   AND (state = 'pending' OR expires_at <= ?3)
                 ORDER BY expires_at, id LIMIT ?4",
                params![tenant.as_str(), now, now.saturating_sub(APPROVAL_GRACE_MS), limit],
                approval,
            )?;
            change_all(connection, due.iter().filter_map(|approval| approval.expire(now)))
        })
        .await
    }

    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Approval>> {
        let tenant = tenant.clone();
        self.read(move |connection| {
            if !has_schema(connection, APPROVALS)? {
                return Ok(None);
            }
            find(connection, &tenant, id)
        })
        .await
    }

    async fn approvals(&self, tenant: &TenantId, filter: ApprovalFilter) -> Result<Vec<Approval>> {
        let tenant = tenant.clone();
        let states: Vec<String> = filter.states.iter().map(|state| state.as_str().to_owned()).collect();
        self.read(move |connection| {
            let sql = "SELECT * FROM approvals
                 WHERE tenant_id = ?1 AND (?2 = '[]' OR state IN (SELECT value FROM json_each(?2)))
                   AND (?3 IS NULL OR run_id = ?3)
                 ORDER BY created_at DESC, id DESC LIMIT ?4";
            let run = filter.run.map(|run| run.to_string());
            since_approvals(
                connection,
                sql,
                params![tenant.as_str(), to_json(&states)?, run, filter.limit],
                approval,
            )
        })
        .await
    }

    async fn allow_rules(&self, tenant: &TenantId, scope: Option<&Scope>) -> Result<Vec<AllowRule>> {
        let tenant = tenant.clone();
        let of = scope.map(|scope| (scope.workspace.as_str().to_owned(), scope.agent.as_str().to_owned()));
        self.read(move |connection| {
            let (workspace, agent) = of.unzip();
            let sql = "SELECT * FROM allow_rules
                 WHERE tenant_id = ?1 AND (?2 IS NULL OR (workspace_id = ?2 AND agent_id = ?3))
                 ORDER BY created_at DESC, id DESC";
            let rules = since_approvals(connection, sql, params![tenant.as_str(), workspace, agent], rule)?;
            Ok(rules.into_iter().flatten().collect())
        })
        .await
    }

    async fn save_allow_rule(&self, principal: &Principal, rule: AllowRule) -> Result<()> {
        if *principal.tenant() != rule.scope.tenant {
            return Err(StoreError::NotFound(format!("agent {}", rule.scope.agent)));
        }
        let rule = AllowRule { created_by: principal.actor().to_owned(), ..rule };
        self.write(verb!("save_allow_rule"), move |connection| insert_rule(connection, &rule)).await
    }

    async fn remove_allow_rule(&self, principal: &Principal, id: AllowRuleId, now: i64) -> Result<bool> {
        let principal = principal.clone();
        self.write(verb!("remove_allow_rule"), move |connection| remove_rule(connection, &principal, id, now))
            .await
    }

    async fn touch_allow_rule(&self, tenant: &TenantId, id: AllowRuleId, now: i64) -> Result<()> {
        let tenant = tenant.clone();
        self.write(verb!("touch_allow_rule"), move |connection| {
            execute(
                connection,
                "UPDATE allow_rules SET last_used_at = max(coalesce(last_used_at, ?3), ?3)
                 WHERE tenant_id = ?1 AND id = ?2",
                params![tenant.as_str(), id.to_string(), now],
            )
            .map(drop)
        })
        .await
    }

    async fn audit_tool(&self, principal: &Principal, tool: ToolRecord) -> Result<()> {
        let principal = principal.clone();
        self.write(verb!("audit_tool"), move |connection| {
            let note = AuditNote::of_tool(&tool, &principal);
            put_on_record(connection, principal.tenant(), "tool", &tool.tool, note, tool.now)
        })
        .await
    }

    async fn audit_event(&self, principal: &Principal, event: AuditEvent) -> Result<()> {
        let principal = principal.clone();
        self.write(verb!("audit_event"), move |connection| {
            let note = AuditNote::of_event(&event, &principal);
            let AuditEvent { resource_type, resource_id, now, .. } = &event;
            put_on_record(connection, principal.tenant(), resource_type, resource_id, note, *now)
        })
        .await
    }
}

/// Ends what a run waited for; its end does this in its own commit.
pub(crate) fn cancel_of_run(
    connection: &Connection,
    tenant: &TenantId,
    run: RunId,
    now: i64,
) -> Result<Vec<Approval>> {
    let open = collect(
        connection,
        "SELECT * FROM approvals INDEXED BY approvals_open
         WHERE tenant_id = ?1 AND run_id = ?2 AND state IN ('pending', 'approved') ORDER BY id",
        params![tenant.as_str(), run.to_string()],
        approval,
    )?;
    change_all(connection, open.iter().filter_map(|approval| approval.cancel(now)))
}

fn request(connection: &Connection, asked: &Approval) -> Result<()> {
    let tenant = &asked.scope.tenant;
    if let Some(run) = asked.run {
        let state = first(
            connection,
            "SELECT state FROM runs WHERE tenant_id = ?1 AND id = ?2",
            params![tenant.as_str(), run.to_string()],
            |row| column::<String>(row, "state"),
        )?;
        let state = state.ok_or_else(|| StoreError::NotFound(format!("run {run}")))?;
        if RunState::parse(&state).is_terminal() {
            return Err(StoreError::StaleFence);
        }
    }
    execute(
        connection,
        "INSERT INTO approvals (tenant_id, id, workspace_id, agent_id, session_key, run_id, call_id, tool, digest,
           requester, question_json, state, created_at, expires_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'pending', ?12, ?13, ?12)",
        params![
            tenant.as_str(),
            asked.id.to_string(),
            asked.scope.workspace.as_str(),
            asked.scope.agent.as_str(),
            asked.session,
            asked.run.map(|run| run.to_string()),
            asked.call_id,
            asked.tool,
            asked.digest.as_str(),
            asked.requester,
            to_json(&asked.question)?,
            asked.created_at,
            asked.expires_at
        ],
    )?;
    let asked = Approval { state: ApprovalState::Pending, answered: None, ..asked.clone() };
    note_approval(connection, &asked, asked.created_at)
}

fn find(connection: &Connection, tenant: &TenantId, id: ApprovalId) -> Result<Option<Approval>> {
    first(
        connection,
        "SELECT * FROM approvals WHERE tenant_id = ?1 AND id = ?2",
        params![tenant.as_str(), id.to_string()],
        approval,
    )
}

fn change_all(connection: &Connection, changed: impl IntoIterator<Item = Approval>) -> Result<Vec<Approval>> {
    changed.into_iter().map(|approval| change(connection, &approval).map(|()| approval)).collect()
}

/// Writes what became of a question, and puts it on record.
fn change(connection: &Connection, approval: &Approval) -> Result<()> {
    let answered = approval.answered.as_ref();
    execute(
        connection,
        "UPDATE approvals SET state = ?3, answered_by = ?4, answer_reason = ?5, answer_rule = ?6, answered_at = ?7,
           updated_at = ?8
         WHERE tenant_id = ?1 AND id = ?2",
        params![
            approval.scope.tenant.as_str(),
            approval.id.to_string(),
            approval.state.as_str(),
            answered.map(|answered| &answered.by),
            answered.and_then(|answered| answered.reason.as_ref()),
            answered.and_then(|answered| answered.rule).map(|rule| rule.to_string()),
            answered.map(|answered| answered.at),
            approval.updated_at
        ],
    )?;
    note_approval(connection, approval, approval.updated_at)
}

fn note_approval(connection: &Connection, approval: &Approval, now: i64) -> Result<()> {
    let (tenant, id) = (&approval.scope.tenant, approval.id.to_string());
    put_on_record(connection, tenant, "approval", &id, AuditNote::of_approval(approval), now)
}

fn put_on_record(
    connection: &Connection,
    tenant: &TenantId,
    resource_type: &str,
    resource_id: &str,
    note: AuditNote,
    now: i64,
) -> Result<()> {
    let AuditNote { actor, action, metadata } = note;
    let audit = Audit { tenant, actor: &actor, action: &action, resource_type, resource_id, metadata };
    record(connection, &audit, now)
}

fn insert_rule(connection: &Connection, rule: &AllowRule) -> Result<()> {
    let (tenant, id) = (&rule.scope.tenant, rule.id.to_string());
    execute(
        connection,
        "INSERT INTO allow_rules (tenant_id, id, workspace_id, agent_id, tool, matches_json, created_by, approval_id,
           created_at, last_used_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            tenant.as_str(),
            id,
            rule.scope.workspace.as_str(),
            rule.scope.agent.as_str(),
            rule.tool,
            to_json(&rule.matches)?,
            rule.created_by,
            rule.approval.map(|approval| approval.to_string()),
            rule.created_at,
            rule.last_used_at
        ],
    )?;
    put_on_record(connection, tenant, "allow_rule", &id, AuditNote::of_added_rule(rule), rule.created_at)
}

fn remove_rule(
    connection: &Connection,
    principal: &Principal,
    rule_id: AllowRuleId,
    now: i64,
) -> Result<bool> {
    let (tenant, id) = (principal.tenant(), rule_id.to_string());
    let removed = first(
        connection,
        "DELETE FROM allow_rules WHERE tenant_id = ?1 AND id = ?2 RETURNING *",
        params![tenant.as_str(), id],
        rule,
    )?;
    let Some(rule) = removed else { return Ok(false) };
    let note = AuditNote::of_removed_rule(rule.as_ref(), principal);
    put_on_record(connection, tenant, "allow_rule", &id, note, now)?;
    Ok(true)
}

/// All rows of a query about what an older release did not have yet.
fn since_approvals<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    if has_schema(connection, APPROVALS)? { collect(connection, sql, params, read) } else { Ok(Vec::new()) }
}

fn scope(row: &Row<'_>) -> Result<Scope> {
    Ok(Scope {
        tenant: parsed(row, "tenant_id")?,
        workspace: parsed(row, "workspace_id")?,
        agent: parsed(row, "agent_id")?,
    })
}

fn approval(row: &Row<'_>) -> Result<Approval> {
    let answered = match (column(row, "answered_by")?, column(row, "answered_at")?) {
        (Some(by), Some(at)) => {
            let rule = parsed_or_none(row, "answer_rule")?;
            Some(Answered { by, reason: column(row, "answer_reason")?, rule, at })
        }
        _ => None,
    };
    Ok(Approval {
        id: parsed(row, "id")?,
        scope: scope(row)?,
        session: column(row, "session_key")?,
        run: parsed_or_none(row, "run_id")?,
        call_id: column(row, "call_id")?,
        tool: column(row, "tool")?,
        digest: Digest::stored(column(row, "digest")?),
        requester: column(row, "requester")?,
        question: json(row, "question_json")?,
        state: ApprovalState::parse(&column::<String>(row, "state")?),
        answered,
        created_at: column(row, "created_at")?,
        expires_at: column(row, "expires_at")?,
        updated_at: column(row, "updated_at")?,
    })
}

/// `None` for a rule of a kind that only a newer release knows.
fn rule(row: &Row<'_>) -> Result<Option<AllowRule>> {
    let Ok(matches) = json::<AllowMatch>(row, "matches_json") else { return Ok(None) };
    Ok(Some(AllowRule {
        id: parsed(row, "id")?,
        scope: scope(row)?,
        tool: column(row, "tool")?,
        matches,
        created_by: column(row, "created_by")?,
        approval: parsed_or_none(row, "approval_id")?,
        created_at: column(row, "created_at")?,
        last_used_at: column(row, "last_used_at")?,
    }))
}
