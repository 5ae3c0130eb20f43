//! What pages of another gateway ask about things that there are none of here: plugins, boards, voices. The true answer is
//! an empty one, and a page that gets it goes on.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::methods::Caller;
use crate::ws::frame::WireError;

/// Whatever a page says beside such a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct About {
    session_key: Option<String>,
    session_keys: Option<Vec<String>>,
    agent_id: Option<String>,
    key: Option<String>,
    keys: Option<Vec<String>>,
    visible: Option<bool>,
    surface: Option<String>,
    observed_url: Option<String>,
    limit: Option<u32>,
    offset: Option<u32>,
    limit_per_host: Option<u32>,
    status: Option<Vec<String>>,
    progress_id: Option<String>,
    allow_partial_results: Option<bool>,
    include_disabled: Option<bool>,
    include_delivery_previews: Option<bool>,
    compact: Option<bool>,
    enabled: Option<String>,
    sort_by: Option<String>,
    sort_dir: Option<String>,
    query: Option<String>,
    refresh_checkout: Option<bool>,
    scope: Option<String>,
    include_args: Option<bool>,
    provider: Option<String>,
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

pub(crate) async fn board(_: Caller, about: About) -> Result<Value, WireError> {
    Ok(json!({ "sessionKey": about.session_key, "revision": 0, "tabs": [], "widgets": [] }))
}

pub(crate) async fn viewers(_: Caller, about: About) -> Result<Value, WireError> {
    Ok(json!({ "sessionKeys": about.session_keys.unwrap_or_default() }))
}

pub(crate) async fn members(_: Caller, about: About) -> Result<Value, WireError> {
    Ok(json!({
        "sessionKey": about.session_key, "members": [], "identities": [], "role": "owner", "allowedVisibilities": [],
    }))
}

pub(crate) async fn branches(_: Caller, _: About) -> Result<Value, WireError> {
    Ok(json!({ "branches": [] }))
}
