//! Whole requests and whole answers.

use tidegate_protocol::{StopReason, Usage};
use tidegate_secrets::Secret;

use super::*;
use crate::catalogue::Api;
use crate::request::Options;
use crate::stream::ModelEvent;
use crate::wire::Access;
use crate::wire::samples::{
    self, answer, ask, blocks, call, failure, header, look, picture, result, thought,
};

const BASE: &str = "http://127.0.0.1:11434";

fn model(id: &str) -> ModelInfo {
    samples::model(Api::Ollama, id, BASE)
}

#[test]
fn a_server_of_ones_own_is_asked_without_a_key_and_another_with_one() {
    let open = samples::prepare(&Ollama, &ask("hi"), &model("qwen3:8b"), &Access::Open);
    assert_eq!(open.url, "http://127.0.0.1:11434/api/chat");
    assert_eq!(header(&open.headers, "authorization"), None);
    assert_eq!(header(&open.headers, "x-extra"), Some("yes"));
    let keyed = samples::prepare(&Ollama, &ask("hi"), &model("qwen3:8b"), &Access::Key(Secret::new("key")));
    assert_eq!(header(&keyed.headers, "authorization"), Some("Bearer key"));
}

#[test]
fn a_whole_conversation_is_said_in_ollamas_words() {
    let model = model("qwen3:8b");
    let content = vec![thought("hm", None), Block::text("I look."), call("c1", json!({"at": "x"}), None)];
    let request = Request {
        system: vec!["Be kind.".to_owned()],
        messages: vec![
            Message::User { content: vec![Block::text("What is it?"), picture()], timestamp: 0 },
            answer(&model, content, StopReason::ToolUse),
            result("c1", vec![Block::text("a cat"), picture()], false),
        ],
        tools: vec![look()],
        options: Options { temperature: Some(0.5), max_tokens: Some(500), ..Options::default() },
        session_name: String::new(),
    };
    let expected = json!({
        "model": "qwen3:8b",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "What is it?", "images": ["AAAA"]},
            {
                "role": "assistant",
                "content": "I look.",
                "thinking": "hm",
                "tool_calls": [{"function": {"name": "look", "arguments": {"at": "x"}}}],
            },
            {"role": "tool", "tool_name": "look", "content": "a cat"},
            {"role": "user", "content": "Pictures of the result of look:", "images": ["AAAA"]},
        ],
        "stream": true,
        "options": {"num_predict": 500, "num_ctx": 100_000, "temperature": 0.5},
        "tools": [{"type": "function", "function": {
            "name": "look",
            "description": "Looks.",
            "parameters": look().parameters,
        }}],
        "think": false,
    });
    assert_eq!(samples::body(&Ollama, &request, &model), expected);
}

#[test]
fn thinking_is_on_or_off_or_a_level() {
    let think = |id: &str, thinking| {
        let options = Options { thinking, ..Options::default() };
        samples::body(&Ollama, &Request { options, ..ask("hi") }, &model(id)).get("think").cloned()
    };
    assert_eq!(think("qwen3:8b", ThinkingLevel::Low), Some(json!(true)));
    assert_eq!(think("gpt-oss:20b", ThinkingLevel::Off), Some(json!("low")));
    assert_eq!(think("gpt-oss:20b", ThinkingLevel::Medium), Some(json!("medium")));
    assert_eq!(think("gpt-oss:20b", ThinkingLevel::Xhigh), Some(json!("high")));
    let plain = ModelInfo { reasoning: false, ..model("llama3.2") };
    assert_eq!(samples::body(&Ollama, &ask("hi"), &plain).get("think"), None);
}

#[test]
fn tools_that_may_not_be_called_are_not_named() {
    let other = crate::request::ToolSpec { name: "other".to_owned(), ..look() };
    let named = |tool_choice, tools_known| {
        let options = Options { tool_choice, ..Options::default() };
        let request = Request { tools: vec![look(), other.clone()], options, ..ask("hi") };
        let body = samples::body(&Ollama, &request, &ModelInfo { tools: tools_known, ..model("m") });
        body.get("tools").map(|tools| tools.as_array().unwrap().len())
    };
    assert_eq!(named(ToolChoice::Auto, true), Some(2));
    assert_eq!(named(ToolChoice::Named("look".to_owned()), true), Some(1));
    assert_eq!(named(ToolChoice::None, true), None);
    assert_eq!(named(ToolChoice::Auto, false), None);
}

fn said(message: &Value) -> Value {
    json!({"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false})
}

fn done(reason: &str) -> Value {
    json!({
        "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "total_duration": 5, "prompt_eval_count": 12, "eval_count": 34,
    })
}

fn lines(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn read(values: &[Value]) -> Vec<ModelEvent> {
    samples::read(&Ollama, &model("qwen3:8b"), &lines(values))
}

#[test]
fn a_whole_answer_is_read_wherever_it_is_cut() {
    let calls = json!([
        {"function": {"name": "look", "arguments": {"at": "ü"}}},
        {"id": "own", "function": {"name": "look", "arguments": "{\"at\": 1}"}},
        {"function": {"name": "look"}},
    ]);
    let events = read(&[
        said(&json!({"role": "assistant", "content": "", "thinking": "h"})),
        said(&json!({"role": "assistant", "content": "", "thinking": "m"})),
        said(&json!({"role": "assistant", "content": "I \"look\" "})),
        said(&json!({"role": "assistant", "content": "– here."})),
        said(&json!({"role": "assistant", "content": "", "tool_calls": calls})),
        done("stop"),
    ]);
    let expected = vec![
        thought("hm", None),
        Block::text("I \"look\" – here."),
        call("look_1", json!({"at": "ü"}), None),
        call("own", json!({"at": 1}), None),
        call("look_3", json!({}), None),
    ];
    assert_eq!(blocks(&events), expected);
    let usage = Usage { input: 12, output: 34, ..Usage::default() };
    assert_eq!(events[events.len() - 2..], [ModelEvent::Usage(usage), ModelEvent::Done(StopReason::ToolUse)]);
}

#[test]
fn an_answer_that_was_too_long_says_so_and_repeats_change_nothing() {
    let text = said(&json!({"role": "assistant", "content": "hi"}));
    let once = read(&[text.clone(), done("length")]);
    assert_eq!(once.last(), Some(&ModelEvent::Done(StopReason::Length)));
    assert_eq!(read(&[text.clone(), done("length"), done("stop"), text]), once);
}

#[test]
fn an_error_line_is_a_failure_that_keeps_what_was_said() {
    let text = said(&json!({"role": "assistant", "content": "hi"}));
    let events = read(&[text, json!({"error": "model runner has unexpectedly stopped"})]);
    assert_eq!(blocks(&events), [Block::text("hi")]);
    let Some(ModelEvent::Failed(failed)) = events.last() else { panic!("no failure") };
    assert_eq!(failed.message, "model runner has unexpectedly stopped");
    let missing = read(&[json!({"error": "model not found, try pulling it first"})]);
    assert_eq!(failure(&missing), Some(FailureKind::NoSuchModel));
}

#[test]
fn broken_and_empty_answers_are_failures() {
    assert_eq!(failure(&read(&[])), Some(FailureKind::Broken));
    assert_eq!(failure(&read(&[done("stop")])), Some(FailureKind::Empty));
    assert_eq!(failure(&read(&[done("load")])), Some(FailureKind::Empty));
    assert_eq!(failure(&read(&[json!("nonsense")])), Some(FailureKind::Broken));
}

#[test]
fn a_call_cut_off_in_its_arguments_is_never_run() {
    let calls = json!([{"function": {"name": "look", "arguments": {"at": "xxxx"}}}]);
    let body = lines(&[
        said(&json!({"role": "assistant", "content": "hi"})),
        said(&json!({"role": "assistant", "content": "", "tool_calls": calls})),
    ]);
    let events = samples::read(&Ollama, &model("qwen3:8b"), &body[..body.len() - 40]);
    assert_eq!(blocks(&events), [Block::text("hi")]);
    assert_eq!(failure(&events), Some(FailureKind::Broken));
}
