//! `services`: the programs that run beside the gateway, and how they do.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tidegate_client::{Client, ClientError};
use tidegate_engine::{Home, ServiceStatus};
use tidegate_protocol::ErrorCode;
use tidegate_runtime::iso_timestamp;

use super::block_on;
use super::sessions::{limit, titles};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable, table};
use crate::{Outcome, texts};

/// How long a live gateway may take to tell.
const ANSWER: Duration = Duration::from_secs(5);

/// What runs, or nothing if no gateway does.
async fn live(home: &Home) -> Result<Option<Vec<ServiceStatus>>, Failure> {
    let client = Client::control(home.control_socket());
    match client.get::<Vec<ServiceStatus>>("/api/v1/services", ANSWER).await {
        Ok(services) => Ok(Some(services)),
        Err(ClientError::Nobody { .. } | ClientError::Closing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn list(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let services = app.config(&home)?.config.services;
    if parsed.has("json") {
        let rows: Vec<_> = services
            .iter()
            .map(|(name, service)| {
                json!({ "name": name, "enabled": service.enabled, "command": service.command, "args": service.args })
            })
            .collect();
        print_json(&json!({ "services": rows }))?;
    } else if services.is_empty() {
        print_line(app.say(texts::NO_SERVICES))?;
    } else {
        let mut lines = vec![titles(app, texts::SERVICE_LIST_TITLES)];
        lines.extend(services.iter().map(|(name, service)| {
            let words: Vec<_> =
                std::iter::once(&service.command).chain(&service.args).map(|word| printable(word)).collect();
            vec![name.clone(), if service.enabled { "yes" } else { "no" }.to_owned(), words.join(" ")]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn status(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let found = block_on(live(&home))?;
    let running = found.is_some();
    let mut services = found.unwrap_or_default();
    if let Some(only) = parsed.arguments.first() {
        services.retain(|status| status.name == *only);
        if running && services.is_empty() {
            return Err(unknown(app, only));
        }
    }
    if parsed.has("json") {
        print_json(&json!({ "running": running, "services": services }))?;
    } else if !running {
        print_line(&app.fill(texts::SERVICES_STOPPED, &[("program", &app.program)]))?;
    } else if services.is_empty() {
        print_line(app.say(texts::NO_SERVICES))?;
    } else {
        let mut lines = vec![titles(app, texts::SERVICE_TITLES)];
        lines.extend(services.iter().map(|status| {
            vec![
                status.name.clone(),
                json!(status.state).as_str().unwrap_or_default().to_owned(),
                iso_timestamp(status.since),
                status.restarts.to_string(),
                status.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                printable(status.last_error.as_deref().unwrap_or("-")),
            ]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restart(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let name = &parsed.arguments[0];
    let known = block_on(live(&home))?;
    let Some(known) = known else {
        let message = texts::SERVICES_STOPPED.with(&[("program", &app.program)]);
        return Err(Failure::new(ErrorCode::Unavailable, message));
    };
    if !known.iter().any(|status| status.name == *name) {
        return Err(unknown(app, name));
    }
    let restarted: ServiceStatus = block_on(async {
        let client = Client::control(home.control_socket());
        Ok(client.post(&format!("/api/v1/services/{name}/restart"), &json!({}), ANSWER).await?)
    })?;
    if parsed.has("json") {
        print_json(&json!({ "name": restarted.name, "restarting": true }))?;
    } else {
        print_line(&app.fill(texts::SERVICE_RESTARTS, &[("name", name)]))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The end of what a service wrote, whether or not it runs.
pub(super) fn logs(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let name = &parsed.arguments[0];
    if !app.config(&home)?.config.services.contains_key(name) {
        return Err(unknown(app, name));
    }
    let most = usize::try_from(limit(command, parsed)?).unwrap_or(usize::MAX);
    let path = home.logs().join("services").join(format!("{name}.log"));
    let mut lines: VecDeque<String> = VecDeque::new();
    if let Ok(file) = File::open(&path) {
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            lines.push_back(printable(&String::from_utf8_lossy(&line)));
            if lines.len() > most {
                lines.pop_front();
            }
        }
    }
    if parsed.has("json") {
        print_json(&json!({ "name": name, "path": path, "lines": lines }))?;
    } else if lines.is_empty() {
        print_line(&app.fill(texts::SERVICE_SAID_NOTHING, &[("name", name)]))?;
    } else {
        for line in lines {
            print_line(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn unknown(app: &App, name: &str) -> Failure {
    let message = texts::NO_SUCH_SERVICE.with(&[("name", &name), ("program", &app.program)]);
    Failure::new(ErrorCode::NotFound, message)
}
