//! A question as a person reads it before the answer. Every text of the view is inert already.

use std::fmt::Write as _;

use tidegate_protocol::api::ApprovalView;
use tidegate_runtime::catalogue::Text;
use tidegate_runtime::iso_timestamp;

use crate::app::App;
use crate::output::table;
use crate::texts::tools as words;

pub(in crate::commands) fn sheet(app: &App, view: &ApprovalView) -> String {
    let mut rows = vec![
        row(app, words::Q_TOOL, view.tool.clone()),
        row(app, words::Q_ID, view.id.to_string()),
        row(app, words::Q_STATE, view.state.clone()),
        row(app, words::Q_WHO, format!("{} ({}, {})", view.requester, view.agent, view.session)),
        row(app, words::Q_REASON, view.reason.clone()),
        row(app, words::Q_EXPIRES, iso_timestamp(view.expires_at)),
    ];
    rows.extend(view.cwd.iter().map(|cwd| row(app, words::Q_CWD, cwd.clone())));
    rows.extend(view.env.iter().map(|variable| row(app, words::Q_ENV, variable.clone())));
    rows.extend(view.subjects.iter().map(|subject| row(app, words::Q_TOUCHES, subject.clone())));
    rows.extend(view.answered_by.iter().map(|by| row(app, words::Q_ANSWERED, by.clone())));
    rows.extend(view.answer_reason.iter().map(|reason| row(app, words::Q_ANSWER_REASON, reason.clone())));
    let mut text = table(&rows);
    if view.shell {
        let _ = writeln!(text, "\n{}", app.output.bold(app.say(words::Q_SHELL)));
    } else if !view.commands.is_empty() {
        let _ = writeln!(text, "\n{}", app.output.bold(app.say(words::Q_COMMANDS)));
    }
    for command in &view.commands {
        let _ = writeln!(text, "  {command}");
    }
    if view.commands.is_empty() {
        let _ = writeln!(text, "\n{}\n  {}", app.output.bold(app.say(words::Q_ARGS)), view.args);
    }
    if let Some(preview) = &view.preview {
        let _ = writeln!(text, "\n{}", app.output.bold(app.say(words::Q_PREVIEW)));
        for line in preview.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    if let Some(rule) = &view.rule {
        let _ = writeln!(text, "\n{}\n  {rule}", app.output.bold(app.say(words::Q_RULE)));
    }
    text
}

fn row(app: &App, title: Text, value: String) -> Vec<String> {
    vec![app.output.dim(app.say(title)), value]
}
