//! Our MCP server with the tools, texts and prompts that the protocol's conformance suite expects to find.
//!
//! The server is the real one of crate `mcp`; what it offers is made up here, so that every kind of answer a desk may
//! give is seen by somebody else's client. `mcp-fixture` of the program serves it on a free port of this machine.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tidegate_mcp::{
    Answer, Body, Caller, Completing, Content, Desk, DeskError, Document, Level, McpHttp, OfferedPrompt,
    OfferedTemplate, OfferedText,
};
use tidegate_protocol::Risk;
use tidegate_runtime::spawn;
use tidegate_tools::ToolSpec;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The smallest picture and the smallest sound, in base64.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const PLAIN: &str = "text/plain";

/// Serves on a free port until the program is ended. Says where on standard output, as JSON.
pub async fn serve() -> std::io::Result<()> {
    let desk: Arc<dyn Desk> = Arc::new(Fixture);
    let server = McpHttp::new(&desk);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", json!({ "url": format!("http://{}/mcp", listener.local_addr()?) }));
    loop {
        let (stream, _) = listener.accept().await?;
        let server = server.clone();
        drop(spawn("fixture connection", async move {
            let answer = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, std::convert::Infallible>(server.answer(request).await) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
        }));
    }
}

struct Fixture;

fn text(text: &str) -> Content {
    Content::Text(text.to_owned())
}

fn picture() -> Content {
    Content::Image { data: PICTURE.to_owned(), mime_type: "image/png".to_owned() }
}

fn document(uri: &str, mime_type: &str, text: &str) -> Document {
    Document { uri: uri.to_owned(), mime_type: mime_type.to_owned(), body: Body::Text(text.to_owned()) }
}

fn tool(name: &str, schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        aliases: Vec::new(),
        description: format!("{name}, for the conformance suite"),
        input_schema: schema,
        risk: Risk::Read,
        idempotent: true,
        steady: false,
        timeout: None,
    }
}

const TOOLS: [&str; 8] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
];

#[async_trait]
impl Desk for Fixture {
    async fn tools(&self) -> Result<Vec<ToolSpec>, DeskError> {
        let mut tools: Vec<_> = TOOLS.iter().map(|name| tool(name, json!({"type": "object"}))).collect();
        tools.push(tool(
            "json_schema_2020_12_tool",
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {"address": {"type": "object", "properties": {
                    "street": {"type": "string"}, "city": {"type": "string"},
                }}},
                "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
                "additionalProperties": false,
            }),
        ));
        Ok(tools)
    }

    async fn call(
        &self,
        name: &str,
        _args: Value,
        caller: &Caller,
        _cancel: &CancellationToken,
    ) -> Result<Answer, DeskError> {
        let embedded = |uri: &str, mime: &str, said: &str| Content::Document(document(uri, mime, said));
        let content = match name {
            "test_simple_text" => vec![text("This is a simple text response for testing.")],
            "test_image_content" => vec![picture()],
            "test_audio_content" => {
                vec![Content::Audio { data: SOUND.to_owned(), mime_type: "audio/wav".to_owned() }]
            }
            "test_embedded_resource" => {
                vec![embedded("test://embedded-resource", PLAIN, "This is an embedded resource content.")]
            }
            "test_multiple_content_types" => vec![
                text("Multiple content types test:"),
                picture(),
                embedded(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ],
            "test_tool_with_logging" => {
                for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    caller.log(Level::Info, said).await;
                }
                vec![text("Tool with logging executed successfully")]
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    caller.progress(done, Some(100.0), Some(format!("{done} of 100"))).await;
                }
                vec![text("Tool with progress executed successfully")]
            }
            "test_error_handling" => {
                let content = vec![text("This tool intentionally returns an error for testing")];
                return Ok(Answer { ok: false, content, data: None });
            }
            other => return Err(DeskError::NoSuchTool(other.to_owned())),
        };
        Ok(Answer { ok: true, content, data: None })
    }

    async fn texts(&self) -> Result<Vec<OfferedText>, DeskError> {
        let offered = |uri: &str, mime_type| OfferedText {
            uri: uri.to_owned(),
            name: uri.trim_start_matches("test://").to_owned(),
            description: Some("For the conformance suite.".to_owned()),
            mime_type,
        };
        Ok(vec![
            offered("test://static-text", PLAIN),
            offered("test://static-binary", "image/png"),
            offered("test://watched-resource", PLAIN),
        ])
    }

    fn templates(&self) -> Vec<OfferedTemplate> {
        vec![OfferedTemplate {
            uri: "test://template/{id}/data",
            name: "template",
            description: "For the conformance suite.",
            mime_type: "application/json",
        }]
    }

    async fn read(&self, uri: &str) -> Result<Option<Document>, DeskError> {
        let by_template = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        Ok(match (uri, by_template) {
            ("test://static-text", _) => {
                Some(document(uri, PLAIN, "This is the content of the static text resource."))
            }
            ("test://watched-resource", _) => Some(document(uri, PLAIN, "Watched resource content")),
            ("test://static-binary", _) => {
                let body = Body::Binary(PICTURE.to_owned());
                Some(Document { uri: uri.to_owned(), mime_type: "image/png".to_owned(), body })
            }
            (_, Some(id)) => {
                let said = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                Some(document(uri, "application/json", &said.to_string()))
            }
            _ => None,
        })
    }

    fn changes(&self) -> BoxStream<'static, String> {
        futures_util::stream::pending().boxed()
    }

    fn prompts(&self) -> Vec<OfferedPrompt> {
        let offered =
            |name, arguments| OfferedPrompt { name, description: "For the conformance suite.", arguments };
        vec![
            offered("test_simple_prompt", &[]),
            offered("test_prompt_with_arguments", &[("arg1", "The first."), ("arg2", "The second.")]),
            offered("test_prompt_with_embedded_resource", &[("resourceUri", "What to put in.")]),
            offered("test_prompt_with_image", &[]),
        ]
    }

    async fn prompt(&self, name: &str, args: &Value) -> Result<Option<Vec<Content>>, DeskError> {
        let said = |argument: &str| args[argument].as_str().unwrap_or_default();
        Ok(Some(match name {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => {
                let (one, two) = (said("arg1"), said("arg2"));
                vec![Content::Text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
            }
            "test_prompt_with_embedded_resource" => {
                let embedded = document(said("resourceUri"), PLAIN, "Embedded resource content for testing.");
                vec![Content::Document(embedded), text("Please process the embedded resource above.")]
            }
            "test_prompt_with_image" => vec![picture(), text("Please analyze the image above.")],
            _ => return Ok(None),
        }))
    }

    async fn complete(
        &self,
        _of: &Completing,
        _argument: &str,
        begun: &str,
    ) -> Result<Vec<String>, DeskError> {
        let known = ["paris", "park", "party"].into_iter().filter(|word| word.starts_with(begun));
        Ok(known.map(str::to_owned).collect())
    }
}
