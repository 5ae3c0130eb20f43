//! `runs`: what was asked, and what became of it.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_protocol::{Entry, ErrorCode, Message, RunId, RunState, SessionKey};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{OutboxRow, RunFilter, RunLookup, RunRow, ToolRunRow};

use super::block_on;
use super::sessions::{find, label_of, limit, titles};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable, table};
use crate::reach::reach;
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Characters of the input a list shows.
const SHOWN: usize = 40;

pub(super) fn list(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let scope = Settings::new(&loaded).reading_scope(parsed.value("agent"))?;
    let mut filter = RunFilter {
        state: parsed.value("state").map(|text| state(command, text)).transpose()?,
        session: parsed.value("session").map(|name| SessionKey::named(scope.clone(), name)),
        limit: limit(command, parsed)?,
    };
    let rows = block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else { return Ok(Vec::new()) };
        // A conversation of a channel, or an id: whatever the list of sessions shows.
        if let Some(name) = parsed.value("session")
            && let Ok(row) = find(app, &store, &scope, name).await
        {
            filter.session = Some(row.key);
        }
        Ok(store.runs(&scope.tenant, filter).await?)
    })?;
    if parsed.has("json") {
        print_json(&json!({ "runs": rows.iter().map(run_json).collect::<Vec<_>>() }))?;
    } else if rows.is_empty() {
        print_line(app.say(texts::NO_RUNS))?;
    } else {
        let mut lines = vec![titles(app, texts::RUN_TITLES)];
        lines.extend(rows.iter().map(|row| {
            vec![
                name(row),
                row.state.as_str().to_owned(),
                printable(&label_of(&row.key)),
                iso_timestamp(row.created_at),
                took(row),
                shortened(&row.input),
            ]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn state(command: &'static Command, text: &str) -> Result<RunState, Failure> {
    match RunState::parse(text) {
        RunState::Unknown(_) => {
            let known = RunState::KNOWN.join(", ");
            let message = texts::INVALID_STATE.with(&[("value", &text), ("known", &known)]);
            Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command))
        }
        state => Ok(state),
    }
}

pub(super) fn show(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let story = read(app, parsed)?;
    let row = &story.run;
    let answer = story.answer();
    if parsed.has("json") {
        let mut value = run_json(row);
        value["result"] = json!(answer);
        value["spec"] = json!(row.spec);
        value["toolRuns"] = story.tools.iter().map(tool_json).collect();
        value["outbox"] = story.parts.iter().map(part_json).collect();
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![
        vec!["run".to_owned(), name(row)],
        vec!["id".to_owned(), row.id.to_string()],
        vec!["session".to_owned(), printable(&row.key.label())],
        vec!["state".to_owned(), row.state.as_str().to_owned()],
        vec!["started".to_owned(), iso_timestamp(row.created_at)],
        vec!["took".to_owned(), took(row)],
        vec!["attempt".to_owned(), row.attempt.to_string()],
        vec!["tokens".to_owned(), format!("{} in, {} out", row.usage.input, row.usage.output)],
        vec!["input".to_owned(), printable(&row.input.text())],
    ];
    if let Some(error) = &row.error {
        lines.push(vec!["error".to_owned(), format!("[{}] {}", error.code, printable(&error.message))]);
    }
    if let Some(answer) = answer {
        lines.push(vec!["answer".to_owned(), printable(&answer)]);
    }
    print(&table(&lines))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn replay(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let story = read(app, parsed)?;
    let steps = story.steps();
    if parsed.has("json") {
        print_json(&json!({ "run": story.run.id, "requestId": story.run.client_key, "steps": steps }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for step in &steps {
        let at = step["at"].as_str().unwrap_or("-");
        let what = step["step"].as_str().unwrap_or_default();
        let detail = step["detail"].as_str().unwrap_or_default();
        print_line(&format!("{at}  {}  {}", app.output.bold(what), printable(detail)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything stored about one run.
struct Story {
    run: RunRow,
    entries: Vec<Entry>,
    tools: Vec<ToolRunRow>,
    parts: Vec<OutboxRow>,
}

impl Story {
    fn answer(&self) -> Option<String> {
        let messages = self.entries.iter().rev().filter_map(|entry| entry.body.message());
        messages.filter(|message| matches!(message, Message::Assistant { .. })).map(Message::text).next()
    }

    /// The run from acceptance to its end, in order.
    fn steps(&self) -> Vec<Value> {
        let run = &self.run;
        let step = |at: Option<i64>, step: &str, detail: String| json!({ "at": at.map(iso_timestamp), "step": step, "detail": detail });
        let models: Vec<_> =
            run.spec.models.iter().map(|model| format!("{}/{}", model.provider, model.model)).collect();
        let mut steps = vec![step(
            Some(run.created_at),
            "accepted",
            format!("by {} for session {}: {}", run.actor, run.key.label(), run.input.text()),
        )];
        if run.attempt > 0 {
            let detail = format!("attempt {}, models {}", run.attempt, models.join(", "));
            steps.push(step(run.started_at, "started", detail));
        }
        for entry in &self.entries {
            if let Some(message) = entry.body.message() {
                let who = format!("{:?}", message.role()).to_lowercase();
                steps.push(step(Some(message.timestamp()), &who, message.text()));
            }
        }
        for tool in &self.tools {
            let detail = format!("{} {} -> {}", tool.tool_name, tool.args, tool.state.as_str());
            steps.push(step(Some(tool.created_at), "tool", detail));
        }
        for part in &self.parts {
            let detail = format!("part {} to {}: {}", part.part, part.lane, part.state.as_str());
            steps.push(step(None, "outbox", detail));
        }
        if run.state.is_terminal() {
            let mut detail = format!("{} tokens in, {} out", run.usage.input, run.usage.output);
            if let Some(error) = &run.error {
                detail = format!("[{}] {}", error.code, error.message);
            }
            steps.push(step(run.finished_at, run.state.as_str(), detail));
        }
        steps
    }
}

fn read(app: &App, parsed: &Parsed) -> Result<Story, Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let wanted = &parsed.arguments[0];
    let not_found = || {
        let message = texts::NO_SUCH_RUN.with(&[("name", &wanted), ("program", &app.program)]);
        Failure::new(ErrorCode::NotFound, message)
    };
    block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else { return Err(not_found()) };
        let lookup = match wanted.parse::<RunId>() {
            Ok(id) => RunLookup::Id(id),
            Err(_) => RunLookup::ClientKey(wanted.clone()),
        };
        let run = store.run(&tenant, &lookup).await?.ok_or_else(not_found)?;
        let entries = match (run.session, run.entries) {
            (Some(session), Some((first, last))) => {
                let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
                store.entries(&tenant, session, first - 1, limit).await?
            }
            _ => Vec::new(),
        };
        let tools = store.tool_runs(&tenant, run.id).await?;
        let parts = store.outbox_of(&tenant, run.id).await?;
        Ok(Story { run, entries, tools, parts })
    })
}

pub(super) fn abort(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let run = read(app, parsed)?.run;
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    if !run.state.is_terminal() {
        block_on(async {
            reach(app, &home, &loaded, "runs abort", async |reach| reach.abort(run.id).await).await
        })?;
    }
    // Whoever was first decides how it ended.
    let after = read(app, parsed)?.run;
    let aborted = !run.state.is_terminal() && after.state == RunState::Aborted;
    if parsed.has("json") {
        print_json(&json!({ "id": run.id, "state": after.state, "aborted": aborted }))?;
    } else if !aborted {
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("id", &name(&run)), ("state", &after.state.as_str())];
        print_line(&app.fill(texts::RUN_ENDED_BEFORE, &values))?;
    } else {
        print_line(&app.fill(texts::RUN_ABORTED, &[("id", &name(&run))]))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn name(row: &RunRow) -> String {
    row.client_key.clone().unwrap_or_else(|| row.id.to_string())
}

fn took(row: &RunRow) -> String {
    match row.finished_at {
        Some(end) => format!("{} ms", (end - row.created_at).max(0)),
        None => "-".to_owned(),
    }
}

fn shortened(input: &Message) -> String {
    let text = printable(&input.text()).replace(['\n', '\t'], " ");
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN - 1).chain(['…']).collect()
}

fn run_json(row: &RunRow) -> Value {
    json!({
        "id": row.id,
        "requestId": name(row),
        "sessionKey": row.key.label(),
        "session": row.session,
        "key": row.key.to_string(),
        "state": row.state.as_str(),
        "attempt": row.attempt,
        "actor": row.actor,
        "input": row.input.text(),
        "error": row.error,
        "usage": row.usage,
        "createdAt": iso_timestamp(row.created_at),
        "startedAt": row.started_at.map(iso_timestamp),
        "finishedAt": row.finished_at.map(iso_timestamp),
    })
}

fn tool_json(tool: &ToolRunRow) -> Value {
    json!({
        "id": tool.id, "callId": tool.call_id, "name": tool.tool_name, "args": tool.args, "result": tool.result,
        "state": tool.state.as_str(), "createdAt": iso_timestamp(tool.created_at),
    })
}

fn part_json(part: &OutboxRow) -> Value {
    json!({
        "id": part.id, "part": part.part, "lane": part.lane, "body": part.body, "state": part.state.as_str(),
        "attempt": part.attempt, "remoteId": part.remote_id, "reason": part.reason,
    })
}
