//! `session_status`: where a conversation stands, and which model it uses from now on.

use std::sync::Weak;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_policy::{Permitted, Preparation};
use tidegate_protocol::{Risk, SessionKey, SessionSettings};
use tidegate_runtime::iso_timestamp;
use tidegate_tools::{Output, Place, Tool, ToolFailure, ToolSpec, Work};

use super::caller::{Caller, failure};
use super::{list, read, told};
use crate::settings::Wish;
use crate::start::Core;

/// Takes a chosen model back.
const DEFAULT: &str = "default";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Another session's; this one's without it.
    session_key: Option<String>,
    /// Use this model from now on; "default" takes it back.
    model: Option<String>,
}

pub(super) struct SessionStatus {
    spec: ToolSpec,
    core: Weak<Core>,
}

impl SessionStatus {
    pub(super) fn new(core: Weak<Core>) -> Self {
        let description = "Time, model, context and cost of a session; can choose its model.";
        Self { spec: ToolSpec::of::<Args>("session_status", description), core }
    }
}

#[async_trait]
impl Tool for SessionStatus {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        let args: Args = read(args)?;
        let risk = if args.model.is_some() { Risk::Write } else { Risk::Read };
        Ok(Preparation { risk: Some(risk), ..Preparation::default() })
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let args: Args = read(permitted.prepared().args())?;
        let caller = Caller::of(&self.core, permitted, work)?;
        let key = match (&args.session_key, &caller.key) {
            (Some(text), _) => caller.resolve(text).await?,
            (None, Some(key)) => key.clone(),
            (None, None) => return Err(ToolFailure::arguments("sessionKey is missing")),
        };
        if let Some(model) = &args.model {
            choose(&caller, &key, model).await?;
        }
        Ok(told(card(&caller, &key).await?))
    }
}

/// Notes the model for every later run of the conversation.
async fn choose(caller: &Caller, key: &SessionKey, model: &str) -> Result<(), ToolFailure> {
    let core = &caller.core;
    let chosen = Some(model.trim()).filter(|model| !model.eq_ignore_ascii_case(DEFAULT));
    if let Some(model) = chosen {
        let wish = Wish { model: Some(model), ..Wish::default() };
        core.settings
            .run_spec(&key.scope, &wish)
            .map_err(|error| ToolFailure::arguments(error.to_string()))?;
    }
    let store = &core.store;
    let before = store.session_settings(key).await.map_err(failure)?;
    let after = SessionSettings { model: chosen.map(str::to_owned), ..before };
    let written = store.set_session_settings(&caller.principal(), key, after, core.clock.now_ms()).await;
    written.map_err(failure)
}

async fn card(caller: &Caller, key: &SessionKey) -> Result<Value, ToolFailure> {
    let core = &caller.core;
    let chosen = core.store.session_settings(key).await.map_err(failure)?;
    let row = core.store.session(key).await.map_err(failure)?;
    let wish = Wish { model: chosen.model.as_deref(), thinking: chosen.thinking, ..Wish::default() };
    // A model that was chosen once may be gone since.
    let spec = core.settings.run_spec(&key.scope, &wish);
    let spec = spec.or_else(|_| core.settings.run_spec(&key.scope, &Wish::default())).ok();
    let model = spec.as_ref().and_then(|spec| spec.models.first());
    let window = spec.as_ref().map(|spec| core.settings.window(&spec.models, false).tokens);
    Ok(json!({
        "sessionKey": key.to_string(),
        "kind": list::kind(&key.place),
        "agent": key.scope.agent,
        "now": iso_timestamp(core.clock.now_ms()),
        "timezone": core.settings.zone().name(),
        "model": model.map(ToString::to_string),
        "chosenModel": chosen.model,
        "thinking": spec.as_ref().and_then(|spec| spec.thinking),
        "contextTokens": row.as_ref().map(|row| row.context_tokens),
        "contextWindow": window,
        "compactions": row.as_ref().map(|row| row.compactions),
        "tokens": row.as_ref().map(|row| row.usage.total()),
        "costUsd": row.as_ref().map(|row| row.usage.cost.usd()),
        "working": core.live.working_in(key).is_some(),
    }))
}
