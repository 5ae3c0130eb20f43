//! What is asked of ChatGPT's own service, and what it answers.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tidegate_protocol::{Block, Message, StopReason, ThinkingLevel};
use tidegate_secrets::Secret;

use super::CodexResponses;
use crate::catalogue::{Api, ModelInfo};
use crate::failure::{Failure, FailureKind};
use crate::request::{Options, Request, ToolSpec};
use crate::stream::ModelEvent;
use crate::wire::responses::fixtures::{self, body, outcome, prepared, read, sse};
use crate::wire::{Access, Target, Wire};

fn model(id: &str) -> ModelInfo {
    let model = fixtures::model("openai-codex", id);
    ModelInfo { api: Api::OpenaiCodexResponses, base_url: "https://codex.example/codex".into(), ..model }
}

fn request() -> Request {
    let tool = ToolSpec { name: "files.look".into(), description: "looks".into(), parameters: json!({}) };
    Request {
        system: vec!["Be kind.".into(), "It is Monday.".into()],
        messages: vec![Message::user("hi", 1)],
        tools: vec![tool],
        options: Options {
            max_tokens: Some(500),
            temperature: Some(0.5),
            thinking: ThinkingLevel::Minimal,
            ..Options::default()
        },
        session_name: "agent:main".into(),
    }
}

#[test]
fn a_question_is_asked_as_the_server_takes_it() {
    let expected = json!({
        "model": "gpt-5.3-codex",
        "store": false,
        "stream": true,
        "instructions": "Be kind.\n\nIt is Monday.",
        "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "hi" }] }],
        "text": { "verbosity": "medium" },
        "include": ["reasoning.encrypted_content"],
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "tools": [{
            "type": "function",
            "name": "files_look",
            "description": "looks",
            "parameters": {},
            "strict": null,
        }],
        "reasoning": { "effort": "low", "summary": "auto" },
        "prompt_cache_key": "agent:main",
    });
    assert_eq!(body(&CodexResponses, &request(), &model("gpt-5.3-codex")), expected);
}

#[test]
fn it_is_sent_in_the_name_of_the_account() {
    let prepared = prepared(&CodexResponses, &request(), &model("gpt-5.3-codex")).unwrap();
    assert_eq!(prepared.url, "https://codex.example/codex/responses");
    let headers: Vec<_> = prepared.headers.iter().map(|(name, value)| (name, value.expose())).collect();
    let expected = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("authorization", "Bearer a token"),
        ("chatgpt-account-id", "acc"),
        ("openai-beta", "responses=experimental"),
        ("originator", "tidegate"),
        ("session_id", "agent:main"),
    ];
    assert_eq!(headers, expected);
}

fn with_token(token: &str) -> Result<String, Failure> {
    let access = Access::Login { token: Secret::new(token), account_id: None };
    let model = model("gpt-5.3-codex");
    let target = Target { model: &model, access: &access, now_ms: 0 };
    let prepared = CodexResponses.prepare(&request(), &target)?;
    Ok(prepared.headers.get("chatgpt-account-id").unwrap().expose().to_owned())
}

#[test]
fn the_token_names_the_account_where_nobody_noted_it() {
    let claims = json!({ "https://api.openai.com/auth": { "chatgpt_account_id": "of-the-token" } });
    let token = format!("head.{}.sign", URL_SAFE_NO_PAD.encode(claims.to_string()));
    assert_eq!(with_token(&token).unwrap(), "of-the-token");
}

#[test]
fn a_login_without_an_account_asks_to_log_in_again() {
    let empty = format!("head.{}.sign", URL_SAFE_NO_PAD.encode("{}"));
    for token in ["", "plain", "a.b.c", &empty] {
        let failure = with_token(token).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(failure.message.contains("log in again"), "{}", failure.message);
    }
}

#[test]
fn there_are_always_instructions() {
    let body = body(&CodexResponses, &Request::default(), &model("gpt-5.3-codex"));
    assert_eq!(body["instructions"], super::NO_INSTRUCTIONS);
    assert_eq!(body.get("tools"), None);
}

#[test]
fn a_used_up_plan_says_when_it_can_be_used_again() {
    let refused =
        |error: Value| CodexResponses.refused(429, &json!({ "error": error }).to_string(), 1_000_000_500);
    let limit = |message: &str, seconds: Option<u64>| Failure {
        kind: FailureKind::RateLimit,
        message: message.into(),
        status: Some(429),
        retry_after: seconds.map(Duration::from_secs),
    };
    let cases = [
        (
            json!({ "type": "usage_limit_reached", "plan_type": "Plus", "resets_in_seconds": 2461 }),
            limit("the ChatGPT usage limit is reached (plus plan); it resets in about 42 min", Some(2461)),
        ),
        (
            json!({ "code": "usage_limit_reached", "resets_at": 1_000_060 }),
            limit("the ChatGPT usage limit is reached; it resets in about 1 min", Some(60)),
        ),
        (
            json!({ "type": "usage_limit_reached", "resets_at": 5 }),
            limit("the ChatGPT usage limit is reached; it resets in about 1 min", Some(0)),
        ),
        (json!({ "type": "usage_limit_reached" }), limit("the ChatGPT usage limit is reached", None)),
    ];
    for (error, expected) in cases {
        assert_eq!(refused(error.clone()), expected, "{error}");
    }
    assert_eq!(refused(json!({ "type": "usage_not_included" })).kind, FailureKind::Billing);
}

#[test]
fn other_refusals_are_told_as_everywhere() {
    let body = json!({ "detail": "Unauthorized" }).to_string();
    let failure = CodexResponses.refused(401, &body, 0);
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Auth, "Unauthorized"));
    assert_eq!(CodexResponses.refused(503, "<html>", 0).kind, FailureKind::Overloaded);
}

fn said(status: &str, kind: &str) -> (Vec<Block>, ModelEvent) {
    let item = json!({
        "type": "message",
        "id": "msg_1",
        "content": [{ "type": "output_text", "text": "yes" }],
    });
    let events = [
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": kind, "response": { "status": status } }),
    ];
    outcome(&read(&CodexResponses, &request(), &sse(&events)))
}

#[test]
fn an_answer_may_end_in_the_servers_own_words() {
    let signature = json!({ "v": 1, "id": "msg_1" }).to_string();
    let yes = vec![Block::Text { text: "yes".into(), text_signature: Some(signature) }];
    let ends = [
        ("completed", "response.done", StopReason::Stop),
        ("completed", "response.completed", StopReason::Stop),
        ("incomplete", "response.done", StopReason::Length),
        ("incomplete", "response.incomplete", StopReason::Length),
    ];
    for (status, kind, reason) in ends {
        assert_eq!(said(status, kind), (yes.clone(), ModelEvent::Done(reason)), "{status} {kind}");
    }
}

#[test]
fn a_limit_met_within_the_stream_is_told_the_same_way() {
    let error = json!({ "type": "usage_limit_reached", "resets_in_seconds": 120, "message": "no" });
    let ends = [
        json!({ "type": "error", "error": error }),
        json!({ "type": "response.failed", "response": { "status": "failed", "error": error } }),
    ];
    for end in ends {
        let (_, last) = outcome(&read(&CodexResponses, &request(), &sse(&[end])));
        let expected = Failure {
            kind: FailureKind::RateLimit,
            message: "the ChatGPT usage limit is reached; it resets in about 2 min".into(),
            status: None,
            retry_after: Some(Duration::from_mins(2)),
        };
        assert_eq!(last, ModelEvent::Failed(expected));
    }
}
