//! A workspace with tools in it, and the way of a call: prepared, permitted, run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_policy::exec::{Ask, ExecPolicy, Security};
use tidegate_policy::tools::{Base, Circumstances, Pipeline, Profile, ToolPolicy, Trust, Verdict};
use tidegate_policy::{Gate, Held, Permitted, Preparation, Prepared, Requester, Runner};
use tidegate_protocol::{Scope, ToolCall, ToolSource};
use tidegate_runtime::SystemClock;
use tidegate_tools::{
    ExecSettings, ExecTool, Output, Place, ProcessLimits, ProcessTool, Processes, Tool, ToolFailure, Work,
};
use tokio_util::sync::CancellationToken;

use crate::bare::Bare;

pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) processes: Arc<Processes>,
    pub(crate) exec: ExecTool,
    pub(crate) process: ProcessTool,
    pub(crate) cancel: CancellationToken,
    pub(crate) updates: Mutex<String>,
    pub(crate) runner: Arc<dyn Runner>,
    _home: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(ProcessLimits::default())
    }

    pub(crate) fn with(limits: ProcessLimits) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let processes = Processes::new(limits, Arc::new(SystemClock));
        Self {
            place: place(root, "main", "agent:main:main"),
            exec: ExecTool::new(ExecSettings::default(), processes.clone()),
            process: ProcessTool::new(processes.clone()),
            processes,
            cancel: CancellationToken::new(),
            updates: Mutex::default(),
            runner: Arc::new(Bare),
            _home: home,
        }
    }

    pub(crate) fn root(&self) -> &PathBuf {
        &self.place.root
    }

    /// The place of somebody else in the same workspace.
    pub(crate) fn elsewhere(&self, agent: &str, session: &str) -> Place {
        place(self.root().clone(), agent, session)
    }

    pub(crate) async fn prepare(&self, tool: &dyn Tool, args: &Value) -> Result<Prepared, ToolFailure> {
        self.prepare_in(&self.place, tool, args).await
    }

    pub(crate) async fn prepare_in(
        &self,
        place: &Place,
        tool: &dyn Tool,
        args: &Value,
    ) -> Result<Prepared, ToolFailure> {
        let preparation: Preparation = tool.prepare(args, place).await?;
        let spec = tool.spec();
        let call = ToolCall {
            id: "1".into(),
            name: spec.name.clone(),
            args: args.clone(),
            source: ToolSource::Model,
        };
        Ok(Prepared::new(call, place.requester.clone(), spec.risk, spec.idempotent, preparation))
    }

    pub(crate) async fn run(&self, tool: &dyn Tool, permitted: &Permitted) -> Result<Output, ToolFailure> {
        let update = |text: &str| self.updates.lock().unwrap().push_str(text);
        let work = Work {
            place: &self.place,
            runner: &self.runner,
            cancel: &self.cancel,
            run: None,
            update: &update,
        };
        tool.run(permitted, &work).await
    }

    /// The whole way, through a gate that lets everything pass.
    pub(crate) async fn call(&self, tool: &dyn Tool, args: Value) -> Result<Output, ToolFailure> {
        let prepared = self.prepare(tool, &args).await?;
        self.run(tool, &permitted(prepared)).await
    }

    pub(crate) async fn exec(&self, args: Value) -> Result<Output, ToolFailure> {
        self.call(&self.exec, args).await
    }

    pub(crate) async fn process(&self, args: Value) -> Result<Output, ToolFailure> {
        self.call(&self.process, args).await
    }

    /// Starts something in the background; answers its name.
    pub(crate) async fn background(&self, command: &str) -> String {
        let output = self.exec(json!({ "command": command, "background": true })).await.unwrap();
        output.data.unwrap()["sessionId"].as_str().unwrap().to_owned()
    }

    /// Polls until something was written that contains this, and answers all that came.
    pub(crate) async fn poll_until(&self, name: &str, wanted: &str) -> String {
        let mut all = String::new();
        for _ in 0..200 {
            let output = self.process(json!({ "action": "poll", "sessionId": name })).await.unwrap();
            let data = output.data.unwrap();
            all.push_str(data["output"].as_str().unwrap());
            if all.contains(wanted) || data["status"] == wanted {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{wanted:?} never came: {all:?}");
    }
}

fn place(root: PathBuf, agent: &str, session: &str) -> Place {
    let requester = Requester {
        scope: Scope::personal(agent.parse().unwrap()),
        session: session.into(),
        actor: "tester".into(),
        root: root.display().to_string(),
    };
    let env = [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into();
    Place {
        requester,
        root,
        forbidden: Vec::new(),
        env,
        background: true,
        egress: tidegate_net::Egress::default(),
    }
}

/// A gate that lets every command pass, and more than commands when `high_risk` says so.
fn gate(high_risk: Verdict) -> Gate {
    let exec = ExecPolicy {
        security: Security::Full,
        ask: Ask::Off,
        unconfined_by_name: true,
        ..ExecPolicy::default()
    };
    let base = Base { profile: Profile::Full, ..Base::default() };
    let plugins = vec!["weather".to_owned()];
    let policy = ToolPolicy { base, exec, high_risk, plugins, ..ToolPolicy::default() };
    Gate::new(Pipeline::new(&policy).unwrap())
}

const FACTS: Circumstances<'static> = Circumstances { trust: Trust::Normal, allowed: &[] };

pub(crate) fn permitted(prepared: Prepared) -> Permitted {
    gate(Verdict::Allow).permit(prepared, &FACTS).unwrap()
}

/// Whether a call has to be asked for where calls of high risk are.
pub(crate) fn asks(prepared: Prepared) -> bool {
    matches!(gate(Verdict::Ask).permit(prepared, &FACTS), Err(Held::Asks(..)))
}

/// Whether a process has this among its words. Zombies have none.
pub(crate) fn is_running(marker: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
    })
}

/// Waits until nothing with this among its words runs.
pub(crate) async fn is_gone(marker: &str) -> bool {
    for _ in 0..200 {
        if !is_running(marker) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    false
}
