//! `runs`: what was asked, and what became of it.

mod calls;
mod steps;
mod story;

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_policy::approval::{Approval, ApprovalState};
use tidegate_protocol::{ErrorCode, Message, RunState, SessionKey};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{OutboxRow, RunFilter, RunRow, ToolRunRow};

use self::calls::outcomes;
use self::steps::steps;
use self::story::{Story, read};
use super::block_on;
use super::gist;
use super::sessions::{Whose, find_of, label_of, limit, titles};
use super::tools::fitted;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable};
use crate::reach::reach;
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Runs looked through for those of one agent.
const MOST: u32 = 10_000;
/// Characters of the input a list shows.
const SHOWN: usize = 40;

pub(super) fn list(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let mut filter = RunFilter {
        state: parsed.value("state").map(|text| state(command, text)).transpose()?,
        session: None,
        parent: None,
        limit: limit(command, parsed)?,
    };
    let rows = block_on(async {
        let store = open_existing(&home, &loaded.config).await?;
        let whose = Whose::of(&settings, store.as_ref(), parsed).await?;
        let Some(store) = store else { return Ok(Vec::new()) };
        if let Some(name) = parsed.value("session") {
            // A conversation of a channel, or an id: whatever the list of sessions shows.
            filter.session = Some(match find_of(app, &store, &whose, name).await {
                Ok(row) => row.key,
                Err(_) => SessionKey::named(whose.scope.clone(), name),
            });
        }
        let Some(agent) = whose.agent() else { return Ok(store.runs(&whose.scope.tenant, filter).await?) };
        let wanted = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let mut rows = store.runs(&whose.scope.tenant, RunFilter { limit: MOST, ..filter }).await?;
        rows.retain(|row| row.key.scope.agent == agent);
        rows.truncate(wanted);
        Ok(rows)
    })?;
    if parsed.has("json") {
        print_json(&json!({ "runs": rows.iter().map(run_json).collect::<Vec<_>>() }))?;
    } else if rows.is_empty() {
        print_line(app.say(texts::NO_RUNS))?;
    } else {
        let mut lines = vec![titles(app, texts::RUN_TITLES)];
        lines.extend(rows.iter().map(|row| {
            vec![
                printable(&name(row)),
                state_of(app, row),
                printable(&label_of(&row.key)),
                iso_timestamp(row.created_at),
                took(row),
                shortened(&row.input),
            ]
        }));
        print(&fitted(app, &lines))?;
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
        value["toolCalls"] = outcomes(&story, &steps(&story))
            .iter()
            .map(|call| json!({ "callId": call.id, "tool": call.tool, "state": call.became }))
            .collect();
        value["toolRuns"] = story.tools.iter().map(tool_json).collect();
        value["approvals"] = story.approvals.iter().map(approval_json).collect();
        value["children"] = story.children.iter().map(|child| json!(child.id)).collect();
        value["outbox"] = story.parts.iter().map(part_json).collect();
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&fitted(app, &sheet(app, &story, answer)))?;
    Ok(ExitCode::SUCCESS)
}

/// A run on one page: what it was, what it did, and what came of it.
fn sheet(app: &App, story: &Story, answer: Option<String>) -> Vec<Vec<String>> {
    let row = &story.run;
    let mut lines = vec![
        ("run", name(row)),
        ("id", row.id.to_string()),
        ("session", printable(&row.key.label())),
        ("state", state_of(app, row)),
        ("started", iso_timestamp(row.created_at)),
        ("took", took(row)),
        ("attempt", row.attempt.to_string()),
        ("tokens", tokens(app, story)),
        ("cost", tidegate_models::format_usd(row.usage.cost.usd())),
        ("input", printable(&row.input.text())),
    ];
    if let Some(parent) = row.parent {
        lines.push(("parent", parent.to_string()));
    }
    let children =
        story.children.iter().map(|child| ("child", format!("{} ({})", child.id, child.state.as_str())));
    lines.extend(children);
    let called = outcomes(story, &steps(story));
    let tools = called.iter().map(|call| format!("{} ({})", call.tool, call.became));
    let asked = story.approvals.iter().map(|asked| {
        let by = asked.answered.as_ref().map(|answered| format!(" by {}", answered.by)).unwrap_or_default();
        let state = match asked.state {
            ApprovalState::Used => "approved",
            ref state => state.as_str(),
        };
        format!("{} ({state}{by})", asked.tool)
    });
    for (title, items) in [("tools", tools.collect::<Vec<_>>()), ("approvals", asked.collect())] {
        if !items.is_empty() {
            lines.push((title, printable(&items.join(", "))));
        }
    }
    if let Some(error) = &row.error {
        lines.push(("error", format!("[{}] {}", error.code, printable(&error.message))));
    }
    if let Some(answer) = answer.filter(|answer| !answer.is_empty()) {
        lines.push(("answer", printable(&answer)));
    }
    lines.into_iter().map(|(title, text)| vec![title.to_owned(), text]).collect()
}

fn tokens(app: &App, story: &Story) -> String {
    if story.counting {
        return app.say(texts::runs::COUNTING).to_owned();
    }
    let usage = &story.run.usage;
    format!("{} in, {} out", usage.input + usage.cache_read + usage.cache_write, usage.output)
}

/// What became of it, and whether it was only for show.
fn state_of(app: &App, row: &RunRow) -> String {
    let state = row.state.as_str();
    if row.spec.shadow { app.fill(texts::runs::IN_SHADOW, &[("state", &state)]) } else { state.to_owned() }
}

pub(super) fn replay(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let story = read(app, parsed)?;
    let steps = steps(&story);
    let run = &story.run;
    if parsed.has("json") {
        let steps: Vec<Value> = steps.iter().zip(1..).map(|(step, n)| step.json(n)).collect();
        print_json(&json!({
            "run": run.id, "requestId": run.client_key, "sessionKey": run.key.label(),
            "state": run.state.as_str(), "shadow": run.spec.shadow, "parent": run.parent, "steps": steps,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (step, n) in steps.iter().zip(1..) {
        let at = step.at.map_or_else(|| "-".to_owned(), iso_timestamp);
        // A longer text stays under its step.
        let detail = printable(&step.detail).replace('\n', "\n    ");
        print_line(&format!("{n:>3} {at}  {}  {detail}", app.output.bold(step.kind)))?;
    }
    Ok(ExitCode::SUCCESS)
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
            [("id", &printable(&name(&run))), ("state", &after.state.as_str())];
        print_line(&app.fill(texts::RUN_ENDED_BEFORE, &values))?;
    } else {
        print_line(&app.fill(texts::RUN_ABORTED, &[("id", &printable(&name(&run)))]))?;
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
    gist::shortened(&printable(&input.text()), SHOWN)
}

fn run_json(row: &RunRow) -> Value {
    json!({
        "id": row.id,
        "requestId": name(row),
        "sessionKey": row.key.label(),
        "session": row.session,
        "key": row.key.to_string(),
        "state": row.state.as_str(),
        "shadow": row.spec.shadow,
        "parent": row.parent,
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

fn approval_json(asked: &Approval) -> Value {
    json!({
        "id": asked.id, "callId": asked.call_id, "tool": asked.tool, "state": asked.state.as_str(),
        "reason": asked.question.reason, "answeredBy": asked.answered.as_ref().map(|answered| &answered.by),
        "createdAt": iso_timestamp(asked.created_at),
    })
}

fn part_json(part: &OutboxRow) -> Value {
    json!({
        "id": part.id, "part": part.part, "lane": part.lane, "body": part.body, "state": part.state.as_str(),
        "attempt": part.attempt, "remoteId": part.remote_id, "reason": part.reason,
    })
}
