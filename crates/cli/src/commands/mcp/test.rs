//! `mcp test`: reaches one server, and says what it has or what is wrong.

use std::process::ExitCode;

use tidegate_engine::Settings;
use tidegate_mcp::{Reach, Standing, Status};
use tidegate_policy::tools::Verdict;
use tidegate_policy::{Network, Profile};
use tidegate_protocol::ErrorCode;

use super::{look, status_json, unknown};
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print_json, print_line, printable};
use crate::texts::mcp as words;

pub(in crate::commands) fn test(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let name = parsed.arguments[0].as_str();
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let spec = settings.mcp_server_named(name, &home).ok_or_else(|| unknown(app, &loaded, name))?;
    let asks = spec.mode == Verdict::Ask;
    let offline = matches!(&spec.reach, Reach::Stdio(program)
        if program.confinement.profile != Profile::None && program.confinement.network == Network::None);
    let mut statuses = block_on(look(app, &home, &settings, vec![spec]))?;
    let Some(status) = statuses.pop() else { return Err(unknown(app, &loaded, name)) };
    let works = matches!(status.standing, Standing::Ready { .. });
    if parsed.has("json") {
        print_json(&status_json(&status))?;
    } else {
        tell(app, &status, asks, offline)?;
    }
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `offline` says that its sandbox reaches no host.
fn tell(app: &App, status: &Status, asks: bool, offline: bool) -> Result<(), Failure> {
    let name = &status.name;
    match &status.standing {
        Standing::Ready { version, software } => {
            let software = printable(software.as_deref().unwrap_or("?"));
            let count = status.tools.len();
            print_line(&app.fill(
                words::CONNECTED,
                &[("name", name), ("software", &software), ("version", version), ("count", &count)],
            ))?;
            for tool in &status.tools {
                print_line(&format!("  {}", printable(tool)))?;
            }
            for left in &status.left_out {
                let (tool, why) = (printable(&left.tool), printable(&left.why));
                complain(&app.fill(words::LEFT_OUT, &[("tool", &tool), ("why", &why)]));
            }
            if asks {
                complain(&app.fill(words::MODE_HINT, &[("program", &app.program), ("name", name)]));
            }
        }
        Standing::Failed { why, stderr, login, .. } => {
            // One line is in the reason already.
            if stderr.lines().count() > 1 || !why.contains(stderr.trim()) {
                complain(app.say(words::LAST_WORDS));
                complain(&printable(stderr));
            }
            let message = words::NOT_CONNECTED.with(&[("name", name), ("why", &printable(why))]);
            let failure = Failure::new(ErrorCode::Unavailable, message);
            return Err(match login.as_ref().map(|login| login.scope.as_deref()) {
                None if offline => {
                    failure.with_hint(words::OFFLINE.with(&[("program", &app.program), ("name", name)]))
                }
                None => failure,
                Some(None | Some("")) => {
                    failure.with_hint(words::WANTS_LOGIN.with(&[("program", &app.program), ("name", name)]))
                }
                Some(Some(scope)) => failure.with_hint(words::WANTS_SCOPE.with(&[
                    ("program", &app.program),
                    ("name", name),
                    ("scope", &scope),
                ])),
            });
        }
        Standing::Idle | Standing::Starting | Standing::Closed => {}
    }
    Ok(())
}
