//! What pages of another gateway ask about things that there are none of here: plugins, boards, voices. The true answer is
//! an empty one, and a page that gets it goes on.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::methods::Caller;
use crate::ws::frame::WireError;

/// Whatever a page says beside such a question: taken, and without a meaning here.
#[derive(Debug, Deserialize)]
pub(crate) struct About {}

impl JsonSchema for About {
    fn schema_name() -> Cow<'static, str> {
        "About".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}

/// A question about one conversation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AboutOne {
    session_key: Option<String>,
}

/// A question about some.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AboutSome {
    session_keys: Option<Vec<String>>,
}

macro_rules! quiet {
    ($($name:ident => $answer:tt;)+) => {
        $(pub(crate) async fn $name(_: Caller, _: About) -> Result<Value, WireError> {
            Ok(json!($answer))
        })+
    };
}

quiet! {
    nothing => [];
    ok => { "ok": true };
    questions => { "questions": [] };
    commands => { "commands": [] };
    suggestions => { "suggestions": [] };
    tasks => { "tasks": [] };
    projects => { "projects": [], "recents": [] };
    groups => { "groups": [], "sectionOrder": [] };
    group_defaults => { "defaults": [] };
    catalogs => { "catalogs": [] };
    card => { "card": null };
    plugins => { "revision": 0, "plugins": [], "diagnostics": [] };
    plugin_list => { "plugins": [], "diagnostics": [], "mutationAllowed": false };
    prefs => { "status": "ok", "entries": [] };
    subscribed => { "subscribed": true };
    discussion => { "state": "none" };
    companion => { "exchanges": [] };
    talk => {
        "modes": [], "transports": [], "brains": [], "speech": { "providers": [] },
        "transcription": { "providers": [] }, "realtime": { "providers": [] },
    };
    github => { "personal": null, "shared": null, "pendingPersonal": null, "latestShared": null };
    metadata => { "commands": [], "models": [] };
    update => { "sentinel": null, "updateAvailable": null };
    cron_list => { "jobs": [], "total": 0, "offset": 0, "limit": 50, "hasMore": false, "nextOffset": null };
    cron_status => { "enabled": false, "storePath": "", "jobs": 0, "nextWakeAtMs": null };
    no_heartbeat => null;
    skills => { "workspaceDir": "", "managedSkillsDir": "", "skills": [] };
    voice_wake => { "triggers": [] };
    bins => { "bins": [] };
}

pub(crate) async fn auth_status(caller: Caller, _: About) -> Result<Value, WireError> {
    Ok(json!({ "ts": caller.gate.shared.now(), "providers": [], "providerCapabilities": [] }))
}

pub(crate) async fn mentions(caller: Caller, _: About) -> Result<Value, WireError> {
    Ok(json!({ "gatewayInstanceId": caller.gate.shared.hub.boot, "revision": 0, "items": [] }))
}

pub(crate) async fn board(_: Caller, about: AboutOne) -> Result<Value, WireError> {
    Ok(json!({ "sessionKey": about.session_key, "revision": 0, "tabs": [], "widgets": [] }))
}

pub(crate) async fn viewers(_: Caller, about: AboutSome) -> Result<Value, WireError> {
    Ok(json!({ "sessionKeys": about.session_keys.unwrap_or_default() }))
}

pub(crate) async fn members(_: Caller, about: AboutOne) -> Result<Value, WireError> {
    Ok(json!({
        "sessionKey": about.session_key, "members": [], "identities": [], "role": "owner", "allowedVisibilities": [],
    }))
}

pub(crate) async fn branches(_: Caller, _: About) -> Result<Value, WireError> {
    Ok(json!({ "branches": [] }))
}
