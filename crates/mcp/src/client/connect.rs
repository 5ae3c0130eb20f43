//! Coming to speak with a server: starting or reaching it, agreeing on a version, and listing its tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{PaginatedRequestParams, ProtocolVersion, Tool as Listed};
use rmcp::service::{ClientInitializeError, Peer, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpClientTransportConfig,
};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use tidegate_net::Client;
use tidegate_policy::Confiner;

use super::http::{Login, NetHttp};
use super::listener::Listener;
use super::names::{LeftOut, MOST_TOOLS, Shown, shown};
use super::spec::{AddressSpec, ProgramSpec, Reach, ServerSpec};
use super::stdio::{Program, with_stderr};
use crate::login::{Challenge, Logins};

/// Pages of tools that are asked for.
const MOST_PAGES: usize = 64;

/// What servers are reached with.
#[derive(Clone)]
pub struct Means {
    /// Finds what starts programs.
    pub confiner: Arc<dyn Confiner>,
    /// What programs find in their environment.
    pub env: BTreeMap<String, String>,
    pub client: Client,
    /// Logins at servers that run elsewhere.
    pub logins: Option<Arc<Logins>>,
    /// How long a server that failed is left alone: the first time, and at most.
    pub pauses: (Duration, Duration),
}

/// How a server is spoken to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// As of 2026-07-28, falling back to the handshake before it.
    Newest,
    /// The handshake alone: some older programs do not survive being asked anything else.
    Handshake,
}

impl Greeting {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Newest => Self::Handshake,
            Self::Handshake => Self::Newest,
        }
    }
}

/// A server that answers.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Arc<Listener>>,
    pub(crate) program: Option<Program>,
    pub(crate) link: Link,
}

/// What calls need of a connection.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) about: About,
}

/// What a server said about itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct About {
    /// Of the protocol.
    pub(crate) version: String,
    /// Its name and version.
    pub(crate) software: Option<String>,
    pub(crate) tools: Vec<Shown>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Why a server cannot be spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    /// The end of its error output.
    pub(crate) stderr: String,
    /// Somebody has to sign in.
    pub(crate) login: Option<LoginWanted>,
}

/// Somebody has to sign in.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LoginWanted {
    /// There is a login, and it does not allow this.
    pub scope: Option<String>,
}

impl LoginWanted {
    /// Reads it from what the server said when it refused.
    fn of(challenge: &str) -> Self {
        let challenge = Challenge::read(challenge);
        // People paste this into a shell.
        let plain = |c: char| c.is_ascii_alphanumeric() || ":/._-*+, ".contains(c);
        let scope = challenge.scope.clone().filter(|scope| scope.len() < 300 && scope.chars().all(plain));
        Self { scope: challenge.wants_more_scope().then(|| scope.unwrap_or_default()) }
    }

    /// The same from an error of a connection, wherever in it that is said.
    pub(crate) fn within(error: &ServiceError) -> Option<Self> {
        let ServiceError::TransportSend(error) = error else { return None };
        let mut current: Option<&(dyn std::error::Error + 'static)> = Some(error.error.as_ref());
        while let Some(error) = current {
            if let Some(refused) = error.downcast_ref::<AuthRequiredError>() {
                return Some(Self::of(&refused.www_authenticate_header));
            }
            if let Some(refused) = error.downcast_ref::<InsufficientScopeError>() {
                return Some(Self::of(&refused.www_authenticate_header));
            }
            current = error.source();
        }
        None
    }

    /// What is wrong and what mends it, in words.
    pub(crate) fn told(&self, server: &str) -> String {
        match self.scope.as_deref() {
            None => format!("it wants a login: tidegate mcp login {server}"),
            Some("") => format!("its login does not allow this: tidegate mcp login {server}"),
            Some(scope) => format!(
                "its login does not allow this, {scope} is missing: tidegate mcp login {server} --scope '{scope}'"
            ),
        }
    }
}

impl Trouble {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), ..Self::default() }
    }
}

pub(crate) async fn connect(
    spec: &ServerSpec,
    means: &Means,
    greeting: Greeting,
) -> Result<Connection, Trouble> {
    let limit = spec.startup;
    let connecting = async {
        match &spec.reach {
            Reach::Stdio(program) => by_program(spec, program, means, greeting).await,
            Reach::Http(address) => by_address(spec, address, means, greeting).await,
        }
    };
    connecting.await.map_err(|mut trouble| {
        if trouble.why.is_empty() {
            trouble.why = unanswered(limit);
        }
        trouble
    })
}

fn unanswered(limit: Duration) -> String {
    format!("it did not answer within {} s", limit.as_secs())
}

async fn by_program(
    spec: &ServerSpec,
    said: &ProgramSpec,
    means: &Means,
    greeting: Greeting,
) -> Result<Connection, Trouble> {
    make_folder(said).map_err(Trouble::new)?;
    let program = Program::start(said, means.confiner.as_ref(), &means.env).await.map_err(Trouble::new)?;
    let listener = Arc::new(Listener::default());
    let greeted = greet(spec, Arc::clone(&listener), program.transport(), greeting).await;
    match greeted {
        Ok((service, about)) => {
            let link = Link { peer: service.peer().clone(), listener, about };
            Ok(Connection { service, program: Some(program), link })
        }
        Err(trouble) => {
            let story = Arc::clone(&program.story);
            let why = match (story.broken(), program.end().await) {
                (Some(broken), _) => broken,
                (None, Some(end)) => end,
                (None, None) if trouble.why.is_empty() => unanswered(spec.startup),
                (None, None) => trouble.why,
            };
            let why = match story.chatter() {
                Some(line) => format!("{why}; to its standard output it wrote what is no message: {line}"),
                None => why,
            };
            Err(Trouble { why: with_stderr(why, &story), stderr: story.stderr(), login: None })
        }
    }
}

/// Its owner's alone, whatever the umask.
fn make_folder(said: &ProgramSpec) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&said.folder);
    made.map_err(|error| format!("its folder {} cannot be made: {error}", said.folder.display()))
}

async fn by_address(
    spec: &ServerSpec,
    said: &AddressSpec,
    means: &Means,
    greeting: Greeting,
) -> Result<Connection, Trouble> {
    let login = means.logins.clone().filter(|_| !said.has_own_authorization());
    let login = login.map(|logins| Login { logins, server: spec.name.clone(), url: said.url.clone() });
    let http = NetHttp::new(means.client.clone(), &said.headers, spec.timeout.max(spec.startup), login);
    let config = StreamableHttpClientTransportConfig::with_uri(said.url.as_str());
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let listener = Arc::new(Listener::default());
    let greeted = greet(spec, Arc::clone(&listener), transport, greeting).await;
    let (service, about) = greeted.map_err(|trouble| match trouble.login {
        Some(_) if said.has_own_authorization() => {
            Trouble::new("it refuses the Authorization header that is configured")
        }
        _ => trouble,
    })?;
    let link = Link { peer: service.peer().clone(), listener, about };
    Ok(Connection { service, program: None, link })
}

type Service = RunningService<RoleClient, Arc<Listener>>;

async fn greet<T, E, A>(
    spec: &ServerSpec,
    listener: Arc<Listener>,
    transport: T,
    greeting: Greeting,
) -> Result<(Service, About), Trouble>
where
    T: rmcp::transport::IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let lifecycle = match greeting {
        Greeting::Newest => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
        Greeting::Handshake => ClientLifecycleMode::Initialize,
    };
    // Nothing but silence has no words of its own.
    let silent = |_| Trouble::default();
    let begun = tokio::time::timeout(spec.startup, listener.serve_with_lifecycle(transport, lifecycle));
    let service = begun.await.map_err(silent)?.map_err(|error| refused(&spec.name, &error))?;
    let listing = tokio::time::timeout(spec.startup, list(service.peer()));
    let listed = listing.await.map_err(silent)?.map_err(|error| unlisted(&spec.name, &error))?;
    let about = about(spec, service.peer(), &listed);
    Ok((service, about))
}

fn refused(server: &str, error: &ClientInitializeError) -> Trouble {
    if let Some(challenge) = error.auth_challenge() {
        return wanting(server, LoginWanted::of(challenge));
    }
    let why = match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => greeting_failed(fallback),
        other => greeting_failed(other),
    };
    let why = tidegate_tools::truncate::head_bytes(&why, 500);
    Trouble::new(tidegate_policy::inert::inert_line(why))
}

/// What went wrong, without the names that our own parts have for themselves.
fn greeting_failed(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        other => other.to_string(),
    }
}

/// The same for what comes later.
pub(crate) fn service_failed(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => error.error.to_string(),
        other => other.to_string(),
    }
}

fn wanting(server: &str, login: LoginWanted) -> Trouble {
    Trouble { why: login.told(server), stderr: String::new(), login: Some(login) }
}

/// Everything a server lists, as far as it can be shown.
pub(crate) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<Listed>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        // Some more than are shown, so that it can be said how many there are.
        if cursor.is_none() || tools.len() > 4 * MOST_TOOLS {
            break;
        }
    }
    Ok(tools)
}

/// Why its tools cannot be listed.
pub(crate) fn unlisted(server: &str, error: &ServiceError) -> Trouble {
    if let Some(login) = LoginWanted::within(error) {
        return wanting(server, login);
    }
    let why = service_failed(error);
    let why = tidegate_policy::inert::inert_line(tidegate_tools::truncate::head_bytes(&why, 500));
    Trouble::new(format!("its tools cannot be listed: {why}"))
}

pub(crate) fn about(spec: &ServerSpec, peer: &Peer<RoleClient>, listed: &[Listed]) -> About {
    let (tools, left_out) = shown(&spec.name, &spec.tools, listed);
    let info = peer.peer_info();
    let software = info.as_ref().and_then(|info| info.server_info.as_ref()).map(|info| {
        let text = format!("{} {}", info.name, info.version);
        tidegate_policy::inert::inert_line(tidegate_tools::truncate::head_bytes(&text, 100))
    });
    let version = info.map(|info| info.protocol_version.to_string()).unwrap_or_default();
    About { version, software, tools, left_out }
}
