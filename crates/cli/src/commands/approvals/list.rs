//! `approvals list`: what waits for an answer, or everything that was asked.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Settings;
use tidegate_policy::approval::{ApprovalState, view};
use tidegate_protocol::api::ApprovalView;
use tidegate_storage::ApprovalFilter;

use crate::Outcome;
use crate::app::{App, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::commands::sessions::{limit, titles};
use crate::output::{print, print_json, print_line, table};
use crate::store::open_existing;
use crate::texts::tools as words;

/// Characters of a call that a list shows.
const SHOWN: usize = 60;

pub(in crate::commands) fn list(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let all = parsed.has("all");
    let states = if all { Vec::new() } else { vec![ApprovalState::Pending] };
    let filter = ApprovalFilter { states, run: None, limit: limit(command, parsed)? };
    let now = now_ms();
    let mut rows = block_on(async {
        match open_existing(&home, &loaded.config).await? {
            Some(store) => Ok(store.approvals(&tenant, filter).await?),
            None => Ok(Vec::new()),
        }
    })?;
    // One whose time has passed is settled at the next occasion; nobody can answer it any more.
    rows.retain(|approval| all || now < approval.expires_at);
    let views: Vec<ApprovalView> = rows.iter().map(view).collect();
    if parsed.has("json") {
        print_json(&json!({ "approvals": views }))?;
    } else if views.is_empty() {
        let text = if all { words::NO_APPROVALS } else { words::NOTHING_PENDING };
        print_line(&app.fill(text, &[("program", &app.program)]))?;
    } else {
        let mut lines = vec![titles(app, words::APPROVAL_TITLES)];
        lines.extend(views.iter().map(|view| {
            let left = (view.expires_at - now).max(0) / 1_000;
            let until = if view.state == "pending" { format!("{left} s") } else { String::new() };
            vec![
                view.id.to_string(),
                view.state.clone(),
                until,
                view.agent.clone(),
                view.tool.clone(),
                shortened(&gist(view)),
            ]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The one thing about a call that tells most.
fn gist(view: &ApprovalView) -> String {
    // Of a script, that a shell reads it tells less than the script.
    let command = if view.shell { view.commands.last() } else { view.commands.first() };
    command.or(view.subjects.first()).cloned().unwrap_or_else(|| view.args.to_string())
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}
