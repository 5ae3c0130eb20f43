//! `approvals show`: one question, whole.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Settings;
use tidegate_policy::approval::view;

use super::{find, sheet};
use crate::Outcome;
use crate::app::{App, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::output::{print, print_json, print_line};
use crate::store::open_existing;
use crate::texts::tools as words;

pub(in crate::commands) fn show(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let approval = block_on(async {
        let store = open_existing(&home, &loaded.config).await?;
        find(app, store, &tenant, &parsed.arguments[0]).await
    })?;
    let view = view(&approval);
    if parsed.has("json") {
        print_json(&json!(view))?;
    } else {
        print(&sheet(app, &view))?;
        if view.state == "pending" && now_ms() < view.expires_at {
            let answers = app.fill(words::Q_ANSWERS, &[("program", &app.program), ("id", &view.id)]);
            print_line(&format!("\n{answers}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
