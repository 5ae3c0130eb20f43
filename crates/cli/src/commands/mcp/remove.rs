//! `mcp remove`: a server out of the configuration.

use std::process::ExitCode;

use serde_json::json;
use tidegate_config::Change;
use tidegate_engine::Settings;

use super::{path, unknown};
use crate::Outcome;
use crate::app::{App, config_file, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::commands::config::mention_restart;
use crate::output::{print_json, print_line};
use crate::texts::mcp as words;
use crate::toolbox::mcp_logins;

pub(in crate::commands) fn remove(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let name = parsed.arguments[0].as_str();
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    if !loaded.config.mcp.servers.contains_key(name) {
        return Err(unknown(app, &loaded, name));
    }
    let edited = config_file(&home).edit(&Change::Unset { path: path(name)? }, None, &app.env, now_ms())?;
    // What was meant for this server is of no use to another of the same name.
    block_on(async { Ok(mcp_logins(&home, &Settings::new(&loaded))?.forget(name).await?) })?;
    let revision = edited.revision.number;
    if parsed.has("json") {
        print_json(&json!({ "ok": true, "name": name, "hash": edited.hash, "revision": revision }))?;
    } else {
        print_line(&app.fill(words::REMOVED, &[("name", &name), ("revision", &revision)]))?;
    }
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}
