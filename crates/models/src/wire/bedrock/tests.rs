//! Whole requests and whole answers.

use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, StopReason, ThinkingLevel, Usage};
use tidegate_secrets::Secret;

use super::*;
use crate::catalogue::Api;
use crate::frames::encode::{event, exception};
use crate::request::{CacheRetention, Options, ToolChoice};
use crate::stream::{BlockKind, ModelEvent};
use crate::wire::samples::{
    self, answer, ask, blocks, call, failure, header, look, picture, result, thought,
};

const SONNET: &str = "anthropic.claude-sonnet-4-5-20250929-v1:0";

fn model(id: &str) -> ModelInfo {
    samples::model(Api::BedrockConverseStream, id, "")
}

fn body(request: &Request, id: &str) -> Value {
    samples::body(&BedrockConverse, request, &model(id))
}

fn read(bytes: &[u8]) -> Vec<ModelEvent> {
    samples::read(&BedrockConverse, &model(SONNET), bytes)
}

fn aws(region: Option<&str>) -> Access {
    Access::Aws {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: Secret::new("hidden"),
        session_token: Some(Secret::new("temporary")),
        region: region.map(str::to_owned),
    }
}

#[test]
fn a_key_is_sent_as_a_bearer_token_to_the_usual_region() {
    let prepared =
        samples::prepare(&BedrockConverse, &ask("hi"), &model(SONNET), &Access::Key(Secret::new("key")));
    assert_eq!(
        prepared.url,
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    );
    assert_eq!(header(&prepared.headers, "authorization"), Some("Bearer key"));
    assert_eq!(header(&prepared.headers, "x-extra"), Some("yes"));
    assert_eq!(header(&prepared.headers, "x-amz-date"), None);
}

#[test]
fn amazons_keys_sign_the_request_for_their_region() {
    let prepared = samples::prepare(&BedrockConverse, &ask("hi"), &model(SONNET), &aws(Some("eu-west-1")));
    assert!(prepared.url.starts_with("https://bedrock-runtime.eu-west-1.amazonaws.com/model/"));
    let signed = header(&prepared.headers, "authorization").unwrap();
    let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/bedrock/aws4_request, \
                    SignedHeaders=accept;content-type;host;x-amz-date;x-amz-security-token;x-extra, Signature=";
    assert!(signed.starts_with(expected), "{signed}");
    assert!(!signed.contains("hidden"));
    assert_eq!(header(&prepared.headers, "x-amz-security-token"), Some("temporary"));
}

#[test]
fn a_configured_address_wins_over_the_keys_region() {
    let place = |base: &str, region| place(base, &aws(region));
    let amazon = "https://bedrock-runtime.ap-south-1.amazonaws.com";
    assert_eq!(place(amazon, Some("eu-west-1")), (amazon.to_owned(), "ap-south-1".to_owned()));
    assert_eq!(place("http://own:8080/aws", Some("eu-west-1")).1, "eu-west-1");
    assert_eq!(place("http://own:8080/aws", None).1, "us-east-1");
    assert_eq!(place("", None).0, "https://bedrock-runtime.us-east-1.amazonaws.com");
    assert_eq!(split("http://own:8080/aws"), ("own:8080", "/aws"));
}

#[test]
fn a_whole_conversation_is_said_in_converses_words() {
    let model = model(SONNET);
    let hidden = Block::Thinking {
        thinking: String::new(),
        thinking_signature: Some("aGlkZGVu".to_owned()),
        redacted: true,
    };
    let content = vec![
        thought("hm", Some("proof")),
        hidden,
        Block::text("I look."),
        call("c1", json!({"at": "x"}), None),
    ];
    let request = Request {
        system: vec!["Be kind.".to_owned(), " ".to_owned(), "Today.".to_owned()],
        messages: vec![
            Message::User { content: vec![Block::text("What is it?"), picture()], timestamp: 0 },
            answer(&model, content, StopReason::ToolUse),
            result("c1", vec![Block::text("a cat"), picture()], false),
            Message::user("And now?", 0),
        ],
        tools: vec![look()],
        options: Options { temperature: Some(0.5), max_tokens: Some(500), ..Options::default() },
        session_name: String::new(),
    };
    let image = json!({"image": {"format": "png", "source": {"bytes": "AAAA"}}});
    let expected = json!({
        "system": [{"text": "Be kind."}, {"text": "Today."}, {"cachePoint": {"type": "default"}}],
        "messages": [
            {"role": "user", "content": [{"text": "What is it?"}, image]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "proof"}}},
                {"reasoningContent": {"redactedContent": "aGlkZGVu"}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"at": "x"}}},
            ]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "a cat"}, image], "status": "success"}},
                {"text": "And now?"},
                {"cachePoint": {"type": "default"}},
            ]},
        ],
        "inferenceConfig": {"maxTokens": 500, "temperature": 0.5},
        "toolConfig": {"tools": [{"toolSpec": {
            "name": "look",
            "description": "Looks.",
            "inputSchema": {"json": look().parameters},
        }}]},
    });
    assert_eq!(samples::body(&BedrockConverse, &request, &model), expected);
}

#[test]
fn a_history_that_begins_with_an_answer_gets_an_opening() {
    let said = answer(&model("amazon.nova-pro-v1:0"), vec![Block::text("Hello.")], StopReason::Stop);
    let request = Request { messages: vec![said, Message::user("hi", 0)], ..Request::default() };
    let expected = json!([
        {"role": "user", "content": [{"text": "(the conversation continues)"}]},
        {"role": "assistant", "content": [{"text": "Hello."}]},
        {"role": "user", "content": [{"text": "hi"}]},
    ]);
    assert_eq!(body(&request, "amazon.nova-pro-v1:0")["messages"], expected);
}

#[test]
fn only_models_that_cache_get_a_cache_point() {
    let cached = |id: &str, cache| {
        let request = Request { options: Options { cache, ..Options::default() }, ..ask("hi") };
        body(&request, id)["messages"][0]["content"].get(1).cloned()
    };
    let (short, long) = (CacheRetention::Short, CacheRetention::Long);
    let point = Some(json!({"cachePoint": {"type": "default"}}));
    for id in
        [SONNET, "us.anthropic.claude-3-7-sonnet-20250219-v1:0", "anthropic.claude-3-5-haiku-20241022-v1:0"]
    {
        assert_eq!(cached(id, short), point, "{id}");
    }
    assert_eq!(cached("anthropic.claude-sonnet-4-20250514-v1:0", long), point);
    assert_eq!(cached(SONNET, long), Some(json!({"cachePoint": {"type": "default", "ttl": "1h"}})));
    assert_eq!(cached(SONNET, CacheRetention::None), None);
    for id in [
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "anthropic.claude-3-haiku-20240307-v1:0",
        "amazon.nova-pro-v1:0",
    ] {
        assert_eq!(cached(id, short), None, "{id}");
    }
}

#[test]
fn thinking_is_asked_for_in_the_makers_words() {
    let asked = |id: &str, thinking| {
        let options = Options { thinking, temperature: Some(1.0), ..Options::default() };
        let body = body(&Request { options, ..ask("hi") }, id);
        (body["inferenceConfig"].clone(), body["additionalModelRequestFields"].clone())
    };
    let enabled = |tokens: u32| json!({"type": "enabled", "budget_tokens": tokens});
    assert_eq!(
        asked(SONNET, ThinkingLevel::Off),
        (json!({"maxTokens": 32000, "temperature": 1.0}), Value::Null)
    );
    let beta = json!({"thinking": enabled(8192), "anthropic_beta": ["interleaved-thinking-2025-05-14"]});
    assert_eq!(asked(SONNET, ThinkingLevel::Medium), (json!({"maxTokens": 40192}), beta));
    let old = asked("anthropic.claude-3-7-sonnet-20250219-v1:0", ThinkingLevel::Low);
    assert_eq!(old.1, json!({"thinking": enabled(2048)}));
    let adaptive =
        |effort: &str| json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}});
    let opus = "global.anthropic.claude-opus-4-6-v1";
    assert_eq!(asked(opus, ThinkingLevel::Minimal), (json!({"maxTokens": 32000}), adaptive("low")));
    assert_eq!(asked(opus, ThinkingLevel::Xhigh).1, adaptive("max"));
    assert_eq!(asked("global.anthropic.claude-sonnet-4-6", ThinkingLevel::Xhigh).1, adaptive("high"));
    let oss = asked("openai.gpt-oss-120b-1:0", ThinkingLevel::Minimal);
    assert_eq!(oss, (json!({"maxTokens": 32000, "temperature": 1.0}), json!({"reasoning_effort": "low"})));
    assert_eq!(asked("amazon.nova-pro-v1:0", ThinkingLevel::High).1, Value::Null);
}

#[test]
fn tools_may_be_required_named_or_forbidden() {
    let config = |tool_choice, messages: Vec<Message>, tools| {
        let options = Options { tool_choice, ..Options::default() };
        body(&Request { messages, tools, options, ..Request::default() }, SONNET)["toolConfig"].clone()
    };
    let plain = || vec![Message::user("hi", 0)];
    let used = || {
        let said = answer(&model(SONNET), vec![call("c1", json!({}), None)], StopReason::ToolUse);
        vec![Message::user("hi", 0), said, result("c1", vec![], true)]
    };
    assert_eq!(config(ToolChoice::Required, plain(), vec![look()])["toolChoice"], json!({"any": {}}));
    let named = config(ToolChoice::Named("look".to_owned()), plain(), vec![look()]);
    assert_eq!(named["toolChoice"], json!({"tool": {"name": "look"}}));
    assert_eq!(config(ToolChoice::None, plain(), vec![look()]), Value::Null);
    // The service refuses a history with calls when it is told of no tools.
    let told =
        json!({"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]});
    assert_eq!(config(ToolChoice::Auto, used(), vec![]), told);
    let kept = config(ToolChoice::None, used(), vec![look()]);
    assert_eq!(kept["tools"][0]["toolSpec"]["description"], json!("Looks."));
    assert_eq!((kept["tools"].as_array().unwrap().len(), kept.get("toolChoice")), (1, None));
    let empty = body(&Request { messages: used(), ..Request::default() }, SONNET);
    let expected =
        json!({"toolResult": {"toolUseId": "c1", "content": [{"text": "(no output)"}], "status": "error"}});
    assert_eq!(empty["messages"][2]["content"][0], expected);
}

fn start(index: u32) -> Vec<u8> {
    let start = json!({"toolUse": {"toolUseId": format!("t{index}"), "name": "look"}});
    event("contentBlockStart", &json!({"contentBlockIndex": index, "start": start, "p": "ab"}).to_string())
}

fn delta(index: u32, delta: &Value) -> Vec<u8> {
    event("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta}).to_string())
}

fn stop(index: u32) -> Vec<u8> {
    event("contentBlockStop", &json!({ "contentBlockIndex": index }).to_string())
}

fn stopped(reason: &str) -> Vec<u8> {
    event("messageStop", &json!({ "stopReason": reason }).to_string())
}

fn tokens() -> Vec<u8> {
    let usage = json!({
        "inputTokens": 10, "outputTokens": 20, "totalTokens": 37,
        "cacheReadInputTokens": 3, "cacheWriteInputTokens": 4,
    });
    event("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 1}}).to_string())
}

#[test]
fn a_whole_answer_is_read_wherever_it_is_cut() {
    let body = [
        event("messageStart", r#"{"role":"assistant"}"#),
        delta(0, &json!({"reasoningContent": {"text": "hm"}})),
        delta(0, &json!({"reasoningContent": {"signature": "pro"}})),
        delta(0, &json!({"reasoningContent": {"signature": "of"}})),
        stop(0),
        delta(1, &json!({"reasoningContent": {"redactedContent": "aGk="}})),
        delta(1, &json!({"reasoningContent": {"redactedContent": "IQ=="}})),
        stop(1),
        delta(2, &json!({"text": "I \"look\" – "})),
        delta(2, &json!({"text": "here."})),
        stop(2),
        start(3),
        delta(3, &json!({"toolUse": {"input": "{\"at\":"}})),
        delta(3, &json!({"toolUse": {"input": "\"ü\"}"}})),
        stop(3),
        stopped("tool_use"),
        tokens(),
    ];
    let events = read(&body.concat());
    let hidden = Block::Thinking {
        thinking: String::new(),
        thinking_signature: Some("aGkh".to_owned()),
        redacted: true,
    };
    let expected = vec![
        thought("hm", Some("proof")),
        hidden,
        Block::text("I \"look\" – here."),
        call("t3", json!({"at": "ü"}), None),
    ];
    assert_eq!(blocks(&events), expected);
    let kind = BlockKind::ToolCall { id: "t3".to_owned(), name: "look".to_owned() };
    assert!(events.contains(&ModelEvent::BlockStart { index: 3, kind }));
    let usage = Usage { input: 10, output: 20, cache_read: 3, cache_write: 4, ..Usage::default() };
    assert_eq!(events[events.len() - 2..], [ModelEvent::Usage(usage), ModelEvent::Done(StopReason::ToolUse)]);
}

#[test]
fn repeated_and_stray_events_change_nothing() {
    let once = [delta(0, &json!({"text": "hi"})), stop(0), stopped("end_turn")].concat();
    let twice = [
        delta(7, &json!({"toolUse": {"input": "{}"}})),
        delta(0, &json!({"text": "hi"})),
        stop(0),
        stop(0),
        event("somethingNew", "[]"),
        stopped("end_turn"),
        stopped("end_turn"),
        start(1),
    ];
    assert_eq!(read(&twice.concat()), read(&once));
}

#[test]
fn a_call_cut_off_in_its_arguments_is_never_run() {
    let body = [
        delta(0, &json!({"text": "I look"})),
        start(1),
        delta(1, &json!({"toolUse": {"input": "{\"at\":"}})),
    ];
    let events = read(&body.concat());
    assert_eq!(blocks(&events), [Block::text("I look")]);
    assert_eq!(failure(&events), Some(FailureKind::Broken));
    let cut = body.concat();
    assert_eq!(failure(&read(&cut[..cut.len() - 3])), Some(FailureKind::Broken));
}

#[test]
fn a_call_cut_off_by_the_limit_is_never_run_although_its_block_is_closed() {
    let half = delta(0, &json!({"toolUse": {"input": "{\"at\":"}}));
    let events = read(&[start(0), half, stop(0), stopped("max_tokens")].concat());
    assert_eq!(blocks(&events), []);
    assert_eq!(events.last(), Some(&ModelEvent::Done(StopReason::Length)));
}

#[test]
fn a_claude_thinks_here_under_the_rules_it_has_everywhere() {
    let asked = |id: &str, options: Options| {
        let request = Request { tools: vec![look()], options, ..ask("hi") };
        let body = body(&request, id);
        (body["inferenceConfig"].clone(), body["additionalModelRequestFields"].clone())
    };
    let thinking = ThinkingLevel::High;
    // A tool that must be called leaves no room for thoughts, and neither does a short answer.
    let forced = Options { thinking, tool_choice: ToolChoice::Required, ..Options::default() };
    assert_eq!(asked(SONNET, forced), (json!({"maxTokens": 32000}), Value::Null));
    let most = samples::model(Api::BedrockConverseStream, SONNET, "");
    let short = ModelInfo { max_tokens: 1500, ..most };
    let options = Options { thinking, ..Options::default() };
    let request = Request { options: options.clone(), ..ask("hi") };
    assert_eq!(
        samples::body(&BedrockConverse, &request, &short)["additionalModelRequestFields"],
        Value::Null
    );
    let newer = "global.anthropic.claude-opus-4-7-v1";
    let fields = json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}});
    assert_eq!(asked(newer, options), (json!({"maxTokens": 32000}), fields));
    let warm = Options { temperature: Some(0.5), ..Options::default() };
    assert_eq!(asked(newer, warm), (json!({"maxTokens": 32000}), Value::Null));
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let after = |reason: &str| read(&[delta(0, &json!({"text": "hi"})), stopped(reason)].concat());
    for (reason, expected) in [
        ("end_turn", StopReason::Stop),
        ("stop_sequence", StopReason::Stop),
        ("tool_use", StopReason::Stop),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
    ] {
        assert_eq!(after(reason).last(), Some(&ModelEvent::Done(expected)), "{reason}");
    }
    assert_eq!(failure(&after("guardrail_intervened")), Some(FailureKind::Refused));
    assert_eq!(failure(&after("content_filtered")), Some(FailureKind::Refused));
    assert_eq!(failure(&after("malformed_tool_use")), Some(FailureKind::Broken));
    assert_eq!(failure(&read(&stopped("end_turn"))), Some(FailureKind::Empty));
    assert_eq!(failure(&read(b"")), Some(FailureKind::Broken));
}

#[test]
fn exceptions_inside_the_stream_are_told_apart() {
    for (name, words, expected) in [
        ("throttlingException", "slow down", FailureKind::RateLimit),
        ("serviceUnavailableException", "later", FailureKind::Overloaded),
        ("validationException", "bad schema", FailureKind::Format),
        ("validationException", "Input is too long for requested model.", FailureKind::ContextOverflow),
        ("modelTimeoutException", "slow", FailureKind::Timeout),
        ("internalServerException", "oh", FailureKind::Broken),
    ] {
        let body =
            [delta(0, &json!({"text": "hi"})), exception(name, &json!({ "message": words }).to_string())];
        let events = read(&body.concat());
        assert_eq!(blocks(&events), [Block::text("hi")]);
        let Some(ModelEvent::Failed(failed)) = events.last() else { panic!("{name} is no failure") };
        assert_eq!((failed.kind, failed.message.as_str(), failed.status), (expected, words, None));
    }
    let silent = read(&exception("modelStreamErrorException", "{}"));
    let Some(ModelEvent::Failed(failed)) = silent.last() else { panic!("no failure") };
    assert_eq!(failed.message, "the provider reported modelStreamErrorException");
    assert_eq!(failure(&read(&event("contentBlockDelta", "{"))), Some(FailureKind::Broken));
}
