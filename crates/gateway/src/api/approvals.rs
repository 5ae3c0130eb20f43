//! Questions to people, their answers, and the rules that were saved with them.

use axum::extract::{Path, Request, State};
use tidegate_engine::Answering;
use tidegate_policy::approval::{allow_rule_view, view};
use tidegate_protocol::api::{
    AllowCommand, AllowRuleList, AnswerApproval, ApprovalAnswered, ApprovalDecision, ApprovalList,
    ApprovalView,
};
use tidegate_protocol::{AllowRuleId, ApprovalId, ErrorCode};
use tidegate_storage::{ApprovalFilter, DecidedApproval};

use crate::answer::{Answered, Refusal, json};
use crate::body;
use crate::gate::Gate;

/// Questions that are listed.
const LISTED: u32 = 200;

pub(crate) async fn list(State(gate): State<Gate>) -> Answered {
    json(&listed(&gate, None).await?)
}

pub(crate) async fn listed(gate: &Gate, limit: Option<u32>) -> Result<ApprovalList, Refusal> {
    let filter = ApprovalFilter { limit: limit.unwrap_or(LISTED), ..ApprovalFilter::default() };
    let approvals = gate.engine().approvals(filter).await?;
    Ok(ApprovalList { approvals: approvals.iter().map(view).collect() })
}

pub(crate) async fn show(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    json(&shown(&gate, parse(&id)?).await?)
}

pub(crate) async fn shown(gate: &Gate, id: ApprovalId) -> Result<ApprovalView, Refusal> {
    let found = gate.engine().approval(id).await?;
    Ok(view(&found.ok_or_else(|| missing(&id))?))
}

pub(crate) async fn answer(State(gate): State<Gate>, Path(id): Path<String>, request: Request) -> Answered {
    let answer: AnswerApproval = body::read(request).await?;
    json(&decided(&gate, parse(&id)?, answer).await?)
}

pub(crate) async fn decided(
    gate: &Gate,
    id: ApprovalId,
    answer: AnswerApproval,
) -> Result<ApprovalAnswered, Refusal> {
    let AnswerApproval { decision, reason, prefix } = answer;
    let answering = match decision {
        ApprovalDecision::AllowOnce => Answering::AllowOnce,
        ApprovalDecision::AllowAlways => Answering::AllowAlways { prefix },
        ApprovalDecision::Deny => Answering::Deny { reason },
    };
    match gate.engine().answer(&gate.principal(), id, answering).await? {
        DecidedApproval::Won(approval) => Ok(ApprovalAnswered { won: true, approval: view(&approval) }),
        DecidedApproval::Settled(approval) => Ok(ApprovalAnswered { won: false, approval: view(&approval) }),
        DecidedApproval::Own => Err(Refusal::new(
            ErrorCode::Forbidden,
            "whoever made the call may not approve it (`approvals.selfApproval`)",
        )),
        DecidedApproval::CannotBeSaved => {
            Err(Refusal::new(ErrorCode::BadRequest, "no rule can be saved for this call: approve it once"))
        }
        DecidedApproval::NotFound => Err(missing(&id)),
    }
}

pub(crate) async fn rules(State(gate): State<Gate>) -> Answered {
    let rules = gate.engine().allow_rules(None).await?;
    json(&AllowRuleList { rules: rules.iter().map(allow_rule_view).collect() })
}

pub(crate) async fn allow(State(gate): State<Gate>, request: Request) -> Answered {
    let AllowCommand { command, agent, prefix } = body::read(request).await?;
    body::check_text(&command)?;
    let scope = gate.engine().settings().scope(agent.as_deref())?;
    match gate.engine().allow_command(&gate.principal(), &scope, &command, prefix).await? {
        Ok(rule) => json(&allow_rule_view(&rule)),
        Err(why) => Err(Refusal::new(ErrorCode::InvalidValue, why.to_string())),
    }
}

pub(crate) async fn remove_rule(State(gate): State<Gate>, Path(id): Path<String>) -> Answered {
    let missing = || Refusal::new(ErrorCode::NotFound, format!("rule {id} does not exist"));
    let rule: AllowRuleId = id.parse().map_err(|_| missing())?;
    if !gate.engine().remove_allow_rule(&gate.principal(), rule).await? {
        return Err(missing());
    }
    json(&serde_json::json!({ "removed": rule }))
}

fn parse(id: &str) -> Result<ApprovalId, Refusal> {
    id.parse().map_err(|_| missing(&id))
}

fn missing(id: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(ErrorCode::NotFound, format!("approval {id} does not exist"))
}
