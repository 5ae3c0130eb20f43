//! An agent with every built-in tool, another agent beside it, and the one way of a call: found by its name, prepared,
//! permitted by the gate or by somebody's yes, run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_net::{Client, Guard};
use tidegate_policy::approval::{Answer, Answering, Approval, OwnCalls, Question, UseRefused};
use tidegate_policy::tools::{Base, Circumstances, Decision, Pipeline, Profile, ToolPolicy, Trust};
use tidegate_policy::{Gate, Held, Permitted, Prepared, Principal, Requester, Runner};
use tidegate_protocol::{ApprovalId, Id as _, Risk, Scope, ToolCall, ToolResult, ToolSource};
use tidegate_runtime::SystemClock;
use tidegate_testkit::search_server::{Entry, SearchServer};
use tidegate_testkit::web_server::{Page, WebServer};
use tidegate_tools::{
    CommandOutput, CommandSpec, CustomKind, CustomSpec, ExecSettings, ExecTool, HttpSpec, Place,
    ProcessLimits, ProcessTool, Processes, Registry, SearchProvider, ToolFailure, WebSearchSettings,
    WebSettings, Work, basic_tools, custom_tool, execute, failed, file_tools, refused, web_tools,
};
use tokio_util::sync::CancellationToken;

use crate::bare::Bare;

/// What the other agent's files and the program's own hold, and nothing else on this machine does.
pub(crate) const PRIVATE: &str = "5d1c-for-nobody-else";

const FACTS: Circumstances<'static> = Circumstances { trust: Trust::Normal, allowed: &[] };

/// The network as the tools see it: a page, a search, a service of the operator.
pub(crate) struct Web {
    pub(crate) pages: WebServer,
    pub(crate) search: SearchServer,
}

impl Web {
    pub(crate) async fn start() -> Self {
        let pages =
            WebServer::answering(|asked| Page::new(200, "text/plain", format!("page {}", asked.path)));
        Self { pages: pages.await, search: SearchServer::start(vec![Entry::numbered(1)]).await }
    }
}

pub(crate) struct Scene {
    pub(crate) registry: Registry,
    pub(crate) gate: Gate,
    /// Where `main` works.
    pub(crate) place: Place,
    /// Where `other` works.
    pub(crate) other: Place,
    runner: Arc<dyn Runner>,
    folder: TempDir,
}

/// How a call was let through, or held.
#[derive(Debug)]
pub(crate) enum Way {
    Permitted(ToolResult),
    /// With somebody's yes to exactly this.
    Approved(ToolResult),
    NotPrepared(ToolFailure),
    Denied(Decision),
    /// It would have to be asked for, and was not.
    Asks,
}

impl Way {
    /// All that came back of it.
    pub(crate) fn told(&self) -> String {
        format!("{self:?}")
    }
}

impl Scene {
    pub(crate) fn new(web: &Web) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let state = base.join("main/.state");
        for name in ["main/sub", "other", "main/.state"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        fs::write(base.join("main/notes.txt"), "alpha\nbeta\n").unwrap();
        fs::write(base.join("other/private.txt"), format!("alpha {PRIVATE}\n")).unwrap();
        fs::write(state.join("keys.txt"), format!("alpha {PRIVATE}\n")).unwrap();
        std::os::unix::fs::symlink("../other", base.join("main/door")).unwrap();
        std::os::unix::fs::symlink(base.join("other/private.txt"), base.join("main/letter.txt")).unwrap();
        let processes = Processes::new(ProcessLimits::default(), Arc::new(SystemClock));
        Self {
            registry: registry(web, &processes),
            gate: gate(),
            place: place(&base, "main", &state),
            other: place(&base, "other", &state),
            runner: Arc::new(Bare),
            folder,
        }
    }

    /// The same tools and programs, with the other agent calling.
    pub(crate) fn seen_by_the_other(self) -> Self {
        Self { place: self.other.clone(), ..self }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.place.root
    }

    /// Everything that is not the agent's, with what it holds.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut seen = BTreeMap::new();
        let base = self.folder.path().canonicalize().unwrap();
        let mut left = vec![base.clone()];
        while let Some(path) = left.pop() {
            if path == self.place.root {
                left.push(path.join(".state"));
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            seen.insert(path.clone(), metadata.is_file().then(|| fs::read(&path).unwrap()));
            if metadata.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        seen
    }

    pub(crate) async fn prepare(&self, name: &str, args: Value) -> Result<Prepared, ToolFailure> {
        let call = ToolCall { id: "1".into(), name: name.into(), args, source: ToolSource::Model };
        self.registry.prepare(call, &self.place).await
    }

    pub(crate) fn permit(&self, prepared: Prepared) -> Result<Permitted, Held> {
        self.gate.permit(prepared, &FACTS)
    }

    pub(crate) async fn run(&self, permitted: &Permitted, place: &Place) -> ToolResult {
        let tool = self.registry.find(permitted.prepared().tool()).unwrap();
        let cancel = CancellationToken::new();
        let work = Work { place, runner: &self.runner, cancel: &cancel, run: None, update: &|_| {} };
        execute(tool.as_ref(), permitted, &work).await
    }

    /// The whole way; where it asks, `approves` answers.
    pub(crate) async fn call(&self, name: &str, args: Value, approves: bool) -> Way {
        let prepared = match self.prepare(name, args.clone()).await {
            Ok(prepared) => prepared,
            Err(failure) => return Way::NotPrepared(failure),
        };
        let (prepared, decision) = match self.permit(prepared) {
            Ok(permitted) => return Way::Permitted(self.run(&permitted, &self.place).await),
            Err(Held::Denied(decision)) => return Way::Denied(decision),
            Err(Held::Asks(..)) if !approves => return Way::Asks,
            Err(Held::Asks(prepared, decision)) => (prepared, decision),
        };
        let approval = approved(&prepared, &decision);
        match self.use_it(&approval, name, args).await {
            Ok(permitted) => Way::Approved(self.run(&permitted, &self.place).await),
            Err(reason) => panic!("{name}: {reason}"),
        }
    }

    /// Prepares the call once more, as it is done when a yes has come, and uses the yes up for it.
    pub(crate) async fn use_it(
        &self,
        approval: &Approval,
        name: &str,
        args: Value,
    ) -> Result<Permitted, String> {
        let again = self.prepare(name, args).await.map_err(|failure| failure.message)?;
        let (_, grant) =
            approval.use_up(again.digest(), 6).map_err(|refused: UseRefused| refused.to_string())?;
        self.gate.permit_approved(again, grant, &FACTS).map_err(|decision| decision.reason)
    }
}

/// A question about this call that somebody answered with yes.
pub(crate) fn approved(prepared: &Prepared, decision: &Decision) -> Approval {
    let question = Question::of(prepared, decision, None);
    let asked = Approval::ask(ApprovalId::from_parts(1, [1; 10]), None, prepared, question, 1, 1000);
    let owner = Principal::local_owner(prepared.requester().scope.tenant.clone());
    match asked.answer(&owner, &Answer::AllowOnce, OwnCalls::MayApprove, 5) {
        Answering::Counts { approval, .. } => *approval,
        other => panic!("{other:?}"),
    }
}

/// What a model would be told.
pub(crate) fn result(name: &str, way: Way) -> ToolResult {
    match way {
        Way::Permitted(result) | Way::Approved(result) => result,
        Way::NotPrepared(failure) => failed(name, failure),
        Way::Denied(decision) => refused(name, &decision, false),
        Way::Asks => panic!("{name} was not answered"),
    }
}

/// Every tool, and commands that ask: nothing holds them on this machine.
fn gate() -> Gate {
    let base = Base { profile: Profile::Full, ..Base::default() };
    let plugins = vec!["tools.custom.say".to_owned(), "tools.custom.weather".to_owned()];
    Gate::new(Pipeline::new(&ToolPolicy { base, plugins, ..ToolPolicy::default() }).unwrap())
}

fn place(base: &Path, agent: &str, state: &Path) -> Place {
    let root = base.join(agent);
    let requester = Requester {
        scope: Scope::personal(agent.parse().unwrap()),
        session: format!("agent:{agent}:main"),
        actor: "tester".into(),
        root: root.display().to_string(),
    };
    let env = [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into();
    Place {
        requester,
        root,
        forbidden: vec![state.to_owned()],
        env,
        background: true,
        egress: tidegate_net::Egress::default(),
    }
}

fn registry(web: &Web, processes: &Arc<Processes>) -> Registry {
    let guard = Guard::allowing([web.pages.address().to_string()]).unwrap();
    let search = WebSearchSettings {
        provider: Some(SearchProvider::Searxng),
        base_url: Some(web.search.base_url()),
        ..WebSearchSettings::default()
    };
    let mut tools = basic_tools();
    tools.extend(file_tools());
    tools.push(Arc::new(ExecTool::new(ExecSettings::default(), processes.clone())));
    tools.push(Arc::new(ProcessTool::new(processes.clone())));
    tools.extend(web_tools(WebSettings { guard: guard.clone(), search, ..WebSettings::default() }));
    let client = Client::default().guarded_by(guard);
    let command = CommandSpec {
        argv: ["printf", "[%s]", "{{city}}"].map(str::to_owned).to_vec(),
        stdin_json: false,
        env: BTreeMap::new(),
        output: CommandOutput::Text,
    };
    let http = HttpSpec {
        method: "GET".into(),
        url: web.pages.url("/v1/{{city}}"),
        headers: BTreeMap::new(),
        body: None,
    };
    for (name, kind) in [("say", CustomKind::Command(command)), ("weather", CustomKind::Http(http))] {
        tools.push(custom_tool(&custom(name, kind), processes, &client).unwrap());
    }
    let mut registry = Registry::default();
    for tool in tools {
        registry.add(tool).unwrap();
    }
    registry
}

fn custom(name: &str, kind: CustomKind) -> CustomSpec {
    CustomSpec {
        name: format!("tools.custom.{name}"),
        description: String::new(),
        input_schema: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"]
        }),
        risk: Risk::Execute,
        idempotent: true,
        timeout: Duration::from_secs(5),
        kind,
    }
}

/// For each tool: arguments that work, whether it asks, and a part of what it answers.
pub(crate) fn samples(web: &Web) -> Vec<(&'static str, Value, bool, &'static str)> {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+gamma\n*** End Patch";
    vec![
        ("time.now", json!({}), false, "timestamp="),
        ("tools.echo", json!({ "message": "hello" }), false, "hello"),
        ("shell.pwd", json!({}), false, "/main"),
        ("fs.list_dir", json!({ "path": "." }), false, "listed 5 paths"),
        ("fs.read_file", json!({ "path": "notes.txt" }), false, "beta"),
        ("read", json!({ "path": "notes.txt" }), false, "beta"),
        ("ls", json!({ "path": "." }), false, "notes.txt"),
        ("find", json!({ "pattern": "*.txt", "path": "." }), false, "notes.txt"),
        ("grep", json!({ "pattern": "alpha", "path": "." }), false, "notes.txt"),
        ("write", json!({ "path": "sub/made.txt", "content": "made" }), false, "made.txt"),
        ("edit", json!({ "path": "notes.txt", "oldText": "alpha", "newText": "omega" }), false, "omega"),
        ("apply_patch", json!({ "input": patch }), false, "new.txt"),
        ("memory_append", json!({ "text": "the tide turns at six", "file": "tides.md" }), false, "tides.md"),
        ("exec", json!({ "command": "printf done", "workdir": "sub" }), true, "done"),
        ("process", json!({ "action": "list" }), false, ""),
        ("web_fetch", json!({ "url": web.pages.url("/one") }), false, "page /one"),
        ("web_search", json!({ "query": "tides" }), false, "Result 1"),
        ("http.request", json!({ "url": web.pages.url("/two"), "method": "POST" }), true, "page /two"),
        ("tools.custom.say", json!({ "city": "Ulm" }), true, "[Ulm]"),
        ("tools.custom.weather", json!({ "city": "Ulm" }), true, "page /v1/Ulm"),
    ]
}
