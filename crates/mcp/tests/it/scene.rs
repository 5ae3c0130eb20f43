//! Servers to call, and a gate that lets everything through.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_mcp::{Means, ProgramSpec, Reach, ServerSpec, Servers, Standing, Status, ToolFilter};
use tidegate_net::Client;
use tidegate_policy::tools::{
    Base, Circumstances, Pipeline, Profile as ToolProfile, ToolPolicy, Trust, Verdict,
};
use tidegate_policy::{Access, Besides, Confinement, Gate, Limits, Network, Profile, Requester, Runner};
use tidegate_protocol::{Scope, ToolCall, ToolResult, ToolSource};
use tidegate_sandbox::{Sandboxes, Supervisor};
use tidegate_tools::{Place, Registry, Tool, ToolProvider as _, Work, execute};
use tokio_util::sync::CancellationToken;

/// Far more than anything here takes.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// The example of this crate, which is built with the tests.
pub(crate) fn helper() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/mcp_peer");
    assert!(
        program.exists(),
        "cargo test and cargo nextest build {}; a single target does not",
        program.display()
    );
    program
}

pub(crate) struct Scene {
    pub(crate) servers: Arc<Servers>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn means(folder: &Path) -> Means {
    means_with(folder, |sandboxes| sandboxes)
}

/// With other sandboxes.
pub(crate) fn means_with(folder: &Path, change: impl FnOnce(Sandboxes) -> Sandboxes) -> Means {
    let supervisor = Supervisor { program: helper(), args: Vec::new() };
    let env =
        ["PATH", "HOME"].into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    Means {
        confiner: Arc::new(change(Sandboxes::new(supervisor, folder.join("places"), None))),
        env: env.collect(),
        client: Client::default(),
        logins: None,
        pauses: (Duration::from_millis(20), Duration::from_millis(200)),
    }
}

pub(crate) fn spec(name: &str, reach: Reach) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        reach,
        tools: ToolFilter::default(),
        mode: Verdict::Allow,
        risk: None,
        timeout: LONG,
        startup: LONG,
    }
}

pub(crate) fn program(argv: Vec<String>, folder: &Path) -> Reach {
    let folder = folder.canonicalize().unwrap().join("work");
    Reach::Stdio(ProgramSpec {
        argv,
        env: BTreeMap::new(),
        confinement: Confinement {
            profile: Profile::None,
            place: "mcp".to_owned(),
            folder: folder.clone(),
            access: Access::ReadWrite,
            hidden: Vec::new(),
            besides: Besides::default(),
            network: Network::None,
            limits: Limits { memory: 1 << 31, processes: 512, disk: 1 << 31 },
        },
        folder,
    })
}

impl Scene {
    /// A server of the testkit with this behaviour.
    pub(crate) fn of(behaviour: &str) -> Self {
        Self::with(behaviour, |_| {})
    }

    pub(crate) fn with(behaviour: &str, change: impl FnOnce(&mut ServerSpec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes").display().to_string();
        let argv = vec![helper().display().to_string(), behaviour.to_owned(), notes];
        let mut spec = spec("kit", program(argv, folder.path()));
        change(&mut spec);
        let servers = Servers::new(vec![spec], &means(folder.path()));
        Self { servers, folder }
    }

    pub(crate) fn running(specs: Vec<ServerSpec>, folder: tempfile::TempDir) -> Self {
        Self { servers: Servers::new(specs, &means(folder.path())), folder }
    }

    /// What the server was told, a line each.
    pub(crate) fn notes(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Status {
        self.servers.statuses().remove(0)
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        tokio::time::timeout(LONG, self.servers.settled()).await.unwrap();
        self.servers.tools().iter().map(|tool| tool.spec().name.clone()).collect()
    }

    pub(crate) async fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools().await;
        let tools = self.servers.tools();
        tools
            .iter()
            .find(|tool| tool.spec().name == name)
            .unwrap_or_else(|| panic!("no {name}: {:?}", self.status()))
            .clone()
    }

    pub(crate) async fn call(&self, name: &str, args: Value) -> ToolResult {
        let tool = self.tool(name).await;
        call(&tool, args, &CancellationToken::new(), &|_| {}).await
    }

    /// Waits until the server stands so.
    pub(crate) async fn until(&self, wanted: impl Fn(&Standing) -> bool) -> Status {
        for _ in 0..6000 {
            let status = self.status();
            if wanted(&status.standing) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {:?}", self.status());
    }
}

/// Calls a tool as the engine does: prepared, through the gate, with its time.
pub(crate) async fn call(
    tool: &Arc<dyn Tool>,
    args: Value,
    cancel: &CancellationToken,
    update: &(dyn Fn(&str) + Send + Sync),
) -> ToolResult {
    let mut registry = Registry::default();
    registry.add(Arc::clone(tool)).unwrap();
    let scope = Scope::personal("main".parse().unwrap());
    let requester = Requester { scope, session: "test".into(), actor: "test".into(), root: "/".into() };
    let place = Place {
        requester,
        root: "/".into(),
        forbidden: Vec::new(),
        env: BTreeMap::new(),
        background: false,
        egress: tidegate_net::Egress::default(),
    };
    let name = tool.spec().name.clone();
    let call = ToolCall { id: "c".into(), name: name.clone(), args, source: ToolSource::Model };
    let prepared = registry.prepare(call, &place).await.unwrap();
    let policy = ToolPolicy {
        base: Base { profile: ToolProfile::Full, ..Base::default() },
        high_risk: Verdict::Allow,
        plugins: vec![name],
        ..ToolPolicy::default()
    };
    let gate = Gate::new(Pipeline::new(&policy).unwrap());
    let permitted = gate.permit(prepared, &Circumstances { trust: Trust::Normal, allowed: &[] }).unwrap();
    let runner: Arc<dyn Runner> =
        Arc::new(tidegate_sandbox::Host::new(Supervisor { program: helper(), args: Vec::new() }));
    let work = Work { place: &place, runner: &runner, cancel, run: None, update };
    tokio::time::timeout(LONG, execute(tool.as_ref(), &permitted, &work)).await.unwrap()
}

pub(crate) fn text(args: &str) -> Value {
    json!({ "text": args })
}
