//! `sessions rename` and `sessions reset`: a title for a conversation, or a new beginning.

use std::process::ExitCode;

use serde_json::json;
use tidegate_storage::SessionRow;

use super::find::named_in;
use super::not_found;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{print_json, print_line, printable};
use crate::reach::{Reach, reach};
use crate::{Outcome, texts};

/// The conversation that the first argument names.
pub(super) fn named(app: &App, parsed: &Parsed) -> Result<SessionRow, Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    block_on(async { Ok(named_in(app, &home, &loaded, parsed).await?.1) })
}

pub(in crate::commands) fn rename(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let row = named(app, parsed)?;
    let words = parsed.arguments[1..].join(" ");
    let title = tidegate_storage::title_of(&words);
    let (home, name) = (home_of(parsed)?, row.key.label());
    let loaded = app.config(&home)?;
    let set = async |reach: Reach| reach.set_title(&row.key, title.as_deref()).await;
    if !block_on(async { reach(app, &home, &loaded, "sessions rename", set).await })? {
        return Err(not_found(app, &name));
    }
    if parsed.has("json") {
        print_json(&json!({ "sessionKey": name, "title": title }))?;
    } else {
        let text = if title.is_some() { texts::sessions::RENAMED } else { texts::sessions::UNNAMED };
        let title = title.unwrap_or_default();
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("name", &printable(&name)), ("title", &printable(&title))];
        print_line(&app.fill(text, &values))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn reset(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let row = named(app, parsed)?;
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let begin = async |reach: Reach| reach.reset_session(&row.key).await;
    block_on(async { reach(app, &home, &loaded, "sessions reset", begin).await })?;
    let name = row.key.label();
    if parsed.has("json") {
        print_json(&json!({ "reset": name, "sessionId": super::name(&row) }))?;
    } else {
        print_line(&app.fill(texts::sessions::RESET, &[("name", &printable(&name))]))?;
    }
    Ok(ExitCode::SUCCESS)
}
