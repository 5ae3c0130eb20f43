//! Which tools a configuration leaves to whom.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_config::schema::{Config, FOREIGN_TOOLS, KNOWN_TOOLS};
use tidegate_models::Catalogue;
use tidegate_policy::exec::{Ask, AskFallback, Security};
use tidegate_policy::tools::{BUILT_IN, Circumstances, Decision, StageKind, Trust, Verdict};
use tidegate_policy::{Preparation, Prepared, Requester, Subject, SubjectKind};
use tidegate_protocol::{Risk, Scope, ToolCall, ToolSource};
use tidegate_storage::OwnCalls;

use super::{GroupTools, Settings, SettingsError, ToolContext};

fn settings(config: Value) -> Settings {
    let config: Config = serde_json::from_value(config).unwrap();
    let catalogue = Catalogue::new(&config, std::path::Path::new(""));
    Settings { revision: "r".to_owned(), config: Box::new(config), catalogue, ..Settings::default() }
}

fn scope(agent: &str) -> Scope {
    Scope::personal(agent.parse().unwrap())
}

fn prepared(tool: &str, path: Option<&str>) -> Prepared {
    let call = ToolCall { id: "1".into(), name: tool.into(), args: json!({}), source: ToolSource::Cli };
    let requester = Requester {
        scope: scope("main"),
        session: "cli".to_owned(),
        actor: "local:owner".to_owned(),
        root: "/work".to_owned(),
    };
    let subjects = path.map(|path| Subject::new(SubjectKind::Path, path)).into_iter().collect();
    Prepared::new(call, requester, Risk::Read, true, Preparation { subjects, ..Preparation::default() })
}

fn decide(settings: &Settings, agent: &str, context: &ToolContext<'_>, call: &Prepared) -> Decision {
    let pipeline = settings.pipeline(&scope(agent), context).unwrap();
    pipeline.decide(call, &Circumstances { trust: Trust::Normal, allowed: &[] })
}

/// The verdict about a tool and the rule that gave it.
fn said(config: Value, agent: &str, context: &ToolContext<'_>, tool: &str) -> (Verdict, StageKind, String) {
    let decision = decide(&settings(config), agent, context, &prepared(tool, None));
    (decision.verdict, decision.stage, decision.rule)
}

fn denied(stage: StageKind, rule: &str) -> (Verdict, StageKind, String) {
    (Verdict::Deny, stage, rule.to_owned())
}

#[test]
fn without_a_word_an_agent_may_look_and_not_touch() {
    let nothing = ToolContext::default();
    assert_eq!(said(json!({}), "main", &nothing, "read").0, Verdict::Allow);
    assert_eq!(said(json!({}), "main", &nothing, "write"), denied(StageKind::Profile, "tools.profile"));
}

#[test]
fn every_place_that_has_a_say_is_a_stage_with_its_own_name() {
    let config = json!({
        "tools": {
            "profile": "full",
            "deny": ["gateway"],
            "modes": {"cron": "deny"},
            "byProvider": {"openai": {"deny": ["ls"]}, "openai/gpt-5.2": {"profile": "minimal", "deny": []}},
            "sandbox": {"tools": {"deny": ["image"]}},
            "subagents": {"tools": {"allow": ["read"]}},
        },
        "agents": {"list": [{"id": "main", "tools": {
            "deny": ["grep"], "byProvider": {"openai": {"deny": ["find"]}},
            "sandbox": {"tools": {"deny": ["canvas"]}}, "subagents": {"tools": {"deny": ["read"]}},
        }}]},
    });
    let verdict = |context: ToolContext<'_>, tool: &str| said(config.clone(), "main", &context, tool);
    let none = ToolContext::default;
    let openai = || ToolContext { provider: Some("openai"), model: Some("o"), ..none() };
    let small = || ToolContext { model: Some("gpt-5.2"), ..openai() };
    let confined = || ToolContext { confined: true, ..none() };
    let group = GroupTools { source: "channels.x.groups.1".into(), allow: None, deny: vec!["nodes".into()] };
    assert_eq!(verdict(none(), "ls").0, Verdict::Allow);
    assert_eq!(verdict(none(), "gateway"), denied(StageKind::Global, "tools.deny[0]"));
    assert_eq!(verdict(none(), "cron"), denied(StageKind::Global, "tools.modes.cron"));
    assert_eq!(verdict(openai(), "ls"), denied(StageKind::Provider, "tools.byProvider.openai.deny[0]"));
    assert_eq!(verdict(small(), "ls").0, Verdict::Deny, "a model's entry does not lift its provider's");
    assert_eq!(verdict(small(), "read").0, Verdict::Deny, "nor does it give more than its profile");
    let own = denied(StageKind::Provider, "agents.list[main].tools.byProvider.openai.deny[0]");
    assert_eq!(verdict(openai(), "find"), own);
    assert_eq!(verdict(none(), "grep"), denied(StageKind::Agent, "agents.list[main].tools.deny[0]"));
    let grouped = ToolContext { group: Some(group), ..none() };
    assert_eq!(verdict(grouped, "nodes"), denied(StageKind::Group, "channels.x.groups.1.deny[0]"));
    assert_eq!(verdict(none(), "image").0, Verdict::Allow);
    assert_eq!(verdict(confined(), "image"), denied(StageKind::Sandbox, "tools.sandbox.tools.deny[0]"));
    assert_eq!(
        verdict(confined(), "canvas"),
        denied(StageKind::Sandbox, "agents.list[main].tools.sandbox.tools.deny[0]")
    );
    let subagent = || ToolContext { subagent: true, ..none() };
    assert_eq!(verdict(subagent(), "ls"), denied(StageKind::Subagent, "tools.subagents.tools.allow"));
    assert_eq!(
        verdict(subagent(), "read"),
        denied(StageKind::Subagent, "agents.list[main].tools.subagents.tools.deny[0]")
    );
}

#[test]
fn an_agents_own_profile_comes_with_its_own_additions_only() {
    let config = json!({
        "tools": {"profile": "safe", "alsoAllow": ["image"]},
        "agents": {"list": [
            {"id": "main"},
            {"id": "adds", "tools": {"alsoAllow": ["write"]}},
            {"id": "own", "tools": {"profile": "minimal", "alsoAllow": ["write"]}},
        ]},
    });
    let allowed = |agent: &str, tool: &str| {
        said(config.clone(), agent, &ToolContext::default(), tool).0 == Verdict::Allow
    };
    assert!(allowed("main", "image") && allowed("main", "read") && !allowed("main", "write"));
    assert!(allowed("adds", "image") && allowed("adds", "read") && allowed("adds", "write"));
    assert!(!allowed("own", "image") && !allowed("own", "read") && allowed("own", "write"));
    let rule = said(config, "own", &ToolContext::default(), "read").2;
    assert_eq!(rule, "agents.list[own].tools.profile");
}

fn with_rule(example: &str) -> Value {
    json!({"tools": {"rules": [{
        "name": "no-env", "tool": "group:fs", "when": {"path": ["**/.env"]}, "unless": {"path": ["docs/**"]},
        "mode": "deny", "reason": "keys live there",
        "examples": {"matches": [{"tool": "read", "path": example}], "misses": [{"path": "docs/.env"}]},
    }]}})
}

#[test]
fn a_rule_is_about_what_a_call_touches() {
    let settings = settings(with_rule("app/.env"));
    let reading =
        |path: &str| decide(&settings, "main", &ToolContext::default(), &prepared("read", Some(path)));
    let decision = reading("app/.env");
    assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Deny, "tools.rules[no-env]"));
    assert_eq!(decision.reason, "keys live there");
    assert_eq!(reading("docs/.env").verdict, Verdict::Allow);
    assert_eq!(reading("app/main.rs").verdict, Verdict::Allow);
}

#[test]
fn a_rule_that_does_not_do_what_its_examples_say_is_not_taken() {
    assert_eq!(settings(with_rule("app/.env")).check_tools(), Ok(()));
    let wrong = settings(with_rule("app/env")).check_tools().unwrap_err();
    assert!(matches!(wrong, SettingsError::ToolRules(_)), "{wrong}");
    assert!(wrong.to_string().contains("tools.rules[no-env]"), "{wrong}");
}

#[test]
fn words_of_a_command_are_separated_by_blanks_and_values_keep_their_type() {
    let rule = json!({"name": "r", "tool": "exec", "mode": "deny",
    "when": {"command": ["git  push"], "args": {"force": [true], "depth": [3], "to": ["prod*"]}},
    "examples": {
        "matches": [{"command": "git push origin", "args": {"force": true, "depth": 3, "to": "production"}}],
        "misses": [
            {"command": "git pull", "args": {"force": true, "depth": 3, "to": "production"}},
            {"command": "git push", "args": {"force": "true", "depth": 3, "to": "production"}},
            {"command": "git push", "args": {"force": true, "depth": 4, "to": "production"}},
            {"command": "git push", "args": {"force": true, "depth": 3, "to": "test"}},
        ],
    }});
    assert_eq!(settings(json!({"tools": {"rules": [rule]}})).check_tools(), Ok(()));
}

#[test]
fn about_commands_the_stricter_of_two_holds() {
    let exec = |all: Value, own: Value| {
        let config =
            json!({"tools": {"exec": all}, "agents": {"list": [{"id": "main", "tools": {"exec": own}}]}});
        let context = ToolContext {
            forbidden: &["/home/state".to_owned()],
            roots: &["/work".to_owned()],
            ..ToolContext::default()
        };
        settings(config).pipeline(&scope("main"), &context).unwrap().exec().clone()
    };
    let plain = exec(json!({}), json!({}));
    assert_eq!(
        (plain.security, plain.ask, plain.fallback),
        (Security::Allowlist, Ask::OnMiss, AskFallback::Deny)
    );
    assert!(!plain.confined && !plain.unconfined_by_name);
    assert_eq!((plain.forbidden, plain.roots), (vec!["/home/state".to_owned()], vec!["/work".to_owned()]));
    assert!(plain.safe_bins.contains(&"jq".to_owned()));
    let strict = exec(
        json!({"security": "full", "ask": "off", "askFallback": "allowlist", "host": "gateway"}),
        json!({"security": "deny", "ask": "always"}),
    );
    assert_eq!((strict.security, strict.ask), (Security::Deny, Ask::Always));
    assert_eq!(strict.fallback, AskFallback::Allowlist);
    assert!(strict.unconfined_by_name);
    let weaker =
        exec(json!({"security": "deny", "ask": "always"}), json!({"security": "full", "ask": "off"}));
    assert_eq!((weaker.security, weaker.ask), (Security::Deny, Ask::Always));
}

#[test]
fn a_session_is_sensitive_by_its_agent_or_by_its_key() {
    let settings = settings(json!({
        "tools": {"sensitiveSessions": ["*:bank:*"]},
        "agents": {"list": [{"id": "main"}, {"id": "doctor", "sensitive": true}]},
    }));
    assert_eq!(settings.trust(&scope("main"), "agent:main/main"), Trust::Normal);
    assert_eq!(settings.trust(&scope("main"), "agent:main/group:bank:1"), Trust::Sensitive);
    assert_eq!(settings.trust(&scope("doctor"), "agent:doctor/main"), Trust::Sensitive);
}

#[test]
fn approvals_wait_as_long_as_configured_and_may_be_given_by_whoever_asked() {
    let plain = settings(json!({}));
    assert_eq!((plain.approval_expiry().as_secs(), plain.own_calls()), (300, OwnCalls::MayApprove));
    let strict = settings(json!({"approvals": {"expirySeconds": 5, "selfApproval": "deny"}}));
    assert_eq!((strict.approval_expiry().as_secs(), strict.own_calls()), (5, OwnCalls::MayNotApprove));
}

#[test]
fn the_configuration_knows_every_tool_that_policy_knows() {
    for name in BUILT_IN {
        assert!(KNOWN_TOOLS.contains(&name) || FOREIGN_TOOLS.contains(&name), "{name}");
    }
    assert!(KNOWN_TOOLS.iter().all(|name| BUILT_IN.contains(name)));
}

#[test]
fn a_pipeline_is_read_once_for_the_same_situation_and_never_for_another() {
    let settings = settings(json!({"tools": {"profile": "safe"}}));
    let read = |context: &ToolContext<'_>| settings.pipeline(&scope("main"), context).unwrap();
    let usual = read(&ToolContext::default());
    assert!(Arc::ptr_eq(&usual, &read(&ToolContext::default())));
    let narrowed = read(&ToolContext { wanted: Some(&["ls".to_owned()]), ..ToolContext::default() });
    assert!(!Arc::ptr_eq(&usual, &narrowed));
    assert_eq!(narrowed.tools(["read"], Trust::Normal), Vec::<&str>::new());
    assert_eq!(usual.tools(["read"], Trust::Normal), ["read"]);
}
