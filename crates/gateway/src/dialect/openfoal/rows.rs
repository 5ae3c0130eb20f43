//! The methods of this dialect that run agents and read conversations.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tidegate_engine::{Answering, Wish};
use tidegate_policy::approval::Approval;
use tidegate_protocol::{ApprovalId, Entry, RunId, SessionKey};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{AbortOutcome, ApprovalFilter, DecidedApproval, SessionFilter};

use super::answers::{
    ApprovalRows, HistoryRow, HistoryRows, ModeSet, OneApproval, OneSession, RunStatus, SessionRows,
    approval_shown, shown, status_of,
};
use super::story;
use crate::dialect::openclaw::agent::{Asking, submit};
use crate::dialect::openclaw::{history, keys};
use crate::gate::Gate;
use crate::methods::Caller;
use crate::ws::frame::WireError;
use crate::ws::outbox::Weight;

const LISTED: u32 = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scoped {
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScopeKey {
    pub(super) scope_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Llm {
    model_ref: Option<String>,
    provider: Option<String>,
    model_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentRun {
    #[schemars(length(min = 1))]
    session_id: String,
    #[schemars(length(min = 1))]
    input: String,
    #[schemars(length(min = 1))]
    idempotency_key: String,
    agent_id: Option<String>,
    runtime_mode: Option<String>,
    llm: Option<Llm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct AgentAbort {
    #[schemars(length(min = 1))]
    run_id: String,
    #[schemars(length(min = 1))]
    idempotency_key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SetMode {
    #[schemars(length(min = 1))]
    session_id: String,
    #[schemars(length(min = 1))]
    runtime_mode: String,
    #[schemars(length(min = 1))]
    idempotency_key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionsCreate {
    title: Option<String>,
    #[schemars(length(min = 1))]
    idempotency_key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionOf {
    #[schemars(length(min = 1))]
    session_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionsHistory {
    #[schemars(length(min = 1))]
    session_id: String,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalQueue {
    status: Option<String>,
    run_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct ApprovalResolve {
    #[schemars(length(min = 1))]
    approval_id: String,
    #[schemars(length(min = 1))]
    decision: String,
    reason: Option<String>,
    comment: Option<String>,
    #[schemars(length(min = 1))]
    idempotency_key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditQuery {
    pub(super) action: Option<String>,
    #[schemars(range(min = 1, max = 500))]
    pub(super) limit: Option<u32>,
}

/// The conversation of an id: one that has a log, or one of that name.
async fn key_of(gate: &Gate, agent: Option<&str>, id: &str) -> Result<SessionKey, WireError> {
    let engine = gate.engine();
    if let Some(row) = engine.library().session_by_name(engine.tenant(), id).await? {
        return Ok(row.key);
    }
    Ok(keys::read(engine.settings(), engine.tenant(), agent, id)?)
}

pub(crate) async fn agent_run(caller: Caller, params: AgentRun) -> Result<RunStatus, WireError> {
    let gate = &caller.gate;
    if params.runtime_mode.as_deref().is_some_and(|mode| mode != "local") {
        return Err(WireError::invalid("only the runtime mode `local` runs here"));
    }
    let key = key_of(gate, params.agent_id.as_deref(), &params.session_id).await?;
    let llm = params.llm.as_ref();
    let wish = Wish {
        provider: llm.and_then(|llm| llm.provider.as_deref()),
        model: llm.and_then(|llm| llm.model_ref.as_deref().or(llm.model_id.as_deref())),
        ..Wish::default()
    };
    let asking = Asking {
        key,
        text: params.input,
        images: Vec::new(),
        name: &params.idempotency_key,
        space: "foal",
        wish,
        commands: false,
    };
    let submitted = submit(gate, asking).await?;
    let (run, peer) = (submitted.run, Arc::clone(&caller.peer));
    // After the answer: no event of a run comes before it.
    caller.afterwards(Box::pin(story::tell(peer, run, params.session_id, submitted.follower)));
    Ok(RunStatus { run_id: run, status: "accepted" })
}

pub(crate) async fn agent_abort(caller: Caller, params: AgentAbort) -> Result<RunStatus, WireError> {
    let gate = &caller.gate;
    let unknown = || WireError::invalid(format!("run {} does not exist", params.run_id));
    let run: RunId = params.run_id.parse().map_err(|_| unknown())?;
    let status = match gate.engine().abort(&gate.principal(), run).await? {
        AbortOutcome::Aborted => "aborted",
        AbortOutcome::AlreadyEnded(_) => "already_finished",
        AbortOutcome::Begun => "aborting",
        AbortOutcome::NotFound => return Err(unknown()),
    };
    Ok(RunStatus { run_id: run, status })
}

pub(crate) async fn set_mode(caller: Caller, params: SetMode) -> Result<ModeSet, WireError> {
    if params.runtime_mode != "local" {
        return Err(WireError::invalid("only the runtime mode `local` runs here"));
    }
    let event = json!({ "sessionId": params.session_id, "runtimeMode": "local", "status": "applied" });
    caller.peer.tell_counted("runtime.mode_changed", &event, Weight::Kept);
    Ok(ModeSet {
        session_id: params.session_id,
        runtime_mode: "local",
        execution_mode: "local_sandbox",
        status: "applied",
    })
}

pub(crate) async fn sessions_create(caller: Caller, params: SessionsCreate) -> Result<OneSession, WireError> {
    let gate = &caller.gate;
    // The same key is the same conversation, so that the request may be sent again.
    let digest = Sha256::digest(params.idempotency_key.as_bytes());
    let id = digest[..8].iter().fold("session-".to_owned(), |id, byte| format!("{id}{byte:02x}"));
    let key = key_of(gate, None, &id).await?;
    let row = gate.engine().library().session(&key).await?;
    let mut session = shown(gate, &id, &key, row.as_ref());
    if let Some(title) = params.title.filter(|_| row.is_none()) {
        session.title = title;
    }
    Ok(OneSession { session: Some(session) })
}

pub(crate) async fn sessions_list(caller: Caller, params: Scoped) -> Result<SessionRows, WireError> {
    let gate = &caller.gate;
    let engine = gate.engine();
    let agent = match params.agent_id.as_deref() {
        Some(agent) => Some(engine.settings().scope(Some(agent))?.agent),
        None => None,
    };
    let filter = SessionFilter { agent, limit: LISTED, ..SessionFilter::default() };
    let rows = engine.library().sessions(engine.tenant(), filter).await?;
    let items = rows.iter().map(|row| shown(gate, &row.id.to_string(), &row.key, Some(row))).collect();
    Ok(SessionRows { items })
}

pub(crate) async fn sessions_get(caller: Caller, params: SessionOf) -> Result<OneSession, WireError> {
    let gate = &caller.gate;
    let key = key_of(gate, None, &params.session_id).await?;
    let row = gate.engine().library().session(&key).await?;
    let session = row.map(|row| shown(gate, &params.session_id, &key, Some(&row)));
    Ok(OneSession { session })
}

pub(crate) async fn sessions_history(
    caller: Caller,
    params: SessionsHistory,
) -> Result<HistoryRows, WireError> {
    let gate = &caller.gate;
    let engine = gate.engine();
    let key = key_of(gate, None, &params.session_id).await?;
    let Some(row) = engine.library().session(&key).await? else {
        return Ok(HistoryRows { items: Vec::new() });
    };
    let limit = params.limit.unwrap_or(200);
    let after = (row.head_seq - i64::from(limit)).max(0);
    let entries = engine.library().entries(engine.tenant(), row.id, after, limit).await?;
    let item = |entry: &Entry| {
        let message = history::message(entry)?;
        Some(HistoryRow {
            id: entry.seq,
            session_id: params.session_id.clone(),
            run_id: entry.run_id,
            event: message.role,
            payload: message,
            created_at: iso_timestamp(entry.created_at),
        })
    };
    Ok(HistoryRows { items: entries.iter().filter_map(item).collect() })
}

pub(crate) async fn approval_queue(caller: Caller, params: ApprovalQueue) -> Result<ApprovalRows, WireError> {
    let filter = ApprovalFilter { limit: LISTED, ..ApprovalFilter::default() };
    let approvals = caller.gate.engine().approvals(filter).await?;
    let wanted = |approval: &&Approval| {
        let status = params.status.as_deref().is_none_or(|status| status == status_of(&approval.state));
        let run = params.run_id.as_deref();
        status && run.is_none_or(|run| approval.run.is_some_and(|of| of.to_string() == run))
    };
    Ok(ApprovalRows { items: approvals.iter().filter(wanted).map(approval_shown).collect() })
}

pub(crate) async fn approval_resolve(
    caller: Caller,
    params: ApprovalResolve,
) -> Result<OneApproval, WireError> {
    let gate = &caller.gate;
    let answering = match params.decision.as_str() {
        "approve" => Answering::AllowOnce,
        "reject" => Answering::Deny { reason: params.reason.or(params.comment) },
        _ => return Err(WireError::invalid("decision must be approve or reject")),
    };
    let unknown = || WireError::invalid(format!("approval {} does not exist", params.approval_id));
    let id: ApprovalId = params.approval_id.parse().map_err(|_| unknown())?;
    let approval = match gate.engine().answer(&gate.principal(), id, answering).await? {
        DecidedApproval::Won(approval) | DecidedApproval::Settled(approval) => approval,
        DecidedApproval::NotFound => return Err(unknown()),
        DecidedApproval::Own => {
            let message = "whoever made the call may not approve it (`approvals.selfApproval`)";
            return Err(WireError::new("FORBIDDEN", message));
        }
        DecidedApproval::CannotBeSaved => {
            return Err(WireError::invalid("no rule can be saved for this call"));
        }
    };
    let answer = OneApproval { approval: approval_shown(&approval) };
    caller.peer.tell_counted("approval.resolved", &answer, Weight::Kept);
    Ok(answer)
}
