//! `stop`: end what is under way, at once.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::{Settings, StopFilter};
use tidegate_protocol::api::StoppedRun;
use tidegate_protocol::{RunState, SessionKey, TenantId};
use tidegate_storage::{RunFilter, Store};

use super::block_on;
use super::gist::shortened;
use super::sessions::{Whose, find_of, label_of};
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::Failure;
use crate::output::{complain, print_json, print_line, printable};
use crate::reach::stop_runs;
use crate::store::open_existing;
use crate::texts::runs as words;

/// Characters of a question that are shown.
const SHOWN: usize = 60;
/// Runs that wait and are looked at.
const MOST_QUEUED: u32 = 1_000;

pub(super) fn run(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let (stopped, waiting) = block_on(async {
        // Where nothing was ever asked there is nothing to stop, and no home to make.
        let store = open_existing(&home, &loaded.config).await?;
        let whose = Whose::of(&settings, store.as_ref(), parsed).await?;
        let Some(store) = store else { return Ok((Vec::new(), false)) };
        let session = match parsed.value("session") {
            Some(name) => Some(match find_of(app, &store, &whose, name).await {
                Ok(row) => row.key,
                // A first message may be under way before there is anything to find.
                Err(failure) => {
                    let key = SessionKey::named(whose.scope.clone(), name);
                    let asked = RunFilter { session: Some(key.clone()), limit: 1, ..RunFilter::default() };
                    if store.runs(&whose.scope.tenant, asked).await?.is_empty() {
                        return Err(failure);
                    }
                    key
                }
            }),
            None => None,
        };
        let filter = StopFilter { session, agent: whose.agent(), waiting: parsed.has("all") };
        // Before: what waits behind a run begins as soon as that one has ended.
        let waiting = !filter.waiting && waits(store.as_ref(), &whose.scope.tenant, &filter).await?;
        Ok((stop_runs(app, &home, &loaded, &filter).await?, waiting))
    })?;
    if parsed.has("json") {
        print_json(&json!({ "stopped": stopped.iter().map(stopped_json).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if stopped.is_empty() {
        print_line(app.say(words::NOTHING_TO_STOP))?;
    }
    for run in &stopped {
        print_line(&line(app, run))?;
    }
    if waiting {
        complain(&app.fill(words::WAITING_LEFT, &[("program", &app.program)]));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether something of what was meant waits for its turn.
async fn waits(store: &dyn Store, tenant: &TenantId, filter: &StopFilter) -> Result<bool, Failure> {
    let (state, session) = (Some(RunState::Queued), filter.session.clone());
    let queued = store.runs(tenant, RunFilter { state, session, limit: MOST_QUEUED, parent: None }).await?;
    Ok(queued.iter().any(|run| filter.agent.as_ref().is_none_or(|agent| run.key.scope.agent == *agent)))
}

/// With the name of the session as the other commands tell it.
fn stopped_json(run: &StoppedRun) -> Value {
    let mut value = json!(run);
    value["sessionKey"] = run.session.parse::<SessionKey>().map_or(Value::Null, |key| json!(key.label()));
    value
}

fn line(app: &App, run: &StoppedRun) -> String {
    let id = run.request_id.as_deref().map_or_else(|| run.run_id.to_string(), printable);
    let session =
        run.session.parse::<SessionKey>().map_or_else(|_| run.session.clone(), |key| label_of(&key));
    let values: [(&str, &dyn std::fmt::Display); 4] = [
        ("id", &id),
        ("session", &printable(&session)),
        ("state", &run.state.as_str()),
        ("text", &shortened(&printable(&run.text), SHOWN)),
    ];
    app.fill(words::STOPPED, &values)
}
