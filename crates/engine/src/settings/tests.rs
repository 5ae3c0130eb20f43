//! What a configuration promises: the recorded cases of the upstream gateway, and where ours is better on purpose.

use serde_json::{Value, json};
use tidegate_models::Catalogue;
use tidegate_protocol::{Cost, ModelRef, Scope, ThinkingLevel};
use tidegate_runtime::Zone;

use super::{Settings, SettingsError, Wish};

/// 2026-11-16T23:30Z.
const LATE: i64 = 1_794_871_800_000;

pub(crate) fn settings(config: Value) -> Settings {
    let config: tidegate_config::schema::Config = serde_json::from_value(config).unwrap();
    let zone = config.budgets.timezone.as_deref().and_then(Zone::find).unwrap_or_default();
    let catalogue = Catalogue::new(&config, std::path::Path::new(""));
    Settings { revision: "r".to_owned(), config: Box::new(config), catalogue, zone, ..Settings::default() }
}

fn scope() -> Scope {
    Scope::personal("main".parse().unwrap())
}

fn models(settings: &Settings, wish: &Wish<'_>) -> Result<Vec<String>, SettingsError> {
    let spec = settings.run_spec(&scope(), wish)?;
    Ok(spec.models.iter().map(ToString::to_string).collect())
}

fn choosing(model: &str) -> Wish<'_> {
    Wish { model: Some(model), ..Wish::default() }
}

#[test]
fn the_recorded_defaults_hold_where_a_model_is_named() {
    let aliases =
        json!({"openai/gpt-5.2": {"alias": "Fast"}, "anthropic/claude-opus-4-5": {"alias": "opus"}});
    let cases = [
        (json!({"model": {"primary": "fast"}, "models": aliases}), "openai/gpt-5.2"),
        (json!({"model": {"primary": "anthropic/opus-4.5"}}), "anthropic/claude-opus-4-5"),
        (json!({"model": {"primary": "z.ai/glm"}}), "zai/glm"),
        // On purpose: upstream then asks anthropic/claude-opus-4-5, which nobody chose and somebody pays for.
        (json!({}), "offline/echo"),
        (json!({"model": {"primary": " "}}), "offline/echo"),
        (json!({"model": {}}), "offline/echo"),
    ];
    for (defaults, expected) in cases {
        let settings = settings(json!({"agents": {"defaults": defaults}}));
        assert_eq!(models(&settings, &Wish::default()).unwrap(), [expected], "{defaults}");
    }
}

#[test]
fn the_recorded_choices_are_allowed_or_not() {
    let none = settings(json!({}));
    let listed = settings(json!({"agents": {"defaults": {"models": {"openai/gpt-5.2": {}}}}}));
    assert_eq!(models(&none, &choosing("openai/gpt-5.2")).unwrap(), ["openai/gpt-5.2"]);
    assert_eq!(models(&listed, &choosing("openai/gpt-5.2")).unwrap(), ["openai/gpt-5.2"]);
    let other_case = models(&listed, &choosing("openai/GPT-5.2")).unwrap_err();
    assert_eq!(other_case.to_string(), "openai/GPT-5.2 is not one of the models in agents.defaults.models");
    let invalid = SettingsError::UnknownModel { text: "x/".to_owned() };
    assert_eq!(models(&none, &choosing("x/")).unwrap_err(), invalid);
    let local = settings(json!({"agents": {"defaults": {"models": {"local/m": {}}}}}));
    assert!(models(&local, &choosing("local/m")).is_err(), "a provider that nobody knows");
    // On purpose: a bare id is no reference here; upstream takes it for Anthropic's.
    assert!(models(&listed, &choosing("claude-opus-4-5")).is_err());
    // There are no command-line programs as models here.
    assert!(models(&none, &choosing("claude-cli/opus")).is_err());
}

#[test]
fn the_chain_is_the_agents_own_then_the_defaults_without_repetition() {
    let settings = settings(json!({"agents": {
        "defaults": {"model": {"primary": "openai/a", "fallbacks": ["openai/b", "google/c"]}},
        "list": [{"id": "main", "model": {"primary": "google/c", "fallbacks": ["google/c", "openai/a"]}}],
    }}));
    assert_eq!(models(&settings, &Wish::default()).unwrap(), ["google/c", "openai/a"]);
    let provider = Wish { provider: Some("openai"), ..Wish::default() };
    assert_eq!(models(&settings, &provider).unwrap(), ["openai/a"]);
    let both = Wish { provider: Some("openai"), model: Some("b"), ..Wish::default() };
    assert_eq!(models(&settings, &both).unwrap(), ["openai/b"]);
}

#[test]
fn policy_refuses_the_first_model_and_leaves_denied_fallbacks_out() {
    let config = |denied: &str| {
        json!({
            "models": {"policy": {"allowedProviders": ["openai", "google"], "deniedModels": [denied]}},
            "agents": {"defaults": {"model": {"primary": "openai/a", "fallbacks": ["xai/x", "google/c"]},
                "modelPolicy": {"fallback": ["google/d"], "maxCostPerRunUsd": 0.5, "timeoutMs": 900}}},
        })
    };
    let allowed = settings(config("openai/none"));
    assert_eq!(models(&allowed, &Wish::default()).unwrap(), ["openai/a", "google/c", "google/d"]);
    let spec = allowed.run_spec(&scope(), &Wish::default()).unwrap();
    assert_eq!(spec.limits.max_cost, Some(Cost::from_usd(0.5)));
    assert_eq!(spec.limits.call_timeout_ms, Some(900));
    let denied = models(&settings(config("openai/*")), &Wish::default()).unwrap_err();
    assert!(
        matches!(&denied, SettingsError::PolicyDenied { stage, .. } if stage == "models.policy"),
        "{denied}"
    );
    let chosen = models(&allowed, &choosing("xai/grok-4")).unwrap_err();
    assert!(matches!(chosen, SettingsError::PolicyDenied { .. }), "{chosen}");
}

#[test]
fn a_model_that_can_think_does_a_little_unless_somebody_says_otherwise() {
    let level = |config: Value, wish: &Wish<'_>| settings(config).run_spec(&scope(), wish).unwrap().thinking;
    let with = |defaults: Value| json!({"agents": {"defaults": defaults}});
    let thinking = json!({"model": {"primary": "openai/gpt-5.2"}});
    assert_eq!(level(with(thinking.clone()), &Wish::default()), Some(ThinkingLevel::Low));
    assert_eq!(level(with(json!({"model": {"primary": "openai/gpt-4.1"}})), &Wish::default()), None);
    let set = json!({"model": {"primary": "openai/gpt-5.2"}, "thinkingDefault": "high"});
    assert_eq!(level(with(set), &Wish::default()), Some(ThinkingLevel::High));
    let off = Wish { thinking: Some(ThinkingLevel::Off), ..Wish::default() };
    assert_eq!(level(with(thinking), &off), Some(ThinkingLevel::Off));
}

#[test]
fn a_run_reserves_its_dearest_end_in_every_budget_it_belongs_to() {
    let settings = settings(json!({
        "models": {"providers": {"mine": {"api": "ollama", "baseUrl": "http://h", "models": [
            {"id": "cheap", "maxTokens": 1000, "cost": {"input": 1, "output": 2}},
            {"id": "dear", "maxTokens": 100, "cost": {"input": 10, "output": 50}},
        ]}}},
        "agents": {"defaults": {"model": {"primary": "mine/cheap", "fallbacks": ["mine/dear"]}}},
        "budgets": {"timezone": "Europe/Berlin", "tenant": {"dailyUsd": 5},
            "agents": {"main": {"monthlyTokens": 9000, "hardLimit": false}, "other": {"dailyUsd": 1}}},
    }));
    let spec = settings.run_spec(&scope(), &Wish::default()).unwrap();
    let reservation = settings.reservation(&scope(), &spec, 500, LATE).unwrap();
    assert_eq!(reservation.tokens, 1500);
    assert_eq!(reservation.cost, Cost::from_usd(0.01), "500 × $10 + 100 × $50 a million");
    let lines: Vec<_> =
        reservation.lines.iter().map(|line| (line.scope.as_str(), line.period.as_str(), line.hard)).collect();
    assert_eq!(
        lines,
        [("tenant:local", "day:2026-11-17", true), ("agent:local:default:main", "month:2026-11", false)]
    );
}

#[test]
fn where_little_is_left_the_answer_becomes_shorter_and_where_too_little_is_left_it_does_not() {
    let settings = settings(json!({
        "models": {"providers": {"mine": {"api": "ollama", "baseUrl": "http://h", "models": [
            {"id": "m", "contextWindow": 100_000, "maxTokens": 10_000, "cost": {"input": 10, "output": 50}},
        ]}}},
        "agents": {"defaults": {"model": {"primary": "mine/m"}}},
        "budgets": {"tenant": {"dailyUsd": 5}},
    }));
    let spec = settings.run_spec(&scope(), &Wish::default()).unwrap();
    let limits = settings.shortened(&spec, 500, Some(2000), Some(Cost::from_usd(0.03))).unwrap();
    assert_eq!((limits.max_tokens, limits.max_cost), (Some(1500), Some(Cost::from_usd(0.03))));
    assert_eq!(settings.shortened(&spec, 500, Some(600), None), None, "100 tokens are no answer");
    assert_eq!(settings.shortened(&spec, 500, None, Some(Cost::from_usd(0.01))), None);
}

#[test]
fn without_a_budget_nothing_is_reserved() {
    let settings = settings(json!({}));
    let spec = settings.run_spec(&scope(), &Wish::default()).unwrap();
    assert_eq!(settings.reservation(&scope(), &spec, 500, LATE), None);
}

#[test]
fn what_nobody_knows_the_price_of_is_refused_where_a_dollar_limit_is_hard() {
    let config = |hard: bool| {
        settings(json!({
            "models": {"providers": {"mine": {"api": "openai-completions", "baseUrl": "https://h/v1"}}},
            "agents": {"defaults": {"model": {"primary": "openai/gpt-5.2", "fallbacks": ["mine/m"]}}},
            "budgets": {"tenant": {"dailyUsd": 5, "hardLimit": hard}},
        }))
    };
    assert_eq!(models(&config(true), &Wish::default()).unwrap(), ["openai/gpt-5.2"]);
    assert_eq!(models(&config(false), &Wish::default()).unwrap(), ["openai/gpt-5.2", "mine/m"]);
    let model = ModelRef { provider: "mine".to_owned(), model: "m".to_owned() };
    assert_eq!(
        models(&config(true), &choosing("mine/m")).unwrap_err(),
        SettingsError::UnknownPrice { model }
    );
}
