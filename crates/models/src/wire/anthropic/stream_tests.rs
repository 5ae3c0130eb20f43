//! What is read, and what is made of it when it is broken.

use serde_json::json;
use tidegate_protocol::{Block, StopReason};

use super::super::testing::{
    arguments, blocks, call, end, failure, model, read, read_split, start, start_call, text, thinking,
    thought, usage,
};
use super::*;
use crate::catalogue::Api;
use crate::failure::FailureKind;
use crate::stream::{BlockKind, ModelEvent};

/// A frame as Anthropic writes it.
fn frame(kind: &str, rest: &str) -> String {
    let comma = if rest.is_empty() { "" } else { "," };
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{comma}{rest}}}\n\n")
}

fn began() -> String {
    frame(
        "message_start",
        r#""message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":7,"cache_creation_input_tokens":5,"cache_read_input_tokens":3,"output_tokens":1}}"#,
    )
}

fn begin(index: usize, block: &str) -> String {
    frame("content_block_start", &format!(r#""index":{index},"content_block":{block}"#))
}

fn more(index: usize, delta: &str) -> String {
    frame("content_block_delta", &format!(r#""index":{index},"delta":{delta}"#))
}

fn stop(index: usize) -> String {
    frame("content_block_stop", &format!(r#""index":{index}"#))
}

fn ended(reason: &str) -> String {
    let delta = format!(r#""delta":{{"stop_reason":"{reason}","stop_sequence":null}}"#);
    let usage = r#""usage":{"input_tokens":null,"output_tokens":40}"#;
    frame("message_delta", &format!("{delta},{usage}")) + &frame("message_stop", "")
}

fn says(index: usize, words: &str) -> String {
    begin(index, r#"{"type":"text","text":""}"#)
        + &more(index, &json!({ "type": "text_delta", "text": words }).to_string())
}

const WEATHER: &str = r#"{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}"#;

fn events(body: &str) -> Vec<ModelEvent> {
    read(&AnthropicMessages, &model(Api::AnthropicMessages), body.as_bytes())
}

fn events_split(body: &str) -> Vec<ModelEvent> {
    read_split(&AnthropicMessages, &model(Api::AnthropicMessages), body)
}

#[test]
fn a_whole_answer_is_the_same_however_it_arrives() {
    let body = [
        began(),
        begin(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        frame("ping", ""),
        more(0, r#"{"type":"thinking_delta","thinking":"Zürich \u00fcber"}"#),
        more(0, r#"{"type":"signature_delta","signature":"pro"}"#),
        more(0, r#"{"type":"signature_delta","signature":"of"}"#),
        stop(0),
        begin(1, r#"{"type":"redacted_thinking","data":"sealed"}"#),
        stop(1),
        says(2, "Es regnet 🌧"),
        more(2, r#"{"type":"text_delta","text":"\ud83c\udf27 ja"}"#),
        stop(2),
        begin(3, WEATHER),
        more(3, r#"{"type":"input_json_delta","partial_json":""}"#),
        more(3, r#"{"type":"input_json_delta","partial_json":"{\"city\": \"Gen"}"#),
        more(3, r#"{"type":"input_json_delta","partial_json":"ève\"}"}"#),
        stop(3),
        ended("tool_use"),
    ]
    .concat();
    let hidden = Block::Thinking {
        thinking: String::new(),
        thinking_signature: Some("sealed".into()),
        redacted: true,
    };
    assert_eq!(
        events_split(&body),
        [
            start(0, BlockKind::Thinking),
            thinking(0, "Zürich über"),
            end(0, thought("Zürich über", Some("proof"))),
            start(1, BlockKind::Thinking),
            end(1, hidden),
            start(2, BlockKind::Text),
            text(2, "Es regnet 🌧"),
            text(2, "🌧 ja"),
            end(2, Block::text("Es regnet 🌧🌧 ja")),
            start_call(3, "toolu_1", "weather"),
            arguments(3, r#"{"city": "Gen"#),
            arguments(3, "ève\"}"),
            end(3, call("toolu_1", "weather", json!({ "city": "Genève" }))),
            usage(7, 40, 3, 5),
            ModelEvent::Done(StopReason::ToolUse),
        ]
    );
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let reason = |word| events(&[began(), says(0, "hi"), stop(0), ended(word)].concat()).pop().unwrap();
    for word in ["end_turn", "stop_sequence", "pause_turn", "something_new"] {
        assert_eq!(reason(word), ModelEvent::Done(StopReason::Stop), "{word}");
    }
    for word in ["max_tokens", "model_context_window_exceeded"] {
        assert_eq!(reason(word), ModelEvent::Done(StopReason::Length), "{word}");
    }
}

#[test]
fn a_refusal_keeps_what_was_said_and_is_one() {
    let events = events(&[began(), says(0, "I would"), ended("refusal")].concat());
    assert_eq!(failure(&events).kind, FailureKind::Refused);
    assert_eq!(blocks(&events), [Block::text("I would")]);
}

#[test]
fn a_call_cut_off_in_its_arguments_is_never_run() {
    let body = [
        began(),
        says(0, "I look."),
        stop(0),
        begin(1, WEATHER),
        more(1, r#"{"type":"input_json_delta","partial_json":"{\"city\": \"Be"}"#),
    ]
    .concat();
    let events = events_split(&body);
    assert_eq!(failure(&events).kind, FailureKind::Broken);
    assert_eq!(blocks(&events), [Block::text("I look.")]);
    assert!(events.contains(&usage(7, 1, 3, 5)));
}

#[test]
fn a_call_cut_off_by_the_limit_is_never_run_although_its_block_is_closed() {
    let half = more(0, r#"{"type":"input_json_delta","partial_json":"{\"city\": \"Be"}"#);
    for arguments in [String::new(), half] {
        let events = events(&[began(), begin(0, WEATHER), arguments, stop(0), ended("max_tokens")].concat());
        assert_eq!(blocks(&events), []);
        assert_eq!(events.last(), Some(&ModelEvent::Done(StopReason::Length)));
    }
}

#[test]
fn a_call_without_arguments_is_whole_when_the_model_went_on_or_ended() {
    let none = call("toolu_1", "weather", json!({}));
    let ends = events(&[began(), begin(0, WEATHER), stop(0), ended("tool_use")].concat());
    assert_eq!(blocks(&ends), std::slice::from_ref(&none));
    let goes_on =
        events(&[began(), begin(0, WEATHER), stop(0), says(1, "and"), stop(1), ended("max_tokens")].concat());
    assert_eq!(blocks(&goes_on), [none, Block::text("and")]);
}

#[test]
fn a_tool_gets_its_own_name_back() {
    let block = r#"{"type":"tool_use","id":"a","name":"files_read","input":{}}"#;
    let events = events(&[began(), begin(0, block), stop(0), ended("tool_use")].concat());
    assert_eq!(blocks(&events), [call("a", "files.read", json!({}))]);
}

#[test]
fn a_call_without_an_id_gets_one() {
    let block = r#"{"type":"tool_use","id":"","name":"weather","input":{}}"#;
    let events = events(&[began(), begin(2, block), stop(2), ended("tool_use")].concat());
    assert_eq!(blocks(&events), [call("call_2", "weather", json!({}))]);
}

#[test]
fn arguments_that_come_with_the_beginning_are_taken() {
    let block = r#"{"type":"tool_use","id":"a","name":"weather","input":{"city":"Bern"}}"#;
    let given = events(&[began(), begin(0, block), stop(0), ended("tool_use")].concat());
    assert_eq!(blocks(&given), [call("a", "weather", json!({ "city": "Bern" }))]);
    let streamed = more(0, r#"{"type":"input_json_delta","partial_json":"{\"city\":\"Genf\"}"}"#);
    let both = events(&[began(), begin(0, block), streamed, stop(0), ended("tool_use")].concat());
    assert_eq!(blocks(&both), [call("a", "weather", json!({ "city": "Genf" }))]);
}

#[test]
fn repeated_unknown_and_misplaced_events_are_left_out() {
    let body = [
        began(),
        began(),
        more(9, r#"{"type":"text_delta","text":"nowhere"}"#),
        stop(9),
        says(0, "hi"),
        begin(0, r#"{"type":"text","text":""}"#),
        more(0, r#"{"type":"citations_delta","citation":{"text":"x"}}"#),
        stop(0),
        stop(0),
        begin(0, r#"{"type":"text","text":"again"}"#),
        begin(1, r#"{"type":"server_tool_use","id":"s","name":"search","input":{}}"#),
        more(1, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
        stop(1),
        frame("brand_new", r#""index":"not a number","message":7"#),
        ended("end_turn"),
        frame("message_stop", ""),
        says(2, "too late"),
    ]
    .concat();
    assert_eq!(
        events(&body),
        [
            start(0, BlockKind::Text),
            text(0, "hi"),
            end(0, Block::text("hi")),
            usage(7, 40, 3, 5),
            ModelEvent::Done(StopReason::Stop),
        ]
    );
}

#[test]
fn an_error_inside_the_stream_is_classified_and_keeps_the_text() {
    let error = frame("error", r#""error":{"type":"overloaded_error","message":"Overloaded"}"#);
    for error in [error.clone(), error.replace("event: error\n", "")] {
        let events = events(&[began(), says(0, "half"), error].concat());
        let failure = failure(&events);
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Overloaded, "Overloaded"));
        assert_eq!(blocks(&events), [Block::text("half")]);
    }
}

#[test]
fn what_follows_a_whole_answer_does_not_make_it_less_whole() {
    let error = frame("error", r#""error":{"type":"api_error","message":"oops"}"#);
    let events = events(&[began(), says(0, "hi"), stop(0), ended("end_turn"), error].concat());
    assert_eq!(events.last(), Some(&ModelEvent::Done(StopReason::Stop)));
}

#[test]
fn an_answer_is_whole_from_its_reason_on() {
    let whole = [began(), says(0, "hi"), stop(0), ended("end_turn")].concat();
    let without_stop = whole.replace(&frame("message_stop", ""), "");
    assert_eq!(events(&without_stop), events(&whole));
    let without_reason = [began(), says(0, "hi"), frame("message_stop", "")].concat();
    assert_eq!(events(&without_reason).last(), Some(&ModelEvent::Done(StopReason::Stop)));
}

#[test]
fn an_empty_answer_and_a_page_are_failures() {
    assert_eq!(failure(&events(&[began(), ended("end_turn")].concat())).kind, FailureKind::Empty);
    assert_eq!(failure(&events("")).kind, FailureKind::Broken);
    assert_eq!(failure(&events("<html>\n<body>502</body>\n</html>\n")).kind, FailureKind::Broken);
    assert_eq!(failure(&events("data: <html>\n\n")).kind, FailureKind::Broken);
    assert_eq!(
        failure(&events("data: {\"type\":\"content_block_delta\",\"index\":\n\n")).kind,
        FailureKind::Broken
    );
}
