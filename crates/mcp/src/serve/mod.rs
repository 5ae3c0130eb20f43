//! Our own tools and conversations, for others: a server over Streamable HTTP without sessions, which a standard input
//! and output can be joined to as well.

use std::sync::Arc;

use async_trait::async_trait;
use http_body_util::combinators::BoxBody;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ServerCapabilities, ServerConfig,
    Tool as Listed, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tidegate_protocol::{Block, Risk, ToolResult};
use tidegate_tools::ToolSpec;
use tokio_util::sync::CancellationToken;

/// The largest message that is taken.
const LARGEST: usize = 4 * 1024 * 1024;

/// Whoever has what is offered. Everything goes the way it goes for everybody else: nothing is decided here.
#[async_trait]
pub trait Desk: Send + Sync + 'static {
    /// The tools that are there for this caller.
    async fn tools(&self) -> Result<Vec<ToolSpec>, DeskError>;

    async fn call(
        &self,
        name: &str,
        args: Value,
        cancel: &CancellationToken,
    ) -> Result<ToolResult, DeskError>;

    /// Texts that can be read, such as conversations.
    async fn texts(&self) -> Result<Vec<OfferedText>, DeskError>;

    /// `None` when there is no such text.
    async fn read(&self, uri: &str) -> Result<Option<String>, DeskError>;
}

/// A text that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedText {
    pub uri: String,
    pub name: String,
    pub description: Option<String>,
}

/// Why something could not be done at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    #[error("there is no tool {0}")]
    NoSuchTool(String),
    #[error("{0}")]
    Failed(String),
}

/// Answers requests of the protocol over HTTP.
#[derive(Clone)]
pub struct McpHttp(StreamableHttpService<Offer, LocalSessionManager>);

impl McpHttp {
    pub fn new(desk: Arc<dyn Desk>) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(LARGEST)
            // Whoever mounts it checked where a request comes from.
            .disable_allowed_hosts();
        let offer = Offer { desk };
        Self(StreamableHttpService::new(move || Ok(offer.clone()), Arc::default(), config))
    }

    /// Answers one request. Who sent it was found out before.
    pub async fn answer<B>(
        &self,
        request: http::Request<B>,
    ) -> http::Response<BoxBody<bytes::Bytes, std::convert::Infallible>>
    where
        B: http_body::Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        self.0.handle(request).await
    }
}

#[derive(Clone)]
struct Offer {
    desk: Arc<dyn Desk>,
}

impl ServerHandler for Offer {
    fn get_info(&self) -> ServerConfig {
        let mut us = Implementation::default();
        "tidegate".clone_into(&mut us.name);
        env!("CARGO_PKG_VERSION").clone_into(&mut us.version);
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities).with_server_info(us).with_instructions(
            "Tools of a Tidegate agent, under its rules: a call may wait until a person has approved it. `ask` puts a \
             question to the agent; conversations can be listed and read.",
        )
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.desk.tools().await.map_err(|error| refusal(&error))?;
        Ok(ListToolsResult::with_all_items(tools.iter().map(listed).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = Value::Object(request.arguments.unwrap_or_default());
        let result =
            self.desk.call(&request.name, args, &context.ct).await.map_err(|error| refusal(&error))?;
        Ok(CallToolResponse::Complete(answered(result)))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let texts = self.desk.texts().await.map_err(|error| refusal(&error))?;
        let resource = |text: OfferedText| {
            let mut resource = Resource::new(text.uri, text.name).with_mime_type("text/markdown");
            resource.description = text.description;
            resource
        };
        Ok(ListResourcesResult::with_all_items(texts.into_iter().map(resource).collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = self.desk.read(&request.uri).await.map_err(|error| refusal(&error))?;
        let Some(text) = text else {
            let data = serde_json::json!({ "uri": request.uri });
            return Err(ErrorData::resource_not_found("there is no such text", Some(data)));
        };
        let contents = ResourceContents::TextResourceContents {
            uri: request.uri,
            mime_type: Some("text/markdown".to_owned()),
            text,
            meta: None,
        };
        Ok(ReadResourceResponse::Complete(ReadResourceResult::new(vec![contents])))
    }
}

fn refusal(error: &DeskError) -> ErrorData {
    match error {
        DeskError::NoSuchTool(_) => ErrorData::invalid_params(error.to_string(), None),
        DeskError::Failed(_) => ErrorData::internal_error(error.to_string(), None),
    }
}

fn listed(spec: &ToolSpec) -> Listed {
    let schema = spec.input_schema.as_object().cloned().unwrap_or_default();
    let reads = spec.risk == Risk::Read;
    let hints = ToolAnnotations::new()
        .read_only(reads)
        .destructive(!reads)
        .idempotent(spec.idempotent)
        .open_world(matches!(spec.risk, Risk::Network | Risk::Execute));
    Listed::new(spec.name.clone(), spec.description.clone(), schema).with_annotations(hints)
}

fn answered(result: ToolResult) -> CallToolResult {
    let content = result.content.into_iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(ContentBlock::text(text)),
        Block::Image { data, mime_type } => Some(ContentBlock::image(data, mime_type)),
        Block::Thinking { .. } | Block::ToolCall { .. } => None,
    });
    let content = content.collect();
    let mut answer =
        if result.ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
    // The protocol's older era takes nothing but an object.
    answer.structured_content = result.data.filter(Value::is_object);
    answer
}
