//! What broken, repeated and reordered answers are read as.

use serde_json::{Value, json};
use tidegate_protocol::{Block, StopReason};

use super::super::OpenaiResponses;
use super::told::{added, call, completed, delta, done, function_call, message, request, text, usage};
use crate::failure::FailureKind;
use crate::stream::ModelEvent;
use crate::wire::responses::fixtures::{outcome, read, read_however_cut, sse};

fn told(events: &[Value]) -> (Vec<Block>, ModelEvent) {
    outcome(&read(&OpenaiResponses, &request(), &sse(events)))
}

fn failed(last: &ModelEvent) -> (FailureKind, &str) {
    match last {
        ModelEvent::Failed(failure) => (failure.kind, &failure.message),
        other => panic!("{other:?}"),
    }
}

fn incomplete(reason: &str, output: &[Value]) -> Value {
    json!({ "type": "response.incomplete", "response": {
        "status": "incomplete",
        "incomplete_details": { "reason": reason },
        "output": output,
        "usage": completed()["response"]["usage"],
    } })
}

#[test]
fn a_call_cut_off_in_its_arguments_is_never_run() {
    let begun = [
        done(0, &message("msg_1", "looking")),
        added(1, &function_call("in_progress", "")),
        delta("function_call_arguments", 1, "{\"at\":"),
    ];
    let cut = function_call("incomplete", "{\"at\":");
    let ends: [&[Value]; 5] = [
        &[],
        &[incomplete("max_output_tokens", &[])],
        &[incomplete("max_output_tokens", &[message("msg_1", "looking"), cut.clone()])],
        &[done(1, &cut), incomplete("max_output_tokens", &[])],
        &[completed()],
    ];
    for end in ends {
        let (blocks, _) = told(&[&begun[..], end].concat());
        assert_eq!(blocks, [text("looking", "msg_1")], "{end:?}");
    }
}

#[test]
fn a_call_cut_off_before_its_arguments_is_never_run() {
    let begun = added(0, &function_call("in_progress", ""));
    for end in [incomplete("max_output_tokens", &[]), completed()] {
        assert_eq!(told(&[begun.clone(), end]).0, []);
    }
}

#[test]
fn a_call_whose_arguments_are_whole_survives_a_lost_end() {
    let events = [
        added(0, &function_call("in_progress", "")),
        delta("function_call_arguments", 0, "{\"at\":1}"),
        completed(),
    ];
    let expected = (vec![call(json!({ "at": 1 }))], ModelEvent::Done(StopReason::ToolUse));
    assert_eq!(told(&events), expected);
}

#[test]
fn a_call_that_is_said_to_have_no_arguments_has_none() {
    let settled = json!({
        "type": "response.function_call_arguments.done",
        "output_index": 0,
        "arguments": "",
    });
    let events = [added(0, &function_call("in_progress", "")), settled, completed()];
    assert_eq!(told(&events).0, [call(json!({}))]);
}

#[test]
fn a_call_in_an_unfinished_answer_runs_only_if_it_is_said_to_be_complete() {
    let mut silent = function_call("", "{}");
    silent.as_object_mut().unwrap().remove("status");
    assert_eq!(told(&[incomplete("max_output_tokens", &[message("msg_1", "so"), silent])]).0.len(), 1);
    let complete = function_call("completed", "{}");
    assert_eq!(told(&[incomplete("max_output_tokens", &[complete])]).0, [call(json!({}))]);
}

#[test]
fn an_answer_that_was_too_long_keeps_what_was_said() {
    let events = [
        added(0, &json!({ "type": "message", "id": "msg_1" })),
        delta("output_text", 0, "and then"),
        incomplete("max_output_tokens", &[]),
    ];
    let events = read_however_cut(&OpenaiResponses, &request(), &sse(&events));
    let tail = [
        ModelEvent::BlockEnd { index: 0, block: Block::text("and then") },
        ModelEvent::Usage(usage()),
        ModelEvent::Done(StopReason::Length),
    ];
    assert_eq!(events[events.len() - 3..], tail);
}

#[test]
fn an_answer_the_filter_stopped_is_refused() {
    let events =
        [added(0, &message("msg_1", "")), delta("output_text", 0, "well"), incomplete("content_filter", &[])];
    let (blocks, last) = told(&events);
    assert_eq!(failed(&last).0, FailureKind::Refused);
    assert_eq!(blocks, [Block::text("well")]);
}

#[test]
fn a_body_that_breaks_off_is_a_failure_that_keeps_the_words() {
    let events = [added(0, &message("msg_1", "")), delta("output_text", 0, "half an")];
    let (blocks, last) = told(&events);
    assert_eq!(blocks, [Block::text("half an")]);
    assert_eq!(failed(&last).0, FailureKind::Broken);
}

#[test]
fn an_answer_without_anything_in_it_is_empty() {
    let (blocks, last) = told(&[json!({ "type": "response.created" }), completed()]);
    assert_eq!(blocks, []);
    assert_eq!(failed(&last).0, FailureKind::Empty);
}

#[test]
fn a_failure_is_told_in_the_providers_words_and_class() {
    let failed_with = |code: &str, message: &str| {
        let error = json!({ "code": code, "message": message });
        json!({ "type": "response.failed", "response": { "status": "failed", "error": error } })
    };
    let cases = [
        (failed_with("server_error", "It broke."), FailureKind::Broken, "It broke."),
        (failed_with("rate_limit_exceeded", "Slow down."), FailureKind::RateLimit, "Slow down."),
        (failed_with("insufficient_quota", "Pay."), FailureKind::Billing, "Pay."),
        (failed_with("context_length_exceeded", "Long."), FailureKind::ContextOverflow, "Long."),
        (
            json!({ "type": "error", "code": "server_error", "message": "Oops.", "sequence_number": 429 }),
            FailureKind::Broken,
            "Oops.",
        ),
        (
            json!({ "type": "error", "error": { "type": "overloaded", "message": "Busy." } }),
            FailureKind::Overloaded,
            "Busy.",
        ),
        (json!({ "error": { "message": "invalid api key" } }), FailureKind::Auth, "invalid api key"),
        (
            json!({ "type": "response.cancelled", "response": { "status": "cancelled", "error": null } }),
            FailureKind::Broken,
            "the provider ended the answer: cancelled",
        ),
    ];
    for (event, kind, words) in cases {
        let (_, last) = told(std::slice::from_ref(&event));
        assert_eq!(failed(&last), (kind, words), "{event}");
    }
}

#[test]
fn an_event_that_is_no_json_breaks_the_answer() {
    let (_, last) = outcome(&read(&OpenaiResponses, &request(), "data: {\"type\":\n\n"));
    assert_eq!(failed(&last).0, FailureKind::Broken);
}

#[test]
fn an_error_after_a_whole_answer_does_not_unmake_it() {
    let events =
        [done(0, &message("msg_1", "yes")), completed(), json!({ "type": "error", "message": "too late" })];
    assert_eq!(told(&events), (vec![text("yes", "msg_1")], ModelEvent::Done(StopReason::Stop)));
}

#[test]
fn what_is_told_twice_is_heard_once() {
    let said = message("msg_1", "hoho");
    let number = |number: u64, event: &Value| {
        let mut event = event.clone();
        event["sequence_number"] = json!(number);
        event
    };
    let events = [
        number(1, &added(0, &message("msg_1", ""))),
        number(1, &added(0, &message("msg_1", ""))),
        number(2, &delta("output_text", 0, "ho")),
        number(2, &delta("output_text", 0, "ho")),
        number(3, &delta("output_text", 0, "ho")),
        number(4, &done(0, &said)),
        number(5, &done(0, &said)),
        number(6, &added(0, &message("msg_1", ""))),
        number(7, &delta("output_text", 0, "ho")),
        completed(),
        completed(),
    ];
    let read = read(&OpenaiResponses, &request(), &sse(&events));
    let deltas = read.iter().filter(|event| matches!(event, ModelEvent::TextDelta { .. })).count();
    assert_eq!(deltas, 2);
    assert_eq!(outcome(&read), (vec![text("hoho", "msg_1")], ModelEvent::Done(StopReason::Stop)));
}

#[test]
fn events_that_all_have_one_number_are_all_heard() {
    let mut word = delta("output_text", 0, "ho");
    word["sequence_number"] = json!(0);
    let events = [word.clone(), word, completed()];
    assert_eq!(told(&events).0, [Block::text("hoho")]);
}

#[test]
fn what_an_item_says_at_its_end_counts() {
    let events = [
        added(0, &function_call("in_progress", "")),
        delta("function_call_arguments", 0, "{\"at\":1}"),
        delta("function_call_arguments", 0, "{\"at\":1}"),
        done(0, &function_call("completed", "{\"at\":1}")),
        added(1, &message("msg_1", "")),
        delta("output_text", 1, "lo"),
        done(1, &message("msg_1", "lost words")),
        completed(),
    ];
    assert_eq!(told(&events).0, [call(json!({ "at": 1 })), text("lost words", "msg_1")]);
}

#[test]
fn pieces_that_come_before_their_item_find_it() {
    let events = [
        delta("function_call_arguments", 1, "{\"at\""),
        delta("output_text", 0, "look"),
        delta("function_call_arguments", 1, ":1}"),
        added(1, &function_call("in_progress", "")),
        added(0, &message("msg_1", "")),
        delta("output_text", 0, "ing"),
        done(1, &function_call("completed", "{\"at\":1}")),
        done(0, &message("msg_1", "looking")),
        completed(),
    ];
    assert_eq!(told(&events).0, [call(json!({ "at": 1 })), text("looking", "msg_1")]);
}

#[test]
fn arguments_that_come_before_their_call_are_kept_even_if_its_end_is_lost() {
    let events = [
        delta("function_call_arguments", 0, "{\"at\":1}"),
        added(0, &function_call("in_progress", "")),
        completed(),
    ];
    assert_eq!(told(&events).0, [call(json!({ "at": 1 }))]);
}

#[test]
fn items_are_told_apart_by_their_ids_where_they_have_no_place() {
    let word = |id: &str, delta: &str| json!({ "type": "response.output_text.delta", "item_id": id, "delta": delta });
    let ended =
        |id: &str, text: &str| json!({ "type": "response.output_item.done", "item": message(id, text) });
    let events = [
        word("msg_1", "o"),
        word("msg_2", "t"),
        word("msg_1", "ne"),
        word("msg_2", "wo"),
        ended("msg_1", "one"),
        ended("msg_2", "two"),
        completed(),
    ];
    assert_eq!(told(&events).0, [text("one", "msg_1"), text("two", "msg_2")]);
}

#[test]
fn an_item_that_changes_its_id_is_still_one_item() {
    let events = [
        added(0, &message("msg_a", "")),
        json!({ "type": "response.output_text.delta", "output_index": 0, "item_id": "msg_b", "delta": "yes" }),
        done(0, &message("msg_c", "yes")),
        json!({ "type": "response.completed", "response": { "output": [message("msg_d", "yes")] } }),
    ];
    assert_eq!(told(&events).0, [text("yes", "msg_c")]);
}

#[test]
fn an_answer_told_only_at_its_end_is_heard() {
    let output = [message("msg_1", "looking"), function_call("completed", "{\"at\":1}")];
    let events = [
        added(0, &message("msg_1", "")),
        json!({ "type": "response.completed", "response": { "status": "completed", "output": output } }),
    ];
    let expected =
        (vec![text("looking", "msg_1"), call(json!({ "at": 1 }))], ModelEvent::Done(StopReason::ToolUse));
    assert_eq!(told(&events), expected);
}
