//! What is offered, in the protocol's words.
#![allow(
    deprecated,
    reason = "the newer era of the protocol has no log and watches otherwise; both are served"
)]

use std::sync::Arc;

use futures_util::StreamExt as _;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    CompletionInfo, ContentBlock, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, Resource, ResourceContents, ResourceTemplate, Role,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    Tool as Listed, ToolAnnotations, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};
use tidegate_protocol::Risk;
use tidegate_tools::ToolSpec;

use super::Desk;
use super::caller::{Caller, Least, Level};
use super::things::{Answer, Body, Completing, Content, DeskError, Document, OfferedText};
use super::watch::{MOST, Watched};

/// One client's view, for as long as its session lasts.
pub(super) struct Offer {
    desk: Arc<dyn Desk>,
    least: Arc<Least>,
    watched: Watched,
}

impl Offer {
    pub(super) fn new(desk: &Arc<dyn Desk>) -> Self {
        Self { desk: Arc::clone(desk), least: Arc::default(), watched: Watched::default() }
    }
}

impl ServerHandler for Offer {
    fn get_info(&self) -> ServerConfig {
        let mut us = Implementation::default();
        "tidegate".clone_into(&mut us.name);
        env!("CARGO_PKG_VERSION").clone_into(&mut us.version);
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .build();
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
        let caller = Caller::of(&context, &self.least);
        let called = self.desk.call(&request.name, args, &caller, &context.ct).await;
        Ok(CallToolResponse::Complete(answered(called.map_err(|error| refusal(&error))?)))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let texts = self.desk.texts().await.map_err(|error| refusal(&error))?;
        let resource = |text: OfferedText| {
            let mut resource = Resource::new(text.uri, text.name).with_mime_type(text.mime_type);
            resource.description = text.description;
            resource
        };
        Ok(ListResourcesResult::with_all_items(texts.into_iter().map(resource).collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.desk.templates().into_iter().map(|said| {
            let mut template = ResourceTemplate::new(said.uri, said.name).with_description(said.description);
            template.mime_type = Some(said.mime_type.to_owned());
            template
        });
        Ok(ListResourceTemplatesResult::with_all_items(templates.collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = self.desk.read(&request.uri).await.map_err(|error| refusal(&error))?;
        let Some(document) = found else {
            let data = json!({ "uri": request.uri });
            return Err(ErrorData::resource_not_found("there is no such text", Some(data)));
        };
        Ok(ReadResourceResponse::Complete(ReadResourceResult::new(vec![written(document)])))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.watched.add(request.uri, &self.desk, &context.peer) {
            return Ok(());
        }
        Err(ErrorData::invalid_params(format!("more than {MOST} texts are not watched at once"), None))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions = requested
            .resource_subscriptions
            .as_ref()
            .map(|wanted| wanted.iter().take(MOST).cloned().collect());
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.desk.changes();
        let watched = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        loop {
            let uri = tokio::select! {
                changed = changes.next() => match changed {
                    Some(uri) => uri,
                    None => return Ok(()),
                },
                () = context.cancelled() => return Ok(()),
            };
            if watched.contains(&uri) && context.sink().notify_resource_updated(uri).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.desk.prompts().into_iter().map(|said| {
            let arguments = said.arguments.iter().map(|(name, description)| {
                PromptArgument::new(*name).with_description(*description).with_required(true)
            });
            let arguments: Vec<_> = arguments.collect();
            Prompt::new(said.name, Some(said.description), (!arguments.is_empty()).then_some(arguments))
        });
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let args = Value::Object(request.arguments.unwrap_or_default());
        let said = self.desk.prompt(&request.name, &args).await.map_err(|error| refusal(&error))?;
        let Some(said) = said else {
            return Err(ErrorData::invalid_params(format!("there is no prompt {}", request.name), None));
        };
        let messages = said.into_iter().map(|content| PromptMessage::new(Role::User, block(content)));
        Ok(GetPromptResponse::Complete(GetPromptResult::new(messages.collect())))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let of = match request.r#ref {
            Reference::Prompt(prompt) => Completing::Prompt(prompt.name),
            Reference::Resource(template) => Completing::Template(template.uri),
            _ => return Ok(CompleteResult::default()),
        };
        let argument = request.argument;
        let found = self.desk.complete(&of, &argument.name, &argument.value).await;
        let mut values = found.map_err(|error| refusal(&error))?;
        let total = u32::try_from(values.len()).ok();
        values.truncate(CompletionInfo::MAX_VALUES);
        let more = total.is_some_and(|total| total as usize > values.len());
        let info = CompletionInfo::with_pagination(values, total, more);
        Ok(CompleteResult::new(info.map_err(|why| ErrorData::internal_error(why, None))?))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.least.set(Level::of(request.level));
        Ok(())
    }
}

fn refusal(error: &DeskError) -> ErrorData {
    match error {
        DeskError::NoSuchTool(_) | DeskError::Wrong(_) => ErrorData::invalid_params(error.to_string(), None),
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

fn answered(answer: Answer) -> CallToolResult {
    let content = answer.content.into_iter().map(block).collect();
    let mut result =
        if answer.ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
    result.structured_content = answer.data;
    result
}

fn block(content: Content) -> ContentBlock {
    match content {
        Content::Text(text) => ContentBlock::text(text),
        Content::Image { data, mime_type } => ContentBlock::image(data, mime_type),
        Content::Audio { data, mime_type } => ContentBlock::audio(data, mime_type),
        Content::Document(document) => ContentBlock::resource(written(document)),
    }
}

fn written(document: Document) -> ResourceContents {
    let (uri, mime_type) = (document.uri, Some(document.mime_type));
    match document.body {
        Body::Text(text) => ResourceContents::TextResourceContents { uri, mime_type, text, meta: None },
        Body::Binary(blob) => ResourceContents::BlobResourceContents { uri, mime_type, blob, meta: None },
    }
}
