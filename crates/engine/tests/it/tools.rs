//! Tools through the whole engine: who may call what, and what is told and put on record.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate_engine::{Engine, EngineError, Invoke, Toolbox};
use tidegate_policy::{Exit, Only, PermittedPlan, Principal, RunError, Runner, Running, Sink, Start};
use tidegate_protocol::api::{ApprovalView, Asking, ToolEvent};
use tidegate_protocol::{ErrorCode, Scope, ToolCall, ToolErrorCode, ToolResult, ToolSource};
use tidegate_runtime::{SystemClock, Task, spawn};
use tidegate_storage::AuditRow;
use tidegate_tools::{ExecSettings, ExecTool, ProcessLimits, Processes, Registry, basic_tools, file_tools};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::vendor::{Bench, on_both_backends};
use crate::{close, scope};

on_both_backends! {
    a_tool_that_was_not_granted_is_refused_and_put_on_record,
    a_tool_that_is_not_there_does_not_look_at_its_arguments,
    what_one_agent_may_not_do_is_no_matter_of_another,
    with_nobody_to_ask_a_question_is_a_no_at_once,
    no_call_works_in_our_own_state,
    a_tool_is_on_record_under_its_own_name,
}

/// Starts nothing: keeps what it was given to start.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The arguments of every program, plan by plan.
    pub(crate) started: Mutex<Vec<Vec<Vec<String>>>>,
    /// Programs go on until they are killed.
    pub(crate) endless: bool,
    pub(crate) killed: CancellationToken,
}

struct Recorded {
    endless: bool,
    killed: CancellationToken,
}

#[async_trait]
impl Runner for Recorder {
    fn confines(&self) -> bool {
        true
    }

    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        _start: Start,
        _sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        let argv = plan.plan().launches().map(|launch| launch.argv.clone()).collect();
        self.started.lock().unwrap().push(argv);
        Ok(Box::new(Recorded { endless: self.endless, killed: self.killed.clone() }))
    }
}

#[async_trait]
impl Running for Recorded {
    fn pid(&self) -> u32 {
        1
    }

    async fn wait(&self) -> Exit {
        if !self.endless {
            return Exit::Code(0);
        }
        self.killed.cancelled().await;
        Exit::Killed
    }

    async fn write(&self, _bytes: &[u8]) -> Result<(), RunError> {
        Err(RunError::Ended)
    }

    async fn close_input(&self) -> Result<(), RunError> {
        Ok(())
    }

    fn kill(&self) {
        self.killed.cancel();
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An engine with the small tools, those for files, and commands that this runner is given.
pub(crate) async fn workshop(bench: &Bench<'_>, config: Value, runner: &Arc<Recorder>) -> Engine {
    bench.engine_with(config, |options| options.toolbox = toolbox(runner)).await
}

pub(crate) fn toolbox(runner: &Arc<Recorder>) -> Toolbox {
    let processes = Processes::new(ProcessLimits::default(), Arc::new(SystemClock));
    let mut registry = Registry::default();
    for tool in basic_tools().into_iter().chain(file_tools()) {
        registry.add(tool).unwrap();
    }
    registry.add(Arc::new(ExecTool::new(ExecSettings::default(), processes.clone()))).unwrap();
    let env = [("PATH", "/usr/bin:/bin"), ("DEPLOY_TOKEN", KEY)];
    Toolbox {
        registry: Arc::new(registry),
        confiner: Arc::new(Only(Arc::clone(runner) as Arc<dyn Runner>)),
        processes,
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..Toolbox::empty()
    }
}

/// What the operator has in the environment of commands.
pub(crate) const KEY: &str = "not-for-anybodys-eyes";

/// An engine on which writing a file asks.
pub(crate) async fn careful(bench: &Bench<'_>) -> Engine {
    workshop(bench, asking_for("write"), &Arc::default()).await
}

pub(crate) fn asking_for(tool: &str) -> Value {
    json!({"tools": {"profile": "full", "modes": {tool: "approval-required"}}})
}

pub(crate) fn call(tool: &str, args: Value) -> Invoke {
    Invoke {
        principal: owner(),
        scope: scope(),
        session: "main".to_owned(),
        run: None,
        call: ToolCall { id: "call-1".to_owned(), name: tool.to_owned(), args, source: ToolSource::Model },
        root: None,
        model: None,
        subagent: false,
        asking: Asking::Others,
        allow: None,
        also: Vec::new(),
    }
}

pub(crate) fn owner() -> Principal {
    Principal::local_owner(scope().tenant)
}

/// A call that leaves a file behind.
pub(crate) fn canary() -> Invoke {
    call("write", json!({"path": "canary.txt", "content": "alive"}))
}

pub(crate) fn workspace(engine: &Engine) -> PathBuf {
    engine.home().workspace(&scope().agent)
}

/// What the canary says, if it was let out.
pub(crate) fn canary_of(engine: &Engine) -> Option<String> {
    std::fs::read_to_string(workspace(engine).join("canary.txt")).ok()
}

pub(crate) async fn done(engine: &Engine, invoke: Invoke) -> ToolResult {
    engine.invoke(invoke, &CancellationToken::new(), Arc::new(|_| {})).await.unwrap()
}

/// A call that waits for somebody.
pub(crate) struct Waiting {
    pub(crate) approval: ApprovalView,
    pub(crate) cancel: CancellationToken,
    call: Task<Result<ToolResult, EngineError>>,
}

impl Waiting {
    pub(crate) async fn end(self) -> Result<ToolResult, EngineError> {
        tokio::time::timeout(Duration::from_secs(20), self.call.join()).await.unwrap().unwrap()
    }

    /// Why it was not permitted.
    pub(crate) async fn refusal(self) -> String {
        let result = self.end().await.unwrap();
        assert!(!result.ok);
        result.error.unwrap().message
    }
}

/// Makes a call that asks, and returns once it does.
pub(crate) async fn asks(engine: &Engine, invoke: Invoke) -> Waiting {
    let (sender, mut events) = mpsc::unbounded_channel();
    let (engine, cancel) = (engine.clone(), CancellationToken::new());
    let ends = cancel.clone();
    let call = spawn("test call", async move {
        engine.invoke(invoke, &ends, Arc::new(move |event| drop(sender.send(event)))).await
    });
    let first = tokio::time::timeout(Duration::from_secs(20), events.recv()).await.unwrap();
    let Some(ToolEvent::Approval { approval }) = first else { panic!("it did not ask: {first:?}") };
    Waiting { approval, cancel, call }
}

pub(crate) async fn on_record(engine: &Engine, action: &str) -> Vec<AuditRow> {
    let rows = engine.library().audit(&scope().tenant, 100).await.unwrap();
    rows.into_iter().filter(|row| row.action == action).collect()
}

async fn a_tool_that_was_not_granted_is_refused_and_put_on_record(bench: &Bench<'_>) {
    let config = json!({"tools": {"profile": "minimal"}});
    let engine = workshop(bench, config, &Arc::default()).await;
    let result = done(&engine, canary()).await;
    let error = result.error.unwrap();
    assert_eq!((error.code, error.tool.as_str()), (ToolErrorCode::ToolNotFound, "write"));
    let policy = &error.details.unwrap()["policy"];
    assert_eq!((&policy["verdict"], &policy["rule"]), (&json!("deny"), &json!("tools.profile")));
    assert_eq!(canary_of(&engine), None);
    let denied = on_record(&engine, "tool.denied").await;
    let [row] = denied.as_slice() else { panic!("{denied:?}") };
    assert_eq!((row.resource_id.as_str(), &row.metadata["rule"]), ("write", &json!("tools.profile")));
    assert_eq!(row.metadata["callId"], "call-1");
    close(engine).await;
}

async fn a_tool_that_is_not_there_does_not_look_at_its_arguments(bench: &Bench<'_>) {
    let engine = workshop(bench, json!({"tools": {"profile": "minimal"}}), &Arc::default()).await;
    let mut call = canary();
    call.call.args = json!({"nonsense": 1});
    let error = done(&engine, call).await.error.unwrap();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ToolErrorCode::ToolNotFound, "tool not allowed: write")
    );
    assert_eq!(on_record(&engine, "tool.denied").await.len(), 1);
    close(engine).await;
}

async fn what_one_agent_may_not_do_is_no_matter_of_another(bench: &Bench<'_>) {
    let agents = json!({"list": [
        {"id": "main", "tools": {"deny": ["write"]}},
        {"id": "other"},
    ]});
    let config = json!({"tools": {"profile": "full", "allow": ["write"]}, "agents": agents});
    let engine = workshop(bench, config, &Arc::default()).await;
    let denied = done(&engine, canary()).await.error.unwrap();
    assert_eq!(denied.details.unwrap()["policy"]["rule"], "agents.list[main].tools.deny[0]");
    let other = Scope::personal("other".parse().unwrap());
    let result = done(&engine, Invoke { scope: other.clone(), ..canary() }).await;
    assert!(result.ok, "{result:?}");
    assert_eq!(canary_of(&engine), None);
    assert!(engine.home().workspace(&other.agent).join("canary.txt").exists());
    close(engine).await;
}

async fn with_nobody_to_ask_a_question_is_a_no_at_once(bench: &Bench<'_>) {
    for (mode, asking, outcome) in [
        ("allow", Asking::Nobody, "runs"),
        ("allow", Asking::Others, "runs"),
        ("allow", Asking::Caller, "runs"),
        ("approval-required", Asking::Nobody, "refused"),
        ("approval-required", Asking::Others, "asks"),
        ("approval-required", Asking::Caller, "asks"),
        ("deny", Asking::Nobody, "refused"),
        ("deny", Asking::Others, "refused"),
        ("deny", Asking::Caller, "refused"),
    ] {
        let config = json!({"tools": {"profile": "full", "modes": {"write": mode}}});
        let engine = workshop(bench, config, &Arc::default()).await;
        let _ = std::fs::remove_file(workspace(&engine).join("canary.txt"));
        let invoke = Invoke { asking, ..canary() };
        if outcome == "asks" {
            let waiting = asks(&engine, invoke).await;
            assert_eq!(canary_of(&engine), None);
            waiting.cancel.cancel();
            waiting.refusal().await;
        } else {
            let before = engine.approvals(all()).await.unwrap().len();
            assert_eq!(done(&engine, invoke).await.ok, outcome == "runs", "{mode} {asking:?}");
            assert_eq!(engine.approvals(all()).await.unwrap().len(), before, "nobody is asked");
        }
        assert_eq!(canary_of(&engine).is_some(), outcome == "runs", "{mode} {asking:?}");
        close(engine).await;
    }
}

pub(crate) fn all() -> tidegate_storage::ApprovalFilter {
    tidegate_storage::ApprovalFilter { limit: 100, ..Default::default() }
}

async fn no_call_works_in_our_own_state(bench: &Bench<'_>) {
    let engine = workshop(bench, json!({"tools": {"profile": "full"}}), &Arc::default()).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(engine.home().root(), &link).unwrap();
    let state = engine.home().root();
    std::fs::create_dir_all(state.join("agents")).unwrap();
    for root in [state.to_owned(), state.join("service"), link.clone(), link.join("agents")] {
        let invoke = Invoke { root: Some(root.clone()), ..call("ls", json!({})) };
        let refused = engine.invoke(invoke, &CancellationToken::new(), Arc::new(|_| {})).await.unwrap_err();
        assert!(refused.to_string().contains("another folder"), "{refused}");
        assert_eq!(refused.body().code, ErrorCode::InvalidValue, "{}", root.display());
    }
    assert!(done(&engine, canary()).await.ok, "the workspace is inside and open");
    let inside = Invoke { root: Some(workspace(&engine)), ..call("ls", json!({})) };
    assert!(done(&engine, inside).await.text().contains("canary.txt"));
    let around = Invoke { root: Some(elsewhere.path().to_owned()), ..call("ls", json!({"path": "link"})) };
    assert!(!done(&engine, around).await.ok);
    close(engine).await;
}

async fn a_tool_is_on_record_under_its_own_name(bench: &Bench<'_>) {
    let engine = workshop(bench, json!({"tools": {"profile": "full"}}), &Arc::default()).await;
    let mut aliased = canary();
    aliased.call.name = String::from(" File.Write ");
    assert!(done(&engine, aliased).await.ok);
    let runs = on_record(&engine, "tool.run").await;
    let [row] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!((row.resource_id.as_str(), row.actor.as_str()), ("write", owner().actor()));
    close(engine).await;
}
