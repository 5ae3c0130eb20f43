//! `approvals list`: what waits for an answer, or everything that was asked.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Settings;
use tidegate_policy::approval::{ApprovalState, view};
use tidegate_protocol::api::ApprovalView;
use tidegate_storage::ApprovalFilter;

use super::words_of::{state, time_left};
use crate::Outcome;
use crate::app::{App, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::commands::sessions::{limit, titles};
use crate::commands::tools::fitted;
use crate::output::{print, print_json, print_line};
use crate::store::open_existing;
use crate::texts::tools as words;

/// Characters of a call that a list shows.
const SHOWN: usize = 120;

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
            let pending = view.state == "pending";
            let until = if pending { time_left(app, view.expires_at - now) } else { String::new() };
            vec![
                view.id.to_string(),
                state(app, &view.state),
                until,
                view.agent.clone(),
                view.tool.clone(),
                shortened(&gist(view)),
            ]
        }));
        print(&fitted(app, &lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The one thing about a call that tells most. Of several commands none is left out: the last may be the one that counts.
fn gist(view: &ApprovalView) -> String {
    // Before a script there is only the shell that reads it.
    let told = if view.shell { view.commands.get(1..).unwrap_or_default() } else { &view.commands };
    if !told.is_empty() {
        return told.join(" ");
    }
    view.subjects.first().cloned().unwrap_or_else(|| view.args.to_string())
}

/// The beginning and the end of a long text, on one line.
fn shortened(text: &str) -> String {
    let line: Vec<char> = text.chars().map(|c| if c == '\n' { ' ' } else { c }).collect();
    if line.len() <= SHOWN {
        return line.into_iter().collect();
    }
    let half = SHOWN / 2;
    let (start, end) = (&line[..half], &line[line.len() - half..]);
    start.iter().chain(&[' ', '…', ' ']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::{SHOWN, shortened};

    #[test]
    fn a_long_call_is_shown_with_its_end() {
        assert_eq!(shortened("echo a\nrm b"), "echo a rm b");
        let long = shortened(&format!("echo {} && rm -rf x", "a ".repeat(SHOWN)));
        assert!(long.starts_with("echo a") && long.contains('…') && long.ends_with("&& rm -rf x"), "{long}");
    }
}
