//! What is sent, whole.

use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, StopReason, ThinkingLevel};
use tidegate_secrets::Secret;

use super::super::testing::{
    assistant, body, call, dotted, headers, image, model, prepare, request, result, thought, weather,
};
use super::*;
use crate::catalogue::Api;
use crate::request::{CacheRetention, Options, ToolChoice};

fn claude(id: &str) -> ModelInfo {
    let base_url = "https://api.anthropic.com".to_owned();
    ModelInfo { id: id.to_owned(), base_url, reasoning: true, ..model(Api::AnthropicMessages) }
}

fn sent(model: &ModelInfo, request: &Request) -> Value {
    body(&AnthropicMessages, model, request)
}

/// What a question with these options adds to the plainest one.
fn added(id: &str, options: Options) -> Value {
    let plain = Options { cache: CacheRetention::None, ..Options::default() };
    let ask = |options| Request { options, ..request(vec![Message::user("hi", 1)]) };
    let mut body = sent(&claude(id), &ask(Options { cache: CacheRetention::None, ..options }));
    let same = sent(&claude(id), &ask(plain));
    let fields = body.as_object_mut().unwrap();
    fields.retain(|key, value| same.get(key) != Some(value));
    body
}

fn thinking(level: ThinkingLevel) -> Options {
    Options { thinking: level, temperature: Some(0.5), ..Options::default() }
}

#[test]
fn a_question_has_its_system_blocks_and_its_marks() {
    let request = Request {
        system: vec!["Be brief.".to_owned(), " ".to_owned(), "Today is Monday.".to_owned()],
        ..request(vec![Message::user("Grüezi 🦀", 1)])
    };
    let mark = json!({ "type": "ephemeral" });
    assert_eq!(
        sent(&claude("claude-sonnet-4-5"), &request),
        json!({
            "model": "claude-sonnet-4-5",
            "stream": true,
            "max_tokens": 32000,
            "system": [
                { "type": "text", "text": "Be brief.", "cache_control": mark },
                { "type": "text", "text": "Today is Monday.", "cache_control": mark },
            ],
            "messages": [{
                "role": "user",
                "content": [{ "type": "text", "text": "Grüezi 🦀", "cache_control": mark }],
            }],
        })
    );
}

#[test]
fn no_more_than_four_blocks_are_marked() {
    let system = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    let body = sent(&claude("claude-opus-4-5"), &Request { system, ..request(vec![Message::user("hi", 1)]) });
    let marked: Vec<_> = body["system"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block.get("cache_control").is_some())
        .map(|block| block["text"].as_str().unwrap())
        .collect();
    assert_eq!(marked, ["c", "d", "e"]);
}

#[test]
fn a_long_cache_is_asked_of_anthropic_only_and_none_of_nobody() {
    let mark = |base: &str, cache| {
        let model = ModelInfo { base_url: base.to_owned(), ..claude("claude-opus-4-5") };
        let options = Options { cache, ..Options::default() };
        let body = sent(&model, &Request { options, ..request(vec![Message::user("hi", 1)]) });
        body["messages"][0]["content"][0].get("cache_control").cloned()
    };
    let short = json!({ "type": "ephemeral" });
    let long = json!({ "type": "ephemeral", "ttl": "1h" });
    assert_eq!(mark("https://api.anthropic.com", CacheRetention::Long), Some(long));
    assert_eq!(mark("https://api.anthropic.com.evil.example", CacheRetention::Long), Some(short.clone()));
    assert_eq!(mark("https://api.minimax.io/anthropic", CacheRetention::Long), Some(short));
    assert_eq!(mark("https://api.anthropic.com", CacheRetention::None), None);
}

#[test]
fn a_conversation_with_calls_images_and_thoughts_is_said_in_blocks() {
    let model = claude("claude-sonnet-4-5");
    let hidden = Block::Thinking {
        thinking: String::new(),
        thinking_signature: Some("sealed".to_owned()),
        redacted: true,
    };
    let messages = vec![
        Message::User { content: vec![Block::text("Compare"), image("aGk=")], timestamp: 1 },
        Message::user("Bern and Genf", 1),
        assistant(
            &model,
            vec![
                thought("Two cities.", Some("proof")),
                hidden,
                Block::text("I look."),
                Block::text("  "),
                call("c1", "weather", json!({ "city": "Bern" })),
                call("c2", "weather", json!("{\"city\": ")),
            ],
            StopReason::ToolUse,
        ),
        result("c1", "weather", vec![image("cG5n")], false),
        result("c2", "weather", vec![Block::text("no such city")], true),
        Message::user("Well?", 4),
    ];
    let options = Options { cache: CacheRetention::Short, ..Options::default() };
    assert_eq!(
        sent(&model, &Request { options, ..request(messages) })["messages"],
        json!([
            { "role": "user", "content": [
                { "type": "text", "text": "Compare" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } },
                { "type": "text", "text": "Bern and Genf" },
            ] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Two cities.", "signature": "proof" },
                { "type": "redacted_thinking", "data": "sealed" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "c1", "name": "weather", "input": { "city": "Bern" } },
                { "type": "tool_use", "id": "c2", "name": "weather", "input": { "invalid": "{\"city\": " } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "is_error": false, "content": [
                    { "type": "text", "text": "(see the image)" },
                    { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "cG5n" } },
                ] },
                { "type": "tool_result", "tool_use_id": "c2", "is_error": true, "content": [
                    { "type": "text", "text": "no such city" },
                ] },
                { "type": "text", "text": "Well?", "cache_control": { "type": "ephemeral" } },
            ] },
        ])
    );
}

#[test]
fn a_result_is_never_empty_and_may_carry_the_mark() {
    let model = claude("claude-sonnet-4-5");
    let messages = vec![
        Message::user("hi", 1),
        assistant(&model, vec![call("c1", "weather", json!({}))], StopReason::ToolUse),
        result("c1", "weather", vec![Block::text("")], true),
    ];
    assert_eq!(
        sent(&model, &request(messages))["messages"][2]["content"],
        json!([{
            "type": "tool_result", "tool_use_id": "c1", "is_error": true,
            "content": [{ "type": "text", "text": "(no output)" }],
            "cache_control": { "type": "ephemeral" },
        }])
    );
}

#[test]
fn a_tool_keeps_what_anthropic_reads_of_its_schema() {
    let mut strange = weather();
    strange.parameters = json!({
        "$schema": "x", "type": "object", "additionalProperties": false,
        "properties": { "a": { "$ref": "#/$defs/A" } }, "$defs": { "A": { "type": "string" } },
    });
    let tools = vec![weather(), strange];
    let body = sent(&claude("claude-opus-4-5"), &Request { tools, ..request(vec![Message::user("hi", 1)]) });
    assert_eq!(
        body["tools"],
        json!([
            { "name": "weather", "description": "Tells the weather.", "input_schema": {
                "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
            } },
            { "name": "weather", "description": "Tells the weather.", "input_schema": {
                "type": "object", "properties": { "a": { "$ref": "#/$defs/A" } }, "required": [],
                "$defs": { "A": { "type": "string" } },
            } },
        ])
    );
    assert_eq!(body.get("tool_choice"), None);
}

#[test]
fn a_name_no_vendor_takes_is_written_differently_everywhere() {
    let model = claude("claude-opus-4-5");
    let messages = vec![
        Message::user("hi", 1),
        assistant(&model, vec![call("c1", "files.read", json!({}))], StopReason::ToolUse),
        result("c1", "files.read", vec![Block::text("x")], false),
    ];
    let options = Options { tool_choice: ToolChoice::Named("files.read".to_owned()), ..Options::default() };
    let body = sent(&model, &Request { tools: vec![dotted()], options, ..request(messages) });
    let names =
        [&body["tools"][0]["name"], &body["tool_choice"]["name"], &body["messages"][1]["content"][0]["name"]];
    assert_eq!(names, ["files_read"; 3]);
}

#[test]
fn the_choice_of_a_tool_is_said_and_a_forced_one_stops_the_thinking() {
    let choose = |tool_choice| {
        let options = Options { tool_choice, thinking: ThinkingLevel::Low, ..Options::default() };
        let tools = vec![weather()];
        let body = sent(
            &claude("claude-opus-4-5"),
            &Request { tools, options, ..request(vec![Message::user("hi", 1)]) },
        );
        (body.get("tool_choice").cloned(), body.get("thinking").is_some())
    };
    assert_eq!(choose(ToolChoice::Auto), (None, true));
    assert_eq!(choose(ToolChoice::None), (Some(json!({ "type": "none" })), true));
    assert_eq!(choose(ToolChoice::Required), (Some(json!({ "type": "any" })), false));
    let named = json!({ "type": "tool", "name": "weather" });
    assert_eq!(choose(ToolChoice::Named("weather".to_owned())), (Some(named), false));
}

#[test]
fn older_models_think_on_a_budget() {
    assert_eq!(
        added("claude-sonnet-4-5", thinking(ThinkingLevel::Medium)),
        json!({ "max_tokens": 40192, "thinking": { "type": "enabled", "budget_tokens": 8192 } })
    );
    assert_eq!(added("claude-sonnet-4-5", thinking(ThinkingLevel::Off)), json!({ "temperature": 0.5 }));
    // No room for the smallest budget there is.
    let options = Options { max_tokens: Some(500), ..thinking(ThinkingLevel::Low) };
    let small = ModelInfo { max_tokens: 1000, ..claude("claude-3-7-sonnet") };
    let body = sent(&small, &Request { options, ..request(vec![Message::user("hi", 1)]) });
    assert_eq!(body.get("thinking"), None);
    assert_eq!(body["max_tokens"], 500);
}

#[test]
fn newer_models_think_with_an_effort() {
    assert_eq!(
        added("claude-opus-4-6", thinking(ThinkingLevel::Xhigh)),
        json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": "max" } })
    );
    assert_eq!(
        added("claude-opus-4-7", thinking(ThinkingLevel::Minimal)),
        json!({ "thinking": { "type": "adaptive", "display": "summarized" }, "output_config": { "effort": "low" } })
    );
    // It takes no temperature, thinking or not.
    assert_eq!(added("claude-opus-4-7", thinking(ThinkingLevel::Off)), json!({}));
}

#[test]
fn a_model_that_thinks_by_itself_is_told_not_to_where_it_listens() {
    let off = |id| sent(&claude(id), &request(vec![Message::user("hi", 1)])).get("thinking").cloned();
    assert_eq!(off("claude-opus-5"), Some(json!({ "type": "disabled" })));
    assert_eq!(off("claude-fable-5"), None);
    assert_eq!(off("claude-opus-4-6"), None);
}

#[test]
fn an_answer_is_no_longer_than_the_model_can_speak() {
    let limit = |max_tokens, model_max| {
        let model = ModelInfo { max_tokens: model_max, ..claude("claude-3-haiku") };
        let options = Options { max_tokens, ..Options::default() };
        sent(&model, &Request { options, ..request(vec![Message::user("hi", 1)]) })["max_tokens"].clone()
    };
    assert_eq!([limit(None, 64_000), limit(None, 4096), limit(Some(9000), 4096)], [32_000, 4096, 4096]);
    assert_eq!(limit(Some(100), 4096), 100);
}

#[test]
fn a_key_a_login_and_an_open_server_have_their_own_headers() {
    let key = format!("key-{}", 1);
    let request = request(vec![Message::user("hi", 1)]);
    let by_key = prepare(
        &AnthropicMessages,
        &claude("claude-sonnet-4-5"),
        &Access::Key(Secret::new(key.clone())),
        &request,
    );
    assert_eq!(by_key.url, "https://api.anthropic.com/v1/messages");
    assert_eq!(by_key.method, Method::Post);
    assert_eq!(
        headers(&by_key),
        [
            ("accept", "text/event-stream"),
            ("anthropic-beta", "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14"),
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
            ("x-api-key", key.as_str()),
        ]
    );
    let mut model = claude("claude-opus-4-6");
    model.headers =
        vec![("X-Team".to_owned(), "tide".to_owned().into()), ("Accept".to_owned(), "*/*".to_owned().into())];
    let login = Access::Login { token: Secret::new("token"), account_id: None };
    assert_eq!(
        headers(&prepare(&AnthropicMessages, &model, &login, &request)),
        [
            ("accept", "*/*"),
            ("anthropic-beta", "fine-grained-tool-streaming-2025-05-14,oauth-2025-04-20"),
            ("anthropic-version", "2023-06-01"),
            ("authorization", "Bearer token"),
            ("content-type", "application/json"),
            ("x-team", "tide"),
        ]
    );
    let open = prepare(&AnthropicMessages, &model, &Access::Open, &request);
    assert!(open.headers.get("authorization").is_none() && open.headers.get("x-api-key").is_none());
}

#[test]
fn a_budget_for_thoughts_waits_until_calls_made_without_one_are_over() {
    let model = claude("claude-sonnet-4-5");
    let asked = |answers: Vec<Message>| {
        let messages = [vec![Message::user("hi", 1)], answers].concat();
        let request = Request { options: thinking(ThinkingLevel::Low), ..request(messages) };
        sent(&model, &request)["thinking"].clone()
    };
    let calls = |content| assistant(&model, content, StopReason::ToolUse);
    let one = || call("a", "weather", json!({}));
    let bare = || vec![calls(vec![one()]), result("a", "weather", vec![Block::text("rain")], false)];
    assert_eq!(asked(bare()), Value::Null);
    let steered = [bare(), vec![Message::user("quick!", 3)]].concat();
    assert_eq!(asked(steered), Value::Null);
    let on = json!({ "type": "enabled", "budget_tokens": 2048 });
    let proven = calls(vec![thought("hm", Some("proof")), one()]);
    assert_eq!(asked(vec![proven, result("a", "weather", vec![Block::text("rain")], false)]), on);
    let said = assistant(&model, vec![Block::text("It rains.")], StopReason::Stop);
    let over = [bare(), vec![said, Message::user("and tomorrow?", 4)]].concat();
    assert_eq!(asked(over), on);
}

#[test]
fn a_history_that_begins_with_an_answer_is_opened_by_a_person() {
    let model = claude("claude-sonnet-4-5");
    let said = assistant(&model, vec![Block::text("Good morning.")], StopReason::Stop);
    let body = sent(&model, &request(vec![said, Message::user("hi", 3)]));
    let roles: Vec<&str> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}
