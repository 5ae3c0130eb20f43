//! From a webhook under a name of the operator's own to what it asks for. Pure.

use tidegate_config::schema::{self, HookAction, HookMapping, HookMatch, WakeMode};

use super::action::{Action, Work};
use super::template::{Facts, render};

/// A mapping in force.
pub(super) struct Mapping {
    pub(super) id: String,
    said: HookMapping,
}

/// The configured mappings, then those of the presets.
pub(super) fn resolve(hooks: &schema::Hooks) -> Vec<Mapping> {
    let presets = hooks.presets.iter().filter_map(|name| (name == "gmail").then(gmail));
    let all = hooks.mappings.iter().cloned().chain(presets);
    let named = |(at, said): (usize, HookMapping)| {
        let id = said.id.as_deref().map(str::trim).filter(|id| !id.is_empty());
        Mapping { id: id.map_or_else(|| format!("mapping-{}", at + 1), str::to_owned), said }
    };
    all.enumerate().map(named).collect()
}

fn gmail() -> HookMapping {
    let text = |text: &str| Some(text.to_owned());
    let message = "New email from {{messages[0].from}}\nSubject: {{messages[0].subject}}\n{{messages[0].snippet}}\n{{messages[0].body}}";
    HookMapping {
        id: text("gmail"),
        r#match: HookMatch { path: text("gmail"), source: None },
        name: text("Gmail"),
        session_key: text("hook:gmail:{{messages[0].id}}"),
        message_template: text(message),
        ..HookMapping::default()
    }
}

/// The first mapping that fits, by its id, and what it makes of the webhook.
pub(super) fn apply<'m>(
    mappings: &'m [Mapping],
    facts: &Facts<'_>,
) -> Option<(&'m str, Result<Action, String>)> {
    let mapping = mappings.iter().find(|mapping| fits(&mapping.said.r#match, facts))?;
    Some((&mapping.id, action(&mapping.said, facts)))
}

fn fits(wanted: &HookMatch, facts: &Facts<'_>) -> bool {
    let path =
        wanted.path.as_deref().map(|path| path.trim().trim_matches('/')).filter(|path| !path.is_empty());
    let source = wanted.source.as_deref().map(str::trim).filter(|source| !source.is_empty());
    path.is_none_or(|path| path == facts.path)
        && source.is_none_or(|source| facts.payload["source"].as_str() == Some(source))
}

fn action(said: &HookMapping, facts: &Facts<'_>) -> Result<Action, String> {
    let filled = |template: &Option<String>| template.as_deref().map(|text| render(text, facts));
    let some = |template: &Option<String>| {
        filled(template).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let required = |template: &Option<String>, what: &str| {
        let text = filled(template).filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| format!("hook mapping requires {what}"))
    };
    Ok(match said.action {
        HookAction::Wake => {
            Action::Wake { text: required(&said.text_template, "text")?, mode: said.wake_mode }
        }
        HookAction::Agent => Action::Agent(Box::new(Work {
            message: required(&said.message_template, "message")?,
            name: some(&said.name),
            mode: said.wake_mode,
            session: some(&said.session_key),
            deliver: said.deliver,
            trusted: said.allow_unsafe_external_content,
            channel: said.channel.clone(),
            to: some(&said.to),
            model: some(&said.model),
            thinking: some(&said.thinking),
            timeout_seconds: said.timeout_seconds,
        })),
    })
}

/// Whether a mapping can be done at all by this release.
pub(super) fn waits_for_heartbeat(mode: WakeMode) -> bool {
    mode == WakeMode::NextHeartbeat
}
