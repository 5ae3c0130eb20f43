//! Events in lines for people. Pure.

use serde_json::Value;
use tidegate_client::Heard;
use tidegate_protocol::Role;
use tidegate_protocol::api::{LogLine, ToolNews, ToolPhase};

use crate::app::App;
use crate::commands::gist::shortened;
use crate::texts::events as words;

/// Characters of a question, a command or a result in a line.
const GIST: usize = 100;

/// What everybody hears, in one line. What people need not see is left out.
pub(super) fn news(app: &App, event: &str, payload: &Value) -> Option<String> {
    let text = |value: &Value| shortened(value.as_str().unwrap_or_default(), GIST);
    match event {
        "run.changed" => {
            let run = &payload["run"];
            let (session, id, state) = (text(&payload["session"]), text(&run["runId"]), text(&run["state"]));
            let code = text(&run["error"]["code"]);
            let form = if code.is_empty() { words::RUN } else { words::RUN_FAILED };
            let asked = text(&run["text"]);
            Some(app.fill(
                form,
                &[("session", &session), ("run", &id), ("state", &state), ("code", &code), ("text", &asked)],
            ))
        }
        // Told by the run already.
        "sessions.changed" if matches!(payload["reason"].as_str(), Some("asked" | "ended")) => None,
        "sessions.changed" => {
            let (session, reason) = (text(&payload["session"]), text(&payload["reason"]));
            Some(app.fill(words::SESSION, &[("session", &session), ("reason", &reason)]))
        }
        "approval.asked" | "approval.settled" => {
            let approval = &payload["approval"];
            let form = if event == "approval.asked" { words::ASKED } else { words::SETTLED };
            let commands: Vec<&str> =
                approval["commands"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let what = shortened(&commands.join("; "), GIST);
            let (id, tool, state) =
                (text(&approval["id"]), text(&approval["tool"]), text(&approval["state"]));
            Some(app.fill(form, &[("id", &id), ("tool", &tool), ("what", &what), ("state", &state)]))
        }
        "health" => {
            let problems: Vec<&str> =
                payload["problems"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let problems = problems.join("; ");
            Some(app.fill(words::HEALTH, &[("ready", &payload["ready"]), ("problems", &problems)]))
        }
        other => Some(other.to_owned()),
    }
}

/// What is told of a conversation: its lines as they become durable, and what happens on the way.
pub(super) fn heard(app: &App, heard: &Heard) -> Vec<String> {
    match heard {
        Heard::Snapshot(snapshot) => snapshot.messages.iter().map(line).collect(),
        Heard::Done(done) => done.messages.iter().map(line).collect(),
        Heard::Tool(tool) => tool_line(app, tool).into_iter().collect(),
        Heard::Run(run) if run.error.is_some() => {
            let state = run.state.as_str();
            vec![app.fill(words::ENDED, &[("run", &run.run_id), ("state", &state)])]
        }
        Heard::Waits(waits) => {
            vec![app.fill(words::WAITS, &[("lane", &waits.lane), ("ahead", &waits.ahead)])]
        }
        Heard::Run(_) | Heard::Delta(_) | Heard::Note(_) | Heard::Refused(_) => Vec::new(),
    }
}

fn line(line: &LogLine) -> String {
    match line.role {
        Role::User => format!("> {}", line.text),
        _ => line.text.clone(),
    }
}

fn tool_line(app: &App, news: &ToolNews) -> Option<String> {
    let tool = news.name.as_deref().unwrap_or_default();
    let cut = |text: &Option<String>| shortened(text.as_deref().unwrap_or_default(), GIST);
    match (news.phase, news.ok) {
        (ToolPhase::Start, _) => Some(app.fill(words::TOOL, &[("tool", &tool), ("gist", &cut(&news.gist))])),
        (ToolPhase::Update, _) => None,
        (ToolPhase::Result, Some(false)) => {
            Some(app.fill(words::TOOL_FAILED, &[("tool", &tool), ("text", &cut(&news.text))]))
        }
        (ToolPhase::Result, _) => {
            let ms = news.duration_ms.unwrap_or_default();
            Some(app.fill(words::TOOL_DONE, &[("tool", &tool), ("ms", &ms)]))
        }
    }
}
