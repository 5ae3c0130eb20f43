//! The tools of this installation, put together from what is built in and what is configured.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tidegate_engine::{Home, Settings, ToolContext, Toolbox};
use tidegate_mcp::{Logins, Means, Servers};
use tidegate_net::{Client, Guard};
use tidegate_policy::{Permitted, Preparation, Profile};
use tidegate_protocol::{ErrorCode, Scope};
use tidegate_runtime::SystemClock;
use tidegate_sandbox::Sandboxes;
use tidegate_tools::{
    DEFAULT_TIMEOUT, ExecTool, Output, Place, ProcessLimits, ProcessTool, Processes, Registry, Tool,
    ToolFailure, ToolSpec, WebSettings, Work, basic_tools, custom_tool, file_tools, web_tools,
};

use crate::app::App;
use crate::failure::{Failure, Message};
use crate::leaks::leaks;
use crate::output::complain;
use crate::texts;

/// Everything the engine needs to run tools.
pub(crate) fn toolbox(
    app: &App,
    home: &Home,
    settings: &Settings,
    sandboxes: Arc<Sandboxes>,
) -> Result<Toolbox, Failure> {
    settings.check_tools()?;
    let processes = Processes::new(ProcessLimits::default(), Arc::new(SystemClock));
    let means = mcp_means(app, home, settings, sandboxes)?;
    Ok(Toolbox {
        registry: Arc::new(tools(settings, &processes)?),
        providers: vec![Servers::new(settings.mcp_servers(home), &means)],
        confiner: means.confiner,
        processes,
        env: means.env,
        forbidden: Vec::new(),
        leaks: leaks(app, home, settings),
    })
}

/// Says that nothing holds the programs of a conversation, if that is so and it can start any.
pub(crate) fn mention_bare(app: &App, settings: &Settings, scope: &Scope, session: &str) {
    if settings.profile(scope, session) != Profile::None {
        return;
    }
    let starts_programs = settings
        .pipeline(scope, &ToolContext::default())
        .is_ok_and(|pipeline| !pipeline.tools(["exec"], settings.trust(scope, session)).is_empty());
    if starts_programs {
        let keys = settings.confinement_keys(scope, session);
        complain(&bare(app, scope.agent.as_str(), &keys.profile));
    }
}

/// The warning, with the way back from the key that says so.
pub(crate) fn bare(app: &App, agent: &str, key: &str) -> String {
    let program = &app.program;
    let way = match key {
        "--profile" => "--profile local".to_owned(),
        "tools.exec.host" => format!("{program} config unset tools.exec.host"),
        key if key.rsplit('.').next() == Some("mode") => format!("{program} config set {key} all"),
        key => format!("{program} config set {key} local"),
    };
    app.fill(texts::sandbox::BARE, &[("agent", &agent), ("key", &key), ("way", &way)])
}

/// What MCP servers are reached with.
pub(crate) fn mcp_means(
    app: &App,
    home: &Home,
    settings: &Settings,
    sandboxes: Arc<Sandboxes>,
) -> Result<Means, Failure> {
    Ok(Means {
        confiner: sandboxes,
        env: settings.command_env(|name| app.env.get(name).map(str::to_owned)),
        client: Client::default(),
        logins: Some(mcp_logins(home, settings)?),
        pauses: (Duration::from_secs(1), Duration::from_mins(5)),
    })
}

/// Logins at MCP servers. They are renewed where they were made.
pub(crate) fn mcp_logins(home: &Home, settings: &Settings) -> Result<Arc<Logins>, Failure> {
    let (client, clock) = (login_client(settings)?, Arc::new(SystemClock));
    Ok(Logins::new(home.credentials(), settings.credential_options(), client, clock))
}

/// What asks for logins, the first time and later.
pub(crate) fn login_client(settings: &Settings) -> Result<Client, Failure> {
    Ok(Client::default().guarded_by(guard(settings)?))
}

/// The tools there are. For those who only look at them, nothing is ever started.
pub(crate) fn tools_to_look_at(settings: &Settings) -> Result<Registry, Failure> {
    let processes = Processes::new(ProcessLimits::default(), Arc::new(SystemClock));
    let mut registry = tools(settings, &processes)?;
    // The real ones come with an engine.
    for tool in tidegate_engine::engine_tools_to_look_at(settings) {
        add(&mut registry, tool)?;
    }
    Ok(registry)
}

fn tools(settings: &Settings, processes: &Arc<Processes>) -> Result<Registry, Failure> {
    let guard = guard(settings)?;
    let web =
        WebSettings { guard: guard.clone(), fetch: settings.web_fetch(), search: settings.web_search() };
    let mut all = basic_tools();
    all.extend(
        file_tools()
            .into_iter()
            .filter(|tool| settings.has_apply_patch() || tool.spec().name != "apply_patch"),
    );
    all.push(Arc::new(ExecTool::new(settings.exec_settings(), Arc::clone(processes))));
    all.push(Arc::new(ProcessTool::new(Arc::clone(processes))));
    all.extend(web_tools(web));
    let client = Client::default().guarded_by(guard);
    let mut registry = Registry::default();
    for tool in all {
        add(&mut registry, timed(tool, settings.tool_timeout()))?;
    }
    for spec in settings.custom_tools() {
        let tool = custom_tool(&spec, processes, &client)
            .map_err(|error| unusable(&spec.name, &error.to_string()))?;
        add(&mut registry, tool)?;
    }
    Ok(registry)
}

/// What addresses may be called that nobody here wrote down.
pub(crate) fn guard(settings: &Settings) -> Result<Guard, Failure> {
    Guard::allowing(settings.private_addresses())
        .map_err(|bad| unusable("tools.web.allowPrivate", &bad.to_string()))
}

fn add(registry: &mut Registry, tool: Arc<dyn Tool>) -> Result<(), Failure> {
    registry.add(tool).map_err(|taken| unusable("tools", &taken.to_string()))
}

fn unusable(path: &str, problem: &str) -> Failure {
    Failure::new(ErrorCode::ConfigInvalid, Message::plain(format!("{path}: {problem}")))
}

/// A tool that keeps to the usual time gets the configured one.
fn timed(tool: Arc<dyn Tool>, timeout: Duration) -> Arc<dyn Tool> {
    if tool.spec().timeout != Some(DEFAULT_TIMEOUT) || timeout == DEFAULT_TIMEOUT {
        return tool;
    }
    let spec = ToolSpec { timeout: Some(timeout), ..tool.spec().clone() };
    Arc::new(Timed { spec, tool })
}

struct Timed {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

#[async_trait]
impl Tool for Timed {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        self.tool.prepare(args, place).await
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        self.tool.run(permitted, work).await
    }
}
