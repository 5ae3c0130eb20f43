//! `sessions.patch`: what is chosen for a conversation. A field that is `null` takes a choice back.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use tidegate_protocol::{ThinkingLevel, Verbose};

use super::session_row::{self, SessionRow};
use super::system::STORED;
use super::{keys, sessions};
use crate::methods::Caller;
use crate::ws::frame::WireError;

/// Absent, `null`, or a value.
type Patch = Option<Option<String>>;

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SessionsPatch {
    #[schemars(length(min = 1))]
    key: String,
    agent_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    label: Patch,
    #[serde(default, deserialize_with = "given")]
    thinking_level: Patch,
    #[serde(default, deserialize_with = "given")]
    verbose_level: Patch,
    #[serde(default, deserialize_with = "given")]
    reasoning_level: Patch,
    #[serde(default, deserialize_with = "given")]
    response_usage: Patch,
    #[serde(default, deserialize_with = "given")]
    elevated_level: Patch,
    #[serde(default, deserialize_with = "given")]
    exec_host: Patch,
    #[serde(default, deserialize_with = "given")]
    exec_security: Patch,
    #[serde(default, deserialize_with = "given")]
    exec_ask: Patch,
    #[serde(default, deserialize_with = "given")]
    exec_node: Patch,
    #[serde(default, deserialize_with = "given")]
    model: Patch,
    #[serde(default, deserialize_with = "given")]
    spawned_by: Patch,
    #[serde(default, deserialize_with = "given")]
    #[schemars(schema_with = "send_policy")]
    send_policy: Patch,
    #[serde(default, deserialize_with = "given")]
    #[schemars(schema_with = "group_activation")]
    group_activation: Patch,
}

fn one_of_or_null(texts: [&str; 2]) -> Schema {
    let [first, second] = texts;
    let choices = json!({ "anyOf": [{ "const": first }, { "const": second }, { "type": "null" }] });
    Schema::try_from(choices).unwrap_or_default()
}

fn send_policy(_: &mut SchemaGenerator) -> Schema {
    one_of_or_null(["allow", "deny"])
}

fn group_activation(_: &mut SchemaGenerator) -> Schema {
    one_of_or_null(["mention", "always"])
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionPatched {
    ok: bool,
    path: &'static str,
    key: String,
    entry: SessionRow,
}

pub(crate) async fn patch(caller: Caller, params: SessionsPatch) -> Result<SessionPatched, WireError> {
    let gate = &caller.gate;
    let engine = gate.engine();
    // What would be taken without an effect is refused: nobody should think that it holds.
    let unserved = [
        ("reasoningLevel", &params.reasoning_level),
        ("elevatedLevel", &params.elevated_level),
        ("execHost", &params.exec_host),
        ("execSecurity", &params.exec_security),
        ("execAsk", &params.exec_ask),
        ("execNode", &params.exec_node),
        ("spawnedBy", &params.spawned_by),
        ("sendPolicy", &params.send_policy),
        ("groupActivation", &params.group_activation),
    ];
    if let Some((name, _)) = unserved.iter().find(|(_, value)| matches!(value, Some(Some(_)))) {
        let message = format!("{name} cannot be chosen for a conversation; it is set in the configuration");
        return Err(WireError::invalid(message));
    }
    let key = sessions::key_of(gate, params.agent_id.as_deref(), &params.key)?;
    let mut chosen = engine.session_settings(&key).await?;
    if let Some(level) = &params.thinking_level {
        chosen.thinking = match level.as_deref() {
            None => None,
            Some(text) => Some(
                ThinkingLevel::parse_alias(text)
                    .ok_or_else(|| WireError::invalid(format!("invalid thinkingLevel {text:?}")))?,
            ),
        };
    }
    if let Some(level) = &params.verbose_level {
        chosen.verbose = match level.as_deref() {
            None => None,
            Some(text) => Some(
                Verbose::parse_alias(text)
                    .ok_or_else(|| WireError::invalid(format!("invalid verboseLevel {text:?}")))?,
            ),
        };
    }
    if let Some(model) = &params.model {
        chosen.model = match model.as_deref().map(str::trim).filter(|model| !model.is_empty()) {
            None => None,
            Some(model) => {
                let wish = tidegate_engine::Wish { model: Some(model), ..tidegate_engine::Wish::default() };
                // Says what is wrong with it before anybody relies on it.
                engine.settings().asked_spec(&key.scope, &wish)?;
                Some(model.to_owned())
            }
        };
    }
    let principal = gate.principal();
    engine.set_session_settings(&principal, &key, chosen).await?;
    if let Some(label) = &params.label {
        engine.set_title(&principal, &key, label.as_deref()).await?;
    }
    let entry = session_row::row_of(gate, &key).await;
    let payload = json!({
        "sessionKey": keys::write(&key), "agentId": key.scope.agent, "phase": "patch", "reason": "patch",
        "ts": gate.shared.now(), "session": entry,
    });
    gate.shared.hub.tell("sessions.changed", &payload, crate::ws::peer::Audience::SessionList);
    Ok(SessionPatched { ok: true, path: STORED, key: keys::write(&key), entry })
}
