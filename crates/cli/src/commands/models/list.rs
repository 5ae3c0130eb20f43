//! `models list`: the models that can be asked, with what they can do and what they cost.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::SettingsError;
use tidegate_models::{
    Api, CredentialKind, ModelInfo, OFFLINE, Price, ProviderInfo, format_tokens, format_usd, parse_ref,
};
use tidegate_protocol::ModelRef;

use super::Known;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::commands::sessions::titles;
use crate::failure::Failure;
use crate::output::{print, print_json, print_line, printable, table};
use crate::{Outcome, texts};

/// One model with everything that is said about it.
struct Row {
    model: ModelInfo,
    credential: bool,
    alias: Option<String>,
    /// Its place among those that answer for the default agent: the first is the primary.
    place: Option<usize>,
}

pub(in crate::commands) fn list(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let rows = rows(&known, parsed)?;
    if parsed.has("json") {
        print_json(&json!({ "models": rows.iter().map(row_json).collect::<Vec<_>>() }))?;
    } else if rows.is_empty() {
        let text = match parsed.value("provider") {
            Some(provider) => app.fill(texts::NO_MODELS_KNOWN, &[("provider", &printable(provider))]),
            None => app.fill(texts::NO_MODELS, &[("program", &app.program)]),
        };
        print_line(&text)?;
    } else {
        let mut lines = vec![titles(app, texts::MODEL_TITLES)];
        lines.extend(rows.iter().map(|row| row_line(app, row)));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(known: &Known, parsed: &Parsed) -> Result<Vec<Row>, Failure> {
    let catalogue = known.catalogue();
    let chain = known.settings.inbound_spec(&known.settings.scope(None)?)?.models;
    let aliases = aliases(known);
    let only = match parsed.value("provider") {
        None => None,
        Some(name) => Some(catalogue.provider(name).ok_or_else(|| {
            let known: Vec<&str> = catalogue.providers().map(|provider| provider.id.as_str()).collect();
            SettingsError::UnknownProvider { provider: printable(name), known: known.join(", ") }
        })?),
    };
    let mut rows = Vec::new();
    for provider in catalogue.providers().filter(|provider| only.is_none_or(|only| only.id == provider.id)) {
        let found = known.registry.candidates(&provider.id)?;
        let own = found.iter().any(|candidate| candidate.kind != CredentialKind::None);
        let answers = chain.iter().any(|model| model.provider == provider.id && provider.id != OFFLINE);
        if only.is_none() && !parsed.has("all") && !own && !provider.configured && !answers {
            continue;
        }
        for model in models_of(provider, &chain) {
            let reference = model.reference();
            rows.push(Row {
                credential: !found.is_empty() || provider.api == Api::Scripted,
                alias: aliases.get(&reference.to_string()).cloned(),
                place: chain.iter().position(|used| *used == reference),
                model,
            });
        }
    }
    Ok(rows)
}

/// Those that are known, and those that are used without being known.
fn models_of(provider: &ProviderInfo, chain: &[ModelRef]) -> Vec<ModelInfo> {
    let mut models = provider.models.clone();
    for used in chain.iter().filter(|used| used.provider == provider.id) {
        if !models.iter().any(|model| model.id == used.model) {
            models.push(provider.model(&used.model));
        }
    }
    models
}

fn aliases(known: &Known) -> BTreeMap<String, String> {
    let said = known.loaded.config.agents.defaults.models.iter();
    let named = said.filter_map(|(model, entry)| Some((parse_ref(model, OFFLINE)?, entry.alias.clone()?)));
    named.map(|(model, alias)| (model.to_string(), alias)).collect()
}

fn row_line(app: &App, row: &Row) -> Vec<String> {
    let model = &row.model;
    let mut can = Vec::new();
    if model.reasoning {
        can.push(app.say(texts::THINKS));
    }
    if model.images {
        can.push(app.say(texts::SEES));
    }
    let place = match row.place {
        None => String::new(),
        Some(0) => app.say(texts::PRIMARY).to_owned(),
        Some(n) => app.fill(texts::FALLBACK_N, &[("n", &n)]),
    };
    vec![
        printable(&model.reference().to_string()),
        printable(&model.name),
        if model.api == Api::Offline {
            "-".to_owned()
        } else {
            format_tokens(u64::from(model.context_window))
        },
        price(app, model.price.as_ref()),
        can.join(" "),
        app.say(if row.credential { texts::YES } else { texts::NO }).to_owned(),
        printable(row.alias.as_deref().unwrap_or_default()),
        place,
    ]
}

/// For a million tokens in and out.
fn price(app: &App, price: Option<&Price>) -> String {
    match price {
        None => "?".to_owned(),
        Some(price) if price.input <= 0.0 && price.output <= 0.0 => app.say(texts::FREE).to_owned(),
        Some(price) => format!("{} / {}", format_usd(price.input), format_usd(price.output)),
    }
}

fn row_json(row: &Row) -> Value {
    let model = &row.model;
    json!({
        "model": model.reference().to_string(),
        "provider": model.provider,
        "name": model.name,
        "api": model.api.as_str(),
        "contextWindow": model.context_window,
        "maxTokens": model.max_tokens,
        "reasoning": model.reasoning,
        "images": model.images,
        "tools": model.tools,
        "price": model.price.map(|price| json!({
            "input": price.input, "output": price.output,
            "cacheRead": price.cache_read, "cacheWrite": price.cache_write,
        })),
        "credential": row.credential,
        "alias": row.alias,
        "place": row.place,
    })
}
