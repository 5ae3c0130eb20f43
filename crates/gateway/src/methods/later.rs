//! What methods take that clients know and that are not served yet: it is checked all the same.
#![expect(dead_code, reason = "only the schemas are used until there are handlers")]

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CronAdd {
    #[schemars(length(min = 1))]
    name: String,
    schedule: Value,
    session_target: String,
    wake_mode: String,
    #[schemars(schema_with = "cron_payload")]
    payload: Value,
    agent_id: Option<String>,
    description: Option<String>,
    enabled: Option<bool>,
    delete_after_run: Option<bool>,
}

/// What a job does: tells something, or lets an agent have a turn.
fn cron_payload(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string", "minLength": 1 });
    let schema = json!({ "anyOf": [
        {
            "type": "object", "required": ["kind", "text"],
            "properties": { "kind": { "const": "systemEvent" }, "text": text },
        },
        {
            "type": "object", "required": ["kind", "message"],
            "properties": { "kind": { "const": "agentTurn" }, "message": text, "model": text, "thinking": text },
        },
    ] });
    Schema::try_from(schema).unwrap_or_default()
}

/// A job is named in one of two ways.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("anyOf" = [{ "required": ["id"] }, { "required": ["jobId"] }]))]
pub(super) struct CronUpdate {
    id: Option<String>,
    job_id: Option<String>,
    patch: Value,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("anyOf" = [{ "required": ["id"] }, { "required": ["jobId"] }]))]
pub(super) struct CronRemove {
    id: Option<String>,
    job_id: Option<String>,
}
