//! A question as a person reads it before the answer. Every text of the view is inert already.
//!
//! First what would be done, then why it is asked, and last, next to where the answer is typed, what "always" means.

use std::fmt::Write as _;

use serde_json::Value;
use tidegate_protocol::SessionKey;
use tidegate_protocol::api::ApprovalView;
use tidegate_runtime::catalogue::Text;

use super::words_of::{state, time_left};
use crate::app::{App, now_ms};
use crate::commands::sessions::label_of;
use crate::commands::tools::fitted;
use crate::output::printable;
use crate::texts::tools as words;

pub(in crate::commands) fn sheet(app: &App, view: &ApprovalView) -> String {
    let pending = view.state == "pending";
    let lead = if pending { words::Q_WANTS } else { words::Q_WANTED };
    let lead = app.fill(lead, &[("agent", &view.agent), ("tool", &view.tool)]);
    let mut text = format!("{}\n", app.output.bold(&lead));
    text.push_str(&what(app, view));
    let _ = write!(text, "\n{}", fitted(app, &facts(app, view, pending)));
    if let Some(rule) = &view.rule {
        let _ = writeln!(text, "\n{}\n  {rule}", app.output.bold(app.say(words::Q_RULE)));
    } else if pending {
        let _ = writeln!(text, "\n{}", app.say(words::Q_NO_RULE));
    }
    text
}

/// What would be done, whole.
fn what(app: &App, view: &ApprovalView) -> String {
    let mut text = String::new();
    let mut part = |title: Text, lines: &mut dyn Iterator<Item = String>| {
        let _ = writeln!(text, "\n{}", app.output.bold(app.say(title)));
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    };
    if view.commands.is_empty() {
        part(words::Q_ARGS, &mut arguments(&view.args).into_iter());
    } else {
        let title = if view.shell { words::Q_SHELL } else { words::Q_COMMANDS };
        part(title, &mut view.commands.iter().flat_map(|command| command.lines()).map(str::to_owned));
    }
    if let Some(preview) = &view.preview {
        part(words::Q_PREVIEW, &mut preview.lines().map(str::to_owned));
    }
    text
}

/// One line for each argument.
fn arguments(args: &Value) -> Vec<String> {
    match args {
        Value::Object(fields) => fields.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
        other => vec![other.to_string()],
    }
}

fn facts(app: &App, view: &ApprovalView, pending: bool) -> Vec<Vec<String>> {
    let row = |title: Text, value: &str| vec![app.output.dim(app.say(title)), value.to_owned()];
    let mut rows: Vec<Vec<String>> = view.cwd.iter().map(|cwd| row(words::Q_CWD, cwd)).collect();
    rows.extend(view.env.iter().map(|variable| row(words::Q_ENV, variable)));
    // The folder in which commands start is there already, by its whole name.
    let said = |subject: &&String| view.cwd.is_none() || *subject != "path .";
    rows.extend(view.subjects.iter().filter(said).map(|subject| row(words::Q_TOUCHES, subject)));
    rows.push(row(words::Q_REASON, &view.reason));
    rows.push(row(words::Q_WHO, &view.requester));
    let session =
        view.session.parse::<SessionKey>().map_or_else(|_| view.session.clone(), |key| label_of(&key));
    rows.push(row(words::Q_SESSION, &printable(&session)));
    rows.push(row(words::Q_ID, &view.id.to_string()));
    if pending {
        rows.push(row(words::Q_EXPIRES, &time_left(app, view.expires_at - now_ms())));
    } else {
        rows.push(row(words::Q_STATE, &state(app, &view.state)));
    }
    rows.extend(view.answered_by.iter().map(|by| row(words::Q_ANSWERED, by)));
    rows.extend(view.answer_reason.iter().map(|reason| row(words::Q_ANSWER_REASON, reason)));
    rows
}
