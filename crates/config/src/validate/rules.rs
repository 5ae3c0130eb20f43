//! What must hold between keys, in plain code.
//!
//! The rules read the document and not the typed config, so that they report beside the schema's findings. A
//! value of the wrong type is not theirs to mention: the schema has done so.

use serde_json::Value;

use super::suggest;
use super::view::View;
use crate::format::AGENT_ID;
use crate::problem::{Problem, ProblemKind};
use crate::schema::KNOWN_PROVIDERS;
use crate::shape::{self, Shape};

/// The name of the built-in model and of its provider.
const OFFLINE: &str = "offline";
/// The agent that is there without a list.
const MAIN: &str = "main";
/// The format whose answers come from a file.
const SCRIPTED: &str = "scripted";

pub(super) fn check(root: &View<'_>, found: &mut Vec<Problem>) {
    providers(root, found);
    agents(root, found);
    model_references(root, found);
    local_channel(root, found);
    storage(root, found);
    timezone(root, &["budgets", "timezone"], found);
    timezone(root, &["session", "timezone"], found);
    reset_channels(root, found);
    budgets(root, found);
    lanes(root, found);
}

/// The limits of lanes that have a second name, as in OpenClaw.
const LANE_NAMES: [(&str, &[&str]); 3] = [
    ("main", &["agents", "defaults", "maxConcurrent"]),
    ("cron", &["cron", "maxConcurrentRuns"]),
    ("subagent", &["agents", "defaults", "subagents", "maxConcurrent"]),
];

/// Two names of one limit must say the same.
fn lanes(root: &View<'_>, found: &mut Vec<Problem>) {
    for (lane, other) in LANE_NAMES {
        let (Some(own), Some(other)) = (root.at(&["lanes", lane]), root.at(other)) else { continue };
        if own.value != other.value {
            found.push(own.problem(format!(
                "{} means the same and says {}; keep one of them",
                other.path,
                other.shown()
            )));
        }
    }
}

/// A budget for an agent that is not there limits nobody.
fn budgets(root: &View<'_>, found: &mut Vec<Problem>) {
    let Some(budgets) = root.at(&["budgets", "agents"]) else { return };
    let list = root.at(&["agents", "list"]);
    let mut agents: Vec<&str> =
        list.iter().flat_map(View::items).filter_map(|agent| agent.value.get("id")?.as_str()).collect();
    if agents.is_empty() {
        agents.push(MAIN);
    }
    for (name, budget) in budgets.entries().filter(|(name, _)| !agents.contains(name)) {
        let meant = suggest::nearest(name, agents.iter().copied());
        found.push(budget.problem(format!("there is no agent {name:?} in agents.list")).suggesting(meant));
    }
}

fn timezone(root: &View<'_>, path: &[&str], found: &mut Vec<Problem>) {
    let Some(zone) = root.at(path) else { return };
    if zone.text().is_some_and(|name| tidegate_runtime::Zone::find(name).is_none()) {
        let message =
            format!("this system knows no time zone {}; write one as Europe/Berlin, or UTC", zone.shown());
        found.push(zone.problem(message));
    }
}

/// A rule for a network that is not there resets nothing.
fn reset_channels(root: &View<'_>, found: &mut Vec<Problem>) {
    let Some(rules) = root.at(&["session", "resetByChannel"]) else { return };
    let Some(Shape::Object { keys, .. }) = shape::root().key("channels").map(|node| &node.shape) else {
        return;
    };
    let channels: Vec<&str> =
        keys.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "defaults").collect();
    for (name, rule) in rules.entries().filter(|(name, _)| !channels.contains(name)) {
        let meant = suggest::nearest(name, channels.iter().copied());
        found.push(rule.problem(format!("there is no channel {name:?}")).suggesting(meant));
    }
}

fn providers(root: &View<'_>, found: &mut Vec<Problem>) {
    let Some(providers) = root.at(&["models", "providers"]) else { return };
    for (name, provider) in providers.entries() {
        if name.is_empty() || name.contains('/') {
            found.push(
                provider.problem("a provider's name must not be empty or contain /, which starts the model"),
            );
        }
        let (api, url) = (provider.key("api"), provider.key("baseUrl"));
        if let Some(url) = &url {
            web_address(url, found);
        }
        if KNOWN_PROVIDERS.contains(&name) {
            continue;
        }
        let mut required = |key: &str, message: &str| {
            found.push(Problem::new(ProblemKind::Required, provider.path_of(key), message));
        };
        match api.as_ref().map(View::text) {
            None => required(
                "api",
                "required key is missing: no provider of this name is known; it takes the wire format",
            ),
            Some(Some(SCRIPTED)) if provider.key("script").is_none() => {
                required("script", "required key is missing; it takes the file with the answers");
            }
            Some(Some(OFFLINE | SCRIPTED)) => {}
            Some(_) if url.is_none() => {
                required(
                    "baseUrl",
                    "required key is missing; it takes the provider's address, as https://host/path",
                );
            }
            Some(_) => {}
        }
    }
}

pub(super) fn web_address(url: &View<'_>, found: &mut Vec<Problem>) {
    let Some(text) = url.text().filter(|text| !text.is_empty()) else { return };
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
        found.push(url.problem(format!("expected an address as https://host/path, got {}", url.shown())));
    }
}

fn agents(root: &View<'_>, found: &mut Vec<Problem>) {
    let Some(list) = root.at(&["agents", "list"]) else { return };
    let mut ids: Vec<(&str, String)> = Vec::new();
    let mut default: Option<String> = None;
    for agent in list.items() {
        if let Some(id) = agent.key("id")
            && let Some(text) = id.text()
        {
            match ids.iter().find(|(known, _)| *known == text) {
                Some((_, first)) => {
                    found.push(id.problem(format!("the id {} is already that of {first}", id.shown())));
                }
                None => ids.push((text, agent.path.clone())),
            }
        }
        if let Some(mark) = agent.key("default").filter(|mark| *mark.value == Value::Bool(true)) {
            match &default {
                Some(first) => {
                    found.push(mark.problem(format!("only one agent can be the default, and {first} is")));
                }
                None => default = Some(agent.path.clone()),
            }
        }
    }
}

/// The providers that are configured or known.
pub(super) fn provider_names<'v>(root: &View<'v>) -> Vec<&'v str> {
    let providers = root.at(&["models", "providers"]);
    let configured = providers.iter().flat_map(View::entries).map(|(name, _)| name);
    configured.chain(KNOWN_PROVIDERS.iter().copied()).collect()
}

fn model_references(root: &View<'_>, found: &mut Vec<Problem>) {
    let names = provider_names(root);
    let aliases = root.at(&["agents", "defaults", "models"]);
    let aliases: Vec<&str> = aliases
        .iter()
        .flat_map(View::entries)
        .filter_map(|(_, model)| model.value.get("alias")?.as_str())
        .map(str::trim)
        .collect();
    let is_alias = |reference: &View<'_>| {
        reference
            .text()
            .is_some_and(|text| aliases.iter().any(|alias| alias.eq_ignore_ascii_case(text.trim())))
    };
    let defaults = ["model", "imageModel"].map(|key| root.at(&["agents", "defaults", key]));
    let agents = root.at(&["agents", "list"]);
    let policies = [root.at(&["models", "policy"]), root.at(&["agents", "defaults", "modelPolicy"])];
    let own = agents.iter().flat_map(View::items).filter_map(|agent| agent.key("modelPolicy"));
    for fallbacks in policies.into_iter().flatten().chain(own).filter_map(|policy| policy.key("fallback")) {
        fallbacks
            .items()
            .filter(|reference| !is_alias(reference))
            .for_each(|reference| model_reference(&reference, &names, found));
    }
    let own = agents.iter().flat_map(View::items);
    let own = own.flat_map(|agent| [agent.key("model"), agent.at(&["subagents", "model"])]).flatten();
    let subagents = root.at(&["agents", "defaults", "subagents", "model"]);
    for model in defaults.into_iter().flatten().chain(subagents).chain(own) {
        if model.value.is_string() {
            if !is_alias(&model) {
                model_reference(&model, &names, found);
            }
            continue;
        }
        let fallbacks = model.key("fallbacks");
        let all = model.key("primary").into_iter().chain(fallbacks.iter().flat_map(View::items));
        all.filter(|reference| !is_alias(reference))
            .for_each(|reference| model_reference(&reference, &names, found));
    }
}

/// `provider/model` with a provider that is known or configured, or the built-in `offline`.
fn model_reference(reference: &View<'_>, providers: &[&str], found: &mut Vec<Problem>) {
    let Some(text) = reference.text() else { return };
    if text == OFFLINE {
        return;
    }
    let parts = text.split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty());
    let Some((provider, model)) = parts else {
        let message = format!("expected \"provider/model\" or \"{OFFLINE}\", got {}", reference.shown());
        found.push(reference.problem(message));
        return;
    };
    if provider == OFFLINE || providers.contains(&provider) {
        return;
    }
    let meant = suggest::nearest(provider, providers.iter().copied()).map(|name| format!("{name}/{model}"));
    let message =
        format!("{} names a provider that is neither known nor in models.providers", reference.shown());
    found.push(reference.problem(message).suggesting(meant));
}

/// An account's name becomes a folder, and a file has one use: an inbox read twice answers everything twice, and an
/// outbox that is also an inbox answers itself for ever.
fn local_channel(root: &View<'_>, found: &mut Vec<Problem>) {
    let Some(local) = root.at(&["channels", "local"]) else { return };
    let accounts = local.key("accounts");
    let accounts: Vec<_> = accounts.iter().flat_map(View::entries).collect();
    for (name, account) in &accounts {
        if !(AGENT_ID.accepts)(name) {
            found.push(account.problem(format!("an account's name must be {}", AGENT_ID.expected)));
        }
    }
    let mut files: Vec<(&str, String)> = Vec::new();
    for holder in std::iter::once(&local).chain(accounts.iter().map(|(_, account)| account)) {
        for file in ["inbox", "outbox"].into_iter().filter_map(|key| holder.key(key)) {
            let Some(text) = file.text().filter(|text| !text.is_empty()) else { continue };
            if text.starts_with('~') {
                found.push(file.problem("~ is not expanded here; write the whole path, or ${HOME}/…"));
            }
            match files.iter().find(|(known, _)| *known == text) {
                Some((_, first)) => {
                    found.push(file.problem(format!("the file {} is already that of {first}", file.shown())));
                }
                None => files.push((text, file.path.clone())),
            }
        }
    }
}

fn storage(root: &View<'_>, found: &mut Vec<Problem>) {
    let postgres = root.at(&["storage", "postgres"]);
    let wanted = root.at(&["storage", "backend"]).and_then(|backend| backend.text()) == Some("postgres");
    let url = postgres.as_ref().and_then(|postgres| postgres.key("url"));
    if wanted && url.is_none() {
        let message = "required key is missing because storage.backend is \"postgres\"; \
                       it takes postgres://user:password@host/database";
        found.push(Problem::new(ProblemKind::Required, "storage.postgres.url", message));
    }
    let migrate_url = postgres.as_ref().and_then(|postgres| postgres.key("migrateUrl"));
    for url in url.into_iter().chain(migrate_url) {
        let Some(text) = url.text() else { continue };
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            let message = "expected an address as postgres://user:password@host/database (the value is secret and not shown)";
            found.push(url.problem(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints(document: &Value) -> Vec<String> {
        let mut found = Vec::new();
        check(&View::new(document, document), &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_model_needs_a_provider_that_is_known_or_configured() {
        let document = json!({
            "models": {"providers": {"acme": {"api": "openai-responses", "baseUrl": "https://h/v1"}}},
            "agents": {
                "defaults": {"models": {"openai/x": {"alias": "Quick"}}, "model": {"primary": "acem/m", "fallbacks": ["offline", "openai/a/b", "m", "/m", "quick", 7]}},
                "list": [{"id": "a", "model": "openai/"}, {"id": "b", "model": {"primary": "nobody/m"}}, {"id": "c", "model": "offline/x"}],
            },
        });
        assert_eq!(
            complaints(&document),
            [
                r#"agents.defaults.model.primary: "acem/m" names a provider that is neither known nor in models.providers, did you mean "acme/m"?"#,
                r#"agents.defaults.model.fallbacks[2]: expected "provider/model" or "offline", got "m""#,
                r#"agents.defaults.model.fallbacks[3]: expected "provider/model" or "offline", got "/m""#,
                r#"agents.list[0].model: expected "provider/model" or "offline", got "openai/""#,
                r#"agents.list[1].model.primary: "nobody/m" names a provider that is neither known nor in models.providers"#,
            ]
        );
    }

    #[test]
    fn agents_have_their_own_ids_and_one_default() {
        let document = json!({"agents": {"list": [{"id": "a", "default": true}, {"id": "b"}, {"id": "a", "default": true}]}});
        assert_eq!(
            complaints(&document),
            [
                r#"agents.list[2].id: the id "a" is already that of agents.list[0]"#,
                "agents.list[2].default: only one agent can be the default, and agents.list[0] is",
            ]
        );
    }

    #[test]
    fn a_provider_that_is_not_known_says_how_it_is_reached() {
        let document = json!({"models": {"providers": {
            "a": {"api": "ollama"}, "b": {"api": "offline"}, "c": {"api": "ollama", "baseUrl": "h:1"}, "d/e": {"api": "offline"},
            "f": {}, "openai": {}, "g": {"api": "scripted"}, "h": {"api": "scripted", "script": "s.json"},
        }}});
        assert_eq!(
            complaints(&document),
            [
                "models.providers.a.baseUrl: required key is missing; it takes the provider's address, as https://host/path",
                r#"models.providers.c.baseUrl: expected an address as https://host/path, got "h:1""#,
                "models.providers.d/e: a provider's name must not be empty or contain /, which starts the model",
                "models.providers.f.api: required key is missing: no provider of this name is known; it takes the wire format",
                "models.providers.g.script: required key is missing; it takes the file with the answers",
            ]
        );
    }

    #[test]
    fn a_local_account_has_a_name_and_files_of_its_own() {
        let document = json!({"channels": {"local": {"inbox": "/a", "outbox": "~/b", "accounts": {
            "../up": {}, "work": {"inbox": "/c", "outbox": "/a"}, "home": {"inbox": "/c"},
        }}}});
        assert_eq!(
            complaints(&document),
            [
                "channels.local.accounts.../up: an account's name must be a name of 1 to 64 lower-case letters, digits, - and _, with a letter or digit first",
                "channels.local.outbox: ~ is not expanded here; write the whole path, or ${HOME}/…",
                r#"channels.local.accounts.work.outbox: the file "/a" is already that of channels.local.inbox"#,
                r#"channels.local.accounts.home.inbox: the file "/c" is already that of channels.local.accounts.work.inbox"#,
            ]
        );
        let document =
            json!({"channels": {"local": {"inbox": "/a", "accounts": {"default": {"outbox": "b"}}}}});
        assert_eq!(complaints(&document), Vec::<String>::new());
    }

    #[test]
    fn fallbacks_of_a_policy_name_models_too() {
        let document = json!({
            "models": {"policy": {"fallback": ["openai/m", "opnai/m"]}},
            "agents": {
                "defaults": {"modelPolicy": {"fallback": ["m"]}},
                "list": [{"id": "a", "modelPolicy": {"fallback": ["nobody/m"]}}],
            },
        });
        assert_eq!(
            complaints(&document),
            [
                r#"models.policy.fallback[1]: "opnai/m" names a provider that is neither known nor in models.providers, did you mean "openai/m"?"#,
                r#"agents.defaults.modelPolicy.fallback[0]: expected "provider/model" or "offline", got "m""#,
                r#"agents.list[0].modelPolicy.fallback[0]: "nobody/m" names a provider that is neither known nor in models.providers"#,
            ]
        );
    }

    #[test]
    fn a_budget_is_for_an_agent_that_is_there() {
        let agents = |list: Value| json!({"agents": {"list": list}, "budgets": {"agents": {"helper": {}, "main": {}}}});
        assert_eq!(
            complaints(&agents(json!([{"id": "helpr"}, {"id": "main"}]))),
            [r#"budgets.agents.helper: there is no agent "helper" in agents.list, did you mean "helpr"?"#]
        );
        assert_eq!(complaints(&agents(json!([{"id": "helper"}, {"id": "main"}]))), Vec::<String>::new());
        assert_eq!(
            complaints(&agents(json!([]))),
            [r#"budgets.agents.helper: there is no agent "helper" in agents.list"#]
        );
    }

    #[test]
    fn a_time_zone_must_be_one_that_the_system_knows() {
        let document = json!({"budgets": {"timezone": "Mars/Olympus"}});
        assert_eq!(
            complaints(&document),
            [
                r#"budgets.timezone: this system knows no time zone "Mars/Olympus"; write one as Europe/Berlin, or UTC"#
            ]
        );
        assert_eq!(complaints(&json!({"budgets": {"timezone": "UTC"}})), Vec::<String>::new());
        let document = json!({"session": {"timezone": "Berlin"}});
        assert_eq!(
            complaints(&document),
            [
                r#"session.timezone: this system knows no time zone "Berlin"; write one as Europe/Berlin, or UTC"#
            ]
        );
    }

    #[test]
    fn a_reset_is_for_a_channel_that_can_be_there() {
        let document =
            json!({"session": {"resetByChannel": {"slak": {}, "discord": {"mode": "off"}, "defaults": {}}}});
        assert_eq!(
            complaints(&document),
            [
                r#"session.resetByChannel.slak: there is no channel "slak", did you mean "slack"?"#,
                r#"session.resetByChannel.defaults: there is no channel "defaults""#,
            ]
        );
    }

    #[test]
    fn two_names_of_one_limit_must_not_contradict_each_other() {
        let limits = |lanes: Value| {
            json!({
                "lanes": lanes,
                "agents": {"defaults": {"maxConcurrent": 8, "subagents": {"maxConcurrent": 3}}},
                "cron": {"maxConcurrentRuns": 1},
            })
        };
        assert_eq!(
            complaints(&limits(json!({"main": 64, "subagent": 3, "cron": 2, "nested": 2}))),
            [
                "lanes.main: agents.defaults.maxConcurrent means the same and says 8; keep one of them",
                "lanes.cron: cron.maxConcurrentRuns means the same and says 1; keep one of them",
            ]
        );
        assert_eq!(complaints(&limits(json!({}))), Vec::<String>::new());
    }

    #[test]
    fn postgres_needs_its_address_and_never_shows_it() {
        let missing = complaints(&json!({"storage": {"backend": "postgres"}}));
        assert_eq!(missing.len(), 1);
        assert!(missing[0].starts_with("storage.postgres.url: required key is missing"), "{missing:?}");
        let wrong = complaints(&json!({"storage": {"postgres": {"url": "mysql://u:hunter2@h/d"}}}));
        assert!(wrong[0].starts_with("storage.postgres.url: expected an address"), "{wrong:?}");
        assert!(!wrong[0].contains("hunter2"));
        assert_eq!(complaints(&json!({"storage": {"backend": "sqlite"}})), Vec::<String>::new());
    }
}
