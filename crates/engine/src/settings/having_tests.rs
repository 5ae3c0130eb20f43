//! What a configuration lets a run have.

use tidegate_config::{ConfigFile, Env};
use tidegate_protocol::{ErrorCode, RunSpec, Scope, ThinkingLevel};

use super::{Settings, SettingsError, Wish};

fn settings(text: &str) -> Settings {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json5");
    std::fs::write(&file, text).unwrap();
    Settings::new(&ConfigFile::new(file, folder.path().join("revisions")).load(&Env::default()).unwrap())
}

fn scope() -> Scope {
    Scope::personal("main".parse().unwrap())
}

fn chosen(settings: &Settings, provider: &str) -> Result<String, ErrorCode> {
    let wish = Wish { provider: Some(provider), ..Wish::default() };
    let spec = settings.run_spec(&scope(), &wish).map_err(|error: SettingsError| error.code())?;
    Ok(spec.models[0].to_string())
}

#[test]
fn naming_a_provider_does_not_lead_past_the_list_of_models() {
    let settings = settings(
        r#"{agents: {defaults: {
            model: {primary: "groq/own"},
            models: {"openai/gpt-4.1-nano": {}},
        }}}"#,
    );
    assert_eq!(chosen(&settings, "openai").as_deref(), Ok("openai/gpt-4.1-nano"));
    assert_eq!(chosen(&settings, "groq").as_deref(), Ok("groq/own"));
    assert_eq!(chosen(&settings, "anthropic"), Err(ErrorCode::PolicyDenied));
    assert_eq!(chosen(&settings, "offline").as_deref(), Ok("offline/echo"));
}

/// Tokens of the answer that a run of this model reserves, and those it may ask the model for.
fn answer(budget: &str, model: &str, thinking: ThinkingLevel) -> (u64, Option<u32>) {
    let settings =
        settings(&format!(r#"{{ {budget} agents: {{defaults: {{model: {{primary: "{model}"}}}}}} }}"#));
    let wish = Wish { thinking: Some(thinking), ..Wish::default() };
    let spec: RunSpec = settings.run_spec(&scope(), &wish).unwrap();
    let reserved = settings.reservation(&scope(), &spec, 0, 0).map_or(0, |reservation| reservation.tokens);
    (reserved, spec.limits.max_tokens)
}

#[test]
fn a_reservation_is_never_less_than_the_answer_that_may_come() {
    let budget = "budgets: {tenant: {dailyTokens: 1000000}},";
    // Would write 128,000 tokens if it were not told otherwise.
    assert_eq!(answer(budget, "openai/gpt-5.2", ThinkingLevel::High), (32_000, Some(32_000)));
    // Thinks beside its answer.
    assert_eq!(answer(budget, "anthropic/claude-sonnet-4-5", ThinkingLevel::Off), (32_000, Some(32_000)));
    assert_eq!(answer(budget, "anthropic/claude-sonnet-4-5", ThinkingLevel::High), (48_384, Some(32_000)));
    assert_eq!(answer("", "openai/gpt-5.2", ThinkingLevel::High), (0, None));
}
