//! `usage`: what models were called for, how many tokens it took and what it cost.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_models::{format_tokens, format_usd};
use tidegate_protocol::{ErrorCode, Usage};
use tidegate_storage::{UsageFilter, UsageGroup, UsageRow};

use super::block_on;
use super::sessions::{Whose, find_of, label_of, titles};
use crate::app::{App, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::bars::bar;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print, print_json, print_line, printable, table};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// More groups than anybody reads.
const GROUPS: u32 = 1000;
/// Cells that a bar may have at most, and at least: below that it says nothing.
const BAR: (usize, usize) = (8, 40);
/// Cells that the numbers of a line take, about.
const NUMBERS: usize = 62;

/// What was found.
#[derive(Default)]
struct Report {
    rows: Vec<UsageRow>,
    /// Models that were used and whose price nobody knows.
    unpriced: Vec<String>,
}

pub(super) fn run(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let group = group(command, parsed)?;
    let days = days(command, parsed)?;
    let now = now_ms();
    let report = block_on(async {
        let store = open_existing(&home, &loaded.config).await?;
        let whose = Whose::of(&settings, store.as_ref(), parsed).await?;
        let Some(store) = store else { return Ok(Report::default()) };
        let session = match parsed.value("session") {
            None => None,
            Some(name) => Some(find_of(app, &store, &whose, name).await?.key),
        };
        let filter = UsageFilter {
            since_ms: settings.zone().start_of_day(now, days - 1),
            until_ms: i64::MAX,
            agent: whose.agent(),
            session,
            group,
            limit: GROUPS,
        };
        let by_model = UsageFilter { group: UsageGroup::Model, ..filter.clone() };
        let rows = store.usage(&whose.scope.tenant, filter).await?;
        let models = store.usage(&whose.scope.tenant, by_model).await?;
        Ok(Report { rows, unpriced: unpriced(&settings, &models) })
    })?;
    if parsed.has("json") {
        print_json(&as_json(group, days, &report))?;
    } else if report.rows.is_empty() {
        print_line(&app.fill(texts::NO_USAGE, &[("days", &days), ("program", &app.program)]))?;
    } else {
        print(&table(&lines(app, group, &report.rows)))?;
        tell_doubts(app, &report);
    }
    Ok(ExitCode::SUCCESS)
}

fn group(command: &'static Command, parsed: &Parsed) -> Result<UsageGroup, Failure> {
    Ok(match parsed.value("by").unwrap_or("day") {
        "day" => UsageGroup::Day,
        "model" => UsageGroup::Model,
        "session" => UsageGroup::Session,
        "agent" => UsageGroup::Agent,
        other => {
            let message = texts::INVALID_BY.with(&[("value", &printable(other))]);
            return Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command));
        }
    })
}

fn days(command: &'static Command, parsed: &Parsed) -> Result<u32, Failure> {
    let Some(text) = parsed.value("days") else { return Ok(30) };
    if let Ok(days @ 1..=400) = text.parse() {
        return Ok(days);
    }
    let message = texts::INVALID_DAYS.with(&[("value", &printable(text))]);
    Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command))
}

/// Those that used something and cost nothing because nobody knows their price.
fn unpriced(settings: &Settings, models: &[UsageRow]) -> Vec<String> {
    let is_unpriced = |row: &&UsageRow| {
        let model = tidegate_models::parse_ref(&row.group, "");
        let info = model.and_then(|model| settings.catalogue().model(&model));
        row.usage.total() > 0 && row.usage.cost.0 == 0 && info.is_none_or(|info| info.price.is_none())
    };
    let names: BTreeSet<String> = models.iter().filter(is_unpriced).map(|row| row.group.clone()).collect();
    names.into_iter().collect()
}

fn total(rows: &[UsageRow]) -> (u64, Usage, u64) {
    rows.iter().fold((0, Usage::default(), 0), |(calls, mut usage, estimated), row| {
        usage += row.usage;
        (calls + row.calls, usage, estimated + row.estimated_calls)
    })
}

/// Money where there is some, tokens otherwise: what the bars compare.
#[expect(clippy::cast_precision_loss, reason = "lengths of bars")]
fn weight(usage: &Usage, by_cost: bool) -> f64 {
    if by_cost { usage.cost.0 as f64 } else { usage.total() as f64 }
}

fn lines(app: &App, group: UsageGroup, rows: &[UsageRow]) -> Vec<Vec<String>> {
    let (calls, sum, _) = total(rows);
    let by_cost = sum.cost.0 > 0;
    let most = rows.iter().map(|row| weight(&row.usage, by_cost)).fold(0.0, f64::max);
    let names: Vec<String> = rows.iter().map(|row| printable(&name(app, group, &row.group))).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let cells = app.output.columns().saturating_sub(NUMBERS + longest).clamp(BAR.0, BAR.1);
    let mut lines = vec![titles(app, texts::USAGE_TITLES)];
    lines[0][0] = app.output.dim(app.say(group_title(group)));
    for (row, name) in rows.iter().zip(names) {
        let mut line = numbers(name, row.calls, &row.usage);
        line.push(app.output.blue(&bar(weight(&row.usage, by_cost), most, cells)));
        lines.push(line);
    }
    let whole = numbers(app.say(texts::USAGE_TOTAL).to_owned(), calls, &sum);
    lines.push(whole.iter().map(|cell| app.output.bold(cell)).collect());
    lines
}

fn numbers(name: String, calls: u64, usage: &Usage) -> Vec<String> {
    vec![
        name,
        calls.to_string(),
        format_tokens(usage.input),
        format_tokens(usage.output),
        format_tokens(usage.cache_read),
        format_tokens(usage.cache_write),
        format_usd(usage.cost.usd()),
    ]
}

fn group_title(group: UsageGroup) -> tidegate_runtime::catalogue::Text {
    match group {
        UsageGroup::Day => texts::USAGE_DAY,
        UsageGroup::Model => texts::USAGE_MODEL,
        UsageGroup::Session => texts::USAGE_SESSION,
        UsageGroup::Agent => texts::USAGE_AGENT,
    }
}

/// A session by the name that `sessions list` shows.
fn name(app: &App, group: UsageGroup, text: &str) -> String {
    match group {
        UsageGroup::Session if text.is_empty() => app.say(texts::USAGE_NO_SESSION).to_owned(),
        UsageGroup::Session => text.parse().map_or_else(|_| text.to_owned(), |key| label_of(&key)),
        _ => text.to_owned(),
    }
}

/// Numbers that are not what they seem.
fn tell_doubts(app: &App, report: &Report) {
    let (_, _, estimated) = total(&report.rows);
    if estimated > 0 {
        complain(&app.fill(texts::USAGE_ESTIMATED, &[("count", &estimated)]));
    }
    if !report.unpriced.is_empty() {
        complain(&app.fill(texts::USAGE_UNPRICED, &[("models", &printable(&report.unpriced.join(", ")))]));
    }
}

fn as_json(group: UsageGroup, days: u32, report: &Report) -> Value {
    let usage = |usage: &Usage| {
        json!({
            "input": usage.input, "output": usage.output,
            "cacheRead": usage.cache_read, "cacheWrite": usage.cache_write,
            "costUsd": usage.cost.usd(),
            // In billionths of a dollar, as it is stored: the exact number.
            "cost": usage.cost.0,
        })
    };
    let row = |row: &UsageRow| {
        json!({
            "group": row.group, "calls": row.calls, "estimatedCalls": row.estimated_calls,
            "usage": usage(&row.usage),
        })
    };
    let by = match group {
        UsageGroup::Day => "day",
        UsageGroup::Model => "model",
        UsageGroup::Session => "session",
        UsageGroup::Agent => "agent",
    };
    let (calls, sum, estimated) = total(&report.rows);
    json!({
        "by": by,
        "days": days,
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "total": { "calls": calls, "estimatedCalls": estimated, "usage": usage(&sum) },
        "unpriced": report.unpriced,
    })
}
