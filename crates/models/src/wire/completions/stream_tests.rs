//! What is read, and what is made of it when it is broken.

use serde_json::{Value, json};
use tidegate_protocol::{Block, StopReason};

use super::super::testing::{
    arguments, blocks, call, end, failure, model, read, read_split, start, start_call, text, thinking,
    thought, usage,
};
use super::*;
use crate::catalogue::Api;
use crate::failure::FailureKind;
use crate::stream::{BlockKind, ModelEvent};

const DONE: &str = "data: [DONE]\n\n";

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn delta(delta: &Value) -> String {
    data(
        &json!({ "id": "x", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }], "usage": null }),
    )
}

fn says(words: &str) -> String {
    delta(&json!({ "content": words }))
}

fn calls(calls: &Value) -> String {
    delta(&json!({ "tool_calls": calls }))
}

fn finish(reason: &str) -> String {
    data(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }))
}

fn counted(usage: &Value) -> String {
    data(&json!({ "choices": [], "usage": usage }))
}

fn events(pieces: &[String]) -> Vec<ModelEvent> {
    read(&OpenaiCompletions, &model(Api::OpenaiCompletions), pieces.concat().as_bytes())
}

fn events_split(pieces: &[String]) -> Vec<ModelEvent> {
    read_split(&OpenaiCompletions, &model(Api::OpenaiCompletions), &pieces.concat())
}

/// The blocks of an answer that is nothing but these calls.
fn called(pieces: &[Value]) -> Vec<Block> {
    let mut pieces: Vec<_> = pieces.iter().map(calls).collect();
    pieces.push(finish("tool_calls"));
    blocks(&events(&pieces))
}

fn weather(id: &str, city: &str) -> Block {
    call(id, "weather", json!({ "city": city }))
}

#[test]
fn a_whole_answer_is_the_same_however_it_arrives() {
    let events = events_split(&[
        delta(&json!({ "role": "assistant", "content": "", "refusal": null })),
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        delta(&json!({ "reasoning_content": "Zürich", "content": null })),
        delta(&json!({ "reasoning_content": "…" })),
        says("Es regnet 🌧"),
        says(" \"heute\"\n"),
        calls(
            &json!([{ "index": 0, "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "" } }]),
        ),
        calls(&json!([{ "index": 0, "function": { "arguments": "{\"city\": \"Gen" } }])),
        calls(&json!([{ "index": 0, "function": { "arguments": "ève\"}" } }])),
        finish("tool_calls"),
        counted(&json!({
            "prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29,
            "prompt_tokens_details": { "cached_tokens": 15 },
            "completion_tokens_details": { "reasoning_tokens": 4 },
        })),
        DONE.to_owned(),
    ]);
    assert_eq!(
        events,
        [
            start(0, BlockKind::Thinking),
            thinking(0, "Zürich"),
            thinking(0, "…"),
            end(0, thought("Zürich…", Some("reasoning_content"))),
            start(1, BlockKind::Text),
            text(1, "Es regnet 🌧"),
            text(1, " \"heute\"\n"),
            end(1, Block::text("Es regnet 🌧 \"heute\"\n")),
            start_call(2, "c1", "weather"),
            arguments(2, "{\"city\": \"Gen"),
            arguments(2, "ève\"}"),
            end(2, weather("c1", "Genève")),
            usage(5, 9, 15, 0),
            ModelEvent::Done(StopReason::ToolUse),
        ]
    );
}

#[test]
fn a_block_ends_where_the_kind_changes() {
    let events = events(&[says("a"), delta(&json!({ "reasoning": "b" })), says("c"), finish("stop")]);
    let expected = [Block::text("a"), thought("b", Some("reasoning")), Block::text("c")];
    assert_eq!(blocks(&events), expected);
}

#[test]
fn a_thought_in_two_fields_is_one_thought() {
    let events = events(&[
        delta(&json!({ "reasoning": "hm", "reasoning_content": "hm", "reasoning_text": "" })),
        delta(&json!({ "reasoning_text": "so" })),
        says("ok"),
        finish("stop"),
    ]);
    let thoughts = [thought("hm", Some("reasoning_content")), thought("so", Some("reasoning_text"))];
    assert_eq!(blocks(&events)[..2], thoughts);
}

#[test]
fn parts_with_thoughts_are_read() {
    let parts = json!([
        { "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] },
        { "type": "text", "text": "ja" },
    ]);
    let events = events(&[delta(&json!({ "content": parts })), says("!"), finish("stop")]);
    assert_eq!(blocks(&events), [thought("hm", None), Block::text("ja!")]);
}

#[test]
fn words_of_refusal_are_words() {
    let events = events(&[delta(&json!({ "refusal": "I won't." })), finish("stop"), DONE.to_owned()]);
    assert_eq!(blocks(&events), [Block::text("I won't.")]);
    assert_eq!(events.last(), Some(&ModelEvent::Done(StopReason::Stop)));
}

#[test]
fn calls_made_together_are_told_apart_by_their_index() {
    let pieces = [
        json!([
            { "index": 0, "id": "a", "function": { "name": "weather", "arguments": "{\"city\":" } },
            { "index": 1, "id": "b", "function": { "name": "weather", "arguments": "" } },
        ]),
        json!([{ "index": 1, "function": { "arguments": "{\"city\":\"Genf\"}" } }]),
        json!([{ "index": 0, "function": { "arguments": "\"Bern\"}" } }]),
    ];
    assert_eq!(called(&pieces), [weather("a", "Bern"), weather("b", "Genf")]);
}

#[test]
fn an_id_and_a_name_may_come_late_and_again() {
    let pieces = [
        json!([{ "index": 0, "function": { "arguments": "{\"city\"" } }]),
        json!([{ "index": 0, "id": "a", "function": { "arguments": ":" } }]),
        json!([{ "index": 0, "id": "a", "function": { "name": "weather", "arguments": "\"Be" } }]),
        json!([{ "index": 0, "id": "a", "function": { "name": "weather", "arguments": "rn\"}" } }]),
    ];
    assert_eq!(called(&pieces), [weather("a", "Bern")]);
}

#[test]
fn a_new_id_with_a_name_on_the_same_index_is_a_new_call() {
    let piece = |id: &str, city: &str| {
        let arguments = json!({ "city": city }).to_string();
        json!([{ "index": 0, "id": id, "function": { "name": "weather", "arguments": arguments } }])
    };
    let expected = [weather("a", "Bern"), weather("b", "Genf")];
    assert_eq!(called(&[piece("a", "Bern"), piece("b", "Genf")]), expected);
    // An id that is made up for each piece is none.
    let more = json!([{ "index": 0, "id": "zzz", "function": { "arguments": "\"Bern\"}" } }]);
    let first =
        json!([{ "index": 0, "id": "a", "function": { "name": "weather", "arguments": "{\"city\":" } }]);
    assert_eq!(called(&[first, more]), [weather("a", "Bern")]);
}

#[test]
fn whole_calls_without_index_or_id_are_calls() {
    let whole = |city: &str| json!({ "type": "function", "function": { "name": "weather", "arguments": json!({ "city": city }).to_string() } });
    let expected = [weather("call_0", "Bern"), weather("call_1", "Genf")];
    assert_eq!(called(&[json!([whole("Bern"), whole("Genf")])]), expected);
    let with = |mut call: Value, key: &str, value: Value| {
        call[key] = value;
        call
    };
    let numbered = |city| with(with(whole(city), "index", json!(0)), "id", json!(""));
    assert_eq!(called(&[json!([numbered("Bern")]), json!([numbered("Genf")])]), expected);
    let named = [json!([with(whole("Bern"), "id", json!("call_1"))]), json!([whole("Genf")])];
    assert_eq!(called(&named), [weather("call_1", "Bern"), weather("call_2", "Genf")]);
}

#[test]
fn a_tool_gets_its_own_name_back() {
    let piece = json!([{ "index": 0, "id": "a", "function": { "name": "files_read", "arguments": "{}" } }]);
    assert_eq!(called(&[piece]), [call("a", "files.read", json!({}))]);
}

#[test]
fn a_call_without_index_goes_on_with_its_id_or_with_nothing() {
    let pieces = [
        json!([{ "id": "a", "function": { "name": "weather", "arguments": "{\"city\":" } }]),
        json!([{ "id": "a", "function": { "arguments": "\"Be" } }]),
        json!([{ "function": { "arguments": "rn\"}" } }]),
    ];
    assert_eq!(called(&pieces), [weather("a", "Bern")]);
}

#[test]
fn arguments_that_are_no_text_are_taken_as_they_are() {
    let piece = json!([{ "index": 0, "id": "a", "function": { "name": "weather", "arguments": { "city": "Bern" } } }]);
    assert_eq!(called(&[piece]), [weather("a", "Bern")]);
}

#[test]
fn an_encrypted_thought_stays_with_its_call() {
    let detail = json!({ "type": "reasoning.encrypted", "id": "a", "data": "sealed", "index": 0 });
    let other = json!({ "type": "reasoning.text", "text": "hm" });
    let events = events(&[
        delta(&json!({ "reasoning_details": [detail, other] })),
        calls(&json!([{ "index": 0, "id": "a", "function": { "name": "weather", "arguments": "{}" } }])),
        finish("tool_calls"),
    ]);
    let signed = Block::ToolCall {
        id: "a".to_owned(),
        name: "weather".to_owned(),
        arguments: json!({}),
        thought_signature: Some(detail.to_string()),
    };
    assert_eq!(blocks(&events), [signed]);
}

#[test]
fn an_answer_in_one_piece_is_an_answer() {
    let message = json!({ "role": "assistant", "content": "hi", "tool_calls": null });
    let body = data(&json!({ "choices": [{ "message": message, "finish_reason": "stop" }] }));
    assert_eq!(blocks(&events(&[body])), [Block::text("hi")]);
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let reason = |word| events(&[says("hi"), finish(word)]).pop().unwrap();
    for word in ["stop", "end", "eos", "something_new"] {
        assert_eq!(reason(word), ModelEvent::Done(StopReason::Stop), "{word}");
    }
    assert_eq!(reason("length"), ModelEvent::Done(StopReason::Length));
    for (word, kind) in [
        ("content_filter", FailureKind::Refused),
        ("insufficient_system_resource", FailureKind::Overloaded),
        ("error", FailureKind::Broken),
    ] {
        let events = events(&[says("half"), finish(word), DONE.to_owned()]);
        assert_eq!(failure(&events).kind, kind, "{word}");
        assert_eq!(blocks(&events), [Block::text("half")]);
    }
}

#[test]
fn a_call_is_a_reason_even_if_the_server_says_stop() {
    let piece =
        calls(&json!([{ "index": 0, "id": "a", "function": { "name": "weather", "arguments": "{}" } }]));
    assert_eq!(events(&[piece, finish("stop")]).pop(), Some(ModelEvent::Done(StopReason::ToolUse)));
}

#[test]
fn an_answer_is_whole_with_either_of_its_two_ends() {
    assert_eq!(events(&[says("hi"), finish("stop")]).last(), Some(&ModelEvent::Done(StopReason::Stop)));
    assert_eq!(events(&[says("hi"), DONE.to_owned()]).last(), Some(&ModelEvent::Done(StopReason::Stop)));
    assert_eq!(failure(&events(&[says("hi")])).kind, FailureKind::Broken);
}

#[test]
fn a_call_cut_off_in_its_arguments_is_never_run() {
    let half = calls(
        &json!([{ "index": 0, "id": "a", "function": { "name": "weather", "arguments": "{\"city\": \"Be" } }]),
    );
    let broken = events_split(&[says("I look."), half.clone()]);
    assert_eq!(failure(&broken).kind, FailureKind::Broken);
    assert_eq!(blocks(&broken), [Block::text("I look.")]);
    let limited = events(&[says("I look."), half, finish("length")]);
    assert_eq!(limited.last(), Some(&ModelEvent::Done(StopReason::Length)));
    assert_eq!(blocks(&limited), [Block::text("I look.")]);
}

#[test]
fn what_comes_after_the_end_is_left_out_except_the_count() {
    let events = events(&[
        says("hi"),
        finish("stop"),
        says("late"),
        finish("length"),
        counted(&json!({ "prompt_tokens": 3, "completion_tokens": 2 })),
        DONE.to_owned(),
        DONE.to_owned(),
    ]);
    assert_eq!(blocks(&events), [Block::text("hi")]);
    assert_eq!(events[3..], [usage(3, 2, 0, 0), ModelEvent::Done(StopReason::Stop)]);
}

#[test]
fn tokens_are_counted_once_wherever_a_server_tells_them() {
    let read = |tokens: Value| events(&[says("hi"), finish("stop"), counted(&tokens)]).remove(3);
    assert_eq!(
        read(json!({ "prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 4 })),
        usage(1, 1, 4, 0)
    );
    let details = json!({ "cached_tokens": 4, "cache_write_tokens": 3 });
    let written = json!({ "prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details });
    assert_eq!(read(written), usage(2, 1, 4, 3));
    let too_many = json!({ "prompt_tokens": 5, "completion_tokens": null, "cached_tokens": 8 });
    assert_eq!(read(too_many), usage(0, 0, 8, 0));
    let thoughts = json!({ "reasoning_tokens": 6 });
    let inside = json!({ "prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13, "completion_tokens_details": thoughts });
    assert_eq!(read(inside), usage(5, 8, 0, 0));
    let beside = json!({ "prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 19, "completion_tokens_details": thoughts });
    assert_eq!(read(beside), usage(5, 14, 0, 0));
    let in_choice = json!({ "choices": [{ "delta": {}, "finish_reason": "stop", "usage": { "prompt_tokens": 2, "completion_tokens": 1 } }] });
    assert_eq!(events(&[says("hi"), data(&in_choice)])[3], usage(2, 1, 0, 0));
}

#[test]
fn an_error_inside_the_stream_is_classified_and_keeps_the_text() {
    let words = "Rate limit reached";
    let error = json!({ "error": { "message": words, "code": "rate_limit_exceeded" }, "choices": [] });
    let flat = json!({ "object": "error", "message": words });
    let named = format!("event: error\n{}", data(&json!({ "message": words })));
    let unreadable = format!("event: error\ndata: {words}\n\n");
    for error in [data(&error), data(&flat), named, unreadable] {
        let events = events(&[says("half"), error]);
        let failure = failure(&events);
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::RateLimit, words));
        assert_eq!(blocks(&events), [Block::text("half")]);
    }
}

#[test]
fn an_empty_answer_and_a_page_are_failures() {
    assert_eq!(failure(&events(&[says(""), finish("stop"), DONE.to_owned()])).kind, FailureKind::Empty);
    for body in ["", "<html>\n<body>502</body>\n</html>\n", "data: <html>\n\n", "data: {\"choices\":[{\n\n"] {
        assert_eq!(failure(&events(&[body.to_owned()])).kind, FailureKind::Broken, "{body}");
    }
}
