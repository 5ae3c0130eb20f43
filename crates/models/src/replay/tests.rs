//! Conversations of every kind, replayed for every kind of model.

use proptest::prelude::*;
use serde_json::json;
use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};

use super::pairs::NO_RESULT;
use super::{Ids, NO_IMAGE, replay};
use crate::catalogue::{Api, Compat, ModelInfo};

const EVERY_RULE: [Ids; 6] = [Ids::Keep, Ids::Safe64, Ids::Before40, Ids::Pair, Ids::Plain40, Ids::Nine];

fn model() -> ModelInfo {
    ModelInfo {
        provider: "openai".into(),
        id: "gpt-5.2".into(),
        name: "GPT".into(),
        api: Api::OpenaiResponses,
        base_url: "https://models.example/v1".into(),
        context_window: 100_000,
        max_tokens: 10_000,
        reasoning: true,
        images: true,
        tools: true,
        price: None,
        headers: Vec::new(),
        compat: Compat::default(),
    }
}

fn origin(provider: &str, api: &str, model: &str) -> Origin {
    Origin {
        api: api.into(),
        provider: provider.into(),
        model: model.into(),
        profile_id: None,
        route: provider.into(),
        stage: format!("adapter.{api}.default"),
    }
}

fn own() -> Origin {
    origin("openai", "openai-responses", "gpt-5.2")
}

fn other() -> Origin {
    origin("anthropic", "anthropic-messages", "claude")
}

fn said(origin: Origin, content: Vec<Block>) -> Message {
    ended(origin, content, StopReason::Stop)
}

fn ended(origin: Origin, content: Vec<Block>, stop_reason: StopReason) -> Message {
    Message::Assistant {
        content,
        origin,
        usage: Usage::default(),
        stop_reason,
        error_message: None,
        timestamp: 7,
    }
}

fn call(id: &str) -> Block {
    Block::ToolCall {
        id: id.into(),
        name: "look".into(),
        arguments: json!({"at": id}),
        thought_signature: None,
    }
}

fn result(id: &str, text: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: "look".into(),
        content: vec![Block::text(text)],
        is_error: false,
        details: None,
        timestamp: 8,
    }
}

fn missing(id: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: "look".into(),
        content: vec![Block::text(NO_RESULT)],
        is_error: true,
        details: None,
        timestamp: 7,
    }
}

fn thought(text: &str, signature: Option<&str>, redacted: bool) -> Block {
    Block::Thinking { thinking: text.into(), thinking_signature: signature.map(Into::into), redacted }
}

fn signed(text: &str) -> Block {
    Block::Text { text: text.into(), text_signature: Some("proof".into()) }
}

#[test]
fn results_are_moved_behind_their_calls_and_strays_are_dropped() {
    let messages = [
        Message::user("hi", 1),
        said(own(), vec![call("a"), call("b")]),
        result("b", "B"),
        Message::user("and?", 2),
        result("a", "A"),
        result("x", "X"),
    ];
    let expected = [
        Message::user("hi", 1),
        said(own(), vec![call("a"), call("b")]),
        result("a", "A"),
        result("b", "B"),
        Message::user("and?", 2),
    ];
    assert_eq!(replay(&messages, &model(), Ids::Keep), expected);
}

#[test]
fn a_call_without_a_result_is_answered_with_an_error() {
    let messages =
        [result("q", "Q"), said(own(), vec![call("a")]), said(own(), vec![Block::text("so"), call("b")])];
    let expected = [
        said(own(), vec![call("a")]),
        missing("a"),
        said(own(), vec![Block::text("so"), call("b")]),
        missing("b"),
    ];
    assert_eq!(replay(&messages, &model(), Ids::Keep), expected);
}

#[test]
fn the_second_result_of_a_call_is_dropped() {
    let messages = [said(own(), vec![call("a")]), result("a", "first"), result("a", "second")];
    assert_eq!(replay(&messages, &model(), Ids::Keep), messages[..2]);
}

#[test]
fn a_message_that_failed_or_was_stopped_is_left_out_with_its_results() {
    for reason in [StopReason::Error, StopReason::Aborted] {
        let messages = [
            Message::user("hi", 1),
            said(own(), vec![call("a")]),
            ended(own(), vec![Block::text("half"), call("b")], reason),
            result("b", "B"),
            result("a", "A"),
            Message::user("again", 2),
        ];
        let expected = [messages[0].clone(), messages[1].clone(), messages[4].clone(), messages[5].clone()];
        assert_eq!(replay(&messages, &model(), Ids::Keep), expected);
    }
}

#[test]
fn the_result_of_a_call_that_is_left_out_does_not_answer_another_of_the_same_id() {
    let messages = [
        said(own(), vec![call("a")]),
        ended(own(), vec![call("a")], StopReason::Aborted),
        result("a", "of the second"),
    ];
    assert_eq!(replay(&messages, &model(), Ids::Keep), [said(own(), vec![call("a")]), missing("a")]);
}

#[test]
fn the_same_model_gets_its_thoughts_and_signatures_back() {
    let mut signed_call = call("c|fc_1");
    if let Block::ToolCall { thought_signature, .. } = &mut signed_call {
        *thought_signature = Some("deep".into());
    }
    let content = vec![
        thought("hm", Some("sig"), false),
        thought("", Some("sealed"), true),
        thought("aloud", None, false),
        signed("yes"),
        signed_call,
    ];
    let messages = [said(own(), content), result("c|fc_1", "C")];
    assert_eq!(replay(&messages, &model(), Ids::Pair), messages);
}

#[test]
fn another_model_gets_thoughts_as_plain_text_and_no_signatures() {
    let mut signed_call = call("c|fc_1");
    if let Block::ToolCall { thought_signature, .. } = &mut signed_call {
        *thought_signature = Some("deep".into());
    }
    let content = vec![
        thought("hm", Some("sig"), false),
        thought("hidden", Some("sealed"), true),
        thought(" ", Some("sig"), false),
        signed("yes"),
        signed_call,
    ];
    let strangers = [
        other(),
        origin("openai", "openai-completions", "gpt-5.2"),
        origin("openai", "openai-responses", "gpt-5.1"),
        origin("azure", "openai-responses", "gpt-5.2"),
    ];
    for stranger in strangers {
        let messages = [said(stranger.clone(), content.clone()), result("c|fc_1", "C")];
        let mut plain = call("c");
        if let Block::ToolCall { arguments, .. } = &mut plain {
            *arguments = json!({"at": "c|fc_1"});
        }
        let words = vec![Block::text("hm"), Block::text("yes"), plain];
        assert_eq!(replay(&messages, &model(), Ids::Pair), [said(stranger, words), result("c", "C")]);
    }
}

#[test]
fn a_message_of_which_nothing_is_left_is_dropped() {
    let messages =
        [said(other(), vec![thought("", Some("sealed"), true)]), said(own(), vec![thought("", None, false)])];
    assert_eq!(replay(&messages, &model(), Ids::Keep), []);
}

#[test]
fn images_become_a_note_for_a_model_that_reads_none() {
    let image = || Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let with = |block: Block| {
        let shown = vec![Block::text("look"), block.clone()];
        let mut answer = result("a", "seen");
        if let Message::ToolResult { content, .. } = &mut answer {
            content.push(block);
        }
        [Message::User { content: shown, timestamp: 1 }, said(own(), vec![call("a")]), answer]
    };
    let blind = ModelInfo { images: false, ..model() };
    assert_eq!(replay(&with(image()), &blind, Ids::Keep), with(Block::text(NO_IMAGE)));
    assert_eq!(replay(&with(image()), &model(), Ids::Keep), with(image()));
}

#[test]
fn a_result_takes_the_name_of_its_call() {
    let mut wrong = result("a", "A");
    if let Message::ToolResult { tool_name, .. } = &mut wrong {
        *tool_name = "elsewhere".into();
    }
    let messages = [said(own(), vec![call("a")]), wrong];
    assert_eq!(replay(&messages, &model(), Ids::Keep)[1], result("a", "A"));
}

#[test]
fn ids_take_the_form_a_format_asks_for() {
    let long = "x".repeat(70);
    let cases = [
        (Ids::Plain40, "call_123|fc_456", "call123fc456"),
        (Ids::Plain40, "a", "a"),
        (Ids::Plain40, "toolu_01AbCdEfGh", "toolu01AbCdEfGh"),
        (Ids::Nine, "call_123|fc_456", "call123fc"),
        (Ids::Nine, "a", "86f7e437f"),
        (Ids::Nine, "toolu_01AbCdEfGh", "toolu01Ab"),
        (Ids::Safe64, "functions.look:0|fc", "functions_look_0_fc"),
        (Ids::Safe64, &long, &long[..64]),
        (Ids::Before40, "call.1|fc_2", "call.1"),
        (Ids::Before40, &long, &long[..40]),
        (Ids::Pair, "call.1|fc_2", "call_1|fc_2"),
        (Ids::Pair, "call_1|item_2", "call_1"),
        (Ids::Pair, "call_1|fc 2", "call_1"),
        (Ids::Pair, "toolu_1_", "toolu_1"),
        (Ids::Keep, "any thing|at all", "any thing|at all"),
    ];
    for (ids, id, expected) in cases {
        assert_eq!(ids.normal(id, true), expected, "{ids:?} {id}");
    }
    assert_eq!(Ids::Pair.normal("call_1|fc_2", false), "call_1", "another model's item is not named");
    for ids in EVERY_RULE {
        assert!(obeys(ids, &ids.normal("", true)), "{ids:?}");
        assert!(obeys(ids, &ids.normal("|…|", true)), "{ids:?}");
    }
}

#[test]
fn ids_that_look_the_same_are_told_apart_and_results_follow() {
    let messages = [
        said(other(), vec![call("a.b"), call("a_b"), call("a.b")]),
        result("a.b", "first"),
        result("a_b", "second"),
        result("a.b", "third"),
    ];
    let out = replay(&messages, &model(), Ids::Safe64);
    let answers: Vec<_> = out[1..]
        .iter()
        .map(|message| match message {
            Message::ToolResult { tool_call_id, content, .. } => (tool_call_id.as_str(), content.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let calls = call_ids(&out[0]);
    assert_eq!(calls[0], "a_b");
    let texts = ["first", "second", "third"].map(|text| vec![Block::text(text)]);
    assert_eq!(answers, calls.into_iter().zip(texts).collect::<Vec<_>>());
}

fn call_ids(message: &Message) -> Vec<&str> {
    let blocks = message.content().iter();
    blocks
        .filter_map(|block| if let Block::ToolCall { id, .. } = block { Some(&**id) } else { None })
        .collect()
}

fn obeys(ids: Ids, id: &str) -> bool {
    let plain = id.chars().all(|c| c.is_ascii_alphanumeric());
    let safe = |text: &str| {
        (1..=64).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    match ids {
        Ids::Keep => !id.is_empty(),
        Ids::Safe64 => safe(id),
        Ids::Before40 => (1..=40).contains(&id.chars().count()) && !id.contains('|'),
        Ids::Pair => match id.split_once('|') {
            Some((call, item)) => safe(call) && safe(item) && item.starts_with("fc"),
            None => safe(id),
        },
        Ids::Plain40 => plain && (1..=40).contains(&id.len()),
        Ids::Nine => plain && id.len() == 9,
    }
}

fn any_id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "a.b", "a_b", "a|fc_1", "a|fc_2", "a|x", "call_12345_", "", "|"])
            .prop_map(str::to_owned),
        1 => "[a-z0-9_.|é-]{0,80}",
    ]
}

fn any_block() -> impl Strategy<Value = Block> {
    let text = || prop::sample::select(vec!["", " ", "word"]).prop_map(str::to_owned);
    let signature = || prop::option::of(Just("sig".to_owned()));
    prop_oneof![
        1 => (text(), signature()).prop_map(|(text, text_signature)| Block::Text { text, text_signature }),
        1 => (text(), signature(), any::<bool>()).prop_map(|(thinking, thinking_signature, redacted)| {
            Block::Thinking { thinking, thinking_signature, redacted }
        }),
        3 => any_id().prop_map(|id| call(&id)),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let reasons = vec![
        StopReason::Stop,
        StopReason::ToolUse,
        StopReason::Length,
        StopReason::Error,
        StopReason::Aborted,
    ];
    let image = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    prop_oneof![
        1 => prop::sample::select(vec![Block::text("hello"), image])
            .prop_map(|block| Message::User { content: vec![block], timestamp: 1 }),
        3 => (
            any::<bool>(),
            prop::collection::vec(any_block(), 0..4),
            prop::sample::select(reasons),
        )
            .prop_map(|(mine, content, reason)| {
                ended(if mine { own() } else { other() }, content, reason)
            }),
        4 => (any_id(), "[a-z]{1,3}").prop_map(|(id, text)| result(&id, &text)),
    ]
}

/// A conversation of this model in which nothing needs mending, under any rule but the shortest.
fn right_conversation() -> impl Strategy<Value = Vec<Message>> {
    prop::collection::vec((0..3usize, any::<bool>()), 0..6).prop_map(|turns| {
        let mut messages = Vec::new();
        for (turn, (calls, asked)) in turns.into_iter().enumerate() {
            if asked {
                messages.push(Message::user("go on", 1));
            }
            let mut content = vec![thought("hm", Some("sig"), false), signed("well")];
            content.extend((0..calls).map(|at| call(&format!("call{turn}x{at}"))));
            messages.push(said(own(), content));
            messages.extend((0..calls).map(|at| result(&format!("call{turn}x{at}"), "ok")));
        }
        messages
    })
}

proptest! {
    #[test]
    fn every_call_is_answered_once_and_directly_whatever_the_history(
        messages in prop::collection::vec(any_message(), 0..12),
        rule in 0..EVERY_RULE.len(),
        images in any::<bool>(),
    ) {
        let (ids, model) = (EVERY_RULE[rule], ModelInfo { images, ..model() });
        let out = replay(&messages, &model, ids);
        let mut taken = std::collections::HashSet::new();
        let mut rest = out.as_slice();
        while let [first, tail @ ..] = rest {
            rest = tail;
            prop_assert!(!matches!(first, Message::ToolResult { .. }), "a result without a call");
            for id in call_ids(first) {
                prop_assert!(obeys(ids, id), "{ids:?} {id:?}");
                let unique = if ids == Ids::Pair { id.split('|').next().unwrap() } else { id };
                prop_assert!(taken.insert(unique.to_owned()), "{id:?} twice");
                let Some((Message::ToolResult { tool_call_id, .. }, tail)) = rest.split_first() else {
                    return Err(TestCaseError::fail(format!("{id:?} is not answered")));
                };
                prop_assert_eq!(tool_call_id, id);
                rest = tail;
            }
        }
        prop_assert_eq!(replay(&out, &model, ids), out);
    }

    #[test]
    fn a_conversation_that_is_right_is_not_changed(messages in right_conversation(), rule in 0..5usize) {
        prop_assert_eq!(replay(&messages, &model(), EVERY_RULE[rule]), messages);
    }

    #[test]
    fn what_was_once_written_stays_when_the_conversation_goes_on(
        before in prop::collection::vec(any_message(), 0..8),
        after in prop::collection::vec(any_message(), 0..8),
        rule in 0..EVERY_RULE.len(),
    ) {
        // A new message of the assistant: from then on no result changes what stands before it.
        let turn = vec![said(own(), vec![Block::text("next")])];
        let ids = EVERY_RULE[rule];
        let short = replay(&[before.clone(), turn.clone()].concat(), &model(), ids);
        let long = replay(&[before, turn, after].concat(), &model(), ids);
        prop_assert_eq!(&long[..short.len()], short);
    }
}
