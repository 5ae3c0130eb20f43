//! One call from its name and arguments to its result.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use rustix::fs::Access;
use serde_json::{Value, json};
use tidegate_policy::approval::{AllowRule, Grant};
use tidegate_policy::tools::{Circumstances, Decision, Trust};
use tidegate_policy::{Digest, Gate, Held, Permitted, Preparation, Prepared, Principal, Runner};
use tidegate_protocol::api::{Asking, ToolEvent};
use tidegate_protocol::{AllowRuleId, Risk, RunId, Scope, ToolCall, ToolErrorCode, ToolResult};
use tidegate_storage::{ToolRecord, UsedApproval};
use tidegate_tools::{Place, Registry, ToolFailure, Work, execute, failed, refused};
use tokio_util::sync::CancellationToken;

use super::agent_box::shadowed;
use super::loops::unprepared;
use super::place::Reserved;
use super::wait::Answered;
use crate::error::EngineError;
use crate::pace::Pace;
use crate::settings::ToolContext;
use crate::start::{Core, Engine};

/// A call, and on whose behalf it is made.
#[derive(Debug, Clone)]
pub struct Invoke {
    pub principal: Principal,
    pub scope: Scope,
    /// The session's key as text, or the surface's name where there is none.
    pub session: String,
    pub run: Option<RunId>,
    pub call: ToolCall,
    /// The folder file tools are held to; the agent's workspace when absent.
    pub root: Option<PathBuf>,
    /// The model whose call it is, as provider and name.
    pub model: Option<(String, String)>,
    pub subagent: bool,
    pub asking: Asking,
    /// Only these tools; all that policy allows when absent.
    pub allow: Option<Vec<String>>,
    /// Tools that join the agent's profile for this call.
    pub also: Vec<String>,
}

/// Told what happens with a call while it goes on.
pub type Tell = Arc<dyn Fn(ToolEvent) + Send + Sync>;

impl Engine {
    /// Does what the call asks for, if it may. Returns once it is over; `cancel` ends it, and everything it started.
    pub async fn invoke(
        &self,
        invoke: Invoke,
        cancel: &CancellationToken,
        tell: Tell,
    ) -> Result<ToolResult, EngineError> {
        let core = &self.core;
        if core.closing.is_requested() {
            return Err(EngineError::Closing);
        }
        let cancel = cancel.child_token();
        if core.toolbox.now().find(&invoke.call.name).is_none() {
            tokio::select! {
                () = core.toolbox.settled() => {}
                () = cancel.cancelled() => {}
                () = core.closing.requested() => return Err(EngineError::Closing),
            }
        }
        let call = Calling::new(core, invoke, cancel.clone(), tell)?;
        let mut work = pin!(core.work.track_future(call.go()));
        let result = tokio::select! {
            result = &mut work => result,
            // Its time to end in peace is over; the home stays taken until it did.
            () = core.stopped.requested() => {
                cancel.cancel();
                work.await
            }
        };
        core.unsealed.notify_one();
        result
    }
}

/// How far a call got before anybody decided.
enum Beginning {
    Prepared(Prepared),
    /// The tool is not there for this agent.
    Hidden(Decision),
    Failed(ToolFailure),
}

/// What was decided about a call.
pub(super) enum Settled {
    /// It may run; the approval, if there was one.
    Permitted(Box<Permitted>, Option<Value>),
    /// It is over without having run.
    Over(ToolResult),
}

/// A call on its way, with everything that is decided by.
pub(super) struct Calling {
    pub(super) core: Arc<Core>,
    pub(super) invoke: Invoke,
    pub(super) cancel: CancellationToken,
    pub(super) tell: Tell,
    /// The run's, which stands still while somebody is asked.
    pub(super) pace: Option<Arc<Pace>>,
    shadow: bool,
    /// The tools there were when it began.
    pub(super) registry: Arc<Registry>,
    place: Place,
    runner: Arc<dyn Runner>,
    gate: Gate,
    trust: Trust,
}

impl Calling {
    pub(super) fn new(
        core: &Arc<Core>,
        invoke: Invoke,
        cancel: CancellationToken,
        tell: Tell,
    ) -> Result<Self, EngineError> {
        Self::among(core, core.toolbox.now(), invoke, cancel, tell)
    }

    /// The same where it is settled which tools there are.
    pub(super) fn among(
        core: &Arc<Core>,
        registry: Arc<Registry>,
        invoke: Invoke,
        cancel: CancellationToken,
        tell: Tell,
    ) -> Result<Self, EngineError> {
        let settings = &core.settings;
        let mut place = core.place(&invoke)?;
        let runner = core.runner(&place);
        let Reserved { forbidden, roots } = Reserved::of(&place);
        let context = ToolContext {
            provider: invoke.model.as_ref().map(|(provider, _)| provider.as_str()),
            model: invoke.model.as_ref().map(|(_, model)| model.as_str()),
            group: None,
            subagent: invoke.subagent,
            also: &invoke.also,
            wanted: invoke.allow.as_deref(),
            confined: runner.confines(),
            only_looks: settings.only_looks(&invoke.scope, &invoke.session),
            forbidden: &forbidden,
            roots: &roots,
            provided: registry.provided(),
        };
        let gate = Gate::new(settings.pipeline(&invoke.scope, &context)?);
        let trust = settings.trust(&invoke.scope, &invoke.session);
        // What goes on in the background has to have somebody who can look after it, and a process that stays.
        let lasts = core.stays || invoke.run.is_some();
        place.background = lasts && !gate.pipeline().tools(["process"], trust).is_empty();
        Ok(Self {
            core: Arc::clone(core),
            invoke,
            cancel,
            tell,
            pace: None,
            shadow: false,
            registry,
            place,
            runner,
            gate,
            trust,
        })
    }

    /// The run that makes the call stands still while a person is asked.
    #[must_use]
    pub(super) fn waiting_with(self, pace: Arc<Pace>) -> Self {
        Self { pace: Some(pace), ..self }
    }

    /// Nothing that changes anything is done, and nobody is asked about it.
    #[must_use]
    pub(super) fn in_shadow(self, shadow: bool) -> Self {
        Self { shadow, ..self }
    }

    /// Whether a permitted call is only shown.
    pub(super) fn is_shadowed(&self, risk: Risk) -> bool {
        self.shadow && risk != Risk::Read
    }

    /// Whether files can be written where the call works.
    pub(super) fn can_write(&self) -> bool {
        can_write(&self.place.root)
    }

    /// Whether the tool is there for this agent at all.
    pub(super) fn shows(&self, tool: &str) -> bool {
        !self.gate.pipeline().tools([tool], self.trust).is_empty()
    }

    async fn go(&self) -> Result<ToolResult, EngineError> {
        let (call, settled) = self.settle().await?;
        let result = match settled {
            Settled::Permitted(permitted, approval) => self.run(&permitted, approval).await?,
            Settled::Over(result) => result,
        };
        Ok(self.noted(&call, result))
    }

    /// Decides about the call, however long a person needs for that. Answers also what the call is known by.
    pub(super) async fn settle(&self) -> Result<(Digest, Settled), EngineError> {
        let beginning = match self.hidden() {
            Some(decision) => Beginning::Hidden(decision),
            None => self.prepare().await.map_or_else(Beginning::Failed, Beginning::Prepared),
        };
        let call = match &beginning {
            Beginning::Prepared(prepared) => prepared.digest().clone(),
            Beginning::Hidden(_) | Beginning::Failed(_) => unprepared(&self.invoke.call),
        };
        if let Some(stopped) = self.looping(&call) {
            return Ok((call, Settled::Over(stopped)));
        }
        let settled = match beginning {
            Beginning::Prepared(prepared) => self.decide(prepared).await?,
            Beginning::Hidden(decision) => self.refuse(&decision).await?,
            Beginning::Failed(failure) => self.over(failure),
        };
        Ok((call, settled))
    }

    async fn decide(&self, prepared: Prepared) -> Result<Settled, EngineError> {
        let allowed = self.allowed().await?;
        match self.gate.permit(prepared, &self.facts(&allowed)) {
            Ok(permitted) => Ok(Settled::Permitted(Box::new(permitted), None)),
            Err(Held::Denied(decision)) => self.refuse(&decision).await,
            Err(Held::Asks(prepared, decision)) => self.ask(*prepared, decision).await,
        }
    }

    /// A tool that is not there for this agent looks at nothing: it does not even say whether its arguments are right.
    fn hidden(&self) -> Option<Decision> {
        let spec = self.registry.find(&self.invoke.call.name)?.spec();
        if self.shows(&spec.name) {
            return None;
        }
        let call = ToolCall { name: spec.name.clone(), ..self.invoke.call.clone() };
        let requester = self.place.requester.clone();
        let nothing = Prepared::new(call, requester, spec.risk, spec.idempotent, Preparation::default());
        Some(self.gate.pipeline().decide(&nothing, &self.facts(&[])))
    }

    pub(super) async fn prepare(&self) -> Result<Prepared, ToolFailure> {
        let prepared = self.registry.prepare(self.invoke.call.clone(), &self.place).await;
        prepared.map_err(|failure| match self.core.toolbox.missing(&self.invoke.call.name) {
            Some(why) if failure.code == ToolErrorCode::ToolNotFound => {
                ToolFailure { message: format!("{}; {why}", failure.message), ..failure }
            }
            _ => failure,
        })
    }

    async fn allowed(&self) -> Result<Vec<AllowRule>, EngineError> {
        Ok(self.core.store.allow_rules(&self.core.tenant, Some(&self.invoke.scope)).await?)
    }

    fn facts<'f>(&self, allowed: &'f [AllowRule]) -> Circumstances<'f> {
        Circumstances { trust: self.trust, allowed }
    }

    /// A person decides. What they approved is prepared once more just before it runs: what has changed since then is
    /// not what they approved.
    async fn ask(&self, prepared: Prepared, decision: Decision) -> Result<Settled, EngineError> {
        if self.is_shadowed(prepared.risk()) {
            self.record("tool.shadowed", self.about(&decision)).await?;
            return Ok(Settled::Over(shadowed(self.tool(), "would ask a person")));
        }
        if self.invoke.asking == Asking::Nobody {
            let reason = format!("{}, and nobody is there to approve it", decision.reason);
            return self.refuse(&Decision { reason, ..decision }).await;
        }
        let (approval, answered) = self.question(&prepared, &decision).await?;
        match answered {
            Answered::Yes => {}
            Answered::No { reason } => {
                let reason = reason.map_or("denied".to_owned(), |reason| format!("denied: {reason}"));
                return self.refuse(&Decision { reason, ..decision }).await;
            }
            Answered::Nothing => return self.unanswered().await,
            Answered::Cancelled => return Ok(self.over(ToolFailure::execution("aborted"))),
        }
        let prepared = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(failure) => return Ok(self.over(failure)),
        };
        let now = self.core.clock.now_ms();
        let used = self.core.store.use_approval(&self.core.tenant, approval, prepared.digest(), now).await?;
        let grant = match used {
            UsedApproval::Granted(grant) => grant,
            UsedApproval::Refused(why) => {
                return self.refuse(&Decision { reason: why.to_string(), ..decision }).await;
            }
            UsedApproval::NotFound => {
                let reason = "the approval is gone".to_owned();
                return self.refuse(&Decision { reason, ..decision }).await;
            }
        };
        self.approved(prepared, grant).await
    }

    async fn approved(&self, prepared: Prepared, grant: Grant) -> Result<Settled, EngineError> {
        let allowed = self.allowed().await?;
        let approval = grant.approval();
        match self.gate.permit_approved(prepared, grant, &self.facts(&allowed)) {
            Ok(permitted) => Ok(Settled::Permitted(Box::new(permitted), Some(json!(approval)))),
            Err(decision) => self.refuse(&decision).await,
        }
    }

    /// Nobody answered in time: the configured fallback decides, about what the call would do now.
    async fn unanswered(&self) -> Result<Settled, EngineError> {
        let prepared = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(failure) => return Ok(self.over(failure)),
        };
        let allowed = self.allowed().await?;
        match self.gate.permit_unanswered(prepared, &self.facts(&allowed)) {
            Ok(permitted) => Ok(Settled::Permitted(Box::new(permitted), None)),
            Err(decision) => self.refuse(&decision).await,
        }
    }

    pub(super) async fn run(
        &self,
        permitted: &Permitted,
        approval: Option<Value>,
    ) -> Result<ToolResult, EngineError> {
        let core = &self.core;
        let prepared = permitted.prepared();
        let Some(tool) = self.registry.find(prepared.tool()) else {
            return Ok(self.failed(ToolFailure::execution("the tool is gone")));
        };
        let update = |text: &str| (self.tell)(ToolEvent::Update { text: text.to_owned() });
        let work = Work {
            place: &self.place,
            runner: &self.runner,
            cancel: &self.cancel,
            run: self.invoke.run,
            update: &update,
        };
        let result = execute(tool.as_ref(), permitted, &work).await;
        if prepared.risk() != Risk::Read {
            core.reuse.forget();
        }
        let action = if result.ok { "tool.run" } else { "tool.failed" };
        let error = result.error.as_ref().map(|error| error.message.clone());
        let mut metadata = self.about(permitted.decision());
        metadata["durationMs"] = json!(result.meta.duration_ms);
        metadata["digest"] = json!(prepared.digest());
        metadata["approval"] = approval.unwrap_or(Value::Null);
        metadata["error"] = json!(error);
        self.record(action, metadata).await?;
        if let Some(rule) = permitted.decision().allowed_by {
            self.touch(rule).await;
        }
        Ok(result)
    }

    /// Notes that a saved rule was of use. What ran has its result and its record whether or not this works.
    async fn touch(&self, rule: AllowRuleId) {
        let core = &self.core;
        if let Err(error) = core.store.touch_allow_rule(&core.tenant, rule, core.clock.now_ms()).await {
            core.watch(&error);
            tracing::warn!(%error, %rule, "the use of a saved rule was not noted");
        }
    }

    async fn refuse(&self, decision: &Decision) -> Result<Settled, EngineError> {
        self.record("tool.denied", self.about(decision)).await?;
        let name = self.tool();
        let hidden = self.gate.pipeline().tools([name], self.trust).is_empty();
        Ok(Settled::Over(refused(name, decision, hidden)))
    }

    fn over(&self, failure: ToolFailure) -> Settled {
        Settled::Over(self.failed(failure))
    }

    fn failed(&self, failure: ToolFailure) -> ToolResult {
        failed(self.tool(), failure)
    }

    /// The tool's own name, whatever it was called by.
    pub(super) fn tool(&self) -> &str {
        let called = self.invoke.call.name.as_str();
        self.registry.find(called).map_or(called, |tool| tool.spec().name.as_str())
    }

    pub(super) fn about(&self, decision: &Decision) -> Value {
        json!({
            "agent": self.invoke.scope.agent,
            "session": self.invoke.session,
            "run": self.invoke.run,
            "source": self.invoke.call.source,
            "stage": decision.stage,
            "rule": decision.rule,
            "reason": decision.reason,
        })
    }

    pub(super) async fn record(&self, action: &'static str, metadata: Value) -> Result<(), EngineError> {
        let record = ToolRecord {
            action,
            tool: self.tool().to_owned(),
            call_id: self.invoke.call.id.clone(),
            metadata,
            now: self.core.clock.now_ms(),
        };
        let written = self.core.store.audit_tool(&self.invoke.principal, record).await;
        written.inspect_err(|error| self.core.watch(error))?;
        Ok(())
    }

    /// The call came too often in this run with nothing new coming of it.
    fn looping(&self, call: &Digest) -> Option<ToolResult> {
        let stopped = self.core.run_loops.stopped(self.invoke.run?, call)?;
        let message = stopped.message(self.tool())?;
        Some(self.failed(ToolFailure::execution(message)))
    }

    /// Remembers the result, also that of a call that was refused; a run that repeats itself is told.
    pub(super) fn noted(&self, call: &Digest, mut result: ToolResult) -> ToolResult {
        let (Some(run), Some(limits)) = (self.invoke.run, self.core.settings.loop_limits()) else {
            return result;
        };
        let repeat = self.core.run_loops.note(run, limits, call, &result);
        if let Some(message) = repeat.message(self.tool()) {
            result.content.push(tidegate_protocol::Block::text(message));
        }
        result
    }
}

/// Whether this process may make files in a folder. Its mode is its owner's word, which also holds where the system would
/// let us; and the system knows whose folder it is, and whether its disk can be written to at all.
fn can_write(folder: &Path) -> bool {
    let allows = std::fs::metadata(folder).is_ok_and(|folder| !folder.permissions().readonly());
    allows && rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_whose_mode_or_owner_forbids_it_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        assert!(can_write(folder.path()));
        assert!(!can_write(&folder.path().join("nothing")));
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
        assert!(!can_write(folder.path()));
        // Its mode allows it to the owner, who is somebody else unless this is the system's own user.
        assert_eq!(can_write(Path::new("/etc")), rustix::process::geteuid().is_root());
    }
}
