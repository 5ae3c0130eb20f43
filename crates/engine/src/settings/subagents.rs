//! Which runs agents may start, with which models, and whose sessions they may reach.

use std::time::Duration;

use tidegate_config::schema::{AgentModel, ModelChain, SessionVisibility, Subagents};
use tidegate_policy::tools::{Stage, StageKind, fits};
use tidegate_protocol::{AgentId, ModelRef, Place, RunSpec, Scope};

use super::models::level;
use super::{Settings, SettingsError, Wish};

/// What a subagent does not have unless `tools.subagents.tools.allow` names it: other conversations, what is remembered
/// from them, and the gateway itself.
const NOT_FOR_SUBAGENTS: [&str; 10] = [
    "agents_list",
    "cron",
    "gateway",
    "memory_get",
    "memory_search",
    "session_status",
    "sessions_history",
    "sessions_list",
    "sessions_send",
    "sessions_spawn",
];
/// What it needs to start subagents of its own.
const SPAWNING: [&str; 1] = ["sessions_spawn"];

impl Settings {
    /// How deep subagents may start subagents.
    pub(crate) fn subagent_depth(&self) -> u8 {
        self.subagents().max_depth
    }

    /// Subagents of one conversation that may be under way.
    pub(crate) fn subagent_children(&self) -> usize {
        size(self.subagents().max_children)
    }

    fn subagents(&self) -> &Subagents {
        &self.config.agents.defaults.subagents
    }

    /// The agents that one may start, itself first.
    pub(crate) fn spawn_targets(&self, from: &AgentId) -> Vec<&str> {
        let own = self.agent(from).and_then(|agent| agent.subagents.allow_agents.as_ref());
        let allowed = own.unwrap_or(&self.subagents().allow_agents);
        let is_allowed = |id: &str| allowed.iter().any(|named| named == "*" || named == id);
        let known = self.agents();
        let itself = known.iter().copied().filter(|id| *id == from.as_str());
        itself.chain(known.iter().copied().filter(|id| *id != from.as_str() && is_allowed(id))).collect()
    }

    /// Whether an agent may look into the sessions of another one and write to them.
    pub(crate) fn may_reach(&self, from: &AgentId, to: &AgentId) -> bool {
        let rule = &self.config.tools.agent_to_agent;
        let named = |agent: &AgentId| {
            rule.allow.as_ref().is_none_or(|allow| allow.iter().any(|glob| fits(glob, agent.as_str())))
        };
        from == to || (rule.enabled && named(from) && named(to))
    }

    /// Whether a conversation in this place sees only itself and what it started. Who else is there is not to read what
    /// the owner says elsewhere.
    pub(crate) fn sees_only_its_own(&self, place: &Place) -> bool {
        match self.config.tools.sessions.visibility {
            SessionVisibility::Tree => true,
            SessionVisibility::Place => !matches!(place, Place::Main | Place::Named { .. }),
            SessionVisibility::Agent => matches!(place, Place::Sub { .. }),
        }
    }

    /// What a subagent of this agent is promised: what was asked for, else what is configured for subagents, else what
    /// the agent's own runs get.
    pub(crate) fn sub_spec(&self, scope: &Scope, wish: &Wish<'_>) -> Result<RunSpec, SettingsError> {
        let own = self.agent(&scope.agent).map(|agent| &agent.subagents);
        let thinking = own.and_then(|own| own.thinking).or(self.subagents().thinking).map(level);
        let wish = Wish { thinking: wish.thinking.or(thinking), ..*wish };
        let configured = own.and_then(|own| own.model.as_ref()).or(self.subagents().model.as_ref());
        match configured.map(|model| self.named_chain(model)).filter(|chain| !chain.is_empty()) {
            Some(chain) if wish.model.is_none() => {
                Ok(self.spec(scope, &wish, self.permitted(&scope.agent, chain)?))
            }
            _ => self.run_spec(scope, &wish),
        }
    }

    fn named_chain(&self, model: &AgentModel) -> Vec<ModelRef> {
        let names: Vec<&String> = match model {
            AgentModel::One(name) => vec![name],
            AgentModel::Chain(ModelChain { primary, fallbacks }) => primary.iter().chain(fallbacks).collect(),
        };
        names.into_iter().filter_map(|name| self.catalogue.resolve(name)).collect()
    }

    /// What every subagent is denied.
    pub(super) fn subagent_stage(&self) -> Stage {
        let named = self.config.tools.subagents.tools.allow.as_deref().unwrap_or_default();
        let spawns = self.subagent_depth() > 1;
        let denied = NOT_FOR_SUBAGENTS.into_iter().filter(|tool| {
            let is_named = named.iter().any(|named| named.trim().eq_ignore_ascii_case(tool));
            !(is_named || spawns && SPAWNING.contains(tool))
        });
        Stage { deny: denied.map(str::to_owned).collect(), ..Stage::new(StageKind::Subagent, "subagents") }
    }

    /// How long a result may be used again; never when absent.
    pub(crate) fn reuse(&self) -> Option<Duration> {
        let seconds = self.config.tools.reuse_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

fn size(said: u32) -> usize {
    usize::try_from(said).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate_config::schema::Config;
    use tidegate_policy::tools::Trust;
    use tidegate_protocol::ThinkingLevel;

    use super::*;
    use crate::settings::ToolContext;

    fn settings(config: Value) -> Settings {
        let config: Config = serde_json::from_value(config).unwrap();
        let catalogue = tidegate_models::Catalogue::new(&config, std::path::Path::new(""));
        Settings { config: Box::new(config), catalogue, ..Settings::default() }
    }

    fn agent(id: &str) -> AgentId {
        id.parse().unwrap()
    }

    #[test]
    fn an_agent_starts_itself_and_those_it_is_allowed_to() {
        let list = json!([{"id": "a"}, {"id": "b", "subagents": {"allowAgents": ["c"]}}, {"id": "c"}]);
        let config =
            settings(json!({"agents": {"defaults": {"subagents": {"allowAgents": ["*"]}}, "list": list}}));
        assert_eq!(config.spawn_targets(&agent("a")), ["a", "b", "c"]);
        assert_eq!(config.spawn_targets(&agent("b")), ["b", "c"]);
        assert_eq!(
            settings(json!({"agents": {"list": [{"id": "a"}, {"id": "b"}]}})).spawn_targets(&agent("b")),
            ["b"]
        );
    }

    #[test]
    fn agents_reach_one_another_only_where_both_are_named() {
        let reach = |rule: Value, from: &str, to: &str| {
            settings(json!({"tools": {"agentToAgent": rule}})).may_reach(&agent(from), &agent(to))
        };
        assert!(reach(json!({}), "a", "a"));
        assert!(!reach(json!({}), "a", "b"));
        assert!(reach(json!({"enabled": true}), "a", "b"));
        assert!(reach(json!({"enabled": true, "allow": ["team-*"]}), "team-x", "team-y"));
        assert!(!reach(json!({"enabled": true, "allow": ["team-*"]}), "team-x", "b"));
        assert!(!reach(json!({"enabled": true, "allow": ["team-*"]}), "b", "team-x"));
        assert!(!reach(json!({"enabled": false, "allow": ["*"]}), "a", "b"));
    }

    #[test]
    fn a_subagents_model_is_the_one_asked_for_else_its_agents_else_the_default_for_subagents() {
        let config = settings(json!({"agents": {
            "defaults": {"model": {"primary": "openai/gpt-5"}, "subagents": {"model": "openai/small", "thinking": "off"}},
            "list": [{"id": "a", "subagents": {"model": {"primary": "openai/own", "fallbacks": ["openai/small"]}}},
                {"id": "b"}],
        }}));
        let models = |id: &str, wish: &Wish<'_>| {
            let spec = config.sub_spec(&Scope::personal(agent(id)), wish).unwrap();
            (spec.models.iter().map(ToString::to_string).collect::<Vec<_>>(), spec.thinking)
        };
        let nothing = Wish::default();
        let off = Some(ThinkingLevel::Off);
        assert_eq!(models("a", &nothing), (vec!["openai/own".to_owned(), "openai/small".to_owned()], off));
        assert_eq!(models("b", &nothing), (vec!["openai/small".to_owned()], off));
        let asked =
            Wish { model: Some("openai/gpt-5"), thinking: Some(ThinkingLevel::High), ..Wish::default() };
        assert_eq!(models("b", &asked), (vec!["openai/gpt-5".to_owned()], Some(ThinkingLevel::High)));
    }

    #[test]
    fn a_subagent_has_no_other_conversations_unless_the_configuration_names_them() {
        let shown = |config: Value, tools: &[&'static str]| {
            let settings = settings(config);
            let context = ToolContext { subagent: true, ..ToolContext::default() };
            let pipeline = settings.pipeline(&Scope::personal(agent("main")), &context).unwrap();
            let shown = pipeline.tools(tools.iter().copied(), Trust::Normal);
            shown.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let full = |more: Value| {
            let mut tools = json!({"profile": "full"});
            tools.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "tools": tools })
        };
        let tools = ["read", "sessions_list", "sessions_spawn", "memory_search"];
        assert_eq!(shown(full(json!({})), &tools), ["read"]);
        let named = json!({"subagents": {"tools": {"allow": ["read", "sessions_list"]}}});
        assert_eq!(shown(full(named), &tools), ["read", "sessions_list"]);
        let star = json!({"subagents": {"tools": {"allow": ["*"]}}});
        assert_eq!(shown(full(star), &tools), ["read"]);
        let mut deep = full(json!({}));
        deep["agents"] = json!({"defaults": {"subagents": {"maxDepth": 2}}});
        assert_eq!(shown(deep, &tools), ["read", "sessions_spawn"]);
    }
}
