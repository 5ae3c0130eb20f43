//! `approvals show`: one question, whole.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Settings;
use tidegate_policy::approval::view;

use super::{find, sheet};
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::output::{print, print_json};
use crate::store::open_existing;

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
    }
    Ok(ExitCode::SUCCESS)
}
