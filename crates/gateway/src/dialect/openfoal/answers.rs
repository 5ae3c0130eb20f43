//! What the methods of this dialect about agents and conversations answer.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_policy::approval::{Approval, ApprovalState};
use tidegate_protocol::{ApprovalId, Role, RunId, SessionKey, TenantId, WorkspaceId};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::SessionRow as Stored;

use crate::dialect::openclaw::history::ChatMessage;
use crate::dialect::openclaw::keys;
use crate::gate::Gate;

/// A run that was accepted, or what its end came to.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunStatus {
    pub(super) run_id: RunId,
    /// `accepted`; of an abort `aborted`, `aborting` or `already_finished`.
    pub(super) status: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModeSet {
    pub(super) session_id: String,
    pub(super) runtime_mode: &'static str,
    pub(super) execution_mode: &'static str,
    pub(super) status: &'static str,
}

/// A conversation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRow {
    id: String,
    session_key: String,
    tenant_id: TenantId,
    workspace_id: WorkspaceId,
    owner_user_id: String,
    visibility: &'static str,
    pub(super) title: String,
    preview: &'static str,
    runtime_mode: &'static str,
    sync_state: &'static str,
    /// Tokens of the model's window at the last call.
    context_usage: u64,
    compaction_count: u32,
    /// `idle`, or `flushed` once the agent wrote its notes.
    memory_flush_state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_flush_at: Option<String>,
    updated_at: String,
}

/// One conversation; `null` for one that is not there.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OneSession {
    pub(super) session: Option<SessionRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRows {
    pub(super) items: Vec<SessionRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryRows {
    pub(super) items: Vec<HistoryRow>,
}

/// A line of a log.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryRow {
    /// Its place in the log.
    pub(super) id: i64,
    pub(super) session_id: String,
    pub(super) run_id: RunId,
    pub(super) event: Role,
    pub(super) payload: ChatMessage,
    pub(super) created_at: String,
}

/// A question to a person.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalRow {
    approval_id: ApprovalId,
    session_id: String,
    run_id: Option<RunId>,
    tool_name: String,
    tool_call_id: String,
    args_fingerprint: String,
    /// `pending`, `approved` or `rejected`.
    status: &'static str,
    created_at: String,
    /// As the model wrote them.
    args: Value,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_at: Option<String>,
    /// `approve` or `reject`.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalRows {
    pub(super) items: Vec<ApprovalRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OneApproval {
    pub(super) approval: ApprovalRow,
}

pub(super) fn shown(gate: &Gate, id: &str, key: &SessionKey, row: Option<&Stored>) -> SessionRow {
    let flushed_at = row.and_then(|row| row.flushed_at);
    SessionRow {
        id: id.to_owned(),
        session_key: keys::write(key),
        tenant_id: key.scope.tenant.clone(),
        workspace_id: key.scope.workspace.clone(),
        owner_user_id: gate.principal().actor().to_owned(),
        visibility: "private",
        title: row.and_then(|row| row.title.clone()).unwrap_or_default(),
        preview: "",
        runtime_mode: "local",
        sync_state: "local_only",
        context_usage: row.map_or(0, |row| row.context_tokens),
        compaction_count: row.map_or(0, |row| row.compactions),
        memory_flush_state: if flushed_at.is_some() { "flushed" } else { "idle" },
        memory_flush_at: flushed_at.map(iso_timestamp),
        updated_at: iso_timestamp(row.map_or_else(|| gate.shared.now(), |row| row.updated_at)),
    }
}

pub(super) fn status_of(state: &ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => "pending",
        ApprovalState::Approved | ApprovalState::Used => "approved",
        ApprovalState::Denied
        | ApprovalState::Expired
        | ApprovalState::Cancelled
        | ApprovalState::Unknown(_) => "rejected",
    }
}

pub(super) fn approval_shown(approval: &Approval) -> ApprovalRow {
    let status = status_of(&approval.state);
    let answered = approval.answered.as_ref();
    ApprovalRow {
        approval_id: approval.id,
        session_id: approval.session.clone(),
        run_id: approval.run,
        tool_name: approval.tool.clone(),
        tool_call_id: approval.call_id.clone(),
        args_fingerprint: approval.digest.as_str().to_owned(),
        status,
        created_at: iso_timestamp(approval.created_at),
        args: approval.question.args.clone(),
        reason: approval.question.reason.clone(),
        resolved_at: answered.map(|answered| iso_timestamp(answered.at)),
        decision: answered.map(|_| if status == "approved" { "approve" } else { "reject" }),
    }
}
