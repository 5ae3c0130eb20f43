//! `models status`: which models would answer for an agent now, with which credentials, and what is left to spend.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_engine::{Settings, StoredStandings};
use tidegate_models::{
    Candidate, CredentialKind, FailureKind, Forgetful, Standing, StandingStore, format_tokens, format_usd,
};
use tidegate_protocol::{ModelRef, RunSpec, Scope};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{BudgetFilter, BudgetLine, BudgetRow, BudgetUse};

use super::Known;
use crate::app::{App, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::bars::gauge;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{print, print_json, print_line, printable, table};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Cells of a budget's bar.
const BAR: usize = 20;

/// One model of the chain.
struct Link {
    model: ModelRef,
    /// Why it is not used, if a rule forbids it.
    denied: Option<String>,
    credentials: Vec<(Candidate, Standing)>,
}

/// One limit of a budget, and what of it is used.
struct Limit {
    line: BudgetLine,
    used: BudgetUse,
}

pub(in crate::commands) fn status(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let scope = settings.scope(parsed.value("agent"))?;
    let spec = settings.inbound_spec(&scope)?;
    let now = now_ms();
    let lines = settings.budget_lines(&scope, now);
    let (links, limits) = block_on(async {
        let mut standings: Arc<dyn StandingStore> = Arc::new(Forgetful);
        let mut used = Vec::new();
        if let Some(store) = open_existing(&home, &loaded.config).await? {
            if !lines.is_empty() {
                used = store.budgets(&scope.tenant, filter(&lines)).await?;
            }
            standings = Arc::new(StoredStandings::new(store, scope.tenant.clone()));
        }
        let known = Known::with(app, home, loaded, standings);
        Ok((links(&known, &scope, &spec).await?, limits(lines, &used)))
    })?;
    if parsed.has("json") {
        print_json(&as_json(&scope, &spec, &links, &limits, now))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&app.output.bold(&app.fill(texts::MODELS_OF, &[("agent", &scope.agent)])))?;
    for (at, link) in links.iter().enumerate() {
        tell_link(app, at, link, now)?;
    }
    tell_spec(app, &spec)?;
    tell_limits(app, &limits)?;
    if links.iter().all(|link| link.model.provider == tidegate_models::OFFLINE) {
        print_line(&app.fill(texts::ONLY_OFFLINE, &[("program", &app.program)]))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(lines: &[BudgetLine]) -> BudgetFilter {
    BudgetFilter {
        scopes: lines.iter().map(|line| line.scope.clone()).collect(),
        periods: lines.iter().map(|line| line.period.clone()).collect(),
        limit: 1000,
    }
}

async fn links(known: &Known, scope: &Scope, spec: &RunSpec) -> Result<Vec<Link>, Failure> {
    let mut links = Vec::new();
    for model in &spec.models {
        let judged = known.settings.permitted(&scope.agent, vec![model.clone()]);
        links.push(Link {
            model: model.clone(),
            denied: judged.err().map(|error| error.to_string()),
            credentials: known.registry.in_order(&scope.agent, model).await?,
        });
    }
    Ok(links)
}

fn limits(lines: Vec<BudgetLine>, rows: &[BudgetRow]) -> Vec<Limit> {
    let used = |line: &BudgetLine| {
        let row = rows.iter().find(|row| row.key.scope == line.scope && row.key.period == line.period);
        row.map(|row| row.used).unwrap_or_default()
    };
    lines.into_iter().map(|line| Limit { used: used(&line), line }).collect()
}

fn tell_link(app: &App, at: usize, link: &Link, now: i64) -> Result<(), Failure> {
    print_line(&format!("{}. {}", at + 1, printable(&link.model.to_string())))?;
    match &link.denied {
        None => print_line(&format!("   {}", app.say(texts::MODEL_ALLOWED)))?,
        Some(reason) => {
            print_line(&format!("   {}", app.fill(texts::MODEL_DENIED, &[("reason", &printable(reason))])))?;
        }
    }
    if link.credentials.is_empty() {
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("provider", &link.model.provider), ("program", &app.program)];
        return print_line(&format!("   {}", app.fill(texts::MODEL_NO_CREDENTIAL, &values)));
    }
    for (candidate, standing) in &link.credentials {
        let kind = app.say(kind_text(candidate.kind));
        let mut line = format!("   - {} ({kind})", printable(&candidate.profile_id));
        if standing.is_cooling(now) {
            let reason = standing.reason.map_or("-", |reason| reason.as_str());
            let until = iso_timestamp(standing.until());
            line = format!("{line}, {}", app.fill(texts::COOLING, &[("until", &until), ("reason", &reason)]));
        }
        print_line(&line)?;
    }
    Ok(())
}

fn kind_text(kind: CredentialKind) -> tidegate_runtime::catalogue::Text {
    match kind {
        CredentialKind::Login => texts::KIND_LOGIN,
        CredentialKind::Token => texts::KIND_TOKEN,
        CredentialKind::Key => texts::KIND_KEY,
        CredentialKind::Environment => texts::KIND_ENVIRONMENT,
        CredentialKind::Configured => texts::KIND_CONFIGURED,
        CredentialKind::None => texts::KIND_NONE,
    }
}

fn tell_spec(app: &App, spec: &RunSpec) -> Result<(), Failure> {
    let thinking = spec.thinking.unwrap_or_default();
    let limits = &spec.limits;
    let mut rows = vec![vec![app.say(texts::THINKING).to_owned(), level(thinking)]];
    let mut row = |title: tidegate_runtime::catalogue::Text, value: String| {
        rows.push(vec![app.say(title).to_owned(), value]);
    };
    row(texts::LIMIT_RUN, format!("{} s", limits.deadline_ms / 1000));
    if let Some(ms) = limits.call_timeout_ms {
        row(texts::LIMIT_CALL, format!("{} s", ms / 1000));
    }
    if let Some(tokens) = limits.max_tokens {
        row(texts::LIMIT_ANSWER, tokens.to_string());
    }
    if let Some(cost) = limits.max_cost {
        row(texts::LIMIT_COST, format_usd(cost.usd()));
    }
    print(&table(&rows))
}

/// As it is written everywhere else.
fn level(level: tidegate_protocol::ThinkingLevel) -> String {
    json!(level).as_str().unwrap_or_default().to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "shares of a bar")]
fn tell_limits(app: &App, limits: &[Limit]) -> Result<(), Failure> {
    if limits.is_empty() {
        return print_line(app.say(texts::NO_BUDGETS));
    }
    print_line(&app.output.bold(app.say(texts::BUDGETS)))?;
    let mut rows = Vec::new();
    for Limit { line, used } in limits {
        let mut row = |part: f64, whole: f64, text: String| {
            let hard = app.say(if line.hard { texts::BUDGET_HARD } else { texts::BUDGET_SOFT });
            let name = format!("  {} {}", line.scope, line.period);
            rows.push(vec![printable(&name), gauge(part, whole, BAR), text, hard.to_owned()]);
        };
        if let Some(most) = line.max_cost {
            let spent = used.cost_spent.0.saturating_add(used.cost_reserved.0);
            let text =
                format!("{} / {}", format_usd(tidegate_protocol::Cost(spent).usd()), format_usd(most.usd()));
            row(spent as f64, most.0 as f64, text);
        }
        if let Some(most) = line.max_tokens {
            let spent = used.tokens_spent.saturating_add(used.tokens_reserved);
            let text = app.fill(
                texts::BUDGET_TOKENS,
                &[("used", &format_tokens(spent)), ("limit", &format_tokens(most))],
            );
            row(spent as f64, most as f64, text);
        }
    }
    print(&table(&rows))
}

fn as_json(scope: &Scope, spec: &RunSpec, links: &[Link], limits: &[Limit], now: i64) -> Value {
    let credential = |(candidate, standing): &(Candidate, Standing)| {
        let cooling = standing.is_cooling(now);
        json!({
            "id": candidate.profile_id,
            "coolingUntil": cooling.then(|| iso_timestamp(standing.until())),
            "reason": standing.reason.filter(|_| cooling).map(FailureKind::as_str),
        })
    };
    let link = |link: &Link| {
        json!({
            "model": link.model.to_string(),
            "allowed": link.denied.is_none(),
            "denied": link.denied,
            "credentials": link.credentials.iter().map(credential).collect::<Vec<_>>(),
        })
    };
    let limit = |Limit { line, used }: &Limit| {
        json!({
            "scope": line.scope, "period": line.period, "hard": line.hard,
            "maxTokens": line.max_tokens, "maxUsd": line.max_cost.map(tidegate_protocol::Cost::usd),
            "tokensSpent": used.tokens_spent, "tokensReserved": used.tokens_reserved,
            "usdSpent": used.cost_spent.usd(), "usdReserved": used.cost_reserved.usd(),
        })
    };
    json!({
        "agent": scope.agent,
        "models": links.iter().map(link).collect::<Vec<_>>(),
        "thinking": level(spec.thinking.unwrap_or_default()),
        "limits": {
            "timeoutMs": spec.limits.deadline_ms, "callTimeoutMs": spec.limits.call_timeout_ms,
            "maxTokens": spec.limits.max_tokens, "maxUsd": spec.limits.max_cost.map(tidegate_protocol::Cost::usd),
        },
        "budgets": limits.iter().map(limit).collect::<Vec<_>>(),
    })
}
