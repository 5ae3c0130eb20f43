//! What goes over the wire, whole: instructions, an image, tools and their choice, temperature and limits, in every
//! vendor's words.

use serde_json::{Value, json};
use tidegate_models::{CacheRetention, Request, ToolChoice};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use crate::faces::{self, Face};
use crate::house::{House, tool_question};

fn request() -> Request {
    let image = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let mut request = tool_question("");
    request.messages =
        vec![Message::User { content: vec![Block::text("What is this?"), image], timestamp: 1 }];
    request.system = vec!["Be brief.".into()];
    request.session_name = "home".into();
    request.options.temperature = Some(0.5);
    request.options.max_tokens = Some(500);
    request.options.tool_choice = ToolChoice::Required;
    request
}

async fn body(face: Face, request: Request) -> Value {
    let house = House::new().await;
    let heard = house.ask(&[&face.reference()], request).await;
    assert!(heard.end.is_ok(), "{:?}", heard.end);
    house.server.last_request().body
}

fn place() -> Value {
    json!({"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]})
}

/// The tools, each made of its name, its description and its parameters.
fn tools(make: impl Fn(&str, &str, Value) -> Value) -> Value {
    let nothing = json!({"type": "object", "properties": {}});
    json!([make("tide_at", "When the tide is high.", place()), make("now", "What time it is.", nothing)])
}

#[tokio::test]
async fn anthropic_is_asked_in_its_words() {
    for face in [faces::ANTHROPIC, faces::COPILOT_CLAUDE] {
        let mark = json!({"type": "ephemeral"});
        let image = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        let tools = tools(|name, description, mut schema| {
            schema["required"] = schema.get("required").cloned().unwrap_or(json!([]));
            json!({"name": name, "description": description, "input_schema": schema})
        });
        let expected = json!({
            "model": face.model, "stream": true, "max_tokens": 500, "temperature": 0.5,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": image, "cache_control": mark},
            ]}],
            "tools": tools, "tool_choice": {"type": "any"},
        });
        assert_eq!(body(face, request()).await, expected);
    }
}

#[tokio::test]
async fn completions_are_asked_in_their_words() {
    let tools = tools(|name, description, schema| {
        let function =
            json!({"name": name, "description": description, "parameters": schema, "strict": false});
        json!({"type": "function", "function": function})
    });
    let expected = json!({
        "model": "deepseek-reasoner", "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 500, "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ]},
        ],
        "tools": tools, "tool_choice": "required",
    });
    assert_eq!(body(faces::COMPLETIONS, request()).await, expected);
}

fn responses_question() -> Value {
    json!({"role": "user", "content": [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"},
    ]})
}

fn responses_tools(strict: &Value) -> Value {
    tools(|name, description, schema| {
        json!({
            "type": "function", "name": name, "description": description, "parameters": schema, "strict": strict,
        })
    })
}

#[tokio::test]
async fn responses_are_asked_in_their_words() {
    for (face, role) in [(faces::RESPONSES, "developer"), (faces::COPILOT_GPT, "system")] {
        let expected = json!({
            "model": "gpt-5.2", "stream": true, "store": false, "max_output_tokens": 500,
            "input": [{"role": role, "content": "Be brief."}, responses_question()],
            "tools": responses_tools(&json!(false)), "tool_choice": "required",
            "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "none"}, "prompt_cache_key": "home",
        });
        assert_eq!(body(face, request()).await, expected);
    }
}

#[tokio::test]
async fn codex_is_asked_in_its_words() {
    let expected = json!({
        "model": "gpt-5.2-codex", "stream": true, "store": false, "instructions": "Be brief.",
        "input": [responses_question()], "text": {"verbosity": "medium"},
        "tools": responses_tools(&Value::Null), "tool_choice": "required", "parallel_tool_calls": true,
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
        "prompt_cache_key": "home",
    });
    assert_eq!(body(faces::CODEX, request()).await, expected);
}

#[tokio::test]
async fn google_is_asked_in_its_words() {
    let declarations = tools(
        |name, description, schema| json!({"name": name, "description": description, "parametersJsonSchema": schema}),
    );
    let expected = json!({
        "contents": [{"role": "user", "parts": [
            {"text": "What is this?"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        ]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": declarations}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {
            "maxOutputTokens": 500, "temperature": 0.5,
            "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": false},
        },
    });
    assert_eq!(body(faces::GOOGLE, request()).await, expected);
}

#[tokio::test]
async fn ollama_is_asked_in_its_words() {
    let tools = tools(
        |name, description, schema| json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}}),
    );
    let expected = json!({
        "model": "qwen3:8b", "stream": true, "think": false,
        "options": {"num_predict": 500, "num_ctx": 100_000, "temperature": 0.5},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is this?", "images": ["AAAA"]},
        ],
        "tools": tools,
    });
    assert_eq!(body(faces::OLLAMA, request()).await, expected);
}

#[tokio::test]
async fn bedrock_is_asked_in_its_words() {
    let mark = json!({"cachePoint": {"type": "default"}});
    let tools = tools(
        |name, description, schema| json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}),
    );
    let expected = json!({
        "system": [{"text": "Be brief."}, mark],
        "messages": [{"role": "user", "content": [
            {"text": "What is this?"}, {"image": {"format": "png", "source": {"bytes": "AAAA"}}}, mark,
        ]}],
        "inferenceConfig": {"maxTokens": 500, "temperature": 0.5},
        "toolConfig": {"tools": tools, "toolChoice": {"any": {}}},
    });
    assert_eq!(body(faces::BEDROCK, request()).await, expected);
}

/// What each format says of a choice, wherever it says it.
#[tokio::test]
async fn a_named_tool_and_no_tool_are_said_in_every_format() {
    let cases = [
        (faces::ANTHROPIC, "/tool_choice", json!({"type": "tool", "name": "now"}), json!({"type": "none"})),
        (
            faces::COMPLETIONS,
            "/tool_choice",
            json!({"type": "function", "function": {"name": "now"}}),
            json!("none"),
        ),
        (faces::RESPONSES, "/tool_choice", json!({"type": "function", "name": "now"}), json!("none")),
        (faces::CODEX, "/tool_choice", json!({"type": "function", "name": "now"}), json!("none")),
        (
            faces::GOOGLE,
            "/toolConfig/functionCallingConfig",
            json!({"mode": "ANY", "allowedFunctionNames": ["now"]}),
            json!({"mode": "NONE"}),
        ),
        (faces::BEDROCK, "/toolConfig/toolChoice", json!({"tool": {"name": "now"}}), Value::Null),
        (faces::OLLAMA, "/tools/0/function/name", json!("now"), Value::Null),
    ];
    for (face, pointer, named, none) in cases {
        for (choice, expected) in [(ToolChoice::Named("now".into()), named), (ToolChoice::None, none)] {
            let mut request = request();
            request.options.tool_choice = choice;
            let body = body(face, request).await;
            assert_eq!(body.pointer(pointer).cloned().unwrap_or_default(), expected, "{}", face.api);
        }
    }
}

#[tokio::test]
async fn thinking_is_asked_for_in_every_format() {
    let cases = [
        (faces::ANTHROPIC, "/thinking", json!({"type": "enabled", "budget_tokens": 8192})),
        (faces::RESPONSES, "/reasoning", json!({"effort": "medium", "summary": "auto"})),
        (faces::CODEX, "/reasoning", json!({"effort": "medium", "summary": "auto"})),
        (
            faces::GOOGLE,
            "/generationConfig/thinkingConfig",
            json!({"thinkingBudget": 8192, "includeThoughts": true}),
        ),
        (faces::OLLAMA, "/think", json!(true)),
        (
            faces::BEDROCK,
            "/additionalModelRequestFields/thinking",
            json!({"type": "enabled", "budget_tokens": 8192}),
        ),
    ];
    for (face, pointer, expected) in cases {
        let mut request = request();
        request.options.tool_choice = ToolChoice::Auto;
        request.options.thinking = ThinkingLevel::Medium;
        let body = body(face, request).await;
        assert_eq!(body.pointer(pointer), Some(&expected), "{}: {body}", face.api);
    }
}

#[tokio::test]
async fn nothing_is_marked_for_a_cache_that_nobody_wants() {
    for face in faces::ALL {
        let mut request = request();
        request.options.cache = CacheRetention::None;
        let body = body(face, request).await.to_string();
        for mark in ["cache_control", "cachePoint", "prompt_cache_key"] {
            assert!(!body.contains(mark), "{}: {body}", face.api);
        }
    }
}
