//! What the provider is asked.

use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use super::super::OpenaiResponses;
use crate::request::{CacheRetention, Options, Request, ToolChoice, ToolSpec};
use crate::wire::responses::fixtures::{body, call, model, prepared, result, said};

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("{name}s"),
        parameters: json!({ "type": "object", "properties": { "at": { "type": "string" } } }),
    }
}

fn tool_json(name: &str, description: &str) -> Value {
    json!({
        "type": "function",
        "name": name,
        "description": description,
        "parameters": { "type": "object", "properties": { "at": { "type": "string" } } },
        "strict": false,
    })
}

fn reasoning_item() -> Value {
    json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{ "type": "summary_text", "text": "hm" }],
        "encrypted_content": "sealed",
    })
}

fn thought(signature: Option<String>) -> Block {
    Block::Thinking { thinking: "hm".into(), thinking_signature: signature, redacted: false }
}

fn signed(text: &str, id: &str) -> Block {
    Block::Text { text: text.into(), text_signature: Some(json!({ "v": 1, "id": id }).to_string()) }
}

#[test]
fn a_question_is_asked_with_everything_that_belongs_to_it() {
    let model = model("openai", "gpt-5.2");
    let content = vec![
        thought(Some(reasoning_item().to_string())),
        signed("looking", "msg_1"),
        call("call_1|fc_1", "files.look", json!({ "at": "here" })),
    ];
    let image = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let request = Request {
        system: vec!["Be kind.".into(), String::new(), "It is Monday.".into()],
        messages: vec![
            Message::User { content: vec![Block::text("what is here?"), image], timestamp: 1 },
            said(&model, content),
            result("call_1|fc_1", "a cat"),
        ],
        tools: vec![tool("files.look"), tool("sing")],
        options: Options {
            max_tokens: Some(500),
            temperature: Some(0.5),
            thinking: ThinkingLevel::Medium,
            tool_choice: ToolChoice::Named("files.look".into()),
            cache: CacheRetention::Long,
            ..Options::default()
        },
        session_name: "agent:main".into(),
    };
    let expected = json!({
        "model": "gpt-5.2",
        "input": [
            { "role": "developer", "content": "Be kind." },
            { "role": "developer", "content": "It is Monday." },
            { "role": "user", "content": [
                { "type": "input_text", "text": "what is here?" },
                { "type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA" },
            ] },
            reasoning_item(),
            {
                "type": "message",
                "role": "assistant",
                "content": [{ "type": "output_text", "text": "looking", "annotations": [] }],
                "id": "msg_1",
                "status": "completed",
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "files_look",
                "arguments": "{\"at\":\"here\"}",
            },
            { "type": "function_call_output", "call_id": "call_1", "output": "a cat" },
        ],
        "stream": true,
        "store": false,
        "tools": [tool_json("files_look", "files.looks"), tool_json("sing", "sings")],
        "tool_choice": { "type": "function", "name": "files_look" },
        "include": ["reasoning.encrypted_content"],
        "reasoning": { "effort": "medium", "summary": "auto" },
        "max_output_tokens": 500,
        "prompt_cache_key": "agent:main",
    });
    assert_eq!(body(&OpenaiResponses, &request, &model), expected);
}

#[test]
fn a_model_that_does_not_think_is_asked_plainly() {
    let mut model = model("local", "small");
    model.reasoning = false;
    let request = Request {
        system: vec!["Be kind.".into()],
        messages: vec![Message::user("hi", 1)],
        options: Options { temperature: Some(0.5), thinking: ThinkingLevel::High, ..Options::default() },
        ..Request::default()
    };
    let expected = json!({
        "model": "small",
        "input": [
            { "role": "system", "content": "Be kind." },
            { "role": "user", "content": [{ "type": "input_text", "text": "hi" }] },
        ],
        "stream": true,
        "store": false,
        "temperature": 0.5,
    });
    assert_eq!(body(&OpenaiResponses, &request, &model), expected);
}

#[test]
fn it_is_sent_to_the_models_address_with_the_token() {
    let mut model = model("openai", "gpt-5.2");
    model.headers = vec![("X-Team".into(), "blue".to_owned().into())];
    let prepared = prepared(&OpenaiResponses, &Request::default(), &model).unwrap();
    assert_eq!(prepared.url, "https://models.example/v1/responses");
    let headers: Vec<_> = prepared.headers.iter().map(|(name, value)| (name, value.expose())).collect();
    let expected = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("authorization", "Bearer a token"),
        ("x-team", "blue"),
    ];
    assert_eq!(headers, expected);
}

#[test]
fn a_long_cache_is_asked_of_openai_alone() {
    let asked = |base_url: &str, cache| {
        let mut model = model("openai", "gpt-5.2");
        model.base_url = base_url.into();
        let options = Options { cache, ..Options::default() };
        let request = Request { options, session_name: "s".into(), ..Request::default() };
        let body = body(&OpenaiResponses, &request, &model);
        (body.get("prompt_cache_key").cloned(), body.get("prompt_cache_retention").cloned())
    };
    let (openai, other) = ("https://api.openai.com/v1", "https://api.openai.com.example/v1");
    assert_eq!(asked(openai, CacheRetention::Long), (Some(json!("s")), Some(json!("24h"))));
    assert_eq!(asked(openai, CacheRetention::Short), (Some(json!("s")), None));
    assert_eq!(asked(openai, CacheRetention::None), (None, None));
    assert_eq!(asked(other, CacheRetention::Long), (Some(json!("s")), None));
}

#[test]
fn a_long_session_name_still_makes_a_key_of_its_own() {
    let key = |name: String| {
        let request = Request { session_name: name, ..Request::default() };
        body(&OpenaiResponses, &request, &model("openai", "gpt-5.2"))["prompt_cache_key"].clone()
    };
    let (one, other) = (key("a".repeat(70) + "1"), key("a".repeat(70) + "2"));
    assert_ne!(one, other);
    for key in [one, other, key("Grüße".into())] {
        assert!(key.as_str().unwrap().len() <= 64, "{key}");
    }
}

#[test]
fn another_models_words_go_without_its_ids_and_seals() {
    let model = model("openai", "gpt-5.2");
    let stranger = crate::wire::responses::fixtures::model("openai", "gpt-5.1");
    let content = vec![
        thought(Some(reasoning_item().to_string())),
        signed("looking", "msg_1"),
        call("call_1|fc_1", "look", json!({})),
    ];
    let messages = vec![said(&stranger, content), result("call_1|fc_1", "a cat")];
    let request = Request { messages, ..Request::default() };
    let said = |text: &str| {
        json!({
            "type": "message",
            "role": "assistant",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        })
    };
    let expected = json!([
        said("hm"),
        said("looking"),
        { "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "call_1", "output": "a cat" },
    ]);
    assert_eq!(body(&OpenaiResponses, &request, &model)["input"], expected);
}

#[test]
fn items_lose_their_ids_with_the_thought_they_came_from() {
    let model = model("openai", "gpt-5.2");
    let mut open = reasoning_item();
    open.as_object_mut().unwrap().remove("encrypted_content");
    for signature in [None, Some("no item".to_owned()), Some(open.to_string())] {
        let content =
            vec![thought(signature), signed("looking", "msg_1"), call("call_1|fc_1", "look", json!({}))];
        let messages = vec![said(&model, content), result("call_1|fc_1", "a cat")];
        let request = Request { messages, ..Request::default() };
        let input = body(&OpenaiResponses, &request, &model)["input"].clone();
        let expected = json!([
            {
                "type": "message",
                "role": "assistant",
                "content": [{ "type": "output_text", "text": "looking", "annotations": [] }],
            },
            { "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "call_1", "output": "a cat" },
        ]);
        assert_eq!(input, expected);
    }
}

#[test]
fn an_open_thought_goes_back_as_it_was() {
    let model = model("local", "open");
    let item = json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{ "type": "reasoning_text", "text": "hm" }],
    });
    let messages = vec![said(&model, vec![thought(Some(item.to_string())), signed("so", "msg_1")])];
    let request = Request { messages, ..Request::default() };
    assert_eq!(body(&OpenaiResponses, &request, &model)["input"][0], item);
}

#[test]
fn an_id_the_server_would_not_take_is_left_out() {
    let model = model("openai", "gpt-5.2");
    let long = format!("msg_{}", "x".repeat(64));
    for (id, sent) in [("msg_1", true), ("item_1", false), (&long, false)] {
        let messages = vec![said(&model, vec![signed("so", id)])];
        let request = Request { messages, ..Request::default() };
        let input = body(&OpenaiResponses, &request, &model)["input"].clone();
        assert_eq!(input[0].get("id").is_some(), sent, "{id}");
    }
}

#[test]
fn a_thought_that_led_to_nothing_is_not_sent_back() {
    let model = model("openai", "gpt-5.2");
    let seal = || thought(Some(reasoning_item().to_string()));
    let messages = vec![
        said(&model, vec![seal()]),
        Message::user("go on", 3),
        said(&model, vec![seal(), signed("so", "msg_1"), seal()]),
    ];
    let request = Request { messages, ..Request::default() };
    let input = body(&OpenaiResponses, &request, &model)["input"].clone();
    let kinds: Vec<_> = input.as_array().unwrap().iter().map(|item| item.get("type").cloned()).collect();
    assert_eq!(kinds, [None, Some(json!("reasoning")), Some(json!("message"))]);
}

#[test]
fn a_tools_output_is_text_or_a_list_with_its_images() {
    let model = model("openai", "gpt-5.2");
    let image = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let output = |content: Vec<Block>| {
        let mut answer = result("c", "");
        if let Message::ToolResult { content: place, .. } = &mut answer {
            *place = content;
        }
        let messages = vec![said(&model, vec![call("c", "look", json!({}))]), answer];
        let request = Request { messages, ..Request::default() };
        body(&OpenaiResponses, &request, &model)["input"][1]["output"].clone()
    };
    assert_eq!(output(vec![Block::text("a"), Block::text("b")]), json!("a\nb"));
    assert_eq!(output(vec![]), json!("(no output)"));
    assert_eq!(
        output(vec![Block::text("see"), image]),
        json!([
            { "type": "input_text", "text": "see" },
            { "type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA" },
        ])
    );
}

#[test]
fn arguments_that_were_no_json_are_quoted_as_they_were() {
    let model = model("openai", "gpt-5.2");
    let messages = vec![said(&model, vec![call("c", "look", json!("{\"at\":"))])];
    let request = Request { messages, ..Request::default() };
    let input = body(&OpenaiResponses, &request, &model)["input"].clone();
    assert_eq!(input[0]["arguments"], json!("{\"at\":"));
}

#[test]
fn thinking_that_is_off_is_said_to_be_off() {
    let reasoning = |id: &str| {
        let body = body(&OpenaiResponses, &Request::default(), &model("openai", id));
        body.get("reasoning").cloned()
    };
    assert_eq!(reasoning("gpt-5.2"), Some(json!({ "effort": "none" })));
    assert_eq!(reasoning("gpt-5"), Some(json!({ "effort": "minimal", "summary": "auto" })));
    assert_eq!(reasoning("unheard-of"), None);
}

#[test]
fn a_limit_stays_within_what_the_server_and_the_model_take() {
    let limit = |most| {
        let options = Options { max_tokens: Some(most), ..Options::default() };
        let request = Request { options, ..Request::default() };
        body(&OpenaiResponses, &request, &model("openai", "gpt-5.2"))["max_output_tokens"].clone()
    };
    assert_eq!([limit(1), limit(20), limit(1_000_000)], [json!(16), json!(20), json!(10_000)]);
}
