//! `sessions_spawn`: a piece of work in a conversation of its own, whose result is announced to this one.

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_policy::{Permitted, Preparation, Prepared};
use tidegate_protocol::{
    Place as Where, ReplyTarget, Risk, RunId, RunSpec, Scope, SessionKey, ThinkingLevel,
};
use tidegate_storage::{Idempotency, RunRow, SessionChoice, title_of};
use tidegate_tools::{Output, Place, Tool, ToolFailure, ToolSpec, Work};

use super::caller::{Caller, failure, label_of};
use super::{call_key, read, told};
use crate::settings::Wish;
use crate::start::{Core, Engine};
use crate::submit::Request;

/// The name of a conversation that goes once its result is announced begins with this.
const ONCE: &str = "once-";
/// Characters of a conversation's name that are made from its call.
const HASH: usize = 32;

pub(super) const NAME: &str = "sessions_spawn";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// What to do, with everything needed to do it.
    task: String,
    /// A short name.
    label: Option<String>,
    /// Another agent, see agents_list.
    agent_id: Option<String>,
    model: Option<String>,
    /// off, minimal, low, medium, high or xhigh.
    thinking: Option<String>,
    run_timeout_seconds: Option<u32>,
    /// Whether its session is kept afterwards, as it is without this.
    cleanup: Option<Cleanup>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Cleanup {
    Keep,
    Delete,
}

pub(super) struct SessionsSpawn {
    spec: ToolSpec,
    core: Weak<Core>,
}

impl SessionsSpawn {
    pub(super) fn new(core: Weak<Core>) -> Self {
        let description =
            "Starts a subagent on a task in the background. Its result comes later as a message.";
        // What the subagent does is decided about call by call.
        let spec =
            ToolSpec { risk: Risk::Write, idempotent: false, ..ToolSpec::of::<Args>(NAME, description) };
        Self { spec, core }
    }
}

#[async_trait]
impl Tool for SessionsSpawn {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        let args: Args = read(args)?;
        if args.task.trim().is_empty() {
            return Err(ToolFailure::arguments("the task is empty"));
        }
        Ok(Preparation::default())
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let args: Args = read(permitted.prepared().args())?;
        let caller = Caller::of(&self.core, permitted, work)?;
        let parent = caller.run().await?;
        let scope = target(&caller, args.agent_id.as_deref())?;
        check_depth(&caller, &parent)?;
        let cleanup = args.cleanup.unwrap_or(Cleanup::Keep);
        let name = name(parent.id, permitted.prepared(), cleanup);
        let place = Where::Sub { id: name };
        let key = SessionKey { scope: scope.clone(), place, thread: None };
        check_trust(&caller, &key)?;
        check_children(&caller, &parent, &key).await?;
        let label = label(&args);
        let spec = spec(&caller, &scope, &parent, &args)?;
        let model = spec.models.first().map(ToString::to_string);
        let request = Request {
            principal: caller.principal(),
            key: key.clone(),
            session: SessionChoice::Current,
            ephemeral: cleanup == Cleanup::Delete,
            text: args.task,
            // A command in it is words.
            commands: false,
            client_key: None,
            idempotency: Some(call_key(parent.id, permitted.prepared().call())),
            spec,
            reply: announce(&parent, &label),
            join: None,
            patience: None,
        };
        let engine = Engine { core: std::sync::Arc::clone(&caller.core) };
        let child = engine.submit_child(request, parent.id).await.map_err(failure)?;
        Ok(accepted(&key, child.run, &label, model.as_deref()))
    }
}

fn accepted(key: &SessionKey, run: RunId, label: &str, model: Option<&str>) -> Output {
    told(json!({
        "status": "accepted",
        "childSessionKey": key.to_string(),
        "runId": run,
        "label": label,
        "model": model,
        "note": "its result comes as a message; do not wait or poll for it",
    }))
}

/// Under which key the run is accepted that a call starts. `None` when the run may be gone before anybody looks for it.
pub(super) fn key_of(run: RunId, prepared: &Prepared) -> Option<String> {
    let args: Args = read(prepared.args()).ok()?;
    let cleanup = args.cleanup.unwrap_or(Cleanup::Keep);
    (cleanup == Cleanup::Keep).then(|| call_key(run, prepared.call()))
}

/// What the call that started this run had answered.
pub(super) fn answered(child: &RunRow) -> Output {
    let model = child.spec.models.first().map(ToString::to_string);
    accepted(&child.key, child.id, label_of(child).unwrap_or_default(), model.as_deref())
}

/// Whether the conversation goes once its result is announced.
pub(crate) fn cleans_up(key: &SessionKey) -> bool {
    matches!(&key.place, Where::Sub { id } if id.starts_with(ONCE))
}

/// Made from the call: the same call, tried again, means the same conversation.
fn name(parent: RunId, prepared: &Prepared, cleanup: Cleanup) -> String {
    let call = call_key(parent, prepared.call());
    let hash: String = Idempotency::new(&call, b"", 0).key.chars().take(HASH).collect();
    match cleanup {
        Cleanup::Keep => hash,
        Cleanup::Delete => format!("{ONCE}{hash}"),
    }
}

fn target(caller: &Caller, named: Option<&str>) -> Result<Scope, ToolFailure> {
    let own = &caller.scope;
    let Some(named) = named.map(str::trim).filter(|named| !named.is_empty()) else { return Ok(own.clone()) };
    let targets = caller.core.settings.spawn_targets(&own.agent);
    let agent = targets.contains(&named).then(|| named.parse().ok()).flatten();
    let agent = agent.ok_or_else(|| {
        ToolFailure::execution(format!(
            "agent {named:?} may not be started from here, only {}; see subagents.allowAgents",
            targets.join(", ")
        ))
    })?;
    Ok(Scope { agent, ..own.clone() })
}

/// How many subagents started one another down to this run.
fn depth_of(parent: &RunRow) -> u8 {
    if matches!(parent.key.place, Where::Sub { .. }) { parent.spec.depth.max(1) } else { 0 }
}

fn check_depth(caller: &Caller, parent: &RunRow) -> Result<(), ToolFailure> {
    let most = caller.core.settings.subagent_depth();
    if depth_of(parent) < most {
        return Ok(());
    }
    Err(ToolFailure::execution(format!(
        "a subagent at depth {most} may not start another one (agents.defaults.subagents.maxDepth is {most}); do the \
         work here"
    )))
}

/// What must not leave a conversation does not leave it as a task or as a result.
fn check_trust(caller: &Caller, key: &SessionKey) -> Result<(), ToolFailure> {
    match (caller.is_sensitive_itself(), caller.is_sensitive(key)) {
        (true, false) => Err(ToolFailure::execution(
            "what is said here must not leave, and a subagent's session would not be held to that; set sensitive for \
             its agent, or name its sessions in tools.sensitiveSessions",
        )),
        (false, true) => Err(ToolFailure::execution("what that agent says must not leave its sessions")),
        _ => Ok(()),
    }
}

/// Counts those under way, but not this very call when it is tried again.
async fn check_children(caller: &Caller, parent: &RunRow, key: &SessionKey) -> Result<(), ToolFailure> {
    let most = caller.core.settings.subagent_children();
    let count = caller.core.store.started_by(&parent.key, key).await.map_err(failure)?;
    if usize::try_from(count).is_ok_and(|count| count < most) {
        return Ok(());
    }
    Err(ToolFailure::execution(format!(
        "{count} subagents of this session are under way, and no more than {most} may be \
         (agents.defaults.subagents.maxChildren); wait for their results"
    )))
}

fn label(args: &Args) -> String {
    let given = args.label.as_deref().map(str::trim).filter(|label| !label.is_empty());
    given.and_then(title_of).or_else(|| title_of(&args.task)).unwrap_or_default()
}

fn announce(parent: &RunRow, label: &str) -> ReplyTarget {
    ReplyTarget::Announce {
        key: Box::new(parent.key.clone()),
        reply: Box::new(parent.reply.clone()),
        label: label.to_owned(),
    }
}

/// What the subagent is promised: never more tools than the run that starts it was, and no side effects where that one
/// has none.
fn spec(caller: &Caller, scope: &Scope, parent: &RunRow, args: &Args) -> Result<RunSpec, ToolFailure> {
    let bad = |message: String| ToolFailure::arguments(message);
    let thinking = args.thinking.as_deref().map(|text| {
        ThinkingLevel::parse_alias(text).ok_or_else(|| bad(format!("there is no thinking level {text:?}")))
    });
    let longest = caller.core.settings.run_spec(scope, &Wish::default()).map_err(failure)?.limits.deadline_ms;
    let seconds = args.run_timeout_seconds.filter(|seconds| *seconds > 0);
    let wish = Wish {
        model: args.model.as_deref().map(str::trim).filter(|model| !model.is_empty()),
        // A model may give its subagent less time than the configuration does, not more.
        timeout: seconds
            .map(|seconds| Duration::from_secs(seconds.into()).min(Duration::from_millis(longest))),
        thinking: thinking.transpose()?,
        ..Wish::default()
    };
    let mut spec = caller.core.settings.sub_spec(scope, &wish).map_err(|error| bad(error.to_string()))?;
    let given = &parent.spec.tools;
    spec.tools.allow.clone_from(&given.allow);
    spec.tools.unattended = given.unattended;
    spec.tools.model = given.model;
    if *scope == parent.key.scope {
        spec.tools.root.clone_from(&given.root);
    }
    spec.shadow |= parent.spec.shadow;
    spec.depth = depth_of(parent).saturating_add(1);
    Ok(spec)
}
