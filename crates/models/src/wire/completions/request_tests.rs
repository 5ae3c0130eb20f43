//! What is sent, whole, and what each switch changes in it.

use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, StopReason, ThinkingLevel};
use tidegate_secrets::Secret;

use super::super::Access;
use super::super::testing::{
    assistant, body, call, dotted, headers, image, model, prepare, request, result, thought, weather,
};
use super::*;
use crate::catalogue::{Api, Compat, MaxTokensField, ThinkingFormat};
use crate::request::{CacheRetention, Options, ToolChoice};

fn thinker(compat: Compat) -> ModelInfo {
    ModelInfo { reasoning: true, compat, ..model(Api::OpenaiCompletions) }
}

fn plain(compat: Compat) -> ModelInfo {
    ModelInfo { compat, ..model(Api::OpenaiCompletions) }
}

fn sent(model: &ModelInfo, request: &Request) -> Value {
    body(&OpenaiCompletions, model, request)
}

fn hi() -> Request {
    Request { system: vec!["Be brief.".to_owned()], ..request(vec![Message::user("hi", 1)]) }
}

/// A question, a call and its result.
fn asked(model: &ModelInfo, answer: Vec<Block>) -> Vec<Message> {
    vec![
        Message::user("Weather?", 1),
        assistant(model, answer, StopReason::ToolUse),
        result("c1", "weather", vec![Block::text("rain")], false),
    ]
}

fn bern() -> Block {
    call("c1", "weather", json!({ "city": "Bern" }))
}

#[test]
fn a_question_is_asked_as_openai_wants_it() {
    let request = Request {
        system: vec!["Be brief.".to_owned(), String::new(), "It is Monday.".to_owned()],
        tools: vec![weather()],
        options: Options { temperature: Some(0.5), ..Options::default() },
        ..request(vec![Message::User { content: vec![Block::text("a"), Block::text("ü")], timestamp: 1 }])
    };
    assert_eq!(
        sent(&plain(Compat::default()), &request),
        json!({
            "model": "some-model",
            "messages": [
                { "role": "system", "content": "Be brief.\n\nIt is Monday." },
                { "role": "user", "content": "a\nü" },
            ],
            "stream": true,
            "stream_options": { "include_usage": true },
            "store": false,
            "max_completion_tokens": 32000,
            "tools": [{ "type": "function", "function": {
                "name": "weather",
                "description": "Tells the weather.",
                "parameters": {
                    "type": "object",
                    "properties": { "city": { "type": "string" } },
                    "required": ["city"],
                },
                "strict": false,
            } }],
            "temperature": 0.5,
        })
    );
}

#[test]
fn a_server_that_knows_less_is_sent_less() {
    let compat = Compat {
        supports_store: false,
        supports_developer_role: false,
        supports_reasoning_effort: false,
        supports_usage_in_streaming: false,
        supports_strict_mode: false,
        max_tokens_field: MaxTokensField::MaxTokens,
        ..Compat::default()
    };
    let options = Options { thinking: ThinkingLevel::High, max_tokens: Some(99), ..Options::default() };
    let mut body = sent(&thinker(compat), &Request { tools: vec![weather()], options, ..hi() });
    assert_eq!(body["tools"][0]["function"].as_object_mut().unwrap().remove("strict"), None);
    body.as_object_mut().unwrap().remove("tools");
    assert_eq!(
        body,
        json!({
            "model": "some-model",
            "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "hi" }],
            "stream": true,
            "max_tokens": 99,
        })
    );
}

#[test]
fn thinking_is_asked_for_in_each_servers_words() {
    let formats = [
        (ThinkingFormat::Openai, json!({ "reasoning_effort": "xhigh" }), json!({})),
        (ThinkingFormat::Openrouter, json!({ "reasoning": { "effort": "xhigh" } }), json!({})),
        (
            ThinkingFormat::Zai,
            json!({ "thinking": { "type": "enabled" } }),
            json!({ "thinking": { "type": "disabled" } }),
        ),
        (ThinkingFormat::Qwen, json!({ "enable_thinking": true }), json!({ "enable_thinking": false })),
        (
            ThinkingFormat::QwenChatTemplate,
            json!({ "chat_template_kwargs": { "enable_thinking": true } }),
            json!({ "chat_template_kwargs": { "enable_thinking": false } }),
        ),
    ];
    for (thinking_format, on, off) in formats {
        let compat = Compat { thinking_format, ..Compat::default() };
        let added = |thinking, model: &ModelInfo| {
            let options = Options { thinking, ..Options::default() };
            let mut body = sent(model, &Request { options, ..request(vec![Message::user("hi", 1)]) });
            let fields = body.as_object_mut().unwrap();
            for known in ["model", "messages", "stream", "stream_options", "store", "max_completion_tokens"] {
                assert!(fields.remove(known).is_some(), "{known}");
            }
            body
        };
        assert_eq!(added(ThinkingLevel::Xhigh, &thinker(compat.clone())), on);
        assert_eq!(added(ThinkingLevel::Off, &thinker(compat.clone())), off);
        assert_eq!(added(ThinkingLevel::High, &plain(compat)), json!({}), "it cannot think");
    }
}

#[test]
fn a_temperature_goes_to_those_who_take_one() {
    let temperature = |thinking, thinking_format| {
        let options = Options { thinking, temperature: Some(1.0), ..Options::default() };
        let model = thinker(Compat { thinking_format, ..Compat::default() });
        sent(&model, &Request { options, ..hi() }).get("temperature").cloned()
    };
    assert_eq!(temperature(ThinkingLevel::Off, ThinkingFormat::Openai), None);
    assert_eq!(temperature(ThinkingLevel::Low, ThinkingFormat::Qwen), None);
    assert_eq!(temperature(ThinkingLevel::Off, ThinkingFormat::Qwen), Some(json!(1.0)));
}

#[test]
fn a_model_that_thinks_gets_its_instructions_from_a_developer() {
    let role = |model: &ModelInfo| sent(model, &hi())["messages"][0]["role"].clone();
    assert_eq!(role(&thinker(Compat::default())), "developer");
    assert_eq!(role(&thinker(Compat { supports_developer_role: false, ..Compat::default() })), "system");
    assert_eq!(role(&plain(Compat::default())), "system");
}

#[test]
fn calls_results_and_images_keep_their_order() {
    let model = plain(Compat::default());
    let mut messages = vec![
        Message::User { content: vec![Block::text("Look"), image("aGk=")], timestamp: 1 },
        assistant(
            &model,
            vec![
                Block::text("I "),
                Block::text("look."),
                bern(),
                call("c2", "weather", json!("{\"ci")),
                call("c3", "weather", json!({})),
            ],
            StopReason::ToolUse,
        ),
        result("c1", "weather", vec![image("cG5n")], false),
        result("c2", "weather", vec![Block::text("no"), Block::text("city")], true),
        result("c3", "weather", vec![], false),
        assistant(&model, vec![call("c4", "weather", json!({}))], StopReason::ToolUse),
        result("c4", "weather", vec![Block::text("see"), image("eA==")], false),
    ];
    messages.push(assistant(&model, vec![thought("nothing said", None)], StopReason::Stop));
    let picture = |data: &str| json!({ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{data}") } });
    let shown = json!({ "type": "text", "text": "Images from the tools' results:" });
    let function = |name: &str, arguments: &str| json!({ "name": name, "arguments": arguments });
    assert_eq!(
        sent(&model, &request(messages))["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "Look" }, picture("aGk=")] },
            { "role": "assistant", "content": "I look.", "tool_calls": [
                { "id": "c1", "type": "function", "function": function("weather", r#"{"city":"Bern"}"#) },
                { "id": "c2", "type": "function", "function": function("weather", r#"{"invalid":"{\"ci"}"#) },
                { "id": "c3", "type": "function", "function": function("weather", "{}") },
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "(see the image below)" },
            { "role": "tool", "tool_call_id": "c2", "content": "no\ncity" },
            { "role": "tool", "tool_call_id": "c3", "content": "(no output)" },
            { "role": "user", "content": [shown, picture("cG5n")] },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c4", "type": "function", "function": function("weather", "{}") },
            ] },
            { "role": "tool", "tool_call_id": "c4", "content": "see" },
            { "role": "user", "content": [shown, picture("eA==")] },
        ])
    );
}

#[test]
fn thoughts_go_back_in_the_field_they_came_in() {
    let model = thinker(Compat::default());
    let detail = json!({ "type": "reasoning.encrypted", "id": "c1", "data": "sealed" });
    let signed = Block::ToolCall {
        id: "c1".to_owned(),
        name: "weather".to_owned(),
        arguments: json!({}),
        thought_signature: Some(detail.to_string()),
    };
    let answer = vec![
        thought("first", Some("reasoning")),
        thought("second", Some("reasoning")),
        thought("unsigned", None),
        thought("of another format", Some("opaque")),
        signed,
    ];
    assert_eq!(
        sent(&model, &request(asked(&model, answer)))["messages"][1],
        json!({
            "role": "assistant",
            "reasoning": "first\nsecond",
            "content": null,
            "tool_calls": [{
                "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "{}" },
            }],
            "reasoning_details": [detail],
        })
    );
}

#[test]
fn thoughts_go_back_as_text_where_a_server_wants_them_so() {
    let model = thinker(Compat { requires_thinking_as_text: true, ..Compat::default() });
    let answer = vec![thought("hm", Some("reasoning_content")), Block::text("I look."), bern()];
    let message = &sent(&model, &request(asked(&model, answer)))["messages"][1];
    assert_eq!(message["content"], "<think>\nhm\n</think>\nI look.");
    assert_eq!(message.get("reasoning_content"), None);
}

#[test]
fn a_result_names_its_tool_where_a_server_wants_it_so() {
    let model = plain(Compat { requires_tool_result_name: true, ..Compat::default() });
    assert_eq!(
        sent(&model, &request(asked(&model, vec![bern()])))["messages"][2],
        json!({ "role": "tool", "tool_call_id": "c1", "content": "rain", "name": "weather" })
    );
}

#[test]
fn the_model_speaks_between_a_result_and_a_user_where_a_server_wants_it_so() {
    let model = plain(Compat { requires_assistant_after_tool_result: true, ..Compat::default() });
    let roles = |result_content: Vec<Block>| -> Vec<Value> {
        let mut messages = asked(&model, vec![bern()]);
        messages[2] = result("c1", "weather", result_content, false);
        messages.push(Message::user("and?", 4));
        let body = sent(&model, &request(messages));
        body["messages"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect()
    };
    assert_eq!(roles(vec![Block::text("rain")]), ["user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(roles(vec![image("eA==")]), ["user", "assistant", "tool", "assistant", "user", "user"]);
}

#[test]
fn a_name_no_vendor_takes_is_written_differently_everywhere() {
    let model = plain(Compat { requires_tool_result_name: true, ..Compat::default() });
    let mut messages = asked(&model, vec![call("c1", "files.read", json!({}))]);
    messages[2] = result("c1", "files.read", vec![Block::text("x")], false);
    let options = Options { tool_choice: ToolChoice::Named("files.read".to_owned()), ..Options::default() };
    let body = sent(&model, &Request { tools: vec![dotted()], options, ..request(messages) });
    let names = [
        &body["tools"][0]["function"]["name"],
        &body["tool_choice"]["function"]["name"],
        &body["messages"][1]["tool_calls"][0]["function"]["name"],
        &body["messages"][2]["name"],
    ];
    assert_eq!(names, ["files_read"; 4]);
}

#[test]
fn short_ids_go_to_those_who_take_no_others() {
    let model = plain(Compat { short_tool_ids: true, ..Compat::default() });
    let body = sent(&model, &request(asked(&model, vec![bern()])));
    let id = body["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
    assert_eq!(body["messages"][2]["tool_call_id"], id);
}

#[test]
fn the_choice_of_a_tool_is_said() {
    let choice = |tool_choice| {
        let options = Options { tool_choice, ..Options::default() };
        let request = Request { tools: vec![weather()], options, ..hi() };
        sent(&plain(Compat::default()), &request).get("tool_choice").cloned()
    };
    assert_eq!(choice(ToolChoice::Auto), None);
    assert_eq!(choice(ToolChoice::None), Some(json!("none")));
    assert_eq!(choice(ToolChoice::Required), Some(json!("required")));
    let named = json!({ "type": "function", "function": { "name": "weather" } });
    assert_eq!(choice(ToolChoice::Named("weather".to_owned())), Some(named));
}

#[test]
fn an_empty_list_of_tools_goes_only_where_it_is_needed() {
    let tools = |cache_control, tools| {
        let model = plain(Compat { cache_control, ..Compat::default() });
        let model = ModelInfo { tools, ..model };
        sent(&model, &request(asked(&model, vec![bern()]))).get("tools").cloned()
    };
    assert_eq!(tools(true, true), Some(json!([])));
    assert_eq!(tools(true, false), None);
    assert_eq!(tools(false, true), None);
    let unused = plain(Compat { cache_control: true, ..Compat::default() });
    assert_eq!(sent(&unused, &hi()).get("tools"), None);
}

#[test]
fn a_model_without_tools_is_offered_none() {
    let model = ModelInfo { tools: false, ..plain(Compat::default()) };
    assert_eq!(sent(&model, &Request { tools: vec![weather()], ..hi() }).get("tools"), None);
}

#[test]
fn the_last_text_is_marked_for_the_cache() {
    let model = plain(Compat { cache_control: true, ..Compat::default() });
    let marked = json!([{ "type": "text", "text": "Weather?", "cache_control": { "type": "ephemeral" } }]);
    // The call has no text and the result is a tool's: the question is the last that can be marked.
    let body = sent(&model, &request(asked(&model, vec![bern()])));
    assert_eq!(body["messages"][0]["content"], marked);
    let mut messages = asked(&model, vec![bern()]);
    messages.push(assistant(&model, vec![Block::text("Rain.")], StopReason::Stop));
    messages.push(Message::User { content: vec![Block::text("And"), image("eA==")], timestamp: 5 });
    let body = sent(&model, &request(messages));
    assert_eq!(body["messages"][0]["content"], "Weather?");
    assert_eq!(body["messages"][4]["content"][0]["cache_control"], json!({ "type": "ephemeral" }));
    let options = Options { cache: CacheRetention::None, ..Options::default() };
    assert_eq!(sent(&model, &Request { options, ..hi() })["messages"][1]["content"], "hi");
}

#[test]
fn a_token_is_a_bearer_and_a_models_headers_come_last() {
    let mut model = plain(Compat::default());
    model.base_url = "https://openrouter.ai/api/v1".to_owned();
    model.headers = vec![("X-Title".to_owned(), "tide".to_owned().into())];
    let prepared = prepare(&OpenaiCompletions, &model, &Access::Key(Secret::new("key")), &hi());
    assert_eq!(prepared.url, "https://openrouter.ai/api/v1/chat/completions");
    assert_eq!(prepared.method, Method::Post);
    assert_eq!(
        headers(&prepared),
        [
            ("accept", "text/event-stream"),
            ("authorization", "Bearer key"),
            ("content-type", "application/json"),
            ("x-title", "tide"),
        ]
    );
    let open = prepare(&OpenaiCompletions, &model, &Access::Open, &hi());
    assert!(open.headers.get("authorization").is_none());
}
