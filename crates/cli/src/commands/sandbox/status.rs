//! `sandbox status`: tries everything that could hold programs, and says what came of it.

use std::process::ExitCode;

use serde_json::json;
use tidegate_policy::Profile;

use super::{Known, named_profile};
use crate::Outcome;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::commands::tools::fitted;
use crate::output::{complain, print, print_json, print_line, printable};
use crate::sandboxes::sandboxes;
use crate::texts::sandbox as words;
use crate::toolbox::mention_bare;

pub(in crate::commands) fn status(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let sandboxes = sandboxes(app, &known.home, &known.settings)?;
    if app.output.terminal && !parsed.has("json") {
        complain(&app.output.dim(app.say(words::LOOKING)));
    }
    let only = named_profile(command, parsed)?;
    let profile = only.unwrap_or(known.confinement.profile);
    let is_asked = |profile| only.is_none_or(|only| only == profile);
    let reports = block_on(async { Ok(sandboxes.report_on(is_asked).await) })?;
    let works = profile == Profile::None
        || reports.iter().any(|report| report.profile == profile && report.probe.works());
    let code = if works { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if parsed.has("json") {
        print_json(&json!({
            "agent": known.scope.agent, "profile": profile, "by": known.keys.profile, "works": works,
            "backends": reports,
        }))?;
        return Ok(code);
    }
    let mut rows =
        vec![app.say(words::TITLES).split(',').map(|title| app.output.dim(title)).collect::<Vec<_>>()];
    rows.extend(reports.iter().map(|report| {
        let state = if report.probe.works() { words::WORKS } else { words::FAILS };
        let detail = printable(report.probe.detail());
        vec![report.profile.name().to_owned(), report.backend.to_owned(), app.say(state).to_owned(), detail]
    }));
    print(&fitted(app, &rows))?;
    let text = if works { words::USED } else { words::USED_FAILS };
    let values: [(&str, &dyn std::fmt::Display); 3] =
        [("agent", &known.scope.agent), ("profile", &profile.name()), ("key", &known.keys.profile)];
    print_line(&app.fill(text, &values))?;
    let session = tidegate_protocol::SessionKey::named(known.scope.clone(), "main").to_string();
    mention_bare(app, &known.settings, &known.scope, &session);
    Ok(code)
}
