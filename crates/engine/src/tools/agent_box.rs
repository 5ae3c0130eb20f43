//! The tools of one run, as its loop sees them: every call goes the way that every other call goes.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate_agent::{MEMORY_TOOL, ReadyCall, Recalled, ToolBox, ToolBoxError, Verdict};
use tidegate_models::ToolSpec;
use tidegate_policy::{Digest, Permitted};
use tidegate_protocol::api::{Asking, ToolEvent, ToolItem};
use tidegate_protocol::{
    ApprovalId, Block, Id as _, Place as Where, Risk, RunEventBody, RunSpec, ToolCall, ToolMeta, ToolResult,
    ToolSource,
};
use tidegate_tools::Registry;
use tokio_util::sync::CancellationToken;

use super::invoke::{Calling, Invoke, Settled, Tell};
use super::sessions::{can_recall, recall};
use crate::error::EngineError;
use crate::execute::Work;
use crate::live::Live;
use crate::pace::Pace;
use crate::start::Core;

pub(crate) struct AgentBox {
    core: Arc<Core>,
    /// Every call of the run, but for the call itself.
    template: Invoke,
    /// The tools there were when the run began: it sees the same ones to its end.
    registry: Arc<Registry>,
    /// Stands behind every note of the run, so that it is known where it came from.
    provenance: String,
    specs: Vec<ToolSpec>,
    takes_notes: bool,
    cancel: CancellationToken,
    live: Arc<Live>,
    pace: Arc<Pace>,
    shadow: bool,
}

impl AgentBox {
    pub(crate) fn open(
        core: &Arc<Core>,
        work: &Work,
        spec: &RunSpec,
        cancel: CancellationToken,
        live: Arc<Live>,
        pace: Arc<Pace>,
    ) -> Result<Self, EngineError> {
        let template = template(work, spec);
        let registry = core.toolbox.now();
        let look =
            |invoke| Calling::among(core, Arc::clone(&registry), invoke, cancel.clone(), Arc::new(|_| {}));
        let noting = look(for_notes(&template))?;
        let ordinary = look(template.clone())?;
        let specs = ordinary.shown();
        let takes_notes =
            registry.find(MEMORY_TOOL).is_some() && noting.shows(MEMORY_TOOL) && noting.can_write();
        // For tools that wait for another run.
        live.goes_at(&pace);
        let provenance = format!("[{}, {}]", work.key.label(), work.run.alias());
        let (core, shadow) = (Arc::clone(core), spec.shadow);
        Ok(Self { core, template, registry, provenance, specs, takes_notes, cancel, live, pace, shadow })
    }

    /// The tools that the model of a run is shown.
    pub(crate) fn shown_to(
        core: &Arc<Core>,
        work: &Work,
        spec: &RunSpec,
    ) -> Result<Vec<ToolSpec>, EngineError> {
        let ordinary = Calling::new(core, template(work, spec), CancellationToken::new(), Arc::new(|_| {}))?;
        Ok(ordinary.shown())
    }

    async fn decide(&self, invoke: Invoke) -> Result<Verdict, ToolBoxError> {
        // Nothing begins any more; what was called for is asked about when the run goes on.
        self.live.goes_on()?;
        let asked = Arc::new(OnceLock::new());
        let (call_id, tell) = (invoke.call.id.clone(), self.tell(&invoke.call.id, &asked));
        let registry = Arc::clone(&self.registry);
        let calling = Calling::among(&self.core, registry, invoke, self.cancel.child_token(), tell)
            .map_err(stops)?
            .waiting_with(Arc::clone(&self.pace))
            .in_shadow(self.shadow);
        let settled = calling.settle().await;
        if let (Some(run), Some(approval_id)) = (self.template.run, asked.get().copied()) {
            self.live.publish(run, RunEventBody::ApprovalSettled { call_id, approval_id });
        }
        let (digest, settled) = settled.map_err(stops)?;
        self.live.goes_on()?;
        let (permitted, approval) = match settled {
            Settled::Over(result) => return Ok(Verdict::Answered(calling.noted(&digest, result))),
            Settled::Permitted(permitted, approval) => (permitted, approval),
        };
        if let Some(result) = calling.known(&permitted).await.map_err(stops)? {
            return Ok(Verdict::Answered(calling.noted(&digest, result)));
        }
        let live = Arc::clone(&self.live);
        Ok(Verdict::Ready(Box::new(Ready { calling, permitted, approval, digest, live })))
    }

    /// What is remembered is the agent's, wherever somebody asks from, and says where it came from; and a note without a
    /// file is one of the day it is where that one lives.
    fn with(&self, mut template: Invoke, mut call: ToolCall) -> Invoke {
        if call.name.trim() == MEMORY_TOOL {
            template.root = None;
            if let Some(Value::String(text)) = call.args.get_mut("text")
                && !text.trim().is_empty()
                && !text.contains(&self.provenance)
            {
                *text = format!("{} {}", text.trim_end(), self.provenance);
            }
            if let Some(args) = call.args.as_object_mut()
                && args.get("file").is_none_or(Value::is_null)
            {
                let day = self.core.settings.zone().day(self.core.clock.now_ms());
                args.insert("file".to_owned(), format!("{day}.md").into());
            }
        }
        Invoke { call, ..template }
    }

    /// Tells whoever watches the run, and remembers what was asked.
    fn tell(&self, call_id: &str, asked: &Arc<OnceLock<ApprovalId>>) -> Tell {
        let (live, call_id, run) = (Arc::clone(&self.live), call_id.to_owned(), self.template.run);
        let asked = Arc::clone(asked);
        Arc::new(move |event| {
            let Some(run) = run else { return };
            let call_id = call_id.clone();
            match event {
                ToolEvent::Approval { approval } => {
                    let _ = asked.set(approval.id);
                    live.publish(run, RunEventBody::ApprovalAsked { call_id, approval });
                }
                ToolEvent::Update { text } => live.publish(run, RunEventBody::ToolUpdate { call_id, text }),
                ToolEvent::Result { .. } | ToolEvent::Error { .. } => {}
            }
        })
    }
}

impl crate::start::Engine {
    /// The tools that are there for the usual agent, for somebody who calls them from outside any run. Those of MCP
    /// servers are not: whoever wants them can reach the servers themselves.
    pub(crate) fn offered_tools(&self, session: &str) -> Result<Vec<tidegate_tools::ToolSpec>, EngineError> {
        self.tools_among(Arc::clone(&self.core.toolbox.registry), None, session)
    }

    /// The tools that are there for an agent at this moment, those of MCP servers too, by name.
    pub fn tools_of(&self, agent: Option<&str>) -> Result<Vec<ToolItem>, EngineError> {
        let mut tools = self.tools_among(self.core.toolbox.now(), agent, "")?;
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        let item = |spec: tidegate_tools::ToolSpec| ToolItem {
            name: spec.name,
            description: spec.description,
            risk: spec.risk,
        };
        Ok(tools.into_iter().map(item).collect())
    }

    fn tools_among(
        &self,
        registry: Arc<Registry>,
        agent: Option<&str>,
        session: &str,
    ) -> Result<Vec<tidegate_tools::ToolSpec>, EngineError> {
        let core = &self.core;
        let invoke = Invoke {
            principal: tidegate_policy::Principal::local_owner(core.tenant.clone()),
            scope: core.settings.scope(agent)?,
            session: session.to_owned(),
            run: None,
            call: ToolCall {
                id: String::new(),
                name: String::new(),
                args: Value::Null,
                source: ToolSource::Api,
            },
            root: None,
            model: None,
            subagent: false,
            asking: Asking::Others,
            allow: None,
            also: Vec::new(),
        };
        let calling = Calling::among(core, registry, invoke, CancellationToken::new(), Arc::new(|_| {}))?;
        Ok(calling.registry.specs().filter(|spec| calling.shows(&spec.name)).cloned().collect())
    }
}

impl Calling {
    /// The tools that are there for this agent, by name.
    fn shown(&self) -> Vec<ToolSpec> {
        self.registry.specs().filter(|spec| self.shows(&spec.name)).map(shown).collect()
    }
}

fn shown(spec: &tidegate_tools::ToolSpec) -> ToolSpec {
    ToolSpec {
        name: spec.name.clone(),
        description: spec.description.clone(),
        parameters: spec.input_schema.clone(),
    }
}

/// The same for the notes before a conversation is summed up: the one tool they need is there unless a list denies it,
/// and nobody is asked.
fn for_notes(template: &Invoke) -> Invoke {
    Invoke {
        also: vec![MEMORY_TOOL.to_owned()],
        allow: Some(vec![MEMORY_TOOL.to_owned()]),
        asking: Asking::Nobody,
        root: None,
        ..template.clone()
    }
}

fn template(work: &Work, spec: &RunSpec) -> Invoke {
    let model = spec.models.first().map(|model| (model.provider.clone(), model.model.clone()));
    Invoke {
        principal: work.principal.clone(),
        scope: work.key.scope.clone(),
        session: work.key.to_string(),
        run: Some(work.run),
        call: ToolCall {
            id: String::new(),
            name: String::new(),
            args: Value::Null,
            source: ToolSource::Model,
        },
        root: spec.tools.root.clone().map(Into::into),
        model,
        subagent: matches!(work.key.place, Where::Sub { .. }),
        asking: if spec.tools.unattended { Asking::Nobody } else { Asking::Others },
        allow: spec.tools.allow.clone(),
        also: Vec::new(),
    }
}

#[async_trait]
impl ToolBox for AgentBox {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn takes_notes(&self) -> bool {
        self.takes_notes
    }

    fn only_looks(&self, tool: &str) -> bool {
        let found = self.registry.find(tool);
        found.is_some_and(|tool| tool.spec().risk == Risk::Read && tool.spec().idempotent)
    }

    async fn permit(&self, call: ToolCall) -> Result<Verdict, ToolBoxError> {
        self.decide(self.with(self.template.clone(), call)).await
    }

    async fn permit_note(&self, call: ToolCall) -> Result<Verdict, ToolBoxError> {
        self.decide(self.with(for_notes(&self.template), call)).await
    }

    async fn recall(&self, call: &ToolCall, begun_at: i64) -> Result<Recalled, ToolBoxError> {
        let Some(run) = self.template.run.filter(|_| can_recall(&call.name)) else {
            return Ok(Recalled::Unknown);
        };
        let invoke = self.with(self.template.clone(), call.clone());
        let (registry, cancel) = (Arc::clone(&self.registry), self.cancel.child_token());
        // What cannot be made any more, say because its folder is gone, cannot be looked for: that does not end the run.
        let Ok(calling) = Calling::among(&self.core, registry, invoke, cancel, Arc::new(|_| {})) else {
            return Ok(Recalled::Unknown);
        };
        let Ok(prepared) = calling.prepare().await else { return Ok(Recalled::Unknown) };
        recall(&self.core, run, &prepared, begun_at).await.map_err(stops)
    }
}

/// A call that was permitted.
struct Ready {
    calling: Calling,
    permitted: Box<Permitted>,
    approval: Option<Value>,
    digest: Digest,
    live: Arc<Live>,
}

#[async_trait]
impl ReadyCall for Ready {
    fn is_shadow(&self) -> bool {
        self.calling.is_shadowed(self.permitted.prepared().risk())
    }

    async fn run(self: Box<Self>) -> Result<ToolResult, ToolBoxError> {
        let result = if self.is_shadow() {
            self.show().await
        } else {
            self.calling.run_and_keep(&self.permitted, self.approval.clone()).await
        };
        self.calling.core.unsealed.notify_one();
        let result = result.map_err(stops)?;
        // Cut off with the process, it has no result: nobody knows how far it came.
        if !result.ok {
            self.live.goes_on()?;
        }
        Ok(self.calling.noted(&self.digest, result))
    }
}

impl Live {
    fn goes_on(&self) -> Result<(), ToolBoxError> {
        if self.is_released() { Err(ToolBoxError::Closing) } else { Ok(()) }
    }
}

impl Ready {
    /// What it would do is put on record, and nothing is done.
    async fn show(&self) -> Result<ToolResult, EngineError> {
        let prepared = self.permitted.prepared();
        let mut metadata = self.calling.about(self.permitted.decision());
        metadata["digest"] = json!(prepared.digest());
        metadata["preview"] = json!(prepared.preview());
        metadata["args"] = prepared.args().clone();
        self.calling.record("tool.shadowed", metadata).await?;
        Ok(shadowed(self.calling.tool(), "allowed"))
    }
}

/// The result of a call in shadow mode.
pub(super) fn shadowed(tool: &str, verdict: &str) -> ToolResult {
    let text = format!(
        "shadow mode: this was decided ({verdict}) and recorded, and not run; go on as if it had worked"
    );
    ToolResult {
        ok: true,
        content: vec![Block::text(text)],
        data: Some(json!({ "shadow": true, "verdict": verdict })),
        error: None,
        meta: ToolMeta { tool: tool.to_owned(), duration_ms: 0, truncated: false },
    }
}

/// What ends the run, and not only the call.
fn stops(error: EngineError) -> ToolBoxError {
    match error {
        EngineError::Store(error) => ToolBoxError::Store(error),
        EngineError::Closing => ToolBoxError::Closing,
        error => ToolBoxError::Failed(error.to_string()),
    }
}
