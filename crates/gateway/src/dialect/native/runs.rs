//! Runs, the questions they put to people, and the parts of their answers that go to networks.

use tidegate_protocol::api::{
    Ack, AnswerApproval, ApprovalAnswered, ApprovalDecision, ApprovalList, ApprovalRef, ApprovalView,
    DecideApproval, DecideOutbox, ListApprovals, ListOutbox, ListRuns, OutboxList, RunList, RunRef, RunView,
    SendDecision,
};

use crate::api;
use crate::methods::Caller;
use crate::ws::frame::WireError;

pub(crate) async fn get(caller: Caller, params: RunRef) -> Result<RunView, WireError> {
    Ok(api::runs::shown(&caller.gate, params.run_id).await?)
}

pub(crate) async fn list(caller: Caller, params: ListRuns) -> Result<RunList, WireError> {
    Ok(api::runs::listed(&caller.gate, &params).await?)
}

pub(crate) async fn abort(caller: Caller, params: RunRef) -> Result<Ack, WireError> {
    api::runs::aborted(&caller.gate, params.run_id).await?;
    Ok(Ack {})
}

pub(crate) async fn approvals(caller: Caller, params: ListApprovals) -> Result<ApprovalList, WireError> {
    Ok(api::approvals::listed(&caller.gate, params.limit).await?)
}

pub(crate) async fn approval(caller: Caller, params: ApprovalRef) -> Result<ApprovalView, WireError> {
    Ok(api::approvals::shown(&caller.gate, params.id).await?)
}

pub(crate) async fn decide(caller: Caller, params: DecideApproval) -> Result<ApprovalAnswered, WireError> {
    let DecideApproval { id, decision, always, reason, prefix } = params;
    let decision = match decision {
        ApprovalDecision::AllowOnce if always => ApprovalDecision::AllowAlways,
        decision => decision,
    };
    Ok(api::approvals::decided(&caller.gate, id, AnswerApproval { decision, reason, prefix }).await?)
}

pub(crate) async fn outbox(caller: Caller, params: ListOutbox) -> Result<OutboxList, WireError> {
    Ok(api::outbox::listed(&caller.gate, &params).await?)
}

pub(crate) async fn decide_outbox(caller: Caller, params: DecideOutbox) -> Result<SendDecision, WireError> {
    Ok(api::outbox::decided(&caller.gate, params.id, params.decision).await?)
}
