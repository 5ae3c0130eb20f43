//! `gateway call`: one method of our own dialect, for scripts and for whoever wants to see what the gateway answers.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_client::Client;
use tidegate_protocol::ErrorCode;

use super::{ANSWER, not_running};
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::print_json;
use crate::texts::events as words;

/// How long a method may take: some wait for a run.
const CALL: Duration = Duration::from_mins(10);

pub(in crate::commands) fn call(_app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let params = params(command, parsed)?;
    let home = home_of(parsed)?;
    let method = &parsed.arguments[0];
    let answer = block_on(async {
        let client = Client::control(home.control_socket());
        let (link, _) = client.link(ANSWER).await.map_err(not_running)?;
        Ok(link.call::<_, Value>(method, &params, CALL).await?)
    })?;
    print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}

fn params(command: &'static Command, parsed: &Parsed) -> Result<Value, Failure> {
    let Some(text) = parsed.value("params") else { return Ok(json!({})) };
    serde_json::from_str(text).map_err(|cause| {
        let message = words::INVALID_PARAMS.with(&[("cause", &cause)]);
        Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
    })
}
