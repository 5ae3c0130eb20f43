//! `models test`: one tiny real call, and what came of it in a person's words.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Wish;
use tidegate_models::{format_tokens, format_usd};
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{ModelTested, TestModel};
use tidegate_runtime::redact;

use super::verdict::{self, Verdict};
use super::{Known, near};
use crate::app::{App, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print, print_json, print_line, printable, table};
use crate::reach::{Reach, reach};
use crate::{Outcome, texts};

pub(in crate::commands) fn test(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let asked = asked(&known, parsed)?;
    let tested = block_on(async {
        let test = async |reach: Reach| reach.test_model(&asked).await;
        reach(app, &known.home, &known.loaded, "models test", test).await
    })?;
    for failure in &tested.passed_over {
        let said = verdict::of(failure, &tested.model, None, now_ms());
        let cause = redact(app.message(&said.message)).into_owned();
        complain(&printable(&app.fill(texts::TEST_PASSED_OVER, &[("cause", &cause)])));
    }
    if let Some(failure) = &tested.failure {
        let near = near(known.catalogue(), &tested.model.to_string());
        let Verdict { code, message, hint } = verdict::of(failure, &tested.model, near, now_ms());
        let failure = Failure::new(code, message);
        return Err(match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        });
    }
    tell(app, parsed, &known, &tested)?;
    Ok(ExitCode::SUCCESS)
}

/// What the words ask for: a model, a provider, or whatever answers by default. Checked here, so that a wrong name is
/// told with what may have been meant.
fn asked(known: &Known, parsed: &Parsed) -> Result<TestModel, Failure> {
    let profile = parsed.value("profile");
    let (provider, model) = match parsed.arguments.first() {
        None => (None, None),
        Some(name) if known.catalogue().resolve(name).is_some() => (None, Some(name.clone())),
        Some(name) if known.catalogue().provider(name).is_some() => (Some(name.clone()), None),
        Some(name) => (None, Some(known.resolve(name)?.to_string())),
    };
    let wish = Wish { provider: provider.as_deref(), model: model.as_deref(), profile, ..Wish::default() };
    let scope = known.settings.scope(parsed.value("agent"))?;
    let spec = known.settings.run_spec(&scope, &wish)?;
    let offline = spec.models.first().is_some_and(|model| model.provider == tidegate_models::OFFLINE);
    if profile.is_some() && offline {
        return Err(Failure::new(ErrorCode::InvalidValue, texts::NO_OFFLINE_PROFILE.with(&[])));
    }
    let agent = parsed.value("agent").map(str::to_owned);
    Ok(TestModel { agent, provider, model, profile: profile.map(str::to_owned) })
}

#[expect(clippy::cast_precision_loss, reason = "seconds with one digit")]
fn tell(app: &App, parsed: &Parsed, known: &Known, tested: &ModelTested) -> Result<(), Failure> {
    let usage = &tested.usage;
    let priced = known.catalogue().model(&tested.model).is_some_and(|model| model.price.is_some());
    if parsed.has("json") {
        return print_json(&json!({
            "success": true,
            "model": tested.model.to_string(),
            "profileId": tested.profile_id,
            "elapsedMs": tested.elapsed_ms,
            "text": tested.text,
            "usage": {
                "input": usage.input, "output": usage.output,
                "cacheRead": usage.cache_read, "cacheWrite": usage.cache_write,
            },
            "costUsd": priced.then(|| usage.cost.usd()),
            "estimated": tested.estimated,
        }));
    }
    print_line(&app.fill(texts::TEST_OK, &[("model", &printable(&tested.model.to_string()))]))?;
    let mut rows = Vec::new();
    let mut row = |title: tidegate_runtime::catalogue::Text, value: String| {
        rows.push(vec![format!("  {}", app.output.dim(app.say(title))), printable(&value)]);
    };
    row(texts::TEST_SAID, one_line(tested.text.as_deref().unwrap_or_default()));
    if let Some(profile) = &tested.profile_id {
        row(texts::TEST_CREDENTIAL, profile.clone());
    }
    row(texts::TEST_TOOK, format!("{:.1} s", tested.elapsed_ms as f64 / 1000.0));
    let (sent, received) = (format_tokens(usage.prompt()), format_tokens(usage.output));
    row(texts::TEST_TOKENS, app.fill(texts::TOKENS_IN_OUT, &[("in", &sent), ("out", &received)]));
    let cost = if priced { format_usd(usage.cost.usd()) } else { app.say(texts::COST_UNKNOWN).to_owned() };
    row(texts::TEST_COST, cost);
    print(&table(&rows))?;
    if tested.estimated {
        complain(app.say(texts::TEST_ESTIMATED));
    }
    Ok(())
}

/// A model asked for one word may say many.
fn one_line(text: &str) -> String {
    const SHOWN: usize = 60;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(SHOWN).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}
