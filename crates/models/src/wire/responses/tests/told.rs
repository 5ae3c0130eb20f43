//! What whole answers are read as.

use serde_json::{Value, json};
use tidegate_protocol::{Block, StopReason, Usage};

use super::super::OpenaiResponses;
use crate::request::{Request, ToolSpec};
use crate::stream::{BlockKind, ModelEvent};
use crate::wire::responses::fixtures::{outcome, read, read_however_cut, sse};

pub(super) fn message(id: &str, text: &str) -> Value {
    json!({
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [] }],
    })
}

pub(super) fn function_call(status: &str, arguments: &str) -> Value {
    json!({
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "files_look",
        "arguments": arguments,
        "status": status,
    })
}

pub(super) fn added(place: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": place, "item": item })
}

pub(super) fn done(place: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": place, "item": item })
}

pub(super) fn delta(kind: &str, place: u64, delta: &str) -> Value {
    json!({ "type": format!("response.{kind}.delta"), "output_index": place, "delta": delta })
}

pub(super) fn completed() -> Value {
    json!({ "type": "response.completed", "response": {
        "status": "completed",
        "output": [],
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": { "cached_tokens": 60 },
            "output_tokens": 20,
            "output_tokens_details": { "reasoning_tokens": 15 },
            "total_tokens": 120,
        },
    } })
}

pub(super) fn usage() -> Usage {
    Usage { input: 40, output: 20, cache_read: 60, ..Usage::default() }
}

pub(super) fn request() -> Request {
    let tool = ToolSpec { name: "files.look".into(), description: "looks".into(), parameters: json!({}) };
    Request { tools: vec![tool], ..Request::default() }
}

pub(super) fn text(text: &str, id: &str) -> Block {
    Block::Text { text: text.into(), text_signature: Some(json!({ "v": 1, "id": id }).to_string()) }
}

pub(super) fn call(arguments: Value) -> Block {
    Block::ToolCall {
        id: "call_1|fc_1".into(),
        name: "files.look".into(),
        arguments,
        thought_signature: None,
    }
}

#[test]
fn thoughts_words_and_calls_are_read_in_their_order() {
    let thought = json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{ "type": "summary_text", "text": "Hm." }, { "type": "summary_text", "text": "Grüße!" }],
        "encrypted_content": "sealed",
    });
    let part = |place: u64, delta: &str| {
        json!({
            "type": "response.reasoning_summary_text.delta",
            "output_index": 0,
            "summary_index": place,
            "delta": delta,
        })
    };
    let said = message("msg_1", "looking");
    let called = function_call("completed", "{\"at\":\"here\"}");
    let events = [
        json!({ "type": "response.created", "response": { "status": "in_progress" } }),
        json!({ "type": "response.in_progress", "response": {} }),
        added(0, &json!({ "type": "reasoning", "id": "rs_1", "summary": [] })),
        part(0, "Hm."),
        part(1, "Grüße!"),
        done(0, &thought),
        added(1, &json!({ "type": "message", "id": "msg_1", "content": [], "status": "in_progress" })),
        json!({ "type": "response.content_part.added", "output_index": 1, "part": { "type": "output_text" } }),
        delta("output_text", 1, "look"),
        delta("output_text", 1, "ing"),
        json!({ "type": "response.output_text.done", "output_index": 1, "text": "looking" }),
        done(1, &said),
        added(2, &function_call("in_progress", "")),
        delta("function_call_arguments", 2, "{\"at\":"),
        delta("function_call_arguments", 2, "\"here\"}"),
        json!({
            "type": "response.function_call_arguments.done",
            "output_index": 2,
            "arguments": "{\"at\":\"here\"}",
        }),
        done(2, &called),
        completed(),
    ];
    let words = |index, text: &str| ModelEvent::TextDelta { index, text: text.into() };
    let thinks = |index, text: &str| ModelEvent::ThinkingDelta { index, text: text.into() };
    let writes = |index, json: &str| ModelEvent::ArgumentsDelta { index, json: json.into() };
    let begins = |index, kind| ModelEvent::BlockStart { index, kind };
    let ends = |index, block| ModelEvent::BlockEnd { index, block };
    let kind = BlockKind::ToolCall { id: "call_1|fc_1".into(), name: "files.look".into() };
    let thinking = Block::Thinking {
        thinking: "Hm.\n\nGrüße!".into(),
        thinking_signature: Some(thought.to_string()),
        redacted: false,
    };
    let expected = [
        begins(0, BlockKind::Thinking),
        thinks(0, "Hm."),
        thinks(0, "\n\n"),
        thinks(0, "Grüße!"),
        ends(0, thinking),
        begins(1, BlockKind::Text),
        words(1, "look"),
        words(1, "ing"),
        ends(1, text("looking", "msg_1")),
        begins(2, kind),
        writes(2, "{\"at\":"),
        writes(2, "\"here\"}"),
        ends(2, call(json!({ "at": "here" }))),
        ModelEvent::Usage(usage()),
        ModelEvent::Done(StopReason::ToolUse),
    ];
    assert_eq!(read_however_cut(&OpenaiResponses, &request(), &sse(&events)), expected);
}

#[test]
fn a_sealed_thought_without_words_is_kept_for_its_seal() {
    let item = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed" });
    let events = [added(0, &item), done(0, &item), done(1, &message("msg_1", "yes")), completed()];
    let (blocks, last) = outcome(&read(&OpenaiResponses, &request(), &sse(&events)));
    let thinking = Block::Thinking {
        thinking: String::new(),
        thinking_signature: Some(item.to_string()),
        redacted: false,
    };
    assert_eq!(blocks, [thinking, text("yes", "msg_1")]);
    assert_eq!(last, ModelEvent::Done(StopReason::Stop));
}

#[test]
fn open_thoughts_are_read_where_a_server_has_no_summaries() {
    let item = json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{ "type": "reasoning_text", "text": "I see." }],
    });
    let events = [
        added(0, &json!({ "type": "reasoning", "id": "rs_1" })),
        delta("reasoning_text", 0, "I "),
        delta("reasoning_text", 0, "see."),
        done(0, &item),
        done(1, &message("msg_1", "yes")),
        completed(),
    ];
    let (blocks, _) = outcome(&read(&OpenaiResponses, &request(), &sse(&events)));
    let thinking = Block::Thinking {
        thinking: "I see.".into(),
        thinking_signature: Some(item.to_string()),
        redacted: false,
    };
    assert_eq!(blocks[0], thinking);
}

#[test]
fn a_thought_that_comes_with_a_summary_is_shown_once() {
    let events = [
        delta("reasoning_summary_text", 0, "In short."),
        delta("reasoning_text", 0, "At length."),
        done(1, &message("msg_1", "yes")),
        completed(),
    ];
    let (blocks, _) = outcome(&read(&OpenaiResponses, &request(), &sse(&events)));
    let thinking =
        Block::Thinking { thinking: "In short.".into(), thinking_signature: None, redacted: false };
    assert_eq!(blocks, [text("yes", "msg_1"), thinking]);
}

#[test]
fn a_refusal_is_what_the_model_says() {
    let item = json!({
        "type": "message",
        "id": "msg_1",
        "content": [{ "type": "refusal", "refusal": "I will not." }],
    });
    let events = [added(0, &item), delta("refusal", 0, "I will not."), done(0, &item), completed()];
    let (blocks, last) = outcome(&read(&OpenaiResponses, &request(), &sse(&events)));
    assert_eq!(blocks, [text("I will not.", "msg_1")]);
    assert_eq!(last, ModelEvent::Done(StopReason::Stop));
}

#[test]
fn what_we_do_not_know_is_passed_over() {
    let events = [
        added(0, &json!({ "type": "web_search_call", "id": "ws_1" })),
        json!({ "type": "response.web_search_call.searching", "output_index": 0 }),
        done(0, &json!({ "type": "web_search_call", "id": "ws_1" })),
        json!({ "type": "response.of_tomorrow", "output_index": 1, "delta": 7 }),
        done(1, &message("msg_1", "yes")),
        completed(),
    ];
    let told = sse(&events) + "data: [DONE]\n\n";
    let (blocks, last) = outcome(&read(&OpenaiResponses, &request(), &told));
    assert_eq!(blocks, [text("yes", "msg_1")]);
    assert_eq!(last, ModelEvent::Done(StopReason::Stop));
}
