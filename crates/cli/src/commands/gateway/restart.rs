//! `gateway restart`: the gateway takes the configuration as it stands in the file, and the command waits for it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_client::Client;
use tidegate_engine::Home;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::ConfigView;

use super::{ANSWER, live_status, not_running};
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print_json, print_line};
use crate::texts::{self, gateway as words};

/// How long the check of the configuration may take.
const CHECK: Duration = Duration::from_secs(25);
/// How long a start may take, besides the runs that are waited for.
const START: Duration = Duration::from_secs(30);

pub(in crate::commands) fn restart(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    block_on(async {
        let Some(live) = live_status(&home).await? else {
            return Err(Failure::new(ErrorCode::GatewayStopped, texts::GATEWAY_NOT_RUNNING.with(&[]))
                .with_hint(texts::GATEWAY_NOT_RUNNING_HINT.with(&[("program", &"{program}")])));
        };
        let begin = Instant::now();
        let client = Client::control(home.control_socket());
        let told: Value = client.post("/api/v1/restart", &Value::Null, CHECK).await.map_err(not_running)?;
        if !parsed.has("json") {
            complain(&app.fill(words::RESTART_ASKED, &[("pid", &live["pid"])]));
        }
        let drain = Duration::from_secs(told["drainSeconds"].as_u64().unwrap_or_default());
        let live = back(&home, begin, drain + START).await?;
        let config: ConfigView = client.get("/api/v1/config", ANSWER).await?;
        if config.stale {
            let log = home.logs().join("gateway.log");
            let message = words::RESTART_FELL_BACK.with(&[("log", &log.display())]);
            return Err(Failure::new(ErrorCode::ConfigInvalid, message));
        }
        mention_other_port(app, &home, &live)?;
        if parsed.has("json") {
            print_json(&json!({ "restarted": true, "url": live["address"], "pid": live["pid"] }))?;
        } else {
            let url = live["address"].as_str().unwrap_or_default();
            print_line(&app.fill(words::RESTART_DONE, &[("url", &url)]))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A port that somebody gave by hand is stronger than the one in the file. Whoever changed the file wonders.
fn mention_other_port(app: &App, home: &Home, live: &Value) -> Result<(), Failure> {
    let written = app.config(home)?.config.gateway.port;
    let given = live["address"].as_str().and_then(|url| url.rsplit(':').next()?.parse::<u16>().ok());
    // A port of 0 in the file is any port.
    if let Some(given) = given.filter(|given| written != 0 && *given != written) {
        complain(&app.fill(words::PORT_STAYS, &[("port", &written), ("given", &given)]));
    }
    Ok(())
}

/// Waits for a gateway that is younger than the question.
async fn back(home: &Home, asked: Instant, patience: Duration) -> Result<Value, Failure> {
    loop {
        let waited = asked.elapsed();
        if let Ok(Some(live)) = live_status(home).await {
            let age = live["uptimeMs"].as_u64().map(Duration::from_millis);
            if live["ready"] == true && age.is_some_and(|age| age < waited) {
                return Ok(live);
            }
        }
        if waited > patience {
            let log = home.logs().join("gateway.log");
            let message =
                words::RESTART_LATE.with(&[("seconds", &patience.as_secs()), ("log", &log.display())]);
            return Err(Failure::new(ErrorCode::GatewayStopped, message));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
