//! `tools`: which there are, what policy says about them, and running one by hand.

mod explain;
mod fit;
mod hint;
mod info;
mod invoke;
mod list;
mod remedy;

use std::path::PathBuf;
use std::sync::Arc;

pub(super) use explain::explain;
pub(super) use fit::fitted;
pub(super) use info::info;
pub(super) use invoke::{invoke, result_json};
pub(super) use list::list;
use serde_json::{Value, json};
use tidegate_config::Loaded;
use tidegate_config::schema::Tools;
use tidegate_engine::{Home, Reserved, Settings, ToolContext, session_key};
use tidegate_mcp::Standing;
use tidegate_models::{OFFLINE, parse_ref};
use tidegate_net::Egress;
use tidegate_policy::approval::AllowRule;
use tidegate_policy::tools::{Circumstances, Decision, Pipeline, Trust, Verdict};
use tidegate_policy::{Preparation, Prepared, Principal, Profile, Requester};
use tidegate_protocol::{ErrorCode, Risk, Scope, ToolCall, ToolSource};
use tidegate_runtime::catalogue::Text;
use tidegate_tools::{Place, Registry, ToolSpec};

use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed, closest};
use crate::commands::{block_on, mcp};
use crate::failure::{Failure, With as _};
use crate::output::printable;
use crate::store::open_existing;
use crate::texts;
use crate::texts::tools as words;
use crate::toolbox::tools_to_look_at;

/// The session of a person at the keyboard.
const KEYBOARD: &str = "cli";

/// What these commands look at. Nothing here changes anything, so nobody is asked for the home.
struct Known {
    registry: Registry,
    /// MCP servers whose tools are not there, and why.
    absent: Vec<(String, String)>,
    scope: Scope,
    place: Place,
    pipeline: Arc<Pipeline>,
    trust: Trust,
    /// What the configuration says about tools.
    tools: Tools,
    /// What people allowed for good.
    allowed: Vec<AllowRule>,
}

impl Known {
    fn new(app: &App, parsed: &Parsed) -> Result<Self, Failure> {
        let home = home_of(parsed)?;
        let loaded = app.config(&home)?;
        let settings = Settings::new(&loaded);
        let scope = settings.scope(parsed.value("agent"))?;
        let session = parsed.value("session").unwrap_or(KEYBOARD);
        let model = parsed.value("model").and_then(|text| parse_ref(text, OFFLINE));
        let place = place(app, &settings, &home, &scope, session, parsed)?;
        let (registry, absent) = registry(app, &home, &settings, parsed.arguments.first())?;
        let reserved = Reserved::of(&place);
        let key = match session {
            // Calls without a conversation belong to none.
            KEYBOARD => session.to_owned(),
            name => session_key(&scope.tenant, || Ok(scope.clone()), name)?.to_string(),
        };
        let context = ToolContext {
            confined: settings.profile(&scope, &key) != Profile::None,
            only_looks: settings.only_looks(&scope, &key),
            forbidden: &reserved.forbidden,
            roots: &reserved.roots,
            provider: model.as_ref().map(|model| model.provider.as_str()),
            model: model.as_ref().map(|model| model.model.as_str()),
            provided: registry.provided(),
            ..ToolContext::default()
        };
        Ok(Self {
            pipeline: settings.pipeline(&scope, &context)?,
            trust: settings.trust(&scope, session),
            place,
            allowed: saved(&home, &loaded, &scope)?,
            registry,
            absent,
            tools: loaded.config.tools.clone(),
            scope,
        })
    }

    fn find(&self, app: &App, name: &str) -> Result<&ToolSpec, Failure> {
        if let Some(tool) = self.registry.find(name) {
            return Ok(tool.spec());
        }
        let message = words::TOOL_NOT_FOUND.with(&[("name", &printable(name))]);
        let failure = Failure::new(ErrorCode::NotFound, message);
        if let Some((server, why)) = self.absent.iter().find(|(server, _)| of_server(name) == Some(server)) {
            let hint = words::SERVER_ABSENT.with(&[("server", server), ("why", &printable(why))]);
            return Err(failure.with_hint(hint));
        }
        if name.trim().eq_ignore_ascii_case("browser") {
            return Err(failure.with_hint(words::BROWSER_OFF.with(&[("program", &app.program)])));
        }
        Err(match meant(&self.registry, name) {
            Some(meant) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &meant)])),
            None => failure.with_hint(words::SEE_TOOLS.with(&[("program", &app.program)])),
        })
    }

    fn decide(&self, prepared: &Prepared) -> Decision {
        self.pipeline.decide(prepared, &Circumstances { trust: self.trust, allowed: &self.allowed })
    }

    /// What policy says about a tool before anybody knows what it is called with.
    fn outline(&self, spec: &ToolSpec) -> Decision {
        let call = call(&spec.name, json!({}));
        let requester = self.place.requester.clone();
        self.decide(&Prepared::new(call, requester, spec.risk, spec.idempotent, Preparation::default()))
    }
}

/// Every tool there is: of ours, and of the MCP servers that are meant.
fn registry(
    app: &App,
    home: &Home,
    settings: &Settings,
    wanted: Option<&String>,
) -> Result<(Registry, Vec<(String, String)>), Failure> {
    let ours = tools_to_look_at(settings)?;
    // One tool is wanted, or all of them.
    let specs = match wanted.map(|name| of_server(name)) {
        None => settings.mcp_servers(home),
        Some(Some(server)) => {
            settings.mcp_servers(home).into_iter().filter(|spec| spec.name == server).collect()
        }
        Some(None) => Vec::new(),
    };
    let (tools, statuses) = block_on(mcp::known(app, home, settings, specs))?;
    let absent = statuses.into_iter().filter_map(|status| match status.standing {
        Standing::Failed { why, .. } => Some((status.name, why)),
        _ => None,
    });
    Ok((if tools.is_empty() { ours } else { ours.with_provided(tools) }, absent.collect()))
}

/// The MCP server that a tool of this name would be of.
fn of_server(name: &str) -> Option<&str> {
    Some(name.trim().strip_prefix("mcp.")?.split_once('.')?.0)
}

/// The tool whose name was mistyped, or written without what stands before it.
pub(super) fn meant<'a>(registry: &'a Registry, name: &str) -> Option<&'a str> {
    let name = name.to_lowercase();
    let ending = format!(".{name}");
    let known = || registry.specs().map(|spec| spec.name.as_str());
    known().find(|known| known.ends_with(&ending)).or_else(|| closest(&name, known()))
}

fn call(name: &str, args: Value) -> ToolCall {
    ToolCall { id: KEYBOARD.to_owned(), name: name.to_owned(), args, source: ToolSource::Cli }
}

/// Where a call of these commands is made: the folder of the caller, or the one that was named.
fn place(
    app: &App,
    settings: &Settings,
    home: &Home,
    scope: &Scope,
    session: &str,
    parsed: &Parsed,
) -> Result<Place, Failure> {
    let root = root(parsed)?;
    let owner = Principal::local_owner(scope.tenant.clone());
    Ok(Place {
        requester: Requester {
            scope: scope.clone(),
            session: session.to_owned(),
            actor: owner.actor().to_owned(),
            root: root.to_string_lossy().into_owned(),
        },
        root,
        forbidden: vec![home.root().to_owned()],
        env: settings.command_env(|name| app.env.get(name).map(str::to_owned)),
        background: true,
        egress: Egress { hosts: settings.host_rules(scope), leaks: crate::leaks::leaks(app, home, settings) },
    })
}

/// The folder that file tools are held to, as it really is.
fn root(parsed: &Parsed) -> Result<PathBuf, Failure> {
    let asked = match parsed.value("root") {
        Some(root) => PathBuf::from(root),
        None => std::env::current_dir()?,
    };
    asked.canonicalize().ok().filter(|root| root.is_dir()).ok_or_else(|| {
        let message = words::NO_SUCH_FOLDER.with(&[("path", &printable(&asked.to_string_lossy()))]);
        Failure::new(ErrorCode::InvalidValue, message)
    })
}

fn saved(home: &Home, loaded: &Loaded, scope: &Scope) -> Result<Vec<AllowRule>, Failure> {
    block_on(async {
        match open_existing(home, &loaded.config).await? {
            Some(store) => Ok(store.allow_rules(&scope.tenant, Some(scope)).await?),
            None => Ok(Vec::new()),
        }
    })
}

/// What `--args` says; nothing when it is not there.
fn arguments(command: &'static Command, parsed: &Parsed) -> Result<Option<Value>, Failure> {
    let Some(text) = parsed.value("args") else { return Ok(None) };
    let read = serde_json::from_str(text);
    read.map(Some).map_err(|cause| {
        let message = words::INVALID_ARGS.with(&[("cause", &cause)]);
        Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
    })
}

fn decided_json(decision: &Decision) -> Value {
    json!({
        "verdict": decision.verdict,
        "stage": decision.stage,
        "rule": decision.rule,
        "reason": decision.reason,
        "allowedBy": decision.allowed_by,
    })
}

fn verdict(verdict: Verdict) -> Text {
    match verdict {
        Verdict::Allow => words::ALLOWED,
        Verdict::Ask => words::ASKS,
        Verdict::Deny => words::DENIED,
    }
}

fn risk(risk: Risk) -> Text {
    match risk {
        Risk::Read => words::RISK_READ,
        Risk::Write => words::RISK_WRITE,
        Risk::Network => words::RISK_NETWORK,
        Risk::Execute => words::RISK_EXECUTE,
    }
}
