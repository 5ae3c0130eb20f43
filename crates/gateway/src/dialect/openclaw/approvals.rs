//! `exec.approval.*`: questions to people, those of our own agents and those that other programs put.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_engine::Answering;
use tidegate_policy::approval::{Approval, ApprovalState};
use tidegate_protocol::ApprovalId;
use tidegate_storage::{ApprovalFilter, DecidedApproval};

use super::answers::{DONE, Done};
use super::keys;
use super::questions::NotPut;
use crate::gate::Gate;
use crate::methods::{Caller, Nothing};
use crate::token::random_text;
use crate::ws::frame::WireError;
use crate::ws::outbox::Weight;
use crate::ws::peer::Audience;
use crate::ws::scope::Need;

/// How long a question waits when nobody says, and at most.
const WAIT: u64 = 120_000;
const LONGEST: u64 = 24 * 3600 * 1000;
/// Questions in one answer.
const LISTED: u32 = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalRequest {
    #[schemars(length(min = 1))]
    id: Option<String>,
    #[schemars(length(min = 1))]
    command: String,
    cwd: Option<String>,
    host: Option<String>,
    security: Option<String>,
    ask: Option<String>,
    agent_id: Option<String>,
    resolved_path: Option<String>,
    session_key: Option<String>,
    timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalResolve {
    #[schemars(length(min = 1))]
    id: String,
    #[schemars(length(min = 1))]
    decision: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalGet {
    #[schemars(length(min = 1))]
    id: String,
}

/// A question that waits, of ours or of another program.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingApproval {
    id: String,
    request: AskedFor,
    created_at_ms: i64,
    expires_at_ms: i64,
}

/// Those that wait, ours first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct PendingApprovals(Vec<PendingApproval>);

/// What somebody is asked to allow.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskedFor {
    command: String,
    cwd: Option<String>,
    host: Option<String>,
    security: Option<String>,
    ask: Option<String>,
    agent_id: Option<String>,
    resolved_path: Option<String>,
    session_key: Option<String>,
    /// Of a question of ours.
    #[serde(flatten)]
    ours: Option<AskedByUs>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AskedByUs {
    tool: String,
    /// Why it is asked.
    reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalDecided {
    id: String,
    /// `allow-once`, `allow-always` or `deny`; `null` when nobody decided in time.
    decision: Option<String>,
    created_at_ms: i64,
    expires_at_ms: i64,
}

/// A question is over, to those who may answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QuestionOver<'a> {
    id: &'a str,
    decision: &'a str,
    ts: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_by: Option<&'a str>,
}

const HEARD: Audience<'static> = Audience::Scope(Need::Approvals);

/// A question of ours as clients show it.
fn request_of(approval: &Approval) -> AskedFor {
    let question = &approval.question;
    let command = question.args.get("command").and_then(Value::as_str);
    let shown = command.map_or_else(|| format!("{} {}", question.tool, question.args), str::to_owned);
    let key = approval.session.parse().map_or_else(|_| approval.session.clone(), |key| keys::write(&key));
    AskedFor {
        command: shown,
        cwd: Some(question.root.clone()),
        host: Some("gateway".to_owned()),
        security: None,
        ask: None,
        agent_id: Some(approval.scope.agent.to_string()),
        resolved_path: None,
        session_key: Some(key),
        ours: Some(AskedByUs { tool: question.tool.clone(), reason: question.reason.clone() }),
    }
}

fn listed(approval: &Approval) -> PendingApproval {
    PendingApproval {
        id: approval.id.to_string(),
        request: request_of(approval),
        created_at_ms: approval.created_at,
        expires_at_ms: approval.expires_at,
    }
}

/// Tells that a question was put or is over.
pub(crate) fn tell(gate: &Gate, approval: &Approval) {
    let hub = &gate.shared.hub;
    let decision = match approval.state {
        ApprovalState::Pending => {
            hub.broadcast("exec.approval.requested", &listed(approval), HEARD, Weight::Kept);
            return;
        }
        ApprovalState::Approved => {
            let saved = approval.answered.as_ref().is_some_and(|answered| answered.rule.is_some());
            if saved { "allow-always" } else { "allow-once" }
        }
        ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled => "deny",
        // It was told when it was answered.
        ApprovalState::Used | ApprovalState::Unknown(_) => return,
    };
    let payload = QuestionOver {
        id: &approval.id.to_string(),
        decision,
        ts: approval.updated_at,
        resolved_by: approval.answered.as_ref().map(|answered| answered.by.as_str()),
    };
    hub.broadcast("exec.approval.resolved", &payload, HEARD, Weight::Kept);
}

pub(crate) async fn list(caller: Caller, _: Nothing) -> Result<PendingApprovals, WireError> {
    let gate = &caller.gate;
    let approvals =
        gate.engine().approvals(ApprovalFilter { limit: LISTED, ..ApprovalFilter::default() }).await?;
    let ours = approvals.iter().filter(|approval| approval.state == ApprovalState::Pending).map(listed);
    let theirs =
        gate.shared.hub.questions.list().into_iter().map(|(id, request, created_at_ms, expires_at_ms)| {
            PendingApproval { id, request, created_at_ms, expires_at_ms }
        });
    Ok(PendingApprovals(ours.chain(theirs).collect()))
}

pub(crate) async fn get(caller: Caller, params: ApprovalGet) -> Result<PendingApproval, WireError> {
    let PendingApprovals(all) = list(caller, Nothing {}).await?;
    let found = all.into_iter().find(|question| question.id == params.id);
    found.ok_or_else(|| WireError::invalid("unknown approval id"))
}

/// Puts a question and holds the answer until somebody decides, or nobody did in time.
pub(crate) async fn request(caller: Caller, params: ApprovalRequest) -> Result<ApprovalDecided, WireError> {
    let gate = &caller.gate;
    let hub = &gate.shared.hub;
    let id = match params.id {
        Some(id) => id,
        None => random_text::<16>().map_err(|error| WireError::unavailable(error.to_string()))?,
    };
    let patience = params.timeout_ms.unwrap_or(WAIT).min(LONGEST);
    let now = gate.shared.now();
    let expires = now + i64::try_from(patience).unwrap_or(i64::MAX / 2);
    let request = AskedFor {
        command: params.command,
        cwd: params.cwd,
        host: params.host,
        security: params.security,
        ask: params.ask,
        agent_id: params.agent_id,
        resolved_path: params.resolved_path,
        session_key: params.session_key,
        ours: None,
    };
    let receiver = hub.questions.put(&id, request.clone(), now, expires).map_err(|why| match why {
        NotPut::Pending => WireError::invalid("approval id already pending"),
        NotPut::TooMany => WireError::unavailable("too many questions wait for an answer"),
    })?;
    let told = PendingApproval { id: id.clone(), request, created_at_ms: now, expires_at_ms: expires };
    hub.broadcast("exec.approval.requested", &told, HEARD, Weight::Kept);
    let decision = tokio::select! {
        decision = tokio::time::timeout(Duration::from_millis(patience), receiver) => decision.ok().and_then(Result::ok),
        () = gate.closing.requested() => None,
    };
    hub.questions.forget(&id);
    Ok(ApprovalDecided { id, decision, created_at_ms: now, expires_at_ms: expires })
}

pub(crate) async fn resolve(caller: Caller, params: ApprovalResolve) -> Result<Done, WireError> {
    let gate = &caller.gate;
    let answering = match params.decision.as_str() {
        "allow-once" => Answering::AllowOnce,
        "allow-always" => Answering::AllowAlways { prefix: None },
        "deny" => Answering::Deny { reason: None },
        _ => return Err(WireError::invalid("invalid decision")),
    };
    if gate.shared.hub.questions.answer(&params.id, &params.decision) {
        let payload = QuestionOver {
            id: &params.id,
            decision: &params.decision,
            ts: gate.shared.now(),
            resolved_by: Some(&caller.peer.name()),
        };
        gate.shared.hub.broadcast("exec.approval.resolved", &payload, HEARD, Weight::Kept);
        return Ok(DONE);
    }
    let unknown = || WireError::invalid("unknown approval id");
    let id: ApprovalId = params.id.parse().map_err(|_| unknown())?;
    match gate.engine().answer(&gate.principal(), id, answering).await? {
        DecidedApproval::Won(_) => Ok(DONE),
        DecidedApproval::Settled(_) | DecidedApproval::NotFound => Err(unknown()),
        DecidedApproval::Own => {
            Err(WireError::invalid("whoever made the call may not approve it (`approvals.selfApproval`)"))
        }
        DecidedApproval::CannotBeSaved => {
            Err(WireError::invalid("no rule can be saved for this call: approve it once"))
        }
    }
}
