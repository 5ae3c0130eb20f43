//! Approvals and saved rules on Postgres. A question's row is locked before anything is decided about it, so that of
//! two answers the second one sees the first.

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{AllowRuleId, ApprovalId, RunId, RunState, Scope, TenantId};
use tidegate_storage::{
    APPROVAL_GRACE_MS, AllowRule, Answered, Approval, ApprovalFilter, ApprovalState, Approvals, AuditEvent,
    AuditNote, Cancelled, DecideApproval, DecidedApproval, Digest, Principal, Result, StoreError, ToolRecord,
    UsedApproval, use_stored,
};

use crate::allow_rule::{insert_rule, remove_rule, rule, rule_columns};
use crate::audit::{Audit, record};
use crate::error::TxResult;
use crate::open::{APPROVALS, PostgresStore};
use crate::rows::{collect, column, json, parsed, parsed_or_none, text, text_or_none, to_json};
use crate::text::store;
use crate::transaction::{Open, verb};

/// What [`approval`] reads.
macro_rules! approval_columns {
    () => {
        "tenant_id, id, workspace_id, agent_id, session_key, run_id, call_id, tool, digest, requester, question_json,
         state, answered_by, answer_reason, answer_rule, answered_at, created_at, expires_at, updated_at"
    };
}

#[async_trait]
impl Approvals for PostgresStore {
    async fn request_approval(&self, approval: Approval) -> Result<()> {
        let approval = &approval;
        self.write(&approval.scope.tenant, verb!("request_approval"), |Open { transaction, .. }| {
            Box::pin(request(transaction, approval))
        })
        .await
    }

    async fn decide_approval(&self, decide: DecideApproval) -> Result<DecidedApproval> {
        let decide = &decide;
        self.write(decide.by.tenant(), verb!("decide_approval"), |Open { transaction, .. }| {
            Box::pin(decided(transaction, decide))
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
        self.write(tenant, verb!("use_approval"), |Open { transaction, .. }| {
            Box::pin(async move {
                let Some(stored) = lock(transaction, tenant, id).await? else {
                    return Ok(UsedApproval::NotFound);
                };
                let (write, answer) = use_stored(&stored, digest, now);
                if let Some(approval) = &write {
                    change(transaction, approval).await?;
                }
                Ok(answer)
            })
        })
        .await
    }

    async fn cancel_approvals(&self, tenant: &TenantId, which: Cancelled, now: i64) -> Result<Vec<Approval>> {
        self.write(tenant, verb!("cancel_approvals"), |Open { transaction, .. }| {
            Box::pin(async move {
                match which {
                    Cancelled::One(id) => {
                        let found = lock(transaction, tenant, id).await?;
                        let cancelled = found.and_then(|approval| approval.cancel(now));
                        change_all(transaction, cancelled.into_iter().collect()).await
                    }
                    Cancelled::OfRun(run) => cancel_of_run(transaction, tenant, run, now).await,
                }
            })
        })
        .await
    }

    async fn expire_approvals(&self, tenant: &TenantId, now: i64, limit: u32) -> Result<Vec<Approval>> {
        self.write(tenant, verb!("expire_approvals"), |Open { transaction, .. }| {
            Box::pin(expire(transaction, tenant, now, limit))
        })
        .await
    }

    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Approval>> {
        if self.version() < APPROVALS {
            return Ok(None);
        }
        let rows = self.rows(tenant, || {
            sqlx::query(concat!(
                "SELECT ",
                approval_columns!(),
                " FROM approvals WHERE tenant_id = $1 AND id = $2"
            ))
            .bind(tenant.as_str())
            .bind(id.to_string())
        });
        rows.await?.first().map(approval).transpose()
    }

    async fn approvals(&self, tenant: &TenantId, filter: ApprovalFilter) -> Result<Vec<Approval>> {
        if self.version() < APPROVALS {
            return Ok(Vec::new());
        }
        let states: Vec<_> = filter.states.iter().map(|state| store(state.as_str()).into_owned()).collect();
        let rows = self.rows(tenant, || {
            sqlx::query(concat!(
                "SELECT ",
                approval_columns!(),
                " FROM approvals
                 WHERE tenant_id = $1 AND (cardinality($2::text[]) = 0 OR state = ANY($2))
                   AND ($3::text IS NULL OR run_id = $3)
                 ORDER BY created_at DESC, id DESC LIMIT $4"
            ))
            .bind(tenant.as_str())
            .bind(states.clone())
            .bind(filter.run.map(|run| run.to_string()))
            .bind(i64::from(filter.limit))
        });
        collect(&rows.await?, approval)
    }

    async fn allow_rules(&self, tenant: &TenantId, scope: Option<&Scope>) -> Result<Vec<AllowRule>> {
        if self.version() < APPROVALS {
            return Ok(Vec::new());
        }
        let rows = self.rows(tenant, || {
            sqlx::query(concat!(
                "SELECT ",
                rule_columns!(),
                " FROM allow_rules
                 WHERE tenant_id = $1 AND ($2::text IS NULL OR (workspace_id = $2 AND agent_id = $3))
                 ORDER BY created_at DESC, id DESC"
            ))
            .bind(tenant.as_str())
            .bind(scope.map(|scope| scope.workspace.as_str()))
            .bind(scope.map(|scope| scope.agent.as_str()))
        });
        Ok(collect(&rows.await?, rule)?.into_iter().flatten().collect())
    }

    async fn save_allow_rule(&self, principal: &Principal, rule: AllowRule) -> Result<()> {
        if *principal.tenant() != rule.scope.tenant {
            return Err(StoreError::NotFound(format!("agent {}", rule.scope.agent)));
        }
        let rule = &AllowRule { created_by: principal.actor().to_owned(), ..rule };
        self.write(principal.tenant(), verb!("save_allow_rule"), |Open { transaction, .. }| {
            Box::pin(insert_rule(transaction, rule))
        })
        .await
    }

    async fn remove_allow_rule(&self, principal: &Principal, id: AllowRuleId, now: i64) -> Result<bool> {
        self.write(principal.tenant(), verb!("remove_allow_rule"), |Open { transaction, .. }| {
            Box::pin(remove_rule(transaction, principal, id, now))
        })
        .await
    }

    async fn touch_allow_rule(&self, tenant: &TenantId, id: AllowRuleId, now: i64) -> Result<()> {
        self.write(tenant, verb!("touch_allow_rule"), |Open { transaction, .. }| {
            Box::pin(async move {
                let sql = "UPDATE allow_rules SET last_used_at = greatest(last_used_at, $3)
                     WHERE tenant_id = $1 AND id = $2";
                let touch = sqlx::query(sql).bind(tenant.as_str()).bind(id.to_string()).bind(now);
                touch.execute(transaction).await?;
                Ok(())
            })
        })
        .await
    }

    async fn audit_tool(&self, principal: &Principal, tool: ToolRecord) -> Result<()> {
        let tool = &tool;
        self.write(principal.tenant(), verb!("audit_tool"), |Open { transaction, .. }| {
            Box::pin(async move {
                let note = AuditNote::of_tool(tool, principal);
                let name = store(&tool.tool);
                put_on_record(transaction, principal.tenant(), "tool", &name, note, tool.now).await
            })
        })
        .await
    }

    async fn audit_event(&self, principal: &Principal, event: AuditEvent) -> Result<()> {
        let event = &event;
        self.write(principal.tenant(), verb!("audit_event"), |Open { transaction, .. }| {
            Box::pin(async move {
                let note = AuditNote::of_event(event, principal);
                let id = store(&event.resource_id);
                let (tenant, kind) = (principal.tenant(), event.resource_type);
                put_on_record(transaction, tenant, kind, &id, note, event.now).await
            })
        })
        .await
    }
}

/// Ends what a run waited for; its end does this in its own commit.
pub(crate) async fn cancel_of_run(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
    now: i64,
) -> TxResult<Vec<Approval>> {
    let open = sqlx::query(concat!(
        "SELECT ",
        approval_columns!(),
        " FROM approvals WHERE tenant_id = $1 AND run_id = $2 AND state IN ('pending', 'approved')
         ORDER BY id FOR UPDATE"
    ))
    .bind(tenant.as_str())
    .bind(run.to_string())
    .fetch_all(&mut *transaction)
    .await?;
    let open = collect(&open, approval)?;
    change_all(transaction, open.iter().filter_map(|approval| approval.cancel(now)).collect()).await
}

/// What somebody else is deciding about is not late yet.
async fn expire(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    now: i64,
    limit: u32,
) -> TxResult<Vec<Approval>> {
    let due = sqlx::query(concat!(
        "SELECT ",
        approval_columns!(),
        " FROM approvals
         WHERE tenant_id = $1 AND state IN ('pending', 'approved') AND expires_at <= $2
           AND (state = 'pending' OR expires_at <= $3)
         ORDER BY expires_at, id LIMIT $4 FOR UPDATE SKIP LOCKED"
    ))
    .bind(tenant.as_str())
    .bind(now)
    .bind(now.saturating_sub(APPROVAL_GRACE_MS))
    .bind(i64::from(limit))
    .fetch_all(&mut *transaction)
    .await?;
    let due = collect(&due, approval)?;
    change_all(transaction, due.iter().filter_map(|approval| approval.expire(now)).collect()).await
}

async fn request(transaction: &mut PgConnection, asked: &Approval) -> TxResult<()> {
    let tenant = &asked.scope.tenant;
    if let Some(run) = asked.run {
        // Whoever ends the run waits for this commit, and then finds the question.
        let state: Option<String> =
            sqlx::query_scalar("SELECT state FROM runs WHERE tenant_id = $1 AND id = $2 FOR SHARE")
                .bind(tenant.as_str())
                .bind(run.to_string())
                .fetch_optional(&mut *transaction)
                .await?;
        let state = state.ok_or_else(|| StoreError::NotFound(format!("run {run}")))?;
        if RunState::parse(&state).is_terminal() {
            return Err(StoreError::StaleFence.into());
        }
    }
    sqlx::query(
        "INSERT INTO approvals (tenant_id, id, workspace_id, agent_id, session_key, run_id, call_id, tool, digest,
           requester, question_json, state, created_at, expires_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'pending', $12, $13, $12)",
    )
    .bind(tenant.as_str())
    .bind(asked.id.to_string())
    .bind(asked.scope.workspace.as_str())
    .bind(asked.scope.agent.as_str())
    .bind(store(&asked.session))
    .bind(asked.run.map(|run| run.to_string()))
    .bind(store(&asked.call_id))
    .bind(store(&asked.tool))
    .bind(asked.digest.as_str())
    .bind(store(&asked.requester))
    .bind(to_json(&asked.question)?)
    .bind(asked.created_at)
    .bind(asked.expires_at)
    .execute(&mut *transaction)
    .await?;
    let asked = Approval { state: ApprovalState::Pending, answered: None, ..asked.clone() };
    note_approval(transaction, &asked, asked.created_at).await
}

async fn decided(transaction: &mut PgConnection, decide: &DecideApproval) -> TxResult<DecidedApproval> {
    let Some(stored) = lock(transaction, decide.by.tenant(), decide.id).await? else {
        return Ok(DecidedApproval::NotFound);
    };
    let deciding = decide.on(stored);
    if let Some(approval) = &deciding.write {
        change(transaction, approval).await?;
    }
    if let Some(rule) = &deciding.rule {
        insert_rule(transaction, rule).await?;
    }
    Ok(deciding.answer)
}

async fn lock(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    id: ApprovalId,
) -> TxResult<Option<Approval>> {
    let row = sqlx::query(concat!(
        "SELECT ",
        approval_columns!(),
        " FROM approvals WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
    ))
    .bind(tenant.as_str())
    .bind(id.to_string())
    .fetch_optional(transaction)
    .await?;
    Ok(row.as_ref().map(approval).transpose()?)
}

/// Writes what became of questions, and puts it on record.
async fn change_all(transaction: &mut PgConnection, changed: Vec<Approval>) -> TxResult<Vec<Approval>> {
    for approval in &changed {
        change(transaction, approval).await?;
    }
    Ok(changed)
}

async fn change(transaction: &mut PgConnection, approval: &Approval) -> TxResult<()> {
    let answered = approval.answered.as_ref();
    sqlx::query(
        "UPDATE approvals SET state = $3, answered_by = $4, answer_reason = $5, answer_rule = $6, answered_at = $7,
           updated_at = $8
         WHERE tenant_id = $1 AND id = $2",
    )
    .bind(approval.scope.tenant.as_str())
    .bind(approval.id.to_string())
    .bind(approval.state.as_str())
    .bind(answered.map(|answered| store(&answered.by)))
    .bind(answered.and_then(|answered| answered.reason.as_deref()).map(store))
    .bind(answered.and_then(|answered| answered.rule).map(|rule| rule.to_string()))
    .bind(answered.map(|answered| answered.at))
    .bind(approval.updated_at)
    .execute(&mut *transaction)
    .await?;
    note_approval(transaction, approval, approval.updated_at).await
}

async fn note_approval(transaction: &mut PgConnection, approval: &Approval, now: i64) -> TxResult<()> {
    let (tenant, id) = (&approval.scope.tenant, approval.id.to_string());
    put_on_record(transaction, tenant, "approval", &id, AuditNote::of_approval(approval), now).await
}

pub(crate) async fn put_on_record(
    transaction: &mut PgConnection,
    tenant: &TenantId,
    resource_type: &str,
    resource_id: &str,
    note: AuditNote,
    now: i64,
) -> TxResult<()> {
    let AuditNote { actor, action, metadata } = note;
    let audit = Audit { tenant, actor: &actor, action: &action, resource_type, resource_id, metadata };
    record(transaction, &audit, now).await
}

pub(crate) fn scope(row: &PgRow) -> Result<Scope> {
    Ok(Scope {
        tenant: parsed(row, "tenant_id")?,
        workspace: parsed(row, "workspace_id")?,
        agent: parsed(row, "agent_id")?,
    })
}

fn approval(row: &PgRow) -> Result<Approval> {
    let answered = match (text_or_none(row, "answered_by")?, column(row, "answered_at")?) {
        (Some(by), Some(at)) => {
            let rule = parsed_or_none(row, "answer_rule")?;
            Some(Answered { by, reason: text_or_none(row, "answer_reason")?, rule, at })
        }
        _ => None,
    };
    Ok(Approval {
        id: parsed(row, "id")?,
        scope: scope(row)?,
        session: text(row, "session_key")?,
        run: parsed_or_none(row, "run_id")?,
        call_id: text(row, "call_id")?,
        tool: text(row, "tool")?,
        digest: Digest::stored(column(row, "digest")?),
        requester: text(row, "requester")?,
        question: json(row, "question_json")?,
        state: ApprovalState::parse(column(row, "state")?),
        answered,
        created_at: column(row, "created_at")?,
        expires_at: column(row, "expires_at")?,
        updated_at: column(row, "updated_at")?,
    })
}
