//! `mcp list`: the servers there are, and how they do. A running gateway says how it stands with those it uses; the
//! others are reached once, to know whether they work.

use std::process::ExitCode;

use serde_json::json;
use tidegate_config::schema::McpServer;
use tidegate_engine::Settings;
use tidegate_mcp::{Standing, Status};
use tidegate_runtime::iso_timestamp;

use super::{live, look, status_json};
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::commands::sessions::titles;
use crate::commands::tools::fitted;
use crate::output::{print, print_json, print_line, printable};
use crate::texts::mcp as words;
use crate::toolbox::mcp_logins;

pub(in crate::commands) fn list(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let servers = &loaded.config.mcp.servers;
    let statuses = block_on(async {
        let mut statuses = live(&home).await?;
        let mut others = settings.mcp_servers(&home);
        others.retain(|spec| statuses.iter().all(|status| status.name != spec.name));
        statuses.extend(look(app, &home, &settings, others).await?);
        Ok(statuses)
    })?;
    let logins = mcp_logins(&home, &settings)?;
    let login = |name: &str, server: &McpServer| {
        // What cannot be opened is no login that works.
        server.url.as_ref().and_then(|url| logins.summary(name, url).ok().flatten())
    };
    let status = |name: &str| statuses.iter().find(|status| status.name == name);
    if parsed.has("json") {
        let rows: Vec<_> = servers
            .iter()
            .map(|(name, server)| {
                let mut row = status(name)
                    .map_or_else(|| json!({ "name": name, "state": "off", "tools": [] }), status_json);
                row["how"] = how(server).into();
                row["enabled"] = server.enabled.into();
                if let Some(login) = login(name, server) {
                    let ends = iso_timestamp(login.expires_at);
                    row["login"] = json!({
                        "issuer": login.issuer, "scope": login.scope, "expiresAt": ends,
                        "renewable": login.renewable,
                    });
                }
                row
            })
            .collect();
        print_json(&json!({ "servers": rows }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if servers.is_empty() {
        print_line(&app.fill(words::NO_SERVERS, &[("program", &app.program)]))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![titles(app, words::SERVER_TITLES)];
    rows.extend(servers.iter().map(|(name, server)| {
        let status = status(name);
        let tools = status.map_or(0, |status| status.tools.len());
        let restarts = status.map_or(0, |status| status.restarts);
        let how = printable(&how(server));
        vec![printable(name), state(app, status), tools.to_string(), restarts.to_string(), how]
    }));
    print(&fitted(app, &rows))?;
    Ok(ExitCode::SUCCESS)
}

fn state(app: &App, status: Option<&Status>) -> String {
    match status.map(|status| &status.standing) {
        None => app.say(words::DISABLED).to_owned(),
        Some(Standing::Ready { .. }) => app.say(words::READY).to_owned(),
        Some(Standing::Failed { why, .. }) => format!("{}: {}", app.say(words::FAILED), printable(why)),
        Some(Standing::Starting) => app.say(words::STARTING).to_owned(),
        Some(Standing::Idle | Standing::Closed) => String::new(),
    }
}

/// The command or the address, without anything that may be a secret: an argument may be one.
fn how(server: &McpServer) -> String {
    match (&server.url, &server.command) {
        (Some(url), _) => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
        (None, Some(command)) if server.args.is_empty() => command.clone(),
        (None, Some(command)) => format!("{command} …"),
        (None, None) => String::new(),
    }
}
