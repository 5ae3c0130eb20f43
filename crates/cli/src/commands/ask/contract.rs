//! The object of the contract that `ask` prints for programs.

use serde_json::{Value, json};
use tidegate_engine::Answer;
use tidegate_protocol::{Id as _, ToolCall, ToolSource};
use tidegate_runtime::iso_timestamp;

use crate::commands::tools::result_json;

/// The provider whose answers can be marked.
const CODEX: &str = "openai-codex";
/// The switch that marks them, for those who look for where an answer came from.
pub(super) const MARK: &str = "LAINCLAW_CODEX_PREFIX_RESPONSE";

/// How an answer is put, besides what it says.
pub(super) struct Style {
    pub(super) marked: bool,
    pub(super) dry_run: bool,
}

impl Style {
    pub(super) fn is_on(switch: &str) -> bool {
        matches!(switch, "1" | "true" | "yes" | "on")
    }
}

/// Its keys in the contract's order.
pub(super) fn contract(session: &str, answer: &Answer, style: &Style) -> Value {
    let mut object = json!({
        "success": true,
        "requestId": answer.run.alias(),
        "createdAt": iso_timestamp(answer.created_at),
        "route": answer.origin.route,
        "stage": answer.origin.stage,
        "result": result(answer, style),
    });
    if answer.origin.provider != tidegate_models::OFFLINE {
        object["provider"] = json!(answer.origin.provider);
        object["profileId"] = json!(answer.origin.profile_id);
    }
    let calls: Vec<Value> = answer.calls.iter().map(|(call, _)| call_json(call)).collect();
    let results = answer
        .calls
        .iter()
        .map(|(call, result)| json!({ "call": call_json(call), "result": result_json(result) }));
    for (key, value) in [
        ("sessionKey", json!(session)),
        ("sessionId", json!(answer.session_name)),
        ("memoryEnabled", json!(false)),
        ("memoryUpdated", json!(false)),
        ("toolCalls", json!(calls)),
        ("toolResults", results.collect()),
        ("sessionContextUpdated", json!(!answer.calls.is_empty())),
    ] {
        object[key] = value;
    }
    if let Some(error) = &answer.tool_error {
        object["toolError"] = json!(error);
    }
    if style.dry_run {
        object["dryRun"] = json!(true);
    }
    object
}

/// The text of the answer, marked if that is wanted.
pub(super) fn result(answer: &Answer, style: &Style) -> String {
    match &answer.origin.profile_id {
        Some(profile) if style.marked && answer.origin.provider == CODEX => {
            format!("[{CODEX}:{profile}] {}", answer.text)
        }
        _ => answer.text.clone(),
    }
}

/// A call that a person wrote into the question came from `ask`.
fn call_json(call: &ToolCall) -> Value {
    let source = match call.source {
        ToolSource::User => json!("ask"),
        other => json!(other),
    };
    json!({ "id": call.id, "name": call.name, "args": call.args, "source": source })
}
