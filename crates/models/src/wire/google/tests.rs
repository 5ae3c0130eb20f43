//! Whole requests and whole answers.

use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, StopReason, ThinkingLevel, Usage};
use tidegate_secrets::Secret;

use super::*;
use crate::catalogue::Api;
use crate::request::{Options, ToolChoice};
use crate::stream::{BlockKind, ModelEvent};
use crate::wire::samples::{
    self, answer, ask, blocks, call, failure, header, look, picture, result, thought,
};

const BASE: &str = "https://generativelanguage.googleapis.com/v1beta";

fn model(id: &str) -> ModelInfo {
    samples::model(Api::GoogleGenerativeAi, id, BASE)
}

fn body(request: &Request, id: &str) -> Value {
    samples::body(&GoogleGenerativeAi, request, &model(id))
}

#[test]
fn a_key_goes_into_a_header_and_never_into_the_address() {
    let prepare =
        |access| samples::prepare(&GoogleGenerativeAi, &ask("hi"), &model("gemini-2.5-pro"), &access);
    let keyed = prepare(Access::Key(Secret::new("key")));
    assert_eq!(keyed.url, format!("{BASE}/models/gemini-2.5-pro:streamGenerateContent?alt=sse"));
    assert_eq!(header(&keyed.headers, "x-goog-api-key"), Some("key"));
    assert_eq!(header(&keyed.headers, "authorization"), None);
    assert_eq!(header(&keyed.headers, "x-extra"), Some("yes"));
    let login = prepare(Access::Login { token: Secret::new("token"), account_id: None });
    assert_eq!(header(&login.headers, "authorization"), Some("Bearer token"));
    assert_eq!(header(&login.headers, "x-goog-api-key"), None);
    assert_eq!(address(BASE, "tunedModels/mine"), format!("{BASE}/tunedModels/mine"));
}

#[test]
fn a_whole_conversation_is_said_in_geminis_words() {
    let model = model("gemini-2.5-flash");
    let content = vec![
        thought("hm", Some("c2lnbg==")),
        Block::Text { text: "I look.".to_owned(), text_signature: Some("dGV4dA==".to_owned()) },
        call("c1", json!({"at": "x"}), Some("Y2FsbA==")),
        call("c2", json!("{\"at"), None),
    ];
    let request = Request {
        system: vec!["Be kind.".to_owned(), String::new(), "Today.".to_owned()],
        messages: vec![
            Message::User { content: vec![Block::text("What is it?"), picture()], timestamp: 0 },
            Message::user("Say.", 0),
            answer(&model, content, StopReason::ToolUse),
            result("c2", vec![], true),
            result("c1", vec![Block::text("a cat"), picture()], false),
            Message::user("And now?", 0),
        ],
        tools: vec![look()],
        options: Options { temperature: Some(0.5), max_tokens: Some(500), ..Options::default() },
        session_name: String::new(),
    };
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let expected = json!({
        "contents": [
            {"role": "user", "parts": [{"text": "What is it?"}, image, {"text": "Say."}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": "c2lnbg=="},
                {"text": "I look.", "thoughtSignature": "dGV4dA=="},
                {"functionCall": {"name": "look", "args": {"at": "x"}}, "thoughtSignature": "Y2FsbA=="},
                {"functionCall": {"name": "look", "args": {"invalid": "{\"at"}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "a cat"}}},
                {"functionResponse": {"name": "look", "response": {"error": "(no output)"}}},
                {"text": "Pictures of the results above:"},
                image,
                {"text": "And now?"},
            ]},
        ],
        "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Today."}]},
        "tools": [{"functionDeclarations": [
            {"name": "look", "description": "Looks.", "parametersJsonSchema": look().parameters},
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {
            "maxOutputTokens": 500,
            "temperature": 0.5,
            "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": false},
        },
    });
    assert_eq!(samples::body(&GoogleGenerativeAi, &request, &model), expected);
}

#[test]
fn the_newest_models_want_every_call_signed_and_pictures_inside_results() {
    let model = model("gemini-3-pro-preview");
    let content = vec![call("c1", json!({}), None), call("c2", json!({}), Some("no base64!"))];
    let messages = vec![
        answer(&model, content, StopReason::ToolUse),
        result("c1", vec![picture()], false),
        result("c2", vec![Block::text("dark")], false),
    ];
    let request = Request { messages, ..Request::default() };
    let called = json!({
        "functionCall": {"name": "look", "args": {}},
        "thoughtSignature": "skip_thought_signature_validator",
    });
    let expected = json!([
        {"role": "user", "parts": [{"text": "(the conversation continues)"}]},
        {"role": "model", "parts": [called, called]},
        {"role": "user", "parts": [
            {"functionResponse": {
                "name": "look",
                "response": {"output": "(no output)"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
            }},
            {"functionResponse": {"name": "look", "response": {"output": "dark"}}},
        ]},
    ]);
    assert_eq!(samples::body(&GoogleGenerativeAi, &request, &model)["contents"], expected);
}

#[test]
fn thinking_is_a_budget_or_a_level() {
    let config = |id: &str, thinking| {
        let options = Options { thinking, ..Options::default() };
        body(&Request { options, ..ask("hi") }, id)["generationConfig"].clone()
    };
    let with = |thinking: Value| json!({"maxOutputTokens": 64000, "thinkingConfig": thinking});
    assert_eq!(
        config("gemini-2.5-pro", ThinkingLevel::Medium),
        with(json!({"thinkingBudget": 8192, "includeThoughts": true}))
    );
    assert_eq!(
        config("gemini-3-flash-preview", ThinkingLevel::High),
        with(json!({"thinkingLevel": "HIGH", "includeThoughts": true}))
    );
    assert_eq!(
        config("gemini-3-pro-preview", ThinkingLevel::Off),
        with(json!({"thinkingLevel": "LOW", "includeThoughts": false}))
    );
    let plain = ModelInfo { reasoning: false, ..model("gemini-2.0-flash") };
    let body = samples::body(&GoogleGenerativeAi, &ask("hi"), &plain);
    assert_eq!(body["generationConfig"], json!({"maxOutputTokens": 64000}));
}

#[test]
fn tools_may_be_required_named_or_forbidden() {
    let mode = |tool_choice| {
        let options = Options { tool_choice, ..Options::default() };
        body(&Request { tools: vec![look()], options, ..ask("hi") }, "gemini-2.5-pro")["toolConfig"]
            ["functionCallingConfig"]
            .clone()
    };
    assert_eq!(mode(ToolChoice::None), json!({"mode": "NONE"}));
    assert_eq!(mode(ToolChoice::Required), json!({"mode": "ANY"}));
    assert_eq!(
        mode(ToolChoice::Named("look".to_owned())),
        json!({"mode": "ANY", "allowedFunctionNames": ["look"]})
    );
}

fn stream(chunks: &[Value]) -> Vec<u8> {
    chunks.iter().flat_map(|chunk| format!("data: {chunk}\r\n\r\n").into_bytes()).collect()
}

fn read(chunks: &[Value]) -> Vec<ModelEvent> {
    samples::read(&GoogleGenerativeAi, &model("gemini-3-pro-preview"), &stream(chunks))
}

fn parts(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}]})
}

fn stopped(reason: &str) -> Value {
    json!({"candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": reason}]})
}

#[test]
fn a_whole_answer_is_read_wherever_it_is_cut() {
    let last = json!({
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "look"}}]}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": 100, "cachedContentTokenCount": 30,
            "candidatesTokenCount": 7, "thoughtsTokenCount": 5, "totalTokenCount": 112,
        },
        "modelVersion": "gemini-3-pro",
    });
    let events = read(&[
        parts(&json!([{"text": "hm", "thought": true}])),
        parts(&json!([{"text": " yes", "thought": true}])),
        parts(&json!([{"text": "I \"look\" "}])),
        parts(&json!([{"text": "– ü."}, {"text": "", "thoughtSignature": "dGV4dA=="}])),
        parts(&json!([
            {"functionCall": {"name": "look", "args": {"at": "x"}}, "thoughtSignature": "Y2FsbA=="},
            {"functionCall": {"id": "own", "name": "look", "args": {"at": "y"}}},
            {"functionCall": {"id": "own", "name": "look", "args": {}}},
        ])),
        last,
    ]);
    let expected = vec![
        thought("hm yes", None),
        Block::Text { text: "I \"look\" – ü.".to_owned(), text_signature: Some("dGV4dA==".to_owned()) },
        call("look_1", json!({"at": "x"}), Some("Y2FsbA==")),
        call("own", json!({"at": "y"}), None),
        call("look_3", json!({}), None),
        call("look_4", json!({}), None),
    ];
    assert_eq!(blocks(&events), expected);
    let kind = BlockKind::ToolCall { id: "look_1".to_owned(), name: "look".to_owned() };
    let json = r#"{"at":"x"}"#.to_owned();
    let at =
        events.iter().position(|event| *event == ModelEvent::BlockStart { index: 2, kind: kind.clone() });
    assert_eq!(events[at.unwrap() + 1], ModelEvent::ArgumentsDelta { index: 2, json });
    let usage = Usage { input: 70, output: 12, cache_read: 30, ..Usage::default() };
    assert_eq!(events[events.len() - 2..], [ModelEvent::Usage(usage), ModelEvent::Done(StopReason::ToolUse)]);
}

#[test]
fn an_id_made_up_here_is_none_the_conversation_has() {
    let model = model("gemini-2.5-pro");
    let said = answer(&model, vec![call("look_1", json!({}), None)], StopReason::ToolUse);
    let request = Request { messages: vec![said], ..Request::default() };
    let mut reading = crate::reading::Reading::new(&GoogleGenerativeAi, &model, &request);
    reading.feed(&stream(&[parts(&json!([{"functionCall": {"name": "look"}}])), stopped("STOP")]));
    reading.end();
    let events: Vec<_> = std::iter::from_fn(|| reading.next_event()).collect();
    assert_eq!(blocks(&events), [call("look_2", json!({}), None)]);
}

#[test]
fn what_comes_after_the_end_is_left_out() {
    let once = read(&[parts(&json!([{"text": "hi"}])), stopped("STOP")]);
    let more = [
        parts(&json!([{"text": "hi"}])),
        stopped("STOP"),
        stopped("STOP"),
        stopped("OTHER"),
        parts(&json!([{"text": "more"}, {"functionCall": {"name": "look"}}])),
    ];
    assert_eq!(read(&more), once);
    let done =
        [stream(&[parts(&json!([{"text": "hi"}])), stopped("STOP")]), b"data: [DONE]\n\n".to_vec()].concat();
    assert_eq!(samples::read(&GoogleGenerativeAi, &model("gemini-3-pro-preview"), &done), once);
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let after = |reason: &str| read(&[parts(&json!([{"text": "hi"}])), stopped(reason)]);
    assert_eq!(after("STOP").last(), Some(&ModelEvent::Done(StopReason::Stop)));
    assert_eq!(after("MAX_TOKENS").last(), Some(&ModelEvent::Done(StopReason::Length)));
    for reason in ["SAFETY", "RECITATION", "PROHIBITED_CONTENT"] {
        assert_eq!(failure(&after(reason)), Some(FailureKind::Refused), "{reason}");
        assert_eq!(blocks(&after(reason)), [Block::text("hi")]);
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "OTHER", "SOMETHING_NEW"] {
        assert_eq!(failure(&after(reason)), Some(FailureKind::Broken), "{reason}");
    }
}

#[test]
fn a_blocked_prompt_is_refused_and_its_tokens_counted() {
    let blocked = json!({
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    });
    let events = read(&[blocked]);
    assert_eq!(failure(&events), Some(FailureKind::Refused));
    assert_eq!(events[0], ModelEvent::Usage(Usage { input: 9, ..Usage::default() }));
}

#[test]
fn broken_and_empty_answers_are_failures() {
    assert_eq!(failure(&read(&[])), Some(FailureKind::Broken));
    assert_eq!(failure(&read(&[stopped("STOP")])), Some(FailureKind::Empty));
    assert_eq!(failure(&read(&[parts(&json!([{"text": "hi"}]))])), Some(FailureKind::Broken));
    let error = json!({"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}});
    let events = read(&[parts(&json!([{"text": "hi"}])), error]);
    let Some(ModelEvent::Failed(failed)) = events.last() else { panic!("no failure") };
    assert_eq!(
        (failed.kind, failed.message.as_str(), failed.status),
        (FailureKind::RateLimit, "Slow down.", None)
    );
    assert_eq!(blocks(&events), [Block::text("hi")]);
}

#[test]
fn a_refusal_says_in_its_body_how_long_to_wait() {
    let refused = |delay: &str| {
        let details = json!([{"@type": "QuotaFailure"}, {"@type": "RetryInfo", "retryDelay": delay}]);
        let error = json!({"error": {"code": 429, "message": "Slow down.", "details": details}});
        let told = GoogleGenerativeAi.refused(429, &error.to_string(), 0);
        assert_eq!((told.kind, told.status), (FailureKind::RateLimit, Some(429)));
        assert_eq!(told, GoogleGenerativeAi.refused(429, &json!([error]).to_string(), 0));
        told.retry_after
    };
    assert_eq!(refused("34.5s"), Some(Duration::from_millis(34_500)));
    for nonsense in ["soon", "-1s", "NaNs", "1e300s", "90000s"] {
        assert_eq!(refused(nonsense), None, "{nonsense}");
    }
}

#[test]
fn a_call_cut_off_in_its_arguments_is_never_run() {
    let calls = parts(&json!([{"functionCall": {"name": "look", "args": {"at": "xxxx"}}}]));
    let body = stream(&[parts(&json!([{"text": "hi"}])), calls]);
    let cut = &body[..body.len() - 30];
    let events = samples::read(&GoogleGenerativeAi, &model("gemini-3-pro-preview"), cut);
    assert_eq!(blocks(&events), [Block::text("hi")]);
    assert_eq!(failure(&events), Some(FailureKind::Broken));
}
