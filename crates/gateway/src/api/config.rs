//! The configuration file: reading it without its secrets, and changing it against the text that was read.

use axum::extract::{Request, State};
use serde_json::{Value, json};
use tidegate_config::{ConfigFile, EditError, Env, LoadError, Problem, Reveal, Secrets};
use tidegate_protocol::api::{ConfigPatched, ConfigView, PatchConfig};
use tidegate_protocol::{ErrorBody, ErrorCode};
use tidegate_runtime::spawn_blocking;

use crate::answer::{Answered, Refusal, json};
use crate::body;
use crate::gate::Gate;

pub(crate) async fn show(State(gate): State<Gate>) -> Answered {
    json(&shown(&gate).await?)
}

pub(crate) async fn shown(gate: &Gate) -> Result<ConfigView, Refusal> {
    let revision = gate.engine().settings().revision().to_owned();
    let view = on_disk(gate, move |file, env| {
        let whole = |reveal| file.get(None, reveal, Secrets::Redacted, env).map(Option::unwrap_or_default);
        let hash = file.hash()?;
        Ok(ConfigView {
            path: file.path().display().to_string(),
            config: whole(Reveal::Source)?,
            effective: whole(Reveal::Effective)?,
            stale: hash != revision,
            hash,
        })
    });
    view.await?.map_err(|error: LoadError| of_load(&error))
}

pub(crate) async fn schema(State(_gate): State<Gate>) -> Answered {
    json(&tidegate_config::json_schema())
}

pub(crate) async fn patch(State(gate): State<Gate>, request: Request) -> Answered {
    let PatchConfig { base_hash, patch } = body::read(request).await?;
    if !patch.is_object() {
        return Err(Refusal::new(ErrorCode::BadRequest, "`patch` is an object of keys and their new values"));
    }
    let (now, revision) = (gate.shared.now(), gate.engine().settings().revision().to_owned());
    let edited = on_disk(&gate, move |file, env| file.patch(&patch, &base_hash, env, now)).await?;
    let edited = edited.map_err(|error| of_edit(&error))?;
    let told = edited.remaining.iter().chain(&edited.warnings);
    json(&ConfigPatched {
        needs_restart: edited.hash != revision,
        hash: edited.hash,
        revision: edited.revision.number,
        warnings: told.map(ToString::to_string).collect(),
    })
}

/// Works with the file off the asynchronous threads.
async fn on_disk<T: Send + 'static>(
    gate: &Gate,
    work: impl FnOnce(&ConfigFile, &Env) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let home = gate.engine().home();
    let file = ConfigFile::new(home.config_file(), home.revisions());
    let done = spawn_blocking("config", move || work(&file, &Env::of_this_process())).join().await;
    done.map_err(|end| Refusal::new(ErrorCode::Internal, end.to_string()))
}

fn of_load(error: &LoadError) -> Refusal {
    let refusal = Refusal::new(code(error.code()), error.to_string());
    with_problems(refusal, error.problems())
}

fn of_edit(error: &EditError) -> Refusal {
    let refusal = Refusal::from(ErrorBody::new(code(error.code()), error.to_string()));
    with_problems(refusal, error.problems())
}

fn with_problems(refusal: Refusal, problems: &[Problem]) -> Refusal {
    if problems.is_empty() {
        return refusal;
    }
    let issue = |problem: &Problem| json!({ "path": problem.path, "message": problem.message });
    refusal.with_details(json!({ "issues": problems.iter().map(issue).collect::<Vec<Value>>() }))
}

fn code(name: &str) -> ErrorCode {
    ErrorCode::parse(name)
}
