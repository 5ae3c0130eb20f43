//! `up` and `gateway`: the process that stays, and the commands that reach it.

mod call;
mod files;
mod hold;
mod host;
mod keep;
mod plan;
mod restart;
mod taken;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_client::{Client, ClientError};
use tidegate_config::Origin;
use tidegate_engine::Home;
use tidegate_gateway::ServeError;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::LoginLink;

pub(super) use self::call::call;
use self::hold::{hold, mention_holder};
use self::keep::Outside;
use self::plan::Process;
use super::{block_on, first_run};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print, print_json, print_line, printable, table};
use crate::signals::Signals;
use crate::{Outcome, log, texts};

pub(super) use self::restart::restart;

/// How long a live gateway may take for a small answer.
const ANSWER: Duration = Duration::from_secs(5);

pub(super) fn run(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    host(app, command, parsed, &home, false)
}

/// Sets up what is missing, then runs. Where a gateway runs already, only a new link is wanted.
pub(super) fn up(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let made = first_run::prepare(&home)?;
    if made && !parsed.has("json") {
        let file = home.config_file();
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("home", &home.root().display()), ("file", &file.display())];
        print_line(&app.fill(texts::UP_FIRST, &values))?;
    }
    if let Ok(link) = block_on(fresh_link(&home)) {
        let live = block_on(live_status(&home))?.unwrap_or_default();
        if parsed.has("json") {
            print_line(&json!({ "url": live["address"], "link": link, "pid": live["pid"] }).to_string())?;
            return Ok(ExitCode::SUCCESS);
        }
        let at = live["address"].as_str().unwrap_or_default();
        print_line(&app.fill(texts::UP_RUNNING, &[("url", &at)]))?;
        return show_link(app, parsed, &link);
    }
    host(app, command, parsed, &home, true)
}

/// Runs the gateway until a signal, a request or a failure ends it.
fn host(app: &App, command: &'static Command, parsed: &Parsed, home: &Home, link: bool) -> Outcome {
    let loaded = app.config(home)?;
    let port = port(command, parsed)?;
    log::start(loaded.config.logging.level, &home.logs());
    files::raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (restarter, asks) = tidegate_gateway::restarts();
        let lock = hold(home).await?;
        let process = Process {
            app,
            home,
            command: command.path.join(" "),
            port,
            lock,
            restarter,
            quiet: parsed.has("json"),
        };
        let host = Box::pin(keep::begin(&process, loaded)).await?;
        // Whoever reads that it is there may stop it at once.
        let outside = Outside { signals: Signals::listen()?, asks };
        host.report(&process, link).await?;
        Box::pin(keep::keep(&process, host, outside)).await
    });
    // Nothing is torn down under a run that did not come to its end: it would take that for a failure and write it
    // down. The process ends with it, and the next start settles it like after a crash.
    std::mem::forget(runtime);
    outcome
}

fn port(command: &'static Command, parsed: &Parsed) -> Result<Option<u16>, Failure> {
    let Some(text) = parsed.value("port") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let message = texts::INVALID_PORT.with(&[("value", &text)]);
        Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
    })
}

async fn fresh_link(home: &Home) -> Result<String, Failure> {
    let client = Client::control(home.control_socket());
    let link: LoginLink =
        client.post("/api/v1/login-links", &Value::Null, ANSWER).await.map_err(not_running)?;
    Ok(link.link)
}

pub(super) fn not_running(error: ClientError) -> Failure {
    match error.body().code {
        // Whoever holds the home without a port is no gateway.
        ErrorCode::Unavailable | ErrorCode::Closing => {
            Failure::new(ErrorCode::GatewayStopped, texts::GATEWAY_NOT_RUNNING.with(&[]))
                .with_hint(texts::GATEWAY_NOT_RUNNING_HINT.with(&[("program", &"{program}")]))
        }
        _ => error.into(),
    }
}

fn show_link(app: &App, parsed: &Parsed, link: &str) -> Outcome {
    if parsed.has("json") {
        print_line(&json!({ "link": link }).to_string())?;
    } else {
        print_line(app.say(texts::UP_LINK))?;
        print_line(&format!("  {}", app.output.bold(link)))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn link(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    app.config(&home)?;
    let link = block_on(fresh_link(&home))?;
    show_link(app, parsed, &link)
}

/// What the gateway of this home says about itself; `None` when none runs.
pub(super) async fn live_status(home: &Home) -> Result<Option<Value>, Failure> {
    match Client::control(home.control_socket()).status(ANSWER).await {
        // A command that holds the home for a moment is no gateway.
        Ok(status) if status["address"].is_null() => Ok(None),
        Ok(status) => Ok(Some(status)),
        Err(ClientError::Nobody { .. } | ClientError::Closing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn status(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let live = block_on(live_status(&home))?;
    if parsed.has("json") || !app.output.terminal {
        let mut value = live.clone().unwrap_or_else(|| json!({ "pid": null }));
        value["running"] = json!(live.is_some());
        value["status"] = json!(if live.is_some() { "running" } else { "stopped" });
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(live) = live else {
        print_line(&format!(
            "{}. {}",
            app.say(texts::GATEWAY_NOT_RUNNING),
            app.fill(texts::GATEWAY_NOT_RUNNING_HINT, &[("program", &app.program)])
        ))?;
        mention_holder(app, &home);
        return Ok(ExitCode::SUCCESS);
    };
    let text = |key: &str| match &live[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut rows = vec![
        vec![app.output.dim(app.say(texts::STATUS_GATEWAY)), text("address")],
        vec![app.output.dim(app.say(texts::STATUS_VERSION)), text("version")],
        vec![app.output.dim("pid"), text("pid")],
    ];
    if let Origin::LastGood { revision, .. } = &loaded.origin {
        rows.push(vec![app.output.dim(app.say(texts::STATUS_CONFIG)), format!("revision {revision}")]);
    }
    for service in live["services"].as_array().into_iter().flatten() {
        let word = |key: &str| printable(service[key].as_str().unwrap_or_default());
        rows.push(vec![app.output.dim(&word("name")), word("state")]);
    }
    for problem in live["problems"].as_array().into_iter().flatten() {
        rows.push(vec!["!".to_owned(), problem.as_str().unwrap_or_default().to_owned()]);
    }
    print(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn stop(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let patience = Duration::from_secs(u64::from(loaded.config.gateway.drain_seconds) + 10);
    block_on(async {
        let Some(live) = live_status(&home).await? else {
            if parsed.has("json") {
                print_json(&json!({ "stopped": false, "running": false }))?;
            } else {
                print_line(app.say(texts::GATEWAY_ALREADY_STOPPED))?;
                mention_holder(app, &home);
            }
            return Ok(ExitCode::SUCCESS);
        };
        let client = Client::control(home.control_socket());
        client.post::<Value>("/api/v1/stop", &Value::Null, ANSWER).await.map_err(not_running)?;
        if !parsed.has("json") {
            complain(&app.fill(texts::GATEWAY_STOPPING, &[("pid", &live["pid"])]));
        }
        let begin = Instant::now();
        while home.holder().is_some_and(|holder| holder.contains("(gateway)")) {
            if begin.elapsed() > patience {
                let message = texts::GATEWAY_STILL_THERE.with(&[("seconds", &patience.as_secs())]);
                return Err(Failure::new(ErrorCode::GatewayRunning, message));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if parsed.has("json") {
            print_json(&json!({ "stopped": true, "running": false, "pid": live["pid"] }))?;
        } else {
            print_line(app.say(texts::GATEWAY_GONE))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let code = error.body().code;
        let message = match &error {
            ServeError::PortInUse { address } => texts::E_PORT_IN_USE.with(&[("address", address)]),
            ServeError::Port { address, cause } => {
                texts::E_PORT.with(&[("address", address), ("cause", cause)])
            }
            ServeError::Socket { path, cause } | ServeError::Token { path, cause } => {
                texts::E_HOME_UNUSABLE.with(&[("path", &path.display()), ("cause", cause)])
            }
            ServeError::TokenDamaged { path } => texts::E_TOKEN.with(&[("path", &path.display())]),
            ServeError::NoPort | ServeError::Randomness(_) => Message::plain(error.to_string()),
        };
        Self::new(code, message)
    }
}
