//! Groups about models: their names, how much they think, what they cost, what their failures mean.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_models::testing::{cooldown_ms, thinking_budget, tool_ids};
use tidegate_models::{
    Aliases, FailureKind, Price, classify, format_tokens, format_usd, is_overflow, normalize_usage,
    parse_ref, short_name, thinking_labels, thinking_levels,
};
use tidegate_protocol::{ModelRef, ThinkingLevel};

use super::{Answer, Compared, compared, in_and_out, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "think" => think,
        "think_level" => think_level,
        "think_levels_for_model" => levels_for_model,
        "think_budget" => think_budget,
        "tool_id" => tool_id,
        "cooldown_ms" => cooldown,
        "classify" => classified,
        "failover_error" => failover_error,
        "model_ref" => model_ref,
        "model_alias" => model_alias,
        "model_short" => model_short,
        "usage_cost" => usage_cost,
        "usage_format" => usage_format,
        "usage_normalize" => usage_normalize,
        _ => return None,
    })
}

fn level_of(text: &str) -> Value {
    ThinkingLevel::parse_alias(text).map_or(Value::Null, |level| level.as_str().into())
}

fn think(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        t: String,
        level: Value,
    }
    let Case { t, level } = read(case)?;
    compared(level, level_of(&t))
}

fn think_level(case: &Value) -> Result<Compared, String> {
    let (text, out): (Option<String>, Value) = in_and_out(case)?;
    compared(out, level_of(&text.unwrap_or_default()))
}

fn levels_for_model(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        provider: Option<String>,
        model: String,
    }
    let (Input { provider, model }, out) = in_and_out(case)?;
    let provider = provider.unwrap_or_default();
    let levels = thinking_levels(&provider, &model);
    compared(
        out,
        json!({
            "xhigh": levels.contains(&ThinkingLevel::Xhigh),
            "levels": levels.iter().map(|level| level.as_str()).collect::<Vec<_>>(),
            "labels": thinking_labels(&provider, &model),
        }),
    )
}

fn think_budget(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        base: u32,
        model_max: u32,
        level: ThinkingLevel,
        max_tokens: u32,
        thinking_budget: u32,
    }
    let case: Case = read(case)?;
    let ours = thinking_budget(case.level, case.base, case.model_max);
    compared(json!([case.max_tokens, case.thinking_budget]), json!(ours))
}

fn tool_id(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        id: String,
        strict: String,
        strict9: String,
    }
    let Case { id, strict, strict9 } = read(case)?;
    compared(json!([strict, strict9]), json!(tool_ids(&id)))
}

fn cooldown(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        error_count: u32,
        ms: i64,
    }
    let Case { error_count, ms } = read(case)?;
    compared(ms, cooldown_ms(error_count))
}

/// The recorded name of a failure. Some of ours are finer: a model that is overloaded is one that is asked too much, and
/// what has no name there needs no other credential.
fn reason(kind: FailureKind) -> Value {
    match kind {
        FailureKind::Auth => "auth".into(),
        FailureKind::RateLimit | FailureKind::Overloaded => "rate_limit".into(),
        FailureKind::Billing => "billing".into(),
        FailureKind::Timeout => "timeout".into(),
        FailureKind::Format => "format".into(),
        _ => Value::Null,
    }
}

/// We have one opinion about an overflow, where they have a strict and a lax one.
fn classified(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        text: String,
        reason: Value,
        overflow: bool,
        likely_overflow: bool,
    }
    let case: Case = read(case)?;
    let overflow = is_overflow(None, &case.text.to_lowercase());
    compared(
        json!([case.reason, case.overflow, case.likely_overflow]),
        json!([reason(classify(None, &case.text).kind), overflow, overflow]),
    )
}

fn failover_error(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Thrown {
        status: Option<u16>,
        code: Option<String>,
        name: Option<String>,
        message: Option<String>,
    }
    #[derive(Deserialize)]
    struct Case {
        err: Thrown,
        reason: Value,
    }
    let Case { err, reason: expected } = read(case)?;
    let words: Vec<String> = [err.code, err.name, err.message].into_iter().flatten().collect();
    compared(expected, reason(classify(err.status, &words.join(" ")).kind))
}

fn told(model: &ModelRef) -> Value {
    json!({ "provider": model.provider, "model": model.model })
}

fn model_ref(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        raw: String,
        default_provider: String,
    }
    let (Input { raw, default_provider }, out) = in_and_out(case)?;
    compared(out, parse_ref(&raw, &default_provider).as_ref().map_or(Value::Null, told))
}

fn model_alias(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        raw: String,
        models: Map<String, Value>,
    }
    let (Input { raw, models }, out) = in_and_out(case)?;
    let alias = |model: &Value| model["alias"].as_str().unwrap_or_default().to_owned();
    let pairs: Vec<(&str, String)> =
        models.iter().map(|(name, model)| (name.as_str(), alias(model))).collect();
    let aliases = Aliases::new(pairs.iter().map(|(name, alias)| (*name, alias.as_str())), "anthropic");
    let ours = match aliases.resolve(&raw, "anthropic") {
        None => Value::Null,
        Some((model, None)) => json!({ "ref": told(&model) }),
        Some((model, Some(alias))) => json!({ "ref": told(&model), "alias": alias }),
    };
    compared(out, ours)
}

fn model_short(case: &Value) -> Result<Compared, String> {
    let (full, out): (String, Value) = in_and_out(case)?;
    compared(out, short_name(&full))
}

/// Money is compared to the billionth of a dollar.
fn dollars(value: f64) -> Value {
    json!((value * 1e9).round() / 1e9)
}

fn usage_cost(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cost {
        input: f64,
        output: f64,
        cache_read: f64,
        cache_write: f64,
    }
    #[derive(Deserialize)]
    struct Input {
        usage: Value,
        cost: Cost,
    }
    #[derive(Deserialize)]
    struct Out {
        usd: Option<f64>,
        text: Value,
    }
    let (Input { usage, cost }, out) = in_and_out(case)?;
    let Out { usd, text } = read(&out)?;
    let Cost { input, output, cache_read, cache_write } = cost;
    let price = Price { input, output, cache_read, cache_write };
    let ours = normalize_usage(&usage).map(|usage| price.of(&usage.tokens()).usd());
    compared(json!([usd.map(dollars), text]), json!([ours.map(dollars), ours.map(format_usd)]))
}

/// Tokens are whole here: a fraction is one of dollars.
fn usage_format(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Out {
        tokens: String,
        usd: String,
    }
    let (number, out): (f64, Value) = in_and_out(case)?;
    let Out { tokens, usd } = read(&out)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let whole = number.round() as u64;
    compared(vec![tokens, usd], vec![format_tokens(whole), format_usd(number)])
}

fn usage_normalize(case: &Value) -> Result<Compared, String> {
    let (raw, out): (Value, Value) = in_and_out(case)?;
    let usage = normalize_usage(&raw);
    let parts = usage.map(|usage| {
        let parts = [
            ("input", usage.input),
            ("output", usage.output),
            ("cacheRead", usage.cache_read),
            ("cacheWrite", usage.cache_write),
            ("total", usage.total),
        ];
        let said = parts.into_iter().filter_map(|(name, tokens)| Some((name, tokens?)));
        said.collect::<BTreeMap<_, _>>()
    });
    compared(
        out,
        json!({
            "usage": parts,
            "nonzero": usage.is_some_and(|usage| usage.is_nonzero()),
            "prompt": usage.and_then(|usage| usage.prompt()),
        }),
    )
}
