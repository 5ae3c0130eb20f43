//! Our own tools and conversations, for others: a server over Streamable HTTP, which a standard input and output can be
//! joined to as well.
//!
//! The newer era of the protocol has no sessions. A client of the older one gets one when it greets, so that it can be
//! told what changed; one that greets and then forgets its session is answered all the same.

mod caller;
mod offer;
mod things;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use http::StatusCode;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tidegate_tools::ToolSpec;
use tokio_util::sync::CancellationToken;

pub use caller::{Caller, Level};
use offer::Offer;
pub use things::{
    Answer, Body, Completing, Content, DeskError, Document, OfferedPrompt, OfferedTemplate, OfferedText,
};

/// The largest message that is taken.
const LARGEST: usize = 4 * 1024 * 1024;
/// Clients of the older era that have a session; more are answered without one.
const MOST_SESSIONS: usize = 64;
/// Longer than a call may wait for a person: a session with a call under way is not idle.
const IDLE: Duration = Duration::from_hours(3);
/// Where a message names its session.
const SESSION: &str = "mcp-session-id";

/// Whoever has what is offered. Everything goes the way it goes for everybody else: nothing is decided here.
#[async_trait]
pub trait Desk: Send + Sync + 'static {
    /// The tools that are there for this caller.
    async fn tools(&self) -> Result<Vec<ToolSpec>, DeskError>;

    async fn call(
        &self,
        name: &str,
        args: Value,
        caller: &Caller,
        cancel: &CancellationToken,
    ) -> Result<Answer, DeskError>;

    /// Texts that can be read, such as conversations.
    async fn texts(&self) -> Result<Vec<OfferedText>, DeskError>;

    /// What addresses of texts look like.
    fn templates(&self) -> Vec<OfferedTemplate>;

    /// `None` when there is no such text.
    async fn read(&self, uri: &str) -> Result<Option<Document>, DeskError>;

    /// Addresses of texts that change from now on.
    fn changes(&self) -> BoxStream<'static, String>;

    /// Questions that are ready to be put to a model.
    fn prompts(&self) -> Vec<OfferedPrompt>;

    /// What a prompt says with these arguments; `None` when there is no such prompt.
    async fn prompt(&self, name: &str, args: &Value) -> Result<Option<Vec<Content>>, DeskError>;

    /// What an argument that begins so could be.
    async fn complete(&self, of: &Completing, argument: &str, begun: &str) -> Result<Vec<String>, DeskError>;
}

type Service = StreamableHttpService<Offer, LocalSessionManager>;
type Response = http::Response<BoxBody<bytes::Bytes, std::convert::Infallible>>;

/// Answers requests of the protocol over HTTP.
#[derive(Clone)]
pub struct McpHttp {
    /// For those that have a session or begin one.
    lasting: Service,
    /// For those that say everything with each message.
    single: Service,
    sessions: Arc<LocalSessionManager>,
    end: CancellationToken,
}

impl McpHttp {
    pub fn new(desk: &Arc<dyn Desk>) -> Self {
        let end = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_max_request_body_bytes(LARGEST)
            .with_cancellation_token(end.clone())
            // Whoever mounts it checked where a request comes from.
            .disable_allowed_hosts();
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let sessions = Arc::new(sessions);
        let (one, other) = (Arc::clone(desk), Arc::clone(desk));
        let single = config.clone().with_legacy_session_mode(false).with_json_response(true);
        Self {
            lasting: Service::new(move || Ok(Offer::new(&one)), Arc::clone(&sessions), config),
            single: Service::new(move || Ok(Offer::new(&other)), Arc::default(), single),
            sessions,
            end,
        }
    }

    /// Answers one request. Who sent it was found out before.
    pub async fn answer<B>(&self, request: http::Request<B>) -> Response
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, LARGEST).collect().await else {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large or broke off");
        };
        let body = body.to_bytes();
        let named = parts.headers.contains_key(SESSION) || parts.method != http::Method::POST;
        let lasting = named || (begins(&body) && self.sessions.sessions.read().await.len() < MOST_SESSIONS);
        let ends = parts.method == http::Method::DELETE;
        let request = http::Request::from_parts(parts, Full::new(body));
        let service = if lasting { &self.lasting } else { &self.single };
        let mut response = service.handle(request).await;
        // A session is gone when this is said, and some clients complain about "accepted".
        if ends && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    /// Ends every session and every stream.
    pub fn close(&self) {
        self.end.cancel();
    }
}

fn begins(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Message<'_>>(body).is_ok_and(|message| message.method == "initialize")
}

fn refused(status: StatusCode, why: &'static str) -> Response {
    let mut response = http::Response::new(Full::new(bytes::Bytes::from_static(why.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
