//! A run told in the events of this dialect, to the client that began it.

use std::sync::Arc;

use serde_json::json;
use tidegate_engine::Follower;
use tidegate_protocol::{RunEventBody, RunId};

use super::code_of;
use crate::ws::outbox::Weight;
use crate::ws::peer::Peer;

/// Tells it to its end. The end is committed before it is told.
pub(super) async fn tell(peer: Arc<Peer>, run: RunId, session: String, mut follower: Follower) {
    let say = |event: &str, payload: serde_json::Value, weight| peer.tell_counted(event, &payload, weight);
    let accepted = json!({ "runId": run, "sessionId": session, "runtimeMode": "local" });
    say("agent.accepted", accepted, Weight::Kept);
    while let Some(event) = follower.next().await {
        match &event.body {
            RunEventBody::TextDelta { text } => {
                say("agent.delta", json!({ "runId": run, "delta": text }), Weight::Droppable);
            }
            RunEventBody::ToolStarted { call_id, tool, args } => {
                let call = json!({ "runId": run, "toolCallId": call_id, "toolName": tool });
                say("agent.tool_call_start", call.clone(), Weight::Kept);
                let mut whole = call.clone();
                whole["args"] = args.clone();
                say("agent.tool_call", whole, Weight::Kept);
                say("agent.tool_result_start", call, Weight::Kept);
            }
            RunEventBody::ToolUpdate { call_id, text } => {
                let payload = json!({ "runId": run, "toolCallId": call_id, "delta": text });
                say("agent.tool_result_delta", payload, Weight::Droppable);
            }
            RunEventBody::ToolEnded { call_id, tool, text, .. } => {
                let payload =
                    json!({ "runId": run, "toolCallId": call_id, "toolName": tool, "output": text });
                say("agent.tool_result", payload, Weight::Kept);
            }
            RunEventBody::ApprovalAsked { approval, .. } => {
                say("approval.required", json!({ "approval": approval }), Weight::Kept);
            }
            RunEventBody::ApprovalSettled { approval_id, .. } => {
                say("approval.resolved", json!({ "approval": { "approvalId": approval_id } }), Weight::Kept);
            }
            RunEventBody::Completed { text } => {
                say("agent.completed", json!({ "runId": run, "output": text }), Weight::Kept);
            }
            RunEventBody::Failed { error } => {
                let payload = json!({ "runId": run, "code": code_of(error.code), "message": error.message });
                say("agent.failed", payload, Weight::Kept);
            }
            RunEventBody::Started
            | RunEventBody::ThinkingDelta { .. }
            | RunEventBody::Steered { .. }
            | RunEventBody::CompactionStarted { .. }
            | RunEventBody::CompactionEnded { .. }
            | RunEventBody::Usage { .. }
            | RunEventBody::ModelSwitched { .. }
            | RunEventBody::OverBudget { .. } => {}
        }
    }
    say("session.updated", json!({ "sessionId": session, "reason": "run ended" }), Weight::Kept);
}
