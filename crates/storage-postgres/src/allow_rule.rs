//! Rows of saved rules on Postgres.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::AllowRuleId;
use tidegate_storage::{AllowMatch, AllowRule, AuditNote, Principal, Result};

use crate::approval::{put_on_record, scope};
use crate::error::TxResult;
use crate::rows::{column, json, parsed, parsed_or_none, text, to_json};
use crate::text::store;

/// What [`rule`] reads.
macro_rules! rule_columns {
    () => {
        "tenant_id, id, workspace_id, agent_id, tool, matches_json, created_by, approval_id, created_at, last_used_at"
    };
}
pub(crate) use rule_columns;

pub(crate) async fn insert_rule(transaction: &mut PgConnection, rule: &AllowRule) -> TxResult<()> {
    let (tenant, id) = (&rule.scope.tenant, rule.id.to_string());
    sqlx::query(
        "INSERT INTO allow_rules (tenant_id, id, workspace_id, agent_id, tool, matches_json, created_by, approval_id,
           created_at, last_used_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(tenant.as_str())
    .bind(&id)
    .bind(rule.scope.workspace.as_str())
    .bind(rule.scope.agent.as_str())
    .bind(store(&rule.tool))
    .bind(to_json(&rule.matches)?)
    .bind(store(&rule.created_by))
    .bind(rule.approval.map(|approval| approval.to_string()))
    .bind(rule.created_at)
    .bind(rule.last_used_at)
    .execute(&mut *transaction)
    .await?;
    let note = AuditNote::of_added_rule(rule);
    put_on_record(transaction, tenant, "allow_rule", &id, note, rule.created_at).await
}

/// Whether there was such a rule.
pub(crate) async fn remove_rule(
    transaction: &mut PgConnection,
    principal: &Principal,
    id: AllowRuleId,
    now: i64,
) -> TxResult<bool> {
    let (tenant, id) = (principal.tenant(), id.to_string());
    let removed = sqlx::query(concat!(
        "DELETE FROM allow_rules WHERE tenant_id = $1 AND id = $2 RETURNING ",
        rule_columns!()
    ))
    .bind(tenant.as_str())
    .bind(&id)
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(row) = removed else { return Ok(false) };
    let note = AuditNote::of_removed_rule(rule(&row)?.as_ref(), principal);
    put_on_record(transaction, tenant, "allow_rule", &id, note, now).await?;
    Ok(true)
}

/// `None` for a rule of a kind that only a newer release knows.
pub(crate) fn rule(row: &PgRow) -> Result<Option<AllowRule>> {
    let Ok(matches) = json::<AllowMatch>(row, "matches_json") else { return Ok(None) };
    Ok(Some(AllowRule {
        id: parsed(row, "id")?,
        scope: scope(row)?,
        tool: text(row, "tool")?,
        matches,
        created_by: text(row, "created_by")?,
        approval: parsed_or_none(row, "approval_id")?,
        created_at: column(row, "created_at")?,
        last_used_at: column(row, "last_used_at")?,
    }))
}
