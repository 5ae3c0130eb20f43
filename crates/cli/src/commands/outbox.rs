//! `outbox`: what goes to the networks, and what a person decides about what did not arrive.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_protocol::{ErrorCode, OutboxId};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{Decided, OutboxFilter, OutboxRow, OutboxState};

use super::block_on;
use super::sessions::{limit, titles};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable, table};
use crate::reach::{Decision, reach};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Characters of a part that a list shows.
const SHOWN: usize = 40;
const STATES: [&str; 6] = ["pending", "sending", "sent", "dead", "unknown", "dropped"];

pub(super) fn list(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let channel = match parsed.value("channel") {
        None => None,
        Some(name) => Some(name.parse().map_err(|_| {
            let message = texts::INVALID_CHANNEL.with(&[("value", &name)]);
            Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
        })?),
    };
    let filter = OutboxFilter { states: states(command, parsed)?, channel, limit: limit(command, parsed)? };
    let rows = block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else { return Ok(Vec::new()) };
        Ok(store.outbox(&tenant, filter).await?)
    })?;
    if parsed.has("json") {
        print_json(&json!({ "outbox": rows.iter().map(row_json).collect::<Vec<_>>() }))?;
    } else if rows.is_empty() {
        print_line(app.say(texts::NO_PARTS))?;
    } else {
        let mut lines = vec![titles(app, texts::OUTBOX_TITLES)];
        lines.extend(rows.iter().map(|row| {
            vec![
                row.id.to_string(),
                row.state.as_str().to_owned(),
                printable(&row.lane),
                row.attempt.to_string(),
                iso_timestamp(row.updated_at),
                shortened(row.reason.as_deref().unwrap_or_default()),
                shortened(&words(&row.body)),
            ]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a person would read of a part; a part that says so in no way we know is shown as it is.
fn words(body: &str) -> String {
    let parsed: Value = serde_json::from_str(body).unwrap_or_default();
    let known = [&parsed["output"]["text"], &parsed["error"]["message"], &parsed["text"]];
    known.into_iter().find_map(Value::as_str).unwrap_or(body).to_owned()
}

fn shortened(text: &str) -> String {
    let line = text.replace('\n', " ");
    let cut: String = line.chars().take(SHOWN).collect();
    printable(&if cut.len() < line.len() { format!("{cut}…") } else { cut })
}

fn states(command: &'static Command, parsed: &Parsed) -> Result<Vec<OutboxState>, Failure> {
    let Some(text) = parsed.value("state") else { return Ok(Vec::new()) };
    let invalid = |value: &str| {
        let known = STATES.join(", ");
        let message = texts::INVALID_STATE.with(&[("value", &value), ("known", &known)]);
        Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
    };
    text.split(',')
        .map(|state| match OutboxState::parse(state.trim()) {
            OutboxState::Other(other) => Err(invalid(&other)),
            known => Ok(known),
        })
        .collect()
}

pub(super) fn row_json(row: &OutboxRow) -> Value {
    json!({
        "id": row.id, "runId": row.run, "channel": row.channel, "accountId": row.account_id, "part": row.part,
        "lane": row.lane, "state": row.state.as_str(), "attempt": row.attempt, "remoteId": row.remote_id,
        "reason": row.reason, "body": row.body, "createdAt": iso_timestamp(row.created_at),
        "updatedAt": iso_timestamp(row.updated_at),
    })
}

pub(super) fn retry(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    decide(app, command, parsed, Decision::Retry)
}

pub(super) fn give_up(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    decide(app, command, parsed, Decision::Drop)
}

fn decide(app: &App, command: &'static Command, parsed: &Parsed, decision: Decision) -> Outcome {
    let wanted = &parsed.arguments[0];
    let id: OutboxId = wanted.parse().map_err(|_| {
        let message = texts::INVALID_PART.with(&[("value", wanted)]);
        Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
    })?;
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let decided = block_on(async {
        reach(app, &home, &loaded, "outbox", async |reach| reach.decide(id, decision).await).await
    })?;
    match decided {
        Decided::Done { parts } => {
            if parsed.has("json") {
                print_json(&json!({ "id": id, "parts": parts }))?;
            } else {
                let text = match decision {
                    Decision::Retry => texts::PARTS_RETRIED,
                    Decision::Drop => texts::PARTS_DROPPED,
                };
                print_line(&app.fill(text, &[("count", &parts)]))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Decided::Refused(state) => {
            let message = texts::PART_NOT_DECIDABLE.with(&[("id", &id), ("state", &state.as_str())]);
            Err(Failure::new(ErrorCode::InvalidValue, message))
        }
        Decided::NotFound => {
            let message = texts::NO_SUCH_PART.with(&[("id", &id), ("program", &app.program)]);
            Err(Failure::new(ErrorCode::NotFound, message))
        }
    }
}
